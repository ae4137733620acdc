//! Aggregation of similar events into groups.

use std::time::{Duration, SystemTime};

use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
use eventcast::{CorrelatorOptions, Event};

use crate::support::pod;

use super::{PREFIX, Rig, Seen, created, decision, event, folding, held};

#[test]
fn the_first_nine_stay_separate_and_the_rest_is_one_event() {
    let rig = Rig::new(CorrelatorOptions::default().spam_filter(None));
    for i in 0..9 {
        assert_eq!(rig.seen(&event("r", &format!("m{i}"))), Seen::Create(1));
    }
    let mut newcomer = event("r", "m9");
    newcomer.metadata.annotations_mut().insert("a".into(), "b".into());
    newcomer.reporting_controller = "".into();
    let (seen, first) = rig.run(&newcomer);
    let first = first.unwrap();
    assert_eq!(seen, Seen::Create(1));
    assert_eq!(first.message, *format!("{PREFIX}m9"));
    assert_eq!(first.metadata.name, *format!("pod.{:x}", 1_700_000_000_u64 * 1_000_000_000));
    assert_eq!(first.metadata.annotations().len(), 0);
    rig.step(1);
    for (i, count) in (10..30).zip(2..) {
        let (seen, next) = rig.run(&event("r", &format!("m{i}")));
        let next = next.unwrap();
        assert_eq!(seen, Seen::Update(count));
        assert_eq!(next.message, *format!("{PREFIX}m{i}"));
        assert_eq!(next.metadata.name, first.metadata.name);
        assert_eq!(next.first_timestamp, first.first_timestamp);
    }
    // The result is deterministic here, whereas client-go evicts one of the ten at random.
    for (i, count) in (0..9).cycle().zip(2..).take(90).map(|(i, n)| (i, 2 + (n - 2) / 9)) {
        assert_eq!(rig.seen(&event("r", &format!("m{i}"))), Seen::Update(count), "m{i}");
    }
    assert_eq!(rig.correlator.stats().aggregated, 21);
}

#[test]
fn a_group_ends_only_after_more_than_the_interval() {
    for (pause, folded) in [(Duration::from_secs(600), true), (Duration::new(600, 1), false)] {
        let rig = Rig::new(CorrelatorOptions::default().spam_filter(None));
        for i in 0..9 {
            rig.run(&event("r", &format!("m{i}")));
            // Each similar event restarts the interval.
            rig.step(if i < 8 { 500 } else { 0 });
        }
        rig.clock.advance(pause);
        let (_, result) = rig.run(&event("r", "m9"));
        assert_eq!(result.unwrap().message.starts_with(PREFIX), folded, "{pause:?}");
    }
}

#[test]
fn one_message_at_most_folds_everything() {
    let rig = Rig::new(folding(1));
    let (seen, result) = rig.run(&event("r", "m"));
    assert_eq!((seen, result.unwrap().message), (Seen::Create(1), format!("{PREFIX}m").into()));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(2));
}

#[test]
fn an_answer_about_a_group_is_kept_except_for_the_name() {
    let rig = Rig::new(folding(1));
    let (first, key) = decision(rig.correlator.correlate(&event("r", "m1")));
    let mut stored = first.clone();
    stored.metadata.name = "renamed".into();
    stored.metadata.set_resource_version("7");
    rig.correlator.confirm(key, &stored);
    rig.step(1);
    let (next, _) = decision(rig.correlator.correlate(&event("r", "m2")));
    assert_eq!(next.metadata.resource_version(), "7");
    assert_eq!(next.metadata.name, first.metadata.name);
}

#[test]
fn a_group_has_no_metadata_of_its_events() {
    let rig = Rig::new(folding(1));
    let mut detailed = event("r", "m");
    detailed.metadata.labels_mut().insert("team".into(), "blue".into());
    detailed.metadata.annotations_mut().insert("run".into(), "7".into());
    detailed.reporting_controller = "kubelet".into();
    detailed.reporting_instance = "node-1".into();
    let (folded, _) = decision(rig.correlator.correlate(&detailed));
    assert!(folded.message.starts_with(PREFIX));
    assert!(folded.metadata.labels().is_empty() && folded.metadata.annotations().is_empty());
    assert_eq!((&*folded.reporting_controller, &*folded.reporting_instance), ("", ""));
}

