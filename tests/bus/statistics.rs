//! The statistics of each watcher: its lag, and what happened to the events that it was offered.

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait};
use eventcast::bus::Start;
use eventcast::stats::{BusStats, DropCounts, DropReason};

use crate::support::{LONG, assert_balanced, available, bus, bus_with, hold, on_both, until};

/// If an event waits for capacity, it counts as lag, but it is not in the queue.
#[test]
fn lag_is_what_is_queued_and_what_waits_for_capacity() {
    let bus = bus(100, 10);
    let held = hold(&bus);
    let mut stats = held.watcher.stats();
    // The dispatcher updates its counters after it has offered events, and may not have updated
    // them yet.
    until(|| {
        stats = held.watcher.stats();
        stats.queued > 0 && stats.offered == 2
    });
    assert_eq!((stats.offered, stats.queued, stats.lag, held.watcher.len()), (2, 1, 2, 1), "{stats}");
    let mut watcher = held.watcher;
    watcher.recv().unwrap();
    watcher.recv().unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!((watcher.stats().queued, watcher.stats().lag), (0, 0));
}

/// A lost or filtered event does not count as lag, but an event that the reader has borrowed does.
#[test]
fn on_a_quiet_bus_lag_is_what_is_queued() {
    let bus = bus(100, 5);
    let mut full = bus.watch().unwrap();
    let mut odd = bus.watch_builder().queue_capacity(100).filter(|n: &u64| n % 2 == 1).watch().unwrap();
    bus.publisher().publish_batch(0..20_u64).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!((full.stats().queued, full.stats().lag), (5, 5));
    assert_eq!((odd.stats().queued, odd.stats().lag), (10, 10));
    assert_eq!(full.recv_batch().unwrap().len(), 5);
    assert_eq!((full.stats().delivered, full.stats().lag), (0, 5), "the reader has borrowed them");
    odd.recv().unwrap();
    assert_eq!((odd.stats().delivered, odd.stats().lag), (1, 9));
    // The next receive ends the borrow and returns the gap.
    assert_eq!(full.recv().unwrap(), Lagged(15));
    assert_eq!((full.stats().delivered, full.stats().lag), (5, 0));
}

/// A departed watcher has no lag. Neither the totals of all departed watchers nor the totals of all
/// watchers with the same name have a policy, because the watchers may have different policies.
#[test]
fn departed_watchers_add_up() {
    let bus = bus(100, 3);
    for policy in [DropIncoming, DropOldest, Wait] {
        let mut watcher = bus.watch_builder().name("view").overflow(policy).watch().unwrap();
        bus.publisher().publish_batch(vec![1_u64, 2, 3]).unwrap();
        assert!(watcher.recv().is_ok());
        bus.flush(LONG).unwrap();
    }
    // The dispatcher reaps a dropped watcher only when it reaches that watcher.
    until(|| bus.stats().watchers.is_empty());
    let stats = bus.stats();
    assert_balanced(&stats);
    let departed = &stats.departed;
    assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (9, 3, 6));
    assert_eq!((departed.queued, departed.lag, departed.policy), (0, 0, None));
    let sum = &stats.departed_by_name[0];
    assert_eq!((sum.name.as_str(), sum.policy, sum.offered), ("view", None, 9));
    assert!(sum.to_string().starts_with("view: offered 9, "), "{sum}");
    let text = stats.to_string();
    assert!(
        text.ends_with("; departed: offered 9, delivered 3, dropped 6 (stopped 6), queued 0, lag 0"),
        "{text}"
    );
}

/// A dropped watcher has departed, even while the dispatcher is busy elsewhere and cannot close its
/// mailbox. After a flush, the dropped watcher's counters are final.
#[test]
fn a_dropped_watcher_has_departed_immediately() {
    let bus = bus(100, 1);
    let mut held = hold(&bus);
    let names = |stats: BusStats| stats.watchers.into_iter().map(|watcher| watcher.name).collect::<Vec<_>>();
    for count in 1..=3 {
        drop(bus.watch_builder().name("client").watch().unwrap());
        assert_eq!(names(bus.stats()), ["held"]);
        assert_eq!((bus.watcher_count(), bus.stats().departed_by_name.len()), (1, 1), "{count}");
    }
    assert_eq!(held.watcher.events().take(2).count(), 2);
    bus.flush(LONG).unwrap();
    let stats = bus.stats();
    assert_eq!((stats.departed_by_name[0].name.as_str(), stats.departed_by_name[0].queued), ("client", 0));
    assert_eq!(names(stats), ["held"]);
}

/// If the bus refused a watcher, the watcher never existed, so it is neither listed nor counted as
/// departed.
#[test]
fn a_refused_watcher_has_not_departed() {
    let bus = bus::<u64>(1, 1);
    let refusals = |stats: &eventcast::stats::BusStats| {
        assert_eq!((stats.watchers.len(), stats.departed_by_name.len()), (0, 0), "{stats}");
        assert_eq!(stats.departed.offered, 0);
    };
    bus.close();
    assert!(bus.watch_builder().name("late").watch().is_err());
    assert!(bus.watch_builder().name("late").spawn(|_| ()).is_err());
    assert!(bus.watch_builder().name("late").watch().is_err());
    refusals(&bus.stats());
    assert_eq!(bus.watcher_count(), 0);
    let report = bus.shutdown();
    assert!(report.complete);
    refusals(&report.bus);
}

