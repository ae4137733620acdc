//! The correlator without a recording: the requirements of client-go's own tests, and more.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::correlator::{
    Aggregation, Correlation, CorrelationKey, EventCorrelator, SkipReason, SpamFilter,
};
use eventcast::stats::CorrelatorStats;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventSource, ObjectReference, Timestamp};

const PREFIX: &str = "(combined from similar events): ";

/// The event that client-go's tests of the correlator are built from.
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

/// A correlator on a fake clock. Its answers are confirmed as a store that changes nothing would
/// confirm them.
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
            Correlation::Skip(SkipReason::SpamFilter) => (Seen::Skip, None),
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

/// Returns options that fold events from the `max_events`th message on.
fn folding(max_events: usize) -> CorrelatorOptions {
    CorrelatorOptions::default().aggregation(Aggregation::default().max_events(max_events))
}

/// Returns options with a budget of `burst` events at once.
fn budget(burst: u32) -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(burst))
}

fn decision(correlation: Correlation) -> (Event, CorrelationKey) {
    match correlation {
        Correlation::Create { event, key, .. } | Correlation::Update { event, key, .. } => (event, key),
        other => panic!("{other:?}"),
    }
}

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
    let Correlation::Update { patch, event, .. } = rig.correlator.correlate(&again) else { panic!() };
    assert_eq!(patch.as_str(), r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"m"}"#);
    assert_eq!(event.last_timestamp, again.last_timestamp);
}

#[test]
fn a_clock_that_goes_back_neither_refills_nor_forgets() {
    let rig = Rig::new(budget(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
    // The grant in the past moved the bucket there, so the way back is a refill.
    rig.clock.set(start());
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(4));
}

/// client-go compares the time since the last event with the interval. A negative time is not
/// longer than the interval.
#[test]
fn a_clock_that_goes_back_forgets_no_group() {
    let rig = Rig::new(folding(3));
    assert_eq!(rig.seen(&event("r", "a")), Seen::Create(1));
    assert_eq!(rig.seen(&event("r", "b")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    let Correlation::Create { event: folded, .. } = rig.correlator.correlate(&event("r", "c")) else {
        panic!("the first of its group")
    };
    assert!(folded.message.starts_with("(combined"), "{}", folded.message);
}

#[test]
fn what_is_refused_does_not_move_the_bucket_back() {
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
    // 0.7 is a little less as a 32-bit number: a token takes 1,428,571,452.9 nanoseconds.
    for (nanos, accepted) in [(1_428_571_451, false), (1_428_571_452, true)] {
        let filter = SpamFilter::default().burst(1).qps(0.7);
        let rig = Rig::new(CorrelatorOptions::default().spam_filter(filter));
        rig.run(&event("r", "m"));
        rig.clock.advance(Duration::from_nanos(nanos));
        assert_eq!(rig.seen(&event("r", "m")) != Seen::Skip, accepted, "{nanos}");
    }
}

#[test]
fn stages_that_are_off_do_nothing() {
    let rig = Rig::new(CorrelatorOptions::off());
    for i in 0..100 {
        assert_eq!(rig.seen(&event("r", &format!("m{i}"))), Seen::Create(1));
    }
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.aggregated, stats.filtered), (100, 0, 0));
}

/// Compared with a list that is searched from the front: the cache forgets exactly the least
/// recently used entry.
#[test]
fn the_least_recently_used_is_forgotten() {
    for capacity in [1, 2, 3, 7, 50] {
        let rig = Rig::new(CorrelatorOptions::off().lru_cache_size(capacity));
        let mut model: VecDeque<(u64, i32)> = VecDeque::new();
        let mut evicted = 0;
        let mut random = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            // More keys than fit, and some of them are frequent.
            let number = (random % 101).min(random % 13 * 7);
            let found = model.iter().position(|(n, _)| *n == number).and_then(|at| model.remove(at));
            let count = found.map_or(1, |(_, count)| count + 1);
            model.push_back((number, count));
            if model.len() > capacity {
                model.pop_front();
                evicted += 1;
            }
            let expected = if count == 1 { Seen::Create(1) } else { Seen::Update(count) };
            // In half of the cases no answer confirms the decision, but the decision is a use too.
            let event = event("r", &number.to_string());
            if random & 1024 == 0 {
                assert_eq!(rig.seen(&event), expected);
            } else {
                assert_eq!(decision(rig.correlator.correlate(&event)).0.count, count);
            }
        }
        assert_eq!(rig.correlator.stats().evicted, evicted, "capacity {capacity}");
        assert!(evicted > 1000);
    }
}

