//! The output to which a sink writes its lines.
//!
//! A truncated line does not corrupt the next line. If another program has moved or removed the
//! file, the sink continues with the file that is currently at its path.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;

use crate::error::BuildError;
use crate::escape::escape;
use crate::record::sink::identity::Identity;
use crate::record::sink::{SinkError, SinkErrorKind};
use crate::sync::{Arc, Mutex};

use super::files::{self, Opened};
use super::stats::JsonLinesStats;

/// The output, together with the state that is needed to append complete lines.
pub(super) struct Output {
    out: Box<dyn Write + Send>,
    /// Whether the output may end with an incomplete line.
    is_torn: bool,
    /// The size of the file, in bytes. If the output is not a file, this is the number of bytes
    /// written.
    size: u64,
    /// The file to which `out` writes, or `None` if the output is not a file.
    place: Option<Place>,
}

/// A file, and the path at which the file was opened.
struct Place {
    path: PathBuf,
    file: Arc<File>,
    identity: Identity,
    rotation: Option<Rotation>,
}

/// The maximum size of a file, and the number of rotated files to keep.
pub(super) struct Rotation {
    /// The maximum size of a file, in bytes.
    pub(super) max_bytes: u64,
    /// The number of rotated files to keep.
    pub(super) keep: u32,
}

impl Place {
    /// Returns whether the file is still at its path.
    fn is_there(&self) -> bool {
        match Identity::at(&self.path) {
            Ok(found) => found == Some(self.identity),
            // The path cannot be checked, so the sink continues to use its file if the file is
            // still linked.
            Err(_) => self.has_name(),
        }
    }

    /// Returns whether the file is still linked, so that another program can find its lines.
    fn has_name(&self) -> bool {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            self.file.metadata().is_ok_and(|found| found.nlink() > 0)
        }
        #[cfg(not(unix))]
        false
    }
}

impl Output {
    pub(super) fn new(out: Box<dyn Write + Send>) -> Self {
        Self { out, is_torn: false, size: 0, place: None }
    }

    pub(super) fn of_file(path: PathBuf, opened: Opened, rotation: Option<Rotation>) -> Self {
        let Opened { file, identity, size, is_torn } = opened;
        let file = Arc::new(file);
        let place = Place { path, file: file.clone(), identity, rotation };
        Self { out: Box::new(file), is_torn, size, place: Some(place) }
    }

    /// Appends a line, which must end with a newline.
    pub(super) fn append(
        &mut self,
        mut line: String,
        stats: &Mutex<JsonLinesStats>,
    ) -> Result<(), SinkError> {
        if self.follow(stats)? && self.is_full(line.len() as u64) {
            self.rotate(stats);
        }
        if self.is_torn {
            line.insert(0, '\n');
        }
        self.write(&line, stats)?;
        stats.lock().lines += 1;
        Ok(())
    }

    /// Returns whether a line of this length no longer fits in the file.
    fn is_full(&self, line: u64) -> bool {
        let size = self.size.saturating_add(line).saturating_add(u64::from(self.is_torn));
        let rotation = self.place.as_ref().and_then(|place| place.rotation.as_ref());
        self.size > 0 && rotation.is_some_and(|rotation| size > rotation.max_bytes)
    }

    /// Reopens the path if the file is no longer at the path. Returns whether the file is now at
    /// the path. If the result is `false`, the file is still linked under another name.
    ///
    /// # Errors
    ///
    /// Returns an error if the file is no longer linked and the path cannot be opened.
    fn follow(&mut self, stats: &Mutex<JsonLinesStats>) -> Result<bool, SinkError> {
        if self.place.as_ref().is_none_or(Place::is_there) {
            return Ok(true);
        }
        match self.reopen(stats) {
            Ok(()) => Ok(true),
            Err(_) if self.place.as_ref().is_some_and(Place::has_name) => Ok(false),
            Err(error) => Err(SinkError::new(SinkErrorKind::Unavailable, error)),
        }
    }

