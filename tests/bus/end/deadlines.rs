//! G8: shutdowns and drains that time out, the events that they abandon, and the reports that they
//! return.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::WaitFor;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery};
use futures::executor::block_on;

use crate::support::{
    LONG, assert_balanced, assert_settled, bus, bus_with, drain, events, hold, on_both, stopping_filter,
    stopping_handler, timed, until, waits, watched,
};

const SHORT: Duration = Duration::from_millis(1);

/// A shutdown that times out returns a snapshot. The next shutdown continues to wait, and its
/// report has the final counts. Every later shutdown returns that same report.
#[test]
fn a_shutdown_after_one_that_timed_out_waits_on_and_has_the_final_counts() {
    on_both(|options| {
        let bus = bus_with(options);
        let (turnstile, _) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        turnstile.wait_for(Some(1));
        let snapshot = bus.shutdown_timeout(SHORT);
        assert!(!snapshot.complete && !snapshot.threads_ended && !snapshot.is_clean());
        assert_eq!(snapshot.bus.watchers[0].queued, 3);
        thread::scope(|scope| {
            let later = scope.spawn(|| bus.shutdown());
            assert!(!bus.shutdown_timeout(SHORT).complete);
            assert!(!later.is_finished(), "the handler has not returned");
            turnstile.let_one_pass();
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

/// A drain does not abandon any events. After a drain has timed out, the handler handles its whole
/// queue, and a later shutdown with a deadline has nothing to abandon.
#[test]
fn a_drain_abandons_nothing() {
    on_both(|options| {
        let bus = bus_with(options);
        let (turnstile, _) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        turnstile.wait_for(Some(1));
        assert!(!bus.drain(SHORT).complete);
        assert!(!block_on(bus.drain_async(SHORT)).complete);
        assert!(bus.publisher().publish(4).unwrap_err().is_closed());
        drop(turnstile);
        let report = bus.shutdown_timeout(LONG);
        assert!(report.complete && report.threads_ended && report.is_clean(), "{report}");
        assert_eq!(report.bus.watchers[0].delivered, 3);
        assert_eq!(block_on(bus.drain_async(LONG)), report);
    });
}

/// A shutdown that is called on a thread of the bus neither waits nor joins that thread.
#[test]
fn a_shutdown_on_a_thread_of_the_bus_reports_that_threads_run() {
    on_both(|options| {
        let bus = bus_with(options);
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

/// The deadlines of flush, shutdown, drain and join are measured in real time, even if the bus has
/// a fake clock that is never advanced. A test whose handler hangs therefore fails instead of
/// hanging.
#[test]
fn deadlines_of_the_end_pass_on_a_bus_with_a_fake_clock() {
    on_both(|options| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(Some(1));
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
        turnstile.let_one_pass();
        assert!(bus.shutdown().threads_ended);
    });
}

/// If a handler does not return, it does not delay the deadline. When the handler finally returns,
/// it abandons its queue, and it is not notified of later losses.
#[test]
fn a_stuck_handler_is_abandoned_at_the_deadline() {
    on_both(|options| {
        let (clock, bus) = timed(options.queue_capacity(3));
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch(1..=5).unwrap();
        turnstile.wait_for(Some(1));
        thread::scope(|scope| {
            let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(5)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(5));
            let report = shutdown.join().unwrap();
            assert!(!report.complete && !report.threads_ended, "{report}");
            assert_eq!((report.bus.watchers[0].delivered, report.bus.watchers[0].queued), (0, 3));
        });
        assert!(!handle.join(Duration::ZERO));
        turnstile.let_one_pass();
        // The clock does not advance, so the join can succeed only because the handler ends.
        assert!(handle.join(LONG));
        // Both the handler and the dispatcher may empty the queue of a watcher that has ended. Each
        // of them counts the events that it removed, and the dispatcher does so on its own thread.
        until(|| handle.stats().lag == 0);
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.abandoned, stats.dropped.incoming), (1, 2, 2));
        assert_eq!((stats.queued, turnstile.entered.try_recv().ok()), (0, None));
        assert!(!bus.shutdown().complete, "events were abandoned");
        assert_settled(&bus.stats(), 5);
    });
}

/// A handler ends at the deadline while the dispatcher still holds events that do not fit into the
/// handler's queue. These events count as abandoned and not as stopped, because no thread has
/// stopped the handler.
#[test]
fn events_that_wait_for_capacity_are_abandoned_with_their_handler() {
    let bus = bus::<u64>(100, 1);
    let (turnstile, handler) = stopping_handler(waits(&bus, 1));
    // This filter holds the dispatcher after the dispatcher has offered an event to the handler,
    // and before the dispatcher waits for the handler.
    let (held, other) = stopping_filter(bus.watch_builder().queue_capacity(10));
    bus.publisher().publish(1).unwrap();
    held.wait_for(1);
    held.let_one_pass();
    turnstile.wait_for(Some(1));
    bus.publisher().publish_batch([2, 3]).unwrap();
    held.wait_for(2);
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    drop(turnstile);
    assert!(handler.join(LONG), "the handler must end after its event");
    drop((held, other));
    // The dispatcher counts the events before it ends the bus.
    until(|| handler.stats().lag == 0);
    let stats = handler.stats();
    assert_eq!((stats.offered, stats.delivered), (3, 1), "{stats}");
    assert_eq!((stats.dropped.abandoned, stats.dropped.stopped), (2, 0), "{stats}");
}

/// G3, G6: an accepted event is either offered or reported as abandoned by the shutdown. This is
/// true even if a handler has already abandoned its queue when the dispatcher reaches the handler.
#[test]
fn events_that_a_handler_abandoned_are_counted() {
    watched(|| {
        let (clock, bus) = timed(BusOptions::default());
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        // This watcher holds the dispatcher, first while the dispatcher waits for the watcher, and
        // then in the watcher's hook.
        let (hook, mut hooked) = crate::support::turnstile();
        let stuck = bus
            .watch_builder()
            .queue_capacity(1)
            .overflow(WaitFor(Duration::from_secs(3600)))
            .on_drop(move |_, _| hooked(()))
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch([1, 2]).unwrap();
        turnstile.wait_for(Some(1));
        clock.wait_for_waiters(1);
        publisher.publish_batch([3, 4]).unwrap();
        let report = thread::scope(|scope| {
            let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(1)));
            clock.wait_for_waiters(2);
            clock.advance(Duration::from_millis(950));
            hook.wait_for(());
            drop(turnstile);
            assert!(handle.join(LONG));
            drop(hook);
            shutdown.join().unwrap()
        });
        assert!(!report.complete);
        assert_eq!(report.bus.accepted, 4);
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.total()), (1, 3), "{stats}");
        drop(stuck);
    });
}

