//! G5, G6, G7: queues are bounded, each policy loses what it should, the gap shows at its place,
//! and losses are counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::stats::DropReason;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};

use crate::support::{LONG, Live, Tracked, assert_balanced, available, bus, drain, events, hold, lagged};

/// G7: a loss is an item at its place, even if no event follows.
#[test]
fn a_loss_shows_at_its_place_also_when_nothing_follows() {
    let bus = bus(100, 2);
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
    // The gap is between 5 and 8, because one slot was free for 8.
    assert_eq!(available(&mut watcher), [Event(5), Lagged(2), Event(8)]);
    assert_eq!(watcher.stats().dropped.incoming, 3);
}

/// G7: a waiting reader gets a gap at the end while the bus stays open, without any event that
/// follows.
#[test]
fn a_waiting_reader_gets_a_gap_that_nothing_follows() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let bus = Broadcaster::with_clock(BusOptions::default().queue_len(2), clock.clock()).unwrap();
    let mut watcher = bus.watch().unwrap();
    let reader = thread::spawn(move || [(); 3].map(|()| watcher.recv_timeout(LONG).unwrap()));
    // The reader sleeps, and the clock does not wake it.
    clock.wait_for_waiters(1);
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    assert_eq!(reader.join().unwrap(), [Event(1), Event(2), Lagged(1)]);
}

/// G7: a borrowed batch takes room, and the next receive reports what was lost meanwhile.
#[test]
fn a_batch_in_hand_counts_as_queued() {
    let bus = bus::<u64>(100, 1);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    let in_hand = watcher.recv_batch().unwrap();
    assert_eq!(*in_hand, [1]);
    bus.publisher().publish(2).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(bus.stats().watchers[0].queued, 1);
    assert_eq!(watcher.recv(), Ok(Lagged(1)));
    assert_eq!((bus.stats().watchers[0].queued, bus.stats().watchers[0].delivered), (0, 1));
}

#[test]
fn drop_incoming_keeps_the_first_and_counts_the_rest() {
    let bus = bus(100, 5);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(0..20).unwrap();
    bus.shutdown();
    assert_eq!(drain(&mut watcher), [Event(0), Event(1), Event(2), Event(3), Event(4), Lagged(15)]);
    let stats = watcher.stats();
    assert_eq!((stats.offered, stats.delivered, stats.dropped.incoming), (20, 5, 15));
    assert_eq!(stats.high_water, 5);
    assert_balanced(&bus.stats());
}

#[test]
fn drop_oldest_keeps_the_newest_with_the_gap_before_them() {
    let bus = bus(100, 3);
    let mut watcher = bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap();
    let publisher = bus.publisher();
    (0..10).for_each(|event| publisher.publish(event).unwrap());
    bus.flush(LONG).unwrap();
    assert_eq!(watcher.try_recv(), Ok(Lagged(7)));
    assert_eq!(watcher.try_recv(), Ok(Event(7)));
    publisher.publish_batch(10..20).unwrap();
    bus.shutdown();
    assert_eq!(drain(&mut watcher), [Lagged(9), Event(17), Event(18), Event(19)]);
    let stats = watcher.stats();
    assert_eq!((stats.offered, stats.delivered, stats.dropped.oldest, stats.queued), (20, 4, 16, 0));
}

#[test]
fn drop_oldest_with_a_queue_of_one_keeps_the_newest() {
    let bus = bus(100, 1);
    let mut watcher = bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap();
    for event in 0..100 {
        bus.publisher().publish(event).unwrap();
        bus.flush(LONG).unwrap();
    }
    assert_eq!(available(&mut watcher), [Lagged(99), Event(99)]);
}

/// While a reader takes events, each event is delivered or lost exactly once, and in order.
#[test]
fn drop_oldest_counts_each_event_once_under_a_busy_reader() {
    const EVENTS: u64 = 50_000;
    let bus = bus(64, 4);
    let mut watcher = bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap();
    let reader = thread::spawn(move || {
        let mut position = 0;
        for delivery in &mut watcher {
            match delivery {
                Event(event) => {
                    assert_eq!(event, position, "the gap must stand just before the first survivor");
                    position += 1;
                }
                Lagged(count) => position += count,
            }
        }
        (position, watcher.stats())
    });
    let publisher = bus.publisher();
    (0..EVENTS).for_each(|event| publisher.publish(event).unwrap());
    bus.shutdown();
    let (position, stats) = reader.join().unwrap();
    assert_eq!((position, stats.offered), (EVENTS, EVENTS));
    assert_eq!(stats.delivered + stats.dropped.oldest, EVENTS);
}

