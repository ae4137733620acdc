//! Shutdown, close and drop.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::{FlushError, WatchError};
use eventcast::record::LossReason;
use eventcast::stats::{EventBroadcasterReport, EventBroadcasterStats};
use eventcast::testing::FakeClock;
use eventcast::{EventBroadcaster, MemorySink, ObjectReference, Recorded, SinkError};
use test_support::until;

use crate::support::{LONG, Scripted, assert_balanced, clock, gate, pod, record};

use super::{broadcaster, collect};

/// client-go's `Shutdown` loses nearly all of these events.
#[test]
fn shutdown_finishes_every_handler_log_and_sink() {
    let events = EventBroadcaster::new().unwrap();
    let (seen, handler) = collect();
    events.spawn(handler).unwrap();
    let logged = Arc::new(AtomicUsize::new(0));
    let counter = logged.clone();
    events
        .log_to(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
        })
        .unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    let mut own = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("tester");
    for i in 0..500 {
        assert!(
            recorder.event(pod(&format!("web-{i}")), Normal, "Started", format_args!("{i}")).is_accepted()
        );
    }
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    assert_eq!(*seen.lock().unwrap(), (0..500).map(|i| i.to_string()).collect::<Vec<_>>());
    assert_eq!((logged.load(Ordering::Relaxed), store.len()), (500, 500));
    assert_eq!(report.recordings[0].created, 500);
    assert_balanced(&report.recordings[0]);
    assert_eq!(own.events().count(), 500, "what you read yourself stays readable");
    assert!(recorder.event(pod("late"), Normal, "Started", "") == Recorded::Closed);
}

#[test]
fn shutdown_can_be_called_by_anybody_at_any_time() {
    let events = EventBroadcaster::new().unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    record(&events, "web-0", "Started");
    let barrier = Barrier::new(4);
    let reports: Vec<EventBroadcasterReport> = thread::scope(|scope| {
        let calls: Vec<_> = (0..4)
            .map(|i| {
                let (events, barrier) = (&events, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    if i % 2 == 0 { events.shutdown() } else { events.shutdown_timeout(LONG) }
                })
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert!(reports[0].complete);
    assert!(reports.iter().all(|report| *report == reports[0]));
    assert_eq!(store.len(), 1);
    let text = serde_json::to_string(&reports[0]).unwrap();
    assert_eq!(serde_json::from_str::<EventBroadcasterReport>(&text).unwrap(), reports[0]);

    // Afterwards nothing can be started, and every call returns at once.
    assert!(matches!(events.record_to(store.clone()), Err(WatchError::Closed)));
    assert!(matches!(events.log_to(|_| ()), Err(WatchError::Closed)));
    assert!(matches!(events.spawn(|_| ()), Err(WatchError::Closed)));
    assert!(matches!(events.watch_builder().watch(), Err(WatchError::Closed)));
    assert_eq!(events.flush(LONG), Ok(()));
    assert_eq!(events.stats().recordings, reports[0].recordings);
}

/// client-go's `TestNonRacyShutdown`, with a shutdown while the recorders record.
#[test]
fn a_shutdown_among_recorders_loses_nothing_that_was_accepted() {
    for round in 0..20 {
        let events = EventBroadcaster::new().unwrap();
        let (seen, handler) = collect();
        events.spawn(handler).unwrap();
        let recorder = events.recorder("tester");
        let accepted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        let recorded = recorder.event(
                            ObjectReference::default(),
                            Normal,
                            "Started",
                            format_args!("blah"),
                        );
                        match recorded {
                            Recorded::Accepted => accepted.fetch_add(1, Ordering::Relaxed),
                            Recorded::Closed => 0,
                            other => panic!("{other}"),
                        };
                    }
                });
            }
            if round % 2 == 0 {
                scope.spawn(|| assert!(events.shutdown().complete));
            }
        });
        let report = events.shutdown();
        let accepted = accepted.into_inner();
        assert_eq!(seen.lock().unwrap().len(), accepted);
        assert_eq!(report.bus.accepted, accepted as u64);
        let stats = events.stats();
        assert_eq!(stats.bus.accepted + stats.recorder.refused(), 160);
        let text = serde_json::to_string(&stats).unwrap();
        assert_eq!(serde_json::from_str::<EventBroadcasterStats>(&text).unwrap(), stats);
    }
}