#[test]
fn groups_of_one_object_have_one_name_at_one_time() {
    let rig = Rig::new(folding(1));
    let name = |reason| decision(rig.correlator.correlate(&event(reason, "m"))).0.metadata.name;
    let first = name("Pulled");
    assert_eq!(name("Started"), first);
    rig.clock.advance(Duration::from_nanos(1));
    assert_ne!(name("Killing"), first);
}

/// Events from different reporters belong to different groups. Events about different parts of one
/// object belong to the same group.
#[test]
fn a_group_is_of_one_reporter_and_all_parts_of_an_object() {
    let fold = |change: fn(&mut Event, &str)| {
        let correlator = EventCorrelator::new(CorrelatorOptions::default()).unwrap();
        let seen = |i: usize| {
            let mut event = Event::default();
            event.involved_object = pod("web-0");
            event.message = format!("message {i}").into();
            event.count = 1;
            change(&mut event, if i % 2 == 0 { "even" } else { "odd" });
            let Correlation::Create { event, .. } = correlator.correlate(&event) else { panic!("a repeat") };
            event.message.starts_with("(combined")
        };
        (0..10).map(seen).filter(|combined| *combined).count()
    };
    assert_eq!(fold(|event, part| event.involved_object.field_path = part.to_owned().into()), 1);
    assert_eq!(fold(|event, version| event.involved_object.resource_version = version.to_owned().into()), 1);
    assert_eq!(fold(|event, controller| event.reporting_controller = controller.to_owned().into()), 0);
    assert_eq!(fold(|event, instance| event.reporting_instance = instance.to_owned().into()), 0);
    assert_eq!(fold(|event, uid| event.involved_object.uid = uid.to_owned().into()), 0);
}

/// client-go compares the interval with the time since the last event, and a negative time never
/// exceeds the interval.
#[test]
fn a_clock_that_goes_back_ends_no_group() {
    let rig = Rig::new(folding(3));
    assert_eq!(rig.seen(&event("r", "a")), Seen::Create(1));
    assert_eq!(rig.seen(&event("r", "b")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    let (seen, folded) = rig.run(&event("r", "c"));
    assert_eq!((seen, folded.unwrap().message), (Seen::Create(1), format!("{PREFIX}c").into()));
}

/// client-go adds an entry for each folded event's message, and would have evicted the other object
/// by now.
#[test]
fn a_folded_event_takes_no_capacity() {
    let rig = Rig::new(folding(2).spam_filter(None).cache_size(3));
    let mut other = event("r", "m");
    other.involved_object.name = "other".into();
    assert_eq!(rig.seen(&other), Seen::Create(1));
    assert_eq!(rig.seen(&event("r", "m0")), Seen::Create(1));
    for count in 1..50 {
        let (seen, event) = rig.run(&event("r", &format!("m{count}")));
        assert_eq!(seen, if count == 1 { Seen::Create(1) } else { Seen::Update(count) });
        assert!(event.unwrap().message.starts_with(PREFIX));
    }
    assert_eq!(rig.seen(&other), Seen::Update(2));
    assert_eq!(rig.correlator.stats().evicted, 0);
}

/// For these times client-go writes a signed number or lets the number overflow.
#[test]
fn names_of_far_times_use_1970_and_2200() {
    let rig = Rig::new(folding(1));
    let start_of_2200 = Duration::from_secs(7_258_118_400);
    for (object, at, number) in [
        ("long-ago", SystemTime::UNIX_EPOCH - Duration::from_secs(86_400), 0),
        ("ago", SystemTime::UNIX_EPOCH - Duration::from_nanos(5), 999_999_995),
        ("far", SystemTime::UNIX_EPOCH + start_of_2200 * 2, start_of_2200.as_nanos()),
    ] {
        rig.clock.set(at);
        let mut event = event("r", "m");
        event.involved_object.name = object.into();
        assert_eq!(rig.run(&event).1.unwrap().metadata.name, format!("{object}.{number:x}").as_str());
    }
}

#[test]
fn a_held_repeat_of_a_group_has_the_latest_message() {
    for with_key in [false, true] {
        let mut options = folding(1).spam_filter(SpamFilter::default().burst(1));
        if with_key {
            options = options.aggregate_key(|event| (event.reason.clone(), event.message.clone()));
        }
        let correlator = Rig::new(options).correlator;
        let first = created(correlator.correlate_or_hold(&event("r", "a")));
        let held = held(correlator.correlate_or_hold(&event("r", "b")));
        assert_eq!((held.count, &*held.message), (2, "(combined from similar events): b"));
        assert_eq!(held.metadata.name, first.metadata.name);
    }
}