#[test]
fn events_without_a_watcher_are_unheard() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let publisher = bus.publisher();
        let unheard = || {
            bus.flush(LONG).unwrap();
            bus.stats().unheard
        };
        publisher.publish_batch([1, 2]).unwrap();
        assert_eq!(unheard(), 2);
        // An event that the filter refuses had a watcher. So has an event that does not fit.
        let picky = bus.watch_builder().filter(|_| false).queue_capacity(1).watch().unwrap();
        publisher.publish_batch([3, 4]).unwrap();
        publisher.publish_gap(5).unwrap();
        assert_eq!(unheard(), 2);
        drop(picky);
        assert_eq!(unheard(), 2);
        publisher.publish(5).unwrap();
        assert_eq!(unheard(), 3);
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.missed), (5, 5));
        assert!(stats.to_string().ends_with("closed 0), missed 5, unheard 3"), "{stats}");
        bus.close();
        assert!(publisher.publish(6).is_err());
        assert_eq!(bus.shutdown().bus.unheard, 3, "a refused event was not accepted");
    });
}

/// An event in the history counts as well, although a later watcher receives it.
#[test]
fn events_that_only_the_history_keeps_are_unheard() {
    on_both(|options| {
        let bus = bus_with::<u64>(options.history(1));
        bus.publisher().publish_batch([1, 2]).unwrap();
        let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        bus.publisher().publish(3).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!((bus.stats().unheard, available(&mut watcher)), (2, vec![Event(2), Event(3)]));
    });
}

#[test]
fn losses_are_shown_by_reason() {
    let mut dropped = DropCounts::default();
    assert_eq!((dropped.to_string(), dropped.by_reason().count()), ("0".to_owned(), 6));
    (dropped.oldest, dropped.timed_out, dropped.abandoned) = (3, 2, 1);
    assert_eq!(dropped.to_string(), "6 (oldest 3, timed out 2, abandoned 1)");
    let lost: Vec<_> = dropped.by_reason().filter(|(_, events)| *events > 0).collect();
    let expected = [(DropReason::Oldest, 3), (DropReason::TimedOut, 2), (DropReason::Abandoned, 1)];
    assert_eq!(lost, expected);
    assert_eq!(dropped.by_reason().map(|(_, events)| events).sum::<u64>(), dropped.total());
    dropped.incoming = u64::MAX;
    assert_eq!(dropped.total(), u64::MAX, "deserialised counts may have any value");
}

#[test]
fn statistics_are_written_on_one_line() {
    let bus = bus(100, 2);
    let watcher = bus.watch_builder().name("view").overflow(DropOldest).watch().unwrap();
    bus.publisher().publish_batch(vec![1_u64, 2, 3]).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(
        bus.stats().to_string(),
        "published 3, accepted 3, rejected 0 (full 0, closed 0); \
         view (drop_oldest): offered 3, delivered 0, dropped 1 (oldest 1), queued 2, lag 2"
    );
    assert_eq!(
        format!("{:#}", bus.stats()),
        "published 3, accepted 3, rejected 0 (full 0, closed 0)\n  \
         view (drop_oldest): offered 3, delivered 0, dropped 1 (oldest 1), queued 2, lag 2"
    );
    let report = bus.shutdown();
    assert_eq!(format!("{report:#}"), format!("complete: {:#}", bus.stats()));
    drop(watcher);
}

#[cfg(feature = "serde")]
#[test]
fn statistics_are_plain_data() {
    use std::time::Duration;

    use eventcast::OverflowPolicy::WaitFor;
    use eventcast::stats::WatcherStats;

    let bus = bus(100, 2);
    let policy = WaitFor(Duration::from_millis(50));
    let _watcher = bus.watch_builder().name("view").overflow(policy).watch().unwrap();
    bus.publisher().publish_batch(vec![1_u64, 2]).unwrap();
    bus.flush(LONG).unwrap();
    let stats = bus.stats();
    let json = serde_json::to_value(&stats).unwrap();
    let view = &json["watchers"][0];
    assert_eq!((&view["policy"]["wait_for"], &view["lag"]), (&"50ms".into(), &2.into()), "{json}");
    assert_eq!(serde_json::from_value::<BusStats>(json).unwrap(), stats);
    // Statistics written by an older version can be read. A field that the older version did not
    // have gets its default value.
    let older: WatcherStats = serde_json::from_str(r#"{"name": "view", "offered": 3}"#).unwrap();
    assert_eq!((older.name.as_str(), older.offered, older.lag), ("view", 3, 0));
    // An older version wrote a policy in the totals, which no longer have a policy.
    let sum = r#"{"departed": {"name": "departed", "policy": "drop_incoming", "offered": 3}}"#;
    assert_eq!(serde_json::from_str::<BusStats>(sum).unwrap().departed.offered, 3);
    assert!(serde_json::to_value(BusStats::default()).unwrap()["departed"]["policy"].is_null());
}

#[cfg(feature = "recorder")]
#[test]
fn a_recording_shows_what_its_correlator_evicted() {
    let mut stats = eventcast::stats::RecordingStats::default();
    assert!(!stats.to_string().contains("evicted"));
    stats.evicted = 7;
    assert!(stats.to_string().ends_with(", evicted 7"), "{stats}");
}
