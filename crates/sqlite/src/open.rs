//! Opens stores. A file that is not a store is refused without being modified, and a new file is
//! created safely.
//!
//! A file is first inspected through a connection that takes no locks, does not read the log and
//! cannot write (`immutable`). SQLite performs this inspection. If this library opened and closed
//! the file itself, the process would lose the locks that its other connections hold on the file.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use eventcast::Timestamp;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use crate::error::{SqliteError, SqliteErrorKind as Kind, kind_of};
use crate::files::{Files, Still, identity, size_of_log};
use crate::options::{SqliteSinkOptions, SqliteSynchronous};
use crate::schema::IndexError;
use crate::{schema, write};

/// The size of the log in pages at which SQLite checkpoints the log, which is equivalent to 16 MiB.
const WAL_PAGES: u32 = 4096;
/// The size in bytes to which SQLite truncates the log after a checkpoint, which is 16 MiB.
const WAL_BYTES: u32 = WAL_PAGES * 4096;
/// The number of compiled statements that a connection caches. Any further statement would be
/// recompiled each time it is used.
const STATEMENTS: usize = 64;
/// The size of the writer's page cache, which is 16 MiB. SQLite interprets a negative number as a
/// size in KiB.
const CACHE: i32 = -16 * 1024;

/// The writer's connection, the readers' connection, and the files that both connections have open.
pub(crate) struct Opened {
    pub(crate) path: PathBuf,
    pub(crate) writer: Connection,
    pub(crate) reader: Connection,
    pub(crate) files: Files,
}

/// The connection that a store uses for reading.
pub(crate) struct Reader {
    /// The connection, or `None` if the store could not reopen the path.
    pub(crate) connection: Option<Connection>,
    /// The state of the file when it was opened, or `None` if the store reads the file with locks.
    pub(crate) still: Option<Still>,
}

fn absolute(path: &Path) -> Result<PathBuf, SqliteError> {
    // An absolute path is neither a URI nor one of SQLite's special names.
    std::path::absolute(path).map_err(|error| SqliteError::new(Kind::InvalidPath, path, error))
}

