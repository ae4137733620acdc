//! Which buses the running thread works for: a dispatcher or a handler that waited for its own bus would never end.

use std::cell::RefCell;

use crate::sync::thread_local;

thread_local! {
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's form of the macro has no const")]
    /// Numbers of buses, innermost last: a handler of one bus may run a handler of another.
    static BUSES: RefCell<Vec<u64>> = RefCell::new(Vec::new());
}

/// While it lives, the thread counts as one of the bus's own.
#[derive(Debug)]
pub(super) struct OnBus(());

impl OnBus {
    pub(super) fn enter(bus: u64) -> Self {
        BUSES.with(|buses| buses.borrow_mut().push(bus));
        Self(())
    }
}

impl Drop for OnBus {
    fn drop(&mut self) {
        BUSES.with(|buses| {
            buses.borrow_mut().pop();
        });
    }
}

/// Whether this thread is one of the bus's own.
pub(super) fn is_on(bus: u64) -> bool {
    // A thread that is being torn down works for nobody any more.
    BUSES.try_with(|buses| buses.borrow().contains(&bus)).unwrap_or(false)
}
