//! Budgets, and the hook that is called for each event that exceeds its budget.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, MemorySink};

use crate::support::{LONG, clock, clocked, pod, record, with_losses};

use super::{Rig, Seen, budget, created, event, start};

#[test]
fn at_one_a_second_the_budget_lasts_for_25_and_then_one_in_300() {
    let rig = Rig::new(CorrelatorOptions::default());
    let mut accepted = Vec::new();
    for i in 0..1000 {
        match rig.seen(&event("r", "m")) {
            Seen::Skip => {}
            Seen::Create(count) | Seen::Update(count) => accepted.push((i, count)),
        }
        rig.step(1);
    }
    let expected: Vec<(i32, i32)> = (0..25).chain([300, 600, 900]).map(|i| (i, i + 1)).collect();
    assert_eq!(accepted, expected, "the count includes skipped events");
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.updated, stats.filtered), (1, 27, 972));
    assert_eq!(stats.to_string(), "created 1, updated 27, aggregated 0, filtered 972, evicted 0");
}

#[test]
fn budgets_are_per_source_object_and_type() {
    let rig = Rig::new(budget(1));
    assert_eq!(rig.seen(&event("original", "m")), Seen::Create(1));
    assert_eq!(rig.seen(&event("other", "m")), Seen::Skip);
    for change in [
        |e: &mut Event| e.type_ = "Warning".into(),
        |e: &mut Event| e.source.component = "other".into(),
        |e: &mut Event| e.source.host = "other".into(),
        |e: &mut Event| e.involved_object.kind = "other".into(),
        |e: &mut Event| e.involved_object.namespace = "other".into(),
        |e: &mut Event| e.involved_object.name = "other".into(),
        |e: &mut Event| e.involved_object.uid = "other".into(),
        |e: &mut Event| e.involved_object.api_version = "other".into(),
    ] {
        let mut event = event("another", "m");
        change(&mut event);
        assert_eq!(rig.seen(&event), Seen::Create(1), "{event:?}");
    }
    let mut event = event("last", "m");
    event.involved_object.field_path = "other".into();
    event.involved_object.resource_version = "other".into();
    assert_eq!(rig.seen(&event), Seen::Skip);
}

#[test]
fn the_spam_key_sees_the_event_as_it_would_be_stored() {
    let rig = Rig::new(budget(1).spam_key(|event| event.metadata.name.clone()));
    let mut repeat = event("r", "m");
    assert_eq!(rig.seen(&repeat), Seen::Create(1));
    repeat.metadata.name = "pod.2".into();
    assert_eq!(rig.seen(&repeat), Seen::Skip);
}

#[test]
fn a_clock_that_goes_back_neither_refills_nor_evicts() {
    let rig = Rig::new(budget(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
    // The grant at the earlier time moved the bucket's time back, so returning to the start refills
    // the bucket.
    rig.clock.set(start());
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(4));
}

#[test]
fn a_skipped_event_does_not_move_the_bucket_back() {
    let rig = Rig::new(budget(1));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Create(1));
    rig.clock.set(start() - Duration::from_secs(3600));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
    rig.clock.set(start());
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
}

#[test]
fn a_budget_is_never_more_than_its_burst() {
    let rig = Rig::new(budget(2));
    for round in 0..3 {
        assert_ne!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        assert_ne!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        assert_eq!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        rig.step(1_000_000);
    }
}

#[test]
fn less_than_a_nanosecond_short_is_enough() {
    // As a 32-bit number, 0.7 is slightly smaller, so a token takes 1,428,571,452.9 nanoseconds.
    for (nanos, accepted) in [(1_428_571_451, false), (1_428_571_452, true)] {
        let filter = SpamFilter::default().burst(1).qps(0.7);
        let rig = Rig::new(CorrelatorOptions::default().spam_filter(filter));
        rig.run(&event("r", "m"));
        rig.clock.advance(Duration::from_nanos(nanos));
        assert_eq!(rig.seen(&event("r", "m")) != Seen::Skip, accepted, "{nanos}");
    }
}

/// The correlator refills budgets according to the broadcaster's clock, regardless of the clock in
/// the options, and counts the entries that it evicts.
#[test]
fn a_recordings_correlator_goes_by_the_clock_of_the_broadcaster() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let filtered = Arc::new(Mutex::new(0));
    let count = filtered.clone();
    let options = CorrelatorOptions::default()
        .clock(crate::support::clock().clock())
        .cache_size(1)
        .on_skip(move |_| *count.lock().unwrap() += 1)
        .spam_filter(SpamFilter::default().burst(1).qps(1.0));
    let recording = events.recording().correlator(options).start(MemorySink::new()).unwrap();
    for seconds in [0, 1, 0] {
        record(&events, "a", "Started");
        events.flush(LONG).unwrap();
        clock.advance(Duration::from_secs(seconds));
    }
    let stats = recording.stats();
    assert_eq!((stats.created, stats.skipped, stats.updated, stats.evicted), (1, 0, 2, 0));
    assert_eq!(*filtered.lock().unwrap(), 1);
    record(&events, "b", "Started");
    events.flush(LONG).unwrap();
    // The evicted entries are a group, an event and a budget.
    assert_eq!(recording.stats().evicted, 3);
}

