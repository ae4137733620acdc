//! Writes batches to a store. Each batch is written to the files that are currently at the store's
//! path.

use std::path::Path;
use std::slice;
use std::time::Duration;

use eventcast::sink::{SinkBatch, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventSink, SinkError};

use crate::error::{SqliteError, SqliteErrorKind};
use crate::store::{SqliteSink, SqliteStore, Writer};
use crate::{open, write};

impl SqliteSink {
    /// Writes a batch to the files at the path. Returns an error if the open files are no longer at
    /// the path, so that the store does not acknowledge the write.
    fn write<A: From<Event>>(
        &self,
        writer: &mut Writer,
        batch: &[SinkOp],
    ) -> Result<Vec<Result<A, SinkError>>, SqliteError> {
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
        // Check the files again after the commit, so that a batch is acknowledged only if it is in
        // the files that are currently at the path.
        writer.is_lost = !writer.files.are_there();
        if writer.is_lost {
            return Err(self.moved());
        }
        answers.map_err(|error| SqliteError::sqlite(path, &error))
    }

    /// Closes the files that are no longer at the path, and reopens the path in the same way as
    /// when the store was first opened.
    fn reopen(&self, writer: &mut Writer) -> Result<(), SqliteError> {
        let SqliteStore { path, options, clock, reader, .. } = &*self.shared;
        // The caller holds the writer's lock. Lock order: `SqliteStore::writer` before
        // `SqliteStore::reader`. The clock is read while both locks are held. Lock order:
        // `SqliteStore::writer` and `SqliteStore::reader` before `Fake::state`.
        let mut reader = reader.lock();
        if let Some(connection) = &writer.connection {
            writer.files.leave(connection)?;
        }
        // Close the old connections first, because SQLite shares the log's index among all
        // connections that a process has to a file.
        reader.connection = None;
        writer.connection = None;
        let opened = open::read_write(path, options, clock.now().into())?;
        reader.connection = Some(opened.reader);
        writer.connection = Some(opened.writer);
        writer.files = opened.files;
        Ok(())
    }

    /// Applies the operations in one transaction.
    fn apply_all<A: From<Event>>(&self, batch: &[SinkOp]) -> Vec<Result<A, SinkError>> {
        let Some(writer) = &self.shared.writer else {
            return batch.iter().map(|_| Err(open_for_reading(&self.shared.path))).collect();
        };
        match self.write(&mut writer.lock(), batch) {
            Ok(answers) => answers,
            Err(error) => batch.iter().map(|_| Err(error.again().into_sink_error())).collect(),
        }
    }

    /// Applies a single operation, as a batch with one operation.
    fn apply_one(&self, op: &SinkOp) -> Result<Event, SinkError> {
        self.apply_all(slice::from_ref(op)).pop().unwrap_or_else(|| Err(SinkError::retry("no answer")))
    }
}

impl EventSink for SqliteSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Create(event.clone()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.apply_one(&SinkOp::Patch(event.clone()))
    }

    fn ttl(&self) -> Option<Duration> {
        Some(self.shared.options.ttl)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        let answers = self.apply_all::<Stored>(batch.ops());
        batch.answer(answers);
    }
}

fn open_for_reading(path: &Path) -> SinkError {
    SinkError::rejected(SqliteError::new(
        SqliteErrorKind::ReadOnly,
        path,
        "opened read-only: open it for writing",
    ))
}
