//! Reads the events and the counters of a store.

use std::fmt;
use std::sync::atomic::Ordering;

use eventcast::Event;
use eventcast::sink::{EventCursor, EventQuery, QueryLimit};
use rusqlite::params;

use crate::error::SqliteError;
use crate::row::{self, columns, is_named, signed};
use crate::select;
use crate::stats::{SqliteChanges, SqliteSinkStats};
use crate::store::SqliteSink;
use crate::write::SqliteCounters;

/// Each of the following methods reads the data that was committed before the method was called. A
/// read and a write block each other only if the write has to reopen the path. If another program
/// wrote a row that does not contain a valid event, reads skip the row and count it in
/// [`SqliteSinkStats::unreadable`].
///
/// # Errors
///
/// Returns an error that describes what is wrong with the file. The most common kinds of errors are
/// [`Corrupt`](crate::SqliteErrorKind::Corrupt) and [`Io`](crate::SqliteErrorKind::Io).
impl SqliteSink {
    /// Returns all events, in the order of their last writes. An
    /// [`EventTable`](eventcast::sink::EventTable) formats events like the output of `kubectl get
    /// events`.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-events-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let names: Vec<_> = store.events()?.into_iter().map(|event| event.metadata.name).collect();
    /// assert_eq!(names, ["web-0.1", "web-0.2"]);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events(&self) -> Result<Vec<Event>, SqliteError> {
        self.find(&EventQuery::default())
    }

    /// Returns the event with this name, or `None` if there is no such event. Returns a
    /// [`Corrupt`](crate::SqliteErrorKind::Corrupt) error if the row with this name does not
    /// contain a valid event.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-get-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let stored = store.create(&event)?;
    /// assert_eq!(store.get("default", "web-0.1")?, Some(stored));
    /// assert_eq!(store.get("default", "web-0.2")?, None);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Event>, SqliteError> {
        let now = self.now();
        self.read(|connection| {
            let sql = concat!("SELECT ", columns!(), " FROM events WHERE ", is_named!(), " AND expires > ?3");
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![namespace, name, row::micros(now)])?;
            rows.next()?.map(row::event_of).transpose()
        })
    }

    /// Returns the events that match the query, in the order of their last writes.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-find-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// for (name, reason) in [("web-0.1", "Started"), ("web-0.2", "BackOff")] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     event.reason = reason.into();
    ///     store.create(&event)?;
    /// }
    /// let found = store.find(&EventQuery::default().reason("BackOff"))?;
    /// assert_eq!(found[0].metadata.name, "web-0.2");
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self, query: &EventQuery) -> Result<Vec<Event>, SqliteError> {
        let now = self.now();
        self.read(|connection| select::find(connection, query, now, &self.shared.unreadable))
    }

    /// Returns an iterator over the events that match the query, in the order of their last writes.
    /// The iterator uses bounded memory and works like
    /// [`MemorySink::stream`](eventcast::MemorySink::stream), except that an item may be an error.
    /// The iterator ends after an error.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-iter-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let names: Result<Vec<_>, _> =
    ///     store.stream(&EventQuery::default())?.map(|event| Ok::<_, eventcast_sqlite::SqliteError>(event?.metadata.name)).collect();
    /// assert_eq!(names?, ["web-0.1", "web-0.2"]);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stream(&self, query: &EventQuery) -> Result<SqliteEvents, SqliteError> {
        let now = self.now();
        let (version, start) = self.read(|connection| {
            let start = match query.limit {
                QueryLimit::Last(events) => select::start_of_last(connection, query, events, now)?,
                QueryLimit::All | QueryLimit::First(_) => 0,
            };
            Ok((SqliteCounters::read(connection)?.version, start))
        })?;
        Ok(SqliteEvents { store: self.clone(), cursor: EventCursor::new(query, start, version) })
    }

    /// Returns the number of the last write, which is the highest resource version. Returns 0 if no
    /// event has been written yet.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-version-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// assert_eq!(store.version()?, 0);
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// assert_eq!(store.version()?, 1);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn version(&self) -> Result<u64, SqliteError> {
        self.read(|connection| Ok(SqliteCounters::read(connection)?.version))
    }

    /// Returns the number of events. This method takes some time, because SQLite has to count the
    /// rows.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-len-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// assert_eq!(store.len()?, 2);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn len(&self) -> Result<usize, SqliteError> {
        let now = self.now();
        self.read(|connection| Ok(select::held(connection, now)? as usize))
    }

    /// Returns whether the store holds no events.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-is-empty-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// assert!(store.is_empty()?);
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// assert!(!store.is_empty()?);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> Result<bool, SqliteError> {
        Ok(self.len()? == 0)
    }

    /// Returns the file's counters, which cover all events since the file was created, regardless
    /// of which process wrote them.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-stats-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
    ///
    /// let store = SqliteSink::with_options(&path, SqliteSinkOptions::default().max_events(1))?;
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let stats = store.stats()?;
    /// assert_eq!((stats.created, stats.stored, stats.evicted), (2, 1, 1));
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> Result<SqliteSinkStats, SqliteError> {
        let now = self.now();
        self.read(|connection| {
            let reading = connection.unchecked_transaction()?;
            let counters = SqliteCounters::read(&reading)?;
            let stored = select::held(&reading, now)?;
            let size: i64 = reading.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )?;
            Ok(SqliteSinkStats {
                stored,
                created: counters.created,
                updated: counters.updated,
                // The number includes expired events whose rows have not been removed yet, because
                // reads no longer return these events.
                expired: counters.expired + counters.rows().saturating_sub(stored),
                evicted: counters.evicted,
                bytes: size.unsigned_abs(),
                max_events: counters.max_events,
                // Relaxed: only the value matters.
                unreadable: self.shared.unreadable.load(Ordering::Relaxed),
            })
        })
    }

    /// Returns the events that were written after write number `version`. A program can use this
    /// method to follow the store, even from another process. Pass a resource version, or pass 0 to
    /// start before the first write. The writes of events are numbered consecutively.
    ///
    /// If an event has been written several times since write number `version`, the event is
    /// returned once, in its current state. Events that have since expired or been evicted are not
    /// returned. A number from another file is meaningless in this file. If `version` is larger
    /// than [`SqliteChanges::version`], the number belongs to another file.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-changes-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// let follower = SqliteSink::open_read_only(&path)?;
    /// let seen = follower.changes_since(0)?.version;
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let stored = store.create(&event)?;
    ///
    /// let changes = follower.changes_since(seen)?;
    /// assert_eq!(changes.events, [stored]);
    /// assert!(follower.changes_since(changes.version)?.events.is_empty());
    /// # drop((store, follower));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn changes_since(&self, version: u64) -> Result<SqliteChanges, SqliteError> {
        let now = self.now();
        self.read(|connection| {
            let reading = connection.unchecked_transaction()?;
            let newest = SqliteCounters::read(&reading)?.version;
            let sql = concat!(
                "SELECT ",
                columns!(),
                " FROM events WHERE resourceVersion > ? AND +expires > ? ORDER BY resourceVersion"
            );
            let mut statement = reading.prepare_cached(sql)?;
            let mut rows = statement.query(params![signed(version), row::micros(now)])?;
            let mut events = Vec::new();
            while let Some(row) = rows.next()? {
                events.extend(row::readable(row, &self.shared.unreadable));
            }
            Ok(SqliteChanges { events, version: newest })
        })
    }
}

