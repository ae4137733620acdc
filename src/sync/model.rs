//! The loom version of the facade. See the top of `sync.rs`.

#![allow(unsafe_code, reason = "loom's UnsafeCell hands out raw pointers; it checks each access for a race")]

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::task::Waker;

use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::sync::{Notify, mpsc};

pub(crate) use loom::sync::Arc;
pub(crate) use loom::thread_local;

/// The level of detail at which a model reproduces the real bus. With less detail, a model has
/// fewer executions. A model that is not run by a `testing::Exploration` has full detail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Detail {
    /// The number of cells in the gate. With one cell, a model cannot detect a dispatcher that
    /// checks too few cells.
    pub(crate) gate_cells: usize,
    /// Whether a parked thread may wake spuriously once.
    pub(crate) spurious_wakeups: bool,
}

std::thread_local! {
    // loom runs all threads of a model on the thread that explores it.
    static DETAIL: Cell<Detail> = const { Cell::new(Detail { gate_cells: 2, spurious_wakeups: true }) };
}

/// Sets the level of detail for the models that this thread explores from now on.
pub(crate) fn set_detail(detail: Detail) {
    DETAIL.set(detail);
}

pub(crate) mod atomic {
    pub(crate) use loom::sync::atomic::AtomicU32;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering, fence};
}

pub(crate) mod hint {
    /// Yields, because a spin loop would never end if the model did not run the other threads.
    pub(crate) fn spin_loop() {
        loom::thread::yield_now();
    }
}

pub(crate) const SPINS: u32 = 0;
pub(crate) const YIELDS: u32 = 0;
pub(crate) const PUBLISHER_YIELDS: u32 = 0;
pub(crate) const LOOKS: u32 = 0;
pub(crate) const GATHER: u32 = 0;
/// The thresholds for lending and pulling. The numbers are small to keep executions short.
pub(crate) const BUSY_ROUNDS: u32 = 1;
pub(crate) const MANY: usize = 1;
pub(crate) const LARGE_ROUND: usize = 2;
pub(crate) const MOST_BUSY_ROUNDS: u32 = 2;
pub(crate) const GROUP: usize = 2;
/// The number of deliveries that an awaited handler handles before it yields to other tasks. The
/// number is small to keep executions short.
pub(crate) const TURN: usize = 2;

/// loom's lock, but without poisoning, like `parking_lot`'s lock.
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(loom::sync::Mutex::new(value))
    }

    pub(crate) fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A lock with a `try_lock` method. loom's own lock would block where `try_lock` must fail.
#[derive(Debug)]
pub(crate) struct TryMutex<T> {
    is_locked: AtomicBool,
    value: UnsafeCell<T>,
}

#[derive(Debug)]
pub(crate) struct TryMutexGuard<'l, T>(&'l TryMutex<T>);

// SAFETY: only the thread that has set `is_locked` touches the value.
unsafe impl<T: Send> Sync for TryMutex<T> {}

impl<T> TryMutex<T> {
    pub(crate) fn new(value: T) -> Self {
        Self { is_locked: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn try_lock(&self) -> Option<TryMutexGuard<'_, T>> {
        // Acquire: pairs with the Release of the previously dropped guard.
        // Relaxed: a failure carries no information.
        let locked = self.is_locked.compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        locked.is_ok().then(|| TryMutexGuard(self))
    }

    /// Waits for the lock by yielding, because the holder does little before it releases the lock.
    pub(crate) fn lock(&self) -> TryMutexGuard<'_, T> {
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            hint::spin_loop();
        }
    }
}

impl<T> std::ops::Deref for TryMutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: this guard's thread has set `is_locked`.
        self.0.value.with(|value| unsafe { &*value })
    }
}

impl<T> std::ops::DerefMut for TryMutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this guard's thread has set `is_locked`, and the guard is borrowed exclusively.
        self.0.value.with_mut(|value| unsafe { &mut *value })
    }
}

impl<T> Drop for TryMutexGuard<'_, T> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `try_lock`. A swap is used here, because loom does not
        // know that a store follows this thread's exchange.
        self.0.is_locked.swap(false, Ordering::Release);
    }
}

