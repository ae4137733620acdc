//! Options that determine the capacity, expiry and durability of a store in a file.

use std::fmt;
use std::time::Duration;

use eventcast::error::BuildError;
use eventcast::sink::rules::EVENT_TTL;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The maximum busy timeout. One hour is effectively unlimited, but a limit is necessary because
/// SQLite stores the timeout as an `int` number of milliseconds.
const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(3600);

/// The maximum value of `max_events`.
const LARGEST: usize = 1 << 24;

/// The maximum number of events in a new file, unless the file is created with another limit.
pub(crate) const MAX_EVENTS: usize = 100_000;

/// Options of a [`SqliteSink`](crate::SqliteSink).
///
/// The options can be read from a configuration file, in which the keys are the names of the
/// setters. If a key is missing, the option has its default value. An unknown key is an error. If a
/// value is out of range, opening the store returns an error that names the option.
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-options-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
///
/// let options = SqliteSinkOptions::default().max_events(5_000);
/// let store = SqliteSink::with_options(&path, options)?;
///
/// // The limit is the file's, so a process without one of its own has the same.
/// let other = SqliteSink::open(&path)?;
/// assert_eq!(other.stats()?.max_events, 5_000);
/// # drop((store, other));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until a store is opened with them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SqliteSinkOptions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) max_events: Option<usize>,
    #[serde(with = "eventcast::duration")]
    pub(crate) ttl: Duration,
    pub(crate) synchronous: SqliteSynchronous,
    #[serde(with = "eventcast::duration")]
    pub(crate) busy_timeout: Duration,
    pub(crate) full_check: bool,
    pub(crate) events_v1_rules: bool,
}

/// The keys of the options in serialised form.
#[derive(Deserialize)]
#[serde(remote = "SqliteSinkOptions", default = "SqliteSinkOptions::default", deny_unknown_fields)]
struct Keys {
    max_events: Option<usize>,
    #[serde(with = "eventcast::duration")]
    ttl: Duration,
    synchronous: SqliteSynchronous,
    #[serde(with = "eventcast::duration")]
    busy_timeout: Duration,
    full_check: bool,
    events_v1_rules: bool,
}

/// Deserialises the options only from an object. A derived implementation would also accept a list
/// of the options' values.
impl<'de> Deserialize<'de> for SqliteSinkOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;

        impl<'de> Visitor<'de> for Object {
            type Value = SqliteSinkOptions;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a store's options, as an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SqliteSinkOptions, A::Error> {
                Keys::deserialize(MapAccessDeserializer::new(map))
            }
        }

        deserializer.deserialize_map(Object)
    }
}

/// How durable a write to a [`SqliteSink`](crate::SqliteSink) must be before the store acknowledges
/// it.
///
/// With either setting, the file remains consistent after any failure of the process or the
/// machine, provided that the disk honours its own guarantees.
///
/// | | the process ends, is killed, or panics | the machine loses power, or the kernel fails |
/// |---|---|---|
/// | `Full` | no acknowledged write is lost | no acknowledged write is lost |
/// | `Normal` | no acknowledged write is lost | writes acknowledged since the last checkpoint may be lost, the latest first |
///
/// # Examples
///
/// ```
/// use eventcast_sqlite::{SqliteSinkOptions, SqliteSynchronous};
///
/// let full = SqliteSinkOptions::default().synchronous(SqliteSynchronous::Full);
/// assert_eq!(SqliteSinkOptions::default(), full);
/// let read: SqliteSinkOptions = serde_json::from_str(r#"{"synchronous": "normal"}"#)?;
/// assert_eq!(read, full.synchronous(SqliteSynchronous::Normal));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SqliteSynchronous {
    /// The store acknowledges a write once the write is on disk, which takes one `fsync` per batch.
    /// This is the default.
    #[default]
    Full,
    /// The store acknowledges a write once the write has been passed to the operating system. The
    /// write reaches the disk at the next checkpoint, which happens when the write-ahead log has
    /// grown to 16 MiB or when the last process closes the file. Until the checkpoint, a power
    /// failure may undo the most recent writes.
    Normal,
}

impl Default for SqliteSinkOptions {
    fn default() -> Self {
        Self {
            max_events: None,
            ttl: EVENT_TTL,
            synchronous: SqliteSynchronous::Full,
            busy_timeout: Duration::from_secs(5),
            full_check: false,
            events_v1_rules: false,
        }
    }
}

impl SqliteSinkOptions {
    /// Sets the maximum number of events in the file, from 1 to 16,777,216. If a write would exceed
    /// this limit, the least recently written event is evicted.
    ///
    /// The limit is stored in the file and applies to every process that writes to it. With the
    /// default, `None`, the store uses the limit in the file, which is 100,000 for a new file. If
    /// `events` is a number, opening the store changes the limit in the file.
    pub fn max_events(mut self, events: impl Into<Option<usize>>) -> Self {
        self.max_events = events.into();
        self
    }

    /// Sets how long the store keeps an event after the event's last write, as measured by the wall
    /// clock. The time must be greater than zero. Defaults to one hour, which is also how long an
    /// API server keeps events. An event's expiry time is set when the event is written, so a new
    /// time to live applies to an event only from the event's next write.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.ttl = time;
        self
    }

    /// Sets how durable a write must be before the store acknowledges it. Defaults to
    /// [`SqliteSynchronous::Full`].
    pub fn synchronous(mut self, stage: SqliteSynchronous) -> Self {
        self.synchronous = stage;
        self
    }

    /// Sets how long a write waits for another process to finish writing before the write fails
    /// with a retryable error. The timeout can be 0 to 1 hour, with millisecond precision. Defaults
    /// to 5 seconds.
    pub fn busy_timeout(mut self, time: Duration) -> Self {
        self.busy_timeout = time;
        self
    }

    /// Sets whether opening a store for writing always reads the whole file, in order to find
    /// damage before the store writes anything. Defaults to false, which means that the whole file
    /// is read only if there is a log next to it. An unclean shutdown leaves such a log, and a log
    /// also exists while another process is writing.
    pub fn full_check(mut self, checks: bool) -> Self {
        self.full_check = checks;
        self
    }

    /// Sets whether an event with an event time must satisfy all rules that an API server applies
    /// to events.k8s.io/v1. See [`rules`](eventcast::sink::rules). This setting is not stored in
    /// the file, so each process uses its own setting. Defaults to false.
    pub fn events_v1_rules(mut self, applies: bool) -> Self {
        self.events_v1_rules = applies;
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if let Some(events) = self.max_events.filter(|events| !(1..=LARGEST).contains(events)) {
            return Err(BuildError::new("max_events", events, format_args!("1 to {LARGEST} events")));
        }
        if self.ttl.is_zero() {
            return Err(BuildError::new("ttl", "0s", "more than zero"));
        }
        if self.busy_timeout > MAX_BUSY_TIMEOUT {
            return Err(BuildError::new(
                "busy_timeout",
                format_args!("{:?}", self.busy_timeout),
                "at most an hour",
            ));
        }
        Ok(())
    }
}
