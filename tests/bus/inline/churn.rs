//! Watchers and buses that are created and dropped on several threads while others publish.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use eventcast::Broadcaster;
use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::Evict;

use crate::support::{
    LONG, Live, Tracked, assert_balanced, assert_settled, inline, policies, waits, watched,
};

/// Two threads continuously register and drop watchers while another thread publishes. A permanent
/// watcher receives all events, and the other watchers leave no trace.
#[test]
fn registering_and_dropping_watchers_does_not_disturb_a_publisher() {
    const EVENTS: u64 = if cfg!(miri) { 50 } else { 5_000 };
    watched(|| {
        let live = Live::default();
        let bus = inline::<Tracked>(4);
        let mut stays = waits(&bus, EVENTS as usize).watch().unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            for first in 0..2 {
                let (bus, is_over) = (&bus, &is_over);
                scope.spawn(move || {
                    for policy in policies().into_iter().cycle().skip(first) {
                        if is_over.load(Ordering::SeqCst) {
                            return;
                        }
                        // A `Wait` watcher is dropped before the publisher has to wait long for it.
                        let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
                        let _ = watcher.try_recv();
                    }
                });
            }
            for number in 0..EVENTS {
                bus.publisher().publish(live.event(number)).unwrap();
            }
            is_over.store(true, Ordering::SeqCst);
        });
        assert_settled(&bus.stats(), EVENTS);
        assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (1, 1));
        assert!(bus.shutdown().complete);
        assert!(stays.events().map(|event| event.number).eq(0..EVENTS));
        drop(stays);
        assert_eq!(live.count(), 0);
        assert_balanced(&bus.stats());
    });
}

/// At about the same time, an event is published, a watcher is stopped or dropped, another watcher
/// is registered, and the bus is closed. Accepted events are received, and everything is freed.
#[test]
fn other_calls_may_run_at_the_same_time_as_the_close() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1_000 };
    watched(|| {
        for round in 0..ROUNDS {
            let live = Live::default();
            let bus = inline::<Tracked>(10);
            let mut stays = bus.watch().unwrap();
            let full = waits(&bus, 1).watch().unwrap();
            let publisher = bus.publisher();
            publisher.publish(live.event(0)).unwrap();
            let begin = Barrier::new(4);
            let accepted = thread::scope(|scope| {
                let publishing = scope.spawn(|| {
                    begin.wait();
                    (1..=2).filter(|number| publisher.publish(live.event(*number)).is_ok()).count()
                });
                scope.spawn(|| {
                    begin.wait();
                    if round % 2 == 0 { drop(full) } else { full.stop() }
                });
                scope.spawn(|| {
                    begin.wait();
                    drop(bus.watch_builder().overflow(Evict).watch());
                });
                begin.wait();
                bus.close();
                publishing.join().unwrap()
            });
            assert!(bus.shutdown().complete);
            assert_eq!(stays.events().count(), 1 + accepted);
            assert_settled(&bus.stats(), 1 + accepted as u64);
            drop((stays, bus));
            assert_eq!(live.count(), 0, "round {round}");
        }
    });
}

/// Buses that are created, used and dropped on several threads. Some end when their last handle is
/// dropped, and some by a shutdown.
#[test]
fn buses_are_created_and_dropped_on_several_threads() {
    const BUSES: u64 = if cfg!(miri) { 20 } else { 1_000 };
    watched(|| {
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for number in 0..BUSES {
                        let bus: Broadcaster<u64> = Broadcaster::new_inline();
                        let mut watcher = bus.watch().unwrap();
                        bus.publisher().publish(number).unwrap();
                        assert_eq!(watcher.try_recv(), Ok(Event(number)));
                        if number % 2 == 0 {
                            assert!(bus.shutdown_timeout(LONG).complete);
                        }
                        drop(bus);
                        assert!(watcher.recv().is_err());
                    }
                });
            }
        });
    });
}
