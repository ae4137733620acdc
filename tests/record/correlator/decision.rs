//! Decisions, counts, and the store's responses.

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use eventcast::correlator::{Correlation, SpamFilter};
use eventcast::{CorrelatorOptions, Event, Timestamp};

use super::{PREFIX, Rig, Seen, budget, created, decision, event, held, updated};

/// The cases in client-go's table, with their intervals. client-go's clock advances by the interval
/// each time it is read, which is three times per event.
#[test]
fn cases_of_client_go() {
    let duplicate = || event("duplicate", "me again");
    let unique = |i: usize| {
        let mut event = event(&format!("reason-{i}"), &format!("message-{i}"));
        event.involved_object.uid = format!("uid-{i}").into();
        event
    };
    let similar = |i: usize| event("similar", &format!("similar-{i}"));
    let other_container = || {
        let mut event = duplicate();
        event.involved_object.field_path = "spec.containers{container2}".into();
        event
    };
    type Case = (&'static str, Vec<Event>, Event, u64, Option<i32>, bool);
    let cases: [Case; 9] = [
        ("a single event", vec![], event("first", "first"), 5, Some(1), false),
        ("the same event counts", vec![duplicate()], duplicate(), 5, Some(2), false),
        ("also beyond the aggregate", vec![duplicate(); 10], duplicate(), 30, Some(11), false),
        ("too often is spam", vec![duplicate(); 26], duplicate(), 1, None, false),
        ("many unique events", (0..30).map(unique).collect(), unique(30), 5, Some(1), false),
        ("similar ones are folded", (0..9).map(similar).collect(), similar(9), 5, Some(1), true),
        ("and the folded count", (0..10).map(similar).collect(), similar(10), 5, Some(2), true),
        ("not across containers", vec![other_container()], duplicate(), 5, Some(1), false),
        ("not after the interval", (0..9).map(similar).collect(), similar(9), 600, Some(1), false),
    ];
    for (name, earlier, new, interval, count, folded) in cases {
        let rig = Rig::new(CorrelatorOptions::default());
        for event in &earlier {
            rig.run(event);
            rig.step(3 * interval);
        }
        let (seen, result) = rig.run(&new);
        let Some(count) = count else {
            assert_eq!(seen, Seen::Skip, "{name}");
            continue;
        };
        let result = result.expect(name);
        assert_eq!(result.count, count, "{name}");
        assert_eq!(result.message.starts_with(PREFIX), folded, "{name}");
        assert_eq!(result.first_timestamp != result.last_timestamp, count > 1, "{name}");
    }
}

#[test]
fn joined_fields_do_not_collide() {
    let rig = Rig::new(CorrelatorOptions::off());
    for (reason, message) in [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")] {
        assert_eq!(rig.seen(&event(reason, message)), Seen::Create(1), "{reason}+{message}");
    }
}

#[test]
fn an_answer_of_the_store_is_the_base_of_the_next_update() {
    let rig = Rig::new(CorrelatorOptions::off());
    let (mut stored, key) = decision(rig.correlator.correlate(&event("r", "m")));
    stored.metadata.name = "renamed".into();
    stored.metadata.set_resource_version("7");
    stored.first_timestamp = Some(Timestamp::UNIX_EPOCH);
    rig.correlator.confirm(key, &stored);
    let (next, key) = decision(rig.correlator.correlate(&event("r", "m")));
    assert_eq!(next.metadata.name, "renamed");
    assert_eq!(next.metadata.resource_version(), "7");
    assert_eq!(next.first_timestamp, Some(Timestamp::UNIX_EPOCH));
    assert_eq!(next.count, 2);

    // A late response to an earlier decision does not lower the count.
    let (_, later) = decision(rig.correlator.correlate(&event("r", "m")));
    assert_eq!(later, key);
    rig.correlator.confirm(key, &next);
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(4));
}

#[test]
fn an_event_without_an_answer_is_counted() {
    let rig = Rig::new(CorrelatorOptions::off());
    for count in 1..5 {
        let (next, _) = decision(rig.correlator.correlate(&event("r", "m")));
        assert_eq!(next.count, count);
        assert_eq!(next.metadata.name, "pod.1");
    }
}

