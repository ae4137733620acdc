//! Tests of the layer, through a subscriber as a program has it.
//!
//! `tracing` discards log events that a layer or the code called by a layer creates, unless the
//! process has a default subscriber and no other. Tests of such log events run in their own
//! process.

mod feedback;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::sink::MemorySink;
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{Event, EventBroadcaster, ObjectReference, Recorder};
use eventcast_tracing::RecorderLayer;
use test_support::{LONG, in_own_process, watched};
use tracing::field::{Empty, Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Level, Subscriber, debug, error, info, info_span, subscriber, trace, warn};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, reload};

fn shop() -> ObjectReference {
    ObjectReference::new("Service", "shop")
}

/// Returns a layer with a default object.
fn shop_layer(recorder: Recorder) -> RecorderLayer {
    RecorderLayer::new(recorder).default_object(shop())
}

/// Returns the events in the form `OBJECT REASON MESSAGE`.
fn shown(events: &[Event]) -> Vec<String> {
    let shown = |event: &Event| format!("{} {} {}", event.involved_object, event.reason, event.message);
    events.iter().map(shown).collect()
}

/// Runs `log` with a layer that has a default object. Returns the recorded events.
fn recorded(log: impl FnOnce()) -> Vec<Event> {
    let fake = FakeRecorder::new(64);
    subscriber::with_default(Registry::default().with(shop_layer(fake.recorder("shop"))), log);
    fake.take()
}

#[test]
fn only_events_with_a_reason_are_recorded() {
    let events = recorded(|| {
        info!("no reason");
        warn!(reason = "Full", percent = 97, "the disk is full");
        error!(other = "reason", "no reason either");
        info!(reason = Empty, "declared, but without a value");
        info!(reason = None::<&str>, "declared, but without a value");
        info!(reason = Some("Mounted"));
    });
    assert_eq!(shown(&events), ["Service/shop Full the disk is full", "Service/shop Mounted "]);
}

/// `tracing-log` passes on the message of such a record, but none of its other values as a field.
#[test]
fn records_of_the_log_crate_are_not_recorded() {
    in_own_process!();
    let (fake, lines) = (FakeRecorder::new(8), Lines::default());
    let layer = shop_layer(fake.recorder("shop"));
    subscriber::set_global_default(Registry::default().with(layer).with(lines.clone())).unwrap();
    tracing_log::LogTracer::init().unwrap();
    tracing_log::log::warn!("reason=Full");
    assert_eq!(lines.take(), ["log reason=Full"]);
    assert!(fake.take().is_empty());
}

#[test]
fn warnings_and_errors_are_warnings() {
    let events = recorded(|| {
        error!(reason = "A");
        warn!(reason = "B");
        info!(reason = "C");
        debug!(reason = "D");
        trace!(reason = "E");
    });
    let types: Vec<_> = events.iter().map(|event| event.type_.as_str()).collect();
    assert_eq!(types, ["Warning", "Warning", "Normal", "Normal", "Normal"]);
}

