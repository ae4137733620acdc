//! Events of other processes, with their places.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use eventcast::Delivery;

use crate::positions::Reached;

/// An event of another process, and its place.
///
/// The pair of `origin` and `position` is different for each event, so it serves to recognise one
/// that was handled before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remote<T> {
    /// The event.
    pub event: T,
    /// The identity of the publisher, which is new at each of its starts.
    pub origin: Arc<str>,
    /// The position among all events of the origin, lost ones included.
    pub position: u64,
    /// The number of the message in the stream.
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

/// The items of one message, and the mark to send back when they were received.
pub(crate) struct Chunk<T> {
    pub(crate) items: VecDeque<Delivery<Remote<T>>>,
    pub(crate) mark: Option<Mark>,
}

/// The place of a message that the watcher has received.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    /// The number of the message, or `None` if it was received in part.
    pub(crate) sequence: Option<u64>,
    /// The place after the last event that was received, if the message is an origin's.
    pub(crate) reached: Option<Reached>,
}