/// Opens a store for writing, and creates the store if it does not exist.
pub(crate) fn read_write(
    path: &Path,
    options: &SqliteSinkOptions,
    now: Timestamp,
) -> Result<Opened, SqliteError> {
    let path = absolute(path)?;
    options.check().map_err(|error| SqliteError::option(&path, error))?;
    create(&path)?;
    let opened = identity(&path);
    let found = look(&path)?;
    let fail = |error: rusqlite::Error| SqliteError::sqlite(&path, &error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut writer = connect(&path, &path, flags, options.busy_timeout)?;
    // If a file is not writable, SQLite opens the file for reading instead, without reporting an
    // error.
    if writer.is_readonly(rusqlite::MAIN_DB).map_err(fail)? {
        return Err(SqliteError::new(Kind::ReadOnly, &path, ""));
    }
    // When the last connection is closed, SQLite checkpoints the log into the file. If this
    // function refuses a file, such a checkpoint must not modify the file.
    let spare = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
    let has_log = size_of_log(&path) > 0;
    writer.set_db_config(spare, has_log).map_err(fail)?;
    // A file that appeared to be a store may have become empty in the meantime. If a process was
    // killed while it was marking the file as a store, the first inspection did not see the
    // rollback journal, and SQLite has since rolled back the mark.
    if found == FileKind::Empty || schema::application_id(&writer).map_err(fail)? != schema::APPLICATION_ID {
        claim(&path, &mut writer)?;
    }
    verify(&path, &writer)?;
    if has_log || options.full_check {
        check_pages(&path, &writer)?;
    }
    wal(&path, &mut writer, options.busy_timeout)?;
    settle(&writer, options).map_err(fail)?;
    schema::migrate(&mut writer, now).map_err(fail)?;
    schema::restore_indexes(&mut writer).map_err(|error| match error {
        IndexError::Wrong(detail) => SqliteError::new(Kind::Corrupt, &path, detail),
        IndexError::Sqlite(error) => fail(error),
    })?;
    write::prepare(&writer).map_err(|error| match kind_of(&error) {
        Kind::Other => SqliteError::new(Kind::Corrupt, &path, error),
        kind => SqliteError::new(kind, &path, error),
    })?;
    if let Some(max_events) = options.max_events {
        write::limit(&mut writer, max_events).map_err(fail)?;
    }
    writer.set_db_config(spare, false).map_err(fail)?;
    let reader = connect(&path, &path, reading(), options.busy_timeout)?;
    // The first read opens the log, so all files are open at this point. If the path still refers
    // to the same file as before, the open files are the files at the path.
    schema::user_version(&reader).map_err(fail)?;
    let files = Files::at(&path);
    if !files.are_complete(opened) {
        return Err(SqliteError::new(Kind::Moved, &path, "right now"));
    }
    Ok(Opened { path, writer, reader, files })
}

/// Opens a store for reading only.
pub(crate) fn read_only(path: &Path, busy_timeout: Duration) -> Result<(PathBuf, Reader), SqliteError> {
    let path = absolute(path)?;
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(SqliteError::new(Kind::Missing, &path, ""));
        }
        Err(error) => return Err(SqliteError::io(&path, error)),
        Ok(found) if !found.is_file() => return Err(not_a_file(&path, &found)),
        Ok(_) => {}
    }
    if look(&path)? == FileKind::Empty {
        return Err(older(&path, 0));
    }
    let still = Still::of(&path);
    let open = |file: &Path, flags| -> Result<_, SqliteError> {
        let connection = connect(&path, file, flags, busy_timeout)?;
        verify(&path, &connection)?;
        Ok(connection)
    };
    let (connection, still) = match open(&path, reading()) {
        // SQLite cannot create the two files that are missing next to the database. If there is no
        // log, SQLite can read the database without these files.
        Err(error) if error.kind() == Kind::Denied && !still.has_log() => {
            let uri = immutable(&path);
            (open(Path::new(&uri), reading() | OpenFlags::SQLITE_OPEN_URI)?, Some(still))
        }
        found => (found?, None),
    };
    let version = schema::user_version(&connection).map_err(|error| SqliteError::sqlite(&path, &error))?;
    if version < schema::VERSION {
        return Err(older(&path, version));
    }
    Ok((path, Reader { connection: Some(connection), still }))
}

fn reading() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Creates the file if it does not exist, and makes a new file accessible only to its owner. SQLite
/// creates the files next to the database with the same mode.
fn create(path: &Path) -> Result<(), SqliteError> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() => return Ok(()),
        Ok(found) => return Err(not_a_file(path, &found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(SqliteError::io(path, error)),
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(_) => Ok(()),
        // Another process created the file first. The caller inspects that file like any other
        // file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match fs::metadata(path) {
            Err(_) => Err(SqliteError::new(Kind::NotAFile, path, "a dangling symbolic link")),
            Ok(_) => Ok(()),
        },
        Err(error) => Err(SqliteError::io(path, error)),
    }
}

/// The kind of a file, as determined by its header.
#[derive(PartialEq)]
enum FileKind {
    Empty,
    Store,
}

/// Inspects a file without modifying anything, and returns whether the file is a store or is empty.
/// Returns an error for any other file.
fn look(path: &Path) -> Result<FileKind, SqliteError> {
    if look_once(path)? == FileKind::Store {
        return Ok(FileKind::Store);
    }
    // A process that creates a store marks the file before the file has a log. Therefore, if an
    // empty file has a log, either the file has been marked in the meantime, or the log belongs to
    // another database.
    if size_of_log(path) > 0 && look_once(path)? == FileKind::Empty {
        return Err(SqliteError::new(Kind::Foreign, path, "an empty file with a log next to it"));
    }
    Ok(FileKind::Empty)
}

