//! Writes a batch to the file in one transaction, and returns one result for each operation.

use eventcast::sink::SinkOp;
use eventcast::sink::rules::{self, Rules};
use eventcast::{Clock, Event, SinkError, Text, Timestamp};
use rusqlite::{
    CachedStatement, Connection, ErrorCode, OptionalExtension, Transaction, TransactionBehavior, params,
};

use crate::options::SqliteSinkOptions;
use crate::row::{self, columns, is_named, marks, signed};

/// The maximum number of expired events that one transaction removes, not counting expired events
/// whose names it needs. One transaction also evicts at most this number of events, in addition to
/// one event for each operation. The bound prevents writers from being blocked after a store has
/// been unused for a long time or after its limit has been lowered. Reads do not return the expired
/// events that remain.
const MOST: u32 = 4096;

const INSERT: &str = concat!("INSERT OR IGNORE INTO events (", columns!(), ") VALUES (", marks!(), ")");
/// Removes the event with the same name and inserts the new event. `REPLACE` is a single statement,
/// so SQLite does either both or neither.
const REPLACE: &str = concat!("REPLACE INTO events (", columns!(), ") VALUES (", marks!(), ")");
const SELECT: &str = concat!("SELECT ", columns!(), " FROM events WHERE ", is_named!());
const IS_TAKEN: &str = concat!("SELECT 1 FROM events WHERE ", is_named!(), " AND expires > ?3");
const DELETE: &str = "DELETE FROM events WHERE resourceVersion = ?";
const EXPIRE: &str = "DELETE FROM events WHERE resourceVersion IN \
    (SELECT resourceVersion FROM events WHERE expires <= ? ORDER BY expires LIMIT ?)";
const EVICT: &str = "DELETE FROM events WHERE resourceVersion IN \
    (SELECT resourceVersion FROM events ORDER BY resourceVersion LIMIT ?)";
const EXPIRED_FIRST: &str = "SELECT count(*) FROM \
    (SELECT expires FROM events ORDER BY resourceVersion LIMIT ?) WHERE expires <= ?";
const READ: &str =
    "SELECT born, resourceVersion, created, updated, expired, evicted, maxEvents, written FROM store";
const COUNT: &str =
    "UPDATE store SET resourceVersion = ?, created = ?, updated = ?, expired = ?, evicted = ?, written = ?";

/// Compiles the statements that writes use, and reads the counters. Returns an error if the tables
/// do not match the file's version.
pub(crate) fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    for sql in [INSERT, REPLACE, SELECT, IS_TAKEN, DELETE, EXPIRE, EVICT, EXPIRED_FIRST, COUNT] {
        connection.prepare_cached(sql)?;
    }
    SqliteCounters::read(connection).map(|_| ())
}

/// Sets the maximum number of events in the file for all processes that write to it.
pub(crate) fn limit(connection: &mut Connection, max_events: usize) -> rusqlite::Result<()> {
    let max_events = max_events as u64;
    if SqliteCounters::read(connection)?.max_events != max_events {
        connection.execute("UPDATE store SET maxEvents = ?", [signed(max_events)])?;
    }
    Ok(())
}

/// The reason why an operation failed.
enum WriteError {
    /// The operation failed with this result. The transaction continues with the other operations.
    Answer(SinkError),
    /// The transaction failed with this error, and all of its changes are lost.
    Lost(rusqlite::Error),
}

impl From<SinkError> for WriteError {
    fn from(answer: SinkError) -> Self {
        Self::Answer(answer)
    }
}

impl From<rusqlite::Error> for WriteError {
    fn from(error: rusqlite::Error) -> Self {
        let code = match &error {
            rusqlite::Error::SqliteFailure(failure, _) => failure.code,
            // Another program wrote the row, and the row does not contain a valid event.
            _ => return Self::Answer(SinkError::rejected(error.to_string())),
        };
        match code {
            // The error affects only this event. SQLite undoes the statement, and the transaction
            // continues.
            ErrorCode::TooBig | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => {
                Self::Answer(SinkError::rejected(error.to_string()))
            }
            _ => Self::Lost(error),
        }
    }
}

/// Either performs and commits all operations, or changes nothing. Returns the results only after
/// the commit has returned.
pub(crate) fn apply<A: From<Event>>(
    connection: &mut Connection,
    options: &SqliteSinkOptions,
    clock: &Clock,
    ops: &[SinkOp],
) -> Result<Vec<Result<A, SinkError>>, rusqlite::Error> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut batch = WriteBatch::begin(&transaction, options, clock.now().into(), ops.len())?;
    let mut answers = Vec::with_capacity(ops.len());
    for op in ops {
        match batch.perform(op) {
            Ok(stored) => answers.push(Ok(stored.into())),
            Err(WriteError::Answer(answer)) => answers.push(Err(answer)),
            Err(WriteError::Lost(error)) => return Err(error),
        }
    }
    batch.end()?;
    transaction.commit()?;
    Ok(answers)
}

