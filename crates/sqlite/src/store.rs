//! The store itself: how it is opened, and what it holds.

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

/// A store in a file, by SQLite. A clone is the same store, so a program can give one clone to a
/// recording and read the other.
///
/// The store answers like a [`MemorySink`](eventcast::MemorySink), which is like an API server, by
/// the [rules](eventcast::sink::rules): names, uids, resource versions, times, what is invalid,
/// what a patch and an update change, what expires and what is evicted. The differences are:
///
/// - The store outlives the process, and a loss of the machine's power.
/// - Several processes may have the file open.
/// - Time is the wall clock's, because no other clock goes on while nothing runs. If the wall clock
///   is set forward, events expire that much earlier.
///
/// A clock that is ahead of the last write by more than [`ttl`](SqliteSinkOptions::ttl) may be
/// wrong. A transaction with such a clock removes expired events only to make room, or because it
/// needs their names. After a write by that clock the next transaction removes them as usual.
///
/// # Durability
///
/// A batch is one transaction. The store acknowledges a batch after the commit has returned. With
/// [`SqliteSynchronous::Full`](crate::SqliteSynchronous::Full) the batch is on the disk by then. An
/// acknowledged batch survives a `kill -9` at any moment, and the file is consistent afterwards. A
/// batch that was not acknowledged is in the file as a whole or not at all.
/// [`SqliteSynchronous`](crate::SqliteSynchronous) specifies what happens if the machine fails.
///
/// While a store has the file open, two more files lie beside it, `-wal` and `-shm`. All three
/// belong together: never move or copy one without the others. To make a backup, run
/// `sqlite3 events.db ".backup copy.db"` (or `VACUUM INTO`), even while a store writes the file.
/// Most network disks cannot hold such a file.
///
/// # When the file goes away
///
/// A program that cleans up or rotates logs may remove, move or replace the file, or one of the two
/// beside it, while the store has it open. Each write checks for that before it begins and after
/// its commit, by device and inode. If the files have changed, the write answers
/// [`SinkError::retry`](eventcast::SinkError::retry) with [`Moved`](SqliteErrorKind::Moved) as the
/// cause. The next write opens the path anew, as [`open`](Self::open) does. A recording tries
/// again, so its events go on in the new file. An acknowledged write was in the file at the path
/// when the store acknowledged it. These cases are left:
///
/// - If somebody removes the file later, its events are lost. The next write reports that, and
///   without a next write nothing does.
/// - A batch that was refused may be in a file that was moved away. In that case the batch is in
///   both files after the next try.
/// - If somebody moves the database alone, the store first writes the log back into that database.
///   If somebody puts another database beside the log, the store refuses each write until the log
///   is gone.
/// - A process that only reads keeps the old files open. If the database stayed and the index
///   beside it was removed, the store may refuse writes until that process closes the files.
/// - A file that is cut or overwritten in place is a damaged file. The check does not notice it.
/// - A store that was opened for reading only goes on with the file that it opened, unless it reads
///   without locks. In a store that was opened for writing, reads go on with the old file until the
///   next write.
/// - Windows does not let anybody remove or rename an open file. On systems other than Unix and
///   Windows the store does not watch the files.
///
/// # What goes wrong
///
/// Opening refuses a file that is not a store, and leaves that file as it is, byte for byte. This
/// holds for a file that is not a database, another program's database, a newer version's store and
/// a damaged one: see [`SqliteErrorKind`]. To find damage inside, opening for writing reads the
/// whole file if a log lies beside it, as after an unclean end, or if
/// [`full_check`](SqliteSinkOptions::full_check) asks for it. Reading the whole file takes some
/// tenths of a second for 100 MB. If somebody has dropped an index, opening for writing makes that
/// index again. A new file has the mode 0600, and the files beside it have the same mode.
///
/// A write may fail because the disk is full or fails, or because another process writes for longer
/// than [`busy_timeout`](SqliteSinkOptions::busy_timeout). In these cases nothing of the batch is
/// done, and the answer to every operation is
/// [unavailable](eventcast::sink::SinkErrorKind::Unavailable). A recording tries again as its
/// policy says, and everything else on the bus goes on. If the file turns out to be damaged while
/// the store has it open, the answer to every operation is
/// [`SinkError::rejected`](eventcast::SinkError::rejected).
///
/// # Bounds
///
/// The file holds at most [`max_events`](SqliteSinkOptions::max_events). The file itself keeps this
/// number, so all processes that write to it agree. Besides the expired events whose names it
/// needs, one transaction removes at most 4,096 expired events. To make room it removes at most
/// 4,096 events more than the batch has operations. After the limit was lowered, each write
/// therefore takes the file a step nearer to the limit. The store uses the space of removed events
/// again.
///
/// SQLite writes the log beside the file back when the log has grown to 16 MiB. The log grows
/// beyond that only while somebody reads for long, or by a batch that is larger. Besides that, each
/// store takes up to 18 MiB of memory for pages.
///
/// # Blocking
///
/// Writes wait for the disk, for other threads that write, and up to the busy timeout for other
/// processes that write. Reads wait for other reads through the same store and its clones, and for
/// a write that opens the path anew.
///
/// # By hand
///
/// The table `events` has these columns:
///
/// - Fields of core/v1: `namespace`, `name`, `uid`, `resourceVersion`, `creationTimestamp`, `type`,
///   `reason`, `message`, `count`, `firstTimestamp`, `lastTimestamp`, `eventTime`, `action`,
///   `reportingComponent` and `reportingInstance`. `resourceVersion` is the number of the event's
///   last write.
/// - The fields of `source`: `sourceComponent` and `sourceHost`.
/// - The fields of `involvedObject`: `involvedObjectKind`, `involvedObjectNamespace`,
///   `involvedObjectName`, `involvedObjectUid`, `involvedObjectApiVersion`,
///   `involvedObjectResourceVersion` and `involvedObjectFieldPath`.
/// - `rest`: the fields that few events have (labels and the like), as JSON.
/// - `lastSeen`: the time when the event was last seen
///   ([`Event::last_seen`](eventcast::Event::last_seen)).
/// - `expires`: the time from which the event counts as expired. The row stays until a write
///   removes it.
///
/// Times are RFC 3339 in UTC. The times of one column have one length, so they compare as text.
///
/// ```text
/// $ sqlite3 -json events.db "SELECT lastSeen, reason, message FROM events
///                            WHERE type = 'Warning' ORDER BY resourceVersion DESC LIMIT 20"
/// ```
///
/// Of the output modes of `sqlite3`, `-json` escapes the control characters below U+0020. Other
/// modes may pass the control characters of a message on to the terminal. Reading by hand is safe
/// at any time.
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
    // Stands before the writer, so it is dropped first. The writer is then the last connection, and
    // writes the log back.
    pub(crate) reader: Mutex<Reader>,
    /// The writer, or `None` if the store was opened for reading only.
    pub(crate) writer: Option<Mutex<Writer>>,
    /// The number of rows that reads have left out.
    pub(crate) unreadable: AtomicU64,
}

