//! Full queues: which events each policy loses, where the gap appears, and the counters.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::stats::DropReason;

use crate::support::{
    LONG, assert_balanced, assert_settled, available, bus, bus_with, drain, events, lagged, on_both, timed,
    turnstile, waits, watched,
};

/// G7: a loss is an item at its position in the stream, even if no event follows.
#[test]
fn a_loss_shows_at_its_place_also_when_nothing_follows() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch(vec![1, 2, 3]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(available(&mut watcher), [Event(1), Event(2), Lagged(1)]);
        publisher.publish_batch(vec![4, 5, 6, 7]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.try_recv(), Ok(Event(4)));
        publisher.publish(8).unwrap();
        bus.flush(LONG).unwrap();
        // The gap is between events 5 and 8, because one slot was free for event 8.
        assert_eq!(available(&mut watcher), [Event(5), Lagged(2), Event(8)]);
        assert_eq!(watcher.stats().dropped.incoming, 3);
    });
}

/// G7: a waiting reader receives a trailing gap while the bus is still open, even if no event
/// follows.
#[test]
fn a_waiting_reader_gets_a_gap_that_nothing_follows() {
    on_both(|options| {
        let (clock, bus) = timed(options.queue_capacity(2));
        let mut watcher = bus.watch().unwrap();
        let reader = thread::spawn(move || [(); 3].map(|()| watcher.recv_timeout(LONG).unwrap()));
        // The reader sleeps, and the clock does not wake it.
        clock.wait_for_waiters(1);
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        assert_eq!(reader.join().unwrap(), [Event(1), Event(2), Lagged(1)]);
    });
}

/// G7: a borrowed batch takes up capacity, and the next receive reports the events lost since the
/// batch was borrowed.
#[test]
fn a_batch_in_hand_counts_as_queued() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(1));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let in_hand = watcher.recv_batch().unwrap();
        assert_eq!(*in_hand, [1]);
        bus.publisher().publish(2).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(bus.stats().watchers[0].queued, 1);
        assert_eq!(watcher.recv(), Ok(Lagged(1)));
        assert_eq!((bus.stats().watchers[0].queued, bus.stats().watchers[0].delivered), (0, 1));
    });
}

#[test]
fn drop_incoming_keeps_the_first_and_counts_the_rest() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(5));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch(0..20).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Event(0), Event(1), Event(2), Event(3), Event(4), Lagged(15)]);
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.incoming), (20, 5, 15));
        assert_eq!(stats.high_water, 5);
        assert_balanced(&bus.stats());
    });
}

/// The hook is called with the number of lost events and the reason, and the gap is in the stream.
/// On an inline bus, the hook has been called on the publishing thread, and the gap is in the
/// stream, when the publish returns.
#[test]
fn the_hook_learns_what_was_lost_and_why() {
    on_both(|options| {
        let is_inline = options == BusOptions::default().inline(true);
        for (policy, reason, lost_event, wanted) in [
            (DropIncoming, DropReason::Incoming, 3, [Event(1), Event(2), Lagged(1)]),
            (DropOldest, DropReason::Oldest, 1, [Lagged(1), Event(2), Event(3)]),
            (WaitFor(Duration::ZERO), DropReason::TimedOut, 3, [Event(1), Event(2), Lagged(1)]),
        ] {
            let bus = bus_with(options.clone().queue_capacity(2));
            let (lost_tx, lost) = mpsc::channel();
            let hook = move |why, events: &[u64]| {
                lost_tx.send((why, events.to_vec(), thread::current().id())).unwrap();
            };
            let mut watcher = bus.watch_builder().overflow(policy).on_drop(hook).watch().unwrap();
            (1..=3).for_each(|event| bus.publisher().try_publish(event).unwrap());
            bus.flush(LONG).unwrap();
            let (why, events, thread) = lost.try_recv().unwrap();
            assert_eq!((why, events), (reason, vec![lost_event]), "{policy}");
            assert_eq!(thread == thread::current().id(), is_inline, "{policy}");
            assert!(watcher.stats().dropped.by_reason().any(|count| count == (reason, 1)));
            assert_eq!(available(&mut watcher), wanted, "{policy}");
        }
    });
}

