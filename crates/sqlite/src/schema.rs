//! Defines the tables, and the steps that upgrade a file from an earlier version.

use eventcast::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, TransactionBehavior};

use crate::options::MAX_EVENTS;
use crate::row::{self, signed};

/// The application id `evca`, which distinguishes a store from another program's database.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"evca");

/// The version of the files that this library writes, which is stored as `user_version`.
pub(crate) const VERSION: i32 = 5;

/// The steps that upgrade a file from each version to the next. The first step creates the tables
/// in an empty file. A step must never change once it has been released.
#[allow(clippy::cast_sign_loss, reason = "it is not negative")]
const STEPS: [&str; VERSION as usize] = [
    // Step 1 creates the table of events, and the table of the counters that the store keeps in
    // addition to the events. The key of an event's row is the number of the event's last write.
    // The least recently written event is therefore in the first row, and a follower can continue
    // from the number at which it stopped.
    "CREATE TABLE store (
        born INTEGER NOT NULL,
        resourceVersion INTEGER NOT NULL,
        created INTEGER NOT NULL,
        updated INTEGER NOT NULL,
        expired INTEGER NOT NULL,
        evicted INTEGER NOT NULL
    );
    CREATE TABLE events (
        resourceVersion INTEGER PRIMARY KEY,
        namespace TEXT NOT NULL,
        name TEXT NOT NULL,
        lastSeen TEXT,
        type TEXT NOT NULL,
        reason TEXT NOT NULL,
        involvedObjectKind TEXT NOT NULL,
        involvedObjectNamespace TEXT NOT NULL,
        involvedObjectName TEXT NOT NULL,
        count INTEGER NOT NULL,
        message TEXT NOT NULL,
        firstTimestamp TEXT,
        lastTimestamp TEXT,
        eventTime TEXT,
        action TEXT NOT NULL,
        sourceComponent TEXT NOT NULL,
        sourceHost TEXT NOT NULL,
        reportingComponent TEXT NOT NULL,
        reportingInstance TEXT NOT NULL,
        involvedObjectUid TEXT NOT NULL,
        involvedObjectApiVersion TEXT NOT NULL,
        involvedObjectResourceVersion TEXT NOT NULL,
        involvedObjectFieldPath TEXT NOT NULL,
        uid TEXT NOT NULL,
        creationTimestamp TEXT,
        rest TEXT,
        expires TEXT NOT NULL
    );
    CREATE UNIQUE INDEX eventsByName ON events (namespace, name);
    CREATE INDEX eventsByExpiry ON events (expires);",
    // Step 2 creates indexes for the conditions of queries. Each index entry also contains the
    // row's key, so rows with the same value are in the order in which they were written.
    "CREATE INDEX eventsByObject ON events (involvedObjectName, involvedObjectKind COLLATE NOCASE);
    CREATE INDEX eventsByType ON events (type);
    CREATE INDEX eventsByReason ON events (reason);
    CREATE INDEX eventsByLastSeen ON events (lastSeen);",
    // Step 3 adds the limit, which applies to all processes that write to the file, and the time of
    // the last write, in microseconds since 1970.
    "ALTER TABLE store ADD COLUMN maxEvents INTEGER NOT NULL DEFAULT 100000;
    ALTER TABLE store ADD COLUMN written INTEGER NOT NULL DEFAULT 0;
    UPDATE store SET maxEvents = max(maxEvents, created - expired - evicted);",
    // Step 4 creates an index that finds the events in a namespace in the order in which they were
    // written, so that a search can stop at a limit or at the end of a page.
    "CREATE INDEX eventsByNamespace ON events (namespace);",
    // Step 5 replaces indexes so that new entries are close to the most recent entries. Consecutive
    // events are usually about different objects and namespaces, so in a plain index by object,
    // each event would change a different page. A write would then spend most of its time writing
    // these pages, particularly in a large file.
    // - The names that recorders generate end with the time in 16 hexadecimal digits. These digits
    //   are the first column of the index by name, so new events are added near the end of the
    //   index.
    // - The first column of the indexes by object and by namespace is the number of the part that
    //   contains the version (see `PART` in `select`). New events are added to the last part.
    "DROP INDEX eventsByName;
    CREATE UNIQUE INDEX eventsByName ON events (substr(name, -16), namespace, name);
    DROP INDEX eventsByObject;
    CREATE INDEX eventsByObject ON events
        (resourceVersion / 4096, involvedObjectName, involvedObjectKind COLLATE NOCASE);
    DROP INDEX eventsByNamespace;
    CREATE INDEX eventsByNamespace ON events (resourceVersion / 4096, namespace);",
];

/// Upgrades the file in one transaction, so that either all steps take effect or none of them do.
pub(crate) fn migrate(connection: &mut Connection, now: Timestamp) -> rusqlite::Result<()> {
    if user_version(connection)? == VERSION {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have upgraded the file in the meantime.
    let version = user_version(&transaction)?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(STEPS.len())) {
        transaction.execute_batch(step)?;
    }
    if version == 0 {
        let sql = "INSERT INTO store (born, resourceVersion, created, updated, expired, evicted, maxEvents, written) \
            VALUES (?, 0, 0, 0, 0, 0, ?, ?)";
        let created_at = signed(now.as_nanos().unsigned_abs() as u64);
        transaction.execute(sql, [created_at, signed(MAX_EVENTS as u64), row::unix_micros(now)])?;
    }
    if version < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.commit()
}

pub(crate) fn user_version(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(crate) fn application_id(connection: &Connection) -> rusqlite::Result<i32> {
    connection.pragma_query_value(None, "application_id", |row| row.get(0))
}

/// Returns whether the database is empty, which means that it contains no tables or other schema
/// objects.
pub(crate) fn is_empty(connection: &Connection) -> rusqlite::Result<bool> {
    let is_empty = "SELECT NOT EXISTS (SELECT 1 FROM sqlite_master)";
    connection.query_row(is_empty, [], |row| row.get(0))
}

/// The reason why a file's indexes cannot be restored.
pub(crate) enum IndexError {
    /// An index cannot be recreated, or differs from the index that the steps create.
    Wrong(String),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for IndexError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Recreates indexes that have been dropped. Without the index for names, two events could have the
/// same name.
pub(crate) fn restore_indexes(connection: &mut Connection) -> Result<(), IndexError> {
    // The steps define which indexes must exist.
    let model = Connection::open_in_memory()?;
    for step in STEPS {
        model.execute_batch(step)?;
    }
    let mut statement =
        model.prepare("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")?;
    let indexes = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut missing = Vec::new();
    for index in indexes {
        let (name, sql): (String, String) = index?;
        match definition(connection, &name)? {
            None => missing.push((name, sql)),
            Some(found) if words(&found) == words(&sql) => {}
            Some(_) => return Err(IndexError::Wrong(format!("the index {name} has been altered"))),
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    for (name, sql) in missing {
        // Another process may have recreated the index in the meantime.
        if definition(&transaction, &name)?.is_none() {
            transaction.execute_batch(&sql).map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) => {
                    IndexError::Wrong(format!("the index {name} was dropped, and {error}"))
                }
                _ => IndexError::Sqlite(error),
            })?;
        }
    }
    Ok(transaction.commit()?)
}

/// Returns the statement that created an index, or `None` if there is no such index.
fn definition(connection: &Connection, name: &str) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT sql FROM sqlite_master WHERE type = 'index' AND name = ?";
    connection.query_row(sql, [name], |row| row.get(0)).optional()
}

/// Returns the words of a statement, ignoring whitespace.
fn words(sql: &str) -> Vec<&str> {
    sql.split_whitespace().collect()
}
