//! Tests the correlator without a recording against the requirements of client-go's own tests and
//! against further requirements.

mod aggregator;
mod cache;
mod decision;
mod options;
mod properties;
mod spam_filter;
mod vectors;

use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, CorrelationKey, EventCorrelator, SpamFilter};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventSource, ObjectReference, Timestamp};

const PREFIX: &str = "(combined from similar events): ";

/// Returns an event like the one that client-go's correlator tests are based on.
fn event(reason: &str, message: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = "pod.1".into();
    event.metadata.namespace = "ns".into();
    event.involved_object = ObjectReference::new("Pod", "pod").in_namespace("ns");
    event.involved_object.uid = "C934D34AFB20242".into();
    event.involved_object.api_version = "version".into();
    event.involved_object.field_path = "spec.containers{mycontainer}".into();
    event.source = EventSource::from("kubelet").on_host("kublet.node1");
    event.reason = reason.to_owned().into();
    event.message = message.to_owned().into();
    event.count = 1;
    event.type_ = "Normal".into();
    event
}

fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)
}

/// A correlator with a fake clock. The correlator's answers are confirmed in the same way as by a
/// store that changes nothing.
struct Rig {
    clock: FakeClock,
    correlator: EventCorrelator,
}

#[derive(Debug, PartialEq)]
enum Seen {
    Create(i32),
    Update(i32),
    Skip,
}

impl Rig {
    fn new(options: CorrelatorOptions) -> Self {
        let clock = FakeClock::new(start());
        Self { correlator: EventCorrelator::new(options.clock(clock.clock())).unwrap(), clock }
    }

    fn run(&self, event: &Event) -> (Seen, Option<Event>) {
        let mut event = event.clone();
        let now = Timestamp::from(self.clock.clock().now());
        event.first_timestamp = Some(now);
        event.last_timestamp = Some(now);
        match self.correlator.correlate(&event) {
            Correlation::Create { event, key } => {
                self.correlator.confirm(key, &event);
                (Seen::Create(event.count), Some(event))
            }
            Correlation::Update { event, key, .. } => {
                self.correlator.confirm(key, &event);
                (Seen::Update(event.count), Some(event))
            }
            Correlation::Skip => (Seen::Skip, None),
            other => panic!("{other:?}"),
        }
    }

    fn seen(&self, event: &Event) -> Seen {
        self.run(event).0
    }

    fn step(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

/// Returns options that fold events starting with the `max_events`th message.
fn folding(max_events: usize) -> CorrelatorOptions {
    CorrelatorOptions::default().aggregation(Aggregation::default().max_events(max_events))
}

/// Returns options with a budget for bursts of `burst` events.
fn budget(burst: u32) -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(burst))
}

fn decision(correlation: Correlation) -> (Event, CorrelationKey) {
    match correlation {
        Correlation::Create { event, key, .. } | Correlation::Update { event, key, .. } => (event, key),
        other => panic!("{other:?}"),
    }
}

fn created(correlation: Correlation) -> Event {
    let Correlation::Create { event, .. } = correlation else { panic!("{correlation:?}") };
    event
}

fn updated(correlation: Correlation) -> Event {
    let Correlation::Update { event, .. } = correlation else { panic!("{correlation:?}") };
    event
}

fn held(correlation: Correlation) -> Event {
    let Correlation::Held { event, .. } = correlation else { panic!("{correlation:?}") };
    event
}

/// Returns an event about the object with the given number.
fn about(object: u64) -> Event {
    let mut event = event("r", "m");
    event.involved_object.name = format!("pod-{object}").into();
    event
}
