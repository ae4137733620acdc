//! The abilities of the correlator that client-go's lacks. They are off unless asked for.
#![cfg(feature = "recorder")]

use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::sink::MemorySinkOptions;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, MemorySink, ObjectReference, Text};

fn event(message: impl Into<Text>) -> Event {
    let mut event = Event::default();
    event.metadata.name = "web-0.1".into();
    event.metadata.namespace = "default".into();
    event.involved_object = ObjectReference::new("Pod", "web-0").in_namespace("default");
    event.source.component = "kubelet".into();
    event.reason = "BackOff".into();
    event.message = message.into();
    event.type_ = "Normal".into();
    event.count = 1;
    event
}

fn warning(message: impl Into<Text>) -> Event {
    let mut event = event(message);
    event.type_ = "Warning".into();
    event
}

fn correlator(options: CorrelatorOptions) -> (FakeClock, EventCorrelator) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let correlator = EventCorrelator::new(options.clock(clock.clock())).unwrap();
    (clock, correlator)
}

/// Returns options with a changed filter.
fn filtering(change: impl FnOnce(&mut SpamFilter)) -> CorrelatorOptions {
    let mut options = CorrelatorOptions::default();
    change(options.spam_filter.as_mut().unwrap());
    options
}

/// Returns options with a changed aggregation, which folds everything.
fn folding(change: impl FnOnce(&mut Aggregation)) -> CorrelatorOptions {
    let mut options = CorrelatorOptions::default();
    options.aggregation.as_mut().unwrap().max_events = 1;
    change(options.aggregation.as_mut().unwrap());
    options
}

fn created(correlation: Correlation) -> Event {
    let Correlation::Create { event, .. } = correlation else { panic!("{correlation:?}") };
    event
}

fn updated(correlation: Correlation) -> Event {
    let Correlation::Update { event, .. } = correlation else { panic!("{correlation:?}") };
    event
}

#[test]
fn warnings_can_be_exempt_from_the_filter() {
    let (_, exempt) = correlator(filtering(|filter| (filter.burst, filter.exempt_warnings) = (1, true)));
    let (_, plain) = correlator(filtering(|filter| filter.burst = 1));
    for i in 0..50 {
        let is_first = i == 0;
        assert!(!matches!(exempt.correlate(&warning("w")), Correlation::Skip(_)), "{i}");
        assert_eq!(matches!(plain.correlate(&warning("w")), Correlation::Skip(_)), !is_first, "{i}");
        assert_eq!(matches!(exempt.correlate(&event("n")), Correlation::Skip(_)), !is_first, "{i}");
    }
    // The same with the user's key.
    let options = filtering(|filter| (filter.burst, filter.exempt_warnings) = (1, true));
    let (_, custom) = correlator(options.spam_key(|event| event.reason.clone()));
    assert!(!matches!(custom.correlate(&event("n")), Correlation::Skip(_)));
    assert!(matches!(custom.correlate(&event("n")), Correlation::Skip(_)));
    assert!(!matches!(custom.correlate(&warning("w")), Correlation::Skip(_)));
}

#[test]
fn metadata_can_survive_aggregation() {
    let mut detailed = event("m");
    detailed.metadata.labels_mut().insert("team".into(), "blue".into());
    detailed.metadata.annotations_mut().insert("run".into(), "7".into());
    detailed.reporting_controller = "kubelet".into();
    detailed.reporting_instance = "node-1".into();

    let (_, keeping) = correlator(folding(|aggregation| aggregation.keep_metadata = true));
    let folded = created(keeping.correlate(&detailed));
    assert!(folded.message.starts_with("(combined"));
    assert_eq!(
        (folded.metadata.labels(), folded.metadata.annotations()),
        (detailed.metadata.labels(), detailed.metadata.annotations())
    );
    assert_eq!((&*folded.reporting_controller, &*folded.reporting_instance), ("kubelet", "node-1"));

    let (_, plain) = correlator(folding(|_| {}));
    let folded = created(plain.correlate(&detailed));
    assert!(folded.metadata.labels().is_empty() && folded.metadata.annotations().is_empty());
    assert_eq!((&*folded.reporting_controller, &*folded.reporting_instance), ("", ""));
}

#[test]
fn the_stores_name_of_a_group_can_be_kept() {
    for keeps in [false, true] {
        let (_, correlator) = correlator(folding(|aggregation| aggregation.keep_stored_name = keeps));
        let Correlation::Create { mut event, key } = correlator.correlate(&event("m")) else { panic!() };
        let given = event.metadata.name.clone();
        event.metadata.name = "renamed".into();
        event.metadata.set_resource_version("7");
        correlator.confirm(key, &event);
        let next = updated(correlator.correlate(&self::event("another")));
        assert_eq!(next.metadata.name == "renamed", keeps);
        assert_eq!(next.metadata.name == given, !keeps);
        assert_eq!(next.metadata.resource_version(), "7");
    }
}

