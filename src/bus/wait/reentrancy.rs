//! Marks the threads that work for a bus. If a dispatcher or a handler waited for its own bus, it
//! would wait forever.

use std::cell::{Cell, RefCell};

use crate::sync::thread_local;

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's form of the macro has no const")]
    /// The ids of the buses that this thread works for, innermost last. A thread can work for
    /// several buses, because a handler of one bus may run a handler of another bus.
    static BUSES: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}

/// Calls `run` on the current thread, which counts as a thread of the bus until the call ends. The
/// mark is removed last, so the destructors of everything that `run` owns still see the mark, even
/// if they run while a panic is unwinding.
pub(crate) fn on_bus_thread<R>(bus: u64, run: impl FnOnce() -> R) -> R {
    let _mark = BusThread::enter(bus);
    run()
}

/// A mark on the current thread. Until the mark is dropped, the thread counts as a thread of the
/// bus. The mark must be dropped last. See [`on_bus_thread`].
#[derive(Debug)]
pub(crate) struct BusThread {
    /// Whether the mark was set. A thread that is already being torn down cannot be marked.
    marked: bool,
}

impl BusThread {
    pub(crate) fn enter(bus: u64) -> Self {
        Self { marked: BUSES.try_with(|buses| buses.borrow_mut().push(bus)).is_ok() }
    }
}

impl Drop for BusThread {
    fn drop(&mut self) {
        if self.marked {
            // An error means that the thread is ending, so its marks end with it.
            let _ = BUSES.try_with(|buses| buses.borrow_mut().pop());
        }
    }
}

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "as above")]
    /// The number of inline bus calls that this thread is inside.
    static INSIDE: Cell<usize> = Cell::new(0);
}

/// A mark on the current thread. Until the mark is dropped, the thread is inside a call of an
/// inline bus, and holds that bus's lock.
#[derive(Debug)]
pub(crate) struct InsideCall(());

impl InsideCall {
    #[inline]
    pub(crate) fn enter() -> Self {
        // An error means that the thread is ending, on a system without native thread-local
        // storage. In that case, a call of another inline bus waits for that bus's lock without a
        // time limit.
        let _ = INSIDE.try_with(|inside| inside.set(inside.get() + 1));
        Self(())
    }

    /// Returns whether this thread is inside a call of an inline bus.
    #[inline]
    pub(crate) fn is_marked() -> bool {
        INSIDE.try_with(Cell::get).unwrap_or(0) > 0
    }
}

impl Drop for InsideCall {
    #[inline]
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|inside| inside.set(inside.get().saturating_sub(1)));
    }
}

/// Returns whether this thread works for the bus.
pub(crate) fn is_bus_thread(bus: u64) -> bool {
    // A thread that is being torn down no longer works for any bus.
    BUSES.try_with(|buses| buses.borrow().contains(&bus)).unwrap_or(false)
}
