//! A store in a file, by SQLite, that answers as a Kubernetes API server does and outlives the process.

mod error;
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
use crate::event::{Event, EventPatch, Timestamp};
use crate::sync::{Arc, Mutex};

use super::{EventSink, SinkError, SinkOp};

pub use error::{SqliteError, SqliteErrorKind};
pub use options::{SqliteSinkOptions, SqliteSynchronous};

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
    /// Gone because nobody wrote them for too long.
    pub expired: u64,
    /// Gone to make room.
    pub evicted: u64,
    /// The size of the database, in bytes, without the log beside it. What events leave free is used again.
    pub bytes: u64,
}

impl fmt::Display for SqliteSinkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, created, updated, expired, evicted, bytes } = self;
        write!(
            f,
            "stored {stored}, created {created}, updated {updated}, expired {expired}, evicted {evicted}, \
             {bytes} bytes"
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

/// A store in a file. A clone is the same store, so that one can be given to a recording and the other be read.
///
/// It behaves as a [`MemorySink`](crate::MemorySink) does, which is as an API server does.
#[derive(Clone)]
pub struct SqliteSink {
    shared: Arc<Shared>,
}

struct Shared {
    path: PathBuf,
    options: SqliteSinkOptions,
    clock: Clock,
    // Goes before the writer, which as the last one writes the log back.
    reader: Mutex<Connection>,
    /// `None` when it was opened for reading only.
    writer: Option<Mutex<Connection>>,
}

impl SqliteSink {
    /// Opens the store in this file, which is created if it is not there.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        Self::with_options(path, SqliteSinkOptions::default())
    }

    /// Opens the store in this file, which is created if it is not there, with these options.
    pub fn with_options(path: impl AsRef<Path>, options: SqliteSinkOptions) -> Result<Self, SqliteError> {
        Self::with_clock(path, options, Clock::system())
    }

    /// As [`with_options`](Self::with_options); events expire, and the table shows ages, by this clock.
    pub fn with_clock(
        path: impl AsRef<Path>,
        options: SqliteSinkOptions,
        clock: Clock,
    ) -> Result<Self, SqliteError> {
        let opened = open::read_write(path.as_ref(), &options, clock.now().into())?;
        let shared = Shared {
            path: opened.path,
            options,
            clock,
            reader: Mutex::new(opened.reader),
            writer: Some(Mutex::new(opened.writer)),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Opens the store in this file for reading only, as a second process does while another one writes.
    pub fn open_read_only(path: impl AsRef<Path>) -> Result<Self, SqliteError> {
        let options = SqliteSinkOptions::default();
        let (path, reader) = open::read_only(path.as_ref(), options.busy_timeout)?;
        let shared =
            Shared { path, options, clock: Clock::system(), reader: Mutex::new(reader), writer: None };
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
        let reader = self.shared.reader.lock();
        look(&reader).map_err(|error| SqliteError::sqlite(&self.shared.path, &error))
    }

    /// One operation is a batch of one.
    fn apply_one(&self, op: SinkOp) -> Result<Event, SinkError> {
        self.apply(slice::from_ref(&op)).pop().unwrap_or_else(|| Err(SinkError::retry("no answer")))
    }
}

impl EventSink for SqliteSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(SinkOp::Create(event.clone()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        self.apply_one(SinkOp::Patch(event.clone(), patch.clone()))
    }

    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let Shared { path, options, clock, writer, .. } = &*self.shared;
        let failed = |kind, detail: &dyn fmt::Display| {
            let answer = || Err(SqliteError::new(kind, path, detail).into_sink_error());
            batch.iter().map(|_| answer()).collect()
        };
        let Some(writer) = writer else {
            return batch.iter().map(|_| Err(open_for_reading(path))).collect();
        };
        let mut connection = writer.lock();
        match write::apply(&mut connection, options, clock, batch) {
            Ok(answers) => answers,
            Err(error) => failed(error::kind_of(&error), &error),
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
