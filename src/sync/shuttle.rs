//! The facade under shuttle: see the head of `sync.rs`.
//!
//! shuttle runs all threads of a test on one, takes turns at random at each operation of these types, and reads every
//! ordering as sequentially consistent. So crossbeam's queues and wakers can stay the real ones: an operation of theirs
//! is one step to it, with a turn before each.

use std::sync::PoisonError;

use shuttle::sync::Condvar;

pub(crate) use crossbeam_utils::CachePadded;
pub(crate) use shuttle::sync::Arc;
pub(crate) use shuttle::thread_local;

#[cfg(any(feature = "async", feature = "select"))]
pub(crate) use atomic_waker::AtomicWaker;

pub(crate) mod atomic {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
}

pub(crate) mod hint {
    pub(crate) use shuttle::hint::spin_loop;
}

pub(crate) const SPINS: u32 = 0;
pub(crate) const YIELDS: u32 = 0;
#[cfg(feature = "async")]
pub(crate) const TURN: usize = 2;

pub(crate) mod thread {
    pub(crate) use shuttle::thread::{JoinHandle, yield_now};
    pub(crate) use std::thread::panicking;

    pub(crate) fn spawn<F>(name: String, run: F) -> std::io::Result<JoinHandle<()>>
    where
        F: FnOnce() + Send + 'static,
    {
        shuttle::thread::Builder::new().name(name).spawn(run)
    }
}

/// shuttle's lock without the poison, as parking_lot's.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A token, as crossbeam's, whichever kind is asked for.
#[derive(Debug)]
pub(crate) struct Parker(Unparker);

#[derive(Clone, Debug)]
pub(crate) struct Unparker(Arc<(shuttle::sync::Mutex<bool>, Condvar)>);

impl Parker {
    pub(crate) fn new() -> Self {
        Self(Unparker(Arc::default()))
    }

    pub(crate) fn for_one_thread() -> Self {
        Self::new()
    }

    #[allow(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn settle(&self) {}

    pub(crate) fn unparker(&self) -> Unparker {
        self.0.clone()
    }
}

impl Unparker {
    pub(crate) fn unpark(&self) {
        let (token, given) = &*self.0;
        *token.lock().unwrap_or_else(PoisonError::into_inner) = true;
        given.notify_one();
    }
}

/// A deadline that is not over never comes: there is no time.
pub(crate) fn park_until(parker: &Parker, _deadline: Option<std::time::Instant>) {
    let (token, given) = &*parker.0.0;
    let mut token = token.lock().unwrap_or_else(PoisonError::into_inner);
    while !*token {
        token = given.wait(token).unwrap_or_else(PoisonError::into_inner);
    }
    *token = false;
}

pub(crate) fn gate_cells() -> usize {
    4
}

/// The same in each replay.
pub(crate) fn thread_number() -> usize {
    shuttle::thread::current().id().into()
}

/// Lets others have their turn.
fn turn() {
    thread_local! {
        static TURN: atomic::AtomicBool = atomic::AtomicBool::new(false);
    }
    // Relaxed: nobody else has it.
    TURN.with(|turn| turn.load(atomic::Ordering::Relaxed));
}

#[derive(Debug)]
pub(crate) struct Sender<T>(crossbeam_channel::Sender<T>);

#[derive(Debug)]
pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<T>);

pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let (tx, rx) = crossbeam_channel::bounded(capacity);
    (Sender(tx), Receiver(rx))
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, value: T) -> Result<(), T> {
        turn();
        self.0.try_send(value).map_err(crossbeam_channel::TrySendError::into_inner)
    }

    #[cfg(feature = "async")]
    pub(crate) fn is_full(&self) -> bool {
        turn();
        self.0.is_full()
    }
}

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Option<T> {
        turn();
        self.0.try_recv().ok()
    }

    pub(crate) fn len(&self) -> usize {
        turn();
        self.0.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        turn();
        self.0.is_full()
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
pub(crate) struct Segments<T>(crossbeam_queue::SegQueue<T>);

impl<T> Segments<T> {
    pub(crate) fn new(_most: usize) -> Self {
        Self(crossbeam_queue::SegQueue::new())
    }

    pub(crate) fn push(&self, value: T) {
        turn();
        self.0.push(value);
    }

    pub(crate) fn pop(&self) -> Option<T> {
        turn();
        self.0.pop()
    }
}