#[test]
fn wait_for_gives_up_at_its_deadline_and_shows_the_gap() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options = BusOptions::default().queue_len(2);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    let policy = OverflowPolicy::WaitFor(Duration::from_millis(50));
    let mut slow = bus.watch_builder().overflow(policy).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4]).unwrap();
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(49));
    assert_eq!(slow.stats().dropped.total(), 0);
    clock.advance(Duration::from_millis(1));
    bus.shutdown();
    assert_eq!(drain(&mut slow), [Event(1), Event(2), Lagged(2)]);
    assert_eq!(slow.stats().dropped.timed_out, 2);
}

/// Several watchers that must be waited for delay the rest by the longest of their waits, not by
/// the sum.
#[test]
fn several_deadlines_run_from_the_same_moment() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let bus = Broadcaster::with_clock(BusOptions::default().queue_len(1), clock.clock()).unwrap();
    let wait_for = |millis| OverflowPolicy::WaitFor(Duration::from_millis(millis));
    let mut watchers: Vec<_> =
        [30, 40, 50].map(|ms| bus.watch_builder().overflow(wait_for(ms)).watch().unwrap()).into();
    let mut fast = bus.watch_builder().queue_len(10).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2]).unwrap();
    clock.wait_for_waiters(1);
    // The watcher that has room got its share before the dispatcher waited for the others.
    assert_eq!(events(&[fast.recv().unwrap(), fast.recv().unwrap()]), [1, 2]);
    clock.advance(Duration::from_millis(50));
    bus.flush(LONG).unwrap();
    for watcher in &mut watchers {
        assert_eq!(available(watcher), [Event(1), Lagged(1)]);
    }
}

/// `Wait` loses nothing, however small the queue is and whichever way it is read.
#[test]
fn wait_loses_nothing_in_the_smallest_queues() {
    for queue_len in [1, 2, 3, 4, 7] {
        let options =
            BusOptions::default().incoming_len(2).queue_len(queue_len).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).unwrap();
        let (mut one, mut many) = (bus.watch().unwrap(), bus.watch().unwrap());
        let readers = [
            thread::spawn(move || one.events().collect::<Vec<u64>>()),
            thread::spawn(move || {
                let mut seen = Vec::new();
                while let Ok(batch) = many.recv_batch() {
                    assert!(batch.len() <= queue_len);
                    seen.extend(batch);
                }
                seen
            }),
        ];
        let publisher = bus.publisher();
        publisher.publish_batch(0..1000).unwrap();
        (1000..2000).for_each(|event| publisher.publish(event).unwrap());
        bus.shutdown();
        for reader in readers {
            assert!(reader.join().unwrap().into_iter().eq(0..2000), "queue_len {queue_len}");
        }
    }
}

#[test]
fn the_hook_learns_what_was_lost_and_why() {
    type Lost = Arc<Mutex<Vec<(DropReason, Vec<u64>)>>>;
    let lost = Lost::default();
    let hook = |to: &Lost| {
        let to = to.clone();
        move |reason, events: &[u64]| to.lock().unwrap().push((reason, events.to_vec()))
    };
    let bus = bus(100, 2);
    let _incoming = bus.watch_builder().on_drop(hook(&lost)).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4]).unwrap();
    bus.flush(LONG).unwrap();
    let _oldest = bus
        .watch_builder()
        .queue_len(1)
        .overflow(OverflowPolicy::DropOldest)
        .on_drop(hook(&lost))
        .watch()
        .unwrap();
    bus.publisher().publish_batch(vec![5, 6]).unwrap();
    bus.flush(LONG).unwrap();
    let wanted = [
        (DropReason::Incoming, vec![3, 4]),
        (DropReason::Incoming, vec![5, 6]),
        (DropReason::Oldest, vec![5]),
    ];
    assert_eq!(*lost.lock().unwrap(), wanted);
}

