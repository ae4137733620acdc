//! The outcome of each event, counted once.

use std::sync::{Arc, Mutex, mpsc};

use eventcast::EventType::Normal;
use eventcast::correlator::SpamFilter;
use eventcast::record::LossReason;
use eventcast::sink::SinkErrorKind;
use eventcast::{CorrelatorOptions, EventBroadcaster, OverflowPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record};

use super::{broadcaster, retry};

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
        .on_loss(move |loss| told.lock().unwrap().push(loss.reason))
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, op| match &*event_of(op).reason {
        "Exists" => Err(SinkError::new(SinkErrorKind::AlreadyExists, "")),
        "Rejected" => Err(SinkError::rejected("")),
        "Busy" => Err(retry()),
        "Panics" => panic!("a sink that panics"),
        _ => Ok(()),
    });
    let recording =
        events.recording().filter(|event| event.reason != "Filtered").start(sink.clone()).unwrap();
    // The first event is created and the second updated. Then the budget is used up, and the other
    // two are counted at the flush.
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
    // The last event was tried when the end had begun, or just before.
    assert_eq!(stats.exhausted + stats.abandoned, 2);
    assert!(stats.exhausted >= 1);
    assert_eq!((stats.watcher.offered, stats.watcher.filtered, report.bus.accepted), (10, 1, 11));
    let lost = losses.lock().unwrap();
    assert_eq!(lost.len() as u64, stats.handled() - stats.created - stats.updated - stats.skipped);
    assert_eq!(lost.iter().filter(|reason| **reason == LossReason::Rejected).count(), 2);
    assert_eq!(sink.store.events().iter().find(|e| e.reason == "Started").unwrap().count, 4);
}

#[test]
fn a_full_queue_loses_the_incoming_and_tells_which() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| {
            let names = loss.events.iter().map(|event| event.involved_object.name.to_string());
            losses_tx.send((loss.reason, loss.place.to_owned(), names.collect::<Vec<_>>())).unwrap();
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
    events.spawn(move |_| seen_tx.send(()).unwrap()).unwrap();
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
    let recording = events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..12 {
        recorder.event(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
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