#[test]
fn warnings_can_be_exempt_from_the_filter() {
    let exempt = SpamFilter::default().burst(1).exempt_warnings(true);
    let exempt = CorrelatorOptions::default().spam_filter(exempt);
    let mut warning = event("r", "w");
    warning.type_ = "Warning".into();
    for (options, warns) in [
        (budget(1), false),
        (exempt.clone(), true),
        (exempt.spam_key(|event| format_args!("{}/{}", event.type_, event.reason).into()), true),
    ] {
        let rig = Rig::new(options);
        for i in 0..50 {
            let passes = i == 0;
            assert_eq!(rig.seen(&warning) != Seen::Skip, passes || warns, "{i}");
            assert_eq!(rig.seen(&event("r", "n")) != Seen::Skip, passes, "{i}");
        }
    }
}

/// Of 40 warnings about one object, the default budget lets 25 pass, and the hook receives the
/// other warnings.
#[test]
fn a_recording_reports_each_event_that_its_filter_skips() {
    let skipped = Arc::new(Mutex::new(Vec::new()));
    let into = skipped.clone();
    let options = CorrelatorOptions::default().aggregation(None);
    let options = options.on_skip(move |event| into.lock().unwrap().push(event.message.to_string()));
    let events = EventBroadcaster::builder().correlator(options).build().unwrap();
    let [store, whole] = [(); 2].map(|()| MemorySink::new());
    let recording = events.record_to(store.clone()).unwrap();
    // Another recording of the same broadcaster skips nothing.
    events.recording().correlator(CorrelatorOptions::off()).start(whole.clone()).unwrap();
    let recorder = events.recorder("jobs");
    let messages: Vec<String> = (0..40).map(|file| format!("file {file}")).collect();
    for message in &messages {
        assert!(recorder.warning(pod("backup"), "Unreadable", message).is_accepted());
    }
    events.flush(LONG).unwrap();
    assert_eq!(*skipped.lock().unwrap(), messages[25..]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.skipped, stats.panics, store.len()), (25, 15, 0, 25));
    assert_eq!(whole.len(), 40);
}

#[test]
fn a_hook_that_panics_changes_no_decision_and_is_counted() {
    let calls = Arc::new(AtomicU64::new(0));
    let called = calls.clone();
    let panicking = budget(1).on_skip(move |_| {
        called.fetch_add(1, Ordering::SeqCst);
        panic!("on purpose");
    });
    let alone = Rig::new(panicking.clone());
    assert_eq!([(); 2].map(|()| alone.seen(&event("r", "m"))), [Seen::Create(1), Seen::Skip]);
    assert_eq!(calls.swap(0, Ordering::SeqCst), 1);

    let builder = EventBroadcaster::builder().correlator(panicking);
    let (events, losses) = with_losses(builder, |_| ());
    let recording = events.record_to(MemorySink::new()).unwrap();
    for _ in 0..4 {
        record(&events, "web-0", "Run");
    }
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.skipped), (1, 3, 0));
    assert_eq!((stats.rejected, stats.panics), (0, 3));
    assert_eq!((calls.load(Ordering::SeqCst), losses.try_iter().count()), (3, 0));
}

/// The hook correlates another event that shares the budget. The hook would deadlock if the library
/// were holding the budget's lock.
#[test]
fn a_hook_can_use_its_own_correlator() {
    for with_key in [false, true] {
        let shared = Arc::new(OnceLock::<EventCorrelator>::new());
        let (own, nested) = (Arc::downgrade(&shared), Arc::new(AtomicU64::new(0)));
        let count = nested.clone();
        let mut options = budget(1).on_skip(move |skipped| {
            let own = own.upgrade().unwrap();
            if skipped.message == "outer" {
                assert!(matches!(own.get().unwrap().correlate(&event("r", "inner")), Correlation::Skip));
            } else {
                count.fetch_add(own.get().unwrap().stats().filtered, Ordering::SeqCst);
            }
        });
        if with_key {
            options = options.spam_key(|event| event.reason.clone());
        }
        let own = shared.get_or_init(|| Rig::new(options).correlator);
        created(own.correlate(&event("r", "first")));
        assert!(matches!(own.correlate(&event("r", "outer")), Correlation::Skip));
        assert_eq!(nested.load(Ordering::SeqCst), 2, "both events were counted before their hooks ran");
    }
}
