//! The reason why a watcher has ended.

/// The reason why a watcher has ended, as returned by
/// [`Watcher::end_reason`](crate::Watcher::end_reason) and
/// [`WatchHandle::end_reason`](crate::WatchHandle::end_reason).
///
/// # Examples
///
/// ```
/// use eventcast::bus::EndReason;
/// use eventcast::{Broadcaster, OverflowPolicy};
///
/// let bus = Broadcaster::new()?;
/// let mut client = bus.watch_builder().queue_capacity(2).overflow(OverflowPolicy::Evict).watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// assert_eq!(client.events().collect::<Vec<_>>(), [1, 2]);
/// assert_eq!(client.end_reason(), Some(EndReason::Evicted));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum EndReason {
    /// The bus has ended, and everything it accepted has been offered or abandoned.
    Closed,
    /// The watcher was stopped or dropped before its reader reached the end, its filter or its [key
    /// function](crate::WatchBuilder::conflate_by) panicked, or its handler [ended
    /// itself](crate::WatchBuilder::spawn_while) or was [ended by a
    /// panic](crate::WatchBuilder::stop_on_panic).
    Stopped,
    /// An event did not fit into the queue of a watcher with the policy
    /// [`Evict`](crate::OverflowPolicy::Evict).
    Evicted,
}
