//! Counters of the incoming side.

use std::fmt;

use crate::remote_status::RemoteStatus;
use eventcast::escape::escape;
use serde::{Deserialize, Serialize};

/// The counters of a [`NatsSubscriber`](crate::NatsSubscriber).
///
/// If a reader reads the whole stream without a filter, the events from an origin and the missing
/// events in the gaps add up to the events that the origin's publisher counts as acknowledged or
/// lost.
///
/// A message is counted once its last event has been accepted, so a watcher may receive an event
/// slightly before these counters include the event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NatsSubscriberStats {
    /// The status of the connection and of the stream. The incoming side does not use the `waiting`
    /// count of the status.
    pub status: RemoteStatus,
    /// The number of messages that were read.
    pub messages: u64,
    /// The number of events that the local bus or the watcher has accepted.
    pub events: u64,
    /// The number of missing events that were reported as gaps, including undecodable and dropped
    /// events.
    pub gaps: u64,
    /// The number of events that were delivered again and skipped.
    pub repeated: u64,
    /// The number of events that were skipped because the program's own publishers sent them.
    pub own: u64,
    /// The number of events that the codec could not decode. These events are included in `gaps`.
    pub undecodable: u64,
    /// The number of events that were dropped because the local bus was full, with
    /// [`Overflow::Drop`](crate::Overflow::Drop). These events are included in `gaps`.
    pub dropped: u64,
    /// The number of messages that were written by other programs and skipped.
    pub foreign: u64,
    /// The number of messages that were skipped because their headers are invalid.
    pub malformed: u64,
    /// The number of messages that the stream no longer contains, as determined from jumps in the
    /// message numbers. Such messages are counted only if the reader has no filter.
    pub missing_messages: u64,
    /// The number of times that the reader restarted from its position.
    pub restarts: u64,
    /// The number of caught panics in user-supplied functions.
    pub panics: u64,
    /// The number of the last message that was read.
    pub sequence: u64,
    /// The number of failed attempts to save the position.
    pub failed_saves: u64,
}

impl fmt::Display for NatsSubscriberStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, messages, events, gaps, sequence, .. } = self;
        let state = status.state;
        write!(f, "{state}: messages {messages}, events {events}, gaps {gaps}, at message {sequence}")?;
        let rare = [
            ("repeated", self.repeated),
            ("own", self.own),
            ("undecodable", self.undecodable),
            ("dropped", self.dropped),
            ("foreign", self.foreign),
            ("malformed", self.malformed),
            ("missing messages", self.missing_messages),
            ("restarts", self.restarts),
            ("panics", self.panics),
            ("failed saves", self.failed_saves),
        ];
        for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {name} {count}")?;
        }
        match status.failure() {
            Some(failure) => write!(f, ", last failure: {}", escape(failure)),
            None => Ok(()),
        }
    }
}