#[test]
fn values_that_are_not_strings_are_formatted() {
    #[derive(Debug)]
    enum State {
        Full,
    }
    let error = std::io::Error::other("no \"space\" left");
    let events = recorded(|| {
        let cause: &(dyn std::error::Error + 'static) = &error;
        info!(reason = ?State::Full, object.kind = %"Disk", object.name = 7, action = true, message = cause);
        info!(reason = ?"Quoted", object.kind = "Disk", object.name = 1.5, "{} files", 3);
    });
    assert_eq!(shown(&events), ["Disk/7 Full no \"space\" left", "Disk/1.5 \"Quoted\" 3 files"]);
    assert_eq!((events[0].action().as_str(), events[1].action().as_str()), ("true", ""));
}

#[test]
fn the_object_comes_from_the_event_or_the_nearest_span_or_the_layer() {
    let events = recorded(|| {
        let order = info_span!("order", object.kind = "Order", object.name = %17, object.namespace = "eu");
        let _order = order.enter();
        let step = info_span!("step", number = 3);
        let _step = step.enter();
        info!(reason = "Event", object.kind = "Pod", object.name = ?5, "a");
        info!(reason = "Span", "b");
        let line = info_span!("line", object.kind = "Line", object.name = "", object.namespace = "");
        let _line = line.enter();
        info!(reason = "EmptyName", "c");
        line.record("object.name", 4);
        info!(reason = "Nearest", "d");
        info!(parent: None, reason = "Layer", "e");
        info!(parent: &order, reason = "Parent", "f");
        // An object is not assembled from the fields of the event and of a span.
        info!(reason = "NameOnly", object.name = "x", "g");
        info!(reason = "KindOnly", object.kind = "X", object.namespace = "us", "h");
    });
    assert_eq!(
        shown(&events),
        [
            "Pod/5 Event a",
            "Order/eu/17 Span b",
            "Order/eu/17 EmptyName c",
            "Line/4 Nearest d",
            "Service/shop Layer e",
            "Order/eu/17 Parent f",
            "Line/4 NameOnly g",
            "Line/4 KindOnly h",
        ]
    );
}

#[test]
fn fields_recorded_later_replace_those_of_the_span() {
    let events = recorded(|| {
        let order = info_span!(
            "order",
            object.kind = Empty,
            object.name = Empty,
            object.namespace = Empty,
            retries = Empty
        );
        let _order = order.enter();
        info!(reason = "A");
        order.record("object.kind", "Order");
        order.record("object.name", 1).record("retries", 3);
        info!(reason = "B");
        order.record("object.name", 2).record("object.namespace", "eu");
        info!(reason = "C");
        // The span does not declare this field.
        order.record("message", "x");
        info!(reason = "D");
    });
    assert_eq!(shown(&events), ["Service/shop A ", "Order/1 B ", "Order/eu/2 C ", "Order/eu/2 D "]);
}

#[test]
fn two_layers_read_the_same_span() {
    let fakes = [FakeRecorder::new(8), FakeRecorder::new(8)];
    let [one, other] = [0, 1].map(|i: usize| RecorderLayer::new(fakes[i].recorder("shop")));
    subscriber::with_default(Registry::default().with(one).with(other), || {
        let order = info_span!("order", object.kind = "Order", object.name = Empty);
        order.record("object.name", "o-17");
        order.in_scope(|| info!(reason = "Paid", "by card"));
    });
    for fake in fakes {
        assert_eq!(shown(&fake.take()), ["Order/o-17 Paid by card"]);
    }
}

/// Collects the log events that this layer receives, in the form `TARGET MESSAGE`.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        struct Message(String);
        impl Visit for Message {
            fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    self.0 = format!("{value:?}");
                }
            }
        }
        let mut message = Message(String::new());
        event.record(&mut message);
        self.0.lock().unwrap().push(format!("{} {}", event.metadata().target(), message.0));
    }
}

#[test]
fn other_layers_receive_all_events() {
    let (fake, below, above) = (FakeRecorder::new(0), Lines::default(), Lines::default());
    let layer = shop_layer(fake.recorder("shop"));
    let log = Registry::default().with(below.clone()).with(layer).with(above.clone());
    subscriber::with_default(log, || {
        assert!(tracing::enabled!(Level::TRACE));
        assert!(tracing::enabled!(target: "eventcast", Level::TRACE));
        trace!("a");
        info!(reason = "Lost", "b");
    });
    assert_eq!(below.take(), ["layer a", "layer b"]);
    assert_eq!(above.take(), ["layer a", "layer b"]);
}

#[test]
fn filters_apply_to_events_and_spans() {
    let (fake, layers) = (FakeRecorder::new(8), FakeRecorder::new(8));
    let warnings = shop_layer(layers.recorder("shop")).with_filter(LevelFilter::WARN);
    let log =
        Registry::default().with(LevelFilter::INFO).with(shop_layer(fake.recorder("shop"))).with(warnings);
    subscriber::with_default(log, || {
        assert!(!tracing::enabled!(Level::DEBUG));
        let shelf = tracing::error_span!("shelf", object.kind = "Shelf", object.name = 2);
        let _shelf = shelf.enter();
        let order = info_span!("order", object.kind = "Order", object.name = 17);
        let _order = order.enter();
        debug!(reason = "Debug");
        info!(reason = "Info");
        warn!(reason = "Warn");
        order.record("object.name", 18);
        warn!(reason = "Again");
    });
    assert_eq!(shown(&fake.take()), ["Order/17 Info ", "Order/17 Warn ", "Order/18 Again "]);
    assert_eq!(shown(&layers.take()), ["Shelf/2 Warn ", "Shelf/2 Again "]);
}

