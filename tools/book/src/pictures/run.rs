//! Runs five real buses, one for each overflow policy. Each bus has a watcher with a queue of four
//! events, and the watcher's reader does not read at first. The picture of the policies shows the
//! results.
//!
//! Every bus runs on a clock that stands still until this program advances it. After each step, the
//! program waits until the bus is quiet or the dispatcher is waiting for the reader. The runs are
//! therefore deterministic.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::error::TryRecvError;
use eventcast::stats::WatcherStats;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};

/// The length of the watcher's queue.
pub(crate) const QUEUE: u8 = 4;
/// The time between two steps, on the bus's clock.
pub(crate) const STEP_MS: u64 = 10;
/// The step in which the reader returns. No event is published in this step.
pub(crate) const RETURN: u64 = 8;
/// The number of steps.
pub(crate) const STEPS: u64 = 11;
/// How long the dispatcher waits with `WaitFor`, which is two steps.
pub(crate) const LIMIT: Duration = Duration::from_millis(2 * STEP_MS);
/// The real time after which the program fails if the bus does not become quiet.
const PATIENCE: Duration = Duration::from_secs(60);

/// The policies, each with the items that its reader is expected to receive.
const EXPECTED: [(OverflowPolicy, &str); 5] = [
    (OverflowPolicy::DropIncoming, "1 2 3 4 Lagged(3) 8 9 10"),
    (OverflowPolicy::DropOldest, "Lagged(3) 4 5 6 7 8 9 10"),
    (OverflowPolicy::Evict, "1 2 3 4 Evicted"),
    (OverflowPolicy::WaitFor(LIMIT), "1 2 3 4 Lagged(1) 6 7 8 9 10"),
    (OverflowPolicy::Wait, "1 2 3 4 5 6 7 8 9 10"),
];

/// An item that the reader received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    Event(u64),
    Lagged(u64),
    /// The end of the stream.
    End,
}

/// The state at the end of a step, and what happened in the step.
#[derive(Debug)]
pub(crate) struct Step {
    /// The event that was published in this step.
    pub(crate) published: Option<u64>,
    /// The events in the incoming queue.
    pub(crate) incoming: Vec<u64>,
    /// The event that the dispatcher holds until the queue has space.
    pub(crate) held: Option<u64>,
    /// The events in the watcher's queue, the oldest first.
    pub(crate) queue: Vec<u64>,
    /// The events that the watcher lost in this step.
    pub(crate) lost: Vec<u64>,
    /// Whether the bus evicted the watcher in this step.
    pub(crate) is_evicted: bool,
    /// The items that the reader received in this step.
    pub(crate) received: Vec<Item>,
}

/// The run of one bus.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) policy: OverflowPolicy,
    pub(crate) steps: Vec<Step>,
    /// The watcher's counters at the end.
    pub(crate) stats: WatcherStats,
}

/// Runs a bus for each policy.
pub(crate) fn all() -> Result<Vec<Run>, Box<dyn Error>> {
    EXPECTED.into_iter().map(|(policy, expected)| run(policy, expected)).collect()
}

fn run(policy: OverflowPolicy, expected: &str) -> Result<Run, Box<dyn Error>> {
    let mut bus = Bus::new(policy)?;
    let steps = (1..=STEPS).map(|number| bus.step(number)).collect::<Result<Vec<_>, _>>()?;
    let stats = bus.reader.stats();
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued);
    assert_eq!(bus.broadcaster.stats().published(), bus.broadcaster.stats().accepted);
    let items = steps.iter().flat_map(|step| &step.received).map(|item| match item {
        Item::Event(number) => number.to_string(),
        Item::Lagged(events) => format!("Lagged({events})"),
        Item::End => bus.reader.end_reason().map_or(String::new(), |reason| format!("{reason:?}")),
    });
    assert_eq!(items.collect::<Vec<_>>().join(" "), expected, "the reader's result with {policy}");
    Ok(Run { policy, steps, stats })
}

/// A bus with its only watcher.
struct Bus {
    clock: FakeClock,
    broadcaster: Broadcaster<u64>,
    reader: Watcher<u64>,
    /// The events that the watcher's drop hook has received and that no step has reported yet.
    lost: Arc<Mutex<Vec<u64>>>,
    published: u64,
    /// The events that have been offered and are neither lost nor received, with the oldest event
    /// first.
    unread: Vec<u64>,
}