/// An iterator over the events in a [`SqliteSink`] that match a query, in the order of their last
/// writes. The iterator is created by [`SqliteSink::stream`].
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-sqlite-events-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast::sink::EventQuery;
/// use eventcast::{Event, EventSink};
/// use eventcast_sqlite::{SqliteEvents, SqliteSink};
///
/// let store = SqliteSink::open(&path)?;
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// store.create(&event)?;
/// let mut events: SqliteEvents = store.stream(&EventQuery::default())?;
/// assert_eq!(events.next().unwrap()?.metadata.name, "web-0.1");
/// assert!(events.next().is_none());
/// # drop((store, events));
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "it reads nothing by itself"]
pub struct SqliteEvents {
    store: SqliteSink,
    cursor: EventCursor,
}

impl Iterator for SqliteEvents {
    type Item = Result<Event, SqliteError>;

    /// Returns the next event, or `None` if there are no more events. The iterator ends after an
    /// error.
    fn next(&mut self) -> Option<Self::Item> {
        let Self { store, cursor } = self;
        let now = store.now();
        let unreadable = &store.shared.unreadable;
        cursor
            .next(|query, after| {
                store.read(|connection| select::page(connection, query, after, now, unreadable))
            })
            .transpose()
    }
}

impl fmt::Debug for SqliteEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEvents").field("store", &self.store).finish_non_exhaustive()
    }
}
