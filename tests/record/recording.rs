//! Recordings: the demands of client-go's own tests, retries by the clock, the end, and accounting.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::correlator::SpamFilter;
use eventcast::error::WatchError;
use eventcast::record::LossReason;
use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, ObjectReference, OverflowPolicy, RetryPolicy, SinkError,
    Timestamp,
};

use crate::support::{
    Bomb, LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, short, until,
};

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).build().unwrap()
}

fn retry() -> SinkError {
    SinkError::retry("unreachable")
}

// ── client-go's tests ──

/// Object, reason and message of each event, what the sink is asked to do, and the count.
type Item = (ObjectReference, &'static str, &'static str, &'static str, i32);

/// Returns the items of client-go's `TestEventf`.
fn seven_items() -> [Item; 7] {
    let reference = |uid: &'static str, field_path: &'static str| {
        let mut reference = ObjectReference::new("Pod", "foo").in_namespace("baz");
        reference.uid = uid.into();
        reference.api_version = "v1".into();
        reference.field_path = field_path.into();
        reference
    };
    let (bar, different) = ("bar", "differentUid");
    let (two, three) = ("spec.containers[2]", "spec.containers[3]");
    let (some, other) = ("some verbose message: 1", "some other verbose message: 1");
    [
        (reference(bar, two), "Started", some, "create", 1),
        (reference(bar, ""), "Killed", other, "create", 1),
        (reference(bar, two), "Started", some, "patch", 2),
        (reference(different, three), "Started", some, "create", 1),
        (reference(bar, two), "Started", some, "patch", 3),
        (reference(different, three), "Stopped", some, "create", 1),
        (reference(different, three), "Stopped", some, "patch", 2),
    ]
}

/// Records the items a second apart, and checks what the sink was asked to do.
fn record_seven(events: &EventBroadcaster, clock: &FakeClock, sink: &Scripted) {
    let recorder = events.new_recorder("eventTest");
    for (i, (object, reason, message, verb, count)) in seven_items().into_iter().enumerate() {
        clock.advance(Duration::from_secs(1));
        assert!(recorder.eventf(&object, Normal, reason, format_args!("{message}")).is_accepted());
        events.flush(LONG).unwrap();
        let calls = sink.calls();
        assert_eq!(calls.len(), i + 1);
        let event = event_of(&calls[i]);
        assert_eq!(short(&calls[i]), format!("{verb} {reason} x{count}"), "item {i}");
        assert!(event.metadata.name.starts_with("foo."), "item {i}: {}", event.metadata.name);
        assert_eq!(event.metadata.namespace, "baz");
        assert_eq!(event.involved_object, object);
        assert_eq!((&*event.message, &*event.type_), (message, "Normal"));
        assert_eq!((&*event.source.component, &*event.source.host), ("eventTest", ""));
        assert_eq!((&*event.reporting_controller, &*event.reporting_instance), ("eventTest", ""));
        assert_eq!(event.first_timestamp == event.last_timestamp, count == 1, "item {i}");
        if let SinkOp::Patch(event, patch) = &calls[i] {
            let at = event.last_timestamp.unwrap();
            let json = format!(r#"{{"count":{count},"lastTimestamp":"{at:.0}","message":"{message}"}}"#);
            assert_eq!(patch.as_str(), json);
        }
    }
}

#[test]
fn seven_events_become_four_with_counts() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let (lines_tx, lines) = mpsc::channel();
    events.start_logging(move |line| lines_tx.send(line.to_owned()).unwrap()).unwrap();
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record_seven(&events, &clock, &sink);

    let counts: Vec<i32> = sink.store.events().iter().map(|event| event.count).collect();
    assert_eq!(counts, [1, 1, 3, 2]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.retried), (4, 3, 0));
    assert_balanced(&stats);
    drop(events);
    assert_eq!(
        lines.iter().next().unwrap(),
        "2023-11-14T22:13:21Z  Normal   Started  pod/foo  some verbose message: 1"
    );
    assert_eq!(lines.iter().count(), 6);
}

/// client-go's `TestMultiSinkCache`: each recording counts on its own.
#[test]
fn a_second_sink_starts_counting_anew() {
    let clock = clock();
    let events = broadcaster(&clock);
    for _ in 0..2 {
        let sink = Scripted::obedient(&clock);
        let recording = events.start_recording_to_sink(sink.clone()).unwrap();
        record_seven(&events, &clock, &sink);
        recording.stop();
        assert!(recording.join(LONG));
    }
}

