//! Names that are taken, answers that are lost, and errors that get no other attempt.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, pod, record, short};

use super::broadcaster;

/// A sink that stores, but whose first answers get lost.
struct Forgetful {
    store: MemorySink,
    lost: AtomicUsize,
    says_which: bool,
}

impl EventSink for Forgetful {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let answer = self.store.create(event);
        if self.lost.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Err(SinkError::retry("the connection was closed"));
        }
        self.lost.store(0, Ordering::SeqCst);
        answer.map_err(|error| {
            if self.says_which {
                error
            } else {
                SinkError::new(SinkErrorKind::AlreadyExists, "somebody has this name")
            }
        })
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.store.update(event)
    }
}

#[test]
fn a_creation_whose_answer_was_lost_is_a_success() {
    for says_which in [true, false] {
        let clock = clock();
        let events = broadcaster(&clock, at_once());
        let store =
            MemorySink::with_clock(eventcast::sink::MemorySinkOptions::default(), clock.clock()).unwrap();
        let sink = Forgetful { store: store.clone(), lost: AtomicUsize::new(1), says_which };
        let recording = events.record_to(sink).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        let stats = recording.stats();
        assert_eq!((stats.created, stats.updated, stats.already_existed, stats.retried), (1, 1, 0, 1));
        assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [2]);
        assert_balanced(&stats);
    }
}

#[test]
fn an_event_whose_name_another_one_has_gets_a_new_name_and_keeps_it() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let taken = Arc::new(Mutex::new(None::<Event>));
    let other = taken.clone();
    let (sink, _calls) = Scripted::new(&clock, move |number, op| {
        if number > 0 {
            return Ok(());
        }
        // Another writer was quicker with the very same name.
        let mut foreign = event_of(op).clone();
        foreign.reason = "Foreign".into();
        foreign.involved_object.uid = "another".into();
        *other.lock().unwrap() = Some(foreign.clone());
        Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken").with_stored(foreign))
    });
    let recording = events.record_to(sink.clone()).unwrap();
    for _ in 0..3 {
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
    }
    let first = taken.lock().unwrap().clone().unwrap().metadata.name;
    let names: Vec<_> = sink.calls().iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!(names[0], first);
    assert!(names[1] != first && names[1].starts_with("web-0."), "{names:?}");
    assert_eq!(names[2..], [names[1].clone(), names[1].clone()]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.retried), (1, 2, 1));
    assert_eq!(sink.store.events()[0].count, 3);
}

/// The store returns the event that has the name already. It is the recording's own only if it
/// agrees in each of these fields. Otherwise the new event gets another name.
#[test]
fn an_event_of_the_same_name_is_ours_only_if_everything_agrees() {
    type Change = fn(&mut Event);
    let changes: [(&str, Change); 11] = [
        ("nothing", |_| ()),
        ("kind", |event| event.involved_object.kind = "Node".into()),
        ("namespace", |event| event.involved_object.namespace = "another".into()),
        ("object", |event| event.involved_object.name = "web-1".into()),
        ("uid", |event| event.involved_object.uid = "another".into()),
        ("component", |event| event.source.component = "another".into()),
        ("host", |event| event.source.host = "another".into()),
        ("first time", |event| event.first_timestamp = None),
        ("type", |event| event.type_ = "Warning".into()),
        ("reason", |event| event.reason = "Another".into()),
        ("message", |event| event.message = "another".into()),
    ];
    for (field, change) in changes {
        let clock = clock();
        let events = broadcaster(&clock, at_once());
        let (sink, _calls) = Scripted::new(&clock, move |number, op| {
            if number > 0 {
                return Ok(());
            }
            let mut other = event_of(op).clone();
            change(&mut other);
            Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken").with_stored(other))
        });
        let recording = events.record_to(sink.clone()).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        let names: HashSet<_> = sink.calls().iter().map(|op| event_of(op).metadata.name.clone()).collect();
        assert_eq!(names.len(), if field == "nothing" { 1 } else { 2 }, "{field}");
        assert_eq!((recording.stats().created, recording.stats().lost()), (1, 0), "{field}");
    }
}

#[test]
fn a_group_whose_name_is_taken_goes_by_its_new_name_from_then_on() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |number, op| match op {
        SinkOp::Create(event) if event.message.starts_with("(combined") && number < 10 => {
            Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken"))
        }
        _ => Ok(()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..12 {
        recorder.event(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
        events.flush(LONG).unwrap();
    }
    let calls = sink.calls();
    let names: Vec<_> = calls[9..].iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!(
        calls[9..].iter().map(short).collect::<Vec<_>>()[1..],
        ["create Pulled x1", "patch Pulled x2", "patch Pulled x3"]
    );
    assert!(names[0] != names[1] && names[1] == names[2] && names[1] == names[3], "{names:?}");
    assert_eq!((recording.stats().created, recording.stats().updated), (10, 2));
}

#[test]
fn a_name_is_changed_once_only() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.to_string())).unwrap())
        .build()
        .unwrap();
    let (sink, _calls) =
        Scripted::new(&clock, |_, _| Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken")));
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let names: HashSet<_> = sink.calls().iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!((sink.calls().len(), names.len()), (2, 2));
    assert_eq!(recording.stats().already_existed, 1);
    let text = "recording: 1 event lost (already exists): Pod/web-0 Started: already exists: taken";
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::AlreadyExists, text.to_owned())]);
}

// ── batches ──
