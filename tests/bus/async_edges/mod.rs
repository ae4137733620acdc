//! The async side, poll by poll: which task is woken, how often, and what a dropped future leaves
//! behind.
#![allow(unsafe_code, reason = "a waker that does something when it is cloned is unsafe to make")]

mod dropped;
mod timer;
mod turns;
mod wakers;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};

use futures::{Stream, StreamExt};

use crate::support::LONG;

/// A waker that counts its wake-ups and reports each of them.
struct Bell {
    rings: AtomicU64,
    says: mpsc::Sender<()>,
}

struct Ear {
    bell: Arc<Bell>,
    waker: Waker,
    heard: mpsc::Receiver<()>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        let _ = self.says.send(());
    }
}

impl Ear {
    fn new() -> Self {
        let (says, heard) = mpsc::channel();
        let bell = Arc::new(Bell { rings: AtomicU64::new(0), says });
        Self { waker: Waker::from(bell.clone()), bell, heard }
    }

    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&self.waker))
    }

    fn poll_next<S: Stream + Unpin>(&self, stream: &mut S) -> Poll<Option<S::Item>> {
        stream.poll_next_unpin(&mut Context::from_waker(&self.waker))
    }

    fn wait(&self) {
        self.heard.recv_timeout(LONG).expect("no wake-up came");
    }

    fn rings(&self) -> u64 {
        self.bell.rings.load(Ordering::SeqCst)
    }

    /// Returns whether something besides this `Ear` still holds the waker.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.bell) > 2
    }
}
