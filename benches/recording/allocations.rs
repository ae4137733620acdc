//! An allocator that counts the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allocator, which counts allocations, and changes of size with them.
pub(crate) struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    HERE.set(HERE.get() + 1);
}

/// Returns the number of allocations that this thread has made.
pub(crate) fn so_far() -> u64 {
    HERE.get()
}

#[allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
// SAFETY: every call goes to the system's allocator unchanged. Counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
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
