//! What can be asked of a store.

use rusqlite::{Connection, ToSql, params};

use crate::event::{Event, ObjectReference, Timestamp};
use crate::sink::{EventQuery, table};
use crate::sync::atomic::{AtomicU64, Ordering};

use super::error::SqliteError;
use super::row::{self, columns, signed};
use super::write::Counters;
use super::{SqliteChanges, SqliteSink, SqliteSinkStats};

/// Each of these reads what had been committed when it began, waits for no writer, and holds up
/// none. A row that somebody else has written and that holds no event is left out, and counted in
/// [`SqliteSinkStats::unreadable`].
///
/// # Errors
///
/// What is the matter with the file: above all [`Corrupt`](super::SqliteErrorKind::Corrupt), and
/// [`Io`](super::SqliteErrorKind::Io).
impl SqliteSink {
    /// All events, in the order of their last writes.
    pub fn events(&self) -> Result<Vec<Event>, SqliteError> {
        self.find(&EventQuery::new())
    }

    /// The event of this name. A row of this name that holds no event is the error
    /// [`Corrupt`](super::SqliteErrorKind::Corrupt).
    pub fn get(&self, namespace: &str, name: &str) -> Result<Option<Event>, SqliteError> {
        let now = self.now();
        self.read(|connection| {
            let sql = concat!(
                "SELECT ",
                columns!(),
                " FROM events WHERE namespace = ? AND name = ? AND expires > ?"
            );
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query(params![namespace, name, row::micros(now)])?;
            rows.next()?.map(row::event_of).transpose()
        })
    }

    /// The events that are looked for, in the order of their last writes.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-find-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventQuery, EventSink, SqliteSink};
    ///
    /// let store = SqliteSink::open(&path)?;
    /// for (name, reason) in [("web-0.1", "Started"), ("web-0.2", "BackOff")] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     event.reason = reason.into();
    ///     store.create(&event)?;
    /// }
    /// let found = store.find(&EventQuery::new().reason("BackOff"))?;
    /// assert_eq!(found[0].metadata.name, "web-0.2");
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find(&self, query: &EventQuery) -> Result<Vec<Event>, SqliteError> {
        let now = self.now();
        self.read(|connection| find(connection, query, now, &self.shared.unreadable))
    }

    /// The events as `kubectl get events` shows them, as [`MemorySink::table`](crate::MemorySink::table).
    pub fn table(&self) -> Result<String, SqliteError> {
        self.table_of(&EventQuery::new())
    }

    /// As [`table`](Self::table), of the events that are looked for.
    pub fn table_of(&self, query: &EventQuery) -> Result<String, SqliteError> {
        Ok(table::render(&self.find(query)?, self.now()))
    }

    /// The events about an object as the section `Events` of `kubectl describe` shows them, as
    /// [`MemorySink::describe`](crate::MemorySink::describe).
    pub fn describe(&self, object: impl Into<ObjectReference>) -> Result<String, SqliteError> {
        Ok(table::describe(self.find(&EventQuery::new().object(object))?, self.now()))
    }

    /// How many events there are. It takes a moment: they are counted.
    pub fn len(&self) -> Result<usize, SqliteError> {
        let now = self.now();
        self.read(|connection| Ok(held(connection, now)? as usize))
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> Result<bool, SqliteError> {
        Ok(self.len()? == 0)
    }

    /// What has become of all events that this file ever held, whichever process wrote them.
    pub fn stats(&self) -> Result<SqliteSinkStats, SqliteError> {
        let now = self.now();
        self.read(|connection| {
            let reading = connection.unchecked_transaction()?;
            let counters = Counters::read(&reading)?;
            let stored = held(&reading, now)?;
            let size: i64 = reading.query_row(
                "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
                [],
                |row| row.get(0),
            )?;
            Ok(SqliteSinkStats {
                stored,
                created: counters.created,
                updated: counters.updated,
                // With those that have not been removed yet, but are not shown either.
                expired: counters.expired + counters.rows().saturating_sub(stored),
                evicted: counters.evicted,
                bytes: size.unsigned_abs(),
                max_events: counters.max_events,
                // Relaxed: only the number counts.
                unreadable: self.shared.unreadable.load(Ordering::Relaxed),
            })
        })
    }

    /// What was written after the write of this number, for whoever follows the store, also from another process: a
    /// number is a resource version, 0 before the first one, and each write of an event has the next.
    ///
    /// An event that was written several times meanwhile comes once, as it is now. Of events that have expired or made
    /// room meanwhile there is nothing. A number from another file means nothing here; one that is larger than
    /// [`SqliteChanges::version`] is a sign of that.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-changes-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink, SqliteSink};
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
            let newest = Counters::read(&reading)?.version;
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

fn held(connection: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM events WHERE expires > ?")?;
    let held: i64 = statement.query_row([row::micros(now)], |row| row.get(0))?;
    Ok(held.unsigned_abs())
}

/// SQLite narrows it down, the query itself decides.
fn find(
    connection: &Connection,
    query: &EventQuery,
    now: Timestamp,
    unreadable: &AtomicU64,
) -> rusqlite::Result<Vec<Event>> {
    let now = row::micros(now);
    let since = query.since.map(row::micros);
    let mut parameters: Vec<&dyn ToSql> = vec![&now];
    // The sign keeps SQLite from choosing the index of that column: nearly every event is younger.
    let mut sql = concat!("SELECT ", columns!(), " FROM events WHERE +expires > ?").to_owned();
    let texts = [
        (&query.namespace, " AND namespace = ?"),
        (&query.kind, " AND involvedObjectKind = ? COLLATE NOCASE"),
        (&query.name, " AND involvedObjectName = ?"),
        (&query.uid, " AND involvedObjectUid = ?"),
        (&query.type_, " AND type = ?"),
        (&query.reason, " AND reason = ?"),
    ];
    let texts: Vec<(&str, &str)> = texts.iter().map(|(text, sql)| (text.as_str(), *sql)).collect();
    for (text, condition) in &texts {
        if !text.is_empty() {
            parameters.push(text);
            sql.push_str(condition);
        }
    }
    if let Some(since) = &since {
        parameters.push(since);
        sql.push_str(" AND lastSeen >= ?");
    }
    // From the newest, so that a limit ends the search.
    sql.push_str(" ORDER BY resourceVersion DESC");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(&*parameters)?;
    let mut found = Vec::new();
    let limit = query.limit.unwrap_or(usize::MAX);
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        found.extend(row::readable(row, unreadable).filter(|event| query.matches(event)));
    }
    found.reverse();
    Ok(found)
}
