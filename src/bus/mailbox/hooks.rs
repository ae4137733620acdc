//! The user-supplied closures that a mailbox calls.

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;

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

/// A sender's hooks for lost events. The hooks are boxed, because few watchers have any.
pub(super) struct LossHooks<T> {
    pub(super) on_drop: Option<OnDrop<T>>,
    pub(super) on_abandon: Option<OnAbandon>,
    /// The number of events that the sender has abandoned but not yet reported to `on_abandon`.
    pub(super) unreported: u64,
}

impl<T> LossHooks<T> {
    pub(super) fn new(on_drop: Option<OnDrop<T>>, on_abandon: Option<OnAbandon>) -> Option<Box<Self>> {
        let is_any = on_drop.is_some() || on_abandon.is_some();
        is_any.then(|| Box::new(Self { on_drop, on_abandon, unreported: 0 }))
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
    }
}
