//! The entries of the incoming queue: events, and the control entries that have a place among them.

use crate::bus::mailbox::MailboxSender;
use crate::bus::state::WatcherState;
use crate::sync::{Arc, Mutex};

/// An item of the incoming queue.
pub(crate) enum Entry<T> {
    Event(T),
    Batch(Vec<T>),
    Register(Box<MailboxSender<T>>),
    Flush(Arc<FlushTicket>),
    /// This many events are missing here for every watcher.
    Gap(u64),
}

/// The handlers for which one flush waits. The dispatcher records them when it reaches the flush.
#[derive(Debug, Default)]
pub(crate) struct FlushTicket {
    /// The handlers that the flush may still have to wait for, or `None` until the dispatcher
    /// reaches the flush.
    handlers: Mutex<Option<Handlers>>,
}

/// Handlers, each with the offset that it must reach.
pub(crate) type Handlers = Vec<(u64, Arc<WatcherState>)>;

impl FlushTicket {
    /// Records that the dispatcher has reached the flush, and the offset that each handler must
    /// reach.
    pub(crate) fn reach(&self, handlers: Handlers) {
        *self.handlers.lock() = Some(handlers);
    }

    /// Returns the handlers that have neither finished nor reached their offset. Returns `None`
    /// until the dispatcher reaches the flush.
    pub(crate) fn waiting_for(&self) -> Option<Vec<Arc<WatcherState>>> {
        let mut handlers = self.handlers.lock();
        let handlers = handlers.as_mut()?;
        handlers.retain(|(offset, state)| !state.is_finished() && state.handled() < *offset);
        Some(handlers.iter().map(|(_, state)| state.clone()).collect())
    }
}
