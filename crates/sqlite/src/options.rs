//! The options of a store in a file: how much it keeps, for how long, and how safely.

use std::fmt;
use std::time::Duration;

use eventcast::error::BuildError;
use eventcast::sink::rules::EVENT_TTL;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// The longest busy timeout: one hour, which in practice is without end. SQLite counts the timeout
/// in an `int` of milliseconds, so there has to be a limit.
const MAX_BUSY_TIMEOUT: Duration = Duration::from_secs(3600);

/// The largest `max_events`.
const LARGEST: usize = 1 << 24;

/// The number of events that a new file may hold, unless it is made with another limit.
pub(crate) const MAX_EVENTS: usize = 100_000;

/// Options of a [`SqliteSink`](crate::SqliteSink).
///
/// They can come from a configuration file, with the setters' names as keys. A key that is left out
/// has its default, and a key that does not exist is an error. A value out of range is an error
/// that names the option when the store is opened.
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

/// The keys of the options, as they are read.
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

/// Reads the options from an object only. A derived implementation would also read a list of their
/// values.
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

/// The stage that a write to a [`SqliteSink`](crate::SqliteSink) has to reach before the store
/// acknowledges it.
///
/// With either value, the file is consistent whatever happened to the process or the machine, as
/// far as the disk keeps its own promises.
///
/// | | the process ends, is killed, or panics | the machine loses its power, or the kernel fails |
/// |---|---|---|
/// | `Full` | nothing that was acknowledged is lost | nothing that was acknowledged is lost |
/// | `Normal` | nothing that was acknowledged is lost | what was acknowledged since the last checkpoint may be lost, the latest first |
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
    /// The write is on the disk: one `fsync` for each batch. The default.
    #[default]
    Full,
    /// The operating system has the write. The disk gets the write at the next checkpoint, when the
    /// write-ahead log has grown to 16 MiB, or when the last process closes the file. Until then a
    /// loss of power may take back the latest writes.
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
    /// Sets the largest number of events that the file holds, 1 to 16,777,216. If there would be
    /// more, the event that was written longest ago makes room.
    ///
    /// The file keeps this limit, for every process that writes to it. `None`, the default, takes
    /// the limit that the file has, which for a new file is 100,000. A number changes the limit of
    /// the file when the store is opened.
    pub fn max_events(mut self, events: impl Into<Option<usize>>) -> Self {
        self.max_events = events.into();
        self
    }

    /// Sets the time for which the store keeps an event after its last write, by the wall clock.
    /// More than zero, default an hour, as an API server keeps events. A write decides when its
    /// event expires, so another value counts from the next write on.
    pub fn ttl(mut self, time: Duration) -> Self {
        self.ttl = time;
        self
    }

    /// Sets the stage that a write has to reach before the store acknowledges it. Default
    /// [`SqliteSynchronous::Full`].
    pub fn synchronous(mut self, stage: SqliteSynchronous) -> Self {
        self.synchronous = stage;
        self
    }

    /// Sets the time for which a write waits while another process writes, before it fails and may
    /// be tried again. 0 to 1 hour, in milliseconds, default 5 seconds.
    pub fn busy_timeout(mut self, time: Duration) -> Self {
        self.busy_timeout = time;
        self
    }

    /// Sets whether opening for writing always reads the whole file, to find damage before the
    /// store writes anything. Default false: opening then reads the whole file only if a log lies
    /// beside it. An unclean end leaves a log there, and another process that writes has one.
    pub fn full_check(mut self, checks: bool) -> Self {
        self.full_check = checks;
        self
    }

    /// Sets whether an event with an event time must satisfy all rules that an API server has for
    /// events.k8s.io/v1. See [`rules`](eventcast::sink::rules). The file does
    /// not keep this choice: each process has its own. Default false.
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
