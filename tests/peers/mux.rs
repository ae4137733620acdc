//! apimachinery: `pkg/watch/mux_test.go`, `filter_test.go` and `watch_test.go`.

use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;

use eventcast::error::{PublishError, WatchError};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};

use crate::kinds::{Kind, on_both_kinds};
use crate::support::LONG;

/// Returns a bus like the one that `NewBroadcaster` creates, with an incoming queue of 25.
///
/// Difference: a queue cannot have a capacity of zero here. Such a queue would mean a rendezvous
/// for each event. A queue with a capacity of one is used instead. An inline bus has no incoming
/// queue.
fn bus<T: Clone + Send + Sync + 'static>(
    kind: Kind,
    queue_capacity: usize,
    overflow: OverflowPolicy,
) -> Broadcaster<T> {
    let options = kind.options().incoming_capacity(25).queue_capacity(queue_capacity).overflow(overflow);
    Broadcaster::with_options(options).unwrap()
}

fn all<T: Clone + Send + Sync + 'static>(watcher: Watcher<T>) -> Vec<Delivery<T>> {
    watcher.into_iter().collect()
}

/// `TestBroadcaster`.
#[test]
fn two_watchers_receive_all_events_in_order() {
    on_both_kinds(|kind| {
        let events = [("added", "foo"), ("added", "bar"), ("modified", "foo"), ("deleted", "bar")];
        let bus = bus(kind, 1, OverflowPolicy::Wait);
        let read = |watcher| thread::spawn(move || all(watcher));
        let readers = [read(bus.watch().unwrap()), read(bus.watch().unwrap())];
        for event in events {
            bus.publisher().publish(event).unwrap();
        }
        bus.shutdown();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), events.map(Delivery::Event));
        }
    });
}

/// `TestBroadcasterWatcherClose`.
#[test]
fn a_stop_and_a_shutdown_end_a_watcher_and_may_be_repeated() {
    on_both_kinds(|kind| {
        let bus = bus::<u8>(kind, 1, OverflowPolicy::Wait);
        let (mut stopped, mut other) = (bus.watch().unwrap(), bus.watch().unwrap());
        stopped.stop();
        bus.shutdown();
        assert!(stopped.recv().is_err());
        assert!(other.recv().is_err());
        for watcher in [&stopped, &other, &stopped] {
            watcher.stop();
        }
    });
}

/// `TestBroadcasterWatcherStopDeadlock`.
#[test]
fn the_first_of_two_watchers_to_receive_may_stop_the_other() {
    on_both_kinds(|kind| {
        for _ in 0..100 {
            let bus = bus::<u8>(kind, 1, OverflowPolicy::Wait);
            let (one, other) = (bus.watch().unwrap(), bus.watch().unwrap());
            let stops = [other.handle(), one.handle()];
            let readers = [one, other].into_iter().zip(stops).map(|(mut watcher, stop)| {
                thread::spawn(move || {
                    if watcher.recv().is_ok() {
                        stop.stop();
                    }
                })
            });
            let readers: Vec<_> = readers.collect();
            bus.publisher().publish(1).unwrap();
            bus.shutdown();
            for reader in readers {
                reader.join().unwrap();
            }
        }
    });
}

/// `TestBroadcasterWatcherStopDeadlock`, with a queue that is actually full.
#[test]
fn stopping_a_full_watcher_releases_the_bus() {
    on_both_kinds(|kind| {
        let bus = bus::<u8>(kind, 1, OverflowPolicy::Wait);
        let (offering, offered) = mpsc::channel();
        let offering = Mutex::new(offering);
        let mut reads = bus.watch().unwrap();
        let filter = move |event: &u8| offering.lock().unwrap().send(*event).is_ok();
        let full = bus.watch_builder().filter(filter).watch().unwrap();
        // On an inline bus, the publisher itself waits for `full`.
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || (1..=3).for_each(|event| publisher.publish(event).unwrap()));
        assert_eq!(reads.recv_timeout(LONG).unwrap(), Delivery::Event(1));
        // There is no space for the second event in the queue of `full`.
        assert_eq!([offered.recv_timeout(LONG), offered.recv_timeout(LONG)], [Ok(1), Ok(2)]);
        full.stop();
        assert_eq!(reads.recv_timeout(LONG).unwrap(), Delivery::Event(2));
        assert_eq!(reads.recv_timeout(LONG).unwrap(), Delivery::Event(3));
        publishing.join().unwrap();
    });
}

