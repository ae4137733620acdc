//! A load that sends events on a schedule in order to measure their latency.
//!
//! An event carries the time at which it was due, and its latency is measured from that time. If a
//! full queue blocks the sender, or the sender is preempted, the latencies increase, but the load
//! is not reduced. The result also shows how late the sender was.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::load::{Arrived, Check, Load, Payload, See, payload};

/// How long before the next event is due the sender begins to poll the clock, yielding to other
/// threads between polls. Until then, the sender sleeps. The sender may therefore wake up late by
/// this amount of time and still send the event on time.
pub const NEAR: Duration = Duration::from_micros(200);

/// The time after which a missing event counts as a hang, not as a latency.
const LONGEST: Duration = Duration::from_secs(60);

/// The schedule on which events are sent.
#[derive(Clone, Copy, Debug)]
pub enum Schedule {
    /// Sends the given number of events per second, regardless of what happens to the events.
    Rate(u64),
    /// Sends one event at a time, after a pause of the given length once the previous event has
    /// arrived. The sender sleeps during the pause.
    AfterPause(Duration),
}

/// A load with one publisher and one reader, which sends events on a schedule.
#[derive(Debug)]
pub struct Timed {
    schedule: Schedule,
    events: u64,
    origin: Instant,
    arrived: Arc<AtomicU64>,
    late: Mutex<Histogram<u64>>,
}

/// Returns an empty histogram of nanoseconds, with a precision of three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3).expect("the bounds are in order")
}

impl Timed {
    /// Creates a load with the given schedule and number of events.
    #[must_use]
    pub fn new(schedule: Schedule, events: u64) -> Self {
        let (arrived, late) = (Arc::default(), Mutex::new(histogram()));
        Self { schedule, events, origin: Instant::now(), arrived, late }
    }

    fn now(&self) -> u64 {
        nanos_since(self.origin)
    }

    /// Sends events at a fixed rate. Returns how late each event was sent.
    fn send_at(&self, rate: u64, mut send: impl FnMut(u64, u64)) -> Histogram<u64> {
        let mut late = histogram();
        // All threads have started. The delay gives the threads time to settle.
        let start = self.now() + 1_000_000;
        for number in 0..self.events {
            let due = start + (u128::from(number) * 1_000_000_000 / u128::from(rate)) as u64;
            let mut now = self.now();
            while now < due {
                match Duration::from_nanos(due - now).checked_sub(NEAR) {
                    Some(far) if !far.is_zero() => thread::sleep(far),
                    _ => thread::yield_now(),
                }
                now = self.now();
            }
            late.saturating_record(now - due);
            send(number, due);
        }
        late
    }

    /// Sends each event after a pause, when all threads should be idle. Returns an empty histogram,
    /// because each event is due when it is sent, so no event is late.
    fn send_after(&self, pause: Duration, mut send: impl FnMut(u64, u64)) -> Histogram<u64> {
        for number in 0..self.events {
            thread::sleep(pause);
            send(number, self.now());
            let sent = Instant::now();
            // Acquire: pairs with the Release in `see`. The reader's earlier writes are not needed,
            // but the ordering makes it explicit that one event follows the other.
            while self.arrived.load(Ordering::Acquire) == number {
                assert!(sent.elapsed() < LONGEST, "event {number} does not arrive");
                thread::yield_now();
            }
        }
        histogram()
    }

    /// Returns the results of a round.
    #[must_use]
    pub fn result(&self, arrived: Arrived<Stopwatch>) -> Latencies {
        let mut latencies = histogram();
        let (mut delivered, mut lost) = (0, 0);
        for stopwatch in arrived.seen {
            latencies.add(&stopwatch.latencies).expect("the bounds are the same");
            let (came, missing) = stopwatch.check.finish(self.events);
            delivered += came;
            lost += missing;
        }
        assert_eq!(latencies.len(), delivered);
        let late = self.late.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Latencies { latencies, late, lost, elapsed: arrived.elapsed }
    }
}

impl Load for Timed {
    type Seen = Stopwatch;

    fn publishers(&self) -> usize {
        1
    }

    fn watchers(&self) -> usize {
        1
    }

    fn each(&self) -> u64 {
        self.events
    }

    fn seen(&self) -> Stopwatch {
        let arrived = match self.schedule {
            Schedule::Rate(_) => None,
            Schedule::AfterPause(_) => Some(self.arrived.clone()),
        };
        Stopwatch { origin: self.origin, arrived, check: Check::new(1), latencies: histogram() }
    }

    fn publish(&self, publisher: usize, mut send: impl FnMut(Payload)) {
        let send = |number, due| {
            let mut payload = payload(number, publisher);
            payload[2] = due;
            send(payload);
        };
        let late = match self.schedule {
            Schedule::Rate(rate) => self.send_at(rate, send),
            Schedule::AfterPause(pause) => self.send_after(pause, send),
        };
        *self.late.lock().unwrap_or_else(PoisonError::into_inner) = late;
    }
}

/// The reader's measurements.
#[derive(Debug)]
pub struct Stopwatch {
    origin: Instant,
    /// The number of arrived events, shared with the sender if the sender waits for each event.
    arrived: Option<Arc<AtomicU64>>,
    check: Check,
    latencies: Histogram<u64>,
}

impl See for Stopwatch {
    fn see(&mut self, payload: &Payload) {
        self.latencies.saturating_record(nanos_since(self.origin) - payload[2]);
        self.check.see(payload);
        if let Some(arrived) = &self.arrived {
            arrived.store(payload[0] + 1, Ordering::Release);
        }
    }
}

fn nanos_since(origin: Instant) -> u64 {
    origin.elapsed().as_nanos() as u64
}

/// The latencies of the events in a round, and how late the sender was.
#[derive(Debug)]
pub struct Latencies {
    /// The times from when each event was due until the reader inspected it, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// The times from when each event was due until just before it was sent, in nanoseconds. Empty
    /// if each event was due when it was sent.
    pub late: Histogram<u64>,
    /// The number of events that did not arrive.
    pub lost: u64,
    /// The time from when all threads had started until the last thread ended.
    pub elapsed: Duration,
}