impl Bus {
    fn new(policy: OverflowPolicy) -> Result<Self, Box<dyn Error>> {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        // The dispatcher takes one event at a time, so that the dispatcher and the incoming queue
        // hold the events that the picture shows.
        let options = BusOptions::default().incoming_capacity(8).max_batch(1).direct_delivery(false);
        let broadcaster = Broadcaster::with_clock(options, clock.clock())?;
        let lost = Arc::new(Mutex::new(Vec::new()));
        let losing = lost.clone();
        let hook = move |_, events: &[u64]| {
            let mut losing = losing.lock().unwrap_or_else(PoisonError::into_inner);
            losing.extend(events);
        };
        let builder =
            broadcaster.watch_builder().name("reader").queue_capacity(QUEUE.into()).overflow(policy);
        let reader = builder.on_drop(hook).watch()?;
        Ok(Self { clock, broadcaster, reader, lost, published: 0, unread: Vec::new() })
    }

    /// Advances the clock, publishes the next event or lets the reader return, and reads if the
    /// reader is present.
    fn step(&mut self, number: u64) -> Result<Step, Box<dyn Error>> {
        let before = self.reader.stats();
        self.clock.advance(Duration::from_millis(STEP_MS));
        self.settle()?;
        let published = (number != RETURN).then_some(self.published + 1);
        if let Some(event) = published {
            self.published = event;
            self.broadcaster.publisher().publish(event)?;
            self.settle()?;
        }
        let is_reading = number >= RETURN && self.reader.end_reason().is_none();
        let received = if is_reading { self.read()? } else { Vec::new() };
        let stats = self.reader.stats();
        let lost = std::mem::take(&mut *self.lost.lock().unwrap_or_else(PoisonError::into_inner));
        self.unread.extend(before.offered + 1..=stats.offered);
        self.unread.retain(|event| !received.contains(&Item::Event(*event)) && !lost.contains(event));
        let (queue, held) = self.unread.split_at(usize::try_from(stats.queued)?);
        assert_eq!(held.len() as u64, stats.lag - stats.queued);
        let incoming = (self.broadcaster.stats().accepted + 1..=self.published).collect();
        let is_evicted = stats.evictions > before.evictions;
        let (held, queue) = (held.first().copied(), queue.to_vec());
        Ok(Step { published, incoming, held, queue, lost, is_evicted, received })
    }

    /// Receives items until the queue is empty or the stream ends.
    fn read(&mut self) -> Result<Vec<Item>, Box<dyn Error>> {
        let (mut items, mut is_settled) = (Vec::new(), false);
        loop {
            match self.reader.try_recv() {
                Ok(Delivery::Event(number)) => items.push(Item::Event(number)),
                Ok(Delivery::Lagged(events)) => items.push(Item::Lagged(events)),
                Err(TryRecvError::Empty) if is_settled => return Ok(items),
                Err(TryRecvError::Empty) => {
                    self.settle()?;
                    is_settled = true;
                    continue;
                }
                Err(TryRecvError::Ended) => {
                    items.push(Item::End);
                    return Ok(items);
                }
            }
            is_settled = false;
        }
    }

    /// Waits until the dispatcher has nothing left to do or is waiting for the reader.
    fn settle(&self) -> Result<(), Box<dyn Error>> {
        let begin = Instant::now();
        while !self.is_settled()? {
            if begin.elapsed() > PATIENCE {
                return Err(format!("the bus does not become quiet: {}", self.broadcaster.stats()).into());
            }
            thread::sleep(Duration::from_micros(100));
        }
        Ok(())
    }

    fn is_settled(&self) -> Result<bool, Box<dyn Error>> {
        // Checks the clock first, because the counters no longer change once a thread is waiting
        // for a deadline.
        let has_deadline = self.clock.waiters() > 0;
        let stats = self.reader.stats();
        if stats.evictions > 0 {
            // The bus does not offer any further events to this watcher, so the dispatcher does not
            // wait for the watcher.
            self.broadcaster.flush(Duration::MAX)?;
            return Ok(true);
        }
        let is_held = stats.queued == u64::from(QUEUE) && stats.lag > stats.queued;
        let waits = match stats.policy {
            Some(OverflowPolicy::Wait) => is_held,
            Some(OverflowPolicy::WaitFor(_)) => is_held && has_deadline,
            _ => false,
        };
        Ok(waits || stats.offered == self.published && stats.lag == stats.queued)
    }
}