/// A stand-in for the `atomic-waker` crate. As in that crate, a registration takes two steps, and
/// the second step detects a wake-up between them. The library registers one task at a time.
#[derive(Debug)]
pub(crate) struct AtomicWaker {
    /// The flags `REGISTERING` and `TAKING`.
    state: AtomicUsize,
    waker: UnsafeCell<Option<Waker>>,
}

const REGISTERING: usize = 1;
const TAKING: usize = 2;

// SAFETY: only the thread that took `state` from 0 touches the waker.
unsafe impl Sync for AtomicWaker {}
// SAFETY: a waker can be sent to another thread.
unsafe impl Send for AtomicWaker {}

impl AtomicWaker {
    pub(crate) fn new() -> Self {
        Self { state: AtomicUsize::new(0), waker: UnsafeCell::new(None) }
    }

    pub(crate) fn register(&self, waker: &Waker) {
        // Acquire: pairs with the Release of the `take` that emptied the cell.
        // Relaxed: a failed exchange reads nothing.
        let begun = self.state.compare_exchange(0, REGISTERING, Ordering::Acquire, Ordering::Relaxed);
        if begun.is_err() {
            // A `take` call is in progress, and may not have seen a waker, so the task checks
            // again. The task spins in this way until the `take` call has ended.
            waker.wake_by_ref();
            return hint::spin_loop();
        }
        let waker = Some(waker.clone());
        // SAFETY: this thread set REGISTERING.
        let old = self.waker.with_mut(|cell| unsafe { std::mem::replace(&mut *cell, waker) });
        drop(old);
        // Release: pairs with the Acquire of the `take` that finds this waker.
        // Relaxed: the real cell guarantees more here, but the library does not need it.
        let done = self.state.compare_exchange(REGISTERING, 0, Ordering::Release, Ordering::Relaxed);
        if done.is_err() {
            // SAFETY: TAKING was set while REGISTERING was set, so this thread still owns the cell.
            let waker = self.waker.with_mut(|cell| unsafe { (*cell).take() });
            // Release: pairs with the Acquire of the next `take`.
            self.state.swap(0, Ordering::Release);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    pub(crate) fn take(&self) -> Option<Waker> {
        // Acquire: pairs with the Release of the `register` that left the waker here.
        if self.state.fetch_or(TAKING, Ordering::Acquire) != 0 {
            return None;
        }
        // SAFETY: this thread took `state` from 0.
        let waker = self.waker.with_mut(|cell| unsafe { (*cell).take() });
        // Release: pairs with the Acquire of the next `register`.
        self.state.fetch_and(!TAKING, Ordering::Release);
        waker
    }
}

loom::thread_local! {
    static TOKEN: Parker = Parker::new();
}

/// A stand-in for a thread handle. loom's own handle loses its token when the thread yields.
#[derive(Debug)]
pub(crate) struct Thread(Unparker);

pub(crate) fn current() -> Thread {
    Thread(TOKEN.with(Parker::unparker))
}

impl Thread {
    pub(crate) fn unpark(&self) {
        self.0.unpark();
    }
}

/// Parks this thread. Replaces the system's own park function in a model.
pub fn park() {
    TOKEN.with(|token| park_until(token, None));
}

/// A stand-in for crossbeam's `AtomicCell`, with exchanges that acquire and release like the real
/// ones.
#[derive(Debug)]
pub(crate) struct AtomicCell<T>(Mutex<T>);

impl<T: Default> AtomicCell<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    pub(crate) fn swap(&self, value: T) -> T {
        std::mem::replace(&mut *self.0.lock(), value)
    }

    pub(crate) fn take(&self) -> T {
        self.swap(T::default())
    }
}

/// A stand-in without padding, because padding does not matter in a model.
#[derive(Debug, Default)]
pub(crate) struct CachePadded<T>(T);

impl<T> CachePadded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(value)
    }
}

impl<T> std::ops::Deref for CachePadded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

/// A token like crossbeam's. An unpark happens before the return from the park that it ends.
#[derive(Debug)]
pub(crate) struct Parker(Unparker);

#[derive(Clone, Debug)]
pub(crate) struct Unparker(Arc<Token>);

