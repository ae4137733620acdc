//! Waiting for the bus, by threads and by tasks. The submodules contain the parking protocol, the
//! timer for tasks, and the marks on threads that must not wait for their own bus.

mod parking;
mod reentrancy;
mod task;
mod timer;

pub(crate) use self::parking::{
    LazyWaitQueue, Place, TimedOut, WaitQueue, WakeCell, full_fence, spin_and_yield_until, spin_until,
};
pub(crate) use self::reentrancy::{BusThread, InsideCall, is_bus_thread, on_bus_thread};
pub(crate) use self::task::Waiting;
pub(crate) use self::timer::Timer;
#[cfg(feature = "recorder")]
pub(crate) use self::timer::TimerEntry;
