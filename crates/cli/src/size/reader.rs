//! A handler on the bus that takes its time, and the counts of the handler and of its hook.

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
/// The time that the busiest machine may need.
const PATIENCE: Duration = Duration::from_secs(60);

/// An event: a number, and times in nanoseconds since the start. The numbers of the events that the
/// bus accepted are consecutive.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) number: u64,
    pub(crate) due: u64,
    pub(crate) published: u64,
}

/// The settings of one watcher.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Watcher {
    pub(crate) name: String,
    /// The number of the group. The watchers of one group are requested together.
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
    /// The number of the event that must follow.
    pub(crate) next: u64,
    /// The number of times that an event other than the expected one arrived.
    pub(crate) misplaced: u64,
    /// The times from when an event was due to the end of its handling, in nanoseconds.
    pub(crate) latency: Histogram<u64>,
    /// The times by which the handler was late by its plan, in nanoseconds.
    pub(crate) late: Histogram<u64>,
}

/// The losses to a full queue that the bus reported to the hook as they happened.
#[derive(Clone, Copy, Default)]
pub(crate) struct Reported {
    pub(crate) lost: u64,
    /// The number of the first lost event, and the reason.
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

/// Returns whether a longer queue would have kept the event. With any other reason, the event is
/// lost at the end.
fn is_for_room(reason: DropReason) -> bool {
    matches!(reason, DropReason::Incoming | DropReason::Oldest | DropReason::TimedOut)
}

/// Creates a histogram for nanoseconds up to an hour, to three digits. A longer time counts as an
/// hour.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_max(3_600_000_000_000, 3).expect("these bounds are within the crate's")
}

pub(crate) struct Reader {
    handle: WatchHandle,
    seen: Arc<Mutex<Seen>>,
    reported: Arc<Mutex<Reported>>,
}

/// Everything that is known about a watcher at the end.
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

    /// Waits until the handler has returned, and until the bus has counted everything that it
    /// accepted. The dispatcher counts the events that it abandons at the deadline on its own
    /// thread.
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
