//! Builds and runs the statements that search a store for the events matching a query.

use std::sync::atomic::AtomicU64;

use eventcast::sink::{EventPage, EventQuery, QueryLimit};
use eventcast::{Event, Timestamp};
use rusqlite::types::Value;
use rusqlite::{Connection, Row, Rows, params_from_iter};

use crate::row::{self, columns, signed};
use crate::write::SqliteCounters;

/// The number of versions in one part of the indexes by object and by namespace. A search for an
/// object goes through the parts one by one, which takes a few microseconds for each part. The
/// definitions of the two indexes contain this number, so the number must never change.
const PART: i64 = 4096;

const IN_PART: &str = " AND resourceVersion / 4096 = ? AND resourceVersion BETWEEN ? AND ?";

/// Returns the number of events that have not expired.
pub(crate) fn held(connection: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut statement = connection.prepare_cached("SELECT count(*) FROM events WHERE expires > ?")?;
    let held: i64 = statement.query_row([row::micros(now)], |row| row.get(0))?;
    Ok(held.unsigned_abs())
}

/// The order in which a search returns its rows.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    OldestFirst,
    NewestFirst,
}

/// A search for the rows that match a query. The search consists of a statement with conditions,
/// and the values for the statement's parameters.
struct Search {
    sql: String,
    values: Vec<Value>,
    /// Whether the search uses an index that is divided into parts.
    has_parts: bool,
    after: i64,
    order: Order,
}

impl Search {
    /// Creates a search for the rows that were written after write number `after`. `what` lists the
    /// columns to select.
    fn new(what: &str, query: &EventQuery, after: u64, order: Order, now: Timestamp) -> Self {
        // The `+` prevents SQLite from using the index on `expires`. This index would hardly narrow
        // down the search, because nearly all rows expire later than `now`.
        let sql = format!("SELECT {what} FROM events WHERE +expires > ?");
        let (is_named, is_in_namespace) = (!query.name.is_empty(), !query.namespace.is_empty());
        let has_parts = is_named || is_in_namespace;
        let values = vec![row::micros(now).into()];
        let mut search = Self { sql, values, has_parts, after: signed(after), order };
        // SQLite does not know how many rows each index would find, so this code chooses the index.
        // It uses the index by object if possible, and otherwise the index by namespace. If the
        // query specifies neither an object name nor a namespace, SQLite chooses the index.
        for (text, condition, is_indexed) in [
            (&query.namespace, "namespace = ?", !is_named),
            (&query.kind, "involvedObjectKind = ? COLLATE NOCASE", is_named),
            (&query.name, "involvedObjectName = ?", true),
            (&query.uid, "involvedObjectUid = ?", false),
            (&query.type_, "type = ?", !has_parts),
            (&query.reason, "reason = ?", !has_parts),
        ] {
            if !text.is_empty() {
                search.and(condition, is_indexed, text.to_string());
            }
        }
        search
    }

    /// Adds the condition that an event was last seen at this time or later. If `may_sort` is true,
    /// SQLite may use the index on `lastSeen` and sort the rows that it finds.
    fn since(mut self, at: Option<Timestamp>, may_sort: bool) -> Self {
        if let Some(at) = at {
            self.and("lastSeen >= ?", may_sort && !self.has_parts, row::micros(at));
        }
        self
    }

    /// Adds a condition. If `is_indexed` is true, SQLite may use an index for the condition.
    fn and(&mut self, condition: &str, is_indexed: bool, value: impl Into<Value>) {
        self.sql.push_str(if is_indexed { " AND " } else { " AND +" });
        self.sql.push_str(condition);
        self.values.push(value.into());
    }

    /// Calls `look` with each row, in the search's order, until `look` returns false.
    fn each(
        mut self,
        connection: &Connection,
        mut look: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        if self.has_parts {
            return self.each_in_parts(connection, look);
        }
        if self.after > 0 {
            self.and("resourceVersion > ?", true, self.after);
        }
        let mut statement = connection.prepare_cached(&self.ordered())?;
        each_row(statement.query(params_from_iter(&self.values))?, &mut look).map(drop)
    }

    /// Works like [`each`](Self::each), but searches the index part by part. A part without
    /// matching rows costs one index lookup.
    fn each_in_parts(
        mut self,
        connection: &Connection,
        mut look: impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
    ) -> rusqlite::Result<()> {
        self.sql.push_str(IN_PART);
        let mut statement = connection.prepare_cached(&self.ordered())?;
        let conditions = self.values.len();
        let (mut low, mut high) = (self.after.saturating_add(1), i64::MAX);
        while let Some(version) = self.next_version(connection, low, high)? {
            let part = version / PART;
            let (first, last) = (low.max(part * PART), high.min((part * PART).saturating_add(PART - 1)));
            self.values.extend([part, first, last].map(Value::from));
            if !each_row(statement.query(params_from_iter(&self.values))?, &mut look)? {
                break;
            }
            self.values.truncate(conditions);
            match self.order {
                Order::OldestFirst if last < high => low = last + 1,
                Order::NewestFirst if first > low => high = first - 1,
                _ => break,
            }
        }
        Ok(())
    }

    fn ordered(&self) -> String {
        let order = match self.order {
            Order::OldestFirst => "",
            Order::NewestFirst => " DESC",
        };
        format!("{} ORDER BY resourceVersion{order}", self.sql)
    }

    /// Returns the version of the first row between `low` and `high`, in the search's order.
    fn next_version(&self, connection: &Connection, low: i64, high: i64) -> rusqlite::Result<Option<i64>> {
        let sql = match self.order {
            Order::OldestFirst => {
                "SELECT min(resourceVersion) FROM events WHERE resourceVersion BETWEEN ? AND ?"
            }
            Order::NewestFirst => {
                "SELECT max(resourceVersion) FROM events WHERE resourceVersion BETWEEN ? AND ?"
            }
        };
        connection.prepare_cached(sql)?.query_row([low, high], |row| row.get(0))
    }
}

