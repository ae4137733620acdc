//! The counters and changes that a `SqliteSink` reports.

use std::fmt;

use eventcast::Event;
use serde::{Deserialize, Serialize};

/// The counters of a [`SqliteSink`](crate::SqliteSink). At any time,
/// `created = stored + expired + evicted`.
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-sink-stats-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast::{Event, EventSink};
/// use eventcast_sqlite::SqliteSink;
///
/// let store = SqliteSink::open(&path)?;
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// store.create(&event)?;
/// let stats = store.stats()?;
/// assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
/// assert!(stats.to_string().starts_with("stored 1, created 1, updated 0, expired 0, evicted 0, "));
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SqliteSinkStats {
    /// The number of events that the store currently holds.
    pub stored: u64,
    /// The number of events that have been created since the file was created.
    pub created: u64,
    /// The number of updates and patches of stored events.
    pub updated: u64,
    /// The number of events that have expired because they had not been written for longer than
    /// their time to live. Whether an event whose row still exists has expired depends on the
    /// current time. If the clock is set back, events that are no longer expired are subtracted
    /// from this number.
    pub expired: u64,
    /// The number of events that were evicted because the file held too many events.
    pub evicted: u64,
    /// The size of the database in bytes, excluding the log next to the database. The store reuses
    /// the space that removed events occupied.
    pub bytes: u64,
    /// The maximum number of events in the file. See
    /// [`max_events`](crate::SqliteSinkOptions::max_events).
    pub max_events: u64,
    /// The number of rows that reads skipped because the rows do not contain a valid event. Only
    /// reads through this store and its clones are counted, starting when the store was opened. A
    /// row that is read twice is counted twice.
    pub unreadable: u64,
}

impl fmt::Display for SqliteSinkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, created, updated, expired, evicted, bytes, max_events, unreadable } = self;
        write!(
            f,
            "stored {stored}, created {created}, updated {updated}, expired {expired}, evicted {evicted}, \
             {bytes} bytes, at most {max_events} events, {unreadable} unreadable"
        )
    }
}

/// The events written to a [`SqliteSink`](crate::SqliteSink) after a given write, as returned by
/// [`changes_since`](crate::SqliteSink::changes_since).
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-sink-changes-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast::{Event, EventSink};
/// use eventcast_sqlite::{SqliteChanges, SqliteSink};
///
/// let store = SqliteSink::open(&path)?;
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// store.create(&event)?;
/// let SqliteChanges { events, version, .. } = store.changes_since(0)?;
/// assert_eq!((events.len(), version), (1, 1));
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SqliteChanges {
    /// The events, in the order of their last writes.
    pub events: Vec<Event>,
    /// The number of the last write to the file. To continue after this write, pass this number to
    /// the next call to `changes_since`.
    pub version: u64,
}
