//! G12: positions and history. In most of these tests each event is the number of its own position,
//! so a single oracle checks every path that an event may take.

use std::ops::RangeInclusive;
use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::bus::{EndReason, Start};
use eventcast::error::RecvTimeoutError;
use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};
use futures::StreamExt;
use futures::executor::block_on;

use crate::support::{
    Ear, LONG, assert_balanced, available, bus_with, drain, hold, on_both, stopping_filter, timed,
};

fn with_history(events: usize) -> Broadcaster<u64> {
    bus_with(BusOptions::default().history(events))
}

/// Publishes the events at these positions, in batches of three.
fn publish(bus: &Broadcaster<u64>, positions: RangeInclusive<u64>) {
    let positions: Vec<u64> = positions.collect();
    positions.chunks(3).for_each(|chunk| bus.publisher().publish_batch(chunk.to_vec()).unwrap());
}

/// Reads until the watcher ends. Each event must be received at its position, and each position
/// between the first and the last must be received, lost or refused. Returns the events and the
/// number of lost events.
fn read_to_the_end(mut watcher: Watcher<u64>, passes: impl Fn(u64) -> bool) -> (Vec<u64>, u64) {
    let (mut events, mut lost, mut reached, mut missing) = (Vec::new(), 0, None, 0);
    while let Ok(delivery) = watcher.recv() {
        match delivery {
            Event(event) => {
                assert_eq!(watcher.position(), Some(event));
                if let Some(reached) = reached {
                    let between = (reached + 1..event).filter(|position| passes(*position)).count() as u64;
                    assert!(
                        between <= missing,
                        "{between} events before {event}, of which {missing} were lost"
                    );
                }
                (reached, missing) = (Some(event), 0);
                events.push(event);
            }
            Lagged(count) => (lost, missing) = (lost + count, missing + count),
        }
    }
    (events, lost)
}

/// G12: positions start at 1 and count all events and published gaps. The positions agree with each
/// watcher's losses, whatever the watcher's policy.
#[test]
fn positions_and_gaps_agree_on_every_way_to_a_watcher() {
    on_both(|options| {
        let bus = bus_with(options.max_batch(8));
        let mut watchers = Vec::new();
        for (policy, queue_capacities) in [
            (DropIncoming, &[1, 4, 1000][..]),
            (DropOldest, &[1, 4, 1000]),
            (Wait, &[1000]),
            (WaitFor(LONG), &[1000]),
        ] {
            for queue_capacity in queue_capacities {
                watchers.push(
                    bus.watch_builder().queue_capacity(*queue_capacity).overflow(policy).watch().unwrap(),
                );
            }
        }
        for _ in 0..20 {
            let next = bus.stats().accepted + bus.stats().missed + 1;
            publish(&bus, next..=next + 9);
            bus.publisher().publish_gap(3).unwrap();
            bus.flush(LONG).unwrap();
        }
        bus.shutdown();
        for mut watcher in watchers {
            assert_eq!(watcher.position(), Some(0), "no event has been received");
            let mut position = 0;
            while let Ok(delivery) = watcher.recv() {
                position += if let Lagged(lost) = delivery { lost } else { 1 };
                assert_eq!(watcher.position(), Some(position), "{:?}", watcher.stats());
                assert!(delivery == Event(position) || delivery.event().is_none());
            }
            assert_eq!(position, 20 * 13);
        }
    });
}

/// The history contains exactly the newest events, regardless of how the events were batched when
/// they were published. A watcher that starts at the oldest event or after a position receives
/// events from the history, followed by later events. On an inline bus, the watcher can receive the
/// events from the history as soon as `watch` returns.
#[test]
fn a_watcher_starts_in_the_past() {
    on_both(|options| {
        let is_inline = options == BusOptions::default().inline(true);
        let bus = bus_with(options.history(5));
        publish(&bus, 1..=10);
        let all = |range: RangeInclusive<u64>| range.map(Event).collect::<Vec<_>>();
        let lost = |count, range| [vec![Lagged(count)], all(range)].concat();
        let mut watchers = [
            (Start::Oldest, all(6..=10)),
            (Start::After(8), all(9..=10)),
            (Start::After(2), lost(3, 6..=10)),
            (Start::After(0), lost(5, 6..=10)),
            (Start::After(10), vec![]),
            (Start::After(u64::MAX), vec![]),
            (Start::Next, vec![]),
        ]
        .map(|(start, past)| {
            let mut watcher = bus.watch_builder().start(start).watch().unwrap();
            let received = if is_inline { available(&mut watcher) } else { vec![] };
            assert!(!is_inline || received == past, "{start:?}: {received:?}");
            (start, watcher, [&past[received.len()..], &all(11..=12)].concat())
        });
        publish(&bus, 11..=12);
        bus.shutdown();
        for (start, watcher, wanted) in &mut watchers {
            assert_eq!(drain(watcher), *wanted, "{start:?}");
            assert_eq!(watcher.position(), Some(12), "{start:?}");
        }
        let stats = watchers[2].1.stats();
        assert_eq!((stats.offered, stats.delivered, stats.missed, stats.dropped.total()), (7, 7, 3, 0));
        assert_balanced(&bus.stats());
    });
}

