//! The path of a store that is specified on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

#[cfg(any(unix, feature = "sqlite-system"))]
use super::number::counted;

/// Parses the value of `--store`.
pub(crate) fn parse(path: OsString) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("--store requires a file, as in --store events.db".to_owned());
    }
    Ok(path.into())
}

/// Returns the number of expired events in a store as text, such as `2 events have expired`.
#[cfg(any(unix, feature = "sqlite-system"))]
pub(crate) fn expired_events(count: u64) -> String {
    let have = if count == 1 { "has" } else { "have" };
    format!("{} {have} expired", counted(count, "event"))
}

#[cfg(all(test, any(unix, feature = "sqlite-system")))]
mod tests {
    use super::expired_events;

    #[test]
    fn one_event_has_expired_and_two_have() {
        let shown = [1, 2, 1000].map(expired_events);
        assert_eq!(shown, ["1 event has expired", "2 events have expired", "1,000 events have expired"]);
    }
}
