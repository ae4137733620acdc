//! client-go: `tools/record/events_cache_test.go`. Its functions are private here, so the tests
//! give events to a correlator and check its decisions.

use std::time::Duration;

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::event::EventSource;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, ObjectReference, Text, Timestamp};

use crate::support::clock;

/// client-go's `defaultAggregateMaxEvents`, `defaultSpamBurst` and
/// `defaultAggregateIntervalInSeconds`.
const MAX_EVENTS: usize = 10;
const SPAM_BURST: usize = 25;
const INTERVAL: u64 = 600;

fn event(reason: &str, message: &str, pod: &str, namespace: &str) -> Event {
    let mut event = Event::default();
    event.involved_object = ObjectReference::new("Pod", pod.to_owned()).in_namespace(namespace.to_owned());
    event.involved_object.uid = "C934D34AFB20242".into();
    event.involved_object.api_version = "version".into();
    event.involved_object.field_path = "spec.containers{mycontainer}".into();
    event.reason = reason.into();
    event.message = message.into();
    event.source = EventSource::from("kubelet").on_host("kubelet.node1");
    event.count = 1;
    event.type_ = "Normal".into();
    event
}

fn of_my_pod(reason: &str, message: &str) -> Event {
    event(reason, message, "my-pod", "my-ns")
}

fn in_container(mut event: Event, container: &str) -> Event {
    event.involved_object.field_path = format!("spec.containers{{{container}}}").into();
    event
}

/// Returns events that differ in their messages only.
fn similar(count: usize, template: &Event) -> Vec<Event> {
    let numbered = |n| {
        let mut event = template.clone();
        event.message = format!("{}-{n}", template.message).into();
        event
    };
    (0..count).map(numbered).collect()
}

/// A correlator whose decisions a store has accepted.
struct Rig {
    clock: FakeClock,
    correlator: EventCorrelator,
}

impl Rig {
    fn new(options: CorrelatorOptions) -> Self {
        let clock = clock();
        Self { correlator: EventCorrelator::new_exact(options.clock(clock.clock())).unwrap(), clock }
    }

    /// Gives an event to the correlator. Go's clock steps each time that it is read, which is at
    /// least twice for an event, so this clock steps twice.
    fn play(&self, event: &Event, step: Duration) -> Option<Event> {
        self.clock.advance(step);
        let now = Timestamp::from(self.clock.clock().now());
        let mut event = event.clone();
        (event.first_timestamp, event.last_timestamp) = (Some(now), Some(now));
        self.clock.advance(step);
        match self.correlator.correlate(&event) {
            Correlation::Create { event, key } | Correlation::Update { event, key } => {
                self.correlator.confirm(key, &event);
                Some(event)
            }
            Correlation::Skip => None,
            other => panic!("no other decision exists: {other:?}"),
        }
    }
}

/// Checks a decision, like Go's `validateEvent`.
#[track_caller]
fn assert_is(actual: &Event, expected: &Event, count: i32) {
    let times = [actual.first_timestamp.unwrap(), actual.last_timestamp.unwrap()];
    assert_eq!(times[0] != times[1], count > 1, "{times:?}");
    let mut expected = expected.clone();
    expected.count = count;
    (expected.first_timestamp, expected.last_timestamp) = (actual.first_timestamp, actual.last_timestamp);
    // A folded event has another name. The library adds the reporting controller.
    expected.metadata.name = actual.metadata.name.clone();
    expected.reporting_controller = actual.reporting_controller.clone();
    assert_eq!(*actual, expected);
}

/// `TestEventAggregatorByReasonFunc`.
#[test]
fn events_are_folded_by_reason_and_not_by_message() {
    let rig = Rig::new(CorrelatorOptions::default().aggregation(Aggregation::default().max_events(2)));
    let play = |reason, message| rig.play(&of_my_pod(reason, message), Duration::from_secs(1)).unwrap();
    assert_eq!(play("end-of-world", "it was fun").message, "it was fun");
    assert_eq!(play("nevermind", "it was a bug").message, "it was a bug");
    assert_eq!(play("end-of-world", "it was awful").message, "(combined from similar events): it was awful");
}

