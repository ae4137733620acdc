//! An allocator that counts the allocations of each thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The counting allocator. Resizing an allocation also counts as an allocation.
pub(crate) struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    HERE.set(HERE.get() + 1);
}

/// Returns the number of allocations that the calling thread has made so far.
pub(crate) fn so_far() -> u64 {
    HERE.get()
}

#[allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
// SAFETY: every call is passed unchanged to the system allocator. Counting neither allocates nor
// unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller upholds the same safety contract.
        unsafe { System.dealloc(at, layout) }
    }
}
