//! Opens a sink's files, and rotates files that are full.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use crate::record::sink::identity::Identity;

/// A file that is open for appending.
pub(super) struct Opened {
    pub(super) file: File,
    pub(super) identity: Identity,
    /// The file's size in bytes.
    pub(super) size: u64,
    /// Whether the file's last line is incomplete.
    pub(super) is_torn: bool,
}

/// Opens a file for appending. Creates the file if it does not exist.
pub(super) fn open(path: &Path) -> io::Result<Opened> {
    // Files of other kinds would need special handling. For example, opening a pipe blocks until
    // there is a reader, and a rotation would rename the pipe.
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    let found = file.metadata()?;
    let (identity, size) = (Identity::of(&found), found.len());
    let mut last = [b'\n'];
    if size > 0 {
        file.seek(SeekFrom::Start(size - 1))?;
        file.read_exact(&mut last)?;
    }
    Ok(Opened { file, identity, size, is_torn: last != [b'\n'] })
}

/// Opens a file for appending. If the file does not exist, creates it with the same permissions as
/// `old`.
pub(super) fn succeed(path: &Path, old: &File) -> io::Result<Opened> {
    let is_new = !path.try_exists()?;
    let opened = open(path)?;
    if is_new {
        // The process owns the file that it has just created, so setting the permissions fails only
        // if files do not have permissions, for example on some file systems.
        let _ = old.metadata().and_then(|found| opened.file.set_permissions(found.permissions()));
    }
    Ok(opened)
}

/// Rotates the file `old` at `path`, and opens a new file. Keeps at most `keep` rotated files.
///
/// If a step fails, no existing file is lost:
///
/// - If a rename fails after other renames have succeeded, the number to which the file should have
///   been moved is free. A later call moves only the files with smaller numbers, so no file is
///   replaced.
/// - If the new file cannot be opened, no file exists at `path`, as if another program had moved
///   the file.
pub(super) fn rotate(path: &Path, keep: u32, old: &File) -> io::Result<Opened> {
    // Another program may have moved the file and created a link to the file at the path. The sink
    // must not move such a link.
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    if keep == 0 {
        // The file is truncated instead of removed. If the file were removed and the next step
        // failed, the sink would write to an unlinked file.
        OpenOptions::new().write(true).truncate(true).open(path)?;
        return open(path);
    }
    make_room(path, keep)?;
    fs::rename(path, numbered(path, 1))?;
    succeed(path, old)
}

/// Renames each rotated file to the next number, up to the first free number. If no number is free,
/// the file with the largest number is replaced.
fn make_room(path: &Path, keep: u32) -> io::Result<()> {
    let mut free = 1;
    while free < keep && numbered(path, free).try_exists()? {
        free += 1;
    }
    for number in (1..free).rev() {
        fs::rename(numbered(path, number), numbered(path, number + 1))?;
    }
    Ok(())
}

/// Returns the path of a rotated file. The newest rotated file has the number 1.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(format!(".{number}"));
    name.into()
}
