//! Flushes, watchers, handles and options.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::bus::Start;
use eventcast::error::PublishError;
use eventcast::{BusOptions, Delivery, Event, EventBroadcaster, MemorySink, OverflowPolicy};

use crate::support::{LONG, Scripted, clock, gate, pod, record};

use super::{broadcaster, collect};

#[test]
fn flush_waits_for_recordings_and_names_the_one_that_is_late() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock));
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    events.recording().name("late").start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    let flushing = events.clone();
    let flush = thread::spawn(move || flushing.flush(Duration::from_secs(1)));
    clock.wait_for_waiters(1);
    // When an event behind the flush has gone through the queue, the dispatcher has come to the
    // flush.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-1", "Started");
    witness.recv().unwrap();
    clock.advance(Duration::from_secs(1));
    let error = flush.join().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "not flushed in time, waiting for late");
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(sink.store.len(), 2);
}

#[test]
fn watchers_get_what_was_recorded_before_it_is_correlated() {
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

/// The history has recorded events as watchers get them, with their names, and a watcher that is
/// evicted comes back to them. A recording cannot be evicted.
#[test]
fn a_watcher_starts_with_what_was_recorded_before() {
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
fn a_handle_stops_what_it_was_given_for() {
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

#[test]
fn options_out_of_range_are_named() {
    let build = |builder: eventcast::record::EventBroadcasterBuilder| builder.build().unwrap_err();
    let error = build(EventBroadcaster::builder().max_message_len(0));
    assert_eq!(error.to_string(), "max_message_len must be 1 byte or more, got 0");
    let error = build(EventBroadcaster::builder().bus(BusOptions::default().incoming_len(0)));
    assert_eq!(error.option(), "incoming_len");
}

#[test]
fn types_can_go_where_they_are_needed() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<EventBroadcaster>();
    shared::<eventcast::record::RecordingHandle>();
    shared::<eventcast::Recorder>();
    shared::<MemorySink>();
    shared::<eventcast::SinkError>();
    shared::<PublishError<Event>>();
}

// ── reports about handlers ──