/// client-go's `TestWriteEventError`, and those errors of this library that client-go does not
/// have.
#[test]
fn each_error_has_its_number_of_attempts() {
    type Make = fn() -> SinkError;
    let cases: [(Make, usize, LossReason); 5] = [
        (|| SinkError::rejected("cannot be built"), 1, LossReason::Rejected),
        (|| SinkError::not_found("no such namespace"), 1, LossReason::Rejected),
        // The recording tries once more, under another name.
        (|| SinkError::already_exists("exists"), 2, LossReason::AlreadyExists),
        (|| SinkError::retry("no route to host"), 12, LossReason::Exhausted),
        (|| SinkError::retry_after("too many requests", Duration::ZERO), 12, LossReason::Exhausted),
    ];
    for (error, attempts, reason) in cases {
        let clock = clock();
        let (losses_tx, losses) = mpsc::channel();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .retry(at_once())
            .on_loss(move |loss| {
                let cause = loss.cause().unwrap().downcast_ref::<SinkError>().unwrap();
                let told = (
                    loss.reason(),
                    loss.place().to_owned(),
                    loss.count(),
                    loss.events().to_vec(),
                    cause.kind(),
                );
                losses_tx.send(told).unwrap();
            })
            .build()
            .unwrap();
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.start_recording_to_sink(sink.clone()).unwrap();
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
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
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
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
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
        .on_loss(move |loss| losses_tx.send((loss.reason(), loss.count())).unwrap())
        .build()
        .unwrap();
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    events.start_recording_to_sink(sink.clone()).unwrap();
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
        (|| SinkError::unreachable("connection refused\u{1b}[2J"), true),
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
        let recording = events.start_recording_to_sink(sink).unwrap();
        assert_eq!(recording.stats().last_failure, None);
        let begin = Timestamp::from(clock.clock().now());
        record(&events, "web-0", "Started");
        for attempts in 1..4 {
            calls.recv_timeout(LONG).unwrap();
            clock.wait_for_waiters(1);
            let stats = recording.stats();
            let failure = stats.last_failure.clone().unwrap();
            assert_eq!((failure.text.as_str(), failure.since), (error().to_string().as_str(), begin));
            assert_eq!((failure.attempts, stats.unreachable_since), (attempts, is_away.then_some(begin)));
            let shown = stats.to_string();
            assert!(shown.contains(&format!("since {begin:.0}: {}", error())), "{shown}");
            assert_eq!(shown.contains("store unreachable"), is_away, "{shown}");
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
        assert_eq!(stats.unreachable_since, None);
        assert_eq!(stats.last_failure.unwrap().since, begin, "it stays");
    }
}

/// A recording that has ended does not wait for a store.
#[test]
fn an_end_ends_the_outage_too() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(SinkError::unreachable("connection refused")));
    let recording = events.start_recording_to_sink(sink).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    until(|| recording.stats().unreachable_since.is_some());
    let report = events.shutdown();
    assert_eq!(report.recordings[0].unreachable_since, None);
    let text = "may be tried again: connection refused";
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
        .start_logging(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    // A registration also takes a place in the incoming queue of 1000 entries.
    events.flush(LONG).unwrap();
    let recorder = events.new_recorder("eventTest");
    thread::scope(|scope| {
        for thread in 0..50 {
            let recorder = &recorder;
            scope.spawn(move || {
                for i in thread * 20..(thread + 1) * 20 {
                    let object = ObjectReference::new("Pod", format!("foo-{i}")).in_namespace("baz");
                    let recorded =
                        recorder.eventf(&object, Normal, format!("Reason-{i}"), format_args!("{i}"));
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
    events.start_recording_to_sink(sink.clone()).unwrap();
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
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
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
        Some(wait) => Err(SinkError::retry_after("too many requests", *wait)),
        None => Ok(()),
    });
    events.start_recording_to_sink(sink.clone()).unwrap();
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
        1 => Err(SinkError::not_found("expired")),
        2 => Err(retry()),
        _ => Ok(()),
    });
    events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
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

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.0.update(event)
    }
}

#[test]
fn what_the_sink_answered_is_what_the_next_patch_is_about() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) = Scripted::new(&clock, |_, _| Ok(()));
    events.start_recording_to_sink(Renaming(sink.clone())).unwrap();
    record(&events, "web-0", "Started");
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let calls = sink.calls();
    // The sink has no `patch` method, so the recording asks it to update.
    assert_eq!(short(&calls[1]), "update Started x2");
    assert_eq!(event_of(&calls[1]).metadata.name, "renamed");
    assert_eq!(event_of(&calls[1]).metadata.resource_version(), "1");
}

// ── ends ──

