//! Hooks: changes before everybody, and reports of losses.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::stats::DropReason;
use eventcast::{BusOptions, EventBroadcaster, MemorySink, OverflowPolicy, Recorded};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, pod, record, until};

use super::{Shared, collect};

#[test]
fn scrub_comes_before_everybody() {
    let events = EventBroadcaster::builder()
        .max_message_len(20)
        .scrub(|event| {
            if event.message.contains("secret") {
                event.message = "(removed)".into();
            }
        })
        .build()
        .unwrap();
    let (seen, handler) = collect();
    events.spawn(handler).unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    events.log_to(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    let recorder = events.recorder("tester");
    recorder.event(pod("a"), Normal, "Login", "the password is a long secret");
    recorder.event(pod("b"), Normal, "Login", "ääääääääääääääääääää");
    events.shutdown();
    let expected = ["(removed)", "ääääääää..."];
    assert_eq!(*seen.lock().unwrap(), expected);
    assert_eq!(store.events().iter().map(|event| event.message.to_string()).collect::<Vec<_>>(), expected);
    assert!(lines.lock().unwrap().iter().zip(expected).all(|(line, message)| line.ends_with(message)));
    assert_eq!(events.stats().recorder.truncated, 1);
}

#[test]
fn on_loss_hears_of_every_refusal() {
    let clock = clock();
    let losses = Shared::default();
    let into = losses.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .bus(BusOptions::default().incoming_len(1).max_batch(1))
        .scrub(|event| assert!(event.reason != "Unscrubbable", "a scrub that panics"))
        .on_loss(move |loss| into.lock().unwrap().push((loss.reason, loss.to_string())))
        .build()
        .unwrap();
    let recorder = events.recorder("tester");
    let secret = "not for the log";
    assert_eq!(recorder.event(pod("a"), Normal, "", secret), Recorded::EmptyReason);
    assert_eq!(recorder.event(pod("a"), Normal, "Unscrubbable", secret), Recorded::ScrubPanicked);
    // A watcher that nobody reads holds up the dispatcher, so the incoming queue fills up.
    let held =
        events.watch_builder().name("held").queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
    until(|| recorder.event(pod("a\u{1b}"), Normal, "Full", secret) == Recorded::Full);
    drop(held);
    events.shutdown();
    assert_eq!(recorder.event(pod("a"), Normal, "Late", secret), Recorded::Closed);

    // The watcher may have lost an event too, which the dispatcher held when the watcher was
    // dropped.
    losses.lock().unwrap().retain(|(reason, _)| !matches!(reason, LossReason::Dropped(_)));
    let losses = losses.lock().unwrap();
    let (first, last) = (&losses[..2], losses.last().unwrap());
    assert_eq!(first[0], (LossReason::EmptyReason, "tester: 1 event lost (empty reason): Pod/a".to_owned()));
    assert_eq!(first[1].0, LossReason::ScrubPanicked);
    assert_eq!(
        losses[2],
        (LossReason::QueueFull, r"tester: 1 event lost (queue full): Pod/a\u{1b} Full".to_owned())
    );
    assert_eq!(last.0, LossReason::Closed);
    assert!(losses.iter().all(|(_, text)| !text.contains(secret)));
    let stats = events.stats();
    assert_eq!(losses.len() as u64, stats.recorder.refused());
}

#[test]
fn on_loss_hears_of_watchers_unless_they_have_a_hook_of_their_own() {
    let losses = Shared::default();
    let into = losses.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason, loss.place.to_owned(), loss.count));
        })
        .build()
        .unwrap();
    let own = Shared::default();
    let into = own.clone();
    let _small = events.watch_builder().name("small").queue_len(1).watch().unwrap();
    let _newest = events
        .watch_builder()
        .name("newest")
        .queue_len(1)
        .overflow(OverflowPolicy::DropOldest)
        .watch()
        .unwrap();
    let _other = events
        .watch_builder()
        .queue_len(1)
        .on_drop(move |reason, events| into.lock().unwrap().push((reason, events.len())))
        .watch()
        .unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    record(&events, "b", "Started");
    events.flush(LONG).unwrap();
    let dropped = |reason, name: &str| (LossReason::Dropped(reason), name.to_owned(), 1);
    assert_eq!(
        *losses.lock().unwrap(),
        [dropped(DropReason::Incoming, "small"), dropped(DropReason::Oldest, "newest")]
    );
    assert_eq!(*own.lock().unwrap(), [(DropReason::Incoming, 1)]);
}

#[test]
fn a_hook_that_records_is_not_told_of_what_it_loses() {
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let recorder = Arc::new(Mutex::new(None::<eventcast::Recorder>));
    let own = recorder.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            let recorder = own.lock().unwrap().clone().unwrap();
            assert_eq!(recorder.event(pod("a"), Normal, "", ""), Recorded::EmptyReason);
        })
        .build()
        .unwrap();
    *recorder.lock().unwrap() = Some(events.recorder("hook"));
    events.recorder("tester").event(pod("a"), Normal, "", "");
    assert_eq!(told.load(Ordering::Relaxed), 1);
    assert_eq!(events.stats().recorder.empty_reason, 2);
    // The broadcaster reports again afterwards.
    events.recorder("tester").event(pod("a"), Normal, "", "");
    assert_eq!(told.load(Ordering::Relaxed), 2);
}

/// Each hook of the user's panics for one event. Everything else goes on.
#[test]
fn a_panic_in_any_hook_stops_nothing() {
    let clock = clock();
    let told = Arc::new(AtomicUsize::new(0));
    let counter = told.clone();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .scrub(|event| assert!(event.reason != "Scrub", "scrub"))
        .on_loss(move |_| {
            counter.fetch_add(1, Ordering::Relaxed);
            panic!("on_loss");
        })
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, op| {
        assert!(event_of(op).reason != "Sink", "sink");
        Ok(())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    let handler = events.spawn(|event| assert!(event.reason != "Handler", "handler")).unwrap();
    let logging = events.log_to(|line| assert!(!line.contains("  Log  "), "log")).unwrap();
    let on_drop_ran = Arc::new(AtomicBool::new(false));
    let ran = on_drop_ran.clone();
    let mut filtered = events
        .watch_builder()
        .name("filtered")
        .filter(|event| {
            assert!(event.reason != "Filter", "filter");
            true
        })
        .watch()
        .unwrap();
    let _full = events
        .watch_builder()
        .queue_len(1)
        .on_drop(move |_, _| {
            ran.store(true, Ordering::Relaxed);
            panic!("on_drop");
        })
        .watch()
        .unwrap();
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
    // A filter that panics ends its watcher. The events that the watcher got before stay readable.
    assert_eq!(filtered.events().count(), 3);
    assert!(on_drop_ran.load(Ordering::Relaxed));
    // The four are scrub, sink, handler and log.
    assert_eq!(told.load(Ordering::Relaxed), 4);
    assert_eq!(events.stats().recorder.hook_panics, 4);
}

// ── the rest ──
