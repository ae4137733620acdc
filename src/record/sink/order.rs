//! The orders in which a sink can receive its writes.

/// Specifies the order in which a recording passes its writes to the sink.
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
    /// Writes are ordered only if they concern the same stored event, and only the newest such
    /// write is pending.
    ///
    /// Use this order for a sink that stores events. Each write holds the complete state of its
    /// event, so a newer write replaces an older write that is still pending. If the sink keeps up,
    /// it receives every change in the order of the events. If the sink is slow, it receives fewer
    /// and newer states. Retrying a write delays only the event that it concerns.
    #[default]
    PerKey,
    /// The sink receives every write, one at a time, in the order of the events.
    ///
    /// Use this order for a sink that appends, such as a log. Retrying a write delays all later
    /// writes. With this order, the recording has only one worker.
    Bus,
}
