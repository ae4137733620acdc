//! The options for an in-memory store. The options determine the store's size, how long the store
//! keeps events, and which rules the store applies.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::record::sink::rules::EVENT_TTL;
use crate::serde_object::object_only;

/// The largest allowed value of `max_events`.
const MAX_EVENTS: usize = 1 << 24;

/// Options for a [`MemorySink`](super::MemorySink).
///
/// The options can be read from a configuration file that uses the setters' names as keys. If a key
/// is missing, the option's default is used. An unknown key causes an error. If a value is out of
/// range, creating the store fails with an error that names the option.
///
/// # Examples
///
/// ```
/// use eventcast::sink::MemorySinkOptions;
/// use std::time::Duration;
///
/// let options = MemorySinkOptions::default().max_events(500).ttl(Duration::from_secs(5400));
/// let read: MemorySinkOptions = serde_json::from_str(r#"{"max_events": 500, "ttl": "1h30m"}"#)?;
/// assert_eq!(read, options);
/// assert!(serde_json::from_str::<MemorySinkOptions>(r#"{"max": 500}"#).is_err());
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "options do nothing until a store is created with them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemorySinkOptions {
    pub(super) max_events: usize,
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) ttl: Duration,
    pub(super) events_v1_rules: bool,
}

/// The fields that `serde` reads for [`MemorySinkOptions`].
#[derive(Deserialize)]
#[serde(
    remote = "MemorySinkOptions",
    default = "MemorySinkOptions::default",
    deny_unknown_fields,
    expecting = "a store's options, as an object"
)]
struct MemorySinkOptionsObject {
    max_events: usize,
    #[serde(deserialize_with = "crate::duration::deserialize")]
    ttl: Duration,
    events_v1_rules: bool,
}

object_only!(MemorySinkOptions, MemorySinkOptionsObject);

impl Default for MemorySinkOptions {
    fn default() -> Self {
        Self { max_events: 10_000, ttl: EVENT_TTL, events_v1_rules: false }
    }
}

impl MemorySinkOptions {
    /// Sets the maximum number of events that the store holds. If a new event is added to a full
    /// store, the least recently written event is evicted. The number must be from 1 to 16,777,216.
    /// Defaults to 10,000.
    pub fn max_events(mut self, events: usize) -> Self {
        self.max_events = events;
        self
    }

    /// Sets how long the store keeps an event after the event's last write. The time must be more
    /// than zero. Defaults to one hour, as on an API server.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.ttl = time;
        self
    }

    /// Sets whether an event with an event time must satisfy all rules that an API server applies
    /// to events.k8s.io/v1. See [`rules`](crate::sink::rules). Defaults to `false`.
    pub fn events_v1_rules(mut self, applies: bool) -> Self {
        self.events_v1_rules = applies;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        let (most, allowed) = (self.max_events, format!("1 to {MAX_EVENTS} events"));
        BuildError::require((1..=MAX_EVENTS).contains(&most), "max_events", most, allowed)?;
        BuildError::require(!self.ttl.is_zero(), "ttl", "0s", "more than zero")
    }
}