    /// Reopens the path. If the path cannot be reopened, the output continues to write to the same
    /// file.
    pub(super) fn reopen(&mut self, stats: &Mutex<JsonLinesStats>) -> Result<(), BuildError> {
        let Some(place) = &self.place else { return Ok(()) };
        // Terminates an incomplete line. Otherwise, a program that reads several files in sequence
        // would join the incomplete line with the first line of the other file. If this write
        // fails, the newline is written to the other file instead, before the next line.
        if self.is_torn && place.has_name() {
            let _ = self.write("\n", stats);
        }
        let Some(place) = &self.place else { return Ok(()) };
        match files::succeed(&place.path, &place.file) {
            Ok(opened) => {
                let is_torn = self.is_torn;
                self.take(opened);
                self.is_torn |= is_torn;
                stats.lock().reopens += 1;
                Ok(())
            }
            Err(error) => {
                note_failure(&error, stats);
                Err(BuildError::file(&place.path, error))
            }
        }
    }

    /// Replaces the output with the opened file.
    fn take(&mut self, opened: Opened) {
        let Opened { file, identity, size, is_torn } = opened;
        let file = Arc::new(file);
        (self.out, self.size, self.is_torn) = (Box::new(file.clone()), size, is_torn);
        if let Some(place) = &mut self.place {
            (place.file, place.identity) = (file, identity);
        }
    }

    /// Starts a new file. If a new file cannot be started, counts the failure.
    fn rotate(&mut self, stats: &Mutex<JsonLinesStats>) {
        // Terminates an incomplete line. Otherwise, a program that reads several files in sequence
        // would join the incomplete line with the first line of the new file.
        let ended = if self.is_torn { self.write("\n", stats) } else { Ok(()) };
        let Some(Place { path, file, rotation: Some(rotation), .. }) = &self.place else { return };
        match ended.and_then(|()| files::rotate(path, rotation.keep, file)) {
            Ok(opened) => {
                self.take(opened);
                stats.lock().rotations += 1;
            }
            Err(error) => note_failure(&error, stats),
        }
    }

    /// Writes text, which must end with a newline, and flushes the output.
    fn write(&mut self, text: &str, stats: &Mutex<JsonLinesStats>) -> io::Result<()> {
        // The flag is set during the write, because the output may panic.
        let was_torn = std::mem::replace(&mut self.is_torn, true);
        let (written, result) = write_all(&mut *self.out, text.as_bytes());
        self.size += written as u64;
        stats.lock().bytes += written as u64;
        let result = result.and_then(|()| self.out.flush());
        self.is_torn = result.is_err() && (was_torn || written > 0);
        result
    }
}

fn note_failure(error: &io::Error, stats: &Mutex<JsonLinesStats>) {
    let mut stats = stats.lock();
    stats.failed_rotations += 1;
    stats.last_rotation_failure = Some(escape(&error.to_string()).to_string());
}

/// Writes all bytes, in a single call if the output accepts all of them. Also returns the number of
/// bytes that the output accepted.
fn write_all(out: &mut dyn Write, bytes: &[u8]) -> (usize, io::Result<()>) {
    let mut written = 0;
    while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
        match out.write(rest) {
            Ok(0) => return (written, Err(ErrorKind::WriteZero.into())),
            Ok(more) => written = written.saturating_add(more),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return (written, Err(error)),
        }
    }
    (written.min(bytes.len()), Ok(()))
}

#[cfg(test)]
mod tests {
    use super::{JsonLinesStats, Mutex, Output, Rotation, SinkErrorKind, files};
    use std::fs;
    use std::io::{self, Write};

    /// Simulates an output on a full disk.
    struct Full;

    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Renaming a file does not need disk space, so a rotation could succeed on a full disk. A
    /// program that reads both files in sequence would then join the incomplete line with the first
    /// line of the new file.
    #[test]
    fn a_torn_line_that_cannot_be_ended_is_not_put_aside() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("events.jsonl");
        fs::write(&path, "{\"torn\"").unwrap();
        let opened = files::open(&path).unwrap();
        let mut output = Output::of_file(path, opened, Some(Rotation { max_bytes: 1, keep: 1 }));
        output.out = Box::new(Full);
        let stats = Mutex::new(JsonLinesStats::default());
        let error = output.append("{}\n".to_owned(), &stats).unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Unavailable);
        assert!(output.is_torn);
        let stats = stats.lock();
        assert_eq!((stats.lines, stats.rotations, stats.failed_rotations), (0, 0, 1));
        assert_eq!(stats.last_rotation_failure.as_deref(), Some("no storage space"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
