//! The counters of an incoming side.

use std::fmt;

use crate::remote_status::RemoteStatus;
use eventcast::escape::escape;
use serde::{Deserialize, Serialize};

/// The counters of a [`NatsSubscriber`](crate::NatsSubscriber).
///
/// For a reader of the whole stream without a filter, the events and the gaps of an origin together
/// are what the origin's publisher has acknowledged and lost.
///
/// A message is counted once its last event has been accepted, so a watcher may receive an event a
/// moment before it is counted here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NatsSubscriberStats {
    /// The status of the connection and of the stream. Nothing waits at this side.
    pub status: RemoteStatus,
    /// The number of messages that were read.
    pub messages: u64,
    /// The events that the local bus, or the watcher, has accepted.
    pub events: u64,
    /// The events that are missing, and that were reported as gaps. Undecodable and dropped ones
    /// are part of it.
    pub gaps: u64,
    /// The events that came again, and were passed over.
    pub repeated: u64,
    /// The events of the program's own publishers, which were passed over.
    pub own: u64,
    /// The events that the codec could not read. They are part of `gaps`.
    pub undecodable: u64,
    /// The events for which the local bus had no room, with
    /// [`Overflow::Drop`](crate::Overflow::Drop). They are part of `gaps`.
    pub dropped: u64,
    /// The number of messages that other programs have written, and that were passed over.
    pub foreign: u64,
    /// The number of messages with headers that cannot be right, and that were passed over.
    pub malformed: u64,
    /// The number of messages that the stream no longer has, seen by the jumps of its numbers. It
    /// is counted without a filter only.
    pub missing_messages: u64,
    /// The number of times that the reader began anew at its position.
    pub restarts: u64,
    /// The number of panics of the program's functions that were caught.
    pub panics: u64,
    /// The number of the last message that was read.
    pub sequence: u64,
    /// The number of saves of the position that failed.
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