/// The `Wait` policy loses nothing, however small the queues are, and whichever method is used to
/// read them.
#[test]
fn wait_loses_nothing_in_the_smallest_queues() {
    const EVENTS: u64 = if cfg!(miri) { 100 } else { 2_000 };
    on_both(|options| {
        for (queue_capacity, max_batch) in [(1, 1), (1, 256), (2, 256), (3, 256), (4, 256), (7, 256)] {
            let bus = bus_with(
                options.clone().incoming_capacity(2).queue_capacity(queue_capacity).max_batch(max_batch),
            );
            let (mut one, mut many) = (waits(&bus, queue_capacity), waits(&bus, queue_capacity));
            many = many.overflow(if max_batch == 1 { WaitFor(Duration::MAX) } else { Wait });
            one = one.name("one by one");
            let (mut one, mut many) = (one.watch().unwrap(), many.watch().unwrap());
            let readers = [
                thread::spawn(move || (one.events().collect::<Vec<u64>>(), one.stats())),
                thread::spawn(move || {
                    let mut seen = Vec::new();
                    while let Ok(batch) = many.recv_batch() {
                        assert!(batch.len() <= queue_capacity);
                        seen.extend(batch);
                    }
                    (seen, many.stats())
                }),
            ];
            let publisher = bus.publisher();
            publisher.publish_batch(0..EVENTS / 2).unwrap();
            (EVENTS / 2..EVENTS).for_each(|event| publisher.publish(event).unwrap());
            bus.shutdown();
            for reader in readers {
                let (seen, stats) = reader.join().unwrap();
                assert!(
                    seen.into_iter().eq(0..EVENTS),
                    "queue_capacity {queue_capacity}, max_batch {max_batch}"
                );
                assert!(stats.high_water <= queue_capacity as u64, "{stats}");
            }
            assert_settled(&bus.stats(), EVENTS);
        }
    });
}

/// Once the wait for a watcher has ended, either at the watcher's limit or because a shutdown with
/// a deadline abandons the rest, the watcher loses only the events for which there is no capacity.
#[test]
fn the_end_of_the_wait_fills_the_capacity_there_is() {
    for shuts_down in [false, true] {
        watched(move || {
            let (clock, bus) = timed(BusOptions::default());
            let limit = Duration::from_secs(if shuts_down { 3600 } else { 1 });
            let mut watcher = bus.watch_builder().queue_capacity(8).overflow(WaitFor(limit)).watch().unwrap();
            bus.publisher().publish_batch(0..8).unwrap();
            bus.flush(LONG).unwrap();
            bus.publisher().publish_batch(8..16).unwrap();
            clock.wait_for_waiters(1);
            thread::scope(|scope| {
                let shutdown = shuts_down.then(|| {
                    let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(1)));
                    clock.wait_for_waiters(2);
                    shutdown
                });
                // These receives do not free enough capacity to wake the dispatcher.
                for number in 0..3 {
                    assert_eq!(watcher.recv(), Ok(Event(number)));
                }
                clock.advance(if shuts_down { Duration::from_millis(950) } else { limit });
                match shutdown {
                    Some(shutdown) => assert!(!shutdown.join().unwrap().complete),
                    None => bus.flush(LONG).unwrap(),
                }
            });
            // Three slots were free when the wait ended.
            let (stats, lost) = (watcher.stats(), if shuts_down { (0, 5) } else { (5, 0) });
            assert_eq!((stats.dropped.timed_out, stats.dropped.abandoned), lost, "{stats}");
            assert_eq!(stats.queued, 8);
        });
    }
}

#[test]
fn filtered_events_are_not_offered() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(3));
        let mut odd = bus.watch_builder().filter(|n: &u64| n % 2 == 1).watch().unwrap();
        let mut none = bus.watch_builder().filter(|_| false).watch().unwrap();
        bus.publisher().publish_batch(0..10).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut odd), [Event(1_u64), Event(3), Event(5), Lagged(2)]);
        let stats = odd.stats();
        assert_eq!((stats.filtered, stats.offered, stats.dropped.incoming), (5, 5, 2));
        assert_eq!(drain(&mut none), []);
        assert_eq!((none.stats().filtered, none.stats().offered), (10, 0));
    });
}

