//! Which stored event a write applies to: its name and version, and names that are already taken.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::correlator::{Aggregation, SpamFilter};
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{CorrelatorOptions, Event, SinkError};

use crate::support::{
    LONG, Scripted, Submitting, assert_balanced, at_once, clock, gate, memory, pod, record, short, tried,
    until,
};

use super::{PAUSE, broadcaster, counts, only, with_policy, without_budget};

/// The correlator has evicted an event whose write is waiting, and has started another event with
/// the same key, which the spam filter skipped. A repeat of the other event does not change the
/// waiting write.
#[test]
fn a_repeat_of_another_event_does_not_replace_a_write() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) =
        Scripted::new(&clock, |number, _| if number == 0 { Err(SinkError::retry("busy")) } else { Ok(()) });
    // The budget allows a burst of two events and one more event per second.
    let budget = SpamFilter::default().burst(2).qps(1.0);
    let options = CorrelatorOptions::default().aggregation(None).spam_filter(budget).cache_size(1);
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    tried(&calls, &clock);
    record(&events, "web-0", "B");
    calls.recv_timeout(LONG).unwrap();
    record(&events, "web-0", "A");
    until(|| recording.stats().skipped == 1);
    clock.advance(Duration::from_secs(1));
    record(&events, "web-0", "A");
    for _ in 0..2 {
        calls.recv_timeout(LONG).unwrap();
    }
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    assert_eq!(sink.shorts(), ["create A x1", "create B x1", "patch A x2", "create A x2", "create A x1"]);
    let names = sink.names();
    assert!(names[0] == names[4] && names[2] == names[3] && names[0] != names[2], "{names:?}");
    let stored = sink.store.events();
    let count = |name: &String| stored.iter().find(|event| event.metadata.name == **name).unwrap().count;
    assert_eq!((count(&names[0]), count(&names[2])), (1, 2));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.skipped, stats.coalesced, stats.lost()), (1, 0, 0));
}

/// A recording decides several events at the same time, and writes the groups independently.
#[test]
fn the_groups_of_one_object_have_different_names_in_a_recording() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let options = CorrelatorOptions::default().aggregation(Aggregation::default().max_events(1));
    // Runs on the recording's thread, which therefore takes the later events together.
    let options = options.aggregate_key(move |event| {
        if event.reason == "First" {
            pass();
        }
        (event.reason.clone(), event.message.clone())
    });
    let sink = Scripted::new(&clock, |_, _| Ok(())).0;
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    // Registered later, so it receives each event after the recording.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-0", "First");
    gate.wait();
    for reason in ["Pulled", "Started", "Killing"] {
        record(&events, "web-0", reason);
    }
    for _ in 0..4 {
        witness.recv_timeout(LONG).unwrap();
    }
    // The events' own names have earlier numbers than the groups' names.
    clock.advance(Duration::from_secs(1));
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().aggregated, 4);
    let mut names = sink.names();
    names.sort_unstable();
    names.dedup();
    assert_eq!((sink.names().len(), names.len()), (4, 4), "no name was refused: {names:?}");
}

/// The store gives each new event a different name. A repeat that becomes pending while the store
/// creates the event is written with the name and version from the store's response.
#[test]
fn a_pending_write_has_the_name_and_version_of_the_stored_event() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let store = memory(&clock);
    let ops: Arc<Mutex<Vec<SinkOp>>> = Arc::default();
    let (stored, seen) = (store.clone(), ops.clone());
    let sink = Submitting(SinkMode::Batches, move |batch: SinkBatch| {
        batch.answer_each(|mut op| {
            seen.lock().unwrap().push(op.clone());
            if let SinkOp::Create(event) = &mut op {
                pass();
                event.metadata.name = format!("stored-{}", event.metadata.name).into();
            }
            op.apply_to(&stored).map(Stored::from).map_err(|error| op.failed(error))
        });
    });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    record(&events, "web-0", "Started");
    gate.wait();
    (0..2).for_each(|_| record(&events, "web-0", "Started"));
    // The event in the sink counts against the queue, as does one event of the pending write.
    until(|| recording.stats().watcher.offered == 3 && recording.stats().watcher.lag == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    let version = only(&store).metadata.resource_version().to_string();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let ops = ops.lock().unwrap();
    let expected = ["create Started x1", "patch Started x3", "patch Started x4"];
    assert_eq!(ops.iter().map(short).collect::<Vec<_>>(), expected);
    let name = format!("stored-{}", ops[0].event().metadata.name);
    assert!(ops[1..].iter().all(|op| op.event().metadata.name == *name), "{ops:?}");
    let versions: Vec<_> = ops.iter().map(|op| op.event().metadata.resource_version().as_str()).collect();
    assert_eq!(versions, ["", "1", &*version]);
    assert_eq!(only(&store).count, 4);
    assert_balanced(&recording.stats());
}