/// client-go adds an entry for the message of each folded event, and would have forgotten the other
/// object by now.
#[test]
fn a_folded_event_takes_no_room() {
    let rig = Rig::new(folding(2).spam_filter(None).lru_cache_size(3));
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

/// client-go writes the number with a sign for these times, or lets it wrap.
#[test]
fn names_of_far_times_are_those_of_1970_and_2200() {
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
fn each_cache_forgets_for_itself() {
    let rig = Rig::new(budget(1).lru_cache_size(2));
    let of = |host: &str| {
        let mut event = event("r", "m");
        event.source.host = host.to_owned().into();
        event
    };
    assert_eq!(rig.seen(&of("a")), Seen::Create(1));
    assert_eq!(rig.seen(&of("a")), Seen::Skip);
    assert_eq!(rig.seen(&of("b")), Seen::Create(1));
    assert_eq!(rig.seen(&of("c")), Seen::Create(1));
    assert_eq!(rig.correlator.stats().evicted, 3);
    assert_eq!(rig.seen(&of("a")), Seen::Create(1), "count and budget start again");
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
    assert_eq!(counts.len(), distinct.len(), "a number was given out twice");
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.updated), (1, 1999));
}

#[test]
fn threads_that_insert_and_evict_keep_the_books() {
    const THREADS: u64 = 4;
    const EACH: u64 = 2000;
    let rig = Rig::new(budget(3).aggregation(Aggregation::default().max_events(4)).lru_cache_size(8));
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (rig, barrier) = (&rig, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for i in 0..EACH {
                    let mut event = event("r", &format!("m{}", i % 7));
                    event.involved_object.name = format!("pod-{}", (i * (t + 1)) % 31).into();
                    rig.seen(&event);
                }
            });
        }
    });
    let CorrelatorStats { created, updated, filtered, evicted, .. } = rig.correlator.stats();
    assert_eq!(created + updated + filtered, THREADS * EACH);
    assert!(evicted > 0);
    // Whatever the threads did to each other, on one thread the cache now keeps eight entries, and
    // the ninth evicts one.
    let fill = |from: u64| {
        let before = rig.correlator.stats().evicted;
        for i in from..from + 8 {
            let mut event = event("fill", "m");
            event.involved_object.name = format!("fill-{i}").into();
            rig.seen(&event);
        }
        rig.correlator.stats().evicted - before
    };
    fill(0);
    assert_eq!(fill(100), 24, "eight in each of three caches");
}

