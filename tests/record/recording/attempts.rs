//! Attempts, pauses, and what is written at last.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::{LossReason, Outage};
use eventcast::sink::SinkErrorKind;
use eventcast::{Event, EventBroadcaster, ObjectReference, RetryPolicy, SinkError, Timestamp};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, record, short, until};

use super::{broadcaster, retry};

/// client-go's `TestWriteEventError`, and those errors of this library that client-go does not
/// have.
#[test]
fn each_error_has_its_number_of_attempts() {
    type Make = fn() -> SinkError;
    let cases: [(Make, usize, LossReason); 5] = [
        (|| SinkError::rejected("cannot be built"), 1, LossReason::Rejected),
        (|| SinkError::new(SinkErrorKind::NotFound, "no such namespace"), 1, LossReason::Rejected),
        // The recording tries once more, under another name.
        (|| SinkError::new(SinkErrorKind::AlreadyExists, "exists"), 2, LossReason::AlreadyExists),
        (|| SinkError::retry("no route to host"), 12, LossReason::Exhausted),
        (
            || SinkError::retry("too many requests").with_retry_after(Duration::ZERO),
            12,
            LossReason::Exhausted,
        ),
    ];
    for (error, attempts, reason) in cases {
        let clock = clock();
        let (losses_tx, losses) = mpsc::channel();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .retry(at_once())
            .on_loss(move |loss| {
                let cause = loss.cause.unwrap().downcast_ref::<SinkError>().unwrap();
                let told =
                    (loss.reason, loss.place.to_owned(), loss.count, loss.events.to_vec(), cause.kind());
                losses_tx.send(told).unwrap();
            })
            .build()
            .unwrap();
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.record_to(sink.clone()).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();

        assert_eq!(sink.calls().len(), attempts, "{}", error());
        let stats = recording.stats();
        assert_balanced(&stats);
        let outcome = match reason {
            LossReason::Rejected => stats.rejected,
            LossReason::AlreadyExists => stats.already_existed,
            _ => stats.exhausted,
        };
        assert_eq!((outcome, stats.handled()), (1, 1), "{stats:?}");
        assert_eq!(stats.retried, attempts as u64 - 1);
        let (told, place, count, lost, kind) = losses.try_recv().unwrap();
        assert_eq!((told, &*place, count, kind), (reason, "recording", 1, error().kind()));
        assert_eq!(lost[0].reason, "Started");
        assert!(losses.try_recv().is_err());
    }
}

#[test]
fn what_fails_once_is_stored_at_the_second_attempt() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap();
    let (sink, _calls) = Scripted::new(&clock, |number, _| if number == 0 { Err(retry()) } else { Ok(()) });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    assert_eq!(sink.calls().len(), 2);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried, stats.handled()), (1, 1, 1));
    assert!(events.shutdown().complete);
}

/// client-go's `TestUpdateExpiredEvent`. The count continues in the new event.
#[test]
fn an_event_that_has_expired_is_created_again_without_its_version() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    clock.advance(Duration::from_secs(2 * 3600));
    assert!(sink.store.is_empty());
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();

    let calls = sink.calls();
    assert_eq!(
        calls.iter().map(short).collect::<Vec<_>>(),
        ["create Started x1", "patch Started x2", "create Started x2"]
    );
    assert_eq!(event_of(&calls[1]).metadata.resource_version(), "1");
    assert_eq!(event_of(&calls[2]).metadata.resource_version(), "");
    assert_eq!(event_of(&calls[2]).metadata.name, event_of(&calls[0]).metadata.name);
    assert_eq!(sink.store.events()[0].count, 2);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.recreated, stats.updated), (2, 1, 0));
    assert_balanced(&stats);
}

/// client-go's `TestCancelEvent`: each event that is left when the end begins gets one more
/// attempt, and the pause ends at once.
#[test]
fn after_the_end_has_begun_every_event_is_tried_once() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.count)).unwrap())
        .build()
        .unwrap();
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    events.record_to(sink.clone()).unwrap();
    for name in ["a", "b"] {
        record(&events, name, "Started");
        calls.recv_timeout(LONG).unwrap();
    }
    clock.wait_for_waiters(1);

    // The clock stands still, so the shutdown returns only if no thread waits for the clock.
    let report = events.shutdown();
    assert_eq!(sink.calls().len(), 4);
    assert!(!report.complete);
    assert_eq!((report.recordings[0].abandoned, report.recordings[0].retried), (2, 2));
    assert_balanced(&report.recordings[0]);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Abandoned, 1); 2]);
    assert_eq!(clock.waiters(), 0);
}

