//! Simulates a handler's work, which takes real time.
//!
//! Each handler has a plan. According to the plan, the handler starts an event as soon as the
//! handler is free and the event has arrived, and is free again when the time for the event has
//! passed. The handler sleeps until then. If the handler is woken late, it makes up for the delay
//! with the next events, so that over many events it takes the requested time. The handler is never
//! ahead of its plan. It can only be late, and its lateness is measured.
//!
//! For times below a tenth of a millisecond, a handler spins, because a sleep cannot be that short.
//! The number of handlers that spin at the same time is limited, so that one processor remains free
//! for the publisher and the bus. All other handlers sleep, and make up for the resulting delay.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The time in nanoseconds below which a handler spins, provided that a processor is free.
const SHORT: u64 = 100_000;
/// If the time between two calls is shorter than this time, in nanoseconds, the next event was
/// already waiting. The handler could have started this event earlier if the handler had not
/// overslept.
const AT_ONCE: u64 = 20_000;
/// The maximum time for which the handler sleeps before it checks whether the run has ended.
const NAP: Duration = Duration::from_millis(20);

/// The clock and the limits that all handlers in a run share.
#[derive(Clone)]
pub(crate) struct Floor {
    /// The start of the run, from which all times are measured.
    start: Instant,
    /// The number of additional handlers that are allowed to start spinning.
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

    /// Returns the time since the start, in nanoseconds.
    pub(crate) fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Tells all handlers to stop waiting. A sleeping handler notices this after at most [`NAP`].
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

/// A handler's plan.
pub(crate) struct Plan {
    floor: Floor,
    /// The planned completion time and the actual completion time of the last event.
    free_at: u64,
    back_at: u64,
}

impl Plan {
    pub(crate) fn new(floor: Floor) -> Self {
        Self { floor, free_at: 0, back_at: 0 }
    }

    /// Spends `time` on an event that was published at `published`. Returns the event's completion
    /// time, and how late this completion is according to the plan. Returns `None` if the run ends
    /// first.
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

/// Returns the planned start time of an event that the handler starts now. If the event was already
/// waiting when the handler woke up, the planned start time is the planned end of the previous
/// event, or the time when this event was published if that time is later.
fn begin(now: u64, published: u64, free_at: u64, back_at: u64) -> u64 {
    if now.saturating_sub(back_at) < AT_ONCE { free_at.max(published).min(now) } else { now }
}

#[cfg(test)]
mod tests {
    use super::{Floor, Plan, begin};
    use std::time::Duration;

    #[test]
    fn oversleeping_is_compensated_only_for_queued_events() {
        // The previous event was planned to end at 1000, but ended at 61,000.
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
