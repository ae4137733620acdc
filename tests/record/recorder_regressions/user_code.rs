//! User code that calls back, panics, or drops what it serves.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::error::FlushError;
use eventcast::{BusOptions, EventBroadcaster, Recorded, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, event_of, pod, record, until};

use super::{broadcaster, in_time};

/// A hook may ask for anything on every thread that reports a loss: nothing hangs, and no event is
/// lost because of it.
#[test]
fn a_hook_may_call_everything() {
    in_time(|| {
        let clock = clock();
        let slot: Arc<OnceLock<Arc<EventBroadcaster>>> = Arc::default();
        let own = slot.clone();
        let told = Arc::new(AtomicU64::new(0));
        let counter = told.clone();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .bus(BusOptions::default().queue_len(2))
            .retry(at_once())
            .on_loss(move |_| {
                let events = own.get().unwrap();
                counter.fetch_add(1, Ordering::Relaxed);
                let _ = events.flush(Duration::ZERO);
                let _ = events.stats().to_string();
                let recorder = events.recorder("hook");
                let _ = recorder.event(pod("hook"), Normal, "FromHook", "");
                if let Ok(handle) = events.spawn(|_| ()) {
                    handle.stop();
                    let _ = handle.join(Duration::ZERO);
                }
                let _ = events.shutdown_timeout(Duration::ZERO);
            })
            .build()
            .unwrap();
        let events = slot.get_or_init(|| Arc::new(events));
        let (sink, _calls) = Scripted::new(&clock, |_, _| Err(SinkError::rejected("no")));
        let recording = events.record_to(sink).unwrap();
        let _full = events.watch_builder().name("full").queue_len(1).watch().unwrap();
        let recorder = events.recorder("tester");
        // The losses occur on this thread, on the dispatcher and on the recording's thread.
        recorder.event(pod("a"), Normal, "", "");
        assert_eq!(recorder.event(pod("a"), Normal, "R", ""), Recorded::Closed);
        assert!(recording.join(Duration::MAX));
        assert!(told.load(Ordering::Relaxed) >= 2);
        // The dispatcher counts on its own thread the events that it was still offering to the
        // recording.
        let mut stats = recording.stats();
        until(|| {
            stats = recording.stats();
            stats.watcher.lag == 0
        });
        assert_balanced(&stats);
    });
}

#[test]
fn a_sink_may_close_or_shut_down_from_within() {
    in_time(|| {
        let clock = clock();
        let slot: Arc<OnceLock<Arc<EventBroadcaster>>> = Arc::default();
        let own = slot.clone();
        let events = slot.get_or_init(|| Arc::new(broadcaster(&clock)));
        let (sink, _calls) = Scripted::new(&clock, move |number, op| {
            let events = own.get().unwrap();
            if number == 0 {
                assert!(!events.shutdown().complete);
                assert_eq!(events.flush(LONG), Err(FlushError::WouldDeadlock));
            }
            let name = &event_of(op).involved_object.name;
            if name == "a" { Err(SinkError::retry("after the end has begun")) } else { Ok(()) }
        });
        let recording = events.record_to(sink).unwrap();
        record(events, "a", "Started");
        let _ = events.recorder("tester").event(pod("b"), Normal, "Started", "");
        assert!(recording.join(LONG));
        let report = events.shutdown();
        assert!(!report.complete, "an event was abandoned");
        assert_balanced(&report.recordings[0]);
        assert_eq!(report.recordings[0].abandoned, 1);
    });
}

/// The last owner of a broadcaster may be any of the broadcaster's own threads.
#[test]
fn a_broadcaster_may_be_dropped_by_the_dispatcher() {
    in_time(|| {
        let (tx, rx) = mpsc::channel();
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let recorder = events.recorder("tester");
        let slot = Arc::new(Mutex::new(None));
        let own = slot.clone();
        let mut watcher = events
            .watch_builder()
            .filter(move |_| {
                let last: Option<Arc<EventBroadcaster>> = own.lock().unwrap().take();
                drop(last);
                tx.send(()).unwrap();
                true
            })
            .watch()
            .unwrap();
        *slot.lock().unwrap() = Some(events);
        assert!(recorder.event(pod("a"), Normal, "R", "").is_accepted());
        rx.recv_timeout(LONG).unwrap();
        assert_eq!(watcher.events().count(), 1);
    });
}

struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic!("a `Display` that panics")
    }
}

/// The panic reaches the caller, and the recorder stays as it was.
#[test]
fn a_message_that_panics_records_nothing() {
    let events = EventBroadcaster::new().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("tester");
    let panicked =
        catch_unwind(AssertUnwindSafe(|| recorder.event(pod("a"), Normal, "R", format_args!("{Broken}"))));
    assert!(panicked.is_err());
    assert!(recorder.event(pod("a"), Normal, "R", "fine").is_accepted());
    events.shutdown();
    assert_eq!(watcher.events().map(|event| event.message).collect::<Vec<_>>(), ["fine"]);
    let stats = events.stats();
    assert_eq!((stats.bus.accepted, stats.recorder.refused()), (1, 0));
}

/// A subscriber that turns warnings into events, which are lost too. The library does not report
/// these losses to the subscriber again.
#[cfg(feature = "tracing")]
#[test]
fn a_subscriber_may_record_what_it_is_told() {
    use tracing::span::{Attributes, Id, Record};

    struct Recording(Arc<OnceLock<eventcast::Recorder>>, Arc<AtomicU64>);

    impl tracing::Subscriber for Recording {
        fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
            metadata.target().starts_with("eventcast")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, _: &tracing::Event<'_>) {
            self.1.fetch_add(1, Ordering::Relaxed);
            let recorder = self.0.get().unwrap();
            assert_eq!(recorder.event(pod("a"), eventcast::EventType::Warning, "Told", ""), Recorded::Closed);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    let (slot, told) = (Arc::new(OnceLock::new()), Arc::new(AtomicU64::new(0)));
    tracing::subscriber::with_default(Recording(slot.clone(), told.clone()), || {
        let events = EventBroadcaster::new().unwrap();
        let recorder = slot.get_or_init(|| events.recorder("tester"));
        events.close();
        assert_eq!(recorder.event(pod("a"), Normal, "R", ""), Recorded::Closed);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert_eq!((recorder.stats().closed, recorder.stats().hook_panics), (2, 0));
    });
}

// ── the end ──
