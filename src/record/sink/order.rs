//! The order in which a sink receives its writes.

/// The order in which a recording passes its writes to the sink.
///
/// # Examples
///
/// ```
/// use eventcast::sink::WriteOrder;
/// use eventcast::{EventBroadcaster, MemorySink};
///
/// let events = EventBroadcaster::new()?;
/// events.recording().order(WriteOrder::Bus).start(MemorySink::new())?;
/// assert_eq!(WriteOrder::default(), WriteOrder::PerKey);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum WriteOrder {
    /// Only writes for the same stored event are in order, and only the newest of them is pending.
    ///
    /// Use this order for a sink that stores events. Each write holds the complete state of its
    /// event, so a newer write replaces an older one that is still pending. A sink that keeps up
    /// receives every change in the order of the events, while a slow sink receives fewer and newer
    /// states. A retried write delays only its own event.
    #[default]
    PerKey,
    /// Every write reaches the sink, one at a time, in the order of the events.
    ///
    /// Use this order for a sink that appends, such as a log. A retried write delays all later
    /// writes. The recording has only one worker.
    Bus,
}
