//! A store in a file, by SQLite, that answers as a Kubernetes API server does and outlives the process.

mod error;
mod files;
mod open;
mod options;
mod read;
mod row;
mod schema;
mod write;

use std::fmt;
use std::path::{Path, PathBuf};
use std::slice;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::record::event::{Event, EventPatch, Timestamp};
use crate::sync::atomic::AtomicU64;
use crate::sync::{Arc, Mutex};

use super::{EventSink, SinkError, SinkOp};

use files::{Files, Still};

pub use error::{SqliteError, SqliteErrorKind};
pub use options::{SqliteSinkOptions, SqliteSynchronous};
pub use read::SqliteEvents;

/// What has become of the events of a [`SqliteSink`]: `created` = `stored` + `expired` + `evicted`, at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SqliteSinkStats {
    /// Held now.
    pub stored: u64,
    /// Ever created.
    pub created: u64,
    /// Updates and patches of stored events.
    pub updated: u64,
    /// Gone because nobody wrote them for too long. Those whose rows are still there are counted by
    /// the clock, so this goes back by as many as come to life again when the clock is set back.
    pub expired: u64,
    /// Gone to make room.
    pub evicted: u64,
    /// The size of the database, in bytes, without the log beside it. What events leave free is used again.
    pub bytes: u64,
    /// How many events the file may hold: see [`SqliteSinkOptions::max_events`].
    pub max_events: u64,
    /// How often reads through this store and its clones have left out a row that holds no event,
    /// since it was opened. A row that is read twice counts twice.
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

/// What was written to a [`SqliteSink`] since somebody looked: see [`SqliteSink::changes_since`].
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct SqliteChanges {
    /// The events, in the order of their last writes.
    pub events: Vec<Event>,
    /// The number of the last write to the file, from which to follow on.
    pub version: u64,
}