#[test]
fn groups_of_one_moment_can_have_names_of_their_own() {
    for own in [false, true] {
        let (_, correlator) = correlator(folding(|aggregation| aggregation.own_names = own));
        let mut other = event("m");
        other.reason = "Killing".into();
        let names = [event("m"), other].map(|event| created(correlator.correlate(&event)).metadata.name);
        assert_eq!(names[0] != names[1], own, "{names:?}");
    }
}

#[test]
fn a_summary_tells_of_what_was_skipped() {
    for with_key in [false, true] {
        let mut options = filtering(|filter| (filter.burst, filter.qps, filter.summaries) = (1, 1.0, true));
        if with_key {
            options = options.spam_key(|event| event.involved_object.name.clone());
        }
        let (clock, correlator) = correlator(options);
        let mut name = Text::default();
        for (round, skipped) in [3, 1, 5].into_iter().enumerate() {
            if round == 0 {
                created(correlator.correlate(&event("m")));
            }
            for _ in 0..skipped {
                assert!(matches!(correlator.correlate(&event("m")), Correlation::Skip(_)));
            }
            clock.advance(Duration::from_secs(10));
            let Correlation::Summarized { summary, event: decision } = correlator.correlate(&event("m"))
            else {
                panic!("no summary");
            };
            let summary = if round == 0 { created(*summary) } else { updated(*summary) };
            let plural = if skipped == 1 { "" } else { "s" };
            assert_eq!(summary.message, *format!("{skipped} event{plural} suppressed"));
            assert_eq!(
                (&*summary.reason, summary.count),
                ("EventsSuppressed", i32::try_from(round).unwrap() + 1)
            );
            assert_eq!(summary.involved_object, event("m").involved_object);
            assert_eq!((summary.source, summary.type_), (event("m").source, "Normal".into()));
            if round == 0 {
                name = summary.metadata.name.clone();
                assert!(name.starts_with("web-0."));
            }
            assert_eq!(summary.metadata.name, name);
            // The event has the same contents as without the summary: its count includes the
            // skipped events.
            assert!(updated(*decision).count > skipped);
        }
        let stats = correlator.stats();
        assert_eq!(stats.summaries, 3);
        assert_eq!(stats.created, 1);
        assert!(stats.to_string().ends_with(", summaries 3"), "{stats}");
        assert_eq!(stats.created + stats.updated + stats.filtered, 1 + 3 + 1 + 5 + 3);
    }
}

#[test]
fn without_being_asked_there_is_no_summary() {
    let (clock, correlator) = correlator(filtering(|filter| (filter.burst, filter.qps) = (1, 1.0)));
    created(correlator.correlate(&event("m")));
    assert!(matches!(correlator.correlate(&event("m")), Correlation::Skip(_)));
    clock.advance(Duration::from_secs(10));
    assert_eq!(updated(correlator.correlate(&event("m"))).count, 3);
    assert_eq!(correlator.stats().summaries, 0);
}

/// A recording writes both the summary and the event, and its counters count only the event.
#[test]
fn a_recording_stores_the_summary() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .correlator(filtering(|filter| (filter.burst, filter.qps, filter.summaries) = (1, 1.0, true)))
        .build()
        .unwrap();
    let recording = events.start_recording_to_sink(store.clone()).unwrap();
    let recorder = events.new_recorder("kubelet");
    let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    for _ in 0..4 {
        recorder.event(&pod, eventcast::EventType::Normal, "BackOff", "restarting");
    }
    events.flush(Duration::from_secs(30)).unwrap();
    clock.advance(Duration::from_secs(10));
    recorder.event(&pod, eventcast::EventType::Normal, "BackOff", "restarting");
    events.flush(Duration::from_secs(30)).unwrap();
    let mut stored: Vec<(Text, Text, i32)> =
        store.events().into_iter().map(|event| (event.reason, event.message, event.count)).collect();
    stored.sort();
    assert_eq!(
        stored,
        [
            ("BackOff".into(), "restarting".into(), 5),
            ("EventsSuppressed".into(), "3 events suppressed".into(), 1)
        ]
    );
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.skipped, stats.handled()), (1, 1, 3, 5));
}

#[test]
fn all_of_it_can_be_configured() {
    let json = r#"{"aggregation": {"keep_metadata": true, "keep_stored_name": true, "own_names": true},
        "spam_filter": {"exempt_warnings": true, "summaries": true}}"#;
    let options: CorrelatorOptions = serde_json::from_str(json).unwrap();
    let aggregation = options.aggregation.unwrap();
    assert!(aggregation.keep_metadata && aggregation.keep_stored_name && aggregation.own_names);
    let filter = options.spam_filter.unwrap();
    assert!(filter.exempt_warnings && filter.summaries);
    assert_eq!((aggregation.max_events, filter.burst), (10, 25));
    let (aggregation, filter) = (Aggregation::default(), SpamFilter::default());
    assert!(!aggregation.keep_metadata && !aggregation.keep_stored_name && !aggregation.own_names);
    assert!(!filter.exempt_warnings && !filter.summaries);
}
