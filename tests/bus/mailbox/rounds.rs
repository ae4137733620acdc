//! Tests all policies on one bus, with readers that pause at random. Order (G1), accounting (G6)
//! and gaps (G7) hold for each watcher up to the last event. Several watchers are waited for
//! concurrently, so the waits do not add up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait, WaitFor};
use eventcast::stats::{DropCounts, WatcherStats};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};
use test_support::Rng;

use crate::support::{LONG, events, lagged, watched};

const MS: Duration = Duration::from_millis(1);
/// The number of events that each publisher publishes in a round.
const EVENTS: u64 = 200;

/// Usually returns immediately, and occasionally takes long enough for a queue to fill up. On a
/// busy machine each yield may take milliseconds, so yields are rare.
fn dawdle(rng: &mut Rng) {
    match rng.below(64) {
        0 => (0..rng.below(4)).for_each(|_| thread::yield_now()),
        1..16 => (0..rng.below(2000)).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// The deliveries that a reader received, and the bus's statistics for its watcher.
struct Read {
    policy: OverflowPolicy,
    queue_capacity: u64,
    deliveries: Vec<Delivery<u64>>,
    stats: WatcherStats,
}

fn read(mut watcher: Watcher<u64>, mut rng: Rng) -> (Vec<Delivery<u64>>, WatcherStats) {
    let mut seen = Vec::new();
    loop {
        dawdle(&mut rng);
        let goes_on = match rng.below(3) {
            0 => watcher.recv().map(|delivery| seen.push(delivery)).is_ok(),
            1 => match watcher.recv_ref() {
                Ok(Event(event)) => {
                    let event = *event;
                    dawdle(&mut rng);
                    seen.push(Event(event));
                    true
                }
                Ok(Lagged(count)) => {
                    seen.push(Lagged(count));
                    true
                }
                Err(_) => false,
            },
            _ => match watcher.recv_batch() {
                Ok(batch) => {
                    if batch.lagged > 0 {
                        seen.push(Lagged(batch.lagged));
                    }
                    seen.extend(batch.iter().map(|event| Event(*event)));
                    true
                }
                Err(_) => false,
            },
        };
        if !goes_on {
            return (seen, watcher.stats());
        }
    }
}

impl Read {
    /// Checks G1 and G7: the n-th event that was offered is the n-th event in the common order, and
    /// was either delivered or is part of a gap in that position.
    fn check_order(&self, order: &[u64]) {
        let mut position = 0;
        for delivery in &self.deliveries {
            match delivery {
                Event(event) => {
                    assert_eq!(order.get(position), Some(event), "{} at {position}", self.policy);
                    position += 1;
                }
                Lagged(count) => {
                    assert!(*count > 0, "{}: a gap must not be empty", self.policy);
                    position += *count as usize;
                }
            }
        }
        assert_eq!(position, order.len(), "{}: every event must be delivered or missed", self.policy);
    }

    /// Checks G6 against the reader's own counts.
    fn check_counts(&self, accepted: u64) {
        let Self { policy, queue_capacity, deliveries, stats } = self;
        assert_eq!((stats.offered, stats.filtered), (accepted, 0), "{policy}");
        assert_eq!(stats.delivered, events(deliveries).len() as u64, "{policy}");
        assert_eq!(stats.dropped.total(), lagged(deliveries), "{policy}");
        assert_eq!((stats.queued, stats.lag, stats.panics), (0, 0, 0), "{policy}");
        assert!(stats.high_water <= *queue_capacity, "{policy}: {stats:?}");
        let mut own = DropCounts::default();
        match policy {
            DropIncoming => own.incoming = stats.dropped.incoming,
            DropOldest => own.oldest = stats.dropped.oldest,
            WaitFor(_) => own.timed_out = stats.dropped.timed_out,
            _ => {}
        }
        assert_eq!(stats.dropped, own, "{policy}: losses must only have the policy's own reason");
    }
}

/// The number of events lost under each policy. These numbers show whether the rounds reach the
/// cases that they are meant to reach.
#[derive(Debug, Default)]
struct Met {
    incoming: u64,
    oldest: u64,
    timed_out: u64,
}

impl Met {
    fn add(&mut self, read: &[Read]) {
        for Read { stats, .. } in read {
            self.incoming += stats.dropped.incoming;
            self.oldest += stats.dropped.oldest;
            self.timed_out += stats.dropped.timed_out;
        }
    }
}

/// Publishes the events of two publishers in batches, and ends the bus. The clock advances while a
/// thread waits for it.
fn publish(bus: &Broadcaster<u64>, clock: &FakeClock, rng: &mut Rng) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let (mut ticks, over) = (rng.fork(), &done);
        scope.spawn(move || {
            while !over.load(Ordering::SeqCst) {
                thread::yield_now();
                if clock.waiters() > 0 {
                    clock.advance(MS / 2 * (1 + u32::try_from(ticks.below(6)).unwrap()));
                }
            }
        });
        let publishers = [0, 1].map(|id| {
            let (publisher, mut rng) = (bus.publisher(), rng.fork());
            scope.spawn(move || {
                let mut next = id * EVENTS..(id + 1) * EVENTS;
                while !next.is_empty() {
                    dawdle(&mut rng);
                    let count = 1 + rng.below(9) as usize;
                    publisher.publish_batch(next.by_ref().take(count)).unwrap();
                }
            })
        });
        for publisher in publishers {
            publisher.join().unwrap();
        }
        assert!(bus.shutdown().complete);
        done.store(true, Ordering::SeqCst);
    });
}

