//! Each event has one outcome, which is counted once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::correlator::SpamFilter;
use eventcast::record::LossReason;
use eventcast::sink::SinkErrorKind;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, ObjectReference, SinkError};

use crate::support::{
    Bomb, LONG, Scripted, assert_balanced, at_once, clock, clocked, logged, modes, pod, record, short,
    with_losses,
};

use super::{broadcaster, counts, retry, with_policy};

/// An event's object, reason and message, the requested operation, and the count.
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

/// client-go's `TestEventf`.
#[test]
fn seven_events_become_four_with_counts() {
    for bus in modes() {
        let clock = clock();
        let events = clocked(&clock).bus(bus).build().unwrap();
        let sink = Scripted::obedient(&clock);
        let lines = logged(&events);
        let recording = events.record_to(sink.clone()).unwrap();
        let recorder = events.recorder("eventTest");
        for (i, (object, reason, message, verb, count)) in seven_items().into_iter().enumerate() {
            clock.advance(Duration::from_secs(1));
            assert!(recorder.normal(&object, reason, message).is_accepted());
            events.flush(LONG).unwrap();
            let calls = sink.calls();
            assert_eq!(calls.len(), i + 1);
            let event = calls[i].event();
            assert_eq!(short(&calls[i]), format!("{verb} {reason} x{count}"), "item {i}");
            assert!(event.metadata.name.starts_with("foo."), "item {i}: {}", event.metadata.name);
            assert_eq!((&*event.metadata.namespace, &event.involved_object), ("baz", &object));
            assert_eq!((&*event.message, &*event.type_), (message, "Normal"));
            assert_eq!((&*event.source.component, &*event.source.host), ("eventTest", ""));
            assert_eq!((&*event.reporting_controller, &*event.reporting_instance), ("eventTest", ""));
            assert_eq!(event.first_timestamp == event.last_timestamp, count == 1, "item {i}");
            if verb == "patch" {
                let at = event.last_timestamp.unwrap();
                let json = format!(r#"{{"count":{count},"lastTimestamp":"{at:.0}","message":"{message}"}}"#);
                assert_eq!(event.to_patch_json(), json);
            }
        }
        assert_eq!(counts(&sink.store), [1, 1, 3, 2]);
        let stats = recording.stats();
        assert_eq!((stats.created, stats.updated, stats.retried), (4, 3, 0));
        assert_balanced(&stats);
        drop(events);
        let lines = lines.lock().unwrap();
        let first = "2023-11-14T22:13:21Z  Normal   Started  pod/foo  some verbose message: 1";
        assert_eq!((lines[0].as_str(), lines.len()), (first, 7));
    }
}

#[test]
fn each_recording_counts_and_folds_on_its_own() {
    let clock = clock();
    let events = broadcaster(&clock);
    let [all, some] = [(); 2].map(|()| Scripted::obedient(&clock));
    events.record_to(all.clone()).unwrap();
    events.recording().filter(|event| event.message != "image 3").start(some.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..10 {
        recorder.event(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
    }
    let report = events.shutdown();
    // The unfiltered recording folds the tenth similar event. The filtered recording receives only
    // nine.
    assert_eq!((report.recordings[0].aggregated, report.recordings[1].aggregated), (1, 0));
    let last = |sink: &Scripted| sink.store.events().pop().unwrap().message.to_string();
    assert_eq!(last(&all), "(combined from similar events): image 9");
    assert_eq!(last(&some), "image 9");
}

#[test]
fn every_outcome_is_counted_once() {
    let clock = clock();
    let correlator = CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(2));
    let policy = at_once().attempts(2);
    let builder = clocked(&clock).correlator(correlator).retry(policy);
    let (events, losses) = with_losses(builder, |loss| loss.reason);
    let (sink, _calls) = Scripted::new(&clock, |_, op| match &*op.event().reason {
        "Exists" => Err(SinkError::new(SinkErrorKind::AlreadyExists, "")),
        "Rejected" => Err(SinkError::rejected("")),
        "Busy" => Err(retry()),
        "Panics" => panic!("a sink that panics"),
        _ => Ok(()),
    });
    let recording =
        events.recording().filter(|event| event.reason != "Filtered").start(sink.clone()).unwrap();
    // The first event is created and the second updated. The budget is then used up, and the other
    // two events are counted at the flush.
    for _ in 0..4 {
        record(&events, "busy", "Started");
    }
    for reason in ["Exists", "Rejected", "Busy", "Panics", "Filtered", "Fine"] {
        record(&events, reason, reason);
    }
    events.flush(LONG).unwrap();
    record(&events, "last", "Busy");
    let report = events.shutdown();

    let stats = recording.stats();
    assert_eq!(report.recordings, std::slice::from_ref(&stats));
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.skipped), (2, 3, 0));
    assert_eq!((stats.already_existed, stats.rejected, stats.panics), (1, 2, 1));
    // The last event was tried after the shutdown began or just before it.
    assert_eq!(stats.exhausted + stats.abandoned, 2);
    assert!(stats.exhausted >= 1);
    assert_eq!((stats.watcher.offered, stats.watcher.filtered, report.bus.accepted), (10, 1, 11));
    let lost: Vec<_> = losses.try_iter().collect();
    assert_eq!(lost.len() as u64, stats.handled() - stats.created - stats.updated - stats.skipped);
    assert_eq!(lost.iter().filter(|reason| **reason == LossReason::Rejected).count(), 2);
    assert_eq!(sink.store.events().iter().find(|e| e.reason == "Started").unwrap().count, 4);
}

