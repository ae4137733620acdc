//! The only source of atomics, locks, threads, parking and channels in the library.
//!
//! All concurrency primitives of the library are imported from this module, so that a model checker
//! can run all of them. With `--cfg eventcast_loom` the same names are loom's (`cargo loom` runs
//! the models of `loom-tests/`). This list describes the differences in a model, and why a model is
//! sound for the rest:
//!
//! * crossbeam's queues are opaque to loom, so a small bounded queue in `sync/model.rs` stands in
//!   for all of them. The stand-in promises less than crossbeam does. Its only happens-before is
//!   from the send of a value to its receipt, and from the receipt to the reuse of that slot. It
//!   reports "full" and "empty" where crossbeam would wait for a peer in the middle of an
//!   operation.
//! * Most models have a gate of one cell, and threads that wake only for a reason. `Detail` in
//!   `sync/model.rs` sets this for a model, and docs/verification.md lists the models with more
//!   cells and spurious wake-ups.
//! * A token of one step stands in for [`parker`]. The real one has its own model,
//!   `direct::a_token_against_a_park`. There a lock stands in for crossbeam's `AtomicCell`.
//! * The stand-in of a queue knows how many values it was sent. The real one counts them with
//!   [`pushed`], which the model `controls::a_count_of_pushes_against_pops` explores.
//! * An exchange of one flag stands in for the `TryMutex`, whose waiting side yields. loom's own
//!   lock would wait where `try_lock` must fail.
//! * Time does not pass. A timeout of zero has expired, and any other never expires (`clock.rs`).
//! * Spinning is off, because a spin explores nothing that parking does not. An awaited handler
//!   yields after two deliveries.

#[cfg(eventcast_loom)]
mod model;
#[cfg(all(feature = "select", eventcast_loom))]
mod model_select;
#[cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "only the models see it from outside"))]
pub(crate) mod parker;
#[cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "as above"))]
pub(crate) mod pushed;
#[cfg(all(feature = "select", not(eventcast_loom)))]
mod signal;
#[cfg(eventcast_loom)]
pub(crate) mod thread;

#[cfg(eventcast_loom)]
pub use self::model::park;
#[cfg(eventcast_loom)]
pub(crate) use self::model::*;
#[cfg(all(feature = "select", eventcast_loom))]
pub use self::model_select::Select;
#[cfg(all(feature = "select", eventcast_loom))]
pub(crate) use self::model_select::Signal;

#[cfg(not(eventcast_loom))]
pub(crate) use self::parker::{Parker, Unparker};
#[cfg(not(eventcast_loom))]
pub(crate) use real::*;
#[cfg(all(feature = "select", not(eventcast_loom)))]
pub(crate) use signal::{Select, Signal};

/// Whether time passes. It does not in a model, nor where the standard library has no clock: on
/// WebAssembly without a system.
pub(crate) const HAS_TIME: bool =
    cfg!(not(any(eventcast_loom, all(target_family = "wasm", target_os = "unknown"))));

