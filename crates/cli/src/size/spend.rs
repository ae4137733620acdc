//! The simulated work of a handler, which takes real time.
//!
//! Each handler has a plan. By the plan, the handler begins with an event when the handler is free
//! and the event has arrived. It is free again when the time for the event has passed. The handler
//! sleeps until then. If the system lets it oversleep, the handler makes up for that with the next
//! events, so over many events it takes the time that it was asked to take. The handler is never
//! quicker than its plan. If it differs from the plan, it is later, and the difference is measured.
//!
//! A handler spins for times below a tenth of a millisecond, because sleeping cannot be so short.
//! Only as many handlers spin at the same time as leave one processor free for the publisher and
//! the bus. The others sleep, and make up for it.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time below which a handler spins if a processor is free, in nanoseconds.
const SHORT: u64 = 100_000;
/// The time between two calls below which the next event was waiting, in nanoseconds. The handler
/// could have begun that event if it had not overslept.
const AT_ONCE: u64 = 20_000;
/// The longest sleep before the handler checks for the end.
const NAP: Duration = Duration::from_millis(20);

/// The clock and the limits that the handlers of one run share.
#[derive(Clone)]
pub(crate) struct Floor {
    /// The time from which all times are counted.
    start: Instant,
    /// The number of additional handlers that may spin.
    spinners: Arc<AtomicUsize>,
    ending: Arc<AtomicBool>,
}

impl Floor {
    pub(crate) fn new() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Self {
            start: Instant::now(),
            spinners: Arc::new(AtomicUsize::new(processors - 1)),
            ending: Arc::default(),
        }
    }

    /// Returns the nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Ends all waits: from now on no handler waits.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Relaxed);
    }

    /// Waits until this time, in nanoseconds since the start. Returns earlier if the run ends.
    fn wait(&self, until: u64) {
        loop {
            let left = until.saturating_sub(self.now());
            if left == 0 || self.ending.load(Ordering::Relaxed) {
                return;
            }
            if left < SHORT && self.may_spin() {
                while self.now() < until {
                    hint::spin_loop();
                }
                self.spinners.fetch_add(1, Ordering::Relaxed);
                return;
            }
            thread::sleep(Duration::from_nanos(left).min(NAP));
        }
    }

    fn may_spin(&self) -> bool {
        let take = |left: usize| left.checked_sub(1);
        self.spinners.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

/// The plan of one handler.
pub(crate) struct Plan {
    floor: Floor,
    /// The time when the handler was to be done with the last event, and the time when it was.
    free_at: u64,
    back_at: u64,
}

impl Plan {
    pub(crate) fn new(floor: Floor) -> Self {
        Self { floor, free_at: 0, back_at: 0 }
    }

    /// Takes this time for an event that was published then. Returns the time at which the event is
    /// done, and how late that is by the plan. Returns `None` if the run ends first.
    pub(crate) fn take(&mut self, published: u64, time: Duration) -> Option<(u64, u64)> {
        let now = self.floor.now();
        let from = begin(now, published, self.free_at, self.back_at);
        self.free_at = from + time.as_nanos() as u64;
        self.floor.wait(self.free_at);
        self.back_at = self.floor.now();
        let late = self.back_at.checked_sub(self.free_at)?;
        Some((self.back_at, late))
    }
}

/// Returns the time at which the plan begins with an event that is taken up now. If this event
/// waited when the last one was to be done, the plan begins at that time.
fn begin(now: u64, published: u64, free_at: u64, back_at: u64) -> u64 {
    if now.saturating_sub(back_at) < AT_ONCE { free_at.max(published).min(now) } else { now }
}

#[cfg(test)]
mod tests {
    use super::{Floor, Plan, begin};
    use std::time::Duration;

    #[test]
    fn oversleeping_is_compensated_only_for_queued_events() {
        // Done at 1000 by the plan, and actually at 61,000.
        assert_eq!(begin(61_100, 0, 1000, 61_000), 1000, "it waited all the while");
        assert_eq!(begin(61_100, 40_000, 1000, 61_000), 40_000, "it came meanwhile");
        assert_eq!(begin(90_000, 0, 1000, 61_000), 90_000, "it came to a handler that had nothing to do");
    }

    #[test]
    fn handlers_take_their_time_and_none_is_quicker() {
        let floor = Floor::new();
        let before = floor.now();
        let mut plan = Plan::new(floor.clone());
        for _ in 0..50 {
            let begun = floor.now();
            let (back, late) = plan.take(begun, Duration::from_micros(40)).expect("no shutdown ends it");
            assert!(back - late >= begun + 40_000);
        }
        assert!(floor.now() - before >= 50 * 40_000);
    }

    #[test]
    fn at_the_end_no_handler_waits() {
        let floor = Floor::new();
        floor.end();
        assert_eq!(Plan::new(floor.clone()).take(0, Duration::from_secs(3600)), None);
        assert!(Plan::new(floor).take(0, Duration::ZERO).is_some());
    }
}