#[test]
fn stopping_one_recording_cuts_its_pause_short_and_leaves_the_other() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (failing, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    let stopped = events.recording().name("failing").start(failing.clone()).unwrap();
    let healthy = Scripted::obedient(&clock);
    let other = events.recording().name("healthy").start(healthy.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    // The stop must come after the dispatcher has offered both events, or `b` would not be offered.
    until(|| other.stats().handled() == 2);
    stopped.stop();
    assert!(stopped.join(LONG));
    assert_eq!(stopped.stats().abandoned, 2);
    // The event that was tried before is tried once more, the other one once or twice.
    let calls = failing.calls().len();
    assert!((3..=4).contains(&calls), "{calls}");
    assert_balanced(&stopped.stats());

    record(&events, "c", "Started");
    events.flush(LONG).unwrap();
    assert_eq!((healthy.store.len(), failing.calls().len()), (3, calls));
    assert!(!other.join(Duration::ZERO));
    assert_eq!(events.stats().recordings.len(), 2);
}

#[test]
fn a_sink_that_hangs_holds_up_neither_others_nor_a_deadline() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let (gate, pass) = gate();
    let (hanging, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let hung = events.recording().name("hanging").start(hanging.clone()).unwrap();
    let healthy = Scripted::obedient(&clock);
    let other = events.recording().name("healthy").start(healthy.clone()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    // These events wait in the queue, and do not reach the sink together with the first one.
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| other.stats().watcher.delivered == 3);

    let closing = events.clone();
    let report = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(5)));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(5));
    let report = report.join().unwrap();
    assert!(!report.complete);
    assert_eq!(healthy.store.len(), 3);
    let stats = &report.recordings[0];
    assert_eq!((stats.watcher.name.as_str(), stats.handled(), stats.watcher.queued), ("hanging", 0, 3));
    assert_eq!(report.recordings[1].created, 3);
    assert_balanced(&report.recordings[1]);
    assert_eq!(events.shutdown(), report, "every call gets the same report");

    // The sink returns: its event is stored, and the others have been abandoned.
    drop(gate);
    assert!(hung.join(LONG));
    // Both ends may empty the queue of a watcher that is gone, and each counts the events that it
    // takes out. The dispatcher does so on its own thread.
    until(|| hung.stats().watcher.lag == 0);
    let stats = hung.stats();
    assert_eq!((stats.created, stats.watcher.dropped.abandoned), (1, 2));
    assert_balanced(&stats);
}

#[test]
fn what_a_queue_held_when_it_was_given_up_is_told_too() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = Arc::new(
        EventBroadcaster::builder()
            .clock(clock.clock())
            .on_loss(move |loss| {
                losses_tx.send((loss.reason(), loss.place().to_owned(), loss.count())).unwrap();
            })
            .build()
            .unwrap(),
    );
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.start_recording_to_sink(sink).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| recording.stats().watcher.queued == 3);
    let closing = events.clone();
    let shutdown = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(5)));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(5));
    assert!(!shutdown.join().unwrap().complete);
    assert!(losses.try_recv().is_err(), "the sink has them still");

    drop(gate);
    assert!(recording.join(LONG));
    // No caller asks for another report, so the recording reports the events when it discards them.
    let (mut told, abandoned) = (0, LossReason::Dropped(eventcast::stats::DropReason::Abandoned));
    until(|| {
        for (reason, place, count) in losses.try_iter() {
            assert_eq!((reason, place.as_str()), (abandoned, "recording"));
            told += count;
        }
        told == 2 && recording.stats().watcher.lag == 0
    });
    assert_eq!(recording.stats().watcher.dropped.abandoned, 2);
    events.shutdown();
    assert!(losses.try_recv().is_err(), "told once");
}

// ── accounting ──

