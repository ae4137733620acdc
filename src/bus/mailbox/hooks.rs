//! The closures of the user's that a mailbox calls.

use crate::stats::DropReason;

/// Decides, on the dispatcher, whether a watcher is offered an event.
pub(crate) type FilterHook<T> = Box<dyn FnMut(&T) -> bool + Send>;

/// Learns, on the dispatcher, which events the watcher of this name has just lost, and why.
pub(crate) type OnDrop<T> = Box<dyn FnMut(&str, DropReason, &[T]) + Send>;

/// Learns how many events the queue of the watcher of this name held when a shutdown by deadline
/// gave it up.
pub(crate) type OnAbandon = Box<dyn FnMut(&str, u64) + Send>;
