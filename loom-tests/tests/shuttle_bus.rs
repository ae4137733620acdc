//! The whole bus with more threads and longer programs than loom can take.
#![cfg(eventcast_shuttle)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use eventcast::{
    Broadcaster, BusOptions, Delivery, FakeClock, OverflowPolicy, PublishError, Publisher, WatcherStats,
};
use eventcast_loom_tests::{Ident, Log, schedules, small_bus};
use shuttle::thread::{self, JoinHandle};

const NEVER: Duration = Duration::MAX;

/// Publishes in all ways; what was accepted, in its order.
fn publish_all(publisher: &Publisher<Ident>, who: u32, count: u32) -> Vec<Ident> {
    let mut accepted = Vec::new();
    let mut number = 0;
    while number < count {
        let event = Ident { publisher: who, number };
        let batch = [
            event,
            Ident { publisher: who, number: number + 1 },
            Ident { publisher: who, number: number + 2 },
        ];
        match (number + who) % 3 {
            0 => match publisher.try_publish(event) {
                Ok(()) => accepted.push(event),
                Err(error) => assert_eq!(error.into_inner(), event),
            },
            1 => match publisher.publish(event) {
                Ok(()) => accepted.push(event),
                Err(PublishError::Stopped(back)) => assert_eq!(back, event),
                Err(error) => panic!("{error}"),
            },
            _ => {
                let back = publisher
                    .publish_batch(batch.to_vec())
                    .map_or_else(PublishError::into_inner, |()| vec![]);
                accepted.extend(&batch[..batch.len() - back.len()]);
                assert_eq!(&batch[batch.len() - back.len()..], back);
                number += 2;
            }
        }
        number += 1;
    }
    accepted
}

fn publishers(bus: &Broadcaster<Ident>, count: u32, events: u32) -> Vec<JoinHandle<Vec<Ident>>> {
    let spawn = |who| {
        let publisher = bus.publisher();
        thread::spawn(move || publish_all(&publisher, who, events))
    };
    (0..count).map(spawn).collect()
}

/// All that was accepted came once, and that of each publisher in its order.
fn assert_one_order_of(order: &[Ident], accepted: &[Vec<Ident>]) {
    let mut by_publisher: HashMap<u32, Vec<Ident>> = HashMap::new();
    order.iter().for_each(|event| by_publisher.entry(event.publisher).or_default().push(*event));
    for (who, events) in accepted.iter().enumerate() {
        let got = by_publisher.remove(&u32::try_from(who).expect("few")).unwrap_or_default();
        assert_eq!(&got, events, "of publisher {who}");
    }
    assert!(by_publisher.is_empty());
}

fn assert_balanced(stats: &WatcherStats) {
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued, "{stats:?}");
}

/// Three publishers, a reader of each policy, a handler, a flush, and a shutdown at the same time as all of them: what
/// was accepted reaches the one who waits for all, and each gap of the others stands where it was.
#[test]
fn everything_at_once() {
    schedules(600, || {
        let bus = small_bus(2, 2, 3);
        let policies = [OverflowPolicy::Wait, OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest];
        let readers: Vec<_> = policies
            .iter()
            .map(|policy| {
                let mut watcher = bus.watch_builder().overflow(*policy).watch().expect("open");
                thread::spawn(move || {
                    let log = Log::read(&mut watcher);
                    (log, watcher.stats())
                })
            })
            .collect();
        let (tx, handled) = std::sync::mpsc::channel();
        bus.watch_builder()
            .overflow(OverflowPolicy::Wait)
            .spawn(move |delivery| {
                if let Delivery::Event(event) = delivery {
                    let _ = tx.send(*event);
                }
            })
            .expect("open");
        let publishing = publishers(&bus, 3, 6);
        assert_eq!(bus.flush(NEVER), Ok(()));
        let report = bus.shutdown();
        assert!(report.complete);
        let accepted: Vec<_> =
            publishing.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let mut logs = readers.into_iter().map(|thread| thread.join().expect("no panic"));
        let (all, stats) = logs.next().expect("three");
        assert_balanced(&stats);
        let order = all.events();
        assert_one_order_of(&order, &accepted);
        assert_eq!(report.bus.accepted, order.len() as u64);
        assert_eq!(handled.try_iter().collect::<Vec<_>>(), order);
        for (log, stats) in logs {
            log.assert_explained_by(&order);
            assert_balanced(&stats);
            assert_eq!((stats.offered, stats.dropped.total()), (order.len() as u64, log.lagged()));
        }
    });
}

