//! Decisions, and what the store makes of them.

use std::time::Duration;

use eventcast::correlator::Correlation;
use eventcast::{CorrelatorOptions, Event, Timestamp};

use super::{PREFIX, Rig, Seen, budget, decision, event, folding};

/// The cases of client-go's table, with their intervals. client-go's clock moves by the interval
/// each time it is read, three times for each event.
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
fn the_first_nine_stay_themselves_and_the_rest_is_one_event() {
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
    // This holds every time. client-go forgets one of the ten by chance.
    for (i, count) in (0..9).cycle().zip(2..).take(90).map(|(i, n)| (i, 2 + (n - 2) / 9)) {
        assert_eq!(rig.seen(&event("r", &format!("m{i}"))), Seen::Update(count), "m{i}");
    }
    assert_eq!(rig.correlator.stats().aggregated, 21);
}

#[test]
fn a_group_is_forgotten_only_after_more_than_the_interval() {
    for (pause, folded) in [(Duration::from_secs(600), true), (Duration::new(600, 1), false)] {
        let rig = Rig::new(CorrelatorOptions::default().spam_filter(None));
        for i in 0..9 {
            rig.run(&event("r", &format!("m{i}")));
            // Each similar event starts the interval anew.
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
    assert_eq!(accepted, expected, "skipped events are in the count");
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
fn budgets_and_groups_can_have_keys_of_their_own() {
    let options =
        budget(1).spam_key(|event| format_args!("{}/{}", event.involved_object.name, event.reason).into());
    let rig = Rig::new(options);
    assert_eq!(rig.seen(&event("original", "m")), Seen::Create(1));
    assert_eq!(rig.seen(&event("other", "m")), Seen::Create(1));
    assert_eq!(rig.seen(&event("other", "another")), Seen::Skip);

    let options = folding(3)
        .aggregate_key(|event| (event.reason.clone(), event.involved_object.name.clone()))
        .aggregate_message(|event| format_args!("many {}", event.reason).into());
    let rig = Rig::new(options);
    let on = |name: &str| {
        let mut event = event("r", "m");
        event.involved_object.name = name.to_owned().into();
        event
    };
    assert_eq!(rig.seen(&on("a")), Seen::Create(1));
    assert_eq!(rig.seen(&on("b")), Seen::Create(1));
    let (seen, folded) = rig.run(&on("c"));
    assert_eq!((seen, folded.unwrap().message), (Seen::Create(1), "many r".into()));
    assert_eq!(rig.seen(&on("d")), Seen::Update(2));
    assert_eq!(rig.seen(&on("a")), Seen::Update(2));
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
fn joined_fields_do_not_collide() {
    let rig = Rig::new(CorrelatorOptions::off());
    for (reason, message) in [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")] {
        assert_eq!(rig.seen(&event(reason, message)), Seen::Create(1), "{reason}+{message}");
    }
}

#[test]
fn what_the_store_made_of_it_comes_back() {
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

    // A late answer to an earlier decision does not turn the count back.
    let (_, later) = decision(rig.correlator.correlate(&event("r", "m")));
    assert_eq!(later, key);
    rig.correlator.confirm(key, &next);
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(4));
}

#[test]
fn the_stores_answer_about_a_group_is_remembered_but_for_the_name() {
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
fn groups_of_one_object_share_the_name_of_the_moment() {
    let rig = Rig::new(folding(1));
    let name = |reason| decision(rig.correlator.correlate(&event(reason, "m"))).0.metadata.name;
    let first = name("Pulled");
    assert_eq!(name("Started"), first);
    rig.clock.advance(Duration::from_nanos(1));
    assert_ne!(name("Killing"), first);
}

#[test]
fn an_unconfirmed_event_is_counted_all_the_same() {
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
    let mut counted = event("r", "m");
    counted.count = 7;
    assert_eq!(rig.seen(&counted), Seen::Create(7));
    assert_eq!(rig.seen(&counted), Seen::Update(8));
    // A count of zero or less is never continued, and never overflows.
    counted.message = "zero".into();
    counted.count = 0;
    assert_eq!(rig.seen(&counted), Seen::Create(0));
    assert_eq!(rig.seen(&counted), Seen::Create(0));
    counted.message = "negative".into();
    counted.count = -1;
    assert_eq!(rig.seen(&counted), Seen::Create(-1));
    assert_eq!(rig.seen(&counted), Seen::Create(-1));
    counted.message = "max".into();
    counted.count = i32::MAX;
    assert_eq!(rig.seen(&counted), Seen::Create(i32::MAX));
    assert_eq!(rig.seen(&counted), Seen::Update(i32::MAX));
}

#[test]
fn a_patch_says_what_the_update_says() {
    let rig = Rig::new(CorrelatorOptions::off());
    rig.run(&event("r", "m"));
    let mut again = event("r", "m");
    again.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse().unwrap());
    let Correlation::Update { event, .. } = rig.correlator.correlate(&again) else { panic!() };
    let patch = event.to_patch_json();
    assert_eq!(patch.as_str(), r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"m"}"#);
    assert_eq!(event.last_timestamp, again.last_timestamp);
}