/// The counters that the file keeps in addition to the events.
#[derive(Clone, Copy, PartialEq)]
pub(crate) struct SqliteCounters {
    pub(crate) created_at: u64,
    pub(crate) version: u64,
    pub(crate) created: u64,
    pub(crate) updated: u64,
    pub(crate) expired: u64,
    pub(crate) evicted: u64,
    /// The maximum number of events in the file.
    pub(crate) max_events: u64,
    /// The time of the last write, in microseconds since 1970.
    written: i64,
}

impl SqliteCounters {
    pub(crate) fn read(connection: &Connection) -> rusqlite::Result<Self> {
        let mut statement = connection.prepare_cached(READ)?;
        statement.query_row([], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
            Ok(Self {
                created_at: number(0)?,
                version: number(1)?,
                created: number(2)?,
                updated: number(3)?,
                expired: number(4)?,
                evicted: number(5)?,
                max_events: number(6)?,
                written: row.get(7)?,
            })
        })
    }

    fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let Self { created_at: _, version, created, updated, expired, evicted, max_events: _, written } =
            *self;
        let [version, created, updated, expired, evicted] =
            [version, created, updated, expired, evicted].map(signed);
        let mut statement = connection.prepare_cached(COUNT)?;
        statement.execute([version, created, updated, expired, evicted, written])?;
        Ok(())
    }

    /// Returns the number of event rows, including the rows of expired events.
    pub(crate) fn rows(&self) -> u64 {
        self.created.saturating_sub(self.expired).saturating_sub(self.evicted)
    }
}

/// A batch that is being written in one transaction.
struct WriteBatch<'a> {
    transaction: &'a Transaction<'a>,
    /// The `INSERT` statement, which is kept here because looking it up in the cache for each event
    /// would noticeably slow down inserts.
    insert: CachedStatement<'a>,
    /// The number of events that the batch may still evict.
    evictions: u64,
    /// Whether there may still be rows of expired events.
    is_behind: bool,
    /// The time of all writes in the batch.
    now: Timestamp,
    now_text: String,
    expires: String,
    rules: Rules,
    before: SqliteCounters,
    counters: SqliteCounters,
}

impl<'a> WriteBatch<'a> {
    fn begin(
        transaction: &'a Transaction<'a>,
        options: &SqliteSinkOptions,
        now: Timestamp,
        ops: usize,
    ) -> rusqlite::Result<Self> {
        let before = SqliteCounters::read(transaction)?;
        let mut batch = Self {
            transaction,
            insert: transaction.prepare_cached(INSERT)?,
            evictions: u64::from(MOST) + ops as u64,
            is_behind: true,
            now,
            now_text: row::micros(now),
            expires: row::micros(now.saturating_add(options.ttl)),
            rules: Rules::new().events_v1(options.events_v1_rules),
            before,
            counters: before,
        };
        // If the clock is ahead of the last write by more than an event's time to live, the clock
        // may be wrong, so this batch does not begin by removing expired events. If the batch
        // writes anything, the next batch trusts the same clock.
        let since = row::unix_micros(now).saturating_sub(before.written);
        if u128::try_from(since).unwrap_or(0) <= options.ttl.as_micros() {
            batch.expire()?;
        }
        Ok(batch)
    }

    fn end(mut self) -> rusqlite::Result<()> {
        self.make_room()?;
        if self.counters == self.before {
            return Ok(());
        }
        self.counters.written = row::unix_micros(self.now);
        self.counters.write(self.transaction)
    }

    fn perform(&mut self, op: &SinkOp) -> Result<Event, WriteError> {
        match op {
            SinkOp::Create(event) => {
                self.rules.check_new(event)?;
                self.create(admitted(event))
            }
            SinkOp::Update(event) => {
                rules::check_named(event)?;
                self.update(admitted(event))
            }
            SinkOp::Patch(event) => {
                rules::check_named(event)?;
                self.patch(event)
            }
            _ => Err(SinkError::rejected("this version of the store does not support the operation").into()),
        }
    }

    fn create(&mut self, mut event: Event) -> Result<Event, WriteError> {
        if event.metadata.name.is_empty() {
            event.metadata.name = self.free_name(&event)?;
        }
        // The name is usually free, so try to insert the event first. If the insert succeeds,
        // SQLite has searched the index only once.
        if self.insert(&mut event)? {
            return Ok(event);
        }
        match self.stored(&event)? {
            Some(stored) => Err(rules::already_exists(&event).with_stored(stored).into()),
            None => self.insert_free(event),
        }
    }

