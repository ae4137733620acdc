//! The `SqliteSink` type, with its documentation and constructors.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use eventcast::{Clock, Timestamp};
use parking_lot::Mutex;
use rusqlite::Connection;

use crate::error::{SqliteError, SqliteErrorKind};
use crate::files::{Files, Still};
use crate::open::{self, Reader};
use crate::options::SqliteSinkOptions;

/// A store in a SQLite file. Clones share the same store, so a program can pass one clone to a
/// recording and read from another clone.
///
/// The store behaves like a [`MemorySink`](eventcast::MemorySink), which in turn behaves like an
/// API server. The store follows the same [rules](eventcast::sink::rules) for names, uids, resource
/// versions, times, invalid events, the effects of patches and updates, expiry, and eviction. The
/// store differs from a `MemorySink` in the following ways:
///
/// - The store outlives the process, and survives a power failure.
/// - Several processes can have the file open at the same time.
/// - The store uses the wall clock, because the wall clock is the only clock that continues while
///   no process is running. If the wall clock is set forward, events expire earlier by the same
///   amount.
///
/// If the clock is ahead of the last write by more than [`ttl`](SqliteSinkOptions::ttl), the clock
/// may be wrong. A transaction then removes expired events only to stay within the limit or because
/// it needs their names. Once a write has used that clock, the next transaction removes expired
/// events as usual.
///
/// # Durability
///
/// Each batch is written in one transaction. The store acknowledges a batch after the commit has
/// returned. With [`SqliteSynchronous::Full`](crate::SqliteSynchronous::Full) the batch is on disk
/// when the commit returns. An acknowledged batch survives a `kill -9` at any time, and the file
/// remains consistent. A batch that was not acknowledged is either completely in the file or not in
/// the file at all. [`SqliteSynchronous`](crate::SqliteSynchronous) specifies what happens if the
/// machine fails.
///
/// While a store has the file open, there are two more files next to it, `-wal` and `-shm`. The
/// three files belong together, so never move or copy one file without the other two. To make a
/// backup, run `sqlite3 events.db ".backup copy.db"` (or `VACUUM INTO`). Running either command is
/// safe even while a store is writing to the file. Most network file systems do not support a
/// store's file.
///
/// # When the file goes away
///
/// A program that cleans up or rotates logs may remove, move or replace the file, or one of the two
/// files next to it, while the store has it open. Before each write and after its commit, the store
/// therefore compares the devices and inodes of the files. If the files have changed, the write
/// returns [`SinkError::retry`](eventcast::SinkError::retry) with [`Moved`](SqliteErrorKind::Moved)
/// as the cause. The next write reopens the path in the same way as [`open`](Self::open). A
/// recording retries the write, so its events are written to the new file. When the store
/// acknowledges a write, the write is in the file at the path. The following special cases remain:
///
/// - If the file is removed after the store has acknowledged a write, the events in the file are
///   lost. Only the next write reports the loss.
/// - A refused batch may have been written to a file that was then moved away. If so, the batch is
///   in both files after the next attempt.
/// - If only the database is moved, the store first checkpoints the log into the moved database. If
///   another database is put next to the log, the store refuses each write until the log has been
///   removed.
/// - A process that only reads keeps the old files open. If the database is still in place and the
///   index next to it was removed, the store may refuse writes until the reading process closes the
///   files.
/// - If a file is truncated or overwritten in place, it is damaged, and the store does not detect
///   the damage by comparing the files.
/// - If a store was opened for reading only, it continues to use the file that it opened, unless
///   the store reads without locks. If a store was opened for writing, its reads use the old file
///   until the next write.
/// - Windows does not allow an open file to be removed or renamed. On systems other than Unix and
///   Windows, the store does not check the files.
///
/// # What can go wrong
///
/// If a file is not a usable store, opening the file returns an error and leaves the file
/// unchanged, byte for byte. A file is not usable if it is not a database, or if it is another
/// program's database, a store written by a newer version, or a damaged store. [`SqliteErrorKind`]
/// lists the kinds of errors. To detect damage inside the file, opening a store for writing reads
/// the whole file if there is a log next to the file, as after an unclean shutdown, or if
/// [`full_check`](SqliteSinkOptions::full_check) is set. Reading a file of 100 MB takes a few
/// tenths of a second. If an index was dropped, opening the store for writing recreates the index.
/// A new file is created with mode 0600, and the files next to it have the same mode.
///
/// A write can fail because the disk is full or reports an error, or because another process writes
/// for longer than [`busy_timeout`](SqliteSinkOptions::busy_timeout). If a write fails for one of
/// these reasons, the batch has no effect, and every operation in the batch fails with
/// [unavailable](eventcast::sink::SinkErrorKind::Unavailable). A recording retries according to its
/// policy, and the rest of the bus is not affected. If the store finds that its open file is
/// damaged, every operation fails with [`SinkError::rejected`](eventcast::SinkError::rejected).
///
/// # Bounds
///
/// The file holds at most [`max_events`](SqliteSinkOptions::max_events) events. The limit is stored
/// in the file itself, so it is the same for all processes that write to the file. One transaction
/// removes at most 4,096 expired events, not counting expired events whose names it needs. To stay
/// within the limit, a transaction removes at most 4,096 events more than the batch has operations.
/// After the limit has been lowered, each write therefore brings the file one step closer to the
/// limit. The store reuses the space that removed events occupied.
///
/// SQLite checkpoints the log when it has grown to 16 MiB. The log exceeds this size only during a
/// long read or because of a larger batch. In addition, each store caches pages in up to 18 MiB of
/// memory.
///
/// # Blocking
///
/// Writes block on the disk, on other threads that are writing, and, up to the busy timeout, on
/// other processes that are writing. Reads block on other reads through the same store and its
/// clones, and on a write that is reopening the path.
///
/// # By hand
///
/// The table `events` has these columns:
///
/// - Fields of a core/v1 event: `namespace`, `name`, `uid`, `resourceVersion`, `creationTimestamp`,
///   `type`, `reason`, `message`, `count`, `firstTimestamp`, `lastTimestamp`, `eventTime`,
///   `action`, `reportingComponent` and `reportingInstance`. `resourceVersion` is the number of the
///   event's last write.
/// - The fields of `source`: `sourceComponent` and `sourceHost`.
/// - The fields of `involvedObject`: `involvedObjectKind`, `involvedObjectNamespace`,
///   `involvedObjectName`, `involvedObjectUid`, `involvedObjectApiVersion`,
///   `involvedObjectResourceVersion` and `involvedObjectFieldPath`.
/// - `rest`: a JSON object with the fields that only a few events have, such as labels.
/// - `lastSeen`: the time when the event was last seen
///   ([`Event::last_seen`](eventcast::Event::last_seen)).
/// - `expires`: the time at which the event expires. The event's row remains until a write removes
///   the row.
///
/// Times are in RFC 3339 format, in UTC. All times in a column have the same length, so the times
/// in a column can be compared as text.
///
/// ```text
/// $ sqlite3 -json events.db "SELECT lastSeen, reason, message FROM events
///                            WHERE type = 'Warning' ORDER BY resourceVersion DESC LIMIT 20"
/// ```
///
/// The `-json` output mode of `sqlite3` escapes control characters below U+0020. Other output modes
/// may send the control characters in a message to the terminal. It is always safe to read the file
/// by hand.
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-sqlite-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast::{EventBroadcaster, EventType, ObjectReference};
/// use eventcast_sqlite::SqliteSink;
///
/// let store = SqliteSink::open(&path)?;
/// let events = EventBroadcaster::new()?;
/// events.record_to(store.clone())?;
/// let web = ObjectReference::new("Pod", "web-0");
/// let recorded = events.recorder("doc").event(&web, EventType::Normal, "Started", "it runs");
/// assert!(recorded.is_accepted() && events.shutdown().complete);
/// # drop(events);
/// drop(store);
///
/// // The next run of the program, or another program:
/// let store = SqliteSink::open_read_only(&path)?;
/// assert_eq!(store.events()?[0].reason, "Started");
/// # drop(store);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SqliteSink {
    pub(crate) shared: Arc<SqliteStore>,
}