/// No event has been given up, but the statistics already say why none is stored, since when, and
/// how often the recording tried.
#[test]
fn why_nothing_is_stored_is_known_at_the_first_attempt() {
    type Make = fn() -> SinkError;
    let cases: [(Make, bool); 2] = [
        (|| SinkError::retry("401 Unauthorized\u{1b}[2J"), false),
        (|| SinkError::new(SinkErrorKind::Unavailable, "connection refused\u{1b}[2J"), true),
    ];
    for (error, is_away) in cases {
        let clock = clock();
        let policy = RetryPolicy::default().jitter(eventcast::record::Jitter::Never);
        let events = EventBroadcaster::builder().clock(clock.clock()).retry(policy).build().unwrap();
        let is_back = Arc::new(AtomicBool::new(false));
        let back = is_back.clone();
        let (sink, calls) =
            Scripted::new(
                &clock,
                move |_, _| if back.load(Ordering::SeqCst) { Ok(()) } else { Err(error()) },
            );
        let recording = events.record_to(sink).unwrap();
        assert_eq!(recording.stats().last_failure, None);
        let begin = Timestamp::from(clock.clock().now());
        record(&events, "web-0", "Started");
        for attempts in 1..4 {
            calls.recv_timeout(LONG).unwrap();
            clock.wait_for_waiters(1);
            let stats = recording.stats();
            let failure = stats.last_failure.clone().unwrap();
            assert_eq!((failure.text.as_str(), failure.since), (error().to_string().as_str(), begin));
            assert_eq!((failure.attempts, stats.unavailable_since), (attempts, is_away.then_some(begin)));
            let shown = stats.to_string();
            assert!(shown.contains(&format!("since {begin:.0}: {}", error())), "{shown}");
            assert_eq!(shown.contains("store unavailable"), is_away, "{shown}");
            assert!(!shown.contains('\u{1b}'), "{shown}");
            assert_eq!((stats.last_refusal.as_ref(), stats.handled()), (None, 0));
            let text = serde_json::to_string(&stats).unwrap();
            assert_eq!(serde_json::from_str::<eventcast::stats::RecordingStats>(&text).unwrap(), stats);
            clock.advance(Duration::from_secs(10));
        }
        is_back.store(true, Ordering::SeqCst);
        calls.recv_timeout(LONG).unwrap();
        // The fourth attempt may have come before the store was back.
        until(|| {
            if clock.waiters() > 0 {
                clock.advance(Duration::from_secs(10));
            }
            recording.stats().created == 1
        });
        events.shutdown();
        let stats = recording.stats();
        assert_eq!(stats.unavailable_since, None);
        assert_eq!(stats.last_failure.unwrap().since, begin, "it stays");
    }
}

/// A sink that hangs says nothing, so the recording says it. The clock is the system's, because a
/// call takes real time.
#[test]
fn a_sink_that_hangs_is_reported_and_its_answer_ends_that() {
    let (tx, outages) = mpsc::channel();
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock(), move |number, _| {
        if number == 0 {
            pass();
        }
        Ok(())
    });
    let hook = move |outage: &Outage<'_>| {
        let cause = outage.cause.map(str::to_owned);
        tx.send((outage.recording.to_owned(), cause, outage.since, outage.cause.is_none())).unwrap();
        panic!("a hook that panics");
    };
    let recording = events.recording().on_outage(hook).start(sink).unwrap();
    let before = Timestamp::from(std::time::SystemTime::now());
    record(&events, "web-0", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let (name, cause, since, is_over) = outages.recv_timeout(LONG).unwrap();
    assert_eq!((name.as_str(), is_over), ("recording", false));
    assert_eq!(cause.as_deref(), Some("no answer from the sink for 1 s"));
    assert!(since >= before);
    until(|| recording.stats().unavailable_since == Some(since));
    assert_eq!(recording.stats().last_failure.map(|failure| failure.text), cause);
    drop(gate);
    assert_eq!(outages.recv_timeout(LONG).unwrap(), (name, None, since, true));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.unavailable_since, stats.panics), (1, None, 2));
    assert_balanced(&stats);
}

/// A recording that has ended does not wait for a store.
#[test]
fn an_end_ends_the_outage_too() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) =
        Scripted::new(&clock, |_, _| Err(SinkError::new(SinkErrorKind::Unavailable, "connection refused")));
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    until(|| recording.stats().unavailable_since.is_some());
    let report = events.shutdown();
    assert_eq!(report.recordings[0].unavailable_since, None);
    let text = "unavailable: connection refused";
    assert_eq!(report.recordings[0].last_failure.as_ref().map(|failure| failure.text.as_str()), Some(text));
}

