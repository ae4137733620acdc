//! The entries of the incoming queue: events, and the orders that have a place among them.

use crate::bus::mailbox::MailboxSender;
use crate::bus::state::WatcherState;
use crate::sync::{Arc, Mutex};

/// What the incoming queue carries.
pub(crate) enum Entry<T> {
    Event(T),
    Batch(Vec<T>),
    Register(Box<MailboxSender<T>>),
    Flush(Arc<FlushTicket>),
}

/// What a flush waits for, once the dispatcher has come to it.
#[derive(Debug, Default)]
pub(crate) struct FlushTicket {
    /// `None` while the dispatcher has not come to the flush.
    handlers: Mutex<Option<Handlers>>,
}

/// Each with the position that it has to come to.
pub(crate) type Handlers = Vec<(u64, Arc<WatcherState>)>;

impl FlushTicket {
    /// Notes that the dispatcher has come to the flush, and the positions that the handlers have to come to.
    pub(crate) fn reach(&self, handlers: Handlers) {
        *self.handlers.lock() = Some(handlers);
    }

    /// The handlers that are not through; `None` while the dispatcher has not come to the flush.
    pub(crate) fn waiting_for(&self) -> Option<Vec<Arc<WatcherState>>> {
        let mut handlers = self.handlers.lock();
        let handlers = handlers.as_mut()?;
        handlers.retain(|(position, state)| !state.is_finished() && state.handled() < *position);
        Some(handlers.iter().map(|(_, state)| state.clone()).collect())
    }
}
