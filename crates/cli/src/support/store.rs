//! The path of a store, on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// Reads the value of `--store`.
pub(crate) fn parse(path: OsString) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("--store needs a file, as in --store events.db".to_owned());
    }
    Ok(path.into())
}

/// Returns what is wrong if this program was built without SQLite, and `asked` needs it.
pub(crate) fn check_feature(asked: &str) -> Result<(), String> {
    if cfg!(feature = "sqlite-system") {
        return Ok(());
    }
    Err(format!(
        "{asked} needs the feature `sqlite`: build eventcast-cli with `--features sqlite`, or with \
         `sqlite-system` for the system's SQLite"
    ))
}
