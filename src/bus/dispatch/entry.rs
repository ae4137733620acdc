//! Control entries, flush tickets and refused entries.

use crate::bus::mailbox::{Entry, MailboxSender};
use crate::bus::options::Start;
use crate::bus::state::{Refusal, WatcherState};
use crate::sync::{Arc, Mutex};

/// An entry that the bus did not accept, with the reason for the refusal.
pub(crate) struct Refused<T>(pub(crate) Entry<T>, pub(crate) Refusal);

/// A control entry, which has a place among the events but does not contain any events.
pub(crate) enum Control<T> {
    /// A registration, with the point in the order of events at which the watcher starts.
    Register(Box<MailboxSender<T>>, Start),
    Flush(Arc<FlushTicket>),
    /// A gap for every watcher, with the number of missing events.
    Gap(u64),
}

impl<T> Control<T> {
    /// If the entry registers a watcher that publishers may have to wait for, returns the number of
    /// events that the watcher has capacity for. Any other entry does not change the capacity, so
    /// this returns `usize::MAX`.
    pub(super) fn credit_at_first(&self) -> usize {
        match self {
            Self::Register(sender, _) if sender.state.policy.waits() => sender.state.capacity() as usize,
            _ => usize::MAX,
        }
    }
}

/// The next step of the fan-out.
pub(super) enum Step<T> {
    Offer(Entry<T>),
    Control(Control<T>),
}

/// The handlers that one flush waits for. The dispatcher records these handlers when it reaches the
/// flush.
#[derive(Default)]
pub(crate) struct FlushTicket {
    /// The handlers that the flush may still have to wait for, or `None` until the dispatcher
    /// reaches the flush.
    handlers: Mutex<Option<Handlers>>,
    /// The only handler that the flush waits for, or `None` if the flush waits for all handlers.
    pub(crate) only: Option<Arc<WatcherState>>,
}

/// A list of handlers, each with the offset that it must reach.
pub(crate) type Handlers = Vec<(u64, Arc<WatcherState>)>;

impl FlushTicket {
    /// Records that the dispatcher has reached the flush, and the offset that each handler must
    /// reach.
    pub(crate) fn reach(&self, mut handlers: Handlers) {
        handlers.retain(|(_, state)| self.only.as_ref().is_none_or(|only| Arc::ptr_eq(only, state)));
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