/// Four publishers wait for the one slot of a bus whose reader is slow: each gets its turn.
#[test]
fn publishers_that_wait_for_room_all_get_it() {
    schedules(600, || {
        let bus = small_bus(1, 1, 1);
        let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().expect("open");
        let publish = |who| {
            let publisher = bus.publisher();
            thread::spawn(move || {
                (0..4).for_each(|number| publisher.publish(Ident { publisher: who, number }).expect("open"))
            })
        };
        let publishing: Vec<_> = (0..4).map(publish).collect();
        let order: Vec<_> = (0..16).filter_map(|_| watcher.recv().expect("open").event()).collect();
        publishing.into_iter().for_each(|thread| thread.join().expect("no panic"));
        let all = |who| (0..4).map(|number| Ident { publisher: who, number }).collect();
        assert_one_order_of(&order, &[all(0), all(1), all(2), all(3)]);
        assert!(bus.shutdown().complete);
    });
}

/// A queue of twelve, whose slices hold several events: a reader that stops reading in the middle of one, with room
/// behind it, keeps nobody waiting.
#[test]
fn room_in_the_middle_of_a_slice_is_found() {
    schedules(400, || {
        let bus = small_bus(4, 12, 8);
        let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().expect("open");
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || {
            let event = |number| Ident { publisher: 0, number };
            for batch in [0..8, 8..13] {
                publisher.publish_batch(batch.map(event).collect()).expect("open");
            }
        });
        assert!(watcher.recv().expect("open").event().is_some());
        publishing.join().expect("no panic");
        // Thirteen less one fit.
        assert_eq!(bus.flush(NEVER), Ok(()));
        assert_eq!(watcher.stats().queued, 12);
        drop(watcher);
        assert!(bus.shutdown().complete);
    });
}

/// Watchers come, read a little, stop, and go on three threads while another publishes and one waits for a flush:
/// nothing of them is left.
#[test]
fn watchers_that_come_and_go_leave_nothing() {
    schedules(400, || {
        let bus = Arc::new(small_bus(2, 2, 2));
        let policies = [OverflowPolicy::Wait, OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest];
        let coming: Vec<_> = policies
            .into_iter()
            .map(|policy| {
                let bus = bus.clone();
                thread::spawn(move || {
                    for round in 0..3 {
                        let mut watcher = bus.watch_builder().overflow(policy).watch().expect("open");
                        let _ = watcher.try_recv();
                        if round == 1 {
                            watcher.stop_handle().stop();
                            while watcher.recv().is_ok() {}
                        }
                    }
                })
            })
            .collect();
        let publishing = publishers(&bus, 2, 5);
        let flushing = bus.clone();
        let flushing = thread::spawn(move || assert_eq!(flushing.flush(NEVER), Ok(())));
        coming.into_iter().for_each(|thread| thread.join().expect("no panic"));
        flushing.join().expect("no panic");
        publishing.into_iter().for_each(|thread| drop(thread.join().expect("no panic")));
        let stats = bus.shutdown().bus;
        assert!(bus.stats().watchers.is_empty(), "{stats:?}");
        assert_balanced(&bus.stats().departed);
    });
}

/// Time passes on one thread while others publish to readers that are waited for, for a while: who waits is woken by
/// the reader or by the clock, and a shutdown by deadline ends it all.
#[test]
fn waiting_for_a_while() {
    schedules(400, || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let second = Duration::from_secs(1);
        let bus = Broadcaster::with_clock(BusOptions::default().incoming_len(2).max_batch(2), clock.clock());
        let bus = bus.expect("the options are in range");
        let builder = || bus.watch_builder().queue_len(2).overflow(OverflowPolicy::WaitFor(second));
        let mut read = builder().watch().expect("open");
        let unread = builder().watch().expect("open");
        let reading = thread::spawn(move || {
            let log = Log::read(&mut read);
            (log, read.stats())
        });
        let publishing = publishers(&bus, 2, 4);
        let ticking = thread::spawn(move || (0..12).for_each(|_| clock.advance(second)));
        ticking.join().expect("no panic");
        // Of what is still waited for, time will not tell.
        bus.shutdown_timeout(Duration::ZERO);
        publishing.into_iter().for_each(|thread| drop(thread.join().expect("no panic")));
        let (log, stats) = reading.join().expect("no panic");
        assert_balanced(&stats);
        assert_eq!(stats.dropped.total(), log.lagged());
        let left = unread.stats();
        drop(unread);
        assert!(left.delivered == 0 && left.high_water <= 2, "{left:?}");
    });
}

/// Four publishers of one event each against a close: what was accepted is delivered, what was not comes back.
#[test]
fn publishers_against_a_close() {
    schedules(3000, || {
        let bus = small_bus(2, 4, 2);
        let mut watcher = bus.watch().expect("open");
        let publish = |who| {
            let publisher = bus.publisher();
            thread::spawn(move || publisher.try_publish(Ident { publisher: who, number: 0 }).is_ok())
        };
        let publishing: Vec<_> = (0..4).map(publish).collect();
        bus.close();
        let log = Log::read(&mut watcher);
        let accepted = publishing
            .into_iter()
            .filter_map(|thread| thread.join().ok())
            .filter(|accepted| *accepted)
            .count();
        assert_eq!((log.events().len(), log.lagged()), (accepted, 0));
        assert_eq!(bus.shutdown().bus.accepted, accepted as u64);
    });
}
