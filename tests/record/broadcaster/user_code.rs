//! User-supplied code that panics or calls back into the library.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::FlushError;
use eventcast::{BusOptions, Event, EventBroadcaster, Recorded, Recorder, SinkError};
use test_support::watched;

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, clocked, pod, record, until};

/// Each hook panics for one event, and everything else continues to work.
#[test]
fn a_panic_in_any_hook_stops_nothing() {
    let clock = clock();
    let (tx, losses) = mpsc::channel();
    let builder = clocked(&clock).scrub(|event| assert!(event.reason != "Scrub", "scrub"));
    let builder = builder.on_loss(move |loss| {
        tx.send(loss.reason).unwrap();
        panic!("on_loss");
    });
    let events = builder.build().unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, op| {
        assert!(op.event().reason != "Sink", "sink");
        Ok(())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    let handler = events.spawn(|event| assert!(event.reason != "Handler", "handler")).unwrap();
    let logging = events.log_to(|line| assert!(!line.contains("  Log  "), "log")).unwrap();
    let (dropped_tx, dropped) = mpsc::channel();
    let filter = |event: &Event| {
        assert!(event.reason != "Filter", "filter");
        true
    };
    let mut filtered = events.watch_builder().filter(filter).watch().unwrap();
    let hook = move |_, _: &[Event]| {
        dropped_tx.send(()).unwrap();
        panic!("on_drop");
    };
    let _full = events.watch_builder().queue_capacity(1).on_drop(hook).watch().unwrap();
    let recorder = events.recorder("tester");
    for reason in ["Scrub", "Sink", "Handler", "Log", "Filter", "Fine"] {
        let expected = if reason == "Scrub" { Recorded::ScrubPanicked } else { Recorded::Accepted };
        assert_eq!(recorder.event(pod("web-0"), Normal, reason, ""), expected);
        events.flush(LONG).unwrap();
    }
    let report = events.shutdown();
    assert!(report.complete, "{report}");
    let reasons: Vec<_> = sink.store.events().iter().map(|event| event.reason.to_string()).collect();
    assert_eq!(reasons, ["Handler", "Log", "Filter", "Fine"]);
    assert_eq!((recording.stats().rejected, recording.stats().panics), (1, 1));
    assert_balanced(&recording.stats());
    assert_eq!((handler.stats().panics, handler.stats().delivered), (1, 5));
    assert_eq!((logging.stats().panics, logging.stats().delivered), (1, 5));
    // A panic in a filter ends its watcher. Events that the watcher received earlier can still be
    // read.
    assert_eq!(filtered.events().count(), 3);
    assert!(dropped.try_recv().is_ok());
    // There is one loss each for the scrub function, the sink, the handler and the log.
    assert_eq!(losses.try_iter().count(), 4);
    assert_eq!(events.stats().recorder.hook_panics, 4);
}

/// A hook may call any method, on whichever thread reports the loss. Nothing hangs, and these calls
/// cause no losses.
#[test]
fn a_hook_may_call_everything() {
    watched(|| {
        let clock = clock();
        let slot: Arc<OnceLock<Arc<EventBroadcaster>>> = Arc::default();
        let own = slot.clone();
        let told = Arc::new(AtomicU64::new(0));
        let counter = told.clone();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .bus(BusOptions::default().queue_capacity(2))
            .retry(at_once())
            .on_loss(move |_| {
                let events = own.get().unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = events.flush(Duration::ZERO);
                let _ = events.stats().to_string();
                let recorder = events.recorder("hook");
                let _ = recorder.event(pod("hook"), Normal, "FromHook", "");
                if let Ok(handle) = events.spawn(|_| ()) {
                    handle.stop();
                    let _ = handle.join(Duration::ZERO);
                }
                let _ = events.shutdown_timeout(Duration::ZERO);
            })
            .build()
            .unwrap();
        let events = slot.get_or_init(|| Arc::new(events));
        let (sink, _calls) = Scripted::new(&clock, |_, _| Err(SinkError::rejected("no")));
        let recording = events.record_to(sink).unwrap();
        let _full = events.watch_builder().name("full").queue_capacity(1).watch().unwrap();
        let recorder = events.recorder("tester");
        // The losses occur on this thread, on the dispatcher and on the recording's thread.
        recorder.event(pod("a"), Normal, "", "");
        assert_eq!(recorder.event(pod("a"), Normal, "R", ""), Recorded::Closed);
        assert!(recording.join(Duration::MAX));
        assert!(told.load(Ordering::Relaxed) >= 2);
        // The dispatcher, on its own thread, counts the events that it was still offering to the
        // recording.
        let mut stats = recording.stats();
        until(|| {
            stats = recording.stats();
            stats.watcher.lag == 0
        });
        assert_balanced(&stats);
    });
}

#[test]
fn a_sink_may_use_the_broadcaster_that_it_serves() {
    let clock = clock();
    let events = Arc::new(clocked(&clock).build().unwrap());
    let (answers_tx, answers) = mpsc::channel();
    let weak = Arc::downgrade(&events);
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        let Some(events) = weak.upgrade() else { return Ok(()) };
        let ended = number > 0 && events.shutdown().complete;
        let recorded = events.recorder("sink").normal(pod("sink"), "Stored", "");
        answers_tx.send((events.flush(LONG), recorded, ended)).unwrap();
        Ok(())
    });
    events.record_to(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    for recorded in [Recorded::Accepted, Recorded::Closed] {
        let expected = (Err(FlushError::WouldDeadlock), recorded, false);
        assert_eq!(answers.recv_timeout(LONG).unwrap(), expected);
    }
    let report = events.shutdown();
    assert!(report.complete);
    assert_balanced(&report.recordings[0]);
    assert_eq!(sink.store.len(), 2);
}

#[test]
fn a_hook_that_panics_or_records_does_no_harm() {
    let recorder: Arc<OnceLock<Recorder>> = Arc::default();
    let again = recorder.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            // A loss caused inside the hook is counted, but the hook is not called again for it.
            again.get().unwrap().event(pod("web-0"), Normal, "FromHook", "");
            assert_ne!(loss.events[0].reason, "A", "this one panics");
        })
        .build()
        .unwrap();
    events.close();
    let recorder = recorder.get_or_init(|| events.recorder("test"));
    assert_eq!(recorder.event(pod("web-0"), Normal, "A", ""), Recorded::Closed);
    assert_eq!(recorder.event(pod("web-0"), Normal, "B", ""), Recorded::Closed);
    let stats = recorder.stats();
    assert_eq!((stats.closed, stats.hook_panics), (4, 1));
    assert!(stats.to_string().ends_with("hook panics 1"), "{stats}");
}