/// Tests G6 with all policies on one bus. The bus's counters agree with the counts that the threads
/// kept.
#[test]
fn every_policy_balances_against_its_readers_own_counts() {
    on_both(|options| {
        let bus = bus_with(options.incoming_capacity(32).queue_capacity(8));
        let policies = [DropIncoming, DropOldest, Wait, WaitFor(Duration::from_micros(50)), Evict];
        let readers: Vec<_> = policies
            .map(|policy| {
                let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
                thread::spawn(move || {
                    let deliveries = drain(&mut watcher);
                    (deliveries, watcher.stats())
                })
            })
            .into();
        let (mut accepted, mut refused) = (0, 0);
        let publisher = bus.publisher();
        for event in 0..20_000_u64 {
            match publisher.try_publish(event) {
                Ok(()) => accepted += 1,
                Err(error) if error.is_full() => refused += 1,
                Err(error) => panic!("{error}"),
            }
        }
        let report = bus.shutdown();
        assert_eq!(
            (report.bus.accepted, report.bus.rejected_full, report.bus.rejected_closed),
            (accepted, refused, 0)
        );
        for reader in readers {
            let (deliveries, stats) = reader.join().unwrap();
            let seen = events(&deliveries);
            assert!(seen.is_sorted_by(|a, b| a < b));
            assert_eq!(stats.delivered, seen.len() as u64);
            if stats.evictions > 0 {
                // The reader sees the end of the watcher instead of a gap, and no further events
                // are offered.
                assert_eq!((lagged(&deliveries), stats.dropped.total()), (0, 0));
                assert_eq!((stats.delivered, stats.queued), (stats.offered, 0));
                continue;
            }
            assert_eq!(stats.offered, accepted);
            assert_eq!(stats.dropped.total(), lagged(&deliveries));
            assert_eq!((stats.delivered + stats.dropped.total(), stats.queued), (accepted, 0));
        }
    });
}

/// While events are in flight, the counters never show more events than were offered.
#[test]
fn a_snapshot_in_flight_never_shows_more_than_was_offered() {
    on_both(|options| {
        let bus = bus_with(options.incoming_capacity(64).queue_capacity(4));
        let mut watcher = bus.watch().unwrap();
        thread::scope(|scope| {
            let publisher = bus.publisher();
            scope.spawn(move || {
                for n in 0..20_000_u64 {
                    publisher.publish(n).unwrap();
                }
            });
            let reader = scope.spawn(move || drain(&mut watcher).len());
            while bus.stats().accepted < 20_000 {
                for stats in bus.stats().watchers {
                    assert!(stats.delivered + stats.dropped.total() <= stats.offered, "{stats:?}");
                }
            }
            bus.close();
            assert!(reader.join().unwrap() > 0);
        });
    });
}

/// With a fast and a slow watcher on one bus, only the slow watcher loses events.
#[test]
fn a_full_queue_costs_its_own_watcher_only() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(10));
        let _slow = bus.watch().unwrap();
        let mut fast = bus.watch_builder().queue_capacity(1000).watch().unwrap();
        bus.publisher().publish_batch(0..1000_u64).unwrap();
        bus.shutdown();
        assert_eq!(events(&drain(&mut fast)).len(), 1000);
    });
}

/// G6: while the bus is running, delivered + dropped never exceeds offered. No event can be
/// received before it is counted as offered.
#[test]
fn nothing_is_delivered_before_it_was_offered() {
    watched(|| {
        let bus = bus(100, 1);
        let (hook, mut hooked) = turnstile();
        let mut watcher = bus.watch_builder().on_drop(move |_, _| hooked(())).watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        hook.wait_for(());
        let received = watcher.try_recv();
        let stats = watcher.stats();
        hook.let_one_pass();
        assert!(matches!(received, Ok(Event(1)) | Err(_)));
        assert!(stats.delivered + stats.dropped.total() <= stats.offered, "{stats}");
    });
}
