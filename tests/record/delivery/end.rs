//! A recording ends immediately, whatever it is waiting for, and every loss is reported.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::record::LossReason;
use eventcast::stats::DropReason;
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventType, MemorySink, OverflowPolicy, SinkError,
};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, away, clock, clocked, every_ten_seconds, gate, pod, record,
    shutdown_late, tried, until, with_losses,
};

use super::{broadcaster, reason_of, retry, with_policy, without_budget};

/// client-go's `TestCancelEvent`: each event that remains when the shutdown begins gets one more
/// attempt, whether the store fails or is unavailable, and all pauses end immediately.
#[test]
fn after_the_end_has_begun_every_event_is_tried_once() {
    let errors: [(fn() -> SinkError, usize); 2] = [(retry, 4), (away, 1)];
    for (error, before) in errors {
        let clock = clock();
        let (events, losses) = with_losses(clocked(&clock), |loss| (loss.reason, loss.count));
        let (sink, calls) = Scripted::new(&clock, move |_, _| Err(error()));
        events.record_to(sink.clone()).unwrap();
        for reason in ["A", "B", "C", "D"] {
            record(&events, "web-0", reason);
            if reason == "A" || before > 1 {
                tried(&calls, &clock);
            }
        }
        until(|| events.stats().recordings[0].watcher.queued == 4);
        // The clock is not advanced, so the shutdown returns only if no thread waits for the clock.
        let report = events.shutdown();
        assert!(!report.complete);
        let mut last: Vec<_> = sink.calls()[before..].iter().map(reason_of).collect();
        last.sort();
        assert_eq!(last, ["A", "B", "C", "D"], "each has had one more after {}", error());
        assert_eq!(report.recordings[0].abandoned, 4);
        assert_balanced(&report.recordings[0]);
        assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Abandoned, 1); 4]);
        assert_eq!(clock.waiters(), 0);
    }
}

#[test]
fn a_store_that_is_found_unavailable_at_the_very_end_delays_nothing() {
    let clock = clock();
    let events = with_policy(&clock, every_ten_seconds());
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| match number {
        0 => {
            pass();
            Ok(())
        }
        _ => Err(away()),
    });
    let recording = events.record_to(sink.clone()).unwrap();
    // This watcher ends after the recording does, because the recording was registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-0", "First");
    gate.wait();
    for reason in ["A", "A", "B", "B", "C", "C", "D", "D"] {
        record(&events, "web-0", reason);
    }
    // A repeat does not use any capacity.
    until(|| recording.stats().watcher.offered == 9 && recording.stats().watcher.lag == 5);
    events.close();
    assert_eq!(witness.events().count(), 9);
    drop(gate);
    // The clock is not advanced.
    assert!(!events.shutdown().complete);
    assert_eq!((recording.stats().created, recording.stats().abandoned), (1, 8));
    assert_eq!(sink.calls().len(), 5, "each event was tried once");
    assert_balanced(&recording.stats());
}

#[test]
fn an_end_that_begins_while_an_event_is_taken_in_is_not_slept_through() {
    for stops in [false, true] {
        let clock = clock();
        let events = clocked(&clock).drop_timeout(Duration::ZERO).build().unwrap();
        let (sink, calls) = Scripted::new(&clock, |_, _| Err(SinkError::retry("busy")));
        // The recording is processing the second event. The recording has already checked whether
        // the shutdown has begun, and is not asleep yet.
        let (gate, pass) = gate();
        let seen = AtomicUsize::new(0);
        let options = CorrelatorOptions::default().spam_key(move |_| {
            if seen.fetch_add(1, Ordering::SeqCst) == 1 {
                pass();
            }
            "all".into()
        });
        // These two events fill the queue, so the recording accepts no more events. The dispatcher
        // holds the third event and waits for capacity.
        let builder = events.recording().correlator(options).queue_capacity(2).overflow(OverflowPolicy::Wait);
        let recording = builder.start(sink).unwrap();
        record(&events, "web-0", "Started");
        calls.recv_timeout(LONG).unwrap();
        record(&events, "web-0", "Started");
        gate.wait();
        record(&events, "web-0", "Started");
        until(|| recording.stats().watcher.offered == 3);
        if stops {
            recording.stop();
        } else {
            events.close();
        }
        drop(gate);
        // The clock is not advanced, so only the shutdown can end the pause.
        until(|| recording.join(Duration::ZERO));
        assert!(!events.shutdown().complete);
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!(stats.abandoned + stats.watcher.dropped.total(), 3, "{stats}");
    }
}