#[test]
fn an_event_brings_its_own_count_once() {
    let rig = Rig::new(CorrelatorOptions::off());
    let seen = |message: &str, count: i32| {
        let mut counted = event("r", message);
        counted.count = count;
        [rig.seen(&counted), rig.seen(&counted)]
    };
    assert_eq!(seen("m", 7), [Seen::Create(7), Seen::Update(8)]);
    // A count of zero or less is never continued, and never overflows.
    assert_eq!(seen("zero", 0), [Seen::Create(0), Seen::Create(0)]);
    assert_eq!(seen("negative", -1), [Seen::Create(-1), Seen::Create(-1)]);
    assert_eq!(seen("max", i32::MAX - 1), [Seen::Create(i32::MAX - 1), Seen::Update(i32::MAX)]);
    assert_eq!(seen("max", 1), [Seen::Update(i32::MAX), Seen::Update(i32::MAX)]);
}

#[test]
fn a_patch_has_the_fields_of_the_update() {
    let rig = Rig::new(CorrelatorOptions::off());
    rig.run(&event("r", "m"));
    let mut again = event("r", "m");
    again.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse().unwrap());
    let Correlation::Update { event, .. } = rig.correlator.correlate(&again) else { panic!() };
    let patch = event.to_patch_json();
    assert_eq!(patch.as_str(), r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"m"}"#);
    assert_eq!(event.last_timestamp, again.last_timestamp);
}

#[test]
fn without_stages_only_equal_events_are_counted() {
    let rig = Rig::new(CorrelatorOptions::off());
    for expected in [Seen::Create(1), Seen::Update(2)] {
        for i in 0..100 {
            assert_eq!(rig.seen(&event("r", &format!("m{i}"))), expected);
        }
    }
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.updated, stats.aggregated, stats.filtered), (100, 100, 0, 0));
}

/// If a repeat exceeds the budget, the repeat is held, together with the count that the store does
/// not have yet. If the store does not have an event, the event is skipped, no matter how many
/// times it is recorded.
#[test]
fn a_held_repeat_has_the_count_and_the_name_of_the_stored_event() {
    for (with_key, with_groups) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut options = CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(1).qps(1.0));
        if with_key {
            options = options.spam_key(|event| event.involved_object.name.clone());
        }
        if with_groups {
            options = options.aggregate_key(|event| (event.reason.clone(), event.message.clone()));
        }
        let Rig { clock, correlator } = Rig::new(options);
        let first = created(correlator.correlate_or_hold(&event("r", "m")));
        for count in 2..5 {
            clock.advance(Duration::from_millis(100));
            let mut again = event("r", "m");
            again.metadata.name = "pod.2".into();
            again.last_timestamp = Some(clock.clock().now().into());
            let held = held(correlator.correlate_or_hold(&again));
            assert_eq!((held.count, held.last_timestamp), (count, again.last_timestamp));
            assert_eq!(held.metadata.name, first.metadata.name);
            assert!(matches!(correlator.correlate_or_hold(&event("r", "new")), Correlation::Skip));
        }
        assert!(
            matches!(correlator.correlate(&event("r", "m")), Correlation::Skip),
            "it is not asked to hold"
        );
        clock.advance(Duration::from_secs(10));
        assert_eq!(updated(correlator.correlate_or_hold(&event("r", "m"))).count, 6);
        clock.advance(Duration::from_secs(10));
        // After the event's first write, the store has this event as well.
        assert_eq!(updated(correlator.correlate_or_hold(&event("r", "new"))).count, 4);
        assert_eq!(held(correlator.correlate_or_hold(&event("r", "new"))).count, 5);
        let stats = correlator.stats();
        assert_eq!((stats.created, stats.updated, stats.filtered), (1, 2, 8), "{stats}");
    }
}

/// If the store's response contains an event, the store has that event.
#[test]
fn a_confirmed_event_is_held_although_the_correlator_had_evicted_it() {
    let correlator = Rig::new(budget(1).cache_size(1)).correlator;
    let (stored, key) = decision(correlator.correlate_or_hold(&event("r", "m")));
    assert!(matches!(correlator.correlate_or_hold(&event("r", "other")), Correlation::Skip));
    correlator.confirm(key, &stored);
    assert_eq!(held(correlator.correlate_or_hold(&event("r", "m"))).count, 2);
}

#[test]
fn threads_count_one_event_without_losing_any() {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    let rig = Rig::new(CorrelatorOptions::off());
    let barrier = Barrier::new(THREADS);
    let counts: Vec<i32> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let one = |_| {
                        let (event, key) = decision(rig.correlator.correlate(&event("r", "m")));
                        rig.correlator.confirm(key, &event);
                        event.count
                    };
                    (0..EACH).map(one).collect::<Vec<i32>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let distinct: BTreeSet<i32> = counts.iter().copied().collect();
    assert_eq!(distinct, (1..=2000).collect());
    assert_eq!(counts.len(), distinct.len(), "a number was assigned twice");
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.updated), (1, 1999));
}