/// The connection that writes, and its files. A thread that holds the writer's lock may take the
/// reader's lock, never the other way round.
pub(crate) struct Writer {
    /// The connection, or `None` in the same case as the reader's.
    pub(crate) connection: Option<Connection>,
    pub(crate) files: Files,
    /// Whether the files are no longer where they were opened. If so, the next write opens the path
    /// anew.
    pub(crate) is_lost: bool,
}

impl SqliteSink {
    /// Opens the store in this file, with the default options and the system's clock. Creates the
    /// file if it does not exist.
    ///
    /// The path is always a path, even if SQLite would see a URI or a special name in it. Its
    /// folder must exist.
    ///
    /// # Errors
    ///
    /// The error says what is wrong with the file, and what to do: see [`SqliteErrorKind`].
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

    /// Opens the store as [`open`](Self::open) does, with these options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). If an option is out of range, the error is
    /// [`InvalidOption`](SqliteErrorKind::InvalidOption). Its source is the
    /// [`BuildError`](eventcast::error::BuildError) that names the option.
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

    /// Opens the store as [`with_options`](Self::with_options) does, with this clock. Events
    /// expire, and the table shows ages, by this clock.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
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

    /// Opens the store in this file for reading only, as a second process does while another one
    /// writes. The store rejects every write.
    ///
    /// SQLite makes the two files beside the database if they are missing, so an empty `-wal` and a
    /// `-shm` may be left. If SQLite cannot make them, as on a read-only medium, and there is no
    /// log to be read, the store reads the file without locks. If somebody writes the file
    /// nevertheless, a read that may have seen a part of that write fails with
    /// [`Busy`](SqliteErrorKind::Busy). The next read reads the file as it is then. A read reports
    /// damage when it meets damage.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open). If there is no file, the error is
    /// [`Missing`](SqliteErrorKind::Missing). If opening for writing would first bring the file up
    /// to date, the error is [`Older`](SqliteErrorKind::Older).
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