#[test]
fn each_event_of_a_batch_has_its_position() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(7));
        let passes = |n: &u64| n % 5 == 0 || n % 7 < 2;
        let mut watchers: Vec<_> = [DropIncoming, DropOldest, WaitFor(Duration::from_millis(1))]
            .iter()
            .flat_map(|policy| {
                let builder = || bus.watch_builder().overflow(*policy);
                [builder().watch().unwrap(), builder().filter(passes).watch().unwrap()]
            })
            .collect();
        publish(&bus, 1..=40);
        bus.flush(LONG).unwrap();
        publish(&bus, 41..=60);
        bus.shutdown();
        for watcher in &mut watchers {
            let mut received = 0;
            while let Ok(batch) = watcher.recv_batch() {
                for (i, event) in batch.iter().enumerate() {
                    assert_eq!(batch.position(i), Some(*event));
                }
                assert_eq!((batch.position(0), batch.position(batch.len())), (batch.first().copied(), None));
                received += batch.len();
                let last = batch.last().copied();
                if last.is_some() {
                    assert_eq!(watcher.position(), last);
                }
            }
            assert!(received >= 7, "{}", watcher.stats());
        }
    });
}

/// A prefix has no position, but the events that follow the prefix have positions.
#[test]
fn a_prefix_has_no_position() {
    on_both(|options| {
        let bus = bus_with(options.history(0));
        publish(&bus, 1..=2);
        let mut watcher = bus.watch_builder().prefix([100, 101]).watch().unwrap();
        publish(&bus, 3..=3);
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.position(), Some(2), "the start");
        {
            let batch = watcher.recv_batch().unwrap();
            assert_eq!((batch.len(), batch.position(0)), (2, None));
        }
        assert_eq!(watcher.position(), Some(2));
        assert_eq!((watcher.recv(), watcher.position()), (Ok(Event(3)), Some(3)));
    });
}

#[test]
fn a_stream_has_the_position_of_each_delivery() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.publisher().publish_gap(4).unwrap();
        bus.shutdown();
        let mut seen = Vec::new();
        while let Some(delivery) = block_on(watcher.next()) {
            seen.push((delivery, watcher.position()));
        }
        assert_eq!(seen, [(Event(1), Some(1)), (Event(2), Some(2)), (Lagged(5), Some(7))]);
    });
}

/// If a watcher starts after a position that the bus has not reached, the watcher starts at the
/// newest position and does not miss any later event.
#[test]
fn a_start_in_the_future_is_the_present() {
    on_both(|options| {
        for history in [0, 5] {
            let bus = bus_with(options.clone().history(history));
            publish(&bus, 1..=10);
            let mut watchers = [10, 11, 15, u64::MAX]
                .map(|position| bus.watch_builder().start(Start::After(position)).watch().unwrap());
            bus.flush(LONG).unwrap();
            assert_eq!(watchers.each_ref().map(Watcher::position), [Some(10); 4]);
            publish(&bus, 11..=16);
            bus.shutdown();
            for watcher in &mut watchers {
                assert_eq!(drain(watcher), (11..=16).map(Event).collect::<Vec<_>>());
            }
        }
    });
}

/// Without a history, everything between the requested position and the present is a gap.
#[test]
fn without_history_the_past_is_a_gap() {
    on_both(|options| {
        let bus = bus_with(options.history(0));
        publish(&bus, 1..=10);
        let mut watcher = bus.watch_builder().start(Start::After(4)).watch().unwrap();
        let mut oldest = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        publish(&bus, 11..=11);
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Lagged(6), Event(11)]);
        assert_eq!(drain(&mut oldest), [Event(11)]);
    });
}

#[test]
fn a_published_gap_is_in_the_history() {
    on_both(|options| {
        let bus = bus_with(options.history(4));
        let gap = |events| bus.publisher().publish_gap(events).unwrap();
        publish(&bus, 1..=3);
        gap(10);
        publish(&bus, 14..=15);
        gap(5);
        let mut all = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        let mut inside = bus.watch_builder().start(Start::After(8)).watch().unwrap();
        publish(&bus, 21..=21);
        bus.shutdown();
        assert_eq!(
            drain(&mut all),
            [Event(2), Event(3), Lagged(10), Event(14), Event(15), Lagged(5), Event(21)]
        );
        assert_eq!(drain(&mut inside), [Lagged(5), Event(14), Event(15), Lagged(5), Event(21)]);
    });
}

