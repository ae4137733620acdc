//! An allocator that counts: for each thread on its own, and on a thread of the library for the
//! test that follows it.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// The allocator, which counts allocations, and changes of size with them.
pub struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
    static FOLLOWED: Cell<Option<&'static AtomicU64>> = const { Cell::new(None) };
}

fn count() {
    let _ = HERE.try_with(|count| count.set(count.get() + 1));
    if let Ok(Some(count)) = FOLLOWED.try_with(Cell::get) {
        count.fetch_add(1, Ordering::SeqCst);
    }
}

// SAFETY: every call is passed on to the system's allocator unchanged, and counting neither
// allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the number of allocations that this thread has made.
pub fn so_far() -> u64 {
    HERE.get()
}

/// Returns the number of allocations that `run` makes on this thread, and its result.
pub fn allocations_here<R>(run: impl FnOnce() -> R) -> (u64, R) {
    let before = so_far();
    let result = run();
    (so_far() - before, result)
}

/// The count of a thread that runs the library's code and calls back. The count begins when that
/// thread calls [`here`](Self::here).
#[derive(Clone, Copy, Debug)]
pub struct Followed(&'static AtomicU64);

impl Followed {
    /// Creates a count that follows no thread yet.
    pub fn new() -> Self {
        Self(Box::leak(Box::new(AtomicU64::new(0))))
    }

    /// Counts the allocations of this thread from now on.
    pub fn here(self) {
        FOLLOWED.set(Some(self.0));
    }

    /// Returns the number of allocations that the followed thread makes during `run`. The thread's
    /// work must be finished when `run` returns. (A flush in `run` does not ensure this: whether
    /// the thread has to wake the flush, which takes an allocation, is a matter of chance.)
    pub fn allocations(self, run: impl FnOnce()) -> u64 {
        let before = self.0.load(Ordering::SeqCst);
        run();
        self.0.load(Ordering::SeqCst) - before
    }
}
