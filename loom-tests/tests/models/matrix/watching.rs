//! Rows whose operations register, stop, drop and read watchers, or flush the bus.

use eventcast::error::FlushError;
use eventcast::stats::ShutdownReport;
use eventcast::testing::{Payload, block_on, rest};
use eventcast::{OverflowPolicy, Watcher};
use eventcast_loom_tests::{numbers, select};

use super::row::{Bus, End, Row, SECOND, settled};

/// Checks that the registration was too late, or that the watcher sees only the end. The event that
/// filled the queue was published before the registration.
fn check_registered(watcher: Option<Watcher<Payload>>, _report: Option<&ShutdownReport>) {
    if let Some(mut watcher) = watcher {
        assert_eq!(numbers(&mut watcher), (vec![], 0));
        assert_eq!(watcher.stats().offered, 0);
    }
}

/// Registers a watcher after the event that fills the incoming queue.
pub(super) fn watch(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus| bus.watch().ok(),
        check: check_registered,
    }
    .against(end);
}

/// Drops a watcher as soon as it has been registered, or before it has been registered.
pub(super) fn a_registration_that_is_given_up(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus| drop(bus.watch()),
        check: |(), report| {
            if let Some(report) = report {
                assert_eq!(report.bus.watchers.len(), 0);
            }
        },
    }
    .against(end);
}

/// Publishes a gap after the event that fills the queue. Either the watcher receives the gap, or
/// the gap was published too late.
pub(super) fn publish_gap(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| (bus.clone(), bus.watch().unwrap()),
        act: |(bus, watcher)| (bus.publisher().publish_gap(3).is_ok(), watcher),
        check: |(published, mut watcher), report| {
            let gap = if published { 3 } else { 0 };
            assert!(report.is_none_or(|report| report.bus.missed == gap));
            // A shutdown that abandoned the bus has not waited for the dispatcher.
            if report.is_some_and(|report| report.complete) {
                assert_eq!(numbers(&mut watcher).1, gap);
            }
        },
    }
    .against(end);
}

/// Returns a watcher for which the dispatcher is about to wait. The watcher's queue contains one
/// event, and another event is about to be offered.
fn full_watcher(bus: &Bus) -> Watcher<Payload> {
    let watcher = bus.watch().unwrap();
    rest(bus);
    bus.publisher().try_publish(Payload::new(1)).unwrap();
    watcher
}

/// Checks that each offered event was read or counted as lost.
#[allow(clippy::needless_pass_by_value, reason = "as `Row::check` is called")]
fn check_books(mut watcher: Watcher<Payload>, _report: Option<&ShutdownReport>) {
    let (events, lost) = numbers(&mut watcher);
    let stats = settled(|| watcher.stats());
    assert!(stats.delivered >= events.len() as u64 && stats.queued == 0, "{stats:?}");
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total(), "{stats:?}");
    assert!(lost <= stats.dropped.total(), "{stats:?}");
}

/// Checks that the only watcher is no longer registered and that its counters add up. The watcher
/// no longer has a reader, so none of the watcher's events are counted as queued.
pub(super) fn check_departed(report: Option<&ShutdownReport>) {
    if let Some(report) = report.filter(|report| report.complete) {
        let departed = &report.bus.departed;
        assert!(report.bus.watchers.is_empty() && departed.queued == 0, "{:?}", report.bus);
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total(), "{departed:?}");
    }
}

pub(super) fn stop(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::Wait,
        set_up: full_watcher,
        act: |watcher| {
            watcher.stop();
            watcher
        },
        check: check_books,
    }
    .against(end);
}

pub(super) fn drop_of_a_watcher(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::Wait,
        set_up: full_watcher,
        act: drop,
        check: |(), report| check_departed(report),
    }
    .against(end);
}

/// A reader takes the only event, and then reaches the end.
pub(super) fn recv(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.watch().unwrap(),
        act: |mut watcher| {
            assert_eq!(numbers(&mut watcher), (vec![0], 0));
            watcher
        },
        check: check_books,
    }
    .against(end);
}

pub(super) fn recv_async(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.watch().unwrap(),
        act: |mut watcher| {
            let mut read = Vec::new();
            while let Ok(delivery) = block_on(watcher.recv_async()) {
                read.extend(delivery.event().map(|event| event.number()));
            }
            assert_eq!(read, [0]);
            watcher
        },
        check: check_books,
    }
    .against(end);
}

/// A reader in a `Select` takes the only event, and then reaches the end.
pub(super) fn a_select(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: |bus| bus.watch().unwrap(),
        act: |mut watcher| {
            let mut read = Vec::new();
            while let Some(delivery) = select(&mut watcher) {
                read.extend(delivery.event().map(|event| event.number()));
            }
            assert_eq!(read, [0]);
            watcher
        },
        check: check_books,
    }
    .against(end);
}

/// Checks that a flush completed, or that a shutdown abandoned the bus.
fn check_flushed(result: Result<(), FlushError>, report: Option<&ShutdownReport>) {
    match result {
        Ok(()) => {}
        Err(FlushError::Abandoned) => assert!(report.is_some_and(|report| !report.complete)),
        Err(error) => panic!("{error}"),
    }
}

pub(super) fn flush(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus| bus.flush(SECOND),
        check: check_flushed,
    }
    .against(end);
}

pub(super) fn flush_async(end: End) {
    Row {
        incoming: 1,
        is_full: true,
        policy: OverflowPolicy::DropIncoming,
        set_up: Clone::clone,
        act: |bus| block_on(bus.flush_async(SECOND)),
        check: check_flushed,
    }
    .against(end);
}
