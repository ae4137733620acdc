//! Tracks a store's files, and detects whether the files are still at the paths at which the store
//! opened them.
//!
//! SQLite continues to use a file after it has been removed or moved. Events that SQLite commits to
//! a removed file are lost when the file is closed. Before each write and after each commit, the
//! store therefore compares the files at its path with the files that it has opened, by device and
//! inode. This comparison only queries the metadata of the paths and does not open the files,
//! because a process that opens and closes a file loses its locks on that file.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::Connection;

use crate::error::{SqliteError, SqliteErrorKind as Kind};

/// The identity of a file, which is its device and inode on Unix, and a constant on other systems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Identity(u64, u64);

/// The identities of the database, its log and the log's index at the time when the files were
/// opened.
#[derive(Debug)]
pub(crate) struct Files {
    path: PathBuf,
    /// The path of the database with symbolic links resolved. The log and its index are next to the
    /// database at this path.
    real: PathBuf,
    database: Option<Identity>,
    log: Option<Identity>,
    index: Option<Identity>,
}

/// The state of a database that is read without locks because no process should be able to write to
/// it. If the state changes, a process has nevertheless written to the database.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Still {
    database: Option<Identity>,
    size: u64,
    modified: Option<SystemTime>,
    size_of_log: u64,
}

/// The files that the store finds at its path before it closes them.
enum Left {
    /// There is no log that the store has to checkpoint or remove before it closes its connections.
    Nothing,
    /// The store's log is still in place, but the store's database is no longer at the path.
    Log,
    /// The store's database and index are still in place, but the log is missing.
    AllButLog,
    /// Another database is at the path, next to the log of the store's database.
    LogOfAnother,
}

impl Identity {
    fn of(found: &Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::MetadataExt as _;
            Self(found.dev(), found.ino())
        }
        #[cfg(not(unix))]
        {
            let _ = found;
            Self(0, 0)
        }
    }
}

/// Returns the identity of a file, even if it is empty. Returns `None` if the file does not exist
/// or the process cannot access it.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().map(|found| Identity::of(&found))
}

/// Returns the identity of a database. Returns `None` if the file is empty or does not exist,
/// because an open database is never empty.
fn of_database(path: &Path) -> Option<Identity> {
    fs::metadata(path).ok().filter(|found| found.len() > 0).map(|found| Identity::of(&found))
}

impl Files {
    /// Records the identities of the files at a path.
    pub(crate) fn at(path: &Path) -> Self {
        let real = real(path);
        let [log, index] = ["-wal", "-shm"].map(|end| identity(&beside(&real, end)));
        Self { path: path.to_owned(), database: of_database(path), real, log, index }
    }

    /// Returns whether all three files existed and `database` identifies the database.
    pub(crate) fn are_complete(&self, database: Option<Identity>) -> bool {
        self.database.is_some() && self.database == database && self.log.is_some() && self.index.is_some()
    }

    /// Returns whether the same three files are still at the path.
    pub(crate) fn are_there(&self) -> bool {
        of_database(&self.path) == self.database
            && identity(&beside(&self.real, "-wal")) == self.log
            && identity(&beside(&self.real, "-shm")) == self.index
    }

    /// Prepares the path for a new store after files of the old store have been removed or moved.
    /// Checkpoints the old log into the old database, wherever that database is now. The caller can
    /// then close the connections.
    ///
    /// # Errors
    ///
    /// Returns an error if another database is next to the log, because the log could belong to
    /// either database. Also returns an error if another process is still reading the log.
    pub(crate) fn leave(&self, connection: &Connection) -> Result<(), SqliteError> {
        let moved = |detail: &str| Err(SqliteError::new(Kind::Moved, &self.path, detail));
        match self.left() {
            Left::Nothing => Ok(()),
            Left::LogOfAnother => moved("another file has taken its place, next to the previous file's log"),
            Left::AllButLog => {
                // If another process is still reading the log, closing the connection would not
                // checkpoint the log, and the events in the log would be missing from the database.
                write_back(connection);
                Ok(())
            }
            Left::Log => {
                write_back(connection);
                if size(&beside(&self.real, "-wal")) > 0 {
                    return moved("its log is still in use");
                }
                for (end, opened) in [("-wal", self.log), ("-shm", self.index)] {
                    let path = beside(&self.real, end);
                    if identity(&path) == opened {
                        // If the file cannot be removed, the code that reopens the path finds the
                        // file.
                        let _ = fs::remove_file(path);
                    }
                }
                Ok(())
            }
        }
    }

    fn left(&self) -> Left {
        let database = of_database(&self.path);
        let log = beside(&self.real, "-wal");
        if database == self.database && identity(&log).is_none() {
            let has_index = identity(&beside(&self.real, "-shm")) == self.index;
            return if has_index { Left::AllButLog } else { Left::Nothing };
        }
        let is_elsewhere = self.path.exists() && real(&self.path) != self.real;
        if database == self.database || is_elsewhere || identity(&log) != self.log {
            return Left::Nothing;
        }
        match database {
            None => Left::Log,
            Some(_) if size(&log) == 0 => Left::Nothing,
            Some(_) => Left::LogOfAnother,
        }
    }
}

impl Still {
    pub(crate) fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self {
            database: found.as_ref().map(Identity::of),
            size: found.as_ref().map_or(0, Metadata::len),
            modified: found.as_ref().and_then(|found| found.modified().ok()),
            size_of_log: size_of_log(path),
        }
    }

    pub(crate) fn has_log(&self) -> bool {
        self.size_of_log > 0
    }
}

/// Checkpoints the log into the database and empties the log. If another process is still reading
/// the log, the log is not emptied, and a part of it may not be checkpointed.
fn write_back(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Resolves symbolic links, like SQLite, which looks for the log and its index next to the real
/// file.
fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

fn beside(real: &Path, end: &str) -> PathBuf {
    let mut name = OsString::from(real);
    name.push(end);
    PathBuf::from(name)
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |found| found.len())
}

/// Returns the size of the log next to a database, in bytes. Returns 0 if there is no log.
pub(crate) fn size_of_log(path: &Path) -> u64 {
    size(&beside(&real(path), "-wal"))
}
