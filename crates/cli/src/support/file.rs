//! Identifies files, to notice that another file has replaced one that is being read.

use std::fs::Metadata;

/// Returns the identity of a file, as precisely as the platform can distinguish files.
pub(crate) fn identity(found: &Metadata) -> (u64, u64) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        (found.dev(), found.ino())
    }
    #[cfg(not(unix))]
    {
        let _ = found;
        (0, 0)
    }
}
