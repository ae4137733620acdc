//! The statements that read a store, with the conditions of a query.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use crate::record::event::{Event, Timestamp};
use crate::record::sink::pages::{PAGE, Page};
use crate::record::sink::query::{Count, EventQuery};
use crate::sync::atomic::AtomicU64;

use super::row::{self, columns, signed};
use super::write::SqliteCounters;

/// Returns the number of events that have not expired.
pub(super) fn held(connection: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM events WHERE expires > ?")?;
    let held: i64 = statement.query_row([row::micros(now)], |row| row.get(0))?;
    Ok(held.unsigned_abs())
}

/// A statement for a query, with its conditions, and the values for them.
struct Conditions {
    sql: String,
    values: Vec<Value>,
}

impl Conditions {
    /// Creates a statement with the conditions that every reading has. `what` lists the columns to
    /// select.
    fn new(what: &str, query: &EventQuery, now: Timestamp) -> Self {
        // The sign keeps SQLite from choosing the index of that column, which would hardly narrow
        // the search: nearly every row expires later.
        let sql = format!("SELECT {what} FROM events WHERE +expires > ?");
        let mut conditions = Self { sql, values: vec![row::micros(now).into()] };
        for (text, condition) in [
            (&query.namespace, " AND namespace = ?"),
            (&query.kind, " AND involvedObjectKind = ? COLLATE NOCASE"),
            (&query.name, " AND involvedObjectName = ?"),
            (&query.uid, " AND involvedObjectUid = ?"),
            (&query.type_, " AND type = ?"),
            (&query.reason, " AND reason = ?"),
        ] {
            if !text.is_empty() {
                conditions.and(condition, text.to_string());
            }
        }
        conditions
    }

    fn and(&mut self, condition: &str, value: impl Into<Value>) {
        self.sql.push_str(condition);
        self.values.push(value.into());
    }
}

/// Returns the events that a query finds. SQLite narrows the rows down, and the query itself
/// decides.
pub(super) fn find(
    connection: &Connection,
    query: &EventQuery,
    now: Timestamp,
    unreadable: &AtomicU64,
) -> rusqlite::Result<Vec<Event>> {
    let mut conditions = Conditions::new(columns!(), query, now);
    if let Some(since) = query.since {
        conditions.and(" AND lastSeen >= ?", row::micros(since));
    }
    if query.after > 0 {
        conditions.and(" AND resourceVersion > ?", signed(query.after));
    }
    // The search begins at the end that is wanted, so that a limit ends it.
    let (limit, order) = match query.count {
        Count::All => (usize::MAX, ""),
        Count::First(events) => (events, ""),
        Count::Last(events) => (events, " DESC"),
    };
    let sql = format!("{} ORDER BY resourceVersion{order}", conditions.sql);
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    let mut found = Vec::new();
    while found.len() < limit {
        let Some(row) = rows.next()? else { break };
        found.extend(row::readable(row, unreadable).filter(|event| query.matches(event)));
    }
    if let Count::Last(_) = query.count {
        found.reverse();
    }
    Ok(found)
}

/// Returns a page of the events that were written after the write of a number, in the order of
/// their last writes.
pub(super) fn page(
    connection: &Connection,
    query: &EventQuery,
    after: u64,
    now: Timestamp,
    unreadable: &AtomicU64,
) -> rusqlite::Result<Page> {
    let reading = connection.unchecked_transaction()?;
    let version = SqliteCounters::read(&reading)?.version;
    let mut page = Page { found: Vec::new(), last: after, version, is_end: true };
    let mut conditions = Conditions::new(columns!(), query, now);
    conditions.and(" AND resourceVersion > ?", signed(after));
    if let Some(since) = query.since {
        // Without the sign, SQLite might choose the index of that column. Each page would then sort
        // all rows that the index finds.
        conditions.and(" AND +lastSeen >= ?", row::micros(since));
    }
    let sql = format!("{} ORDER BY resourceVersion LIMIT {}", conditions.sql, PAGE + 1);
    let mut statement = reading.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(conditions.values))?;
    for _ in 0..PAGE {
        let Some(row) = rows.next()? else { return Ok(page) };
        page.last = row::version_of(row)?;
        page.found.extend(row::readable(row, unreadable).filter(|event| query.matches(event)));
    }
    page.is_end = rows.next()?.is_none();
    Ok(page)
}

/// Returns the number of the write before the first of the last `events` events that the conditions
/// find. Returns 0 if there are fewer.
pub(super) fn start_of_last(
    connection: &Connection,
    query: &EventQuery,
    events: usize,
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let mut conditions = Conditions::new("resourceVersion", query, now);
    conditions.and(" AND resourceVersion > ?", signed(query.after));
    if let Some(since) = query.since {
        conditions.and(" AND +lastSeen >= ?", row::micros(since));
    }
    conditions
        .and(" ORDER BY resourceVersion DESC LIMIT 1 OFFSET ?", signed(events.saturating_sub(1) as u64));
    let mut statement = connection.prepare_cached(&conditions.sql)?;
    let first: Option<i64> =
        statement.query_row(params_from_iter(conditions.values), |row| row.get(0)).optional()?;
    Ok(first.map_or(0, |version| version.unsigned_abs().saturating_sub(1)))
}
