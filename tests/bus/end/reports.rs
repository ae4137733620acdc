//! G8: several shutdowns of one bus, soft and hard, and what the report of each says.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use futures::executor::block_on;

use crate::support::{LONG, bus, hold, turnstile, watched};

const SHORT: Duration = Duration::from_millis(1);

/// A shutdown that gave up returns a snapshot. The next call waits on, and its report has the end.
/// Every later call returns the same report.
#[test]
fn a_shutdown_after_one_that_gave_up_waits_on_and_has_the_final_counts() {
    watched(|| {
        let bus = bus(100, 10);
        let (turnstile, mut pass) = turnstile();
        bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        turnstile.entered.recv_timeout(LONG).unwrap();
        let snapshot = bus.shutdown_timeout(SHORT);
        assert!(!snapshot.complete && !snapshot.threads_ended && !snapshot.is_clean());
        assert_eq!(snapshot.bus.watchers[0].queued, 3);
        thread::scope(|scope| {
            let later = scope.spawn(|| bus.shutdown());
            assert!(!bus.shutdown_timeout(SHORT).complete);
            assert!(!later.is_finished(), "the handler has not returned");
            turnstile.go.send(()).unwrap();
            let report = later.join().unwrap();
            let stats = &report.bus.watchers[0];
            assert_eq!((stats.delivered, stats.dropped.abandoned, stats.queued), (1, 2, 0));
            assert!(!report.complete && report.threads_ended && !report.is_clean());
            assert_eq!(bus.shutdown(), report);
            assert_eq!(bus.shutdown_timeout(SHORT), report);
            assert_eq!(bus.drain(SHORT), report);
        });
    });
}

/// A drain gives nothing up: the handler handles all of its queue after a drain whose time was
/// over, and the hard shutdown behind it has nothing to abandon.
#[test]
fn a_drain_gives_nothing_up() {
    watched(|| {
        let bus = bus(100, 10);
        let (turnstile, mut pass) = turnstile();
        bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        turnstile.entered.recv_timeout(LONG).unwrap();
        assert!(!bus.drain(SHORT).complete);
        assert!(!block_on(bus.drain_async(SHORT)).complete);
        assert!(bus.publisher().publish(4).unwrap_err().is_closed());
        (0..3).for_each(|_| turnstile.go.send(()).unwrap());
        let report = bus.shutdown_timeout(LONG);
        assert!(report.complete && report.threads_ended && report.is_clean(), "{report}");
        assert_eq!(report.bus.watchers[0].delivered, 3);
        assert_eq!(block_on(bus.drain_async(LONG)), report);
    });
}

/// A drain also leaves alone a dispatcher that waits for a watcher.
#[test]
fn a_drain_leaves_a_waiting_dispatcher_alone() {
    let bus = bus(100, 1);
    let mut held = hold(&bus);
    assert!(!bus.drain(SHORT).complete);
    assert_eq!(held.watcher.events().count(), 2);
    assert!(bus.shutdown().is_clean());
}

/// The report of a shutdown that gave up says which accepted events the dispatcher has not reached:
/// single events, those of batches, and none for registrations, flushes and gaps. They are accepted
/// later, and the sum of all events stays.
#[test]
fn a_snapshot_has_the_events_that_are_still_in_the_incoming_queue() {
    let options = BusOptions::default().max_batch(4).queue_len(1);
    let bus = Broadcaster::with_options(options).unwrap();
    let held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    publisher.publish_batch([2, 3, 4]).unwrap();
    publisher.publish_gap(7).unwrap();
    let late = bus.watch().unwrap();
    publisher.publish_batch(5..=10).unwrap();
    assert!(bus.flush(SHORT).is_err());
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.pending, stats.published()), (2, 10, 12));
    let report = bus.drain(Duration::ZERO);
    assert_eq!((report.bus.accepted, report.bus.pending), (2, 10));
    assert!(
        report.to_string().contains("published 12, accepted 2, rejected 0 (full 0, closed 0), pending 10")
    );
    drop(held);
    let report = bus.shutdown();
    assert_eq!((report.bus.accepted, report.bus.pending, report.bus.missed), (12, 0, 7));
    assert_eq!(late.stats().offered, 6);
}