#[test]
fn zero_and_nonsense_are_errors_that_name_the_option() {
    let check = |options: CorrelatorOptions, expected: &str| {
        let error = EventCorrelator::new(options).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(expected.starts_with(error.option()));
    };
    let options = CorrelatorOptions::default();
    check(options.clone().lru_cache_size(0), "lru_cache_size must be 1 to 16777216 entries, got 0");
    check(options.lru_cache_size(1 << 25), "lru_cache_size must be 1 to 16777216 entries, got 33554432");
    check(folding(0), "max_events must be 1 or more, got 0");
    let aggregation = Aggregation::default().max_interval(Duration::ZERO);
    check(
        CorrelatorOptions::default().aggregation(aggregation),
        "max_interval must be more than zero, got 0s",
    );
    check(budget(0), "burst must be 1 or more, got 0");
    for (qps, shown) in [(0.0, "0"), (-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        check(
            CorrelatorOptions::default().spam_filter(SpamFilter::default().qps(qps)),
            &format!("qps must be finite and more than zero, got {shown}"),
        );
    }
}

#[test]
fn options_are_plain_data() {
    let defaults = CorrelatorOptions::default();
    assert_eq!(
        serde_json::to_string(&defaults).unwrap(),
        concat!(
            r#"{"lru_cache_size":4096,"aggregation":{"max_events":10,"max_interval":"10m","keep_metadata":false,"#,
            r#""keep_stored_name":false,"own_names":false},"spam_filter":{"burst":25,"qps":0.0033333334,"#,
            r#""exempt_warnings":false,"summaries":false}}"#
        )
    );
    let read = |json: &str| serde_json::from_str::<CorrelatorOptions>(json);
    let same = |a: &CorrelatorOptions, b: &CorrelatorOptions| {
        assert_eq!(a.get_lru_cache_size(), b.get_lru_cache_size());
        assert_eq!(a.get_aggregation(), b.get_aggregation());
        assert_eq!(a.get_spam_filter(), b.get_spam_filter());
    };
    same(&read("{}").unwrap(), &defaults);
    same(&read(&serde_json::to_string(&defaults).unwrap()).unwrap(), &defaults);

    let options = budget(2).lru_cache_size(5).aggregation(None);
    same(&read(r#"{"LRUCacheSize":5,"aggregation":null,"spam_filter":{"BurstSize":2}}"#).unwrap(), &options);
    same(&read(&serde_json::to_string(&options).unwrap()).unwrap(), &options);

    for interval in [r#""1m30s""#, r#""90s""#, "90"] {
        let json = format!(r#"{{"aggregation":{{"maxEvents":2,"maxIntervalInSeconds":{interval}}}}}"#);
        let expected = Aggregation::default().max_events(2).max_interval(Duration::from_secs(90));
        assert_eq!(read(&json).unwrap().get_aggregation(), Some(expected));
    }
    for (json, error) in [
        (r#"{"lru_cache": 1}"#, "unknown field `lru_cache`"),
        (r#"{"aggregation":{"max":1}}"#, "unknown field `max`"),
        (r#"{"spam_filter":{"rate":1}}"#, "unknown field `rate`"),
        (r#"{"aggregation":{"max_interval":"soon"}}"#, "invalid duration `soon`"),
        (r#"{"aggregation":{"max_interval":"-1s"}}"#, "invalid duration `-1s`"),
        (r#"{"aggregation":{"max_interval":-1}}"#, "a duration such as"),
        (r#"{"lru_cache_size":-1}"#, "-1"),
    ] {
        let shown = read(json).unwrap_err().to_string();
        assert!(shown.contains(error), "{json}: {shown}");
    }
    let longest = r#"{"aggregation":{"max_interval":18446744073709551615}}"#;
    let longest = read(longest).unwrap();
    assert!(serde_json::to_string(&longest).unwrap().contains("max_interval"));
    assert!(EventCorrelator::new(longest).is_ok());
}

#[test]
fn keys_can_be_kept_compared_and_shown_without_their_texts() {
    let rig = Rig::new(CorrelatorOptions::off());
    let (_, key) = decision(rig.correlator.correlate(&event("r", "secret")));
    let (_, same) = decision(rig.correlator.correlate(&event("r", "secret")));
    let (_, other) = decision(rig.correlator.correlate(&event("r", "other")));
    assert_eq!(key, same);
    assert_ne!(key, other);
    let workers = HashMap::from([(key.clone(), 1), (other, 2)]);
    assert_eq!(workers[&same], 1);

    // The fields of both keys are the same: the message is empty, and there is no reporting
    // controller.
    let mut blank = event("r", "");
    blank.involved_object.field_path = "".into();
    let folding = Rig::new(folding(1));
    let (_, one) = decision(rig.correlator.correlate(&blank));
    let (_, group) = decision(folding.correlator.correlate(&blank));
    assert_ne!(one, group);

    let shown = format!("{key:?} {:?} {:?}", rig.correlator, CorrelatorOptions::default());
    assert!(!shown.contains("secret"), "{shown}");
}

#[test]
fn a_correlator_is_shared_by_threads() {
    fn assert<T: Send + Sync + 'static>() {}
    assert::<EventCorrelator>();
    assert::<CorrelatorOptions>();
    assert::<CorrelationKey>();
    assert::<Correlation>();
}
