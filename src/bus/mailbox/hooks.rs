//! The user-supplied closures that a mailbox calls.

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;

use super::conflating::Keys;

/// A closure that decides whether an event is offered to a watcher. The closure runs on the
/// dispatcher.
pub(crate) type FilterHook<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// A closure that receives a watcher's name, the events that the watcher has just lost, and the
/// reason for the loss. The closure runs on the dispatcher.
pub(crate) type OnDrop<T> = Box<dyn FnMut(&str, DropReason, &[T]) + Send>;

/// A closure that receives a watcher's name, and the number of events in the watcher's queue that a
/// shutdown with a deadline has abandoned. If the dispatcher's thread unwinds, the closure also
/// receives the number of accepted events that were not yet in the queue.
pub(crate) type OnAbandon = Box<dyn FnMut(&str, u64) + Send>;

/// A sender's hooks, except for the filter. The hooks are boxed, because few watchers have any.
pub(crate) struct Hooks<T> {
    pub(crate) on_drop: Option<OnDrop<T>>,
    pub(crate) on_abandon: Option<OnAbandon>,
    /// The keys of a watcher that conflates events.
    pub(crate) keys: Option<Box<dyn Keys<T>>>,
    /// The number of events that the sender has abandoned but not yet reported to `on_abandon`.
    pub(super) unreported: u64,
}

impl<T> Hooks<T> {
    pub(crate) fn new(
        on_drop: Option<OnDrop<T>>,
        on_abandon: Option<OnAbandon>,
        keys: Option<Box<dyn Keys<T>>>,
    ) -> Self {
        Self { on_drop, on_abandon, keys, unreported: 0 }
    }

    pub(super) fn boxed(self) -> Option<Box<Self>> {
        let is_any = self.on_drop.is_some() || self.on_abandon.is_some() || self.keys.is_some();
        is_any.then(|| Box::new(self))
    }

    /// Reports to `on_abandon` how many events have been abandoned since the last report.
    pub(super) fn report(&mut self, name: &str) {
        let events = std::mem::take(&mut self.unreported);
        if let Some(hook) = self.on_abandon.as_mut().filter(|_| events > 0) {
            catch_panic(|| hook(name, events));
        }
    }

    /// Drops each hook separately, because a second panic while the first one is unwinding would
    /// abort the process.
    pub(super) fn discard(self) {
        catch_panic(|| drop(self.on_drop));
        catch_panic(|| drop(self.on_abandon));
        catch_panic(|| drop(self.keys));
    }
}