/// Replayed events do not need capacity. The dispatcher does not wait for a reader that is still
/// receiving replayed events, and replayed events neither evict the watcher nor displace new
/// events.
#[test]
fn the_past_needs_no_capacity() {
    let bus = with_history(100);
    publish(&bus, 1..=100);
    let mut watchers: Vec<_> = [Wait, DropIncoming, Evict]
        .iter()
        .map(|policy| {
            bus.watch_builder().queue_capacity(2).overflow(*policy).start(Start::Oldest).watch().unwrap()
        })
        .collect();
    publish(&bus, 101..=101);
    publish(&bus, 102..=102);
    // The flush returns, so the dispatcher does not wait for any of the watchers.
    bus.flush(LONG).unwrap();
    assert_eq!(bus.stats().watchers[0].high_water, 2);
    // One more event does not fit into two of the queues, however many replayed events are left.
    drop(watchers.remove(0));
    publish(&bus, 103..=103);
    bus.flush(LONG).unwrap();
    let all: Vec<_> = (1..=102).map(Event).collect();
    let mut evicted = watchers.pop().unwrap();
    assert_eq!(drain(&mut evicted), all);
    assert_eq!(evicted.end_reason(), Some(EndReason::Evicted));
    let mut dropping = watchers.pop().unwrap();
    bus.shutdown();
    assert_eq!(drain(&mut dropping), [all, vec![Lagged(1)]].concat());
    assert_eq!(dropping.stats().dropped.incoming, 1);
}

/// A reader that has read part of the history has no more capacity than a reader that has read
/// nothing.
#[test]
fn reading_the_past_frees_no_capacity() {
    on_both(|options| {
        let bus = bus_with(options.history(10));
        publish(&bus, 1..=10);
        let mut watcher = bus.watch_builder().queue_capacity(2).start(Start::Oldest).watch().unwrap();
        for expected in 1..=5 {
            assert_eq!(watcher.recv(), Ok(Event(expected)));
        }
        publish(&bus, 11..=13);
        bus.flush(LONG).unwrap();
        for expected in 6..=11 {
            assert_eq!(watcher.recv(), Ok(Event(expected)));
        }
        // Event 13 was lost, and the slot of event 11 is free again.
        publish(&bus, 14..=14);
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Event(12), Lagged(1), Event(14)]);
    });
}

/// If the dispatcher waits for a reader that is still receiving events from the history, the
/// dispatcher is woken as soon as capacity is available.
#[test]
fn a_dispatcher_waits_for_a_reader_of_the_past() {
    let bus = with_history(10);
    publish(&bus, 1..=10);
    let mut watcher =
        bus.watch_builder().queue_capacity(2).overflow(Wait).start(Start::Oldest).watch().unwrap();
    let publisher = bus.publisher();
    let publishing = thread::spawn(move || (11..=40).for_each(|event| publisher.publish(event).unwrap()));
    for expected in 1..=40 {
        assert_eq!(watcher.recv(), Ok(Event(expected)));
    }
    publishing.join().unwrap();
    assert_eq!(watcher.stats().high_water, 2);
}

/// A `DropOldest` watcher's queue keeps the newest events, including events from the history.
#[test]
fn a_ring_keeps_the_newest_of_the_past() {
    on_both(|options| {
        let bus = bus_with(options.history(10));
        publish(&bus, 1..=10);
        let mut ring = bus
            .watch_builder()
            .queue_capacity(4)
            .overflow(DropOldest)
            .start(Start::After(0))
            .watch()
            .unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut ring), [Lagged(6), Event(7), Event(8), Event(9), Event(10)]);
        assert_eq!((ring.stats().dropped.oldest, ring.position()), (6, Some(10)));
    });
}

/// A filter is also called for events from the history. The events that the filter refuses are
/// counted, and a panic in the filter ends the watcher.
#[test]
fn a_filter_sees_the_past() {
    on_both(|options| {
        let bus = bus_with(options.history(10).max_batch(3));
        publish(&bus, 1..=10);
        let even = bus.watch_builder().filter(|n| n % 2 == 0).start(Start::After(3)).watch().unwrap();
        let builder = bus.watch_builder().start(Start::Oldest);
        let mut broken = builder.filter(|n| if *n == 5 { panic!("five") } else { true }).watch().unwrap();
        publish(&bus, 11..=12);
        bus.shutdown();
        assert_eq!(even.stats().filtered, 4);
        assert_eq!(read_to_the_end(even, |n| n % 2 == 0), (vec![4, 6, 8, 10, 12], 0));
        let seen = drain(&mut broken);
        assert_eq!(seen, [Event(1), Event(2), Event(3)], "only the events before the batch with 5");
        assert_eq!((broken.stats().panics, broken.end_reason()), (1, Some(EndReason::Stopped)));
    });
}