#[test]
fn a_refusal_has_the_stores_message_escaped_and_cut() {
    let clock = clock();
    let (events, losses) = with_losses(clocked(&clock), |loss| loss.to_string());
    let (sink, _calls) = Scripted::new(&clock, |_, _| {
        Err(SinkError::rejected(format!("\u{1b}[2J\r\n{}", "no ".repeat(1000))))
    });
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let text = losses.try_recv().unwrap();
    let refusal = recording.stats().last_refusal.unwrap();
    assert_eq!(text, format!("recording: 1 event lost (rejected): Pod/web-0 Started: {refusal}"));
    assert!(refusal.starts_with(r"rejected: \u{1b}[2J\r\nno no"), "{refusal}");
    assert_eq!(refusal.chars().count(), "rejected: ".len() + 1000);
    let stats = recording.stats();
    assert!(stats.to_string().ends_with(&format!(", last refusal: {refusal}")));
    assert!(format!("{stats:#}").ends_with(&format!("\n    last refusal: {refusal}")), "{stats:#}");
}

/// Returns a broadcaster and a channel that receives the cause of each rejection.
fn with_causes(clock: &FakeClock) -> (EventBroadcaster, mpsc::Receiver<String>) {
    with_losses(clocked(clock), |loss| {
        assert_eq!(loss.reason, LossReason::Rejected);
        loss.cause.unwrap().downcast_ref::<SinkError>().unwrap().to_string()
    })
}

#[test]
fn a_sink_that_panics_loses_that_event_only() {
    for workers in [1, 2] {
        let clock = clock();
        let (events, causes) = with_causes(&clock);
        let (sink, _calls) = Scripted::new(&clock, |_, op| {
            assert!(op.event().reason != "Bad", "a sink that panics");
            Ok(())
        });
        let recording = events.recording().workers(workers).start(sink).unwrap();
        for i in 0..50 {
            record(&events, &format!("web-{i}"), if i % 10 == 1 { "Bad" } else { "Good" });
        }
        assert!(events.shutdown().complete);
        let stats = recording.stats();
        assert_eq!((stats.created, stats.rejected, stats.panics), (45, 5, 5));
        assert_balanced(&stats);
        let cause = "rejected: the sink panicked: a sink that panics";
        assert_eq!(stats.last_refusal.as_deref(), Some(cause));
        assert_eq!(causes.try_iter().collect::<Vec<_>>(), [cause; 5]);
    }
}

#[test]
fn a_key_function_that_panics_loses_that_event_only() {
    let clock = clock();
    let (events, causes) = with_causes(&clock);
    let options = CorrelatorOptions::default().spam_key(|event| {
        assert!(event.reason != "Bad", "a key function that panics");
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for reason in ["Good", "Bad", "Fine"] {
        record(&events, "web-0", reason);
    }
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 1, 1));
    assert_balanced(&stats);
    let cause = "rejected: a function of the correlator's options panicked: a key function that panics";
    assert_eq!(causes.try_iter().collect::<Vec<_>>(), [cause]);
}

/// The event's outcome is the same as after any other error.
#[test]
fn an_error_whose_destructor_panics_is_like_any_other() {
    type Make = fn() -> SinkError;
    let cases: [(usize, Make, bool, [u64; 4]); 3] = [
        (0, || SinkError::retry(Bomb), false, [1, 1, 0, 1]),
        // The next event creates the stored event, with a count that covers both.
        (0, || SinkError::rejected(Bomb), false, [1, 1, 1, 0]),
        (1, || SinkError::new(SinkErrorKind::NotFound, Bomb), true, [2, 0, 1, 0]),
    ];
    for (call, error, expires, outcome) in cases {
        let clock = clock();
        let events = with_policy(&clock, at_once());
        let (sink, _calls) =
            Scripted::new(&clock, move |number, _| if number == call { Err(error()) } else { Ok(()) });
        let recording = events.record_to(sink.clone()).unwrap();
        for _ in 0..2 {
            record(&events, "web-0", "Started");
            events.flush(LONG).unwrap();
            // The store keeps each event for an hour.
            let count = recording.stats().created + recording.stats().updated;
            assert_eq!(counts(&sink.store).iter().sum::<i32>(), i32::try_from(count).unwrap());
            clock.advance(Duration::from_secs(if expires { 3600 } else { 0 }));
        }
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!([stats.created, stats.updated, stats.recreated, stats.retried], outcome, "{stats:?}");
        assert_eq!((stats.panics, stats.watcher.panics, stats.lost()), (1, 0, 0));
    }
}

/// If a recording starts while events are being published, it appears in the statistics as of its
/// first event.
#[test]
fn a_recording_is_listed_before_it_does_anything() {
    for _ in 0..100 {
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let own = Arc::downgrade(&events);
        let unlisted = Arc::new(AtomicU64::new(0));
        let counter = unlisted.clone();
        let (sink, _calls) = Scripted::new(&clock(), move |_, _| {
            let listed = own.upgrade().is_none_or(|events| !events.stats().recordings.is_empty());
            counter.fetch_add(u64::from(!listed), Ordering::Relaxed);
            Ok(())
        });
        let (ready_tx, ready) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| {
                ready_tx.send(()).unwrap();
                let recorder = events.recorder("tester");
                for _ in 0..200 {
                    let _ = recorder.event(pod("a"), Normal, "Started", "");
                }
            });
            ready.recv_timeout(LONG).unwrap();
            events.record_to(sink).unwrap();
        });
        events.shutdown();
        assert_eq!(unlisted.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn recordings_have_names_and_ended_ones_stay_in_the_sums() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    for i in 0..70 {
        let recording = events.record_to(sink.store.clone()).unwrap();
        let expected = if i == 0 { "recording".to_owned() } else { format!("recording-{}", i + 1) };
        assert_eq!(recording.stats().watcher.name, expected);
        // Each new recording counts from one again.
        record(&events, "web-0", "Started");
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
