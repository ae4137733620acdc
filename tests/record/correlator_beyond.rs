//! The abilities of the correlator that client-go's lacks. They are off unless asked for.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
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

/// Returns options with a changed filter, whose budget is one event.
fn filtering(change: impl FnOnce(SpamFilter) -> SpamFilter) -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(change(SpamFilter::default().burst(1)))
}

/// Returns options with a changed aggregation, which folds everything.
fn folding(change: impl FnOnce(Aggregation) -> Aggregation) -> CorrelatorOptions {
    CorrelatorOptions::default().aggregation(change(Aggregation::default().max_events(1)))
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

#[test]
fn warnings_can_be_exempt_from_the_filter() {
    let (_, exempt) = correlator(filtering(|filter| filter.exempt_warnings(true)));
    let (_, plain) = correlator(filtering(|filter| filter));
    for i in 0..50 {
        let is_first = i == 0;
        assert!(!matches!(exempt.correlate(&warning("w")), Correlation::Skip), "{i}");
        assert_eq!(matches!(plain.correlate(&warning("w")), Correlation::Skip), !is_first, "{i}");
        assert_eq!(matches!(exempt.correlate(&event("n")), Correlation::Skip), !is_first, "{i}");
    }
    // The same with the user's key.
    let options = filtering(|filter| filter.exempt_warnings(true));
    let (_, custom) = correlator(options.spam_key(|event| event.reason.clone()));
    assert!(!matches!(custom.correlate(&event("n")), Correlation::Skip));
    assert!(matches!(custom.correlate(&event("n")), Correlation::Skip));
    assert!(!matches!(custom.correlate(&warning("w")), Correlation::Skip));
}

/// A repeat that finds the budget used up is held with the count that the store lacks. An event
/// that the store does not have is skipped, however often it is recorded.
#[test]
fn a_held_repeat_has_the_count_and_the_name_of_the_stored_event() {
    for (with_key, with_groups) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut options = filtering(|filter| filter.qps(1.0));
        if with_key {
            options = options.spam_key(|event| event.involved_object.name.clone());
        }
        if with_groups {
            options = options.aggregate_key(|event| (event.reason.clone(), event.message.clone()));
        }
        let (clock, correlator) = correlator(options);
        let first = created(correlator.correlate_or_hold(&event("m")));
        for count in 2..5 {
            clock.advance(Duration::from_millis(100));
            let mut again = event("m");
            again.metadata.name = "web-0.2".into();
            again.last_timestamp = Some(clock.clock().now().into());
            let held = held(correlator.correlate_or_hold(&again));
            assert_eq!((held.count, held.last_timestamp), (count, again.last_timestamp));
            assert_eq!(held.metadata.name, first.metadata.name);
            assert!(matches!(correlator.correlate_or_hold(&event("new")), Correlation::Skip));
        }
        assert!(matches!(correlator.correlate(&event("m")), Correlation::Skip), "it is not asked to hold");
        clock.advance(Duration::from_secs(10));
        assert_eq!(updated(correlator.correlate_or_hold(&event("m"))).count, 6);
        clock.advance(Duration::from_secs(10));
        // From the first write on, the store has this one as well.
        assert_eq!(updated(correlator.correlate_or_hold(&event("new"))).count, 4);
        assert_eq!(held(correlator.correlate_or_hold(&event("new"))).count, 5);
        let stats = correlator.stats();
        assert_eq!((stats.created, stats.updated, stats.filtered), (1, 2, 8), "{stats}");
    }
}

#[test]
fn a_held_repeat_of_a_group_has_the_latest_message() {
    for with_key in [false, true] {
        let mut options = folding(|aggregation| aggregation).spam_filter(SpamFilter::default().burst(1));
        if with_key {
            options = options.aggregate_key(|event| (event.reason.clone(), event.message.clone()));
        }
        let (_, correlator) = correlator(options);
        let first = created(correlator.correlate_or_hold(&event("a")));
        let held = held(correlator.correlate_or_hold(&event("b")));
        assert_eq!((held.count, &*held.message), (2, "(combined from similar events): b"));
        assert_eq!(held.metadata.name, first.metadata.name);
    }
}

/// An event that an answer of the store brings back is in the store.
#[test]
fn a_confirmed_event_is_held_although_the_correlator_had_forgotten_it() {
    let (_, correlator) = correlator(filtering(|filter| filter).lru_cache_size(1));
    let Correlation::Create { event: stored, key } = correlator.correlate_or_hold(&event("m")) else {
        panic!()
    };
    assert!(matches!(correlator.correlate_or_hold(&event("other")), Correlation::Skip));
    correlator.confirm(key, &stored);
    assert_eq!(held(correlator.correlate_or_hold(&event("m"))).count, 2);
}