/// If a reader falls asleep before the dispatcher reaches the watcher's registration, the events
/// from the history wake the reader, even if no new event follows.
#[test]
fn a_reader_that_sleeps_wakes_for_the_past() {
    let (clock, bus) = timed(BusOptions::default().history(2).max_batch(1));
    let held = hold(&bus);
    let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    assert_eq!(watcher.position(), None, "the dispatcher has not reached the registration");
    let reading = thread::spawn(move || (watcher.recv_timeout(LONG), watcher.position()));
    clock.wait_for_waiters(1);
    drop(held);
    assert_eq!(reading.join().unwrap(), (Ok(Event(u64::MAX - 1)), Some(1)));
}

/// If a filter is slow, a waiting task is woken for the events that the filter has accepted so far.
#[test]
fn a_reader_wakes_before_the_filter_has_seen_all_of_the_past() {
    let bus = bus_with(BusOptions::default().history(100).max_batch(1));
    publish(&bus, 1..=200);
    let (turnstile, mut watcher) = stopping_filter(bus.watch_builder().start(Start::After(0)));
    let ear = Ear::new();
    assert_eq!(ear.finish(pin!(watcher.recv_async())), Ok(Lagged(100)));
    for expected in 101..=200 {
        // The task waits while the filter checks the event. The task is woken before the filter has
        // finished with the next event.
        turnstile.wait_for(expected);
        assert_eq!(ear.poll_next(&mut watcher), Poll::Pending);
        turnstile.let_one_pass();
        ear.wait();
        assert_eq!(ear.poll_next(&mut watcher), Poll::Ready(Some(Event(expected))));
    }
}

/// If a watcher is stopped before the dispatcher reaches its registration, the watcher still has a
/// position.
#[test]
fn a_watcher_that_was_stopped_early_has_a_position() {
    let bus = with_history(100);
    let held = hold(&bus);
    let watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    watcher.stop();
    drop(held);
    bus.flush(LONG).unwrap();
    assert_eq!(watcher.position(), Some(0));
}

#[test]
fn a_flush_waits_for_the_past() {
    on_both(|options| {
        let bus = bus_with(options.history(10));
        publish(&bus, 1..=10);
        let (tx, rx) = mpsc::channel();
        let handle = bus
            .watch_builder()
            .queue_capacity(1)
            .start(Start::Oldest)
            .spawn(move |delivery: Delivery<&u64>| tx.send(delivery.event().copied()).unwrap())
            .unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(rx.try_iter().flatten().collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
        assert_eq!((handle.stats().offered, handle.stats().delivered), (10, 10));
    });
}

/// Watchers are registered and dropped at any time while two publishers publish. Each watcher
/// starts at the position where its predecessor stopped. Every event is received once or is part of
/// a gap.
#[test]
fn a_reader_that_reconnects_at_any_time_misses_nothing() {
    on_both(|options| {
        const EVENTS: u64 = if cfg!(miri) { 200 } else { 20_000 };
        let bus = bus_with(options.history(300).max_batch(16));
        // This watcher's queue holds all events, so the watcher knows the event at each position.
        let all = bus.watch_builder().queue_capacity(EVENTS as usize).watch().unwrap();
        let publishing: Vec<_> = (0..2)
            .map(|publisher| {
                let own = publisher * EVENTS..publisher * EVENTS + EVENTS / 2;
                let publisher = bus.publisher();
                thread::spawn(move || own.for_each(|event| publisher.publish(event).unwrap()))
            })
            .collect();
        let (mut position, mut received, mut lost, mut visits) = (0, Vec::new(), 0, 0);
        while position < EVENTS {
            let policy = [DropIncoming, DropOldest, Wait, Evict][visits % 4];
            let builder = bus.watch_builder().queue_capacity(1 + visits % 50).overflow(policy);
            let mut watcher = builder.start(Start::After(position)).watch().unwrap();
            for _ in 0..visits % 70 {
                if position == EVENTS {
                    break;
                }
                match watcher.recv_timeout(LONG) {
                    Ok(Event(event)) => {
                        position += 1;
                        received.push((position, event));
                    }
                    Ok(Lagged(count)) => (lost, position) = (lost + count, position + count),
                    Err(RecvTimeoutError::Ended) => break,
                    Err(RecvTimeoutError::Timeout) => panic!("no event follows position {position}"),
                }
                assert_eq!(watcher.position(), Some(position));
            }
            visits += 1;
        }
        for thread in publishing {
            thread.join().unwrap();
        }
        assert!(bus.shutdown().complete);
        assert_eq!(received.len() as u64 + lost, EVENTS);
        let all: Vec<_> = all.into_iter().map(|delivery| delivery.event().unwrap()).collect();
        for (position, event) in received {
            assert_eq!(event, all[position as usize - 1], "at position {position}");
        }
    });
}