#[test]
fn a_layer_can_be_added_and_removed_by_reloading() {
    let fake = FakeRecorder::new(8);
    let (layer, handle) = reload::Layer::new(None::<RecorderLayer>);
    subscriber::with_default(Registry::default().with(layer), || {
        let order = info_span!("order", object.kind = "Order", object.name = Empty);
        info!(reason = "Before");
        handle.reload(Some(shop_layer(fake.recorder("shop")))).unwrap();
        // The layer did not exist when the span was created.
        order.record("object.name", 17);
        order.in_scope(|| info!(reason = "With"));
        handle.reload(None).unwrap();
        info!(reason = "After");
    });
    assert_eq!(shown(&fake.take()), ["Service/shop With "]);
}

#[test]
fn the_first_event_without_an_object_is_logged() {
    in_own_process!();
    let (fake, lines) = (FakeRecorder::new(8), Lines::default());
    let layer = RecorderLayer::new(fake.recorder("shop"));
    let log = Registry::default().with(layer.clone()).with(lines.clone());
    // Here `tracing` discards the warning, so the layer logs the next event without an object.
    subscriber::with_default(log, || warn!(reason = "Scoped", "a"));
    assert_eq!((layer.events_without_object(), lines.take()), (1, vec!["layer a".to_owned()]));

    let log = Registry::default().with(layer.clone()).with(lines.clone());
    subscriber::set_global_default(log).unwrap();
    warn!(reason = "Lost\u{1b}\u{200b}", "b");
    warn!(reason = "Lost", object.kind = "Pod", "c");
    info!(reason = None::<&str>, "d");
    assert!(fake.take().is_empty());
    assert_eq!(layer.events_without_object(), 3);
    let lines = lines.take();
    let warning = r"eventcast_tracing::layer cannot record the event Lost\u{1b}\u{200b}: it has no object. ";
    assert!(lines[0].starts_with(warning), "{lines:?}");
    assert_eq!(lines[1..], ["layer b", "layer c", "layer d"]);
}

/// While the warning about an event without an object is logged, another layer logs such an event.
#[test]
fn an_event_without_an_object_can_be_logged_by_a_layer() {
    struct Echo;
    impl<S: Subscriber> Layer<S> for Echo {
        fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
            if event.metadata().target().starts_with("eventcast_tracing") {
                info!(reason = "Echo");
            }
        }
    }
    in_own_process!();
    watched(|| {
        let layer = RecorderLayer::new(FakeRecorder::new(8).recorder("shop"));
        subscriber::set_global_default(Registry::default().with(layer.clone()).with(Echo)).unwrap();
        info!(reason = "Lost");
        assert_eq!(layer.events_without_object(), 2);
    });
}

#[test]
fn the_recorder_checks_the_reason_and_the_message() {
    let events = EventBroadcaster::builder().event_time(true).max_message_len(64).build().unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    let recorder = events.recorder("shop");
    subscriber::with_default(Registry::default().with(shop_layer(recorder.clone())), || {
        info!(reason = "", action = "Buy", "an empty reason");
        info!(reason = %"x".repeat(200), action = "Buy", "a reason that is too long");
        info!(reason = "LongAction", action = %"x".repeat(200), "an action that is too long");
        info!(reason = "Long", action = "Buy", "{}", "m".repeat(1 << 20));
    });
    events.flush(LONG).unwrap();
    let stats = recorder.stats();
    assert_eq!((stats.empty_reason, stats.invalid, stats.truncated), (1, 2, 1));
    let stored = store.events();
    assert_eq!((stored.len(), stored[0].message.len(), stored[0].action().as_str()), (1, 64, "Buy"));
}

#[test]
fn similar_events_are_folded_and_floods_are_suppressed() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let events = EventBroadcaster::builder().clock(clock.clock()).build().unwrap();
    let store = MemorySink::new();
    let recording = events.record_to(store.clone()).unwrap();
    let layer = shop_layer(events.recorder("shop"));
    subscriber::with_default(Registry::default().with(layer), || {
        for file in 1..=12 {
            warn!(reason = "WriteFailed", "file {file}: no space left");
        }
        // The object's budget for Warnings allows 25 events, of which 13 are left.
        for request in 1..=30 {
            let reason = format!("Refused{request}");
            warn!(reason, "too many requests");
        }
        for _ in 0..5 {
            info!(reason = "Ping");
        }
    });
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.watcher.delivered, stats.aggregated, stats.skipped), (47, 3, 17));
    let stored = store.events();
    assert_eq!(stored.len(), 10 + 13 + 1);
    assert_eq!(stored.iter().find(|event| event.reason == "Ping").unwrap().count, 5);
    let folded = "(combined from similar events): file 12: no space left";
    assert_eq!(stored.iter().find(|event| event.message == folded).unwrap().count, 3);
}