#[test]
fn events_after_a_write_that_hangs_are_abandoned_at_the_deadline() {
    let clock = clock();
    let builder = clocked(&clock).retry(at_once()).drop_timeout(Duration::ZERO);
    let (events, losses) = with_losses(builder, |loss| (loss.reason, loss.count));
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        if op.event().reason == "Hang" {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().workers(2).start(sink).unwrap();
    record(&events, "web-0", "Hang");
    gate.wait();
    // The other worker writes these events.
    for i in 0..40 {
        record(&events, &format!("web-{i}"), "Started");
    }
    // These events wait for the hanging operation to finish.
    for _ in 0..3 {
        record(&events, "web-0", "Hang");
    }
    until(|| recording.stats().watcher.offered == 44 && recording.stats().created == 40);
    thread::scope(|scope| {
        let ending = scope.spawn(|| events.shutdown_timeout(Duration::from_secs(5)));
        clock.wait_for_waiters(1);
        // Gives the recording time to go back to sleep, because only a sleeping recording has to be
        // woken.
        (0..1000).for_each(|_| thread::yield_now());
        clock.advance(Duration::from_secs(5));
        assert!(!ending.join().unwrap().complete);
    });
    // The sink is still hanging.
    let mut lost = 0;
    until(|| {
        for (reason, count) in losses.try_iter() {
            assert_eq!(reason, LossReason::Abandoned);
            lost += count;
        }
        lost == 3
    });
    assert!(!recording.join(Duration::ZERO));
    drop(gate);
    assert!(recording.join(LONG));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned), (41, lost));
}

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
    tried(&calls, &clock);
    // The stop must follow the offer of both events, or `b` would not be offered.
    until(|| other.stats().handled() == 2);
    stopped.stop();
    assert!(stopped.join(LONG));
    assert_eq!(stopped.stats().abandoned, 2);
    // The event that was tried before is tried once more, and the other event is tried once or
    // twice.
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
fn a_sink_that_hangs_delays_neither_others_nor_a_deadline() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, hanging) = Scripted::gated(&clock, ..);
    let hung = events.recording().name("hanging").start(hanging.clone()).unwrap();
    let healthy = Scripted::obedient(&clock);
    let other = events.recording().name("healthy").start(healthy.clone()).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    // These events are pending while the sink processes the first one.
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| other.stats().watcher.delivered == 3);

    let report = shutdown_late(&events, &clock);
    assert!(!report.complete);
    assert_eq!(healthy.store.len(), 3);
    let stats = &report.recordings[0];
    assert_eq!((stats.watcher.name.as_str(), stats.created, stats.watcher.offered), ("hanging", 0, 3));
    assert_eq!(report.recordings[1].created, 3);
    assert_balanced(&report.recordings[1]);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete, "the sink is still hanging");

    // The sink returns, so its event is stored. The other events have already been abandoned.
    drop(gate);
    let end = events.shutdown();
    assert_eq!((end.complete, end.recordings[0].created, end.threads_ended), (false, 1, true));
    assert_eq!(events.shutdown(), end, "every later call gets the same report");
    assert!(hung.join(LONG));
    let stats = hung.stats();
    // At the deadline, the two other events may be in either the recording or its queue.
    assert_eq!((stats.created, stats.abandoned + stats.watcher.dropped.abandoned), (1, 2));
    assert_balanced(&stats);
}

#[test]
fn an_event_in_an_abandoned_queue_is_reported_once() {
    let clock = clock();
    let (events, losses) =
        with_losses(clocked(&clock), |loss| (loss.reason, loss.place.to_owned(), loss.count));
    let (gate, sink) = Scripted::gated(&clock, ..);
    // With this policy, one event stays in the queue while the sink processes another.
    let recording =
        events.recording().queue_capacity(1).overflow(OverflowPolicy::DropOldest).start(sink).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    record(&events, "b", "Started");
    until(|| recording.stats().watcher.queued == 2);
    assert!(!shutdown_late(&events, &clock).complete);
    assert!(losses.try_recv().is_err(), "they are still in the sink");

    drop(gate);
    assert!(recording.join(LONG));
    // No caller requests another report, so the recording reports the event when it discards it.
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    assert_eq!(losses.recv_timeout(LONG), Ok((abandoned, "recording".to_owned(), 1)));
    until(|| recording.stats().watcher.lag == 0);
    assert_eq!(recording.stats().watcher.dropped.abandoned, 1);
    events.shutdown();
    assert!(losses.try_recv().is_err(), "reported once");
}

/// The dispatcher is still running the filter of a recording that ended at its deadline. The event
/// that the filter then accepts is reported as abandoned, once.
#[test]
fn an_event_that_is_accepted_after_the_end_is_reported_once() {
    let (events, losses) =
        with_losses(EventBroadcaster::builder(), |loss| (loss.reason, loss.place.to_owned(), loss.count));
    let (gate, pass) = gate();
    let filter = move |_: &Event| {
        pass();
        true
    };
    let recording = events.recording().filter(filter).start(MemorySink::new()).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    assert!(recording.join(LONG));
    assert!(losses.try_recv().is_err(), "the event is not lost yet");
    drop(gate);
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    assert_eq!(losses.recv_timeout(LONG), Ok((abandoned, "recording".to_owned(), 1)));
    events.shutdown();
    assert_eq!(recording.stats().watcher.dropped.abandoned, 1);
    assert!(losses.try_recv().is_err(), "reported once");
}