/// The store's response about an event counts as a use of the correlator's entry for that event. An
/// event that was decided before that response is evicted earlier.
#[test]
fn an_answer_of_the_store_keeps_an_event_in_the_cache() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number < 2 {
            pass();
        }
        Ok(())
    });
    // The correlator calls the function at the end of each decision.
    let (decided_tx, decided) = mpsc::channel();
    let options = CorrelatorOptions::default().aggregation(None).cache_size(2).spam_key(move |event| {
        let _ = decided_tx.send(event.reason.to_string());
        event.involved_object.name.clone()
    });
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    let decide = |reason: &str| {
        record(&events, "web-0", reason);
        assert_eq!(decided.recv_timeout(LONG).as_deref(), Ok(reason));
    };
    decide("A");
    gate.wait();
    decide("B");
    gate.let_one_pass();
    // The sink gets B after the recording has received the response about A.
    gate.wait();
    decide("C");
    decide("A");
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(sink.shorts(), ["create A x1", "create B x1", "create C x1", "patch A x2"]);
    assert_eq!(recording.stats().evicted, 1);
    assert_balanced(&recording.stats());
}

#[test]
fn every_answer_counts_for_the_next_patch() {
    let clock = clock();
    let events = with_policy(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |_, _| Ok(()));
    events.record_to(sink.clone()).unwrap();
    for _ in 0..4 {
        clock.advance(Duration::from_secs(1));
        record(&events, "a", "Started");
        events.flush(LONG).unwrap();
    }
    let versions: Vec<_> =
        sink.calls().iter().map(|op| op.event().metadata.resource_version().to_string()).collect();
    assert_eq!(versions, ["", "1", "2", "3"]);
}

#[test]
fn a_creation_whose_answer_was_lost_is_a_success() {
    for shows in [true, false] {
        let clock = clock();
        let events = with_policy(&clock, at_once());
        let (sink, _calls) = Scripted::lossy(&clock, 1, shows);
        let recording = events.record_to(sink.clone()).unwrap();
        for _ in 0..2 {
            record(&events, "web-0", "Started");
            events.flush(LONG).unwrap();
        }
        let stats = recording.stats();
        assert_eq!((stats.created, stats.updated, stats.already_existed, stats.retried), (1, 1, 0, 1));
        assert_eq!(counts(&sink.store), [2]);
        assert_balanced(&stats);
    }
}

/// Another writer was the first to use the same name, and the store returns that writer's event.
/// The recording treats the returned event as its own only if all of these fields match. Otherwise
/// the new event gets another name and keeps it.
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
        let events = with_policy(&clock, at_once());
        let (sink, _calls) = Scripted::new(&clock, move |number, op| {
            if number > 0 {
                return Ok(());
            }
            let mut other = op.event().clone();
            change(&mut other);
            Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken").with_stored(other))
        });
        let recording = events.record_to(sink.clone()).unwrap();
        for _ in 0..2 {
            record(&events, "web-0", "Started");
            events.flush(LONG).unwrap();
        }
        let names = sink.names();
        assert_eq!(names[1] == names[0], field == "nothing", "{field}");
        assert!(names[1..].iter().all(|name| *name == names[1] && name.starts_with("web-0.")), "{names:?}");
        let stats = recording.stats();
        assert_eq!((stats.created + stats.updated, stats.lost()), (2, 0), "{field}");
    }
}

#[test]
fn a_group_whose_name_is_taken_keeps_its_new_name() {
    let clock = clock();
    let events = with_policy(&clock, at_once());
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
    let names: Vec<_> = calls[9..].iter().map(|op| op.event().metadata.name.clone()).collect();
    assert_eq!(
        calls[9..].iter().map(short).collect::<Vec<_>>()[1..],
        ["create Pulled x1", "patch Pulled x2", "patch Pulled x3"]
    );
    assert!(names[0] != names[1] && names[1] == names[2] && names[1] == names[3], "{names:?}");
    assert_eq!((recording.stats().created, recording.stats().updated), (10, 2));
}
