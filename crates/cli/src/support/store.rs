//! The path of a store, on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

/// A hint for a program that was built without SQLite.
#[cfg(not(feature = "sqlite-system"))]
const HINT: &str =
    "build eventcast-cli with `--features sqlite`, or with `sqlite-system` for the system's SQLite";

/// Reads the value of `--store`.
pub(crate) fn parse(path: OsString) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("--store needs a file, as in --store events.db".to_owned());
    }
    Ok(path.into())
}

/// Returns what is wrong if this program cannot open the store that `asked` asks for.
pub(crate) fn check_feature(asked: &str) -> Result<(), String> {
    #[cfg(not(feature = "sqlite-system"))]
    return Err(format!("{asked} needs the feature `sqlite`: {HINT}"));
    #[cfg(feature = "sqlite-system")]
    {
        let _ = asked;
        Ok(())
    }
}
