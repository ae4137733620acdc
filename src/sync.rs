//! The only source of atomics, locks, threads, parking and channels in the library.
//!
//! The library imports all of its concurrency primitives from this module, so that a model checker
//! can run all of them. With `--cfg eventcast_loom`, the same names refer to loom's types
//! (`cargo loom` runs the models in `loom-tests/`). The following list describes how a model
//! differs from the real library, and why it is sound nevertheless:
//!
//! * crossbeam's queues are opaque to loom, so a small bounded queue in `sync/model.rs` replaces
//!   all of them. The replacement guarantees less than crossbeam does. Its only happens-before
//!   relationships are from sending a value to receiving it, and from receiving it to reusing its
//!   slot. The replacement reports "full" and "empty" where crossbeam would wait for another thread
//!   that is in the middle of an operation.
//! * Most models have a gate with a single cell, and no spurious wake-ups. `Detail` in
//!   `sync/model.rs` configures both settings for each model, and docs/verification.md lists the
//!   models with more cells and spurious wake-ups.
//! * A token whose operations take a single step replaces [`parker`]. The real parker has its own
//!   model, `direct::a_token_against_a_park`, in which a lock replaces crossbeam's `AtomicCell`.
//! * The replacement for a queue knows how many values were sent to it. The real queue counts them
//!   with [`pushed`], which the model `controls::a_count_of_pushes_against_pops` explores.
//! * An atomic exchange of one flag replaces the `TryMutex`, and threads that wait for the lock
//!   yield. loom's own lock would block where `try_lock` must fail.
//! * Time does not pass. A timeout of zero expires immediately, and any other timeout never expires
//!   (`clock.rs`).
//! * Spinning is disabled, because it explores nothing that parking does not explore. An awaited
//!   handler yields after two deliveries.
//! * An event is offered to two mailboxes before their readers are woken, instead of 32.

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

/// Whether time passes. Time does not pass in a model, nor on WebAssembly without an operating
/// system, where the standard library has no clock.
pub(crate) const HAS_TIME: bool =
    cfg!(not(any(eventcast_loom, all(target_family = "wasm", target_os = "unknown"))));

