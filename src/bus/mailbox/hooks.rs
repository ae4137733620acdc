//! The user-supplied closures that a mailbox calls.

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;

/// A closure that decides whether a watcher is offered an event. It runs on the dispatcher.
pub(crate) type FilterHook<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// A closure that receives a watcher's name, the events that the watcher has just lost, and the
/// reason. It runs on the dispatcher.
pub(crate) type OnDrop<T> = Box<dyn FnMut(&str, DropReason, &[T]) + Send>;

/// A closure that receives a watcher's name, and the number of events in its queue that a shutdown
/// with a deadline abandoned. If the dispatcher's thread unwinds, the closure also receives the
/// number of accepted events that were not yet in the queue.
pub(crate) type OnAbandon = Box<dyn FnMut(&str, u64) + Send>;

/// A sender's hooks for lost events. Few watchers have any, so the hooks are in a box.
pub(super) struct LossHooks<T> {
    pub(super) on_drop: Option<OnDrop<T>>,
    pub(super) on_abandon: Option<OnAbandon>,
    /// The number of events abandoned by the sender that have not been reported to `on_abandon`
    /// yet.
    pub(super) unreported: u64,
}

impl<T> LossHooks<T> {
    pub(super) fn new(on_drop: Option<OnDrop<T>>, on_abandon: Option<OnAbandon>) -> Option<Box<Self>> {
        let is_any = on_drop.is_some() || on_abandon.is_some();
        is_any.then(|| Box::new(Self { on_drop, on_abandon, unreported: 0 }))
    }

    /// Reports the number of events that have not been reported yet to `on_abandon`.
    pub(super) fn report(&mut self, name: &str) {
        let events = std::mem::take(&mut self.unreported);
        if let Some(hook) = self.on_abandon.as_mut().filter(|_| events > 0) {
            catch_panic(|| hook(name, events));
        }
    }

    /// Drops each hook separately, because a second panic during the first one would abort the
    /// process.
    pub(super) fn discard(self) {
        catch_panic(|| drop(self.on_drop));
        catch_panic(|| drop(self.on_abandon));
    }
}
