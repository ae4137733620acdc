//! How long events are under way: a load that goes by the clock.
//!
//! An event carries the moment at which it was to be sent, and its latency is counted from there. So a sender that is
//! held up, by a full queue or because it has lost its processor, makes the latencies longer instead of the load
//! lighter. How late it was is kept beside them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::load::{Arrived, Check, Load, Payload, See, payload};

/// From this moment on before the next event, a sender that waits looks at the clock again and again, giving way to
/// others each time. Before it sleeps: then it may be woken this much too late and still be in time.
pub const NEAR: Duration = Duration::from_micros(200);

/// A hang, not a latency.
const LONGEST: Duration = Duration::from_secs(60);

/// When events are sent.
#[derive(Clone, Copy, Debug)]
pub enum Schedule {
    /// So many a second, whatever becomes of them.
    Rate(u64),
    /// One by one: so long after the last has arrived, which the sender sleeps through.
    AfterPause(Duration),
}

/// One publisher, one reader, events by a schedule.
#[derive(Debug)]
pub struct Timed {
    schedule: Schedule,
    events: u64,
    origin: Instant,
    arrived: Arc<AtomicU64>,
    late: Mutex<Histogram<u64>>,
}

/// Nanoseconds, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST.as_nanos() as u64, 3).expect("the bounds are in order")
}

impl Timed {
    /// So many events by this schedule.
    #[must_use]
    pub fn new(schedule: Schedule, events: u64) -> Self {
        let (arrived, late) = (Arc::default(), Mutex::new(histogram()));
        Self { schedule, events, origin: Instant::now(), arrived, late }
    }

    fn now(&self) -> u64 {
        nanos_since(self.origin)
    }

    /// Sends by the clock. Returns how late each was.
    fn send_at(&self, rate: u64, mut send: impl FnMut(u64, u64)) -> Histogram<u64> {
        let mut late = histogram();
        // All threads are there; they also get the time to come to rest.
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

    /// Sends when all is quiet. None is late, because each is due when it is sent.
    fn send_after(&self, pause: Duration, mut send: impl FnMut(u64, u64)) -> Histogram<u64> {
        for number in 0..self.events {
            thread::sleep(pause);
            send(number, self.now());
            let sent = Instant::now();
            // Acquire: what the reader wrote before is not needed, but it orders the rounds as they are meant.
            while self.arrived.load(Ordering::Acquire) == number {
                assert!(sent.elapsed() < LONGEST, "event {number} does not arrive");
                thread::yield_now();
            }
        }
        histogram()
    }

    /// What a round gave.
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

/// What the reader keeps.
#[derive(Debug)]
pub struct Stopwatch {
    origin: Instant,
    /// Where it says how many have come, if anybody waits for it.
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

/// What the events of a round took, and how late their sender was.
#[derive(Debug)]
pub struct Latencies {
    /// From the moment at which an event was due to the moment at which it was looked at, in nanoseconds.
    pub latencies: Histogram<u64>,
    /// From the moment at which it was due to the moment before it was sent; empty where each was due when it was sent.
    pub late: Histogram<u64>,
    /// How many did not arrive.
    pub lost: u64,
    /// From the moment when all threads were there to the end of the reader.
    pub elapsed: Duration,
}
