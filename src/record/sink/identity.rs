//! File identities, which allow a store to detect that its file has been moved.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::Path;

/// The identity of a file. On Unix, the identity consists of the file's device and inode. On other
/// systems, all files have the same identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity(u64, u64);

impl Identity {
    pub(super) fn of(found: &Metadata) -> Self {
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

    /// Returns the identity of the file at a path, or `None` if no file exists at that path.
    ///
    /// # Errors
    ///
    /// Returns an error if the operating system does not allow the process to determine whether the
    /// file exists.
    pub(super) fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(found) => Ok(Some(Self::of(&found))),
            Err(error) if [ErrorKind::NotFound, ErrorKind::NotADirectory].contains(&error.kind()) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
