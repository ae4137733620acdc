//! Thousands of watchers: registering and dropping them on an idle bus does not leak memory, an
//! idle watcher takes as much memory as `docs/guarantees.md` specifies, and watchers do not slow
//! each other down.
#![allow(clippy::cast_possible_wrap, reason = "sizes of what is in memory")]

use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use test_support::{LONG, in_own_process, until};

use crate::counting::live;

pub(crate) const POLICIES: [OverflowPolicy; 5] = [
    OverflowPolicy::DropIncoming,
    OverflowPolicy::DropOldest,
    OverflowPolicy::Evict,
    OverflowPolicy::Wait,
    OverflowPolicy::WaitFor(Duration::from_secs(1)),
];

/// Receives everything that is currently available, and returns the number of deliveries.
fn available<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> usize {
    std::iter::from_fn(|| watcher.try_recv().ok()).count()
}

/// Waits until the dispatcher has freed all dropped watchers and has shortened its lists, without
/// any further events.
fn until_nobody_is_left(bus: &Broadcaster<u64>) {
    until(|| bus.stats().watchers.is_empty());
    // The dispatcher shortens its lists after freeing the last watcher, and only then reaches this
    // flush.
    bus.flush(LONG).unwrap();
}

/// The number of bytes that the test harness may allocate in addition to the tests. The harness
/// keeps about 10 KB when it reports the previous test.
pub(crate) const OF_THE_HARNESS: i64 = 16 * 1024;

/// Ends a bus, and returns when its memory has been freed. `before` is the number of live bytes
/// before the bus was created.
///
/// The dispatcher's thread is the last owner of the incoming queue, which takes 32 KB or more here.
/// The thread frees the queue shortly after the shutdown has returned. Until then, the next
/// measurement would include the queue.
fn end<T: Clone + Send + Sync + 'static>(bus: Broadcaster<T>, before: i64) {
    assert!(bus.shutdown().complete);
    drop(bus);
    until(|| live() - before < OF_THE_HARNESS);
}

/// Watchers that are dropped before their registration, flushes that time out, and gaps in one
/// place keep no memory, even while the dispatcher is blocked in a filter.
#[test]
fn cancelled_calls_keep_no_memory_while_a_filter_blocks_the_dispatcher() {
    const GIVEN_UP: usize = 100_000;
    in_own_process!();
    let bus =
        Broadcaster::with_options(BusOptions::default().incoming_capacity(1).queue_capacity(1)).unwrap();
    let (entered_tx, entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let filter = move |_: &u64| entered_tx.send(()).is_ok() && released.recv().is_ok();
    let _busy = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    entered.recv_timeout(LONG).unwrap();
    bus.publisher().publish(2).unwrap();
    let give_up = || {
        let watcher = bus.watch().unwrap();
        assert!(bus.flush(Duration::ZERO).is_err());
        bus.publisher().publish_gap(1).unwrap();
        drop(watcher);
    };
    give_up();
    let before = live();
    (0..GIVEN_UP).for_each(|_| give_up());
    let left = live() - before;
    assert!(left < OF_THE_HARNESS, "{left} bytes are left");
    drop(release);
    assert_eq!(bus.shutdown().bus.accepted, 2);
}

/// No events are published, so all watchers must be freed without an event.
#[test]
fn thousands_of_dropped_watchers_leak_no_memory() {
    const WATCHERS: u64 = 20_000;
    in_own_process!();
    let held = Arc::new(());
    let at_start = live();
    let bus = Broadcaster::with_options(BusOptions::default().queue_capacity(32)).unwrap();
    let watch = |number: u64| {
        let (in_filter, in_hook) = (held.clone(), held.clone());
        let builder = bus.watch_builder().overflow(POLICIES[number as usize % POLICIES.len()]);
        let builder = builder.filter(move |_| Arc::strong_count(&in_filter) > 0);
        builder.on_drop(move |_, _| drop(in_hook.clone())).watch().unwrap()
    };
    // The first watcher triggers the bus's one-time allocations.
    drop(watch(0));
    until_nobody_is_left(&bus);
    let before = live();

    // First, half of the watchers are registered together, and are dropped in a different order
    // from their registration. Then the other half are registered and dropped one by one.
    let mut watchers: Vec<_> = (1..WATCHERS / 2).map(watch).collect();
    assert!(live() - before > 1_000_000, "watchers must be counted while they are alive");
    while !watchers.is_empty() {
        let other = (watchers.len() * 7 + 3) % watchers.len();
        drop(watchers.swap_remove(other));
    }
    drop(watchers);
    for number in WATCHERS / 2..WATCHERS {
        drop(watch(number));
    }
    until_nobody_is_left(&bus);

    assert_eq!(Arc::strong_count(&held), 1, "filters and hooks must have been dropped");
    // Less than one byte per watcher may be left, because lists keep some spare capacity.
    let left = live() - before;
    assert!(left.abs() < OF_THE_HARNESS, "{left} bytes are left");
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.departed.offered), (0, 0));
    end(bus, at_start);
}

