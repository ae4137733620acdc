//! Events from other processes, with their positions in the stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use eventcast::Delivery;

use crate::positions::Reached;

/// An event from another process, with its position in the stream.
///
/// The pair of `origin` and `position` is unique for each event, so you can use it to recognise
/// events that you have already handled.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remote<T> {
    /// The event.
    pub event: T,
    /// The identity of the publisher, which changes each time the publisher starts.
    pub origin: Arc<str>,
    /// The event's position among all of the origin's events, including lost events.
    pub position: u64,
    /// The number of the event's message in the stream.
    pub stream_sequence: u64,
    /// The time at which the server stored the message.
    pub at: SystemTime,
}

impl<T> Remote<T> {
    pub(crate) fn new(
        event: T,
        origin: Arc<str>,
        position: u64,
        stream_sequence: u64,
        at: SystemTime,
    ) -> Self {
        Self { event, origin, position, stream_sequence, at }
    }
}

/// The items of one message, and the mark to send back once the items have been received.
pub(crate) struct Chunk<T> {
    pub(crate) items: VecDeque<Delivery<Remote<T>>>,
    pub(crate) mark: Option<Mark>,
}

/// The position of a message that the watcher has received.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The number of the message, or `None` if only a part of the message was received.
    pub(crate) sequence: Option<u64>,
    /// The position after the last event that was received, if the message belongs to an origin.
    pub(crate) reached: Option<Reached>,
}