/// Plays the events before the last one with this step, and returns the decision about the last.
fn after(previous: &[Event], last: &Event, seconds: u64) -> Option<Event> {
    let rig = Rig::new(CorrelatorOptions::default());
    let step = Duration::from_secs(seconds);
    for event in previous {
        rig.play(event, step);
    }
    rig.play(last, step)
}

/// `TestEventCorrelator`: `create-a-single-event`, `create-many-unique-events`.
#[test]
fn an_event_that_is_unlike_others_is_created() {
    let unique = |n: usize| event(&format!("reason-{n}"), "message", &format!("pod-{n}"), "my-ns");
    let others: Vec<_> = (0..30).map(unique).collect();
    let last = of_my_pod("unique", "snowflake");
    for previous in [&[][..], &others] {
        assert_is(&after(previous, &last, 5).unwrap(), &last, 1);
    }
}

/// `TestEventCorrelator`: `the-same-event-should-just-count`, and
/// `the-same-event-should-just-count-even-if-more-than-aggregate`.
#[test]
fn an_equal_event_is_counted_and_never_folded() {
    let same = of_my_pod("duplicate", "me again");
    for (before, seconds) in [(1, 5), (MAX_EVENTS, 30)] {
        let count = i32::try_from(before).unwrap() + 1;
        assert_is(&after(&vec![same.clone(); before], &same, seconds).unwrap(), &same, count);
    }
}

/// `TestEventCorrelator`: `the-same-event-is-spam-if-happens-too-frequently`.
#[test]
fn an_equal_event_beyond_the_burst_is_skipped() {
    let same = of_my_pod("duplicate", "me again");
    assert_eq!(after(&vec![same.clone(); SPAM_BURST + 1], &same, 1), None);
}

/// `TestEventCorrelator`: `similar-events-should-aggregate-event`, and
/// `similar-events-many-times-should-count-the-aggregate`.
#[test]
fn similar_events_are_folded_and_counted() {
    let last = in_container(of_my_pod("similar", "similar message"), "container1");
    let mut combined = last.clone();
    combined.message = format!("(combined from similar events): {}", last.message).into();
    for (before, count) in [(MAX_EVENTS - 1, 1), (MAX_EVENTS, 2)] {
        assert_is(&after(&similar(before, &last), &last, 5).unwrap(), &combined, count);
    }
}

/// `TestEventCorrelator`: `events-from-different-containers-do-not-aggregate`, and
/// `similar-events-whose-interval-is-greater-than-aggregate-interval-do-not-aggregate`.
#[test]
fn events_of_other_containers_and_of_the_past_are_not_folded() {
    let template = of_my_pod("similar", "similar message");
    let last = in_container(template.clone(), "container1");
    assert_is(&after(&[in_container(template, "container2")], &last, 5).unwrap(), &last, 1);
    assert_is(&after(&similar(MAX_EVENTS - 1, &last), &last, INTERVAL).unwrap(), &last, 1);
}

/// `TestEventSpamFilter`.
#[test]
fn a_spam_key_decides_which_events_share_a_budget() {
    fn with_reason(event: &Event) -> Text {
        let object = &event.involved_object;
        format_args!("{}/{}/{}", object.namespace, object.name, event.reason).into()
    }
    let first = of_my_pod("original", "i am first");
    let (other_reason, same_reason) = (of_my_pod("duplicate", "me again"), of_my_pod("original", "me again"));
    for (has_own_key, last, is_skipped) in
        [(false, &other_reason, true), (true, &other_reason, false), (true, &same_reason, true)]
    {
        let mut options = CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(1));
        if has_own_key {
            options = options.spam_key(with_reason);
        }
        let rig = Rig::new(options);
        assert!(rig.play(&first, Duration::from_secs(1)).is_some());
        match rig.play(last, Duration::from_secs(1)) {
            Some(actual) if !is_skipped => assert_is(&actual, last, 1),
            actual => assert_eq!(actual.is_none(), is_skipped, "{actual:?}"),
        }
    }
}