/// The number of bytes for each of a thousand watchers, including the `Watcher` itself.
struct Measured {
    idle: i64,
    full: i64,
    read: i64,
}

fn measure(policy: OverflowPolicy, queue_capacity: usize) -> Measured {
    const WATCHERS: usize = 1000;
    let at_start = live();
    let bus = Broadcaster::with_options(BusOptions::default()).unwrap();
    bus.flush(LONG).unwrap();
    let before = live();
    let each = || (live() - before) / WATCHERS as i64;
    let watch = || bus.watch_builder().overflow(policy).queue_capacity(queue_capacity).watch().unwrap();
    let mut watchers: Vec<Watcher<u64>> = (0..WATCHERS).map(|_| watch()).collect();
    bus.flush(LONG).unwrap();
    let idle = each();
    // The events are published one by one, so that each of them is a slice. The watchers share the
    // events.
    for event in 0..queue_capacity as u64 {
        bus.publisher().publish(event).unwrap();
        bus.flush(LONG).unwrap();
    }
    assert!(watchers.iter().all(|watcher| watcher.stats().queued == queue_capacity as u64));
    let full = each();
    assert!(watchers.iter_mut().all(|watcher| available(watcher) == queue_capacity));
    // After the flush, the dispatcher no longer holds a batch.
    bus.flush(LONG).unwrap();
    let read = each();
    drop(watchers);
    end(bus, at_start);
    Measured { idle, full, read }
}

/// Checks the formulas that `docs/guarantees.md` specifies for G5.
#[test]
fn the_memory_of_an_idle_watcher_matches_the_documents() {
    const FIXED: i64 = 1536;
    const SEGMENT: i64 = 1000;
    const SHORT: i64 = 1920;
    in_own_process!();
    for policy in POLICIES {
        for queue_capacity in [1, 32, 64, 65, 100] {
            let Measured { idle, full, read } = measure(policy, queue_capacity);
            println!("{policy}, queue_capacity {queue_capacity}: {idle} idle, {full} full, {read} read");
            assert!(idle < 2048, "{policy}: {idle} bytes are 2 KiB or more");
            assert!(idle <= FIXED, "{policy}: {idle} bytes idle");
            let events = queue_capacity as i64;
            let (most_full, most_read) = match policy {
                OverflowPolicy::DropOldest => (FIXED + 24 * (events + 4), FIXED + 24 * (events + 4)),
                _ if queue_capacity <= 64 => (SHORT + 32 * events, SHORT + 32 * events),
                _ => (FIXED + SEGMENT * (events / 31 + 2), FIXED + SEGMENT * 2),
            };
            // The events themselves are shared between the watchers.
            assert!(full <= most_full + 16, "{policy}: {full} bytes with {queue_capacity} queued");
            assert!(read <= most_read + 16, "{policy}: {read} bytes after {queue_capacity} have been read");
        }
    }
}