fn run_round(seed: u64) -> Vec<Read> {
    let mut rng = Rng(seed);
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options = BusOptions::default().incoming_capacity(1 + rng.below(16) as usize);
    let options = options.max_batch(1 + rng.below(12) as usize);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    let policies =
        [DropIncoming, DropOldest, Wait, WaitFor(MS), WaitFor(3 * MS), WaitFor(Duration::ZERO), DropOldest];
    let readers = policies.map(|policy| {
        let queue_capacity = [1, 2, 5, 16][rng.below(4) as usize];
        let watcher = bus.watch_builder().overflow(policy).queue_capacity(queue_capacity).watch().unwrap();
        let rng = rng.fork();
        (policy, queue_capacity as u64, thread::spawn(move || read(watcher, rng)))
    });
    publish(&bus, &clock, &mut rng);
    let read = readers.map(|(policy, queue_capacity, thread)| {
        let (deliveries, stats) = thread.join().unwrap();
        Read { policy, queue_capacity, deliveries, stats }
    });
    // The watcher with `Wait` has received all events in the common order, which preserves each
    // publisher's own order.
    let order = events(&read[2].deliveries);
    assert_eq!(order.len() as u64, 2 * EVENTS);
    for id in [0, 1] {
        let own = order.iter().copied().filter(|event| event / EVENTS == id);
        assert!(own.eq(id * EVENTS..(id + 1) * EVENTS), "each publisher's events must keep their order");
    }
    for read in &read {
        read.check_order(&order);
        read.check_counts(2 * EVENTS);
    }
    read.into()
}

#[test]
fn four_policies_with_readers_that_dawdle() {
    watched(|| {
        let mut met = Met::default();
        let start = Instant::now();
        for seed in 1..=12 {
            // On a busy machine, a round can take seconds instead of tenths of a second. Four
            // rounds are enough in that case.
            if seed > 4 && start.elapsed() > Duration::from_secs(10) {
                break;
            }
            println!("seed {seed}");
            met.add(&run_round(seed));
        }
        println!("{met:?}");
        assert!(met.incoming > 50 && met.oldest > 50 && met.timed_out > 50, "{met:?}");
    });
}

/// Twenty watchers have `WaitFor` limits, and each limit is a millisecond longer than the previous
/// one. Every batch takes twenty milliseconds instead of the sum of the limits, and all other
/// watchers receive the batch before the wait begins.
#[test]
fn many_deadlines_delay_a_batch_by_the_longest() {
    const BATCHES: u64 = 10;
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let options = BusOptions::default().queue_capacity(1).max_batch(2);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let slow: Vec<_> =
            (1..=20).map(|ms| bus.watch_builder().overflow(WaitFor(ms * MS)).watch().unwrap()).collect();
        let mut fast = bus.watch_builder().queue_capacity(2).overflow(Wait).watch().unwrap();
        for batch in 0..BATCHES {
            bus.publisher().publish_batch(vec![2 * batch, 2 * batch + 1]).unwrap();
        }
        for batch in 0..BATCHES {
            // The batch arrives without advancing the clock beyond the twenty steps below for each
            // batch.
            assert_eq!([fast.recv(), fast.recv()], [Ok(Event(2 * batch)), Ok(Event(2 * batch + 1))]);
            for _ in 0..20 {
                clock.wait_for_waiters(1);
                clock.advance(MS);
            }
        }
        bus.flush(LONG).unwrap();
        for watcher in &slow {
            let stats = watcher.stats();
            // One event fitted into the queue.
            assert_eq!((stats.queued, stats.dropped.timed_out), (1, 2 * BATCHES - 1), "{stats}");
        }
        assert_eq!(fast.stats().dropped.total(), 0);
    });
}
