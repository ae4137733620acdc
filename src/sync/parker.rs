//! A token for which one thread at a time can wait.
//!
//! Giving the token does not take a lock, because publishers give it to the threads that they wake.
//! The token is a flag. The thread waiting for the token stores its thread handle in a cell. A
//! different thread may wait each time. In some older versions of Rust, such as 1.85, a handle is
//! larger than a pointer. In that case, crossbeam's cell holds an internal lock for the duration of
//! an exchange.
//!
//! No wake-up is lost. The waiting side puts its handle into the cell, and then checks the flag.
//! The waking side sets the flag, and then takes the contents of the cell. Both sides exchange the
//! contents of the cell, so the two exchanges are ordered, and the later side sees what the earlier
//! side did before its exchange. Therefore, either the waking side finds the handle, or the waiting
//! side finds the flag set.

use std::fmt;

#[cfg(not(eventcast_loom))]
use crossbeam_utils::atomic::AtomicCell;
#[cfg(not(eventcast_loom))]
use std::sync::Arc;
#[cfg(not(eventcast_loom))]
use std::sync::atomic::{AtomicBool, Ordering};
#[cfg(not(eventcast_loom))]
use std::thread;

#[cfg(eventcast_loom)]
use super::model::atomic::{AtomicBool, Ordering};
#[cfg(eventcast_loom)]
use super::model::{self as thread, Arc, AtomicCell};

/// The waiting side of a token.
#[derive(Debug)]
pub struct Parker(Arc<Token>);

/// The waking side of a [`Parker`]'s token.
#[derive(Clone, Debug)]
pub struct Unparker(Arc<Token>);

struct Token {
    is_given: AtomicBool,
    /// The thread that is waiting or about to wait. The cell's exchanges have acquire and release
    /// semantics.
    sleeper: AtomicCell<Option<thread::Thread>>,
}

impl Parker {
    /// Creates a token that has not been given.
    pub fn new() -> Self {
        Self(Arc::new(Token { is_given: AtomicBool::new(false), sleeper: AtomicCell::new(None) }))
    }

    /// Returns the waking side of the token.
    pub fn unparker(&self) -> Unparker {
        Unparker(self.0.clone())
    }

    /// Takes the token. If it has not been given yet, first calls `sleep`, which parks the thread
    /// with the system's mechanism. `sleep` may return before the token has been given.
    pub fn park(&self, sleep: impl FnOnce()) {
        if self.take() {
            return;
        }
        drop(self.0.sleeper.swap(Some(thread::current())));
        if !self.take() {
            sleep();
            self.take();
        }
        // If the handle stayed in the cell, a late `unpark` could end an unrelated park of this
        // thread.
        drop(self.0.sleeper.take());
    }

    fn take(&self) -> bool {
        // Acquire: pairs with the Release in `unpark`, so that this thread sees what the waking
        // side did before.
        self.0.is_given.swap(false, Ordering::Acquire)
    }
}

impl Unparker {
    /// Gives the token, and wakes the thread waiting for it. Does not take a lock.
    pub fn unpark(&self) {
        // Release: pairs with the Acquire in `take`. A store would be enough, but loom does not
        // know that a store follows the swap of a park that found the flag unset.
        self.0.is_given.swap(true, Ordering::Release);
        if let Some(sleeper) = self.0.sleeper.take() {
            sleeper.unpark();
        }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}
