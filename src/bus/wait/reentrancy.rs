//! Which buses the running thread works for: a dispatcher or a handler that waited for its own bus would never end.

use std::cell::RefCell;

use crate::sync::thread_local;

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's form of the macro has no const")]
    /// Numbers of buses, innermost last: a handler of one bus may run a handler of another.
    static BUSES: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}

/// Runs something on a thread that meanwhile counts as one of the bus's own. The mark goes last:
/// the destructors of all that `run` owns find it, and so do those that run while a panic unwinds.
pub(crate) fn on_bus_thread<R>(bus: u64, run: impl FnOnce() -> R) -> R {
    let _mark = BusThread::enter(bus);
    run()
}

/// While it lives, the thread counts as one of the bus's own. It goes last: see [`on_bus_thread`].
#[derive(Debug)]
pub(crate) struct BusThread {
    /// False on a thread that is being torn down and can no longer be marked.
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
            // An error is the thread's end, and with it the mark's.
            let _ = BUSES.try_with(|buses| buses.borrow_mut().pop());
        }
    }
}

/// Whether this thread is one of the bus's own.
pub(crate) fn is_bus_thread(bus: u64) -> bool {
    // A thread that is being torn down works for nobody any more.
    BUSES.try_with(|buses| buses.borrow().contains(&bus)).unwrap_or(false)
}
