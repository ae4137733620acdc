//! An allocator that counts: on each thread for itself, and on threads of the library for whoever follows them.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts allocations, and changes of size with them.
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

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
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

/// How many allocations this thread has made.
pub fn so_far() -> u64 {
    HERE.get()
}

/// How many allocations this makes on this thread.
pub fn allocations_here<R>(run: impl FnOnce() -> R) -> (u64, R) {
    let before = so_far();
    let result = run();
    (so_far() - before, result)
}

/// The count of a thread that runs the library's code and calls back: there, [`here`](Self::here) begins to count.
#[derive(Clone, Copy, Debug)]
pub struct Followed(&'static AtomicU64);

impl Followed {
    /// Of no thread yet.
    pub fn new() -> Self {
        Self(Box::leak(Box::new(AtomicU64::new(0))))
    }

    /// From now on, what this thread allocates is counted.
    pub fn here(self) {
        FOLLOWED.set(Some(self.0));
    }

    /// How many allocations it makes meanwhile. What it does must be over when this returns. (A flush does not do for that:
    /// whether it has to be woken, which takes an allocation, is a matter of chance.)
    pub fn allocations(self, run: impl FnOnce()) -> u64 {
        let before = self.0.load(Ordering::SeqCst);
        run();
        self.0.load(Ordering::SeqCst) - before
    }
}
