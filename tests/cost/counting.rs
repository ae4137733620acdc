//! An allocator that counts the allocations of each thread separately, the allocations of a library
//! thread for the test that follows it, and the live memory of the whole process.
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
#![allow(clippy::cast_possible_wrap, reason = "sizes of what is in memory")]
#![cfg_attr(not(feature = "recorder"), allow(dead_code, reason = "the correlator has marked texts"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// The allocator, which counts allocations and reallocations.
pub(crate) struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
    static FOLLOWED: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

/// The number of live bytes in the process.
static LIVE: AtomicI64 = AtomicI64::new(0);

/// The length of a string, in bytes, by which the allocator recognizes it.
pub(crate) const MARKED: usize = 1777;

/// The number of live allocations of the marked size, and the peak of that number.
static ALIVE: AtomicI64 = AtomicI64::new(0);
static MOST_ALIVE: AtomicI64 = AtomicI64::new(0);

/// Returns whether an allocation holds a marked string. A reference-counted string takes two
/// additional counters, rounded up to eight bytes.
fn is_marked(size: usize) -> bool {
    (MARKED + 8..MARKED + 24).contains(&size)
}

fn count() {
    let _ = HERE.try_with(|count| count.set(count.get() + 1));
    if let Ok(Some(count)) = FOLLOWED.try_with(Cell::get) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

fn begins(size: usize) {
    LIVE.fetch_add(size as i64, Ordering::Relaxed);
    if is_marked(size) {
        let alive = ALIVE.fetch_add(1, Ordering::SeqCst) + 1;
        MOST_ALIVE.fetch_max(alive, Ordering::SeqCst);
    }
}

fn ends(size: usize) {
    LIVE.fetch_sub(size as i64, Ordering::Relaxed);
    if is_marked(size) {
        ALIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged, and counting neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        begins(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        begins(size);
        ends(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        ends(layout.size());
        // SAFETY: guaranteed by the caller.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of live bytes in the process.
pub(crate) fn live() -> i64 {
    LIVE.load(Ordering::Relaxed)
}

/// Returns the number of marked strings that are alive in the process.
pub(crate) fn alive() -> i64 {
    ALIVE.load(Ordering::SeqCst)
}

/// Returns the highest number of marked strings that `run` adds at the same time.
pub(crate) fn most_alive(run: impl FnOnce()) -> i64 {
    let before = alive();
    MOST_ALIVE.store(before, Ordering::SeqCst);
    run();
    MOST_ALIVE.load(Ordering::SeqCst) - before
}

/// Returns the number of allocations that this thread has made.
pub(crate) fn so_far() -> u64 {
    HERE.get()
}

/// Returns the number of allocations that `run` makes on this thread, and its result.
pub(crate) fn allocations_here<R>(run: impl FnOnce() -> R) -> (u64, R) {
    let before = so_far();
    let result = run();
    (so_far() - before, result)
}

/// The allocation counter of a thread that runs the library's code and calls back into the test.
/// The counter starts when that thread calls [`here`](Self::here).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed(&'static AtomicU64);

impl Followed {
    /// Creates a counter that does not follow a thread yet.
    pub(crate) fn new() -> Self {
        Self(Box::leak(Box::new(AtomicU64::new(0))))
    }

    /// Counts the allocations of this thread from now on.
    pub(crate) fn here(self) {
        FOLLOWED.set(Some(self.0));
    }

    /// Returns the number of allocations that the followed thread makes during `run`. The thread's
    /// work must be finished when `run` returns. (A flush in `run` does not ensure this, because it
    /// is a matter of chance whether the thread has to wake the flush, which takes an allocation.)
    pub(crate) fn allocations(self, run: impl FnOnce()) -> u64 {
        let before = self.0.load(Ordering::SeqCst);
        run();
        self.0.load(Ordering::SeqCst) - before
    }
}