/// Returns a number that nothing else in this process has. The number names a bus, and
/// distinguishes its threads from others.
pub(crate) fn unique_id() -> u64 {
    // Not the model's atomic: a name carries no happens-before, and loom's atomics cannot live in a
    // static.
    use core::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the number counts.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A counter for statistics only, on which no decision depends. It wraps around.
#[derive(Debug, Default)]
pub(crate) struct Tally(core::sync::atomic::AtomicU64);

impl Tally {
    // Not the model's atomic, as above: a count carries no happens-before.
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: only the number counts.
        self.0.fetch_add(count, core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: as above.
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// The maps of the correlator's caches. Each shard has its own lock, which is the real one under
/// every configuration. Threads whose objects share a shard wait for each other there. No model has
/// the correlator, so no model needs to see these locks. Their order is in `record/mod.rs`.
#[cfg(feature = "recorder")]
pub(crate) use dashmap::{DashMap, SharedValue};

#[cfg(not(eventcast_loom))]
#[allow(clippy::disallowed_methods, reason = "this is the facade")]
mod real {
    use std::cell::Cell;
    use std::sync::OnceLock;

    use crossbeam_queue::{ArrayQueue, SegQueue};

    use super::parker::Parker;
    use super::pushed::Popped;

    pub(crate) use atomic_waker::AtomicWaker;
    pub(crate) use crossbeam_utils::CachePadded;
    pub(crate) use std::sync::Arc;
    pub(crate) use std::thread_local;

    /// The library's lock, for short critical sections off the publish path. It is never poisoned.
    pub(crate) use parking_lot::Mutex;

    /// The same lock, for a value for which some threads do not wait.
    pub(crate) use parking_lot::{Mutex as TryMutex, MutexGuard as TryMutexGuard};

    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    }

    pub(crate) mod hint {
        pub(crate) use std::hint::spin_loop;
    }

    /// The number of times that the loops of the bus spin and check again before they yield. Each
    /// spin is twice as long as the previous one.
    pub(crate) const SPINS: u32 = 3;
    /// The number of times that these loops then yield the processor and check again before they
    /// park.
    pub(crate) const YIELDS: u32 = 3;
    /// The number of times that a publisher which does not wait checks a full queue again. Each
    /// spin is twice as long as the previous one. Together they take less than a microsecond.
    pub(crate) const LOOKS: u32 = 4;
    /// The number of spins for which a reader of an inline bus lets a few events accumulate, if it
    /// is faster than the publishers. They take one to two microseconds.
    pub(crate) const GATHER: u32 = 32;
    /// The number of rounds without a sleeping reader after which the dispatcher may lend the
    /// fan-out.
    pub(crate) const BUSY_ROUNDS: u32 = 4;
    /// The number of waiting entries from which a reader pulls immediately. A reader pulls fewer
    /// entries only before it would sleep.
    pub(crate) const MANY: usize = 32;
    /// The number of deliveries that an awaited handler handles before it lets other tasks run.
    pub(crate) const TURN: usize = 100;

    pub(crate) mod thread {
        #[cfg(feature = "recorder")]
        pub(crate) use std::thread::current;
        pub(crate) use std::thread::panicking;
        pub(crate) use std::thread::{JoinHandle, yield_now};

        /// Starts a named thread. The caller may drop the handle, because the library waits for its
        /// threads by their own signals, and joins them only after those.
        pub(crate) fn spawn<F>(name: String, run: F) -> std::io::Result<JoinHandle<()>>
        where
            F: FnOnce() + Send + 'static,
        {
            std::thread::Builder::new().name(name).spawn(run)
        }

        pub(crate) fn is_finished(handle: &JoinHandle<()>) -> bool {
            handle.is_finished()
        }

        /// Joins a thread, unless it is this one: the destructor of a thread-local value may call
        /// this. The library catches panics in user code, so a panic in the thread has been
        /// reported.
        pub(crate) fn join_other(handle: JoinHandle<()>) {
            if handle.thread().id() != std::thread::current().id() {
                let _ = handle.join();
            }
        }
    }

    /// The sending end of a bounded queue between threads: crossbeam's channel, never used in its
    /// blocking forms.
    #[derive(Debug)]
    pub(crate) struct Sender<T>(crossbeam_channel::Sender<T>, Arc<Popped>);

    /// The receiving end of [`Sender`]. Only one thread at a time uses it.
    #[derive(Debug)]
    pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<T>, Arc<Popped>);

    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let ((tx, rx), popped) = (crossbeam_channel::bounded(capacity), Arc::new(Popped::new()));
        (Sender(tx, popped.clone()), Receiver(rx, popped))
    }

    impl<T> Sender<T> {
        /// Sends a value without waiting. Returns the value as the error if the queue is full. The
        /// queue is never disconnected: the sending thread also keeps a receiver alive, or has been
        /// stopped by other means.
        #[inline]
        pub(crate) fn try_send(&self, value: T) -> Result<(), T> {
            self.0.try_send(value).map_err(crossbeam_channel::TrySendError::into_inner)
        }

        /// Returns whether the queue is full. This is a hint, because other threads change the
        /// queue at any time.
        pub(crate) fn is_full(&self) -> bool {
            self.0.is_full()
        }

        /// Returns how many values had been sent at some time during this call. Yields while
        /// another thread takes one out.
        pub(crate) fn pushed(&self) -> u64 {
            self.1.pushed(|| self.0.len())
        }
    }

    impl<T> Receiver<T> {
        #[inline]
        pub(crate) fn try_recv(&self) -> Option<T> {
            self.1.count(|| self.0.try_recv().ok())
        }

        /// Takes a value out of the queue, and passes it on. A large value is copied less often
        /// than with [`try_recv`](Self::try_recv).
        #[inline]
        pub(crate) fn try_recv_with<R>(&self, take: impl FnOnce(T) -> R) -> Option<R> {
            self.1.count(|| self.0.try_recv().ok()).map(take)
        }

        /// Returns how many values are queued now. This is a hint, because other threads change the
        /// queue at any time.
        #[inline]
        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        /// Returns whether the queue is empty. This is a hint, too.
        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        /// Returns whether the queue is full. This is a hint, too. For the only receiver, a queue
        /// that is not full stays so until other threads send.
        pub(crate) fn is_full(&self) -> bool {
            self.0.is_full()
        }
    }

    /// A queue between threads, one of crossbeam's two. Its users count the entries in it, and that
    /// bounds it.
    #[derive(Debug)]
    pub(crate) enum Fifo<T> {
        /// A short queue, which allocates its memory at the first entry. Each entry costs one
        /// atomic exchange at either end.
        Short(OnceLock<Box<ArrayQueue<T>>>, u8),
        /// A queue that allocates memory as it fills, in segments of 31 entries. Each entry costs
        /// two exchanges at either end.
        Long(Box<SegQueue<T>>),
    }

    /// The number of entries up to which a queue is short. Two segments take as much memory.
    const SHORT: u8 = 64;

    impl<T> Fifo<T> {
        /// Creates a queue that never holds more than this many entries.
        pub(crate) fn new(most: usize) -> Self {
            match u8::try_from(most) {
                Ok(most) if most <= SHORT => Self::Short(OnceLock::new(), most.max(1)),
                _ => Self::Long(Box::new(SegQueue::new())),
            }
        }

        #[inline]
        pub(crate) fn push(&self, value: T) {
            match self {
                Self::Short(queue, most) => {
                    let queue = queue.get_or_init(|| Box::new(ArrayQueue::new(usize::from(*most))));
                    let pushed = queue.push(value);
                    assert!(pushed.is_ok(), "more is queued than there was credit for");
                }
                Self::Long(queue) => queue.push(value),
            }
        }

        #[inline]
        pub(crate) fn pop(&self) -> Option<T> {
            match self {
                Self::Short(queue, _) => queue.get()?.pop(),
                Self::Long(queue) => queue.pop(),
            }
        }
    }

    /// Returns the number of the gate's cells: one for each thread that can run in parallel,
    /// rounded up to a power of two and from 2 to 32.
    pub(crate) fn gate_cells() -> usize {
        // The system reads files to find this out, which takes longer than building the rest of a
        // bus.
        static CELLS: OnceLock<usize> = OnceLock::new();
        *CELLS.get_or_init(|| {
            let threads = std::thread::available_parallelism().map_or(4, usize::from);
            threads.next_power_of_two().clamp(2, 32)
        })
    }

    thread_local! {
        static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Returns a small number for this thread, which is the next free one at its first call.
    #[inline]
    pub(crate) fn thread_number() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A thread that is being torn down keeps its cell, which has no destructor, except on
        // systems without native thread-local storage. There it gets a number that another thread
        // may have, which spreads the load worse, and two such threads inside one inline bus count
        // as one.
        THREAD
            .try_with(|cell| {
                if cell.get() == usize::MAX {
                    // Relaxed: only the number counts.
                    cell.set(NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1));
                }
                cell.get()
            })
            .unwrap_or(0)
    }

    /// Parks until unparked or, with an `Instant`, until then. May return spuriously.
    pub(crate) fn park_until(parker: &Parker, deadline: Option<std::time::Instant>) {
        parker.park(|| match deadline {
            Some(at) => std::thread::park_timeout(at.saturating_duration_since(std::time::Instant::now())),
            None => std::thread::park(),
        });
    }
}
