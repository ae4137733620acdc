//! A token for which one thread at a time waits.
//!
//! Giving the token takes no lock, because publishers give it to the threads that they wake. The
//! token is a flag. The thread that waits for the token leaves its handle in a cell, and may be
//! another thread at each wait. In some older versions of Rust, such as 1.85, a handle is larger
//! than a pointer. There crossbeam's cell has a lock of its own for the instant of an exchange.
//!
//! No wake-up is lost. The waiting side puts its handle into the cell, and then checks the flag.
//! The waking side sets the flag, and then takes what is in the cell. Both exchange the contents of
//! the cell, so the exchanges have an order, and the later side sees what the earlier one did
//! before. Either the waking side finds the handle, or the waiting side finds the flag set.

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

/// The side that waits.
#[derive(Debug)]
pub struct Parker(Arc<Token>);

/// The other side of a [`Parker`].
#[derive(Clone, Debug)]
pub struct Unparker(Arc<Token>);

struct Token {
    is_given: AtomicBool,
    /// The thread that waits, or is about to. Its exchanges acquire and release.
    sleeper: AtomicCell<Option<thread::Thread>>,
}

impl Parker {
    /// Creates a token that has not been given.
    pub fn new() -> Self {
        Self(Arc::new(Token { is_given: AtomicBool::new(false), sleeper: AtomicCell::new(None) }))
    }

    /// Returns the other side.
    pub fn unparker(&self) -> Unparker {
        Unparker(self.0.clone())
    }

    /// Takes the token. If it has not been given, calls `sleep` first, which parks the thread by
    /// the system's means. `sleep` may end without the token.
    pub fn park(&self, sleep: impl FnOnce()) {
        if self.take() {
            return;
        }
        drop(self.0.sleeper.swap(Some(thread::current())));
        if !self.take() {
            sleep();
            self.take();
        }
        // A handle that stayed would let a late `unpark` end an unrelated park of this thread.
        drop(self.0.sleeper.take());
    }

    fn take(&self) -> bool {
        // Acquire: pairs with the Release in `unpark`, so that the thread sees what the other side
        // did before.
        self.0.is_given.swap(false, Ordering::Acquire)
    }
}

impl Unparker {
    /// Gives the token, and wakes the thread that waits for it. Takes no lock.
    pub fn unpark(&self) {
        // Release: pairs with the Acquire in `take`. A store would do. For a store, loom does not
        // know that it follows the swap of a park that found the flag unset.
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