/// A refused entry is not pending, whatever it holds.
#[test]
fn a_refused_entry_is_not_pending() {
    let bus = bus(1, 1);
    let held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish_batch([1, 2]).unwrap();
    assert!(publisher.try_publish_batch([3, 4, 5]).unwrap_err().is_full());
    assert!(publisher.try_publish(6).unwrap_err().is_full());
    assert!(bus.flush(SHORT).is_err());
    let stats = bus.stats();
    assert_eq!((stats.pending, stats.rejected_full, stats.published()), (2, 4, 8));
    drop(held);
    assert_eq!(bus.shutdown().bus.pending, 0);
}

/// On a thread of the bus no shutdown waits, and none joins the thread.
#[test]
fn a_shutdown_on_a_thread_of_the_bus_says_that_threads_run() {
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let (tx, reports) = mpsc::channel();
        let ended = bus.clone();
        bus.watch_builder()
            .spawn(move |_| {
                tx.send(ended.drain(LONG)).unwrap();
                tx.send(ended.shutdown()).unwrap();
            })
            .unwrap();
        bus.publisher().publish(1).unwrap();
        for report in &reports {
            assert!(!report.complete && !report.threads_ended);
        }
        assert!(bus.shutdown().threads_ended);
    });
}

/// When a shutdown has returned, the threads of the dispatcher and of all handlers have ended, also
/// those of handlers that ended earlier. The last that a thread does is to destroy what belongs to
/// it. The destructors here take their time, so a thread that is not joined is still at them.
#[test]
fn a_shutdown_joins_the_threads_of_the_bus() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct OfThread;
    impl Drop for OfThread {
        fn drop(&mut self) {
            (0..50).for_each(|_| thread::yield_now());
            ENDED.fetch_add(1, SeqCst);
        }
    }
    thread_local!(static MARK: OfThread = {
        BEGUN.fetch_add(1, SeqCst);
        OfThread
    });
    let mark = || MARK.with(|_| true);
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        let bus = Broadcaster::<u32>::new().unwrap();
        let early = bus.watch_builder().spawn(move |_| assert!(mark())).unwrap();
        bus.watch_builder().filter(move |_| mark()).spawn(move |_| assert!(mark())).unwrap();
        bus.publisher().publish(1).unwrap();
        early.stop();
        let report = match round % 3 {
            0 => bus.shutdown(),
            1 => bus.shutdown_timeout(LONG),
            _ => bus.drain(LONG),
        };
        assert!(report.threads_ended);
        assert_eq!(ENDED.load(SeqCst), BEGUN.load(SeqCst), "round {round}");
        assert!(BEGUN.load(SeqCst) >= 2 * (round + 1), "the dispatcher's thread and a handler's");
    }
}

/// The deadlines of flush, shutdown, drain and join run on real time although the bus has a fake
/// clock that nobody moves. A test with a handler that hangs fails then, and does not hang.
#[test]
fn deadlines_of_the_end_pass_on_a_bus_with_a_fake_clock() {
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let bus = Broadcaster::with_clock(BusOptions::default(), clock.clock()).unwrap();
        let (turnstile, mut pass) = turnstile();
        let handle = bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish(1).unwrap();
        turnstile.entered.recv_timeout(LONG).unwrap();
        let began = Instant::now();
        let time = Duration::from_millis(20);
        assert!(bus.flush(time).is_err());
        assert!(block_on(bus.flush_async(time)).is_err());
        assert!(!handle.join(time));
        assert!(!bus.drain(time).complete);
        assert!(!block_on(bus.drain_async(time)).complete);
        assert!(!bus.shutdown_timeout(time).complete);
        assert!(!block_on(bus.shutdown_async(time)).complete);
        assert!(began.elapsed() >= 7 * time);
        turnstile.go.send(()).unwrap();
        assert!(bus.shutdown().threads_ended);
    });
}

/// A flush keeps its deadline beside a full incoming queue, too.
#[test]
fn the_deadline_of_a_flush_without_room_passes_on_a_bus_with_a_fake_clock() {
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let options = BusOptions::default().incoming_len(1).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let held = hold(&bus);
        bus.publisher().publish(1).unwrap();
        assert!(bus.flush(SHORT).is_err());
        assert!(block_on(bus.flush_async(SHORT)).is_err());
        drop(held);
    });
}
