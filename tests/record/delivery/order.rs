//! The order of writes, which is either per key or the bus order. In bus order every operation
//! reaches the sink, and a failing operation delays the operations after it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use eventcast::sink::{SinkErrorKind, WriteOrder};
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, EventBroadcaster, SinkError};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, away, clock, clocked, every_ten_seconds, gate, record, until,
};

use super::{PAUSE, reason_of, with_policy, without_budget};

/// Records events, some of them more than once, while the sink is busy. Returns the reasons in the
/// order in which the sink receives them. `queued` is the number of events that use capacity at
/// that point.
fn written_behind_a_call(order: WriteOrder, queued: u64) -> Vec<String> {
    let clock = clock();
    let events = with_policy(&clock, at_once());
    let (gate, sink) = Scripted::gated(&clock, 0..=0);
    let builder = events.recording().correlator(without_budget()).order(order);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "First");
    gate.wait();
    for reason in ["B", "A", "B", "B", "C", "A", "D", "D", "E"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.offered == 10 && recording.stats().watcher.lag == queued);
    drop(gate);
    events.flush(LONG).unwrap();
    assert_balanced(&recording.stats());
    assert_eq!(sink.store.events().iter().map(|event| event.count).sum::<i32>(), 10);
    sink.calls()[1..].iter().map(reason_of).collect()
}

#[test]
fn keys_go_out_in_the_order_in_which_they_became_pending() {
    // A repeat does not use any capacity.
    assert_eq!(written_behind_a_call(WriteOrder::PerKey, 6), ["B", "A", "C", "D", "E"]);
    // In bus order, every event is written.
    let written = written_behind_a_call(WriteOrder::Bus, 10);
    assert_eq!(written, ["B", "A", "B", "B", "C", "A", "D", "D", "E"]);
}

const WRITTEN: [&str; 6] =
    ["create A x1", "create B x1", "create C x1", "patch B x2", "patch A x2", "create D x1"];

/// Records six events with four different keys.
fn record_all(events: &EventBroadcaster) {
    for reason in ["A", "B", "C", "B", "A", "D"] {
        record(events, "web-0", reason);
    }
}

/// Returns a broadcaster that makes two attempts for each event, ten seconds apart.
fn with_two_attempts(clock: &FakeClock) -> EventBroadcaster {
    let policy = every_ten_seconds().attempts(2);
    let bus = BusOptions::default();
    clocked(clock).bus(bus).retry(policy).build().unwrap()
}

#[test]
fn an_operation_that_fails_delays_all_after_it() {
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
        assert_eq!(sink.calls().len(), done, "no operation overtakes the failed one");
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    let mut expected = WRITTEN.to_vec();
    // The second and fourth operations are tried twice.
    expected.insert(3, "patch B x2");
    expected.insert(1, "create B x1");
    assert_eq!(sink.shorts(), expected);
    assert_eq!(calls.try_iter().count(), 8);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.retried), (4, 2, 2));
    assert_eq!((stats.written(), stats.coalesced), (6, 0));
}

#[test]
fn an_operation_that_is_lost_delays_nothing() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, op| match &*op.event().reason {
        "A" => Err(SinkError::rejected("no")),
        "B" => panic!("a sink that panics"),
        _ => Ok(()),
    });
    let builder = events.recording().correlator(without_budget()).order(WriteOrder::Bus);
    let recording = builder.start(sink.clone()).unwrap();
    record_all(&events);
    events.flush(LONG).unwrap();
    assert_eq!(sink.shorts(), WRITTEN);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 4, 2));
}

/// If changes to an event are waiting for the event's creation, they get the event's new name.
/// Other changes do not get this name.
#[test]
fn the_changes_after_a_creation_get_its_new_name() {
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
    gate.wait();
    for reason in ["B", "A", "B", "A", "A"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 6);
    drop(gate);
    events.flush(LONG).unwrap();
    let expected =
        ["create A x1", "create A x1", "create B x1", "patch A x2", "patch B x2", "patch A x3", "patch A x4"];
    assert_eq!(sink.shorts(), expected);
    let names = sink.names();
    assert_ne!(names[1], names[0]);
    assert_eq!([3, 5, 6].map(|call| &names[call]), [&names[1]; 3]);
    assert_eq!(names[4], names[2]);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.recreated), (2, 4, 0));
}

/// While the store is unavailable, each probe is the first operation, and probing does not use up
/// that operation's attempts.
#[test]
fn the_order_survives_an_outage() {
    let clock = clock();
    let events = with_two_attempts(&clock);
    let failures = AtomicUsize::new(0);
    let (sink, calls) = Scripted::new(&clock, move |number, _| {
        let is_away = number > 0 && failures.fetch_add(1, Ordering::SeqCst) < 5;
        if is_away { Err(away()) } else { Ok(()) }
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
    assert_eq!(sink.shorts(), expected);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.written(), stats.exhausted, stats.unavailable_since), (7, 0, None));
}
