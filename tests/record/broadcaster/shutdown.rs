//! Shutdown, close and flush.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::WatchError;
use eventcast::stats::{EventBroadcasterReport, EventBroadcasterStats};
use eventcast::{BusOptions, Event, EventBroadcaster, MemorySink, ObjectReference, Recorded};

use crate::support::{LONG, Scripted, assert_balanced, clock, clocked, gate, logged, modes, pod, record};

use super::collect;

/// client-go's `Shutdown` loses nearly all of these events.
#[test]
fn shutdown_finishes_every_handler_log_and_sink() {
    for bus in modes() {
        let events = EventBroadcaster::builder().bus(bus).build().unwrap();
        let (seen, handler) = collect();
        events.spawn(handler).unwrap();
        let lines = logged(&events);
        let store = MemorySink::new();
        events.record_to(store.clone()).unwrap();
        let mut own = events.watch_builder().watch().unwrap();
        let recorder = events.recorder("tester");
        for i in 0..500 {
            let object = pod(&format!("web-{i}"));
            assert!(recorder.normal(object, "Started", format_args!("{i}")).is_accepted());
        }
        let report = events.shutdown();
        assert!(report.complete && report.is_clean(), "{report}");
        assert_eq!(*seen.lock().unwrap(), (0..500).map(|i| i.to_string()).collect::<Vec<_>>());
        assert_eq!((lines.lock().unwrap().len(), store.len()), (500, 500));
        assert_eq!(report.recordings[0].created, 500);
        assert_balanced(&report.recordings[0]);
        assert_eq!(own.events().count(), 500, "a watcher that you read stays readable");
        assert_eq!(recorder.normal(pod("late"), "Started", ""), Recorded::Closed);
    }
}

#[test]
fn shutdown_can_be_called_by_any_thread_at_any_time() {
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

    // After the shutdown, nothing can be started, and every call returns immediately.
    assert!(matches!(events.record_to(store.clone()), Err(WatchError::Closed)));
    assert!(matches!(events.log_to(|_| ()), Err(WatchError::Closed)));
    assert!(matches!(events.spawn(|_| ()), Err(WatchError::Closed)));
    assert!(matches!(events.watch_builder().watch(), Err(WatchError::Closed)));
    assert_eq!(events.flush(LONG), Ok(()));
    assert_eq!(events.stats().recordings, reports[0].recordings);
}

/// client-go's `TestNonRacyShutdown`, but with the shutdown happening while the recorders are
/// recording.
#[test]
fn a_shutdown_among_recorders_loses_nothing_that_was_accepted() {
    for round in 0..20 {
        let bus = BusOptions::default().inline(round % 4 < 2);
        let events = EventBroadcaster::builder().bus(bus).build().unwrap();
        let (seen, handler) = collect();
        events.spawn(handler).unwrap();
        let recorder = events.recorder("tester");
        let accepted = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20 {
                        match recorder.normal(ObjectReference::default(), "Started", "blah") {
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
fn close_does_not_wait_and_recorded_events_are_handled() {
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    let (seen, mut handler) = collect();
    let gated = move |event: &Event| {
        pass();
        handler(event);
    };
    events.spawn(gated).unwrap();
    record(&events, "web-0", "Started");
    gate.wait();
    events.close();
    assert_eq!(events.recorder("late").event(pod("web-0"), Normal, "Started", ""), Recorded::Closed);
    drop(gate);
    assert!(events.shutdown().complete);
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn a_flush_names_the_recording_that_is_late() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (gate, sink) = Scripted::gated(&clock, ..);
    events.recording().name("late").start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    gate.wait();
    thread::scope(|scope| {
        let flush = scope.spawn(|| events.flush(Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        // Once an event recorded after the flush has passed through the queue, the dispatcher has
        // handled the flush.
        let mut witness = events.watch_builder().watch().unwrap();
        record(&events, "web-1", "Started");
        witness.recv().unwrap();
        clock.advance(Duration::from_secs(1));
        let error = flush.join().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "the flush timed out, waiting for late");
    });
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(sink.store.len(), 2);
}

/// A flush, whether blocking or async, waits until the sink has written the events.
#[test]
fn a_flush_waits_for_the_sink() {
    for bus in modes() {
        let clock = clock();
        let events = clocked(&clock).bus(bus).build().unwrap();
        let sink = Scripted::obedient(&clock);
        events.record_to(sink.clone()).unwrap();
        for number in 0..200 {
            record(&events, &format!("web-{number}"), "Started");
            if number % 2 == 0 {
                events.flush(LONG).unwrap();
            } else {
                futures::executor::block_on(events.flush_async(LONG)).unwrap();
            }
            assert_eq!(sink.store.len(), number + 1);
        }
    }
}