pub(crate) struct SqliteStore {
    pub(crate) path: PathBuf,
    pub(crate) options: SqliteSinkOptions,
    pub(crate) clock: Clock,
    // The reader is declared before the writer so that the reader is dropped first. The store
    // therefore closes the writer's connection last. Unless another process has the file open,
    // closing this connection checkpoints the log.
    pub(crate) reader: Mutex<Reader>,
    /// The writer, or `None` if the store was opened for reading only.
    pub(crate) writer: Option<Mutex<Writer>>,
    /// The number of rows that reads have skipped.
    pub(crate) unreadable: AtomicU64,
}

/// The writer's connection, and the files that it has open. A thread that holds the writer's lock
/// may take the reader's lock, but a thread that holds the reader's lock never takes the writer's
/// lock.
pub(crate) struct Writer {
    /// The connection, or `None` if the store could not reopen the path.
    pub(crate) connection: Option<Connection>,
    pub(crate) files: Files,
    /// Whether the open files are no longer at the path at which they were opened. If this is true,
    /// the next write reopens the path.
    pub(crate) is_lost: bool,
}

impl SqliteSink {
    /// Opens the store in this file, with the default options and the system clock. Creates the
    /// file if it does not exist.
    ///
    /// The path is taken literally, even if SQLite would interpret it as a URI or a special name.
    /// The directory that contains the file must exist.
    ///
    /// # Errors
    ///
    /// Returns an error that describes what is wrong with the file and how to fix it.
    /// [`SqliteErrorKind`] lists the kinds of errors.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-open-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// drop(store);
    /// assert_eq!(SqliteSink::open(&path)?.len()?, 1);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        Self::with_options(path, SqliteSinkOptions::default())
    }

    /// Opens the store like [`open`](Self::open), but with the given options.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open). Also returns an
    /// [`InvalidOption`](SqliteErrorKind::InvalidOption) error if an option is out of range. The
    /// source of this error is the [`BuildError`](eventcast::error::BuildError) that names the
    /// option.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-with-options-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
    ///
    /// let store = SqliteSink::with_options(&path, SqliteSinkOptions::default().max_events(500))?;
    /// assert_eq!(store.stats()?.max_events, 500);
    /// let error = SqliteSink::with_options(&path, SqliteSinkOptions::default().max_events(0)).unwrap_err();
    /// assert_eq!(error.kind(), SqliteErrorKind::InvalidOption);
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_options(path: impl AsRef<Path>, options: SqliteSinkOptions) -> Result<Self, SqliteError> {
        Self::with_clock(path, options, Clock::system())
    }

    /// Opens the store like [`with_options`](Self::with_options), but with the given clock. The
    /// clock determines the events' creation times and when the events expire.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`with_options`](Self::with_options).
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-with-clock-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::now());
    /// let store = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), clock.clock())?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// clock.advance(Duration::from_secs(3600));
    /// assert!(store.is_empty()?, "the default time to live is an hour");
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(
        path: impl AsRef<Path>,
        options: SqliteSinkOptions,
        clock: Clock,
    ) -> Result<Self, SqliteError> {
        let opened = open::read_write(path.as_ref(), &options, clock.now().into())?;
        let shared = SqliteStore {
            path: opened.path,
            options,
            clock,
            reader: Mutex::new(Reader { connection: Some(opened.reader), still: None }),
            writer: Some(Mutex::new(Writer {
                connection: Some(opened.writer),
                files: opened.files,
                is_lost: false,
            })),
            unreadable: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens the store in this file for reading only, for example while another process is writing
    /// to it. The store rejects every write.
    ///
    /// If the two files next to the database are missing, SQLite creates them, so an empty `-wal`
    /// file and a `-shm` file may be left behind. If SQLite cannot create them, for example on a
    /// read-only medium, and there is no log to read, the store reads the file without locks. If
    /// another process nevertheless writes to the file, a read that may have seen a part of the
    /// other process's write fails with [`Busy`](SqliteErrorKind::Busy). The next read then sees
    /// the new state of the file. If the file is damaged, the damage is reported when a read
    /// encounters it.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`open`](Self::open). Also returns a
    /// [`Missing`](SqliteErrorKind::Missing) error if the file does not exist, and an
    /// [`Older`](SqliteErrorKind::Older) error if the file would have to be upgraded first. Only
    /// opening a store for writing upgrades the file.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-open-read-only-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast::{Event, EventSink};
    /// use eventcast_sqlite::{SqliteErrorKind, SqliteSink};
    ///
    /// assert_eq!(SqliteSink::open_read_only(&path).unwrap_err().kind(), SqliteErrorKind::Missing);
    /// let store = SqliteSink::open(&path)?;
    /// let reader = SqliteSink::open_read_only(&path)?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// assert!(reader.create(&event).is_err());
    /// store.create(&event)?;
    /// assert_eq!(reader.len()?, 1);
    /// # drop((store, reader));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        let options = SqliteSinkOptions::default();
        let (path, reader) = open::read_only(path.as_ref(), options.busy_timeout)?;
        let reader = Mutex::new(reader);
        let shared = SqliteStore {
            path,
            options,
            clock: Clock::system(),
            reader,
            writer: None,
            unreadable: AtomicU64::new(0),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Returns the absolute path of the file.
    ///
    /// # Examples
    ///
    /// ```
    /// # let folder = std::env::temp_dir().join(format!("eventcast-path-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("events.db");
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let store = SqliteSink::open(&path)?;
    /// assert!(store.path().is_absolute() && store.path().ends_with("events.db"));
    /// # drop(store);
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now().into()
    }

    pub(crate) fn read<R>(
        &self,
        look: impl FnOnce(&Connection) -> rusqlite::Result<R>,
    ) -> Result<R, SqliteError> {
        let SqliteStore { path, options, reader, .. } = &*self.shared;
        let mut reader = reader.lock();
        let is_still = |reader: &Reader| reader.still.as_ref().is_none_or(|still| Still::of(path) == *still);
        if !is_still(&reader) {
            *reader = open::read_only(path, options.busy_timeout)?.1;
        }
        let connection = reader.connection.as_ref().ok_or_else(|| self.moved())?;
        let found = look(connection).map_err(|error| SqliteError::sqlite(path, &error));
        if is_still(&reader) {
            found
        } else {
            Err(SqliteError::new(SqliteErrorKind::Busy, path, "written while it was read without locks"))
        }
    }

    pub(crate) fn moved(&self) -> SqliteError {
        SqliteError::new(SqliteErrorKind::Moved, &self.shared.path, "")
    }
}

impl fmt::Debug for SqliteSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteSink")
            .field("path", &self.shared.path)
            .field("options", &self.shared.options)
            .field("writes", &self.shared.writer.is_some())
            .finish_non_exhaustive()
    }
}