#[test]
fn a_drain_leaves_a_waiting_dispatcher_alone() {
    let bus = bus(100, 1);
    let mut held = hold(&bus);
    assert!(!bus.drain(SHORT).complete);
    assert_eq!(held.watcher.events().count(), 2);
    assert!(bus.shutdown().is_clean());
}

/// The report of a shutdown that timed out counts the events that the dispatcher has not reached,
/// both single events and events in batches, but not registrations, flushes and gaps. The counted
/// events are accepted later, and the total number of events stays the same.
#[test]
fn a_snapshot_has_the_events_that_are_still_in_the_incoming_queue() {
    let bus = bus_with(BusOptions::default().max_batch(4).queue_capacity(1));
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

/// G8: a shutdown with a deadline returns no later than the deadline, and reports what it
/// abandoned.
#[test]
fn a_shutdown_by_deadline_reports_what_it_abandoned() {
    let (clock, bus) = timed(BusOptions::default().queue_capacity(1));
    let mut held = hold(&bus);
    let mut other = bus.watch_builder().queue_capacity(100).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    let report = thread::scope(|scope| {
        let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        // The shutdown begins to abandon events 50 ms before the deadline. The clock never reaches
        // the deadline, so the shutdown ends as soon as everything has been abandoned.
        clock.advance(Duration::from_millis(950));
        shutdown.join().unwrap()
    });
    assert!(!report.complete);
    // The unread watcher lost all events except the first. The other watcher lost nothing.
    let stats = &report.bus.watchers[0];
    assert_eq!((stats.offered, stats.queued, stats.dropped.abandoned), (5, 1, 4));
    assert_eq!(report.bus.watchers[1].queued, 3);
    assert_balanced(&report.bus);
    assert_eq!(bus.shutdown(), report);
    assert_eq!(drain(&mut held.watcher), [Event(u64::MAX - 1), Delivery::Lagged(4)]);
    assert_eq!(events(&drain(&mut other)), [1, 2, 3]);
}