#[test]
fn filtered_events_are_not_offered() {
    let bus = bus(100, 3);
    let mut odd = bus.watch_builder().filter(|n: &u64| n % 2 == 1).watch().unwrap();
    let mut none = bus.watch_builder().filter(|_| false).watch().unwrap();
    bus.publisher().publish_batch(0..10).unwrap();
    bus.shutdown();
    assert_eq!(drain(&mut odd), [Event(1_u64), Event(3), Event(5), Lagged(2)]);
    let stats = odd.stats();
    assert_eq!((stats.filtered, stats.offered, stats.dropped.incoming), (5, 5, 2));
    assert_eq!(drain(&mut none), []);
    assert_eq!((none.stats().filtered, none.stats().offered), (10, 0));
}

/// G5: however much is published, the formula in the documentation bounds the events that are
/// alive.
#[test]
fn what_lives_is_bounded_by_the_queues() {
    const MAX_BATCH: usize = 8;
    let live = Live::default();
    let options = BusOptions::default().incoming_len(4).queue_len(6).max_batch(MAX_BATCH);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut watchers = Vec::new();
    for policy in [OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait] {
        watchers.push(bus.watch_builder().overflow(policy).watch().unwrap());
    }
    // The filtered watcher gets copies.
    watchers.push(bus.watch_builder().filter(|t: &Tracked| t.number % 2 == 0).watch().unwrap());
    let publisher = bus.publisher();
    let mut number = 0;
    let mut refused = 0;
    while refused < 50 {
        let batch = (0..MAX_BATCH as u64).map(|i| live.event(number + i));
        refused += u64::from(publisher.try_publish_batch(batch).is_err());
        number += MAX_BATCH as u64;
        // The bound: incoming_len × max_batch, each queue, and two batches for each watcher and the
        // dispatcher.
        let bound = 4 * MAX_BATCH + 4 * 6 + 2 * (4 + 1) * MAX_BATCH;
        assert!(
            live.count() <= i64::try_from(bound).unwrap(),
            "{} events live, the bound is {bound}",
            live.count()
        );
    }
    bus.close();
    // The dispatcher may be waiting for one of the watchers, so all are read at once.
    thread::scope(|scope| {
        for watcher in &mut watchers {
            scope.spawn(|| drop(drain(watcher)));
        }
    });
    assert!(bus.shutdown().complete);
    drop(watchers);
    assert_eq!(live.count(), 0);
}

/// G6 with all policies on one bus: the counters agree with the threads' own counts.
#[test]
fn every_policy_balances_against_its_readers_own_counts() {
    let options = BusOptions::default().incoming_len(32).queue_len(8);
    let bus = Broadcaster::with_options(options).unwrap();
    let policies = [
        OverflowPolicy::DropIncoming,
        OverflowPolicy::DropOldest,
        OverflowPolicy::Wait,
        OverflowPolicy::WaitFor(Duration::from_micros(50)),
        OverflowPolicy::Evict,
    ];
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
            // The reader sees the end in place of a gap, and is offered nothing more.
            assert_eq!((lagged(&deliveries), stats.dropped.total()), (0, 0));
            assert_eq!((stats.delivered, stats.queued), (stats.offered, 0));
            continue;
        }
        assert_eq!(stats.offered, accepted);
        assert_eq!(stats.dropped.total(), lagged(&deliveries));
        assert_eq!((stats.delivered + stats.dropped.total(), stats.queued), (accepted, 0));
    }
}

/// While events are on their way, the counters never show more than was offered.
#[test]
fn a_snapshot_in_flight_never_shows_more_than_was_offered() {
    let bus = bus(64, 4);
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
}

/// Beside a fast watcher, only the slow watcher loses events.
#[test]
fn a_full_queue_costs_its_own_watcher_only() {
    let bus = bus(1000, 10);
    let _slow = bus.watch().unwrap();
    let mut fast = bus.watch_builder().queue_len(1000).watch().unwrap();
    bus.publisher().publish_batch(0..1000_u64).unwrap();
    bus.shutdown();
    assert_eq!(events(&drain(&mut fast)).len(), 1000);
}

