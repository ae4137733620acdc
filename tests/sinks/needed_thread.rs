//! Sinks that need a thread on which the program's own code is running. On that thread, no call
//! waits for these sinks.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::error::FlushError;
use eventcast::record::{LossReason, RecordingHandle};
use eventcast::sink::{AsyncEventSink, AsyncSink, NeededThread};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, SinkError};
use test_support::{LONG, until, watched};
use tokio::runtime::{Builder, Handle};
use tokio::time::sleep;

use crate::support::record;

/// The drop timeout in these tests, which never expires.
const NEVER: Duration = Duration::MAX;

/// An in-memory store whose requests need a tokio runtime's timer.
struct Remote {
    store: MemorySink,
    needed: NeededThread,
}

impl AsyncEventSink for Remote {
    async fn create(&self, event: &Event) -> Result<Event, SinkError> {
        sleep(Duration::from_millis(1)).await;
        self.store.create(event)
    }

    async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        sleep(Duration::from_millis(1)).await;
        self.store.patch(event)
    }

    fn needed_thread(&self) -> Option<NeededThread> {
        Some(self.needed.clone())
    }
}

/// Runs a task on a single-threaded runtime, and fails if the task blocks.
fn on_one_thread<F: Future<Output = ()>>(task: impl FnOnce() -> F + Send + 'static) {
    watched(move || Builder::new_current_thread().enable_time().build().unwrap().block_on(task()));
}

/// Starts a recording to a store whose requests run on the calling thread.
fn start(events: &EventBroadcaster) -> (RecordingHandle, MemorySink) {
    let (store, handle) = (MemorySink::new(), Handle::current());
    let remote = Remote { store: store.clone(), needed: NeededThread::current() };
    let sink = AsyncSink::new(remote, move |operation| {
        handle.spawn(operation);
    });
    (events.record_to(sink).unwrap(), store)
}

async fn ends(recording: &RecordingHandle) {
    while !recording.join(Duration::ZERO) {
        sleep(Duration::from_millis(1)).await;
    }
}

#[test]
fn a_drop_on_the_thread_that_a_sink_needs_does_not_wait_for_it() {
    on_one_thread(|| async {
        let (lost, losses) = mpsc::channel();
        let builder = EventBroadcaster::builder().drop_timeout(NEVER);
        let builder = builder.on_loss(move |loss| lost.send((loss.reason, loss.count)).unwrap());
        let events = builder.build().unwrap();
        let (recording, store) = start(&events);
        for pod in 0..10 {
            record(&events, &format!("web-{pod}"), "Started");
        }
        until(|| recording.stats().watcher.offered == 10);
        drop(events);
        assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::LeftBehind, 10)]);
        // Joining does not wait either.
        assert!(!recording.join(NEVER));
        assert_eq!(recording.flush(NEVER), Err(FlushError::WouldDeadlock));
        ends(&recording).await;
        assert_eq!((store.len(), recording.stats().created), (10, 10));
    });
}

/// A sink that calls a function for each event.
struct Calls<F>(F);

impl<F: Fn() + Send + Sync + 'static> EventSink for Calls<F> {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.0();
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }
}

#[test]
fn a_drop_on_the_thread_that_a_sink_needs_waits_for_the_others() {
    on_one_thread(|| async {
        let events = EventBroadcaster::builder().drop_timeout(NEVER).build().unwrap();
        let (recording, _store) = start(&events);
        // The other sink, a handler and a log each wait for a channel to be closed. The channel is
        // closed after the drop has closed the broadcaster.
        let (open, opened) = mpsc::channel::<()>();
        let opened = Arc::new(std::sync::Mutex::new(opened));
        let (done, was_done) = mpsc::channel();
        let pass = |name: &'static str| {
            let (opened, done) = (opened.clone(), done.clone());
            move || {
                let _ = opened.lock().unwrap().recv_timeout(LONG);
                done.send(name).unwrap();
            }
        };
        let (at_sink, at_handler, at_log) = (pass("sink"), pass("handler"), pass("log"));
        events.record_to(Calls(at_sink)).unwrap();
        events.spawn(move |_| at_handler()).unwrap();
        events.log_to(move |_| at_log()).unwrap();
        let mut watcher = events.watch_builder().watch().unwrap();
        record(&events, "web-0", "Started");
        let opener = thread::spawn(move || {
            assert_eq!(watcher.events().count(), 1);
            drop(open);
        });
        drop(events);
        let mut seen: Vec<_> = was_done.try_iter().collect();
        seen.sort_unstable();
        assert_eq!(seen, ["handler", "log", "sink"]);
        opener.join().unwrap();
        ends(&recording).await;
    });
}

#[test]
fn waits_on_the_thread_that_a_sink_needs_return_immediately() {
    on_one_thread(|| async {
        let events = EventBroadcaster::new().unwrap();
        let (_recording, store) = start(&events);
        record(&events, "web-0", "Started");
        assert_eq!(events.flush(NEVER), Err(FlushError::WouldDeadlock));
        assert_eq!(events.flush_async(LONG).await, Ok(()));
        assert_eq!(store.len(), 1);

        record(&events, "web-1", "Started");
        assert!(!events.shutdown().complete);
        assert!(!events.shutdown_timeout(NEVER).complete);
        // Nothing was abandoned, so the awaited shutdown is reported as complete.
        let report = events.shutdown_async(LONG).await;
        assert!(report.complete, "{report}");
        assert_eq!(report.recordings[0].created, 2);
        assert_eq!(events.shutdown(), report);
    });
}

#[test]
fn another_thread_waits_for_a_sink_as_ever() {
    on_one_thread(|| async {
        let events = EventBroadcaster::builder().drop_timeout(NEVER).build().unwrap();
        let (recording, store) = start(&events);
        record(&events, "web-0", "Started");
        tokio::task::spawn_blocking(move || {
            assert_eq!(events.flush(LONG), Ok(()));
            record(&events, "web-1", "Started");
            drop(events);
            assert_eq!(store.len(), 2);
            assert!(recording.join(NEVER));
        })
        .await
        .unwrap();
    });
}

#[test]
fn a_sink_around_another_needs_its_thread() {
    struct Needs(NeededThread);
    impl EventSink for Needs {
        fn create(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn patch(&self, event: &Event) -> Result<Event, SinkError> {
            Ok(event.clone())
        }
        fn needed_thread(&self) -> Option<NeededThread> {
            Some(self.0.clone())
        }
    }
    let here = NeededThread::current;
    let elsewhere = || thread::spawn(NeededThread::current).join().unwrap();
    let is_here = |sink: &dyn EventSink| sink.needed_thread().map(|thread| thread.is_current());
    assert_eq!(is_here(&MemorySink::new()), None);
    assert_eq!(is_here(&Arc::new(Needs(here()))), Some(true));
    assert_eq!(is_here(&Arc::new(Needs(elsewhere()))), Some(false));
    let boxed: Box<dyn EventSink> = Box::new(Arc::new(Needs(here())));
    assert_eq!(is_here(&boxed), Some(true));
    assert_eq!(is_here(&Box::new(Needs(elsewhere()))), Some(false));
    for (needed, expected) in [(here(), true), (elsewhere(), false)] {
        let remote = Arc::new(Remote { store: MemorySink::new(), needed });
        assert_eq!(is_here(&AsyncSink::new(remote, drop)), Some(expected));
    }
    assert!(!NeededThread::new(|| panic!("a check that panics")).is_current());
}
