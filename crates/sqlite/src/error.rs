//! The errors that a store returns if its file cannot be opened, read or written.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fmt, io};

use eventcast::SinkError;
use eventcast::error::BuildError;
use eventcast::escape::escape;
use eventcast::sink::SinkErrorKind;
use rusqlite::ErrorCode;

/// The maximum length of an error's detail, such as SQLite's message, in characters.
const MAX_DETAIL: usize = 300;

/// An error from opening, reading or writing a [`SqliteSink`](crate::SqliteSink). The message names
/// the file and the cause, and suggests a fix.
///
/// # Examples
///
/// ```
/// use eventcast_sqlite::{SqliteErrorKind, SqliteSink};
///
/// let error = SqliteSink::open("/no/such/folder/events.db").unwrap_err();
/// assert_eq!(error.kind(), SqliteErrorKind::NoParent);
/// assert_eq!(error.path().to_str(), Some("/no/such/folder/events.db"));
/// assert_eq!(
///     error.to_string(),
///     "/no/such/folder/events.db: the directory does not exist; create it first, or choose another path"
/// );
/// ```
#[derive(Debug)]
pub struct SqliteError {
    kind: SqliteErrorKind,
    path: PathBuf,
    /// The escaped message from SQLite or the operating system. The message may be empty.
    detail: String,
    source: Option<ErrorCause>,
}

/// The source of an error. SQLite's own errors are included only as text so that the API does not
/// depend on a particular version of rusqlite.
#[derive(Debug)]
enum ErrorCause {
    Io(io::Error),
    Option(Box<BuildError>),
}

/// The kind of a [`SqliteError`].
///
/// # Examples
///
/// ```
/// use eventcast_sqlite::{SqliteErrorKind, SqliteSink};
///
/// let kind = |path| SqliteSink::open(path).unwrap_err().kind();
/// assert_eq!(kind(""), SqliteErrorKind::InvalidPath);
/// assert_eq!(kind("/no/such/folder/events.db"), SqliteErrorKind::NoParent);
/// assert_eq!(kind("/"), SqliteErrorKind::NotAFile);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SqliteErrorKind {
    /// An option is out of range.
    InvalidOption,
    /// The path is empty, or contains a character that is not allowed in a path.
    InvalidPath,
    /// The path names something other than a file, such as a directory or a device.
    NotAFile,
    /// The directory that should contain the file does not exist.
    NoParent,
    /// The store was opened for reading only, and the file does not exist.
    Missing,
    /// The system refuses access to the file or its directory.
    Denied,
    /// The file is not a SQLite database.
    NotADatabase,
    /// The file is another program's database.
    Foreign,
    /// The file was written by a newer version of this library.
    Newer,
    /// The store was opened for reading only, and the file is empty or was written by an older
    /// version of this library.
    Older,
    /// The file is damaged.
    Corrupt,
    /// The disk is full, or the quota is exhausted.
    Full,
    /// Another process has locked the file for longer than the busy timeout.
    Busy,
    /// The file cannot be created or written, or the store was opened for reading only.
    ReadOnly,
    /// The file, or one of the two files next to it, was removed, moved or replaced while it was
    /// open.
    Moved,
    /// The disk or the file system reported an error.
    Io,
    /// Any other error.
    Other,
}

impl SqliteError {
    pub(crate) fn new(kind: SqliteErrorKind, path: &Path, detail: impl fmt::Display) -> Self {
        let detail = format!("{:.MAX_DETAIL$}", escape(&detail.to_string()));
        Self { kind, path: path.to_owned(), detail, source: None }
    }