#[test]
fn publishing_reports_full_and_hands_the_event_back() {
    let bus = bus(2, 1);
    let held = hold(&bus);
    let publisher = bus.publisher();
    publisher.try_publish(1).unwrap();
    publisher.try_publish(2).unwrap();
    let error = publisher.try_publish(3).unwrap_err();
    assert!(error.is_full());
    assert_eq!(error.into_inner(), 3);
    assert_eq!(publisher.publish_timeout(4, Duration::ZERO).unwrap_err().into_inner(), 4);
    assert_eq!(publisher.try_publish_batch(vec![5, 6]).unwrap_err().into_inner(), [5, 6]);
    assert_eq!(bus.stats().rejected_full, 4);
    drop(held);
    assert!(bus.shutdown().complete);
    let error = publisher.publish_batch(vec![7, 8]).unwrap_err();
    assert!(error.is_closed());
    assert_eq!(error.into_inner(), [7, 8]);
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.rejected_full, stats.rejected_closed), (4, 4, 2));
}

/// A batch of which only the beginning finds room gives back the rest.
#[test]
fn a_batch_that_does_not_fit_hands_back_the_rest() {
    let options = BusOptions::default().incoming_len(2).queue_len(1).max_batch(2);
    let bus = Broadcaster::with_options(options).unwrap();
    let held = hold(&bus);
    let error = bus.publisher().try_publish_batch(0..7).unwrap_err();
    assert_eq!(error.into_inner(), [4, 5, 6]);
    drop(held);
    assert_eq!(bus.shutdown().bus.accepted, 2 + 4);
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let refusal = |options: BusOptions| Broadcaster::<u8>::with_options(options).unwrap_err().to_string();
    let options = BusOptions::default;
    assert_eq!(refusal(options().incoming_len(0)), "incoming_len must be 1 to 16777216 entries, got 0");
    assert_eq!(refusal(options().queue_len(0)), "queue_len must be 1 to 16777216 events, got 0");
    assert_eq!(refusal(options().history(1 << 25)), "history must be 0 to 16777216 events, got 33554432");
    assert_eq!(refusal(options().max_batch(70_000)), "max_batch must be 1 to 65536 events, got 70000");
    assert_eq!(
        refusal(options().thread_name("a\0b")),
        "thread_name must be a name without NUL, got a\\u{0}b"
    );
    let bus = Broadcaster::<u8>::new().unwrap();
    let error = bus.watch_builder().queue_len(0).watch().unwrap_err().to_string();
    assert_eq!(error, "queue_len must be 1 to 16777216 events, got 0");
    assert!(bus.watch_builder().name("a\0").watch().is_err());
}

/// A waiting publisher is woken even while events keep the dispatcher from sleeping, not only
/// before it sleeps.
#[test]
fn a_busy_dispatcher_wakes_a_publisher_that_waits() {
    let bus = bus::<u8>(2, 8);
    let (entered_tx, entered) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let is_over = Arc::new(AtomicBool::new(false));
    // Each event of the kind 1 publishes another one, so the incoming queue is never empty for long
    // enough to let the dispatcher sleep.
    let (again, over) = (bus.publisher(), is_over.clone());
    let filter = move |event: &u8| {
        if *event == 0 {
            entered_tx.send(()).unwrap();
            gate.recv().unwrap();
        } else if *event == 1 && !over.load(Ordering::SeqCst) {
            again.try_publish(1).unwrap();
        }
        false
    };
    let _watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(0).unwrap();
    entered.recv_timeout(LONG).unwrap();
    // The dispatcher is in the filter, and the incoming queue gets full.
    bus.publisher().try_publish(1).unwrap();
    bus.publisher().try_publish(2).unwrap();
    let (waiting, over) = (bus.publisher(), is_over.clone());
    let (done_tx, done) = mpsc::channel();
    thread::spawn(move || {
        let published = waiting.publish(3);
        over.store(true, Ordering::SeqCst);
        done_tx.send(published).unwrap();
    });
    // Usually this is enough time for the publisher to fall asleep. If it is late, it needs no
    // wake-up.
    (0..10_000).for_each(|_| thread::yield_now());
    go.send(()).unwrap();
    let published = done.recv_timeout(LONG);
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(published, Ok(Ok(())));
    assert!(bus.shutdown().complete);
}
