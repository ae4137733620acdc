//! How many clients may be connected at once: each is an open file.

/// Asks the system for as many open files as this process may have; says how many that are, if it is known.
#[cfg(unix)]
pub(crate) fn raise() -> Option<u64> {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    // Then it stays as it was.
    let _ = setrlimit(Resource::Nofile, limit);
    getrlimit(Resource::Nofile).current
}

#[cfg(not(unix))]
pub(crate) fn raise() -> Option<u64> {
    None
}
