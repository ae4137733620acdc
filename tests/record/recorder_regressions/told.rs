//! Lists and reports of what was lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use eventcast::EventType::{Normal, Warning};
use eventcast::record::LossReason;
use eventcast::{EventBroadcaster, Recorded};

use crate::support::{LONG, Scripted, clock, pod};

/// A recording that starts while events are published is in the statistics from its first event on.
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

// ── what nobody may see ──

#[test]
fn what_is_told_of_a_refused_event_has_been_scrubbed() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .scrub(|event| {
            assert!(!event.message.contains("unscrubbable"), "cannot scrub this");
            for text in [&mut event.involved_object.name, &mut event.reason] {
                *text = text.replace("secret", "*").into();
            }
        })
        .on_loss(move |loss| {
            let shown = format!("{loss} {loss:?} {:?}", loss.events);
            into.lock().unwrap().push((loss.reason, shown));
        })
        .build()
        .unwrap();
    let recorder = events.recorder("tester");
    assert_eq!(recorder.event(pod("secret-a"), Normal, "", ""), Recorded::EmptyReason);
    assert_eq!(recorder.event(pod("secret-b"), Normal, "secret", "unscrubbable"), Recorded::ScrubPanicked);
    events.close();
    assert_eq!(recorder.event(pod("secret-c"), Normal, "secret", ""), Recorded::Closed);
    assert_eq!(recorder.draft(pod("secret-d"), Normal, "secret").record(), Recorded::Closed);
    let told = told.lock().unwrap();
    let reasons: Vec<_> = told.iter().map(|(reason, _)| *reason).collect();
    let stopped = LossReason::Closed;
    assert_eq!(reasons, [LossReason::EmptyReason, LossReason::ScrubPanicked, stopped, stopped]);
    for (_, shown) in told.iter() {
        assert!(shown.contains("Pod/*-") && !shown.contains("secret"), "{shown}");
    }
}

#[test]
fn an_event_that_cannot_be_scrubbed_at_all_is_told_without_a_word_of_it() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .scrub(|_| panic!("nothing can be scrubbed"))
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.count, format!("{loss} {:?}", loss.events)));
        })
        .build()
        .unwrap();
    let recorder = events.recorder("tester");
    assert_eq!(recorder.event(pod("secret"), Warning, "secret", "secret"), Recorded::ScrubPanicked);
    events.close();
    assert_eq!(recorder.event(pod("secret"), Warning, "secret", "secret"), Recorded::Closed);
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(count, shown)| *count == 1 && !shown.contains("secret")), "{told:?}");
    let stats = recorder.stats();
    assert_eq!((stats.scrub_panics, stats.closed, stats.refused(), stats.hook_panics), (1, 1, 2, 0));
}

// ── names ──
