//! Stores that do not answer: attempts, probes, and the end.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::{BusOptions, EventBroadcaster, RetryPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, until};

use super::{away, broadcaster, every_ten_seconds, reason_of, retry, without_budget};

#[test]
fn a_store_that_does_not_answer_costs_no_events_their_attempts() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds().attempts(4));
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) =
        Scripted::new(&clock, move |_, _| if back.load(Ordering::SeqCst) { Ok(()) } else { Err(away()) });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for reason in ["B", "C"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 3);
    assert_eq!(sink.calls().len(), 1, "the others are not even tried");
    // The recording makes one attempt after each pause, each time for another event.
    for round in 0..4 {
        for expected in ["B", "C", "A"] {
            clock.advance(Duration::from_millis(9_999));
            assert!(calls.try_recv().is_err(), "{round}");
            clock.advance(Duration::from_millis(1));
            calls.recv_timeout(LONG).unwrap();
            clock.wait_for_waiters(1);
            assert_eq!(reason_of(sink.calls().last().unwrap()), expected, "{round}");
        }
    }
    assert_eq!((recording.stats().exhausted, sink.calls().len()), (0, 13));

    is_back.store(true, Ordering::SeqCst);
    for i in 0..100 {
        record(&events, "web-0", &format!("Later-{i}"));
    }
    until(|| recording.stats().watcher.queued == 103);
    clock.advance(Duration::from_secs(10));
    until(|| recording.stats().created >= 100);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted), (103, 0));
    assert_balanced(&stats);
}

/// Any answer to the probe shows that the store is there.
#[test]
fn any_answer_ends_an_outage() {
    let answers: [fn() -> Result<(), SinkError>; 3] =
        [|| Ok(()), || Err(SinkError::retry("500")), || Err(SinkError::rejected("422"))];
    for answer in answers {
        let clock = clock();
        let events = broadcaster(&clock, every_ten_seconds());
        let (sink, calls) = Scripted::new(&clock, move |number, _| match number {
            0 => Err(away()),
            1 => answer(),
            _ => Ok(()),
        });
        let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
        record(&events, "web-0", "First");
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        for i in 0..10 {
            record(&events, "web-0", &format!("Later-{i}"));
        }
        until(|| recording.stats().watcher.queued == 11);
        clock.advance(Duration::from_secs(10));
        // The first event is due too, and one event may have been refused.
        until(|| recording.stats().created >= 10);
    }
}

/// A store that hangs up at one event is not unavailable: in each round, a probe with another event
/// shows this.
#[test]
fn an_event_at_which_the_store_hangs_up_has_its_attempts_and_no_more() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
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
    // The event has been given up, so no other event waits any more.
    record(&events, "web-0", "Last");
    until(|| recording.stats().created == 12);
    assert_balanced(&recording.stats());
}

#[test]
fn one_event_that_fails_for_ever_is_no_reason_to_think_that_the_store_is_away() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) =
        Scripted::new(&clock, |_, op| if event_of(op).reason == "Bad" { Err(retry()) } else { Ok(()) });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    for i in 0..50 {
        record(&events, "web-0", "Bad");
        record(&events, "web-0", &format!("Good-{i}"));
        events.flush(LONG).unwrap();
    }
    let stats = recording.stats();
    assert_eq!(stats.created, 50);
    assert_balanced(&stats);
}

/// One of ten namespaces refuses its events, because its admission webhook fails. The events of the
/// other namespaces are written in the round in which they come, while the clock stands still.
#[test]
fn a_namespace_that_fails_holds_up_no_other() {
    const ROUNDS: u64 = 150;
    let clock = clock();
    let events = broadcaster(&clock, RetryPolicy::default());
    let tried = Arc::new(Mutex::new(HashSet::new()));
    let into = tried.clone();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let object = &event_of(op).involved_object;
        if object.namespace != "ns-0" {
            return Ok(());
        }
        into.lock().unwrap().insert(object.name.clone());
        Err(SinkError::retry("500 InternalError: failed calling webhook"))
    });
    let recording =
        events.recording().correlator(without_budget()).queue_len(10_000).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    let record = |namespace: u64, name: String| {
        let object = pod(&name).in_namespace(format!("ns-{namespace}"));
        assert!(recorder.event(&object, Normal, "Started", "message").is_accepted());
    };
    for round in 1..=ROUNDS {
        // Three events of the failing namespace fail one after the other, with nothing between
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

/// An event that is not tried again, by the policy or because its error is not worth it, delays no
/// other event.
#[test]
fn who_tries_once_does_not_wait_for_a_store_that_is_away() {
    type Make = fn() -> SinkError;
    let cases: [(Make, u32, bool); 3] = [(retry, 1, true), (away, 1, true), (away, 12, false)];
    for (error, attempts, is_worth_it) in cases {
        let clock = clock();
        let events = broadcaster(&clock, every_ten_seconds().attempts(attempts));
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.recording().correlator(without_budget()).retry_if(move |_| is_worth_it);
        let recording = recording.start(sink.clone()).unwrap();
        for i in 1..=20 {
            record(&events, "web-0", &format!("Reason-{i}"));
            // The clock stands still.
            until(|| recording.stats().exhausted == i);
        }
        assert_eq!(sink.calls().len(), 20);
        assert!(events.shutdown().complete);
        assert_balanced(&recording.stats());
    }
}

/// The time of a write does not depend on how many events wait for their next attempt.
#[test]
fn a_write_takes_no_longer_when_many_events_wait() {
    fn quickest(waiting: usize) -> Duration {
        let clock = clock();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .bus(BusOptions::default().incoming_len(100_000))
            .retry(every_ten_seconds())
            .build()
            .unwrap();
        let (sink, _calls) =
            Scripted::new(&clock, |_, op| if reason_of(op) == "Bad" { Err(retry()) } else { Ok(()) });
        let recording = events.recording().correlator(without_budget()).queue_len(100_000);
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

#[test]
fn a_shutdown_waits_for_no_store_that_is_away() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.count)).unwrap())
        .build()
        .unwrap();
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(away()));
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for reason in ["B", "C", "D"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 4);
    // The clock stands still.
    let report = events.shutdown();
    assert!(!report.complete);
    assert_balanced(&recording.stats());
    assert_eq!(recording.stats().abandoned, 4);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Abandoned, 1); 4]);
    let mut last: Vec<_> = sink.calls()[1..].iter().map(reason_of).collect();
    last.sort();
    assert_eq!(last, ["A", "B", "C", "D"], "each has had one more");
}

#[test]
fn a_store_that_is_found_away_at_the_very_end_holds_nothing_up() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number == 0 {
            pass();
            return Ok(());
        }
        Err(away())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    // This watcher learns of the end after the recording, which was registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
    for reason in ["A", "A", "B", "B", "C", "C", "D", "D"] {
        record(&events, "web-0", reason);
    }
    // A repeat takes no room.
    until(|| recording.stats().watcher.offered == 9 && recording.stats().watcher.lag == 5);
    events.close();
    assert_eq!(witness.events().count(), 9);
    drop(gate);
    // The clock stands still.
    assert!(!events.shutdown().complete);
    assert_eq!((recording.stats().created, recording.stats().abandoned), (1, 8));
    assert_eq!(sink.calls().len(), 5, "each was tried once");
    assert_balanced(&recording.stats());
}

// ── names that are taken ──
