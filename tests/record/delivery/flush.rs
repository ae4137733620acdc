//! Flushing a single recording.

use std::time::Duration;

use eventcast::error::FlushError;
use eventcast::{BusOptions, EventBroadcaster, MemorySink, OverflowPolicy, Recorded};
use test_support::watched;

use crate::support::{LONG, Scripted, clock, clocked, gate, modes, pod, record, until};

use super::{only, with_correlator};

fn waiting_for(result: Result<(), FlushError>) -> Vec<String> {
    match result {
        Err(FlushError::Timeout { waiting_for, .. }) => waiting_for,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_recording_is_flushed_without_waiting_for_the_others() {
    for bus in modes() {
        let clock = clock();
        let events = clocked(&clock).bus(bus).build().unwrap();
        let (sink_gate, slow) = Scripted::gated(&clock, ..);
        let (handler_gate, pass) = gate();
        events.spawn(move |_| pass()).unwrap();
        let slow_recording = events.recording().name("slow").start(slow.clone()).unwrap();
        let store = MemorySink::new();
        let fast = events.recording().name("fast").start(store.clone()).unwrap();
        for name in ["a", "b", "c"] {
            record(&events, name, "Started");
        }
        assert_eq!(fast.flush(LONG), Ok(()));
        assert_eq!((store.len(), slow.store.len()), (3, 0));
        sink_gate.wait();
        assert!(matches!(slow_recording.flush(Duration::ZERO), Err(FlushError::Timeout { .. })));
        drop(sink_gate);
        assert_eq!(slow_recording.flush(LONG), Ok(()));
        assert_eq!(slow.store.len(), 3);
        drop(handler_gate);
        assert!(events.shutdown().complete);
    }
}

#[test]
fn a_flush_of_a_recording_on_an_inline_bus_names_only_that_recording() {
    let clock = clock();
    let events = EventBroadcaster::new_inline();
    let (sink_gate, slow) = Scripted::gated(&clock, ..);
    let (handler_gate, pass) = gate();
    events.spawn(move |_| pass()).unwrap();
    let recording = events.recording().name("slow").start(slow).unwrap();
    record(&events, "a", "Started");
    assert_eq!(waiting_for(recording.flush(Duration::ZERO)), ["slow"]);
    let names = waiting_for(events.flush(Duration::ZERO));
    assert_eq!(names.len(), 2, "{names:?}");
    drop((sink_gate, handler_gate));
}

/// One event is within the budget of the spam filter, and four repeats are deferred.
#[test]
fn a_flush_of_a_recording_writes_the_deferred_count() {
    let clock = clock();
    let events = with_correlator(super::hold::strict(), &clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.record_to(sink.clone()).unwrap();
    for _ in 0..5 {
        record(&events, "web-0", "BackOff");
    }
    until(|| recording.stats().watcher.delivered == 5);
    assert_eq!(recording.flush(LONG), Ok(()));
    assert_eq!(only(&sink.store).count, 5);
}

#[test]
fn a_flush_of_a_recording_that_has_ended_returns_immediately() {
    watched(|| {
        let events = EventBroadcaster::new().unwrap();
        let (gate, pass) = gate();
        // A handler keeps the bus from ending.
        events.spawn(move |_| pass()).unwrap();
        let stores = [(); 2].map(|()| MemorySink::new());
        let [stopped, closed] = stores.each_ref().map(|store| events.record_to(store.clone()).unwrap());
        record(&events, "a", "Started");
        gate.wait();
        stopped.stop();
        assert_eq!(stopped.flush(LONG), Ok(()));
        assert!(stopped.join(LONG));
        assert_eq!(stopped.flush(Duration::MAX), Ok(()));
        events.close();
        assert_eq!(closed.flush(Duration::MAX), Ok(()));
        assert!(closed.join(Duration::ZERO), "the flush of a closed bus waits for the recording's end");
        assert_eq!(stores.map(|store| store.len()), [1, 1]);
        drop(gate);
        assert!(events.shutdown().complete);
        assert_eq!(closed.flush(Duration::MAX), Ok(()));
    });
}

#[test]
fn a_flush_of_a_recording_does_not_wait_on_its_broadcasters_threads() {
    watched(|| {
        let events = EventBroadcaster::new().unwrap();
        let recording = events.record_to(MemorySink::new()).unwrap();
        let (tx, answers) = std::sync::mpsc::channel();
        let own = recording.clone();
        events.spawn(move |_| tx.send(own.flush(Duration::MAX)).unwrap()).unwrap();
        record(&events, "a", "Started");
        assert_eq!(answers.recv_timeout(LONG), Ok(Err(FlushError::WouldDeadlock)));
    });
}

#[test]
fn a_flush_of_a_recording_whose_events_were_abandoned_says_so() {
    let clock = clock();
    let events = EventBroadcaster::new().unwrap();
    let (sink_gate, slow) = Scripted::gated(&clock, ..);
    let recording = events.record_to(slow).unwrap();
    record(&events, "a", "Started");
    sink_gate.wait();
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    assert_eq!(recording.flush(Duration::MAX), Err(FlushError::Abandoned));
    drop(sink_gate);
}

/// A watcher with the policy `Wait` blocks the dispatcher, so that no flush of the bus can succeed.
#[test]
fn a_flush_of_an_ended_recording_does_not_wait_for_a_blocked_bus() {
    watched(|| {
        let bus = BusOptions::default().incoming_capacity(2).max_batch(1);
        let events = EventBroadcaster::builder().bus(bus).build().unwrap();
        let recording = events.record_to(MemorySink::new()).unwrap();
        recording.stop();
        assert!(recording.join(LONG));
        let held = events.watch_builder().queue_capacity(1).overflow(OverflowPolicy::Wait).watch().unwrap();
        let recorder = events.recorder("tester");
        until(|| recorder.normal(pod("a"), "Full", "") == Recorded::Full);
        assert_eq!(recording.flush(LONG), Ok(()));
        drop(held);
    });
}
