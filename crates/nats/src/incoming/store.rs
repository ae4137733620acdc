//! Stores in which a reader keeps its position between runs.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

/// A reader's position in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SavedPosition {
    /// The number of the last message whose events were accepted.
    pub sequence: u64,
    /// The time at which the stream was created, as written by the server. If a stream is
    /// recreated, its message numbers start again.
    pub stream: String,
    /// Whether the reader has seen the stream from its first message.
    pub from_start: bool,
    /// The next position of each origin.
    pub origins: BTreeMap<String, u64>,
    /// The next number of each subject, by origin. This map is empty if the reader has no filter.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub subjects: BTreeMap<String, BTreeMap<String, u64>>,
}

/// Keeps a reader's position between runs.
///
/// The reader saves the position after the events have been accepted. If the process dies before
/// the position is saved, the reader in the next run receives the events since the last saved
/// position again. The saved position of each origin shows which of the origin's events were
/// delivered before, so the reader skips these events if a message contains them again.
pub trait PositionStore: Send + Sync + 'static {
    /// Returns the position that was last saved, or `None` if no position has been saved.
    ///
    /// # Errors
    ///
    /// Returns an error if the position cannot be read. In that case, the reader is not created.
    fn load(&self) -> io::Result<Option<SavedPosition>>;

    /// Saves the position. The reader calls this method on a thread for blocking work, so the
    /// method may block.
    ///
    /// # Errors
    ///
    /// Returns an error if the position could not be saved. The reader counts the error, continues
    /// reading, and tries again at the next save.
    fn save(&self, position: &SavedPosition) -> io::Result<()>;
}

/// A position that is stored in a file as JSON. Each save writes a new file, flushes it to disk and
/// renames it, so the file is always complete.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{FilePosition, PositionStore, SavedPosition};
///
/// let folder = tempfile::tempdir()?;
/// let store = FilePosition::new(folder.path().join("position.json"));
/// assert_eq!(store.load()?, None);
/// store.save(&SavedPosition::default())?;
/// assert_eq!(store.load()?, Some(SavedPosition::default()));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct FilePosition {
    path: PathBuf,
}

impl FilePosition {
    /// Creates a store for this file. The file's directory must exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    fn named(&self, error: &dyn fmt::Display) -> io::Error {
        io::Error::other(format!("{}: {error}", self.path.display()))
    }
}

impl PositionStore for FilePosition {
    fn load(&self) -> io::Result<Option<SavedPosition>> {
        match fs::read(&self.path) {
            Ok(bytes) => serde_json::from_slice(&bytes).map(Some).map_err(|error| self.named(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.named(&error)),
        }
    }

    fn save(&self, position: &SavedPosition) -> io::Result<()> {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(".new");
        let new = self.path.with_file_name(name);
        let written = File::create(&new).and_then(|mut file| {
            file.write_all(&serde_json::to_vec(position)?)?;
            file.sync_all()
        });
        written.and_then(|()| fs::rename(&new, &self.path)).map_err(|error| self.named(&error))?;
        // The rename is on disk only after the directory has been synchronised. Not every system
        // supports synchronising a directory.
        if let Some(folder) = self.path.parent().and_then(|folder| File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

/// A position that is stored in memory, for readers that are created and dropped within one
/// process. Clones share the same position.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{MemoryPosition, PositionStore, SavedPosition};
///
/// let store = MemoryPosition::default();
/// store.clone().save(&SavedPosition::default())?;
/// assert!(store.load()?.is_some());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryPosition {
    saved: Arc<Mutex<Option<SavedPosition>>>,
}

impl PositionStore for MemoryPosition {
    fn load(&self) -> io::Result<Option<SavedPosition>> {
        Ok(self.saved.lock().clone())
    }

    fn save(&self, position: &SavedPosition) -> io::Result<()> {
        *self.saved.lock() = Some(position.clone());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("position.json");
        fs::write(&path, b"{\"sequence\": -1}").unwrap();
        let error = FilePosition::new(&path).load().unwrap_err().to_string();
        assert!(error.contains("position.json"), "{error}");
    }

    #[test]
    fn a_file_replaces_its_last_position() {
        let folder = tempfile::tempdir().unwrap();
        let store = FilePosition::new(folder.path().join("position.json"));
        for sequence in 1..4 {
            let origins = BTreeMap::from([("a".to_owned(), sequence * 10)]);
            let saved = SavedPosition { sequence, origins, ..SavedPosition::default() };
            store.save(&saved).unwrap();
            assert_eq!(store.load().unwrap(), Some(saved));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(FilePosition::new(folder.path().join("no/p")).save(&SavedPosition::default()).is_err());
    }
}
