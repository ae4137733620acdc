//! The thread functions for models, which use loom's threads.

pub(crate) use loom::thread::{JoinHandle, yield_now};
pub(crate) use std::thread::panicking;

pub(crate) fn spawn<F>(name: String, run: F) -> std::io::Result<JoinHandle<()>>
where
    F: FnOnce() + Send + 'static,
{
    loom::thread::Builder::new().name(name).spawn(run)
}

/// Always returns `false`. A model starts few threads, so it keeps all of them until they are
/// joined.
pub(crate) fn is_finished(_handle: &JoinHandle<()>) -> bool {
    false
}

pub(crate) fn join_other(handle: JoinHandle<()>) {
    let _ = handle.join();
}
