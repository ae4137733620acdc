//! The files of a store, and whether they still are where the store opened them.
//!
//! SQLite goes on with a file that somebody has removed or moved, and what it commits then is gone
//! when the file is closed. So a store compares what lies at its path with what it has opened, by
//! device and inode, after each commit. It only asks the system about the paths: to open a file and
//! close it again takes away the locks that the process has on that file.

use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rusqlite::Connection;

use super::error::{SqliteError, SqliteErrorKind as Kind};

/// Which file lies at a path, where the system tells files apart. Windows does not let anybody
/// remove an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

/// The database, and the log and its index beside it, as they were when they were opened.
#[derive(Debug)]
pub(super) struct Files {
    path: PathBuf,
    /// The database itself, where the path is a link. The other two lie beside it.
    real: PathBuf,
    database: Option<Identity>,
    log: Option<Identity>,
    index: Option<Identity>,
}

/// A database that is read without locks because nobody should be able to write it: whether
/// somebody does nevertheless.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Still {
    database: Option<Identity>,
    size: u64,
    modified: Option<SystemTime>,
    size_of_log: u64,
}

/// What follows from where the files are now.
enum Left {
    /// Nothing at the path belongs to the store that was open.
    Nothing,
    /// The database has gone, and left its log behind.
    Log,
    /// Only the log has gone.
    AllButLog,
    /// Another database lies beside the log of the one before.
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

    /// Identifies a file, whether it is empty or not.
    pub(super) fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::of(&found))
    }

    /// Identifies a file that is not empty. A database that is open never is.
    fn of_database(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().filter(|found| found.len() > 0).map(|found| Self::of(&found))
    }
}

impl Files {
    /// Notes which files lie at a path.
    pub(super) fn at(path: &Path) -> Self {
        let real = real(path);
        let [log, index] = ["-wal", "-shm"].map(|end| Identity::at(&beside(&real, end)));
        Self { path: path.to_owned(), database: Identity::of_database(path), real, log, index }
    }

    /// Whether each of the three is there, and the database is the one that was there before.
    pub(super) fn are_complete(&self, database: Option<Identity>) -> bool {
        self.database.is_some() && self.database == database && self.log.is_some() && self.index.is_some()
    }

    /// Whether the same three files still are at the path.
    pub(super) fn are_there(&self) -> bool {
        Identity::of_database(&self.path) == self.database
            && Identity::at(&beside(&self.real, "-wal")) == self.log
            && Identity::at(&beside(&self.real, "-shm")) == self.index
    }

    /// Makes the path fit for a new store after the old one has gone from there. The old one's log
    /// goes back into the old database, wherever that is now. Afterwards the connections can be
    /// closed.
    ///
    /// # Errors
    ///
    /// The log at the path cannot be told from that of another database, or somebody still reads
    /// it.
    pub(super) fn leave(&self, connection: &Connection) -> Result<(), SqliteError> {
        let moved = |detail: &str| Err(SqliteError::new(Kind::Moved, &self.path, detail));
        match self.left() {
            Left::Nothing => Ok(()),
            Left::LogOfAnother => moved("another file is in its place, beside the log of the one before"),
            Left::AllButLog => {
                // Otherwise a reader that stays would keep the events of the log out of the
                // database when this is closed.
                write_back(connection);
                Ok(())
            }
            Left::Log => {
                write_back(connection);
                if size(&beside(&self.real, "-wal")) > 0 {
                    return moved("its log is still in use");
                }
                for (end, identity) in [("-wal", self.log), ("-shm", self.index)] {
                    let path = beside(&self.real, end);
                    if Identity::at(&path) == identity {
                        // The next look finds a file that stays.
                        let _ = fs::remove_file(path);
                    }
                }
                Ok(())
            }
        }
    }

    fn left(&self) -> Left {
        let database = Identity::of_database(&self.path);
        let log = beside(&self.real, "-wal");
        if database == self.database && Identity::at(&log).is_none() {
            let has_index = Identity::at(&beside(&self.real, "-shm")) == self.index;
            return if has_index { Left::AllButLog } else { Left::Nothing };
        }
        let is_elsewhere = self.path.exists() && real(&self.path) != self.real;
        if database == self.database || is_elsewhere || Identity::at(&log) != self.log {
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
    pub(super) fn of(path: &Path) -> Self {
        let found = fs::metadata(path).ok();
        Self {
            database: found.as_ref().map(Identity::of),
            size: found.as_ref().map_or(0, Metadata::len),
            modified: found.as_ref().and_then(|found| found.modified().ok()),
            size_of_log: size_of_log(path),
        }
    }

    pub(super) fn has_log(&self) -> bool {
        self.size_of_log > 0
    }
}

/// Writes the log back into the database and empties it. If somebody still reads it, the log keeps
/// what is left.
fn write_back(connection: &Connection) {
    let _ = connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
}

/// Follows links, as SQLite does before it looks for the other two files.
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

/// How many bytes the log beside a database has. 0 where there is none.
pub(super) fn size_of_log(path: &Path) -> u64 {
    size(&beside(&real(path), "-wal"))
}