#[test]
fn every_outcome_is_counted_once() {
    let clock = clock();
    let correlator = CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(2));
    let policy = at_once().attempts(2);
    let losses = Arc::new(Mutex::new(Vec::new()));
    let told = losses.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .correlator(correlator)
        .retry(policy)
        .on_loss(move |loss| told.lock().unwrap().push(loss.reason()))
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, op| match &*event_of(op).reason {
        "Exists" => Err(SinkError::already_exists("")),
        "Rejected" => Err(SinkError::rejected("")),
        "Unreachable" => Err(retry()),
        "Panics" => panic!("a sink that panics"),
        _ => Ok(()),
    });
    let recording =
        events.recording().filter(|event| event.reason != "Filtered").start(sink.clone()).unwrap();
    // The first event is created and the second updated. Then the budget is used up.
    for _ in 0..4 {
        record(&events, "busy", "Started");
    }
    for reason in ["Exists", "Rejected", "Unreachable", "Panics", "Filtered", "Fine"] {
        record(&events, reason, reason);
    }
    events.flush(LONG).unwrap();
    record(&events, "last", "Unreachable");
    let report = events.shutdown();

    let stats = recording.stats();
    assert_eq!(report.recordings, std::slice::from_ref(&stats));
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.skipped), (2, 1, 2));
    assert_eq!((stats.already_existed, stats.rejected, stats.panics), (1, 2, 1));
    // The last event was tried when the end had begun, or just before.
    assert_eq!(stats.exhausted + stats.abandoned, 2);
    assert!(stats.exhausted >= 1);
    assert_eq!((stats.watcher.offered, stats.watcher.filtered, report.bus.accepted), (10, 1, 11));
    let lost = losses.lock().unwrap();
    assert_eq!(lost.len() as u64, stats.handled() - stats.created - stats.updated - stats.skipped);
    assert_eq!(lost.iter().filter(|reason| **reason == LossReason::Rejected).count(), 2);
    // A skipped event enters the stored count only with the next event that is written.
    assert_eq!(sink.store.events().iter().find(|e| e.reason == "Started").unwrap().count, 2);
}

#[test]
fn a_full_queue_loses_the_incoming_and_tells_which() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| {
            let names = loss.events().iter().map(|event| event.involved_object.name.to_string());
            losses_tx.send((loss.reason(), loss.place().to_owned(), names.collect::<Vec<_>>())).unwrap();
        })
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.recording().name("slow").queue_len(2).start(sink.clone()).unwrap();
    // This watcher sees each event after the recording, which was registered first.
    let (seen_tx, seen) = mpsc::channel();
    events.start_event_watcher(move |_| seen_tx.send(()).unwrap()).unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
        seen.recv_timeout(LONG).unwrap();
    }
    // The event that the sink is writing counts against the queue until it has been handled.
    gate.entered.recv_timeout(LONG).unwrap();
    let incoming = LossReason::Dropped(eventcast::stats::DropReason::Incoming);
    assert_eq!(losses.recv_timeout(LONG).unwrap(), (incoming, "slow".to_owned(), vec!["c".to_owned()]));
    drop(gate);
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.watcher.dropped.incoming), (2, 1));
    assert_balanced(&stats);
    assert!(losses.try_recv().is_err());
}

#[test]
fn a_recording_that_waits_loses_nothing() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let recording =
        events.recording().queue_len(1).overflow(OverflowPolicy::Wait).start(sink.clone()).unwrap();
    for i in 0..500 {
        record(&events, &format!("web-{i}"), "Started");
    }
    assert!(events.shutdown().complete);
    assert_eq!((sink.store.len(), recording.stats().created), (500, 500));
    assert_balanced(&recording.stats());
}

#[test]
fn similar_events_are_folded_and_the_fold_is_counted() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..12 {
        recorder.eventf(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
    }
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    // Nine events are created on their own, and one stands for three.
    assert_eq!((stats.created, stats.updated, stats.aggregated), (10, 2, 3));
    assert_balanced(&stats);
    let last = sink.store.events().pop().unwrap();
    assert_eq!((&*last.message, last.count), ("(combined from similar events): image 11", 3));
}

// ── panics ──

/// Returns a broadcaster whose hook notes the cause of each rejection, and checks the type of the
/// cause.
fn telling_why(clock: &FakeClock) -> (EventBroadcaster, Arc<Mutex<Vec<String>>>) {
    let causes = Arc::new(Mutex::new(Vec::new()));
    let into = causes.clone();
    let events = EventBroadcaster::builder().clock(clock.clock()).on_loss(move |loss| {
        assert_eq!(loss.reason(), LossReason::Rejected);
        let cause = loss.cause().unwrap().downcast_ref::<SinkError>().unwrap();
        into.lock().unwrap().push(cause.to_string());
    });
    (events.build().unwrap(), causes)
}

#[test]
fn a_sink_that_panics_loses_that_event_only() {
    let clock = clock();
    let (events, causes) = telling_why(&clock);
    let (sink, _calls) = Scripted::new(&clock, |number, _| {
        assert!(number != 1, "a sink that panics");
        Ok(())
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    let report = events.shutdown();
    assert!(report.complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 1, 1));
    assert_balanced(&stats);
    assert_eq!(*causes.lock().unwrap(), ["rejected: the sink panicked: a sink that panics"]);
}

#[test]
fn a_key_function_that_panics_loses_that_event_only() {
    let clock = clock();
    let (events, causes) = telling_why(&clock);
    let sink = Scripted::obedient(&clock);
    let options = CorrelatorOptions::default().spam_key(|event| {
        assert!(event.reason != "Bad", "a key function that panics");
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    for reason in ["Good", "Bad", "Fine"] {
        record(&events, "web-0", reason);
    }
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 1, 1));
    assert_balanced(&stats);
    let cause = "rejected: a function of the correlator's options panicked: a key function that panics";
    assert_eq!(*causes.lock().unwrap(), [cause]);
}

#[test]
fn an_answer_whose_destructor_panics_loses_nothing_else() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) =
        Scripted::new(&clock, |number, _| if number == 0 { Err(SinkError::rejected(Bomb)) } else { Ok(()) });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics, stats.watcher.panics), (1, 1, 1, 0));
    assert_balanced(&stats);
}

