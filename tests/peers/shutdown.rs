//! client-go: `tools/record/event_test.go` and `tools/events/event_broadcaster_test.go`, the end
//! of a broadcaster, and the burst for which `maxQueuedEvents` has space.

use std::sync::{Mutex, mpsc};

use eventcast::error::PublishError;
use eventcast::{Broadcaster, BusOptions, EventBroadcaster, EventType, MemorySink, ObjectReference};

use crate::kinds::on_both_kinds;
use crate::support::LONG;
#[cfg(target_os = "linux")]
use crate::support::until;

/// Returns whether a thread of this process has a name that begins like this.
#[cfg(target_os = "linux")]
fn has_thread(name: &str) -> bool {
    std::fs::read_dir("/proc/self/task").unwrap().any(|thread| {
        // A thread may have ended since.
        let comm = std::fs::read_to_string(thread.unwrap().path().join("comm"));
        comm.is_ok_and(|comm| comm.starts_with(name))
    })
}

/// `TestBroadcasterShutdown`, `TestStartEventWatcherExitsOnDirectShutdown`. `tests/record` counts
/// the threads of an inline event broadcaster.
#[cfg(target_os = "linux")]
#[test]
fn no_thread_outlives_the_shutdown() {
    let bus = BusOptions::default().thread_name("peers-end");
    let events = EventBroadcaster::builder().bus(bus).build().unwrap();
    events.log_to(|_| ()).unwrap();
    events.spawn(|_| ()).unwrap();
    events.record_to(MemorySink::new()).unwrap();
    until(|| has_thread("peers-end"));
    assert!(events.shutdown().complete);
    // Go's test waits for its goroutines, too.
    until(|| !has_thread("peers-end"));
}

/// `TestNonRacyShutdown`, with the accounting that Go does not have.
#[test]
fn a_shutdown_handles_what_many_threads_have_recorded() {
    on_both_kinds(|kind| {
        let events = EventBroadcaster::builder().bus(kind.options()).build().unwrap();
        events.record_to(MemorySink::new()).unwrap();
        let recorder = events.recorder("eventTest");
        std::thread::scope(|scope| {
            for _ in 0..100 {
                scope.spawn(|| {
                    let object = ObjectReference::default();
                    let recorded = recorder.event(object, EventType::Normal, "Started", format_args!("blah"));
                    assert!(recorded.is_accepted());
                });
            }
        });
        let report = events.shutdown();
        assert!(report.complete);
        assert_eq!((report.bus.accepted, report.recordings[0].handled()), (100, 100));
    });
}

/// `maxQueuedEvents`, after `StartLogging` and `StartRecordingToSink`.
#[test]
fn registrations_that_wait_take_no_place_in_the_incoming_queue() {
    let bus = Broadcaster::with_options(BusOptions::default().incoming_capacity(10)).unwrap();
    let (entered, inside) = mpsc::channel();
    let (leave, left) = mpsc::channel::<()>();
    let (entered, left) = (Mutex::new(entered), Mutex::new(left));
    let filter = move |_: &u8| {
        let _ = entered.lock().unwrap().send(());
        left.lock().unwrap().recv().is_err()
    };
    let _first = bus.watch_builder().filter(filter).watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(0).unwrap();
    inside.recv_timeout(LONG).unwrap();
    // The dispatcher is in the filter, so these wait for it.
    let watchers = [(); 4].map(|()| bus.watch().unwrap());
    let accepted = (1..99).take_while(|event| publisher.try_publish(*event).is_ok()).count();
    // `Watch` in Go returns after its registration, so that the whole queue is left for events.
    // Here `watch` does not block, and the whole queue is left all the same.
    assert_eq!(accepted, 10);
    assert_eq!(publisher.try_publish(99), Err(PublishError::Full(99)));
    drop(leave);
    bus.flush(LONG).unwrap();
    assert!(watchers.iter().all(|watcher| watcher.len() == accepted));
}
