//! Log events that result from recording an event are not recorded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use eventcast::sink::MemorySink;
use eventcast::{Event, EventBroadcaster, EventSink, SinkError};
use test_support::{LONG, in_own_process};
use tracing::{Subscriber, info, subscriber, warn};
use tracing_subscriber::Registry;
use tracing_subscriber::layer::SubscriberExt;

use crate::{recorded, shop_layer, shown};

/// Logs each recorded event, with its reason, through a subscriber that is set later.
#[derive(Clone, Default)]
struct StructuredLog {
    subscriber: Arc<OnceLock<Arc<dyn Subscriber + Send + Sync>>>,
    calls: Arc<AtomicU64>,
}

impl StructuredLog {
    fn log(&self, event: &Event) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        let log = self.subscriber.get().expect("the subscriber is set").clone();
        subscriber::with_default(log, || info!(reason = event.reason.as_str(), "{}", event.message));
    }

    /// Logs an event through a layer that records into the broadcaster. Asserts that the structured
    /// log was called only for this event.
    fn assert_recorded_once(&self, events: &EventBroadcaster) {
        let log: Arc<dyn Subscriber + Send + Sync> =
            Arc::new(Registry::default().with(shop_layer(events.recorder("shop"))));
        assert!(self.subscriber.set(log.clone()).is_ok());
        subscriber::with_default(log, || info!(reason = "Started", "the shop is open"));
        // The second flush would wait for an event that the structured log had recorded.
        events.flush(LONG).unwrap();
        events.flush(LONG).unwrap();
        assert_eq!(self.calls.load(Ordering::Relaxed), 1);
    }
}

impl EventSink for StructuredLog {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.log(event);
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }
}

#[test]
fn log_events_of_a_handler_are_not_recorded() {
    for events in [EventBroadcaster::new().unwrap(), EventBroadcaster::new_inline()] {
        let log = StructuredLog::default();
        let handler = log.clone();
        events.spawn(move |event| handler.log(event)).unwrap();
        log.assert_recorded_once(&events);
    }
}

#[test]
fn log_events_of_a_sink_are_not_recorded() {
    for events in [EventBroadcaster::new().unwrap(), EventBroadcaster::new_inline()] {
        let log = StructuredLog::default();
        events.record_to(log.clone()).unwrap();
        log.assert_recorded_once(&events);
    }
}

/// A filter runs on the dispatcher, or on the recording thread if the bus is inline.
#[test]
fn log_events_of_a_filter_are_not_recorded() {
    for events in [EventBroadcaster::new().unwrap(), EventBroadcaster::new_inline()] {
        let log = StructuredLog::default();
        let filter = log.clone();
        let log_all = move |event: &Event| {
            filter.log(event);
            true
        };
        events.watch_builder().filter(log_all).spawn(|_| ()).unwrap();
        log.assert_recorded_once(&events);
    }
}

#[test]
fn log_events_of_functions_that_the_recorder_calls_are_not_recorded() {
    in_own_process!();
    let calls = Arc::new(AtomicU64::new(0));
    let [of_scrub, of_hook] = [calls.clone(), calls.clone()];
    let events = EventBroadcaster::builder()
        .scrub(move |_| {
            of_scrub.fetch_add(1, Ordering::Relaxed);
            info!(reason = "Scrubbed");
        })
        .on_loss(move |_| {
            of_hook.fetch_add(100, Ordering::Relaxed);
            info!(reason = "Lost");
        })
        .build()
        .unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    subscriber::set_global_default(Registry::default().with(shop_layer(events.recorder("shop")))).unwrap();
    info!(reason = "Started", "the shop is open");
    info!(reason = "", "refused");
    events.flush(LONG).unwrap();
    assert_eq!(shown(&store.events()), ["Service/shop Started the shop is open"]);
    // The event that the hook receives is scrubbed too.
    assert_eq!(calls.load(Ordering::Relaxed), 102);
}

#[test]
fn log_events_of_eventcast_are_not_recorded() {
    let events = recorded(|| {
        warn!(target: "eventcast", reason = "A");
        warn!(target: "eventcast::record::loss", reason = "B");
        warn!(target: "eventcast_kube", reason = "C");
        warn!(target: "eventcast_nats::status", reason = "D");
        warn!(target: "eventcast_sqlite", reason = "E");
        warn!(target: "eventcast_tracing::layer", reason = "F");
        warn!(target: "eventcaster", reason = "G");
        warn!(target: "shop::eventcast", reason = "H");
    });
    assert_eq!(shown(&events), ["Service/shop G ", "Service/shop H "]);
}
