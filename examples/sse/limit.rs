//! The limit of open files, and so of clients: each client that is connected is an open file.

/// Asks the system for as many open files as this process may have. Returns the limit, or `None` if
/// there is no limit or it is not known.
#[cfg(unix)]
pub(crate) fn raise() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // If this fails, the limit stays as it was.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(crate) fn raise() -> Option<u64> {
    None
}