#[test]
fn close_waits_for_nobody_and_what_was_recorded_is_handled() {
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    let (seen, mut handler) = collect();
    events
        .spawn(move |event| {
            pass();
            handler(event);
        })
        .unwrap();
    record(&events, "web-0", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    events.close();
    assert_eq!(events.recorder("late").event(pod("web-0"), Normal, "Started", ""), Recorded::Closed);
    drop(gate);
    assert!(events.shutdown().complete);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

// ── dropping ──

#[test]
fn dropping_waits_for_handlers_and_sinks() {
    let clock = clock();
    let events = broadcaster(&clock);
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    let (seen, handler) = collect();
    events.spawn(handler).unwrap();
    for i in 0..100 {
        record(&events, &format!("web-{i}"), "Started");
    }
    drop(events);
    assert_eq!((store.len(), seen.lock().unwrap().len()), (100, 100));
}

#[test]
fn dropping_waits_no_longer_than_it_may_and_gives_nothing_up() {
    let clock = clock();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .drop_timeout(Duration::from_secs(3))
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let dropping = thread::spawn(move || drop(events));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(2_999));
    assert!(!dropping.is_finished());
    clock.advance(Duration::from_millis(1));
    dropping.join().unwrap();
    assert!(calls.try_recv().is_err(), "nothing has been stored yet");

    drop(gate);
    assert!(recording.join(LONG));
    assert_eq!(sink.store.len(), 2);
    assert_balanced(&recording.stats());
}

/// The losses that the hook of a broadcaster receives: reason, place and count.
type Losses = mpsc::Receiver<(LossReason, String, u64)>;

/// Returns a broadcaster whose drop waits for three seconds, and its losses.
fn waiting_three_seconds(clock: &FakeClock) -> (EventBroadcaster, Losses) {
    let (lost, losses) = mpsc::channel();
    let builder = EventBroadcaster::builder().clock(clock.clock()).drop_timeout(Duration::from_secs(3));
    let builder = builder.on_loss(move |loss| {
        assert!(loss.events.is_empty() || loss.reason != LossReason::LeftBehind);
        let _ = lost.send((loss.reason, loss.place.to_owned(), loss.count));
    });
    (builder.build().unwrap(), losses)
}

/// Drops a broadcaster, and lets the time pass for which the drop waits.
fn drop_late(clock: &FakeClock, events: EventBroadcaster) {
    let dropping = thread::spawn(move || drop(events));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(3));
    dropping.join().unwrap();
}

#[test]
fn events_that_a_drop_leaves_behind_are_reported_and_still_written() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let slow = events.recording().name("slow").start(sink.clone()).unwrap();
    let quick = events.recording().name("quick").start(MemorySink::new()).unwrap();
    for pod in 0..10 {
        record(&events, &format!("web-{pod}"), "Started");
    }
    until(|| slow.stats().watcher.offered == 10 && quick.stats().created == 10);
    drop_late(&clock, events);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::LeftBehind, "slow".to_owned(), 10)]);

    drop(gate);
    assert!(slow.join(LONG));
    assert_eq!((sink.store.len(), slow.stats().created, slow.stats().lost()), (10, 10, 0));
    assert_eq!(losses.try_iter().count(), 0);
}

/// The report at the drop is none of a loss, so a loss that follows is reported as ever.
#[test]
fn an_event_that_is_lost_after_a_drop_is_counted_once() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Err(SinkError::rejected("full"))
    });
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    until(|| recording.stats().watcher.offered == 1);
    drop_late(&clock, events);
    drop(gate);
    assert!(recording.join(LONG));
    let reasons: Vec<_> = losses.try_iter().map(|(reason, _, count)| (reason, count)).collect();
    assert_eq!(reasons, [(LossReason::LeftBehind, 1), (LossReason::Rejected, 1)]);
    assert_eq!((recording.stats().rejected, recording.stats().lost()), (1, 1));
}

