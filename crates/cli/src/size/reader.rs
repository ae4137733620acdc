//! A handler on the bus that simulates work, and the counts that the handler and its drop hook
//! keep.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::error::WatchError;
use eventcast::stats::{DropReason, WatcherStats};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, WatchHandle};
use hdrhistogram::Histogram;

use super::spend::{Floor, Plan};
use super::times::Times;

/// The longest queue that the bus accepts, in events.
pub(crate) const MAX_QUEUE: u64 = 1 << 24;
/// The maximum time to wait for the watcher, which is enough even on a very busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event with its number and its times, which are in nanoseconds since the start. The events
/// that the bus accepts have consecutive numbers.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) number: u64,
    pub(crate) due: u64,
    pub(crate) published: u64,
}

/// The settings of a watcher.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Watcher {
    pub(crate) name: String,
    /// The index of the watcher's group. All watchers in a group are created by the same
    /// `--watchers` option.
    pub(crate) group: usize,
    pub(crate) queue: usize,
    pub(crate) policy: OverflowPolicy,
    pub(crate) times: Times,
    /// The seed for the handler's times. No two watchers have the same seed.
    pub(crate) seed: u64,
}

/// The handler's own counts of the events that it received.
#[derive(Clone)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    /// The sum of the gaps.
    pub(crate) lost: u64,
    pub(crate) gaps: u64,
    pub(crate) longest: u64,
    /// The number that the next event must have.
    pub(crate) next: u64,
    /// The number of events that arrived when a different event was expected.
    pub(crate) misplaced: u64,
    /// The times from when an event was due until it was handled, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// How far the handler was behind its plan, in nanoseconds.
    pub(crate) late: Histogram<u64>,
}

/// The losses due to a full queue, which the bus reported to the hook as they happened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reported {
    pub(crate) lost: u64,
    /// The number of the first lost event, and the reason why this event was lost.
    pub(crate) first: Option<(u64, DropReason)>,
}

impl Seen {
    pub(crate) fn new() -> Self {
        Self {
            events: 0,
            lost: 0,
            gaps: 0,
            longest: 0,
            next: 0,
            misplaced: 0,
            latency: histogram(),
            late: histogram(),
        }
    }

    fn take(&mut self, delivery: Delivery<&Sample>) {
        match delivery {
            Delivery::Event(sample) => {
                self.misplaced += u64::from(sample.number != self.next);
                self.next = sample.number + 1;
                self.events += 1;
            }
            Delivery::Lagged(lost) => {
                self.gaps += 1;
                self.longest = self.longest.max(lost);
                self.lost += lost;
                self.next += lost;
            }
        }
    }
}

/// Returns whether a longer queue would have prevented the loss. For any other reason, the event
/// was lost at the end of the run.
fn is_for_room(reason: DropReason) -> bool {
    matches!(reason, DropReason::Incoming | DropReason::Oldest | DropReason::TimedOut)
}

/// Creates a histogram of times up to an hour, in nanoseconds, with a precision of three digits.
/// Longer times count as an hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000_000, 3).expect("these bounds are within the crate's")
}

pub(crate) struct Reader {
    handle: WatchHandle,
    seen: Arc<Mutex<Seen>>,
    reported: Arc<Mutex<Reported>>,
}

/// Everything that is known about a watcher at the end of a run.
#[derive(Clone)]
pub(crate) struct Account {
    /// Whether the handler has returned.
    pub(crate) ended: bool,
    pub(crate) stats: WatcherStats,
    pub(crate) seen: Seen,
    pub(crate) reported: Reported,
}

impl Reader {
    pub(crate) fn start(
        bus: &Broadcaster<Sample>,
        watcher: &Watcher,
        floor: &Floor,
    ) -> Result<Self, WatchError> {
        let seen = Arc::new(Mutex::new(Seen::new()));
        let reported = Arc::new(Mutex::new(Reported::default()));
        let (notes, losses, mut plan) = (seen.clone(), reported.clone(), Plan::new(floor.clone()));
        let (times, seed) = (watcher.times, watcher.seed);
        let handle = bus
            .watch_builder()
            .name(&watcher.name)
            .queue_capacity(watcher.queue)
            .overflow(watcher.policy)
            .on_drop(move |reason, events: &[Sample]| {
                if !is_for_room(reason) {
                    return;
                }
                let mut reported = lock(&losses);
                reported.lost += events.len() as u64;
                reported.first =
                    reported.first.or_else(|| events.first().map(|event| (event.number, reason)));
            })
            .spawn(move |delivery| {
                let Delivery::Event(event) = delivery else { return lock(&notes).take(delivery) };
                let took = plan.take(event.published, times.of(seed, event.number));
                let mut seen = lock(&notes);
                seen.take(delivery);
                if let Some((done, late)) = took {
                    seen.latency.saturating_record(done.saturating_sub(event.due));
                    seen.late.saturating_record(late);
                }
            })?;
        Ok(Self { handle, seen, reported })
    }

    /// Waits until the handler has returned and the bus has counted every accepted event. The
    /// second wait is necessary because the dispatcher uses its own thread to count the events that
    /// it abandons at the deadline.
    pub(crate) fn end(&self, accepted: u64) -> Account {
        let ended = self.handle.join(PATIENCE);
        let until = Instant::now() + PATIENCE;
        let is_settled = |stats: &WatcherStats| stats.offered == accepted && stats.lag == 0;
        while !is_settled(&self.handle.stats()) && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        let (seen, reported) = (lock(&self.seen).clone(), *lock(&self.reported));
        Account { ended, stats: self.handle.stats(), seen, reported }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
