//! The entries of the incoming queue: events, and the control entries that have a place among them.

use crate::bus::mailbox::MailboxSender;
use crate::bus::state::{Refusal, WatcherState};
use crate::sync::{Arc, Mutex};

/// An item of the incoming queue.
pub(crate) enum Entry<T> {
    Event(T),
    Batch(Vec<T>),
    Control(Control<T>),
}

/// An entry that did not get into the bus, and the reason.
pub(crate) struct Refused<T>(pub(crate) Entry<T>, pub(crate) Refusal);

/// A control entry. It holds no event, so its size does not depend on the event's. A thread or task
/// that waits with a control entry therefore holds a few bytes, where an [`Entry`] has the size of
/// an event.
pub(crate) enum Control<T> {
    Register(Box<MailboxSender<T>>),
    Flush(Arc<FlushTicket>),
    /// This many events are missing here for every watcher.
    Gap(u64),
}

impl<T> Entry<T> {
    /// Returns the number of events less one, which wraps around for a control entry.
    #[inline]
    pub(crate) fn surplus(&self) -> u64 {
        match self {
            Self::Event(_) => 0,
            Self::Batch(events) => (events.len() as u64).wrapping_sub(1),
            Self::Control(_) => u64::MAX,
        }
    }
}

/// A value that waits to be pushed: an entry, or a control entry that is smaller than an entry.
pub(crate) trait IntoEntry<T>: Sized {
    fn into_entry(self) -> Entry<T>;

    /// Returns the value of the entry that [`into_entry`](Self::into_entry) made, after a full
    /// queue has refused the entry.
    fn from_entry(entry: Entry<T>) -> Self;
}

impl<T> IntoEntry<T> for Entry<T> {
    fn into_entry(self) -> Entry<T> {
        self
    }

    fn from_entry(entry: Entry<T>) -> Self {
        entry
    }
}

impl<T> IntoEntry<T> for Control<T> {
    fn into_entry(self) -> Entry<T> {
        Entry::Control(self)
    }

    fn from_entry(entry: Entry<T>) -> Self {
        let Entry::Control(control) = entry else {
            unreachable!("a control entry was pushed, so a control entry comes back")
        };
        control
    }
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