#[derive(Debug)]
enum Token {
    /// A token without spurious wake-ups. A redundant unpark, which the real parker would discard,
    /// wakes the thread once more.
    Exact(mpsc::Sender<()>, mpsc::Receiver<()>),
    /// A token that may also wake the thread spuriously once.
    Spurious(Notify),
}

// SAFETY: only the one thread that holds the parker receives.
unsafe impl Sync for Token {}

impl Parker {
    pub(crate) fn new() -> Self {
        let token = if DETAIL.get().spurious_wakeups {
            Token::Spurious(Notify::new())
        } else {
            let (tx, rx) = mpsc::channel();
            Token::Exact(tx, rx)
        };
        Self(Unparker(Arc::new(token)))
    }

    pub(crate) fn unparker(&self) -> Unparker {
        self.0.clone()
    }
}

impl Unparker {
    pub(crate) fn unpark(&self) {
        match &*self.0 {
            // The receiver lives as long as the sender, so sending cannot fail.
            Token::Exact(tx, _) => drop(tx.send(())),
            Token::Spurious(notify) => notify.notify(),
        }
    }
}

/// Parks until unparked. Time does not pass in a model, so a deadline in the future never expires.
pub(crate) fn park_until(parker: &Parker, _deadline: Option<std::time::Instant>) {
    match &*parker.0.0 {
        Token::Exact(_, rx) => drop(rx.recv()),
        Token::Spurious(notify) => notify.wait(),
    }
}

pub(crate) fn gate_cells() -> usize {
    DETAIL.get().gate_cells
}

pub(crate) fn pull_gather() -> u32 {
    0
}

loom::thread_local! {
    static THREAD: Cell<usize> = Cell::new(usize::MAX);
}

/// Returns the number that was assigned to this thread when it first called this function. loom
/// numbers threads the same way in each execution.
pub(crate) fn thread_number() -> usize {
    THREAD.with(|cell| {
        if cell.get() == usize::MAX {
            // loom exposes a thread's number only in the debug form ("ThreadId(2)").
            let text = format!("{:?}", loom::thread::current().id());
            cell.set(text.bytes().filter(u8::is_ascii_digit).map(usize::from).sum());
        }
        cell.get()
    })
}