/// Events abandoned while waiting for their turn are reported in the order in which they were
/// recorded.
#[test]
fn abandoned_events_are_reported_in_their_order() {
    let clock = clock();
    let (events, losses) =
        with_losses(clocked(&clock), |loss| (loss.reason, loss.events[0].reason.to_string()));
    // The sink blocks at each new event whose reason begins with `Held`.
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        if op.event().reason.starts_with("Held") {
            pass();
        }
        Ok(())
    });
    // The correlator calls the function at the end of each decision. The event is then pending.
    let (decided_tx, decided) = mpsc::channel();
    let options = CorrelatorOptions::default().spam_key(move |event| {
        let _ = decided_tx.send(());
        event.involved_object.name.clone()
    });
    let recording = events.recording().correlator(options).start(sink).unwrap();
    let decide = |reason: &str| {
        record(&events, "web-0", reason);
        decided.recv_timeout(LONG).unwrap();
    };
    // Three events wait at the same time and are then stored. Later events reuse their slots in a
    // different order.
    ["Held-1", "A", "B", "C"].into_iter().for_each(decide);
    gate.wait();
    gate.let_one_pass();
    events.flush(LONG).unwrap();
    decide("Held-2");
    gate.wait();
    let reasons = ["D", "E", "F", "G", "H"];
    reasons.into_iter().for_each(decide);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    let lost = reasons.map(|_| losses.recv_timeout(LONG).unwrap());
    assert_eq!(lost, reasons.map(|reason| (LossReason::Abandoned, reason.to_owned())));
    drop(gate);
    assert!(recording.join(LONG));
    assert_balanced(&recording.stats());
}

/// A deadline passes while the sink hangs. Losing a write means losing all the events that it
/// carries, and the hook receives the newest of these events.
#[test]
fn events_that_share_a_write_are_abandoned_together() {
    let clock = clock();
    let (events, losses) = with_losses(clocked(&clock), |loss| {
        (loss.reason, loss.count, loss.events[0].reason.to_string(), loss.events[0].count)
    });
    let (gate, sink) = Scripted::gated(&clock, ..);
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    gate.wait();
    for reason in ["A", "B", "B", "A", "B", "A"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.offered == 7 && recording.stats().watcher.lag == 3);
    assert!(!shutdown_late(&events, &clock).complete);
    let lost: Vec<_> = (0..2).map(|_| losses.recv_timeout(LONG).unwrap()).collect();
    let abandoned = |reason: &str, count, newest| (LossReason::Abandoned, count, reason.to_owned(), newest);
    assert_eq!(lost, [abandoned("A", 3, 4), abandoned("B", 3, 3)]);
    drop(gate);
    assert!(recording.join(LONG));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned, stats.coalesced), (1, 6, 0));
    assert!(losses.try_recv().is_err());
    assert_eq!(sink.shorts(), ["create A x1"]);
}

/// The sink of a recording with the `Wait` policy hangs forever. Recorders do not block, and refuse
/// events once all queues are full. The report is made at the deadline and counts the abandoned
/// events.
#[test]
fn a_sink_that_hangs_forever_is_abandoned_at_the_deadline() {
    let clock = clock();
    let options = eventcast::BusOptions::default().incoming_capacity(2).queue_capacity(2);
    let events = clocked(&clock).bus(options).build().unwrap();
    let (gate, sink) = Scripted::gated(&clock, ..);
    let recording = events.recording().queue_capacity(2).overflow(OverflowPolicy::Wait).start(sink).unwrap();
    let recorder = events.recorder("tester");
    // Records until the sink is processing one event, the recording's queue is full, the dispatcher
    // is waiting, and the incoming queue is full.
    let mut accepted = 0;
    while accepted < 5 || events.stats().bus.accepted + 2 != accepted {
        let recorded = recorder.event(pod(&format!("pod-{accepted}")), EventType::Normal, "Started", "");
        accepted += u64::from(recorded.is_accepted());
    }
    gate.wait();
    let report = events.shutdown_timeout(Duration::ZERO);
    assert!(!report.complete);
    let stats = recording.stats();
    assert!(stats.created == 0 && !recording.join(Duration::ZERO), "it is still in the sink");
    // The recording abandons the rest as soon as the sink returns.
    drop(gate);
    assert!(recording.join(LONG));
    // The dispatcher, on its own thread, counts the events that had not reached the recording yet.
    until(|| recording.stats().watcher.lag == 0 && recording.stats().watcher.offered == accepted);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert!(stats.watcher.dropped.abandoned > 0, "{stats}");
    // The sink still writes the one or two events that it had already received.
    assert!((1..=2).contains(&stats.created), "{stats}");
}
