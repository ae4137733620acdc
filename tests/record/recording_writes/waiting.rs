//! Events that wait for their next attempt, and those that come meanwhile.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::sink::{SinkOp, WriteOrder};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, short, until,
};

use super::{broadcaster, every_ten_seconds, reason_of, retry, without_budget};

#[test]
fn an_event_that_waits_for_its_next_attempt_holds_up_nothing_else() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) = Scripted::new(&clock, move |_, op| {
        let fails = event_of(op).reason == "Bad" && !back.load(Ordering::SeqCst);
        if fails { Err(retry()) } else { Ok(()) }
    });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Bad");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for i in 0..20 {
        record(&events, "web-0", &format!("Good-{i}"));
    }
    until(|| recording.stats().created == 20);
    // The event still counts against the queue, and a flush waits for it.
    assert_eq!(recording.stats().watcher.queued, 1);
    assert!(events.flush(Duration::ZERO).is_err());

    is_back.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried, stats.watcher.queued), (21, 1, 0));
    assert_balanced(&stats);
}

#[test]
fn what_comes_for_a_key_that_waits_is_counted_and_written_in_one_go() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) =
        Scripted::new(&clock, move |_, _| if back.load(Ordering::SeqCst) { Ok(()) } else { Err(retry()) });
    let recording = events.recording().correlator(without_budget()).queue_len(8).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    // These are many more events than the queue has room for. Each is finished as soon as it is
    // counted.
    for i in 2..=100 {
        record(&events, "web-0", "Started");
        until(|| recording.stats().watcher.offered == i && recording.stats().watcher.lag <= 2);
    }
    is_back.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();

    let calls: Vec<String> = sink.calls().iter().map(short).collect();
    assert_eq!(calls, ["create Started x1", "create Started x100"]);
    assert_eq!(sink.store.events()[0].count, 100);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.coalesced), (1, 99, 99));
    assert_eq!(stats.watcher.dropped.total(), 0);
    assert_balanced(&stats);
}

#[test]
fn a_queue_of_events_that_all_wait_is_full() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    let recording = events.recording().queue_len(2).start(sink).unwrap();
    for name in ["a", "b"] {
        record(&events, name, "Started");
        calls.recv_timeout(LONG).unwrap();
    }
    record(&events, "c", "Started");
    until(|| recording.stats().watcher.dropped.incoming == 1);
    assert_eq!(recording.stats().watcher.queued, 2);
    assert!(!events.shutdown().complete);
    assert_balanced(&recording.stats());
}

#[test]
fn a_repeat_follows_the_event_that_it_repeats() {
    // Whether in one batch or in several, the patch comes after the creation, with the name and
    // version that the creation gave the event.
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..300 {
        assert!(recorder.event(pod(&format!("web-{}", i % 30)), Normal, "Started", "message").is_accepted());
    }
    events.flush(LONG).unwrap();
    let mut seen: HashMap<String, Vec<i32>> = HashMap::new();
    let mut versions: HashMap<String, String> = HashMap::new();
    for op in sink.calls() {
        let event = event_of(&op);
        let counts = seen.entry(event.involved_object.name.to_string()).or_default();
        counts.push(event.count);
        assert_eq!(counts.len() == 1, matches!(op, SinkOp::Create(_)));
        let version = event.metadata.resource_version().to_string();
        let before = versions.insert(event.metadata.name.to_string(), version.clone());
        assert!(before.is_none() || before.as_ref() != Some(&version), "{before:?} again");
    }
    // How many repeats share a write depends on the speed of the sink.
    for counts in seen.values() {
        assert!(counts.is_sorted_by(|a, b| a < b) && counts.last() == Some(&10), "{seen:?}");
    }
    let writes: usize = seen.values().map(Vec::len).sum();
    assert_eq!(recording.stats().written(), writes as u64);
    assert_eq!((recording.stats().created, recording.stats().updated), (30, 270));
}

/// Records events that all come while the sink is at work, some of them more than once. Returns the
/// reasons in the order in which they come to the sink. `queued` is the number of events that take
/// room meanwhile.
fn written_behind_a_call(order: WriteOrder, queued: u64) -> Vec<String> {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number == 0 {
            pass();
        }
        Ok(())
    });
    let builder = events.recording().correlator(without_budget()).order(order);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
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
    // A repeat takes no room.
    assert_eq!(written_behind_a_call(WriteOrder::PerKey, 6), ["B", "A", "C", "D", "E"]);
}

#[test]
fn in_the_order_of_the_bus_every_write_goes_out() {
    let written = written_behind_a_call(WriteOrder::Bus, 10);
    assert_eq!(written, ["B", "A", "B", "B", "C", "A", "D", "D", "E"]);
}

// ── a store that is away ──