/// A stand-in for crossbeam's queues, which is an array of stamped slots based on D. Vyukov's
/// bounded queue.
#[derive(Debug)]
struct ModelQueue<T> {
    slots: Box<[ModelSlot<T>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

#[derive(Debug)]
struct ModelSlot<T> {
    /// The state of the slot. If the slot is empty for a lap, the stamp is `2 * lap`. If the slot
    /// is filled in that lap, the stamp is `2 * lap + 1`.
    stamp: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

#[derive(Debug)]
pub(crate) struct Sender<T>(Arc<ModelQueue<T>>);

#[derive(Debug)]
pub(crate) struct Receiver<T>(Arc<ModelQueue<T>>);

// SAFETY: a thread touches a slot's value only between winning its index (each has only one winner)
// and publishing its stamp.
unsafe impl<T: Send> Send for ModelQueue<T> {}
// SAFETY: as for `Send`. Values are moved into and out of the slots, but are never shared.
unsafe impl<T: Send> Sync for ModelQueue<T> {}

impl<T> ModelQueue<T> {
    fn is_full(&self) -> bool {
        // Relaxed, both: the result is only a hint.
        let tail = self.tail.load(Ordering::Relaxed);
        let slot = &self.slots[tail % self.slots.len()];
        slot.stamp.load(Ordering::Relaxed) != 2 * (tail / self.slots.len())
    }
}

pub(crate) fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    let slots = (0..capacity)
        .map(|_| ModelSlot { stamp: AtomicUsize::new(0), value: UnsafeCell::new(MaybeUninit::uninit()) })
        .collect();
    let queue = Arc::new(ModelQueue { slots, head: AtomicUsize::new(0), tail: AtomicUsize::new(0) });
    (Sender(queue.clone()), Receiver(queue))
}

impl<T> Sender<T> {
    pub(crate) fn try_send(&self, value: T) -> Result<(), T> {
        let queue = &*self.0;
        loop {
            // Relaxed: this is only an index, here and below. The slot's stamp publishes its value.
            let tail = queue.tail.load(Ordering::Relaxed);
            let slot = &queue.slots[tail % queue.slots.len()];
            let empty = 2 * (tail / queue.slots.len());
            // Acquire: pairs with the Release of the receiver that emptied this slot.
            if slot.stamp.load(Ordering::Acquire) != empty {
                if queue.tail.load(Ordering::Relaxed) == tail {
                    return Err(value);
                }
                continue;
            }
            // Relaxed: this only decides which thread wins the index.
            if queue.tail.compare_exchange(tail, tail + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                // SAFETY: this thread won the index, and the stamp marks the slot as empty.
                slot.value.with_mut(|cell| unsafe { (*cell).write(value) });
                // Release: pairs with the Acquire of the receiver of this value.
                slot.stamp.store(empty + 1, Ordering::Release);
                return Ok(());
            }
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    pub(crate) fn pushed(&self) -> u64 {
        // Relaxed: this is only an index, as in `try_send`. The index includes values that the
        // caller knows to have been sent, and excludes values sent after its next Release.
        self.0.tail.load(Ordering::Relaxed) as u64
    }
}

impl<T> Receiver<T> {
    pub(crate) fn try_recv(&self) -> Option<T> {
        let queue = &*self.0;
        loop {
            // Relaxed: this is only an index, here and below. The slot's stamp publishes its value.
            let head = queue.head.load(Ordering::Relaxed);
            let slot = &queue.slots[head % queue.slots.len()];
            let filled = 2 * (head / queue.slots.len()) + 1;
            // Acquire: pairs with the Release of the sender of this value.
            if slot.stamp.load(Ordering::Acquire) != filled {
                if queue.head.load(Ordering::Relaxed) == head {
                    return None;
                }
                continue;
            }
            // Relaxed: this only decides which thread wins the index.
            if queue.head.compare_exchange(head, head + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                // SAFETY: this thread won the index, and the stamp marks the slot as filled.
                let value = slot.value.with(|cell| unsafe { (*cell).assume_init_read() });
                // Release: pairs with the Acquire of the sender that fills this slot next.
                slot.stamp.store(filled + 1, Ordering::Release);
                return Some(value);
            }
        }
    }

    pub(crate) fn try_recv_with<R>(&self, take: impl FnOnce(T) -> R) -> Option<R> {
        self.try_recv().map(take)
    }

    /// Always returns 1, which is a safe size hint for every length.
    #[allow(clippy::unused_self, reason = "as the real one")]
    pub(crate) fn len(&self) -> usize {
        1
    }

    pub(crate) fn is_empty(&self) -> bool {
        // Relaxed, both: the caller has synchronized with the threads whose values it looks for.
        let head = self.0.head.load(Ordering::Relaxed);
        let slot = &self.0.slots[head % self.0.slots.len()];
        slot.stamp.load(Ordering::Relaxed) != 2 * (head / self.0.slots.len()) + 1
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

/// A stand-in that consists of the bounded queue, which its users never let become full.
#[derive(Debug)]
pub(crate) struct Fifo<T>(Arc<(Sender<T>, Receiver<T>)>);

impl<T> Clone for Fifo<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Fifo<T> {
    pub(crate) fn new(most: usize) -> Self {
        Self(Arc::new(bounded(most)))
    }

    pub(crate) fn push(&self, value: T) {
        assert!(self.0.0.try_send(value).is_ok(), "more is queued than there was credit for");
    }

    pub(crate) fn pop(&self) -> Option<T> {
        self.0.1.try_recv()
    }
}

impl<T> Drop for ModelQueue<T> {
    fn drop(&mut self) {
        // Relaxed: no other thread is left.
        let (head, tail) = (self.head.load(Ordering::Relaxed), self.tail.load(Ordering::Relaxed));
        for index in head..tail {
            let slot = &self.slots[index % self.slots.len()];
            // SAFETY: no other thread is left, and every index from head to tail holds a value.
            slot.value.with_mut(|cell| unsafe { (*cell).assume_init_drop() });
        }
    }
}
