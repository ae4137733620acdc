//! Losses are told once, and what is over keeps nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::stats::{DropReason, RecordingStats};
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventSink, MemorySink, OverflowPolicy, SinkError,
};

use crate::support::{LONG, Scripted, assert_balanced, clock, gate, pod, record, until};

use super::{broadcaster, in_time};

#[test]
fn what_was_given_up_is_told_once_however_many_ask() {
    const THREADS: usize = 4;
    for _ in 0..200 {
        let clock = clock();
        let told = Arc::new(AtomicU64::new(0));
        let counter = told.clone();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .on_loss(move |loss| {
                counter.fetch_add(loss.count, Ordering::Relaxed);
            })
            .build()
            .unwrap();
        let (gate, pass) = gate();
        let handler = events.spawn(move |_| pass()).unwrap();
        for name in ["a", "b", "c"] {
            record(&events, name, "Started");
        }
        gate.entered.recv_timeout(LONG).unwrap();
        assert!(!events.shutdown_timeout(Duration::ZERO).complete);
        drop(gate);
        // The dispatcher may reach the last events only now. It then abandons them itself.
        until(|| handler.stats().dropped.abandoned == 2);
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    events.shutdown();
                });
            }
        });
        assert_eq!(told.load(Ordering::Relaxed), 2);
    }
}

/// The shutdown does not report again the events that the dispatcher abandoned and reported.
#[test]
fn what_a_watcher_was_waited_for_is_told_once() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason, loss.place.to_owned(), loss.count));
        })
        .build()
        .unwrap();
    let watcher =
        events.watch_builder().name("unread").queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    until(|| watcher.stats().dropped.abandoned == 2);
    events.shutdown();
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    let told = told.lock().unwrap();
    assert!(told.iter().all(|(reason, place, _)| *reason == abandoned && place == "unread"), "{told:?}");
    assert_eq!(told.iter().map(|(.., count)| count).sum::<u64>(), 2, "{told:?}");
}

/// A shutdown that gave up returns a snapshot. Once the sink has written its event after all, the
/// next call has the count. It is not complete, because a call gave up.
#[test]
fn a_report_after_an_incomplete_one_has_what_the_sink_did_since() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.record_to(sink).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let report = events.shutdown_timeout(Duration::ZERO);
    assert_eq!((report.complete, report.recordings[0].created), (false, 0));
    drop(gate);
    assert!(recording.join(LONG));
    assert_eq!(recording.stats().created, 1);
    let end = events.shutdown();
    assert_eq!((end.complete, end.recordings[0].created, end.threads_ended), (false, 1, true));
    assert_eq!(events.shutdown_timeout(LONG), end);
}

/// The correlator's caches hold thousands of texts, and its functions are the user's, so the end of
/// the recording drops both.
#[test]
fn a_recording_that_has_ended_keeps_nothing_of_its_correlator() {
    let clock = clock();
    let events = broadcaster(&clock);
    let token = Arc::new(());
    let held = token.clone();
    let options = CorrelatorOptions::default().spam_key(move |event| {
        let _ = &held;
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for i in 0..12 {
        events.recorder("tester").event(pod("a"), Normal, "R", format_args!("message {i}"));
    }
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().aggregated, recording.stats().evicted), (3, 0));
    recording.stop();
    assert!(recording.join(LONG));
    assert_eq!(Arc::strong_count(&token), 1);
    let stats = recording.stats();
    assert_eq!((stats.aggregated, stats.created, stats.updated), (3, 10, 2));
    assert_eq!(events.stats().recordings, [stats]);
}

/// A function's destructor may call any method of the broadcaster, and may panic.
#[test]
fn the_destructor_of_a_function_may_call_back_and_panic() {
    struct Last(Arc<EventBroadcaster>);
    impl Drop for Last {
        fn drop(&mut self) {
            let _ = self.0.stats();
            panic!("a function that panics when it goes");
        }
    }
    in_time(|| {
        let events = Arc::new(broadcaster(&clock()));
        for _ in 0..70 {
            let last = Last(events.clone());
            let options = CorrelatorOptions::default().spam_key(move |event| {
                let _ = &last;
                event.reason.clone()
            });
            let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
            record(&events, "a", "Started");
            events.flush(LONG).unwrap();
            recording.stop();
            assert!(recording.join(LONG));
        }
        // More recordings have ended than the statistics keep by name.
        let all = events.stats().recordings;
        assert!(all.len() <= 70, "{}", all.len());
        assert_eq!(all.iter().map(RecordingStats::handled).sum::<u64>(), 70);
    });
}

/// A sink and a function whose destructors both panic are dropped one after the other. Two panics
/// at the same time would end the process.
#[test]
fn what_a_recording_holds_goes_one_by_one() {
    struct Fused(MemorySink, mpsc::Sender<()>);
    impl EventSink for Fused {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.create(event)
        }

        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            self.0.update(event)
        }
    }
    impl Drop for Fused {
        fn drop(&mut self) {
            let _ = self.1.send(());
            panic!("a sink that panics when it goes");
        }
    }
    struct Fuse(mpsc::Sender<()>);
    impl Drop for Fuse {
        fn drop(&mut self) {
            let _ = self.0.send(());
            panic!("a function that panics when it goes");
        }
    }
    let events = broadcaster(&clock());
    let (tx, gone) = mpsc::channel();
    let fuse = Fuse(tx.clone());
    let options = CorrelatorOptions::default().spam_key(move |event| {
        let _ = &fuse;
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(Fused(MemorySink::new(), tx)).unwrap();
    record(&events, "a", "Started");
    assert!(events.shutdown().complete);
    assert!(recording.join(LONG));
    assert_eq!(gone.iter().count(), 2);
    assert_balanced(&recording.stats());
}

// ── the store ──