#[test]
fn events_after_the_shutdown_are_counted() {
    let events = EventBroadcaster::new().unwrap();
    let recorder = events.recorder("shop");
    subscriber::with_default(Registry::default().with(shop_layer(recorder.clone())), || {
        events.shutdown();
        warn!(reason = "Late");
    });
    let disabled = Recorder::disabled();
    subscriber::with_default(Registry::default().with(shop_layer(disabled.clone())), || {
        warn!(reason = "Disabled");
    });
    assert_eq!((recorder.stats().closed, disabled.stats().disabled), (1, 1));
}

/// A value whose `Debug` implementation calls a function.
struct Calls(fn());

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (self.0)();
        f.write_str("formatted")
    }
}

#[test]
fn a_panic_while_a_value_is_formatted_reaches_the_caller() {
    let fake = FakeRecorder::new(8);
    let panics = Calls(|| panic!("on purpose"));
    subscriber::with_default(Registry::default().with(shop_layer(fake.recorder("shop"))), || {
        let order = info_span!("order", object.kind = "Order", object.name = 17);
        let _order = order.enter();
        let caught = |log: &dyn Fn()| catch_unwind(AssertUnwindSafe(log)).is_err();
        assert!(caught(&|| info!(reason = ?panics)));
        assert!(caught(&|| info!(reason = "Message", "{panics:?}")));
        assert!(caught(&|| _ = order.record("object.name", tracing::field::debug(&panics))));
        assert!(caught(&|| _ = info_span!("x", object.kind = ?panics)));
        // The layer and the span still work. Fields that the layer does not read are not formatted.
        info!(reason = "After", other = ?panics);
        order.record("object.name", 18);
        info!(reason = "After");
    });
    assert_eq!(shown(&fake.take()), ["Order/17 After ", "Order/18 After "]);
}

#[test]
fn a_value_that_logs_while_it_is_formatted_is_recorded() {
    in_own_process!();
    watched(|| {
        let fake = FakeRecorder::new(8);
        subscriber::set_global_default(Registry::default().with(shop_layer(fake.recorder("shop")))).unwrap();
        let logs = Calls(|| info!(reason = "Formatting"));
        let order = info_span!("order", object.kind = "Order", object.name = ?logs);
        let _order = order.enter();
        order.record("object.name", tracing::field::debug(&logs));
        info!(reason = "Formatted", "{logs:?}");
        assert_eq!(
            shown(&fake.take()),
            [
                "Service/shop Formatting ",
                "Order/formatted Formatting ",
                "Order/formatted Formatting ",
                "Order/formatted Formatted formatted",
            ]
        );
    });
}

#[test]
fn many_threads_log_at_the_same_time() {
    const THREADS: usize = 8;
    const EVENTS: usize = 200;
    let fake = FakeRecorder::new(2 * THREADS * EVENTS);
    let layer = RecorderLayer::new(fake.recorder("shop"));
    let log: Arc<dyn Subscriber + Send + Sync> = Arc::new(Registry::default().with(layer.clone()));
    let order = subscriber::with_default(log.clone(), || {
        info_span!("order", object.kind = "Order", object.name = "", object.namespace = Empty)
    });
    let start = Barrier::new(THREADS);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (log, order, start) = (log.clone(), order.clone(), &start);
            scope.spawn(move || {
                subscriber::with_default(log, || {
                    start.wait();
                    for event in 0..EVENTS {
                        // No event has an object until a thread has recorded the name.
                        order.in_scope(|| info!(reason = "Early"));
                        order.record("object.name", thread).record("object.namespace", event);
                        order.in_scope(|| info!(reason = "Named"));
                    }
                });
            });
        }
    });
    let (events, without_object) = (fake.take(), usize::try_from(layer.events_without_object()).unwrap());
    assert!(without_object <= THREADS, "{without_object}");
    assert_eq!(events.len() + without_object, 2 * THREADS * EVENTS);
    let of = |reason: &str| events.iter().filter(|event| event.reason == reason).count();
    assert_eq!(of("Named"), THREADS * EVENTS);
    assert!(events.iter().all(|event| event.involved_object.kind == "Order"));
}