/// Returns a number that is unique in this process. The number identifies a bus, and distinguishes
/// the bus's threads from other threads.
pub(crate) fn unique_id() -> u64 {
    // The model's atomic is not used here, because an identifier establishes no happens-before
    // relationship, and loom's atomics cannot be stored in a static.
    use core::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the number matters.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A number that is used only for statistics and reports, so that no event's path depends on it. A
/// counter wraps around.
#[derive(Debug, Default)]
pub(crate) struct Tally(core::sync::atomic::AtomicU64);

impl Tally {
    // As in `unique_id`, the model's atomic is not used here, because a count establishes no
    // happens-before relationship.
    pub(crate) fn add(&self, count: u64) {
        // Relaxed: only the number matters.
        self.0.fetch_add(count, core::sync::atomic::Ordering::Relaxed);
    }

    /// Replaces the number. Only one thread at a time may write the counter.
    pub(crate) fn set(&self, count: u64) {
        // Relaxed: only the number matters, as in `add`.
        self.0.store(count, core::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        // Relaxed: only the number matters, as in `add`.
        self.0.load(core::sync::atomic::Ordering::Relaxed)
    }
}

/// Returns a waker that calls a function.
#[cfg(feature = "topics")]
pub(crate) fn waker(wake: impl Fn() + Send + Sync + 'static) -> core::task::Waker {
    struct Call<F>(F);

    impl<F: Fn() + Send + Sync> std::task::Wake for Call<F> {
        fn wake(self: std::sync::Arc<Self>) {
            (self.0)();
        }
    }

    // This is not the model's `Arc`, because its reference count only decides when the function is
    // dropped.
    std::sync::Arc::new(Call(wake)).into()
}

/// The maps for the topics, and for the correlator's caches. Each shard has its own lock, and
/// threads whose keys or objects share a shard contend for it. In models, another map replaces the
/// one for the topics (`topics/map.rs`). No model includes the correlator, so no model needs to see
/// its locks. `topics/mod.rs` and `record/mod.rs` document the order of the locks.
#[cfg(all(any(feature = "recorder", feature = "topics"), not(eventcast_loom)))]
pub(crate) use dashmap::DashMap;
#[cfg(all(feature = "topics", not(eventcast_loom)))]
pub(crate) use dashmap::Entry;
#[cfg(feature = "recorder")]
pub(crate) use dashmap::SharedValue;

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

    /// The library's lock, for short critical sections outside the publish path. The lock is never
    /// poisoned.
    pub(crate) use parking_lot::Mutex;

    /// The same lock as `Mutex`, for values that some threads access without waiting.
    pub(crate) use parking_lot::{Mutex as TryMutex, MutexGuard as TryMutexGuard};

    pub(crate) mod atomic {
        pub(crate) use std::sync::atomic::AtomicU32;
        pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
    }

    pub(crate) mod hint {
        pub(crate) use std::hint::spin_loop;
    }

    /// The number of times that the bus's wait loops spin and check again before they yield. Each
    /// spin is twice as long as the previous one.
    pub(crate) const SPINS: u32 = 3;
    /// The number of times that the bus's wait loops, after spinning, yield the processor and check
    /// again before they park.
    pub(crate) const YIELDS: u32 = 3;
    /// The number of times that a publisher without a deadline, after spinning, yields and checks a
    /// full incoming queue again before it parks.
    pub(crate) const PUBLISHER_YIELDS: u32 = 32;
    /// The number of times that a non-waiting publisher checks a full queue again. Each spin is
    /// twice as long as the previous one. Together, the spins take less than a microsecond.
    pub(crate) const LOOKS: u32 = 4;
    /// The number of spins during which a reader that is faster than the publishers of an inline
    /// bus lets a few events accumulate. The spins take one to two microseconds.
    pub(crate) const GATHER: u32 = 32;
    /// The number of rounds without a sleeping reader after which the dispatcher may lend the
    /// fan-out.
    pub(crate) const BUSY_ROUNDS: u32 = 4;
    /// The minimum number of entries in a single round after which the dispatcher may lend the
    /// fan-out immediately.
    pub(crate) const LARGE_ROUND: usize = 128;
    /// The number of direct deliveries without a sleeping reader after which the next publisher
    /// leaves its event to the reader or to the dispatcher.
    pub(crate) const MOST_BUSY_ROUNDS: u32 = 32;
    /// The number of mailboxes to which a batch is offered before their readers are woken. One
    /// fence is enough for many mailboxes. However, if there are thousands of mailboxes, those that
    /// were offered the batch first are no longer in the processor's cache after the last offer.
    pub(crate) const GROUP: usize = 32;
    /// The minimum number of waiting entries that a blocking receive pulls immediately. A blocking
    /// receive pulls fewer entries only when it would otherwise sleep.
    pub(crate) const MANY: usize = 32;
    /// The number of deliveries that an awaited handler handles before it yields to other tasks.
    pub(crate) const TURN: usize = 100;

    pub(crate) mod thread {
        #[cfg(feature = "recorder")]
        pub(crate) use std::thread::current;
        pub(crate) use std::thread::panicking;
        pub(crate) use std::thread::{JoinHandle, yield_now};

        /// Starts a named thread. The caller may drop the handle, because the library waits for
        /// signals from its threads, and joins the threads only after these signals.
        pub(crate) fn spawn<F>(name: String, run: F) -> std::io::Result<JoinHandle<()>>
        where
            F: FnOnce() + Send + 'static,
        {
            std::thread::Builder::new().name(name).spawn(run)
        }

        pub(crate) fn is_finished(handle: &JoinHandle<()>) -> bool {
            handle.is_finished()
        }

        /// Joins a thread, unless it is the current one. The destructor of a thread-local value may
        /// call this function, and would then wait for itself. The library catches panics in user
        /// code, so a panic in the joined thread has already been reported.
        pub(crate) fn join_other(handle: JoinHandle<()>) {
            if handle.thread().id() != std::thread::current().id() {
                let _ = handle.join();
            }
        }
    }

    /// The sending end of a bounded queue between threads. The queue is a crossbeam channel whose
    /// blocking methods are never used.
    #[derive(Debug)]
    pub(crate) struct Sender<T>(crossbeam_channel::Sender<T>, Arc<Popped>);

    /// The receiving end of a [`Sender`]. Only one thread at a time uses the receiver.
    #[derive(Debug)]
    pub(crate) struct Receiver<T>(crossbeam_channel::Receiver<T>, Arc<Popped>);

    pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
        let ((tx, rx), popped) = (crossbeam_channel::bounded(capacity), Arc::new(Popped::new()));
        (Sender(tx, popped.clone()), Receiver(rx, popped))
    }

    impl<T> Sender<T> {
        /// Sends a value without waiting. Returns the value as the error if the queue is full. The
        /// queue is never disconnected, because the sending thread either keeps a receiver alive as
        /// well, or has been stopped by other means.
        #[inline]
        pub(crate) fn try_send(&self, value: T) -> Result<(), T> {
            self.0.try_send(value).map_err(crossbeam_channel::TrySendError::into_inner)
        }

        /// Returns whether the queue is full. The result is a hint, because other threads may
        /// change the queue at any time.
        pub(crate) fn is_full(&self) -> bool {
            self.0.is_full()
        }

        /// Returns the number of values that had been sent at some point during this call. Yields
        /// while another thread is taking a value out.
        pub(crate) fn pushed(&self) -> u64 {
            self.1.pushed(|| self.0.len())
        }
    }

    impl<T> Receiver<T> {
        #[inline]
        pub(crate) fn try_recv(&self) -> Option<T> {
            self.1.count(|| self.0.try_recv().ok())
        }

        /// Takes a value out of the queue, and passes it to `take`. A large value is copied less
        /// often than with [`try_recv`](Self::try_recv).
        #[inline]
        pub(crate) fn try_recv_with<R>(&self, take: impl FnOnce(T) -> R) -> Option<R> {
            self.1.count(|| self.0.try_recv().ok()).map(take)
        }

        /// Returns the number of values that are queued now. The result is a hint, because other
        /// threads may change the queue at any time.
        #[inline]
        pub(crate) fn len(&self) -> usize {
            self.0.len()
        }

        /// Returns whether the queue is empty. The result is only a hint.
        pub(crate) fn is_empty(&self) -> bool {
            self.0.is_empty()
        }

        /// Returns whether the queue is full. The result is only a hint. If the only receiver finds
        /// that the queue is not full, the queue stays that way until other threads send.
        pub(crate) fn is_full(&self) -> bool {
            self.0.is_full()
        }
    }

    /// A queue between threads, which is one of crossbeam's two queues. The users of the queue
    /// count its entries, which bounds its length. A clone is another handle of the same queue.
    #[derive(Debug)]
    pub(crate) enum Fifo<T> {
        /// A short queue, which allocates its memory when the first entry is pushed. Each entry
        /// costs one atomic exchange at each end.
        Short(Arc<OnceLock<Box<ArrayQueue<T>>>>, u8),
        /// A queue that allocates memory as it fills, in segments of 31 entries. Each entry costs
        /// two exchanges at each end.
        Long(Arc<SegQueue<T>>),
    }

    /// The maximum number of entries in a short queue. Two segments of a long queue take the same
    /// amount of memory.
    const SHORT: u8 = 64;

    impl<T> Clone for Fifo<T> {
        fn clone(&self) -> Self {
            match self {
                Self::Short(queue, most) => Self::Short(queue.clone(), *most),
                Self::Long(queue) => Self::Long(queue.clone()),
            }
        }
    }

    impl<T> Fifo<T> {
        /// Creates a queue that never holds more than `most` entries.
        pub(crate) fn new(most: usize) -> Self {
            match u8::try_from(most) {
                Ok(most) if most <= SHORT => Self::Short(Arc::default(), most.max(1)),
                _ => Self::Long(Arc::new(SegQueue::new())),
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

    /// Returns the number of threads that can run in parallel.
    fn parallelism() -> usize {
        // To determine the number of threads, the system reads files, which takes longer than
        // creating the rest of a bus.
        static THREADS: OnceLock<usize> = OnceLock::new();
        *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(4, usize::from))
    }

    /// Returns the number of cells in the gate. The number of cells is the number of threads that
    /// can run in parallel, rounded up to a power of two, and clamped to between 2 and 32.
    pub(crate) fn gate_cells() -> usize {
        parallelism().next_power_of_two().clamp(2, 32)
    }

    /// Returns the number of spins during which a reader that has pulled many entries lets further
    /// entries accumulate. The spins take a few microseconds. On a single core, no publisher could
    /// run during the spins, so the reader does not spin.
    pub(crate) fn pull_gather() -> u32 {
        if parallelism() > 1 { 120 } else { 0 }
    }

    thread_local! {
        static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
    }

    /// Returns a small number for this thread. The thread's first call assigns it the next free
    /// number.
    #[inline]
    pub(crate) fn thread_number() -> usize {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        // A thread that is being torn down keeps its cell, which has no destructor, except on
        // systems without native thread-local storage. On such a system, the thread gets a number
        // that another thread may also have. The load is then spread less evenly, and two threads
        // with the same number inside one inline bus count as one.
        THREAD
            .try_with(|cell| {
                if cell.get() == usize::MAX {
                    // Relaxed: only the number matters.
                    cell.set(NEXT.fetch_add(1, Ordering::Relaxed) & (usize::MAX >> 1));
                }
                cell.get()
            })
            .unwrap_or(0)
    }

    /// Parks until unparked or until the deadline, if there is one. May return spuriously.
    pub(crate) fn park_until(parker: &Parker, deadline: Option<std::time::Instant>) {
        parker.park(|| match deadline {
            Some(at) => std::thread::park_timeout(at.saturating_duration_since(std::time::Instant::now())),
            None => std::thread::park(),
        });
    }
}