/// 40 warnings about one object: the default budget lets 25 pass, and the hook gets the others.
#[test]
fn a_recording_reports_each_event_that_its_filter_skips() {
    let skipped = Arc::new(Mutex::new(Vec::new()));
    let noted = skipped.clone();
    let options = CorrelatorOptions::default().aggregation(None);
    let events = EventBroadcaster::builder()
        .correlator(options.on_skip(move |event| noted.lock().unwrap().push(event.message.to_string())))
        .build()
        .unwrap();
    let store = MemorySink::new();
    let recording = events.record_to(store.clone()).unwrap();
    // Another recording of the same broadcaster skips nothing.
    let whole = MemorySink::new();
    events.recording().correlator(CorrelatorOptions::off()).start(whole.clone()).unwrap();
    let recorder = events.recorder("jobs");
    let job = ObjectReference::new("Job", "backup");
    let messages: Vec<String> = (0..40).map(|file| format!("file {file}")).collect();
    for message in &messages {
        assert!(recorder.event(&job, eventcast::EventType::Warning, "Unreadable", message).is_accepted());
    }
    events.flush(Duration::from_secs(30)).unwrap();
    assert_eq!(*skipped.lock().unwrap(), messages[25..]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.skipped, stats.panics, store.len()), (25, 15, 0, 25));
    assert_eq!(whole.len(), 40);
}

#[test]
fn a_hook_that_panics_changes_no_decision_and_is_counted() {
    let calls = Arc::new(AtomicU64::new(0));
    let (called, panicking) = (calls.clone(), filtering(|filter| filter));
    let panicking = panicking.on_skip(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    });
    let (_, alone) = correlator(panicking.clone());
    created(alone.correlate(&event("m")));
    assert!(matches!(alone.correlate(&event("m")), Correlation::Skip));
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);

    let lost = Arc::new(AtomicU64::new(0));
    let count = lost.clone();
    let events = EventBroadcaster::builder()
        .correlator(panicking)
        .on_loss(move |loss| {
            count.fetch_add(loss.count, Ordering::SeqCst);
        })
        .build()
        .unwrap();
    let recording = events.record_to(MemorySink::new()).unwrap();
    let recorder = events.recorder("jobs");
    for _ in 0..4 {
        recorder.event(ObjectReference::new("Job", "a"), eventcast::EventType::Normal, "Run", "it runs");
    }
    events.flush(Duration::from_secs(30)).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.skipped), (1, 3, 0));
    assert_eq!((stats.rejected, stats.panics), (0, 3));
    assert_eq!((calls.load(Ordering::SeqCst), lost.load(Ordering::SeqCst)), (3, 0));
}

/// The hook correlates another event of the same budget. This would wait for ever if the library
/// held the budget's lock.
#[test]
fn a_hook_can_use_its_own_correlator() {
    for with_key in [false, true] {
        let shared = Arc::new(OnceLock::<EventCorrelator>::new());
        let (own, nested) = (Arc::downgrade(&shared), Arc::new(AtomicU64::new(0)));
        let count = nested.clone();
        let mut options = filtering(|filter| filter).on_skip(move |skipped| {
            let own = own.upgrade().unwrap();
            if skipped.message == "outer" {
                assert!(matches!(own.get().unwrap().correlate(&event("inner")), Correlation::Skip));
            } else {
                count.fetch_add(own.get().unwrap().stats().filtered, Ordering::SeqCst);
            }
        });
        if with_key {
            options = options.spam_key(|event| event.reason.clone());
        }
        let own = shared.get_or_init(|| correlator(options).1);
        created(own.correlate(&event("first")));
        assert!(matches!(own.correlate(&event("outer")), Correlation::Skip));
        assert_eq!(nested.load(Ordering::SeqCst), 2, "both events were counted before their hooks ran");
    }
}

#[test]
fn without_stages_only_equal_events_are_counted() {
    let (_, correlator) = correlator(CorrelatorOptions::off());
    for i in 0..50 {
        created(correlator.correlate(&event(format!("m{i}"))));
    }
    for i in 0..50 {
        let again = updated(correlator.correlate(&event(format!("m{i}"))));
        assert_eq!((again.count, again.metadata.name), (2, "web-0.1".into()));
    }
    let stats = correlator.stats();
    assert_eq!((stats.created, stats.updated, stats.aggregated, stats.filtered), (50, 50, 0, 0));
}