/// No slots are allocated in advance, so a long queue costs no more than a short one.
#[test]
fn a_queue_of_a_million_costs_an_idle_watcher_nothing() {
    const WATCHERS: i64 = 100;
    in_own_process!();
    for policy in POLICIES {
        let at_start = live();
        let bus = Broadcaster::<u64>::with_options(BusOptions::default()).unwrap();
        bus.flush(LONG).unwrap();
        let before = live();
        let watch = |_| bus.watch_builder().overflow(policy).queue_capacity(1_000_000).watch().unwrap();
        let watchers: Vec<_> = (0..WATCHERS).map(watch).collect();
        bus.flush(LONG).unwrap();
        let idle = (live() - before) / WATCHERS;
        assert!(idle <= 1536, "{policy}: {idle} bytes idle");
        drop(watchers);
        end(bus, at_start);
    }
}

/// Reports when the dispatcher has dropped a watcher's filter.
struct Says(Sender<()>);

impl Drop for Says {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

/// Registering and stopping a watcher takes as long with twenty thousand watchers as with twenty.
/// Code that visits all watchers would take a thousand times as long. The test takes the shortest
/// of many rounds, so that a busy machine does not make the test fail.
#[test]
fn registering_and_stopping_do_not_go_by_the_number_of_the_others() {
    const ROUND: usize = 64;
    in_own_process!();
    let shortest = |others: usize, enough: Duration| {
        let at_start = live();
        let bus = Broadcaster::<u64>::with_options(BusOptions::default().queue_capacity(1)).unwrap();
        let others: Vec<_> = (0..others).map(|_| bus.watch().unwrap()).collect();
        bus.flush(LONG).unwrap();
        let round = || {
            let (gone_tx, gone) = mpsc::channel();
            let watch = || {
                let says = Says(gone_tx.clone());
                let filter = move |_: &u64| std::ptr::from_ref(&says).is_aligned();
                bus.watch_builder().filter(filter).watch().unwrap()
            };
            let start = Instant::now();
            let watchers: Vec<_> = (0..ROUND).map(|_| watch()).collect();
            watchers.iter().for_each(Watcher::stop);
            drop(watchers);
            for _ in 0..ROUND {
                gone.recv_timeout(LONG).unwrap();
            }
            start.elapsed()
        };
        // The test runs at least 50 rounds, and more while they take too long, because even a busy
        // machine is quiet eventually.
        let mut rounds = (0..400).map(|_| round());
        let first = rounds.by_ref().take(50).min().unwrap();
        let shortest =
            if first < enough { first } else { rounds.find(|time| *time < enough).unwrap_or(first) };
        drop(rounds);
        drop(others);
        end(bus, at_start);
        shortest
    };
    let few = shortest(20, Duration::MAX);
    let many = shortest(20_000, 10 * few);
    println!("{few:?} among 20, {many:?} among 20,000");
    assert!(many < 10 * few, "{few:?} among 20, {many:?} among 20,000");
}

/// A batch takes only the memory of its own events, however many events follow them in the incoming
/// queue. Here, a registration ends each batch after one event.
#[test]
fn batches_that_registrations_cut_short_take_what_their_events_take() {
    const EVENTS: usize = 1000;
    const SIZE: usize = 64;
    in_own_process!();
    let options = BusOptions::default().incoming_capacity(4 * EVENTS).queue_capacity(2 * EVENTS);
    let at_start = live();
    let bus = Broadcaster::<[u8; SIZE]>::with_options(options).unwrap();
    // The dispatcher stays in a filter until everything is in the incoming queue.
    let (entered_tx, entered) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let filter = move |event: &[u8; SIZE]| {
        if event[0] == 1 {
            entered_tx.send(()).unwrap();
            gate.recv().unwrap();
        }
        true
    };
    let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish([1; SIZE]).unwrap();
    entered.recv_timeout(LONG).unwrap();
    let before = live();
    for _ in 0..EVENTS {
        bus.publisher().publish([0; SIZE]).unwrap();
        drop(bus.watch().unwrap());
    }
    go.send(()).unwrap();
    bus.flush(LONG).unwrap();
    until(|| bus.stats().watchers.len() == 1);
    let each = (live() - before) / EVENTS as i64;
    println!("{each} bytes for each event of {SIZE}, each in a separate batch");
    assert!(each < 4 * SIZE as i64, "{each} bytes are held for an event of {SIZE}");
    assert_eq!(available(&mut watcher), EVENTS + 1);
    drop(watcher);
    end(bus, at_start);
}