    pub(crate) fn option(path: &Path, error: BuildError) -> Self {
        let mut found = Self::new(SqliteErrorKind::InvalidOption, path, &error);
        found.source = Some(ErrorCause::Option(Box::new(error)));
        found
    }

    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        let has_folder = || path.parent().is_some_and(Path::is_dir);
        let kind = match error.kind() {
            // A file system such as `/proc` does not allow new files.
            io::ErrorKind::NotFound if has_folder() => SqliteErrorKind::ReadOnly,
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => SqliteErrorKind::NoParent,
            io::ErrorKind::PermissionDenied => SqliteErrorKind::Denied,
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => SqliteErrorKind::Full,
            io::ErrorKind::ReadOnlyFilesystem => SqliteErrorKind::ReadOnly,
            io::ErrorKind::IsADirectory => SqliteErrorKind::NotAFile,
            io::ErrorKind::InvalidInput => SqliteErrorKind::InvalidPath,
            _ => SqliteErrorKind::Io,
        };
        let mut found = Self::new(kind, path, &error);
        found.source = Some(ErrorCause::Io(error));
        found
    }

    pub(crate) fn sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        Self::new(kind_of(error), path, error)
    }

    /// Returns the kind of the error.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_sqlite::{SqliteErrorKind, SqliteSink};
    ///
    /// let error = SqliteSink::open("/no/such/folder/events.db").unwrap_err();
    /// assert_eq!(error.kind(), SqliteErrorKind::NoParent);
    /// ```
    pub fn kind(&self) -> SqliteErrorKind {
        self.kind
    }

    /// Returns the path of the file. The path is absolute, unless it could not be converted to an
    /// absolute path.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_sqlite::SqliteSink;
    ///
    /// let error = SqliteSink::open("/no/such/folder/events.db").unwrap_err();
    /// assert!(error.path().ends_with("events.db"));
    /// ```
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns a copy of the error, without its source, so that the error can be reported for
    /// another operation.
    pub(crate) fn again(&self) -> Self {
        Self { kind: self.kind, path: self.path.clone(), detail: self.detail.clone(), source: None }
    }

    /// Converts the error to a [`SinkError`], whose kind determines what a recording does with the
    /// event that was not written.
    pub(crate) fn into_sink_error(self) -> SinkError {
        use SqliteErrorKind as Kind;
        match self.kind {
            // An operator can free space, fix the permissions, or stop the other process, and the
            // error may also go away without intervention. The error affects the whole file, so no
            // other event can be written at present either. Each attempt to write an event may take
            // as long as the busy timeout.
            Kind::Full
            | Kind::Busy
            | Kind::Io
            | Kind::Denied
            | Kind::ReadOnly
            | Kind::Missing
            | Kind::NoParent => SinkError::new(SinkErrorKind::Unavailable, self),
            // The next write reopens the path.
            Kind::Moved | Kind::Other => SinkError::retry(self),
            // The file does not recover while this process has the file open, so waiting would only
            // delay later events.
            _ => SinkError::rejected(self),
        }
    }
}

/// Returns the [`SqliteErrorKind`] that corresponds to a SQLite error.
pub(crate) fn kind_of(error: &rusqlite::Error) -> SqliteErrorKind {
    use SqliteErrorKind as Kind;
    let code = match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.code,
        rusqlite::Error::NulError(_) | rusqlite::Error::InvalidPath(_) => return Kind::InvalidPath,
        // The row contains a value that the store never writes.
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::InvalidColumnType(..)
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::Utf8Error(..) => return Kind::Corrupt,
        _ => return Kind::Other,
    };
    match code {
        ErrorCode::NotADatabase => Kind::NotADatabase,
        ErrorCode::DatabaseCorrupt | ErrorCode::SchemaChanged => Kind::Corrupt,
        ErrorCode::DiskFull => Kind::Full,
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            Kind::Busy
        }
        ErrorCode::ReadOnly => Kind::ReadOnly,
        ErrorCode::PermissionDenied | ErrorCode::AuthorizationForStatementDenied => Kind::Denied,
        ErrorCode::SystemIoFailure | ErrorCode::CannotOpen | ErrorCode::NoLargeFileSupport => Kind::Io,
        _ => Kind::Other,
    }
}

impl fmt::Display for SqliteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use SqliteErrorKind as Kind;
        let (what, advice) = match self.kind {
            Kind::InvalidOption => ("an option is out of range", ""),
            Kind::InvalidPath => ("this is not a valid path", "choose another one"),
            Kind::NotAFile => ("this is not a file", "choose the path of a file"),
            Kind::NoParent => ("the directory does not exist", "create it first, or choose another path"),
            Kind::Missing => ("the file does not exist", "a store that is opened for writing creates it"),
            Kind::Denied => (
                "access is denied",
                "make the file and its directory readable and writable, or choose another path",
            ),
            Kind::NotADatabase => {
                ("not an SQLite database, left unchanged", "choose another path, or move the file away")
            }
            Kind::Foreign => {
                ("another program's database, left unchanged", "choose another path, or move the file away")
            }
            Kind::Newer => {
                ("written by a newer version, left unchanged", "use that version, or move the file away")
            }
            Kind::Older => (
                "it does not contain a store of this version",
                "open it for writing once, which upgrades or creates the store",
            ),
            Kind::Corrupt => (
                "the file is damaged",
                "restore a backup, try `sqlite3 FILE .recover`, or move away the file and the files next to it",
            ),
            Kind::Full => ("the disk is full", "make room"),
            Kind::Busy => ("another process has held the write lock for too long", "try again"),
            Kind::ReadOnly => {
                ("it is not writable", "make the file and its directory writable, or choose another path")
            }
            Kind::Moved => (
                "the file was removed, moved or replaced while it was open",
                "try again, which opens the file that is there now",
            ),
            Kind::Io => ("the disk or the file system reported an error", "check the system log"),
            Kind::Other => ("it failed", ""),
        };
        write!(f, "{}: {what}", escape(&self.path.to_string_lossy()))?;
        // For `NoParent`, the system's message would not add any information.
        if !self.detail.is_empty() && self.kind != Kind::NoParent {
            write!(f, " ({})", self.detail)?;
        }
        if !advice.is_empty() {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

impl Error for SqliteError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.source {
            Some(ErrorCause::Io(error)) => Some(error),
            Some(ErrorCause::Option(error)) => Some(&**error),
            None => None,
        }
    }
}
