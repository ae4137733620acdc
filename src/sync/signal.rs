//! A token for which a crossbeam `Select` can wait.

use std::sync::Arc;
use std::task::{Wake, Waker};

pub(crate) use crossbeam_channel::Select;
use crossbeam_channel::{Receiver, Sender, bounded};

/// A channel with a capacity of one, which holds a token when there may be something to receive.
#[derive(Debug)]
pub(crate) struct Signal {
    tokens: Receiver<()>,
    waker: Waker,
}

/// A waker that sends the token. If a thread is sleeping in a `Select`, the waker briefly takes
/// crossbeam's lock.
struct SendToken(Sender<()>);

impl Wake for SendToken {
    fn wake(self: Arc<Self>) {
        // An error means that the channel is full, so the token is already present.
        let _ = self.0.try_send(());
    }
}

impl Signal {
    pub(crate) fn new() -> Self {
        let (tx, tokens) = bounded(1);
        Self { tokens, waker: Waker::from(Arc::new(SendToken(tx))) }
    }

    /// Removes the token if it is present.
    pub(crate) fn clear(&self) {
        let _ = self.tokens.try_recv();
    }

    pub(crate) fn waker(&self) -> &Waker {
        &self.waker
    }

    pub(crate) fn add_to<'a>(&'a self, select: &mut Select<'a>) -> usize {
        select.recv(&self.tokens)
    }
}