fn look_once(path: &Path) -> Result<FileKind, SqliteError> {
    let fail = |error: rusqlite::Error| opening(path, &error);
    // SQLite would overwrite a file that is smaller than the minimum page size.
    let size = fs::metadata(path).map_err(|error| SqliteError::io(path, error))?.len();
    if (1..512).contains(&size) {
        return Err(SqliteError::new(Kind::NotADatabase, path, format_args!("{size} bytes")));
    }
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(immutable(path), flags).map_err(fail)?;
    // After a crash, the header may specify more pages than the file contains, because the other
    // pages are still in the log. The connection in this function does not read the log. If the
    // file is a store, this function reads only the file's header.
    connection.pragma_update(None, "writable_schema", true).map_err(fail)?;
    let application = schema::application_id(&connection).map_err(fail)?;
    let version = schema::user_version(&connection).map_err(fail)?;
    if application == schema::APPLICATION_ID {
        return if version > schema::VERSION { Err(newer(path, version)) } else { Ok(FileKind::Store) };
    }
    if application != 0 || version != 0 || !schema::is_empty(&connection).map_err(fail)? {
        return Err(foreign(path, application));
    }
    Ok(FileKind::Empty)
}

/// Marks an empty database as a store. Marking a database writes a single page, so a crash never
/// leaves a file that can be recognised neither as a store nor as empty.
fn claim(path: &Path, writer: &mut Connection) -> Result<(), SqliteError> {
    let fail = |error: rusqlite::Error| SqliteError::sqlite(path, &error);
    let transaction = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
    let application = schema::application_id(&transaction).map_err(fail)?;
    if application == schema::APPLICATION_ID {
        return Ok(());
    }
    if application != 0 || !schema::is_empty(&transaction).map_err(fail)? {
        return Err(foreign(path, application));
    }
    transaction.pragma_update(None, "application_id", schema::APPLICATION_ID).map_err(fail)?;
    transaction.commit().map_err(fail)
}

/// Checks the application id and the version again, this time taking the log into account.
fn verify(path: &Path, connection: &Connection) -> Result<(), SqliteError> {
    // The first read also opens the log.
    let fail = |error: rusqlite::Error| opening(path, &error);
    let application = schema::application_id(connection).map_err(fail)?;
    if application != schema::APPLICATION_ID {
        return Err(foreign(path, application));
    }
    let version = schema::user_version(connection).map_err(fail)?;
    if version > schema::VERSION {
        return Err(newer(path, version));
    }
    Ok(())
}

/// Checks that the pages are consistent, so that the store does not write to a damaged file. The
/// check reads the whole file.
fn check_pages(path: &Path, writer: &Connection) -> Result<(), SqliteError> {
    let answer: String = writer
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|error| SqliteError::sqlite(path, &error))?;
    if answer == "ok" { Ok(()) } else { Err(SqliteError::new(Kind::Corrupt, path, answer)) }
}

/// Enables the write-ahead log. If several processes open a new file at the same time, each process
/// requests WAL mode, and SQLite immediately returns a busy error to all but one of the processes.
/// However, a request for write access does wait. This function therefore waits for write access
/// and then requests WAL mode again, until the busy timeout has elapsed.
fn wal(path: &Path, writer: &mut Connection, busy_timeout: Duration) -> Result<(), SqliteError> {
    let fail = |error: rusqlite::Error| SqliteError::sqlite(path, &error);
    let ask = |writer: &Connection| {
        writer.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get::<_, String>(0))
    };
    let start = Instant::now();
    let mut mode = ask(writer);
    while mode.as_ref().is_err_and(|error| kind_of(error) == Kind::Busy) && start.elapsed() < busy_timeout {
        let turn = writer.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)?;
        turn.rollback().map_err(fail)?;
        mode = ask(writer);
    }
    match mode {
        Ok(mode) if mode == "wal" => Ok(()),
        Ok(mode) => Err(SqliteError::new(
            Kind::Io,
            path,
            format_args!(
                "cannot enable a write-ahead log (the journal mode is `{mode}`): is the file on a network file system?"
            ),
        )),
        Err(error) => Err(SqliteError::sqlite(path, &error)),
    }
}