// ── options, names, statistics ──

#[test]
fn options_out_of_range_are_named() {
    let events = EventBroadcaster::new().unwrap();
    let sink = || Scripted::obedient(&clock());
    let option = |result: Result<eventcast::record::RecordingHandle, WatchError>| match result.unwrap_err() {
        WatchError::Invalid(error) => error.option().to_owned(),
        other => panic!("{other}"),
    };
    let policy = RetryPolicy::default().attempts(0);
    assert_eq!(option(events.recording().retry(policy).start(sink())), "attempts");
    let without_factor = RetryPolicy::default().factor(0);
    assert_eq!(option(events.recording().retry(without_factor).start(sink())), "factor");
    for workers in [0, 257] {
        assert_eq!(option(events.recording().workers(workers).start(sink())), "workers");
    }
    let correlator = CorrelatorOptions::default().lru_cache_size(0);
    assert_eq!(option(events.recording().correlator(correlator.clone()).start(sink())), "lru_cache_size");
    assert_eq!(option(events.recording().queue_len(0).start(sink())), "queue_len");
    assert_eq!(option(events.recording().name("a\0b").start(sink())), "name");

    let error = EventBroadcaster::builder().retry(policy).build().unwrap_err();
    assert_eq!(error.to_string(), "attempts must be 1 or more, got 0");
    assert_eq!(
        EventBroadcaster::builder().correlator(correlator).build().unwrap_err().option(),
        "lru_cache_size"
    );
    assert!(events.stats().recordings.is_empty());
}

#[test]
fn a_policy_is_plain_data() {
    let policy: RetryPolicy = serde_json::from_str(r#"{"delay": "1m 30s"}"#).unwrap();
    assert_eq!((policy.get_attempts(), policy.get_delay()), (12, Duration::from_secs(90)));
    let text = serde_json::to_string(&policy).unwrap();
    assert_eq!(text, r#"{"attempts":12,"delay":"1m30s","factor":1,"jitter":"first","max_delay":"1m"}"#);
    assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy);
    assert!(serde_json::from_str::<RetryPolicy>(r#"{"attemps": 1}"#).is_err());
}

#[test]
fn recordings_have_names_and_ended_ones_stay_in_the_sums() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    for i in 0..70 {
        let recording = events.start_recording_to_sink(sink.store.clone()).unwrap();
        let expected = if i == 0 { "recording".to_owned() } else { format!("recording-{}", i + 1) };
        assert_eq!(recording.stats().watcher.name, expected);
        record(&events, &format!("web-{i}"), "Started");
        events.flush(LONG).unwrap();
        recording.stop();
        assert!(recording.join(LONG));
    }
    let recordings = events.stats().recordings;
    assert_eq!((recordings.len(), recordings[0].watcher.name.as_str()), (7, "departed"));
    assert_eq!(recordings[0].created, 64);
    assert_eq!(recordings.iter().map(|stats| stats.created).sum::<u64>(), 70);
    recordings.iter().for_each(assert_balanced);
    let text = serde_json::to_string(&recordings).unwrap();
    assert_eq!(serde_json::from_str::<Vec<eventcast::stats::RecordingStats>>(&text).unwrap(), recordings);
    assert_eq!(recordings[6].to_string(), "recording-70: created 1, updated 0, skipped 0");
}

#[test]
fn errors_say_what_and_why() {
    let kinds = [
        (SinkError::retry("a"), SinkErrorKind::Retry, "may be tried again: a"),
        (SinkError::rejected("b\u{1b}[2J"), SinkErrorKind::Rejected, r"rejected: b\u{1b}[2J"),
        (SinkError::not_found("c"), SinkErrorKind::NotFound, "not found: c"),
        (SinkError::already_exists("d"), SinkErrorKind::AlreadyExists, "already exists: d"),
    ];
    for (error, kind, text) in kinds {
        assert_eq!((error.kind(), error.wait(), error.to_string().as_str()), (kind, None, text));
        assert!(std::error::Error::source(&error).is_some());
    }
}