/// Calls `look` with each row until `look` returns false. Returns true if every call to `look`
/// returned true.
fn each_row(
    mut rows: Rows<'_>,
    look: &mut impl FnMut(&Row<'_>) -> rusqlite::Result<bool>,
) -> rusqlite::Result<bool> {
    while let Some(row) = rows.next()? {
        if !look(row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the events that match a query. SQLite narrows down the rows, and `EventQuery::matches`
/// makes the final selection.
pub(crate) fn find(
    connection: &Connection,
    query: &EventQuery,
    now: Timestamp,
    unreadable: &AtomicU64,
) -> rusqlite::Result<Vec<Event>> {
    // For a limit on the last events, start with the newest event, so that the search can stop once
    // it has found enough events.
    let (limit, order) = match query.limit {
        QueryLimit::All => (usize::MAX, Order::OldestFirst),
        QueryLimit::First(events) => (events, Order::OldestFirst),
        QueryLimit::Last(events) => (events, Order::NewestFirst),
    };
    let mut found = Vec::new();
    if limit > 0 {
        let reading = connection.unchecked_transaction()?;
        Search::new(columns!(), query, query.after, order, now).since(query.since, true).each(
            &reading,
            |row| {
                found.extend(row::readable(row, unreadable).filter(|event| query.matches(event)));
                Ok(found.len() < limit)
            },
        )?;
    }
    if order == Order::NewestFirst {
        found.reverse();
    }
    Ok(found)
}

/// Returns a page of the events that were written after write number `after`, in the order of their
/// last writes.
pub(crate) fn page(
    connection: &Connection,
    query: &EventQuery,
    after: u64,
    now: Timestamp,
    unreadable: &AtomicU64,
) -> rusqlite::Result<EventPage> {
    let reading = connection.unchecked_transaction()?;
    let version = SqliteCounters::read(&reading)?.version;
    let mut page = EventPage { found: Vec::new(), last: after, version, is_end: true };
    let mut looks = 0;
    // If the search used the index on `lastSeen`, SQLite would have to sort all rows found by that
    // index for each page.
    let search = Search::new(columns!(), query, after, Order::OldestFirst, now).since(query.since, false);
    search.each(&reading, |row| {
        looks += 1;
        page.is_end = looks <= EventPage::LEN;
        if page.is_end {
            page.last = row::version_of(row)?;
            page.found.extend(row::readable(row, unreadable).filter(|event| query.matches(event)));
        }
        Ok(page.is_end)
    })?;
    Ok(page)
}

/// Returns the number of the write that precedes the last `events` events matching the query.
/// Returns 0 if fewer events match.
pub(crate) fn start_of_last(
    connection: &Connection,
    query: &EventQuery,
    events: usize,
    now: Timestamp,
) -> rusqlite::Result<u64> {
    let reading = connection.unchecked_transaction()?;
    let (mut left, mut start) = (events.max(1), 0);
    Search::new("resourceVersion", query, query.after, Order::NewestFirst, now)
        .since(query.since, false)
        .each(&reading, |row| {
            left -= 1;
            if left == 0 {
                start = row::version_of(row)?.saturating_sub(1);
            }
            Ok(left > 0)
        })?;
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::{Connection, EventQuery, IN_PART, Order, Search, Timestamp};
    use crate::schema;
    use eventcast::ObjectReference;

    /// A statement that uses another index would return the same rows, but would read many more
    /// rows.
    #[test]
    fn each_search_uses_its_index() {
        let mut connection = Connection::open_in_memory().unwrap();
        schema::migrate(&mut connection, Timestamp::UNIX_EPOCH).unwrap();
        let all = EventQuery::default().type_("Warning").reason("BackOff").since(Timestamp::UNIX_EPOCH);
        let pod = ObjectReference::new("Pod", "web-0");
        let in_part = "rowid>? AND rowid<?)";
        for (query, index) in [
            (
                all.clone().object(pod.clone().in_namespace("shop")),
                "eventsByObject (<expr>=? AND involvedObjectName=? AND involvedObjectKind=?",
            ),
            (
                all.clone().object(pod),
                "eventsByObject (<expr>=? AND involvedObjectName=? AND involvedObjectKind=?",
            ),
            (all.clone().namespace("shop"), "eventsByNamespace (<expr>=? AND namespace=?"),
        ] {
            for order in [Order::OldestFirst, Order::NewestFirst] {
                let mut search =
                    Search::new("*", &query, 7, order, Timestamp::UNIX_EPOCH).since(query.since, true);
                search.sql.push_str(IN_PART);
                assert_eq!(
                    plan(&connection, &search),
                    [format!("SEARCH events USING INDEX {index} AND {in_part}")]
                );
            }
        }
        let search = Search::new("*", &all, 0, Order::NewestFirst, Timestamp::UNIX_EPOCH);
        assert_eq!(plan(&connection, &search), ["SEARCH events USING INDEX eventsByReason (reason=?)"]);
    }

    fn plan(connection: &Connection, search: &Search) -> Vec<String> {
        let sql = format!("EXPLAIN QUERY PLAN {}", search.ordered());
        let mut statement = connection.prepare(&sql).unwrap();
        let values = vec![""; statement.parameter_count()];
        let plan = statement.query_map(rusqlite::params_from_iter(values), |row| row.get(3)).unwrap();
        plan.map(Result::unwrap).collect()
    }
}