fn settle(writer: &Connection, options: &SqliteSinkOptions) -> rusqlite::Result<()> {
    let (synchronous, flush_drive) = match options.synchronous {
        SqliteSynchronous::Full => ("full", true),
        SqliteSynchronous::Normal => ("normal", false),
    };
    writer.pragma_update(None, "synchronous", synchronous)?;
    // On systems such as macOS, an ordinary `fsync` does not flush the drive's cache.
    writer.pragma_update(None, "fullfsync", flush_drive)?;
    writer.pragma_update(None, "cache_size", CACHE)?;
    pragma_with_answer(writer, "wal_autocheckpoint", WAL_PAGES)?;
    pragma_with_answer(writer, "journal_size_limit", WAL_BYTES)
}

fn pragma_with_answer(connection: &Connection, name: &str, value: u32) -> rusqlite::Result<()> {
    connection.pragma_update_and_check(None, name, value, |_| Ok(()))
}

/// Opens a connection to the store at `path`, with the settings that are common to all connections
/// except the connection for the first inspection. `file` is the path or URI to pass to SQLite.
fn connect(
    path: &Path,
    file: &Path,
    flags: OpenFlags,
    busy_timeout: Duration,
) -> Result<Connection, SqliteError> {
    let open = || {
        let connection = Connection::open_with_flags(file, flags)?;
        connection.busy_timeout(busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // A file from an untrusted source may have a schema that calls functions.
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cell_size_check", true)?;
        // Make SQLite sort data in memory instead of in a directory that is accessible to all
        // users.
        connection.pragma_update(None, "temp_store", "memory")?;
        Ok(connection)
    };
    open().map_err(|error| opening(path, &error))
}

/// Returns the error for a failed attempt to open a file. The file existed shortly before the
/// attempt, so if SQLite cannot open the file, the system must have denied access.
fn opening(path: &Path, error: &rusqlite::Error) -> SqliteError {
    let kind = match error.sqlite_error_code() {
        // Nothing has been written yet, so `ReadOnly` means that SQLite cannot create the files
        // next to the database.
        Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly) => Kind::Denied,
        _ => kind_of(error),
    };
    SqliteError::new(kind, path, error)
}

/// Returns a URI for reading the file at this path without locks. Each byte of the path that could
/// have a special meaning in a URI is escaped.
fn immutable(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let mut uri = "file:".to_owned();
    if cfg!(windows) {
        uri.push_str("///");
    }
    for &byte in bytes {
        match byte {
            b'\\' if cfg!(windows) => uri.push('/'),
            b':' if cfg!(windows) => uri.push(':'),
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            // Writing to a `String` never fails.
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri.push_str("?immutable=1");
    uri
}

fn not_a_file(path: &Path, found: &fs::Metadata) -> SqliteError {
    let detail = if found.is_dir() { "a folder" } else { "neither a file nor a directory" };
    SqliteError::new(Kind::NotAFile, path, detail)
}

fn foreign(path: &Path, application: i32) -> SqliteError {
    SqliteError::new(Kind::Foreign, path, format_args!("application_id {application:#x}"))
}

fn newer(path: &Path, version: i32) -> SqliteError {
    SqliteError::new(
        Kind::Newer,
        path,
        format_args!("version {version}, supported are 1 to {}", schema::VERSION),
    )
}

fn older(path: &Path, version: i32) -> SqliteError {
    if version == 0 {
        return SqliteError::new(Kind::Older, path, "it is empty");
    }
    SqliteError::new(Kind::Older, path, format_args!("version {version}, expected {}", schema::VERSION))
}