/// A store in a file, by SQLite. A clone is the same store, so that one can be given to a recording and the other be read.
///
/// It answers as a [`MemorySink`](crate::MemorySink) does, which is as an API server does: names, uids, resource versions,
/// times, what is invalid, what a patch and an update change, what expires and what makes room. But it outlives the
/// process, and the machine's power; several processes may have the file open; and time is the wall clock's, because no
/// other goes on while nothing runs. Where that is set forward, events expire that much earlier. A
/// transaction whose clock is ahead of the last write by more than [`ttl`](SqliteSinkOptions::ttl)
/// removes nothing that has expired, in case the clock is wrong. The next one does.
///
/// Feature `sqlite`, with a SQLite that is compiled along, or `sqlite-system`, with the system's.
/// With the system's, a link error about `sqlite3_set_clientdata` means that it is older than
/// rusqlite 0.41 supports (3.45.3): take rusqlite 0.40
/// (`cargo update -p rusqlite --precise 0.40.2`), or the feature `sqlite`.
///
/// # Durability
///
/// A batch is one transaction. It is acknowledged after the commit has returned, which with
/// [`SqliteSynchronous::Full`] means: after it is on the disk. What was acknowledged survives a `kill -9` at any moment,
/// and the file is consistent then; what was not is there as a whole batch or not at all. [`SqliteSynchronous`] says what
/// else may happen to the machine.
///
/// While it is open there are two more files beside it, `-wal` and `-shm`, which belong to it: never move or copy the one
/// without the others. A backup is made by `sqlite3 events.db ".backup copy.db"` (or
/// `VACUUM INTO`), even while it is written. A disk of the network mostly cannot hold such a file.
///
/// # When the file goes away
///
/// A program that cleans up or rotates logs may remove, move or replace the file while it is open,
/// or one of the two beside it. Each write looks for that before it begins and after its commit, by
/// device and inode. If the files have changed, the answer is [`SinkError::retry`] with
/// [`Moved`](SqliteErrorKind::Moved) as the cause, and the next write opens the path anew, as
/// [`open`](Self::open) does. A recording tries again, so its events go on in the new file. An
/// acknowledged write was in the file at the path when it was acknowledged. These windows are left:
///
/// - A file that is removed later takes its events with it. The next write tells, and without a
///   next write nothing does.
/// - A batch that was refused may be in a file that was moved away. Then it is in both files after
///   the next try.
/// - If only the database is moved, the store writes its log back into it first. If somebody puts
///   another database beside the log, each write is refused until the log is gone.
/// - A process that only reads keeps the old files open. If the database stayed and the index
///   beside it was removed, writes may be refused until that process closes them.
/// - Files that are cut or overwritten in place are damaged files, and not noticed by this.
/// - A store that was opened for reading only goes on with the file that it opened. So do reads
///   until the next write.
/// - Windows does not let anybody remove or rename an open file, and other systems than Unix and
///   Windows are not watched.
///
/// # What goes wrong
///
/// A file that is not a store (no database, another program's, a newer version's, a damaged one) is refused when it is
/// opened, and stays as it is, byte for byte: see [`SqliteErrorKind`]. To find damage inside,
/// opening for writing reads the whole file where a log lies beside it, as after an unclean end, or
/// where [`full_check`](SqliteSinkOptions::full_check) asks for it: that takes some tenths of a
/// second for 100 MB. An index that somebody has dropped is made again. A new file has the mode
/// 0600, the files beside it have the same.
///
/// When a write fails because the disk is full or fails, or another process writes for longer than
/// [`busy_timeout`](SqliteSinkOptions::busy_timeout), nothing of the batch is done and every operation's answer is
/// [`SinkError::unreachable`]; a recording tries again as its policy says, and everything else on the bus goes on. When the file
/// turns out to be damaged while it is open, every answer is [`SinkError::rejected`].
///
/// # Bounds
///
/// The file holds at most [`max_events`](SqliteSinkOptions::max_events), which the file itself
/// says, so all who write to it agree. One transaction lets at most 4,096 expired events go, and at
/// most 4,096 more than it adds to make room: after the limit was lowered, each write takes the
/// file a step nearer to it. What goes leaves space that is used again. The log beside it is
/// written back when it has grown to 16 MiB, and grows beyond only while somebody reads
/// for long. Besides that each store takes up to 18 MiB of memory for pages.
///
/// # Blocking
///
/// Writes wait for the disk, for other threads that write, and up to the busy timeout for other processes that do. Reads
/// wait for other reads of this process only.
///
/// # By hand
///
/// The table `events` has core/v1's fields as columns: `namespace`, `name`, `uid`, `resourceVersion`,
/// `creationTimestamp`, `type`, `reason`, `message`, `count`, `firstTimestamp`, `lastTimestamp`, `eventTime`, `action`,
/// `reportingComponent`, `reportingInstance`, the two of `source` as `sourceComponent` and `sourceHost`, those of
/// `involvedObject` as `involvedObjectKind`, `involvedObjectNamespace`, `involvedObjectName`, `involvedObjectUid`,
/// `involvedObjectApiVersion`, `involvedObjectResourceVersion` and `involvedObjectFieldPath`; in `rest`, as JSON, what few
/// events have (labels and the like). Beside them are `lastSeen`, when it was last seen whichever field says so, and
/// `expires`: from then on it counts as gone, though the row is removed with the next write only. Times are RFC 3339 in UTC;
/// those of one column are of one length, so that they compare as text. `resourceVersion` is the number of the event's
/// last write.
///
/// ```text
/// $ sqlite3 -json events.db "SELECT lastSeen, reason, message FROM events
///                            WHERE type = 'Warning' ORDER BY resourceVersion DESC LIMIT 20"
/// ```
///
/// Of the output modes of `sqlite3`, `-json` escapes the control characters below U+0020; others may pass on to the
/// terminal whatever some message tells it. To read is safe at any time.
///
/// # Examples
///
/// ```
/// # let folder = std::env::temp_dir().join(format!("eventcast-sqlite-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("events.db");
/// use eventcast::{EventBroadcaster, EventType, ObjectReference, SqliteSink};
///
/// let store = SqliteSink::open(&path)?;
/// let events = EventBroadcaster::new()?;
/// events.start_recording_to_sink(store.clone())?;
/// let web = ObjectReference::new("Pod", "web-0");
/// let recorded = events.new_recorder("doc").event(&web, EventType::Normal, "Started", "it runs");
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
    shared: Arc<SqliteStore>,
}

struct SqliteStore {
    path: PathBuf,
    options: SqliteSinkOptions,
    clock: Clock,
    // Goes before the writer, which as the last one writes the log back.
    reader: Mutex<Reader>,
    /// `None` when it was opened for reading only.
    writer: Option<Mutex<Writer>>,
    /// Rows that reads have left out.
    unreadable: AtomicU64,
}

struct Reader {
    /// `None` while there is no file to open anew.
    connection: Option<Connection>,
    /// What a file was that is read without locks.
    still: Option<Still>,
}

