//! Events that fail while the store is available do not delay other events.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use eventcast::EventType::Normal;
use eventcast::{BusOptions, RetryPolicy, SinkError};

use crate::support::{
    LONG, Scripted, assert_balanced, away, clock, clocked, every_ten_seconds, pod, record, tried, until,
};

use super::{reason_of, retry, with_policy, without_budget};

#[test]
fn an_event_that_waits_for_its_next_attempt_delays_nothing_else() {
    let clock = clock();
    let events = with_policy(&clock, every_ten_seconds());
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) = Scripted::new(&clock, move |_, op| {
        let fails = op.event().reason == "Bad" && !back.load(Ordering::SeqCst);
        if fails { Err(retry()) } else { Ok(()) }
    });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Bad");
    tried(&calls, &clock);
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

/// If a store closes the connection on one particular event, the store does not count as
/// unavailable. In each round, a probe with another event shows that the store is available.
#[test]
fn an_event_at_which_the_store_hangs_up_has_its_attempts_and_no_more() {
    let clock = clock();
    let events = with_policy(&clock, every_ten_seconds());
    let (sink, calls) =
        Scripted::new(&clock, |_, op| if reason_of(op) == "Bad" { Err(away()) } else { Ok(()) });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Bad");
    calls.recv_timeout(LONG).unwrap();
    for round in 1..=11 {
        clock.wait_for_waiters(1);
        record(&events, "web-0", &format!("Good-{round}"));
        until(|| recording.stats().watcher.queued == 2);
        clock.advance(Duration::from_secs(10));
        until(|| recording.stats().created == round);
    }
    until(|| recording.stats().exhausted == 1);
    assert_eq!(sink.calls().iter().filter(|op| reason_of(op) == "Bad").count(), 12);
    // The event is lost, so no other event has to wait.
    record(&events, "web-0", "Last");
    until(|| recording.stats().created == 12);
    assert_balanced(&recording.stats());
}

/// One of ten namespaces refuses its events, because the namespace's admission webhook fails. The
/// events of the other namespaces are written in the round in which they are recorded, without the
/// clock being advanced.
#[test]
fn a_namespace_that_fails_delays_no_other() {
    const ROUNDS: u64 = 150;
    let clock = clock();
    let events = with_policy(&clock, RetryPolicy::default());
    let tried = Arc::new(Mutex::new(HashSet::new()));
    let into = tried.clone();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let object = &op.event().involved_object;
        if object.namespace != "ns-0" {
            return Ok(());
        }
        into.lock().unwrap().insert(object.name.clone());
        Err(SinkError::retry("500 InternalError: failed calling webhook"))
    });
    let recording =
        events.recording().correlator(without_budget()).queue_capacity(10_000).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    let record = |namespace: u64, name: String| {
        let object = pod(&name).in_namespace(format!("ns-{namespace}"));
        assert!(recorder.event(&object, Normal, "Started", "message").is_accepted());
    };
    for round in 1..=ROUNDS {
        // Three events in the failing namespace fail in a row, with no other operation between
        // them.
        for number in 0..3 {
            record(0, format!("web-{round}-{number}"));
        }
        until(|| tried.lock().unwrap().len() as u64 == 3 * round);
        for namespace in 1..10 {
            record(namespace, format!("web-{round}"));
        }
        until(|| recording.stats().created == 9 * round);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(sink.store.len() as u64, 9 * ROUNDS);
    assert_eq!(recording.stats().unavailable_since, None);
    events.shutdown();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted + stats.abandoned), (9 * ROUNDS, 3 * ROUNDS));
    assert!(stats.exhausted > 0, "{stats}");
    assert_balanced(&stats);
}

/// If an event is not retried, because of the policy or the event's error, the event does not delay
/// other events.
#[test]
fn an_event_that_is_tried_once_does_not_wait_for_an_unavailable_store() {
    type Make = fn() -> SinkError;
    let cases: [(Make, u32, bool); 3] = [(retry, 1, true), (away, 1, true), (away, 12, false)];
    for (error, attempts, is_worth_it) in cases {
        let clock = clock();
        let events = with_policy(&clock, every_ten_seconds().attempts(attempts));
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.recording().correlator(without_budget()).retry_if(move |_| is_worth_it);
        let recording = recording.start(sink.clone()).unwrap();
        for i in 1..=20 {
            record(&events, "web-0", &format!("Reason-{i}"));
            // The clock is not advanced.
            until(|| recording.stats().exhausted == i);
        }
        assert_eq!(sink.calls().len(), 20);
        assert!(events.shutdown().complete);
        assert_balanced(&recording.stats());
    }
}

/// The time taken by a write does not depend on the number of events waiting for their next
/// attempt.
#[test]
fn a_write_takes_no_longer_when_many_events_wait() {
    fn quickest(waiting: usize) -> Duration {
        let clock = clock();
        let builder = clocked(&clock).bus(BusOptions::default().incoming_capacity(100_000));
        let events = builder.retry(every_ten_seconds()).build().unwrap();
        let (sink, _calls) =
            Scripted::new(&clock, |_, op| if reason_of(op) == "Bad" { Err(retry()) } else { Ok(()) });
        let recording = events.recording().correlator(without_budget()).queue_capacity(100_000);
        let recording = recording.start(sink).unwrap();
        for i in 0..waiting {
            record(&events, &format!("web-{i}"), "Bad");
        }
        // All events are in the queue, and an attempt has failed.
        until(|| {
            recording.stats().last_failure.is_some() && recording.stats().watcher.queued == waiting as u64
        });
        let one = |number: u64| {
            let start = Instant::now();
            record(&events, "good", &format!("Good-{number}"));
            until(|| recording.stats().created == number);
            start.elapsed()
        };
        one(1);
        let quickest = (2..200).map(one).min().unwrap();
        assert_eq!(recording.stats().watcher.queued, waiting as u64);
        quickest
    }
    let (few, many) = (quickest(100), quickest(50_000));
    println!("one write takes {few:?} while 100 events wait, {many:?} while 50,000 do");
    assert!(many < few * 20, "{few:?} {many:?}");
}
