//! Stand-ins for crossbeam's `Select`, which loom cannot wake, and for the token for which a
//! `Select` waits.

use std::sync::Arc;
use std::task::{Wake, Waker};

use super::{Mutex, Parker, Unparker, park_until};

/// A token that is present if there may be something to receive.
#[derive(Debug)]
pub(crate) struct Signal {
    token: Arc<Token>,
    waker: Waker,
}

/// The state of a token, like a crossbeam channel with a capacity of one. The lock represents the
/// channel's internal lock.
#[derive(Debug, Default)]
struct Token(Mutex<TokenState>);

#[derive(Debug, Default)]
struct TokenState {
    is_there: bool,
    /// The thread that is sleeping in a `Select` with this token.
    parked: Option<Unparker>,
}

impl Wake for Token {
    fn wake(self: Arc<Self>) {
        let parked = {
            let mut state = self.0.lock();
            state.is_there = true;
            state.parked.take()
        };
        if let Some(parked) = parked {
            parked.unpark();
        }
    }
}

impl Signal {
    pub(crate) fn new() -> Self {
        let token = Arc::new(Token::default());
        Self { waker: Waker::from(token.clone()), token }
    }

    /// Removes the token if it is present.
    pub(crate) fn clear(&self) {
        self.token.0.lock().is_there = false;
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn add_to<'a>(&'a self, select: &mut Select<'a>) -> usize {
        select.signals.push(self);
        select.signals.len() - 1
    }
}

/// A stand-in for crossbeam's `Select` in a model. The stand-in waits only for watchers, and loom
/// can wake it.
///
/// The watchers are added with [`Watcher::add_to`](crate::Watcher::add_to).
#[derive(Debug)]
pub struct Select<'a> {
    signals: Vec<&'a Signal>,
    parker: Parker,
}

impl Select<'_> {
    /// Creates a `Select` without any watchers.
    ///
    /// # Panics
    ///
    /// Panics outside a model.
    #[must_use]
    #[allow(clippy::new_without_default, reason = "as crossbeam's, whose place it takes")]
    pub fn new() -> Self {
        Self { signals: Vec::new(), parker: Parker::new() }
    }

    /// Waits until one of the watchers may have something to receive, and returns the index that
    /// was returned when that watcher was added.
    ///
    /// # Blocking
    ///
    /// Blocks until one of the watchers may have something to receive. If this never happens, as in
    /// a `Select` without any watchers, loom reports a deadlock.
    pub fn ready(&mut self) -> usize {
        loop {
            if let Some(index) = self.signals.iter().position(|signal| self.is_ready(signal)) {
                return index;
            }
            park_until(&self.parker, None);
        }
    }

    /// Returns whether the token is present. If the token is not present, its arrival will wake
    /// this thread.
    fn is_ready(&self, signal: &Signal) -> bool {
        let mut state = signal.token.0.lock();
        if !state.is_there {
            state.parked = Some(self.parker.unparker());
        }
        state.is_there
    }
}
