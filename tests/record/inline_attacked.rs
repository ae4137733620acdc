//! Faults that an attack on the recorder's bus without a thread has found.

use std::sync::mpsc::channel;

use eventcast::EventType::Normal;
use eventcast::{BusOptions, Event, EventBroadcaster, ObjectReference, OverflowPolicy};

/// The filter of a full watcher is asked before the event is accepted. It sees the event as every
/// filter does: with its name.
#[test]
fn the_filter_of_a_full_watcher_sees_the_name_of_an_event() {
    let options = BusOptions::default().inline(true).queue_len(1).overflow(OverflowPolicy::Wait);
    let events = EventBroadcaster::builder().bus(options).build().unwrap();
    let (seen_tx, seen) = channel();
    let filter = move |event: &Event| {
        seen_tx.send(event.metadata.name.to_string()).unwrap();
        event.reason == "A"
    };
    let watcher = events.watch_builder().filter(filter).watch().unwrap();
    let recorder = events.recorder("test");
    for reason in ["A", "B"] {
        assert!(recorder.event(ObjectReference::new("Pod", "web-0"), Normal, reason, "").is_accepted());
    }
    let names: Vec<_> = seen.try_iter().collect();
    assert_eq!(names.len(), 2);
    assert!(names.iter().all(|name| name.starts_with("web-0.")), "{names:?}");
    drop(watcher);
}