/// client-go's `TestLotsOfEvents`, with fewer threads.
#[test]
fn a_thousand_events_survive_four_failures_each() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap();
    let tries = Mutex::new(std::collections::HashMap::new());
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let mut tries = tries.lock().unwrap();
        let tries = tries.entry(event_of(op).reason.clone()).or_insert(0);
        *tries += 1;
        if *tries < 5 { Err(retry()) } else { Ok(()) }
    });
    let logged = Arc::new(AtomicUsize::new(0));
    let counter = logged.clone();
    events
        .log_to(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let recording = events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("eventTest");
    thread::scope(|scope| {
        for thread in 0..50 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in thread * 20..(thread + 1) * 20 {
                    let object = ObjectReference::new("Pod", format!("foo-{i}")).in_namespace("baz");
                    let recorded =
                        recorder.event(&object, Normal, format!("Reason-{i}"), format_args!("{i}"));
                    assert!(recorded.is_accepted());
                }
            });
        }
    });
    events.flush(LONG).unwrap();
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    assert_eq!(logged.load(Ordering::Relaxed), 1000);
    assert_eq!(sink.calls().len(), 5000);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried), (1000, 4000));
    assert_balanced(&stats);
    let mut reasons: Vec<_> = sink.store.events().into_iter().map(|event| event.reason).collect();
    reasons.sort();
    reasons.dedup();
    assert_eq!(reasons.len(), 1000);
}

/// client-go's `TestEventfNoNamespace`.
#[test]
fn an_object_without_a_namespace_has_its_events_in_default() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    events.record_to(sink.clone()).unwrap();
    record(&events, "foo", "Started");
    events.flush(LONG).unwrap();
    assert_eq!(short(&sink.calls()[0]), "create Started x1");
    let event = sink.store.events().remove(0);
    assert_eq!((&*event.metadata.namespace, &*event.involved_object.namespace), ("default", ""));
}

// ── retries by the clock ──

#[test]
fn pauses_are_ten_seconds_and_the_first_a_part_of_that() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(10));
    for attempts in 2..12 {
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_millis(9_999));
        assert_eq!(sink.calls().len(), attempts, "nobody comes back early");
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    assert_eq!(sink.calls().len(), 12);
    assert_eq!(recording.stats().exhausted, 1);
}

#[test]
fn a_sink_that_says_how_long_to_wait_is_heard_up_to_a_limit() {
    let clock = clock();
    let policy = RetryPolicy::default().max_delay(Duration::from_secs(20));
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(policy).build().unwrap();
    let waits = [Duration::from_secs(3), Duration::from_secs(3600)];
    let (sink, calls) = Scripted::new(&clock, move |number, _| match waits.get(number) {
        Some(wait) => Err(SinkError::retry("too many requests").with_retry_after(*wait)),
        None => Ok(()),
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    for wait in [3, 20] {
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        let before = sink.calls().len();
        clock.advance(Duration::from_millis(wait * 1000 - 1));
        assert_eq!(sink.calls().len(), before);
        clock.advance(Duration::from_millis(1));
    }
    events.flush(LONG).unwrap();
    assert_eq!(sink.store.len(), 1);
}

#[test]
fn a_repeat_that_fails_is_patched_again_before_it_is_created() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap();
    // The first patch does not find the event. The creation after it breaks off without an answer,
    // so the event may have been stored.
    let (sink, _calls) = Scripted::new(&clock, |number, _| match number {
        1 => Err(SinkError::new(SinkErrorKind::NotFound, "expired")),
        2 => Err(retry()),
        _ => Ok(()),
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let calls: Vec<String> = sink.calls().iter().map(short).collect();
    assert_eq!(calls, ["create Started x1", "patch Started x2", "create Started x2", "patch Started x2"]);
    assert_eq!(sink.store.events()[0].count, 2);
}

/// A sink that gives stored events another name, as a store with its own rules may.
struct Renaming(Scripted);
impl eventcast::EventSink for Renaming {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let mut event = event.clone();
        event.metadata.name = "renamed".into();
        self.0.create(&event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.update(event)
    }
}

#[test]
fn what_the_sink_answered_is_what_the_next_patch_is_about() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, _| Ok(()));
    events.record_to(Renaming(sink.clone())).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let calls = sink.calls();
    // The sink has no `patch` method, so the recording asks it to update.
    assert_eq!(short(&calls[1]), "update Started x2");
    assert_eq!(event_of(&calls[1]).metadata.name, "renamed");
    assert_eq!(event_of(&calls[1]).metadata.resource_version(), "1");
}

// ── ends ──