/// A thread that holds this lock may take the reader's, never the other way round.
struct Writer {
    /// `None` as the reader is.
    connection: Option<Connection>,
    files: Files,
    /// The files are no longer where they were opened: the next write opens the path anew.
    is_lost: bool,
}

impl SqliteSink {
    /// Opens the store in this file, which is created if it is not there, with the default options and the system's clock.
    ///
    /// The path is a path and nothing else, also where SQLite would see a URI or a special name in it. Its folder must
    /// exist.
    ///
    /// # Errors
    ///
    /// Says what is the matter with the file, and what to do: see [`SqliteErrorKind`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        Self::with_options(path, SqliteSinkOptions::default())
    }

    /// As [`open`](Self::open), with these options.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`InvalidOption`](SqliteErrorKind::InvalidOption), with the [`BuildError`](crate::BuildError)
    /// as its source, names the option that is out of range.
    pub fn with_options(path: impl AsRef<Path>, options: SqliteSinkOptions) -> Result<Self, SqliteError> {
        Self::with_clock(path, options, Clock::system())
    }

    /// As [`with_options`](Self::with_options); events expire, and the table shows ages, by this clock.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
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

    /// Opens the store in this file for reading only, as a second process does while another one writes. What is written
    /// to it is rejected.
    ///
    /// SQLite makes the two files beside it where they are not there, so an empty `-wal` and a
    /// `-shm` may be left. Where it cannot make them, as on a read-only medium, and there is no log
    /// to be read, the file is read without locks. If somebody writes it nevertheless, a read that
    /// may have seen a part of that is an error, [`Busy`](SqliteErrorKind::Busy), and the next one
    /// reads what is there then. Damage is found when it is read.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open); [`Missing`](SqliteErrorKind::Missing) when there is no file, and
    /// [`Older`](SqliteErrorKind::Older) for a file that the first write would bring up to date.
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

    /// The file, as an absolute path.
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now().into()
    }

    fn read<R>(&self, look: impl FnOnce(&Connection) -> rusqlite::Result<R>) -> Result<R, SqliteError> {
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

    fn moved(&self) -> SqliteError {
        SqliteError::new(SqliteErrorKind::Moved, &self.shared.path, "")
    }

    /// Writes a batch to the files at the path, or to none. A write to files that are no longer
    /// there is not acknowledged.
    fn write(
        &self,
        writer: &mut Writer,
        batch: &[SinkOp],
    ) -> Result<Vec<Result<Event, SinkError>>, SqliteError> {
        let SqliteStore { path, options, clock, .. } = &*self.shared;
        if writer.is_lost {
            self.reopen(writer)?;
        }
        writer.is_lost = !writer.files.are_there();
        if writer.is_lost {
            return Err(self.moved());
        }
        let connection = writer.connection.as_mut().ok_or_else(|| self.moved())?;
        let answers = write::apply(connection, options, clock, batch);
        // After the commit: what is at the path now holds the batch.
        writer.is_lost = !writer.files.are_there();
        if writer.is_lost {
            return Err(self.moved());
        }
        answers.map_err(|error| SqliteError::sqlite(path, &error))
    }

    /// Closes files that have gone, and opens the path as at the beginning.
    fn reopen(&self, writer: &mut Writer) -> Result<(), SqliteError> {
        let SqliteStore { path, options, clock, reader, .. } = &*self.shared;
        let mut reader = reader.lock();
        if let Some(connection) = &writer.connection {
            writer.files.leave(connection)?;
        }
        // First the old ones: SQLite shares the index of the log among a process's connections to
        // one file.
        reader.connection = None;
        writer.connection = None;
        let opened = open::read_write(path, options, clock.now().into())?;
        reader.connection = Some(opened.reader);
        writer.connection = Some(opened.writer);
        writer.files = opened.files;
        Ok(())
    }

    /// One operation is a batch of one.
    fn apply_one(&self, op: &SinkOp) -> Result<Event, SinkError> {
        self.apply(slice::from_ref(op)).pop().unwrap_or_else(|| Err(SinkError::retry("no answer")))
    }
}

impl EventSink for SqliteSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Create(event.clone()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Patch(event.clone(), patch.clone()))
    }

    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let Some(writer) = &self.shared.writer else {
            return batch.iter().map(|_| Err(open_for_reading(&self.shared.path))).collect();
        };
        match self.write(&mut writer.lock(), batch) {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.again().into_sink_error())).collect(),
        }
    }
}

fn open_for_reading(path: &Path) -> SinkError {
    SinkError::rejected(SqliteError::new(SqliteErrorKind::ReadOnly, path, "opened for reading only"))
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
