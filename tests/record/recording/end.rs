//! A recording that is stopped, given up or left behind.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::record::LossReason;
use eventcast::{EventBroadcaster, OverflowPolicy};

use crate::support::{LONG, Scripted, assert_balanced, clock, gate, record, until};

use super::{broadcaster, retry};

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
    // These events are pending while the sink has the first one.
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
    assert_eq!((stats.watcher.name.as_str(), stats.created, stats.watcher.offered), ("hanging", 0, 3));
    assert_eq!(report.recordings[1].created, 3);
    assert_balanced(&report.recordings[1]);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete, "the sink still hangs");

    // The sink returns: its event is stored, and the others have been abandoned.
    drop(gate);
    let end = events.shutdown();
    assert_eq!((end.complete, end.recordings[0].created, end.threads_ended), (false, 1, true));
    assert_eq!(events.shutdown(), end, "every later call gets the same report");
    assert!(hung.join(LONG));
    let stats = hung.stats();
    // Chance decides whether the recording or its queue has the two others at the deadline.
    assert_eq!((stats.created, stats.abandoned + stats.watcher.dropped.abandoned), (1, 2));
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
                losses_tx.send((loss.reason, loss.place.to_owned(), loss.count)).unwrap();
            })
            .build()
            .unwrap(),
    );
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    // With this policy one event stays in the queue beside the one that the sink has.
    let recording = events.recording().queue_len(1).overflow(OverflowPolicy::DropOldest).start(sink).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "b", "Started");
    until(|| recording.stats().watcher.queued == 2);
    let closing = events.clone();
    let shutdown = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(5)));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(5));
    assert!(!shutdown.join().unwrap().complete);
    assert!(losses.try_recv().is_err(), "the sink has them still");

    drop(gate);
    assert!(recording.join(LONG));
    // No caller asks for another report, so the recording reports the event when it discards it.
    let abandoned = LossReason::Dropped(eventcast::stats::DropReason::Abandoned);
    assert_eq!(losses.recv_timeout(LONG), Ok((abandoned, "recording".to_owned(), 1)));
    until(|| recording.stats().watcher.lag == 0);
    assert_eq!(recording.stats().watcher.dropped.abandoned, 1);
    events.shutdown();
    assert!(losses.try_recv().is_err(), "told once");
}

/// The dispatcher is still in the filter of a recording that has ended at its deadline. The event
/// that the filter accepts afterwards is reported as abandoned, once.
#[test]
fn an_event_that_is_accepted_after_the_end_is_told_too() {
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            losses_tx.send((loss.reason, loss.place.to_owned(), loss.count)).unwrap();
        })
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let filter = move |_: &eventcast::Event| {
        pass();
        true
    };
    let recording = events.recording().filter(filter).start(eventcast::MemorySink::new()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    assert!(recording.join(LONG));
    assert!(losses.try_recv().is_err(), "the event is not lost yet");
    drop(gate);
    let abandoned = LossReason::Dropped(eventcast::stats::DropReason::Abandoned);
    assert_eq!(losses.recv_timeout(LONG), Ok((abandoned, "recording".to_owned(), 1)));
    events.shutdown();
    assert_eq!(recording.stats().watcher.dropped.abandoned, 1);
    assert!(losses.try_recv().is_err(), "told once");
}

/// Events that are abandoned while they wait for their turn are reported in the order in which they
/// were recorded.
#[test]
fn abandoned_events_are_told_in_their_order() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.events[0].reason.to_string())).unwrap())
        .build()
        .unwrap();
    // The sink stops at each new event whose reason begins with `Held`.
    let (held_tx, held) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let gate = std::sync::Mutex::new(gate);
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        if op.event().reason.starts_with("Held") {
            held_tx.send(()).unwrap();
            let _ = gate.lock().unwrap().recv();
        }
        Ok(())
    });
    // The correlator calls the function at the end of each decision. The event is then pending.
    let (decided_tx, decided) = mpsc::channel();
    let options = eventcast::CorrelatorOptions::default().spam_key(move |event| {
        let _ = decided_tx.send(());
        event.involved_object.name.clone()
    });
    let recording = events.recording().correlator(options).start(sink).unwrap();
    let decide = |reason: &str| {
        record(&events, "web-0", reason);
        decided.recv_timeout(LONG).unwrap();
    };
    // Three events wait together, and are then stored. Later ones take their slots in another
    // order.
    ["Held-1", "A", "B", "C"].into_iter().for_each(decide);
    held.recv_timeout(LONG).unwrap();
    go.send(()).unwrap();
    events.flush(LONG).unwrap();
    decide("Held-2");
    held.recv_timeout(LONG).unwrap();
    let reasons = ["D", "E", "F", "G", "H"];
    reasons.into_iter().for_each(decide);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    let told = reasons.map(|_| losses.recv_timeout(LONG).unwrap());
    assert_eq!(told, reasons.map(|reason| (LossReason::Abandoned, reason.to_owned())));
    drop(go);
    assert!(recording.join(LONG));
    assert_balanced(&recording.stats());
}

// ── accounting ──
