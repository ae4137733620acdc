//! Watchers and handles.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::bus::Start;
use eventcast::stats::Slowness;
use eventcast::{BusOptions, Delivery, EventBroadcaster, MemorySink, OverflowPolicy};

use crate::support::{LONG, Scripted, clock, clocked, memory, pod, record, until};

use super::collect;

#[test]
fn watchers_get_events_before_they_are_correlated() {
    let events = EventBroadcaster::new().unwrap();
    let mut watcher = events.watch_builder().filter(|event| event.type_ == "Warning").watch().unwrap();
    let recorder = events.recorder("tester");
    recorder.event(pod("web-0"), Normal, "Started", "");
    recorder.event(pod("web-0"), Warning, "BackOff", "");
    recorder.event(pod("web-0"), Warning, "BackOff", "");
    let counts: Vec<i32> = (0..2)
        .map(|_| match watcher.recv().unwrap() {
            Delivery::Event(event) => event.count,
            Delivery::Lagged(count) => panic!("{count} lost"),
        })
        .collect();
    assert_eq!(counts, [1, 1]);
}

/// A recording is reported by its name. A watcher or handler without a name is reported by the line
/// that registers it.
#[test]
fn a_monitor_reports_recordings_and_watchers() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (gate, sink) = Scripted::gated(&clock, 0..1);
    let _recording = events.record_to(sink).unwrap();
    let (_unread, line) = (events.watch_builder().watch().unwrap(), line!());
    let handler = events.spawn(|_| ()).unwrap();
    let place = |line: u32| format!("tests/record/broadcaster/watchers.rs:{line}");
    assert_eq!(handler.stats().name, place(line + 1));
    record(&events, "web-0", "Started");
    gate.wait();
    until(|| handler.stats().delivered == 1);
    let (tx, notices) = mpsc::channel();
    events.on_slow(Duration::from_secs(8), move |notice| tx.send(notice.clone()).unwrap()).unwrap();
    clock.advance(Duration::from_secs(8));
    for name in ["recording".to_owned(), place(line)] {
        let notice = notices.recv_timeout(LONG).unwrap();
        assert_eq!((notice.slowness, notice.watcher.name), (Slowness::Unread, name));
    }
    drop(gate);
}

/// A series holds the count of later repeats back for minutes. The unread watcher shows that the
/// monitor has checked the recording.
#[test]
fn a_recording_that_defers_writes_is_not_slow() {
    let clock = clock();
    let events = clocked(&clock).event_time(true).build().unwrap();
    let recording = events.record_to(memory(&clock)).unwrap();
    for _ in 0..5 {
        record(&events, "web-0", "Started");
    }
    until(|| recording.stats().watcher.delivered == 5);
    let _unread = events.watch_builder().name("unread").watch().unwrap();
    record(&events, "web-0", "Started");
    until(|| recording.stats().watcher.delivered == 6);
    let (tx, notices) = mpsc::channel();
    events
        .on_slow(Duration::from_secs(8), move |notice| tx.send(notice.watcher.name.clone()).unwrap())
        .unwrap();
    clock.advance(Duration::from_secs(8));
    assert_eq!(notices.recv_timeout(LONG).unwrap(), "unread");
    events.close();
    assert!(events.shutdown().complete);
    assert_eq!(notices.try_recv().ok(), None);
}

/// The history holds recorded events in the form in which watchers receive them, names included,
/// and an evicted watcher resumes from the history. A recording cannot be evicted.
#[test]
fn a_watcher_starts_with_events_of_the_history() {
    let options = BusOptions::default().history(2);
    let events = EventBroadcaster::builder().bus(options.clone()).build().unwrap();
    let sink = MemorySink::new();
    let refused = "overflow must be a policy that does not end recordings, got evict";
    let error = events.recording().overflow(OverflowPolicy::Evict).start(sink.clone()).unwrap_err();
    assert_eq!(error.to_string(), refused);
    let error = EventBroadcaster::builder().bus(options.overflow(OverflowPolicy::Evict)).build().unwrap_err();
    assert_eq!(error.to_string(), refused);
    events.record_to(sink.clone()).unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    let builder = events.watch_builder().overflow(OverflowPolicy::Evict).start(Start::After(0));
    let mut watcher = builder.watch().unwrap();
    assert!(events.shutdown().complete);
    assert_eq!(watcher.recv(), Ok(Delivery::Lagged(1)));
    let names = watcher.events().map(|event| event.metadata.name.to_string()).collect::<Vec<_>>();
    let stored: Vec<_> = sink.events().iter().map(|event| event.metadata.name.to_string()).collect();
    assert_eq!(names, stored[1..]);
    assert_eq!(watcher.position(), Some(3));
}

#[test]
fn a_handle_stops_its_handler() {
    let events = EventBroadcaster::new().unwrap();
    let (seen, handler) = collect();
    let handle = events.spawn(handler).unwrap();
    record(&events, "a", "Started");
    events.flush(LONG).unwrap();
    handle.stop();
    assert!(handle.join(LONG));
    record(&events, "b", "Started");
    assert!(events.shutdown().complete);
    assert_eq!(seen.lock().unwrap().len(), 1);
}
