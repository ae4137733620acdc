//! The user's closures that a mailbox calls.

use crate::counters::DropReason;

/// A closure that decides, on the dispatcher, whether a watcher is offered an event.
pub(crate) type FilterHook<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// A closure that receives, on the dispatcher, the name of a watcher, the events that this watcher
/// has just lost, and the reason.
pub(crate) type OnDrop<T> = Box<dyn FnMut(&str, DropReason, &[T]) + Send>;

/// A closure that receives the name of a watcher, and the number of events in its queue that a
/// shutdown by deadline gave up. If the dispatcher's thread unwinds, the closure also receives the
/// number of accepted events that were not yet in the queue.
pub(crate) type OnAbandon = Box<dyn FnMut(&str, u64) + Send>;