    fn update(&mut self, mut event: Event) -> Result<Event, WriteError> {
        let old = self.stored(&event)?;
        let is_write = self.rules.update(old.as_ref(), &mut event)?;
        if old.is_none() { self.insert_free(event) } else { self.change(event, is_write) }
    }

    fn patch(&mut self, patch: &Event) -> Result<Event, WriteError> {
        let mut event = self.stored(patch)?.ok_or_else(|| rules::not_found(patch))?;
        let is_write = self.rules.patch(&mut event, patch)?;
        self.change(event, is_write)
    }

    /// Adds an event whose name is known to be free.
    fn insert_free(&mut self, mut event: Event) -> Result<Event, WriteError> {
        if self.insert(&mut event)? { Ok(event) } else { Err(rules::already_exists(&event).into()) }
    }

    /// Adds an event unless its name is already taken. Returns whether the event was added.
    fn insert(&mut self, event: &mut Event) -> rusqlite::Result<bool> {
        event.metadata.set_uid(rules::uid(self.counters.created_at, self.counters.created + 1));
        event.metadata.set_creation_timestamp(self.now.trunc_to_second());
        let version = self.counters.version + 1;
        let is_written = row::write(&mut self.insert, event, version, &self.expires)? > 0;
        if is_written {
            self.counters.created += 1;
            self.written(event);
        }
        Ok(is_written)
    }

    /// Counts an update of a stored event. If the update is a write, the event replaces the stored
    /// event and receives the number of the next write. An update that changes nothing is not a
    /// write.
    fn change(&mut self, mut event: Event, is_write: bool) -> Result<Event, WriteError> {
        if is_write {
            let mut statement = self.transaction.prepare_cached(REPLACE)?;
            row::write(&mut statement, &event, self.counters.version + 1, &self.expires)?;
            self.written(&mut event);
        }
        self.counters.updated += 1;
        Ok(event)
    }

    /// Counts a write, and assigns its number to the event.
    fn written(&mut self, event: &mut Event) {
        self.counters.version += 1;
        event.metadata.set_resource_version(self.counters.version.to_string());
    }

    /// Returns the stored event with the same name as `event`, or `None` if there is no such event.
    /// If the stored event has expired, this function removes it and returns `None`.
    fn stored(&mut self, event: &Event) -> rusqlite::Result<Option<Event>> {
        self.make_room()?;
        let mut statement = self.transaction.prepare_cached(SELECT)?;
        let found = statement
            .query_row([rules::namespace_of(event), event.metadata.name.as_str()], |row| {
                let is_expired = row.get_ref(1)?.as_str()? <= self.now_text.as_str();
                Ok((if is_expired { None } else { Some(row::event_of(row)?) }, row::version_of(row)?))
            })
            .optional()?;
        match found {
            None => Ok(None),
            Some((Some(event), _)) => Ok(Some(event)),
            Some((None, version)) => {
                self.counters.expired +=
                    self.transaction.prepare_cached(DELETE)?.execute([signed(version)])? as u64;
                Ok(None)
            }
        }
    }

    fn free_name(&mut self, event: &Event) -> rusqlite::Result<Text> {
        self.make_room()?;
        let metadata = &event.metadata;
        let mut statement = self.transaction.prepare_cached(IS_TAKEN)?;
        rules::free_name(metadata.generate_name(), self.counters.version, |name| {
            statement.exists(params![metadata.namespace.as_str(), name, self.now_text])
        })
    }

    fn expire(&mut self) -> rusqlite::Result<()> {
        let mut statement = self.transaction.prepare_cached(EXPIRE)?;
        let expired = statement.execute(params![self.now_text, MOST])?;
        self.is_behind = expired >= MOST as usize;
        self.counters.expired += expired as u64;
        Ok(())
    }

    /// Evicts the least recently written events to stay within the limit. Several inserts can share
    /// one call to this function, as long as no operation looks up a name between the inserts.
    fn make_room(&mut self) -> rusqlite::Result<()> {
        let excess = self.counters.rows().saturating_sub(self.counters.max_events).min(self.evictions);
        if excess == 0 {
            return Ok(());
        }
        let expired = if self.is_behind {
            let mut statement = self.transaction.prepare_cached(EXPIRED_FIRST)?;
            statement
                .query_row(params![signed(excess), self.now_text], |row| row.get::<_, i64>(0))?
                .unsigned_abs()
        } else {
            0
        };
        let gone = self.transaction.prepare_cached(EVICT)?.execute([signed(excess)])? as u64;
        self.evictions -= excess;
        self.counters.expired += expired;
        self.counters.evicted += gone.saturating_sub(expired);
        Ok(())
    }
}

/// Returns a copy of a validated event, in the form in which the store keeps events. The operation
/// keeps the original event, because the transaction may still fail.
fn admitted(event: &Event) -> Event {
    let mut event = event.clone();
    rules::admit(&mut event);
    event
}
