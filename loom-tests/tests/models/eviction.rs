//! Models of eviction. The dispatcher ends a watcher whose queue has no capacity for an event,
//! while other threads read, stop or drop the watcher, or end the bus.

use eventcast::bus::EndReason;
use eventcast::stats::WatcherStats;
use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{bus, explore, numbers, spawn};

/// Returns a bus whose dispatcher is asleep, and a watcher whose queue has a capacity of one and
/// contains event 1.
fn full() -> (Broadcaster<Payload>, Watcher<Payload>) {
    let bus = bus(2, 1, OverflowPolicy::Evict);
    let watcher = bus.watch().unwrap();
    bus.publisher().try_publish(Payload::new(1)).unwrap();
    rest(&bus);
    begin();
    (bus, watcher)
}

/// Asserts that each offered event is counted as delivered, lost or queued.
#[track_caller]
fn assert_balanced(stats: &WatcherStats) {
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued, "{stats}");
}

/// The dispatcher offers an event while the reader frees capacity. Either the event fits, or the
/// reader reaches the end after the queued events, and the reason and the count show the eviction.
fn eviction_against_a_reader() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full();
        let reading = spawn(move || {
            assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
            // The reader receives either event 2 or the end.
            let next = watcher.recv().ok();
            assert!(next.is_some() || watcher.end_reason() == Some(EndReason::Evicted));
            assert_eq!(watcher.stats().evictions, u64::from(next.is_none()));
            watcher
        });
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let watcher = reading.join().unwrap();
        finish();
        bus.shutdown();
        assert_balanced(&watcher.stats());
    });
}

/// A thread stops the watcher while the dispatcher evicts it. The watcher ends for one reason,
/// which does not change afterwards.
fn eviction_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full();
        let stop = watcher.handle();
        let stopping = spawn(move || stop.stop());
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let (events, lost) = numbers(&mut watcher);
        let reason = watcher.end_reason();
        stopping.join().unwrap();
        assert!(bus.shutdown().complete);
        finish();
        // The reader takes event 1, and also event 2 if it was queued before the stop.
        assert!(lost == 0 && (events == [1] || events == [1, 2]), "{events:?}");
        assert!(reason == Some(EndReason::Stopped) || reason == Some(EndReason::Evicted), "{reason:?}");
        let stats = watcher.stats();
        assert!(reason != Some(EndReason::Evicted) || stats.evictions == 1, "{stats}");
        assert_balanced(&stats);
    });
}

/// A thread drops the watcher while the dispatcher evicts it. Each event is dropped once and
/// counted once.
fn eviction_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher) = full();
        let dropping = spawn(move || drop(watcher));
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        assert!(bus.shutdown().complete);
        dropping.join().unwrap();
        finish();
        let departed = bus.stats().departed;
        assert_eq!((departed.delivered, departed.queued), (0, 0));
        assert_balanced(&departed);
    });
}

/// A shutdown starts while the dispatcher evicts the watcher. The shutdown completes, and the
/// watcher neither receives the event that does not fit nor counts it as lost.
fn eviction_against_shutdown() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full();
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let other = bus.clone();
        let ending = spawn(move || assert!(other.shutdown().complete));
        let (events, lost) = numbers(&mut watcher);
        ending.join().unwrap();
        finish();
        let evicted = watcher.end_reason() == Some(EndReason::Evicted);
        assert_eq!((events.len() as u64, lost), (2 - u64::from(evicted), 0));
        assert_eq!(watcher.stats().evictions, u64::from(evicted));
        assert_balanced(&watcher.stats());
        drop(bus);
    });
}

models!(
    eviction_against_a_reader,
    eviction_against_a_stop,
    eviction_against_a_drop,
    eviction_against_shutdown
);
