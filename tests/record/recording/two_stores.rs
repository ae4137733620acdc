//! Two recordings on one broadcaster: all events in one store, and a part of them in another.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::sink::SinkErrorKind;
use eventcast::{MemorySink, SinkError};

use crate::support::{Scripted, assert_balanced, clock, pod, until};

use super::broadcaster;

/// Returns the reasons and counts of the stored events, sorted.
fn counts(store: &MemorySink) -> Vec<(String, i32)> {
    let mut counts: Vec<_> =
        store.events().iter().map(|event| (event.reason.to_string(), event.count)).collect();
    counts.sort();
    counts
}

#[test]
fn an_unavailable_store_delays_only_its_own_recording() {
    let clock = clock();
    let events = broadcaster(&clock);
    let is_up = Arc::new(AtomicBool::new(false));
    let asked = is_up.clone();
    let (all, _calls) = Scripted::new(&clock, move |_, _| {
        if asked.load(Ordering::SeqCst) {
            Ok(())
        } else {
            Err(SinkError::new(SinkErrorKind::Unavailable, "down"))
        }
    });
    let warnings = Scripted::obedient(&clock);
    let unfiltered = events.recording().name("all").start(all.clone()).unwrap();
    let filtered = events
        .recording()
        .name("warnings")
        .filter(|event| event.type_ == "Warning")
        .start(warnings.clone())
        .unwrap();
    let recorder = events.recorder("tester");
    assert!(recorder.event(pod("web-0"), Normal, "Started", "message").is_accepted());
    until(|| unfiltered.stats().unavailable_since.is_some());
    for _ in 0..2 {
        assert!(recorder.event(pod("web-0"), Warning, "BackOff", "message").is_accepted());
    }
    until(|| filtered.stats().updated == 1);
    assert_eq!(counts(&warnings.store), [("BackOff".to_owned(), 2)]);
    assert_eq!(filtered.stats().unavailable_since, None);
    assert_eq!((unfiltered.stats().created, all.store.len()), (0, 0));

    is_up.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    until(|| unfiltered.stats().handled() == 3);
    let report = events.shutdown();
    assert_eq!(counts(&all.store), [("BackOff".to_owned(), 2), ("Started".to_owned(), 1)]);
    let [unfiltered, filtered] = &report.recordings[..] else { panic!("{report}") };
    for stats in [unfiltered, filtered] {
        assert_balanced(stats);
        assert_eq!(stats.lost(), 0);
    }
    assert_eq!((unfiltered.watcher.filtered, filtered.watcher.filtered), (0, 1));
}

#[test]
fn each_recording_counts_and_folds_on_its_own() {
    let clock = clock();
    let events = broadcaster(&clock);
    let [all, some] = [(); 2].map(|()| Scripted::obedient(&clock));
    events.record_to(all.clone()).unwrap();
    events.recording().filter(|event| event.message != "image 3").start(some.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..10 {
        recorder.event(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
    }
    let report = events.shutdown();
    // The unfiltered recording folds the tenth similar event. The filtered recording receives nine.
    assert_eq!((report.recordings[0].aggregated, report.recordings[1].aggregated), (1, 0));
    let last = |sink: &Scripted| sink.store.events().pop().unwrap().message.to_string();
    assert_eq!(last(&all), "(combined from similar events): image 9");
    assert_eq!(last(&some), "image 9");
}