/// `TestBroadcasterDropIfChannelFull`.
#[test]
fn a_full_queue_keeps_the_first_event_and_reports_the_loss() {
    on_both_kinds(|kind| {
        let bus = bus(kind, 1, OverflowPolicy::DropIncoming);
        let (watcher, mut plain) = (bus.watch().unwrap(), bus.watch().unwrap());
        for event in ["event1", "event2"] {
            bus.publisher().publish(event).unwrap();
        }
        bus.shutdown();
        // Difference: Go drops the event silently. Here a gap is delivered where the event was
        // lost.
        assert_eq!(all(watcher), [Delivery::Event("event1"), Delivery::Lagged(1)]);
        assert_eq!(plain.events().collect::<Vec<_>>(), ["event1"]);
    });
}

/// `TestBroadcasterWatchAfterShutdown`, with and without a prefix, and
/// `TestBroadcasterSendEventAfterShutdown`.
#[test]
fn a_watch_and_a_publish_after_the_shutdown_are_errors() {
    on_both_kinds(|kind| {
        let bus = bus(kind, 1, OverflowPolicy::DropIncoming);
        let _watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
        let publisher = bus.publisher();
        bus.shutdown();
        let prefixed = bus.watch_builder().prefix(["event1", "event2"]).watch();
        for result in [bus.watch(), prefixed] {
            assert!(matches!(result.unwrap_err(), WatchError::Closed));
        }
        assert_eq!(publisher.publish("late"), Err(PublishError::Closed("late")));
        assert_eq!(publisher.try_publish("late"), Err(PublishError::Closed("late")));
        assert_eq!(bus.stats().rejected_closed, 2);
    });
}

/// `WatchWithPrefix`, as its documentation promises.
#[test]
fn a_prefix_longer_than_the_queue_is_delivered_first() {
    on_both_kinds(|kind| {
        let bus = bus(kind, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch_builder().prefix([1, 2, 3]).watch().unwrap();
        bus.publisher().publish(4).unwrap();
        bus.shutdown();
        assert_eq!(all(watcher), [1, 2, 3, 4].map(Delivery::Event));
    });
}

/// `TestBroadcasterShutdownRace`, plus a check of the counters, which Go does not have.
#[test]
fn watchers_that_stop_during_a_shutdown_are_accounted_for() {
    on_both_kinds(|kind| {
        for _ in 0..200 {
            let bus = bus(kind, 1, OverflowPolicy::Wait);
            let watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
            let begin = Arc::new(Barrier::new(3));
            let stops = watchers.each_ref().map(|watcher| {
                let (stop, begin) = (watcher.handle(), begin.clone());
                thread::spawn(move || {
                    begin.wait();
                    stop.stop();
                })
            });
            bus.publisher().publish(1).unwrap();
            begin.wait();
            bus.shutdown();
            for stop in stops {
                stop.join().unwrap();
            }
            for watcher in watchers {
                let stats = watcher.stats();
                assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued, "{stats}");
            }
            assert_eq!(bus.stats().accepted, 1);
        }
    });
}

const WORDS: [&str; 5] = ["foo", "bar", "baz", "qux", "zoo"];

fn without_b(word: &&str) -> bool {
    !word.starts_with('b')
}

/// `TestFilter`, and `TestRecorder`, which collects the events that pass through it.
#[test]
fn a_filter_passes_on_what_it_accepts() {
    on_both_kinds(|kind| {
        let bus = bus(kind, 10, OverflowPolicy::Wait);
        let mut everything = bus.watch().unwrap();
        let mut filtered = bus.watch_builder().filter(without_b).watch().unwrap();
        for word in WORDS {
            bus.publisher().publish(word).unwrap();
        }
        bus.close();
        assert_eq!(filtered.events().collect::<Vec<_>>(), ["foo", "qux", "zoo"]);
        assert_eq!(everything.events().collect::<Vec<_>>(), WORDS);
    });
}

/// `TestFilterStop`.
#[test]
fn a_stopped_watcher_with_a_filter_keeps_what_is_queued() {
    on_both_kinds(|kind| {
        let bus = bus(kind, 10, OverflowPolicy::Wait);
        let mut watcher = bus.watch_builder().filter(without_b).watch().unwrap();
        bus.publisher().publish("foo").unwrap();
        bus.flush(LONG).unwrap();
        watcher.stop();
        assert_eq!(watcher.events().collect::<Vec<_>>(), ["foo"]);
    });
}
