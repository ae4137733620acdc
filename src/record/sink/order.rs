//! The order in which a sink gets its writes.

/// The order in which a recording gives its writes to the sink.
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
    /// Only the writes of one stored event are in order, and only the newest one is pending.
    ///
    /// This is for a sink that stores events: each write holds the whole state of its event, so a
    /// newer one replaces an older one that has not been written yet. A sink that keeps up gets
    /// every change in the order of the events. A slow sink gets fewer and newer states. A write
    /// that is retried delays only its own event.
    #[default]
    PerKey,
    /// Every write reaches the sink, one at a time, in the order of the events.
    ///
    /// This is for a sink that appends, such as a log. A write that is retried delays all later
    /// writes. The recording has one worker.
    Bus,
}
