//! Tests a store on a full disk. The tests that mount their own disks are in `sqlite_needs::disks`.

use std::time::Duration;

use eventcast::{BusOptions, EventBroadcaster, EventType, ObjectReference, OverflowPolicy};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
use tempfile::tempdir;
use test_support::in_own_process;

use super::at_birth;

/// Tests a recording to a file that is not allowed to grow. The bus continues to run, and the
/// waiting events are stored once the file may grow again. The test runs in a separate process,
/// because the limit applies to the whole process.
#[cfg(unix)]
#[test]
fn the_bus_continues_while_the_disk_is_full() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    in_own_process!();
    // A process that writes beyond the limit receives a signal. Without a signal handler, this
    // signal would terminate the process.
    let noticed = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    signal_hook::flag::register(rustix::process::Signal::XFSZ.as_raw(), noticed.clone()).unwrap();
    let folder = tempdir().unwrap();
    let clock = at_birth();
    let path = folder.path().join("events.db");
    let options = SqliteSinkOptions::default().ttl(Duration::from_secs(1_000_000_000));
    let store = SqliteSink::with_clock(&path, options, clock.clock()).unwrap();
    let all = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, Rlimit { current: Some(200_000), maximum: all.maximum }).unwrap();

    const EVENTS: usize = 200;
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .bus(BusOptions::default().incoming_capacity(2 * EVENTS))
        .build()
        .unwrap();
    let mut other =
        events.watch_builder().queue_capacity(2 * EVENTS).overflow(OverflowPolicy::Wait).watch().unwrap();
    let recording = events.recording().queue_capacity(2 * EVENTS).start(store.clone()).unwrap();
    let recorder = events.recorder("test");
    for i in 0..EVENTS {
        let object = ObjectReference::new("Pod", format!("web-{i}"));
        assert!(recorder.event(&object, EventType::Normal, "Started", "m".repeat(2000)).is_accepted());
    }
    // The recording is waiting for the clock, which means that its write has been refused. The
    // other watcher has received all events.
    clock.wait_for_waiters(1);
    assert_eq!((0..EVENTS).filter(|_| other.recv().is_ok()).count(), EVENTS);
    assert!(noticed.load(std::sync::atomic::Ordering::SeqCst));
    let before = store.len().unwrap();
    assert!(before < EVENTS, "{before} were stored in so small a file");

    setrlimit(Resource::Fsize, all).unwrap();
    let handled = |stats: eventcast::stats::RecordingStats| (stats.created + stats.exhausted) as usize;
    while handled(recording.stats()) < EVENTS {
        if clock.waiters() > 0 {
            clock.advance(Duration::from_secs(10));
        }
        std::thread::yield_now();
    }
    assert!(events.shutdown().complete);
    assert_eq!(recording.stats().created, EVENTS as u64);
    assert_eq!(store.stats().unwrap().stored, EVENTS as u64);
}