#[test]
fn a_log_and_a_handler_that_a_drop_leaves_behind_are_reported() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let [(log_gate, log_pass), (handler_gate, handler_pass)] = [gate(), gate()];
    let log = events.log_to(move |_| log_pass()).unwrap();
    let handler = events.spawn(move |_| handler_pass()).unwrap();
    for pod in 0..3 {
        record(&events, &format!("web-{pod}"), "Started");
    }
    for gate in [&log_gate, &handler_gate] {
        gate.entered.recv_timeout(LONG).unwrap();
    }
    until(|| [&log, &handler].iter().all(|handle| handle.stats().offered == 3));
    let name = handler.stats().name;
    drop_late(&clock, events);
    let told: Vec<_> = losses.try_iter().collect();
    let told: Vec<_> = told.iter().map(|(_, place, count)| (place.as_str(), *count)).collect();
    assert_eq!(told, [("logging", 3), (name.as_str(), 3)], "with the event that is being handled");
    drop((log_gate, handler_gate));
    assert!(log.join(LONG) && handler.join(LONG));
}

#[test]
fn a_drop_in_time_reports_nothing() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    events.record_to(MemorySink::new()).unwrap();
    events.log_to(|_| ()).unwrap();
    record(&events, "web-0", "Started");
    drop(events);
    assert_eq!(losses.try_iter().count(), 0);
}

#[test]
fn dropping_does_not_wait_when_told_so() {
    let clock = clock();
    let events =
        EventBroadcaster::builder().clock(clock.clock()).drop_timeout(Duration::ZERO).build().unwrap();
    let (gate, pass) = gate();
    let handler = events.spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    // The clock stands still, so any wait would last for ever.
    drop(events);
    assert!(!handler.join(Duration::ZERO));
    drop(gate);
    assert!(handler.join(LONG));
}

#[test]
fn dropping_on_a_thread_of_its_own_does_not_wait() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let last = Arc::new(Mutex::new(None::<Arc<EventBroadcaster>>));
    let taken = last.clone();
    let (tx, dropped) = mpsc::channel();
    let handler = events
        .spawn(move |_| {
            drop(taken.lock().unwrap().take());
            tx.send(()).unwrap();
        })
        .unwrap();
    record(&events, "a", "Started");
    let recorder = events.recorder("tester");
    // The handler may be waiting for the broadcaster already, or find it there later.
    *last.lock().unwrap() = Some(events);
    dropped.recv_timeout(LONG).unwrap();
    // If the handler was too early, the second event makes it drop the last owner.
    if last.lock().unwrap().is_some() {
        recorder.event(pod("b"), Normal, "Started", "");
    }
    assert!(handler.join(LONG));
    assert_eq!(recorder.event(pod("c"), Normal, "Started", ""), Recorded::Closed);
}

#[test]
fn a_test_that_fails_with_a_broadcaster_in_hand_does_not_hang() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    events.spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let failed = thread::spawn(move || {
        let _held = events;
        panic!("a test that fails");
    });
    assert!(failed.join().is_err());
    drop(gate);
}

// ── re-entrancy ──

#[test]
fn a_sink_may_use_the_broadcaster_it_serves() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let (answers_tx, answers) = mpsc::channel();
    let weak = Arc::downgrade(&events);
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        let Some(events) = weak.upgrade() else { return Ok(()) };
        if number == 0 {
            let flushed = events.flush(LONG);
            let recorded = events.recorder("sink").event(pod("sink"), Normal, "Stored", "");
            answers_tx.send((flushed, recorded, None)).unwrap();
        } else {
            let report = events.shutdown();
            answers_tx.send((Ok(()), Recorded::Closed, Some(report.complete))).unwrap();
        }
        Ok(())
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    assert_eq!(
        answers.recv_timeout(LONG).unwrap(),
        (Err(FlushError::WouldDeadlock), Recorded::Accepted, None)
    );
    assert_eq!(answers.recv_timeout(LONG).unwrap(), (Ok(()), Recorded::Closed, Some(false)));
    let report = events.shutdown();
    assert!(report.complete);
    assert_eq!(sink.store.len(), 2);
}

// ── hooks ──
