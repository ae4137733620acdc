//! The order of the bus: every operation reaches the sink, one after the other, and one that fails
//! holds up those behind it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use eventcast::sink::{SinkErrorKind, WriteOrder};
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, EventBroadcaster, RetryPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, gate, record, until};

use super::{PAUSE, calls_of, without_budget};

const WRITTEN: [&str; 6] =
    ["create A x1", "create B x1", "create C x1", "patch B x2", "patch A x2", "create D x1"];

/// Records six events of four keys.
fn record_all(events: &EventBroadcaster) {
    for reason in ["A", "B", "C", "B", "A", "D"] {
        record(events, "web-0", reason);
    }
}

/// Returns a broadcaster whose events get two attempts, ten seconds apart.
fn with_two_attempts(clock: &FakeClock) -> EventBroadcaster {
    let policy = RetryPolicy::default().jitter(eventcast::record::Jitter::Never).attempts(2);
    let bus = BusOptions::default();
    EventBroadcaster::builder().clock(clock.clock()).bus(bus).retry(policy).build().unwrap()
}

#[test]
fn an_operation_that_fails_holds_up_all_behind_it() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let (sink, calls) = Scripted::new(&clock, |number, _| match number {
        1 => Err(SinkError::retry("busy")),
        4 => Err(SinkError::retry("busy").with_retry_after(Duration::from_secs(30))),
        _ => Ok(()),
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record_all(&events);
    for (done, pause) in [(2, PAUSE), (5, Duration::from_secs(30))] {
        until(|| sink.calls().len() == done && recording.stats().watcher.offered == 6);
        clock.wait_for_waiters(1);
        clock.advance(pause.saturating_sub(Duration::from_millis(1)));
        assert_eq!(sink.calls().len(), done, "nothing overtakes the one that failed");
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    let mut expected = WRITTEN.to_vec();
    // The second and the fourth operation are tried twice.
    expected.insert(3, "patch B x2");
    expected.insert(1, "create B x1");
    assert_eq!(calls_of(&sink), expected);
    assert_eq!(calls.try_iter().count(), 8);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.retried), (4, 2, 2));
    assert_eq!((stats.written(), stats.coalesced), (6, 0));
}

#[test]
fn an_operation_that_is_given_up_holds_up_nothing() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, op| match &*event_of(op).reason {
        "A" => Err(SinkError::rejected("no")),
        "B" => panic!("a sink that panics"),
        _ => Ok(()),
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record_all(&events);
    events.flush(LONG).unwrap();
    assert_eq!(calls_of(&sink), WRITTEN);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 4, 2));
}

/// The changes of an event that wait behind its creation get its new name, and no others do.
#[test]
fn a_new_name_is_that_of_the_changes_behind_it_too() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number > 0 {
            return Ok(());
        }
        pass();
        Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken"))
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    gate.entered.recv_timeout(LONG).unwrap();
    for reason in ["B", "A", "B", "A", "A"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 6);
    drop(gate);
    events.flush(LONG).unwrap();
    let expected =
        ["create A x1", "create A x1", "create B x1", "patch A x2", "patch B x2", "patch A x3", "patch A x4"];
    assert_eq!(calls_of(&sink), expected);
    let calls = sink.calls();
    let name = |call: usize| event_of(&calls[call]).metadata.name.clone();
    assert_ne!(name(1), name(0));
    assert_eq!([3, 5, 6].map(name), [1, 1, 1].map(name));
    assert_eq!(name(4), name(2));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.recreated), (2, 4, 0));
}

/// While the store is away, the first operation is the probe, each time, and keeps its attempts.
#[test]
fn the_order_survives_a_store_that_is_away() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let failures = AtomicUsize::new(0);
    let (sink, calls) = Scripted::new(&clock, move |number, _| {
        let is_away = number > 0 && failures.fetch_add(1, Ordering::SeqCst) < 5;
        if is_away { Err(SinkError::new(SinkErrorKind::Unavailable, "no connection")) } else { Ok(()) }
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "First");
    events.flush(LONG).unwrap();
    calls.recv_timeout(LONG).unwrap();
    record_all(&events);
    for _ in 0..5 {
        calls.recv_timeout(LONG).unwrap();
        until(|| recording.stats().watcher.offered == 7 && recording.stats().unavailable_since.is_some());
        clock.wait_for_waiters(1);
        clock.advance(PAUSE);
    }
    events.flush(LONG).unwrap();
    let expected = [&["create First x1"], &[WRITTEN[0]; 5][..], &WRITTEN].concat();
    assert_eq!(calls_of(&sink), expected);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.written(), stats.exhausted, stats.unavailable_since), (7, 0, None));
}
