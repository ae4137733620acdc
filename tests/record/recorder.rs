//! The recorder, over the queue of a `FakeRecorder`, which needs neither threads nor waiting.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::correlator::{Correlation, EventCorrelator};
use eventcast::record::ObjectRecorder;
use eventcast::stats::RecorderStats;
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{Clock, CorrelatorOptions, EventSource, ObjectReference, Recorded, Recorder, Timestamp};

fn pod() -> ObjectReference {
    let mut pod = ObjectReference::new("Pod", "foo").in_namespace("baz");
    pod.uid = "bar".into();
    pod.api_version = "v1".into();
    pod
}

/// The moment in client-go's test of names.
fn moment() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_nanos(105_999_103_295_324_396)
}

fn fake() -> (FakeRecorder, FakeClock) {
    let clock = FakeClock::new(moment());
    (FakeRecorder::with_clock(100, clock.clock()), clock)
}

fn names(fake: &FakeRecorder) -> Vec<String> {
    fake.take().into_iter().map(|event| event.metadata.name.into()).collect()
}

/// The reference stays as it is, and an object with a namespace has its own.
#[test]
fn a_recorder_has_a_namespace_for_cluster_scoped_objects() {
    let (fake, _) = fake();
    let node = ObjectReference::new("Node", "node-1");
    let plain = fake.recorder("tester");
    let system = plain.clone().cluster_scoped_namespace("kube-system");
    let again = system.clone().cluster_scoped_namespace(String::new());
    for recorder in [&plain, &system, &again] {
        recorder.normal(&node, "Ready", "");
        recorder.draft(&node, Warning, "NotReady").record();
        recorder.for_object(&node).draft(Normal, "Ready").at(Timestamp::UNIX_EPOCH).record();
        recorder.normal(pod(), "Started", "");
    }
    let events = fake.take();
    let namespaces: Vec<_> = events.iter().map(|event| event.metadata.namespace.as_str()).collect();
    let (default, system) =
        (["default", "default", "default", "baz"], ["kube-system", "kube-system", "kube-system", "baz"]);
    assert_eq!(namespaces, [default, system, default].concat());
    assert!(events.chunks(4).all(|events| events[..3].iter().all(|event| event.involved_object == node)));
}

#[test]
fn an_event_has_all_that_client_go_gives_it() {
    let (fake, _) = fake();
    let recorder = fake.recorder(EventSource::from("eventTest").on_host("node-1"));
    assert_eq!(recorder.event(pod(), Normal, "Started", "up"), Recorded::Accepted);
    let event = fake.take().remove(0);
    assert_eq!(
        event.to_json(),
        concat!(
            r#"{"metadata":{"name":"foo.178959f726d80ec","namespace":"baz"},"#,
            r#""involvedObject":{"kind":"Pod","namespace":"baz","name":"foo","uid":"bar","apiVersion":"v1"},"#,
            r#""reason":"Started","message":"up","source":{"component":"eventTest","host":"node-1"},"#,
            r#""firstTimestamp":"1973-05-11T20:11:43Z","lastTimestamp":"1973-05-11T20:11:43Z","count":1,"#,
            r#""type":"Normal","eventTime":null,"reportingComponent":"eventTest","reportingInstance":"node-1"}"#
        )
    );
    // The time is not rounded before it is written.
    assert_eq!(event.first_timestamp, Some(Timestamp::from(moment())));
}

#[test]
fn an_object_without_a_namespace_has_its_events_in_default() {
    let (fake, _) = fake();
    fake.recorder("tester").event(ObjectReference::new("Node", "n1"), Normal, "Ready", "");
    let event = fake.take().remove(0);
    assert_eq!(event.metadata.namespace, "default");
    assert_eq!(event.involved_object.namespace, "");
}

#[test]
fn every_way_to_record_keeps_its_arguments() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let past: Timestamp = "2001-02-03T04:05:06.789Z".parse().unwrap();
    let count = 3;
    recorder.event(pod(), Warning, "BackOff", format_args!("restart {count} of 100%"));
    recorder.warning(pod(), "BackOff", format_args!("restart {count}"));
    recorder.normal(pod(), "Pulled", format_args!("image {count}"));
    recorder.draft(pod(), Normal, "Booted").message("long ago").at(past).record();
    let events = fake.take();
    assert_eq!(events[0].message, "restart 3 of 100%");
    assert_eq!(events[0].event_type(), Some(Warning));
    assert_eq!((events[1].event_type(), events[1].message.as_str()), (Some(Warning), "restart 3"));
    assert_eq!((events[2].event_type(), events[2].message.as_str()), (Some(Normal), "image 3"));
    assert_eq!((events[3].first_timestamp, events[3].last_timestamp), (Some(past), Some(past)));
    assert!(events[3].metadata.name.starts_with("foo.178959f726d80"), "the name follows the clock");
}

#[test]
fn a_draft_takes_everything_else() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let at = Timestamp::UNIX_EPOCH;
    let recorded = recorder
        .draft(pod(), Warning, "Evicted")
        .message("low on memory")
        .annotation("a", "0")
        .annotation("a", "1")
        .label("l", "2")
        .related(ObjectReference::new("Node", "n1"))
        .action("Evict")
        .at(at)
        .record();
    assert!(recorded.is_accepted());
    let event = fake.take().remove(0);
    assert_eq!(event.message, "low on memory");
    assert_eq!(event.metadata.annotations().len(), 1);
    assert_eq!(event.metadata.annotations()["a"], "1");
    assert_eq!(event.metadata.labels()["l"], "2");
    assert_eq!(event.related().unwrap().name, "n1");
    assert_eq!(event.action(), "Evict");
    assert_eq!((event.first_timestamp, event.last_timestamp), (Some(at), Some(at)));
    assert_eq!(event.count, 1);

    let draft = recorder.draft(pod(), Warning, "Evicted").message("secret");
    assert!(!format!("{draft:?} {recorder:?} {fake:?}").contains("secret"));
    drop(draft);
    assert!(fake.take().is_empty(), "a draft by itself is nothing");
}

#[test]
fn a_recorder_of_one_object_records_the_same() {
    let (fake, clock) = fake();
    let past = Timestamp::UNIX_EPOCH;
    let run = |about: &ObjectRecorder| {
        about.event(Normal, "A", "a");
        about.event(Normal, "B", format_args!("{}", 1));
        about.draft(Normal, "C").annotation("k", "v").message("c").record();
        about.draft(Normal, "D").at(past).message("d").record();
        about.draft(Normal, "E").message("e").record();
        fake.take()
    };
    let recorder = fake.recorder("tester");
    let about = recorder.for_object(pod());
    assert_eq!(about.object(), &pod());
    let bound = run(&about);
    clock.advance(Duration::from_secs(1));
    recorder.event(pod(), Normal, "A", "a");
    recorder.event(pod(), Normal, "B", format_args!("{}", 1));
    recorder.draft(pod(), Normal, "C").annotation("k", "v").message("c").record();
    recorder.draft(pod(), Normal, "D").at(past).message("d").record();
    recorder.draft(pod(), Normal, "E").message("e").record();
    let mut direct = fake.take();
    assert_eq!(direct.len(), 5);
    for (direct, bound) in direct.iter_mut().zip(&bound) {
        assert_ne!(direct.metadata.name, bound.metadata.name);
        direct.metadata.name = bound.metadata.name.clone();
        direct.first_timestamp = bound.first_timestamp;
        direct.last_timestamp = bound.last_timestamp;
    }
    assert_eq!(direct, bound);
}

#[test]
fn an_event_without_a_reason_is_refused_as_a_value() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let formatted = Cell::new(false);
    let message = Formatted(&formatted);
    assert_eq!(recorder.event(pod(), Normal, "", format_args!("{message}")), Recorded::EmptyReason);
    assert!(!formatted.get());
    assert_eq!(recorder.draft(pod(), Normal, String::new()).record(), Recorded::EmptyReason);
    assert_eq!(recorder.stats().empty_reason, 2);
    assert_eq!(recorder.stats().refused(), 2);
    assert!(fake.take().is_empty());
    let refused = recorder.for_object(pod()).event(Normal, "", "m");
    assert_eq!((refused, refused.is_accepted()), (Recorded::EmptyReason, false));
    assert_eq!(refused.to_string(), "the reason is empty");
}

#[test]
fn a_full_fake_refuses_and_counts() {
    let fake = FakeRecorder::new(2);
    let recorder = fake.recorder("tester");
    let about = fake.recorder("other").for_object(pod());
    assert!(recorder.event(pod(), Normal, "A", "").is_accepted());
    assert!(about.event(Normal, "B", "").is_accepted());
    assert_eq!(recorder.event(pod(), Normal, "C", ""), Recorded::Full);
    assert_eq!(about.event(Normal, "D", ""), Recorded::Full);
    assert_eq!(recorder.stats().full, 2, "one book for all recorders");
    assert_eq!(fake.take_lines(), ["Normal A ", "Normal B "]);
    assert!(recorder.event(pod(), Normal, "E", "").is_accepted(), "there is room again");
    assert_eq!(FakeRecorder::new(0).recorder("tester").event(pod(), Normal, "A", ""), Recorded::Full);
}

#[test]
fn lines_are_those_of_client_gos_fake() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    recorder.event(pod(), Warning, "100%done", "50% of\nit");
    recorder.draft(pod(), Normal, "R").message("m").annotation("k2", "v2").annotation("k1", "v1").record();
    assert_eq!(fake.take_lines(), ["Warning 100%done 50% of\nit", "Normal R m map[k1:v1 k2:v2]"]);
    assert!(fake.take_lines().is_empty());
}

struct Formatted<'a>(&'a Cell<bool>);

impl fmt::Display for Formatted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.set(true);
        f.write_str("formatted")
    }
}

#[test]
fn a_disabled_recorder_formats_nothing_and_counts() {
    let recorder = Recorder::disabled();
    let formatted = Cell::new(false);
    let message = Formatted(&formatted);
    assert_eq!(recorder.event(pod(), Normal, "R", format_args!("{message}")), Recorded::Disabled);
    assert_eq!(recorder.clone().event(pod(), Normal, "", ""), Recorded::Disabled);
    assert_eq!(recorder.for_object(pod()).draft(Normal, "R").record(), Recorded::Disabled);
    assert!(!formatted.get());
    let mut expected = RecorderStats::default();
    expected.disabled = 3;
    assert_eq!(recorder.stats(), expected);
    assert_eq!(
        recorder.stats().to_string(),
        "refused 3 (full 0, closed 0, disabled 3, empty reason 0, scrub panics 0), truncated 0"
    );
}

#[test]
fn long_messages_are_cut_at_a_character_and_counted() {
    let fake = FakeRecorder::new(10);
    let recorder = fake.recorder("tester");
    let limit = 16 * 1024;
    recorder.event(pod(), Normal, "R", "x".repeat(limit));
    // Each character has three bytes, so the limit falls into the middle of one.
    recorder.event(pod(), Normal, "R", format_args!("{}", "€".repeat(limit)));
    let events = fake.take();
    assert_eq!(events[0].message.len(), limit);
    assert!(!events[0].message.ends_with("..."));
    let cut = events[1].message.as_str();
    assert!(cut.ends_with("€..."), "{}", &cut[cut.len() - 12..]);
    assert!((limit - 3..=limit).contains(&cut.len()), "{}", cut.len());
    assert_eq!(recorder.stats().truncated, 1);
}

/// Returns whether the name is a DNS subdomain by the rules of Kubernetes.
fn is_valid(name: &str) -> bool {
    let is_end = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.len() <= 253
        && name.split('.').all(|label| {
            let bytes = label.as_bytes();
            bytes.first().is_some_and(|b| is_end(*b))
                && bytes.last().is_some_and(|b| is_end(*b))
                && bytes.iter().all(|b| is_end(*b) || *b == b'-')
        })
}

fn is_uuid_v4(name: &str) -> bool {
    let groups: Vec<usize> = name.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12]
        && name.bytes().all(|b| b == b'-' || b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
        && name.as_bytes()[14] == b'4'
        && matches!(name.as_bytes()[19], b'8'..=b'b')
}

#[test]
fn names_are_client_gos_where_they_are_valid() {
    let (fake, _) = fake();
    let recorder = fake.recorder("tester");
    let long = "x".repeat(253 - 16);
    for object in ["test-pod", "a.b-c.9", "0", &long] {
        recorder.event(ObjectReference::new("Pod", object.to_owned()), Normal, "R", "");
        assert_eq!(names(&fake), [format!("{object}.178959f726d80ec")]);
    }
    let mut all = Vec::new();
    let invalid = [
        "",
        "test.POD",
        "test.pod/invalid!chars?",
        "--test.pod/invalid!chars?",
        "a..b",
        ".a",
        "a.",
        "a-",
        "-a",
        "a.-b",
        "a-.b",
        "2001:db8::123",
        "größe",
        &"x".repeat(253 - 15),
        &"x".repeat(1012),
    ];
    for object in invalid {
        for _ in 0..3 {
            recorder.event(ObjectReference::new("Pod", object.to_owned()), Normal, "R", "");
        }
        let names = names(&fake);
        assert!(names.iter().all(|name| is_valid(name) && is_uuid_v4(name)), "{object}: {names:?}");
        all.extend(names);
    }
    // Names of different objects at the same time differ too.
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), 3 * invalid.len(), "{all:?}");
}

#[test]
fn names_differ_also_where_the_clock_stands_still_or_goes_back() {
    let (fake, clock) = fake();
    let recorder = fake.recorder("tester");
    for object in ["foo", "_"] {
        clock.set(moment());
        let mut seen = HashSet::new();
        for step in [0, 1, 100] {
            for _ in 0..10 {
                recorder.event(ObjectReference::new("Pod", object), Normal, "R", "");
            }
            clock.advance(Duration::from_nanos(step));
        }
        clock.set(moment() - Duration::from_secs(1));
        recorder.event(ObjectReference::new("Pod", object), Normal, "R", "");
        clock.set(moment());
        recorder.event(ObjectReference::new("Pod", object), Normal, "R", "");
        for name in names(&fake) {
            assert!(is_valid(&name), "{name}");
            assert!(seen.insert(name.clone()), "{name} twice");
        }
        assert_eq!(seen.len(), 32);
    }
}

#[test]
fn names_and_times_are_the_same_in_every_run() {
    let run = || {
        let (fake, clock) = fake();
        let recorder = fake.recorder("tester");
        for object in ["foo", "foo", "bar", "NOT VALID", "NOT VALID"] {
            recorder.event(ObjectReference::new("Pod", object), Normal, "R", "m");
            clock.advance(Duration::from_nanos(u64::from(object == "bar")));
        }
        fake.take()
    };
    assert_eq!(run(), run());
    let names: Vec<String> = run().into_iter().map(|event| event.metadata.name.into()).collect();
    assert_eq!(
        names,
        [
            "foo.178959f726d80ec",
            "foo.178959f726d80ed",
            "bar.178959f726d80ec",
            "7735c8cf-de1a-4575-8d25-154a82abc738",
            "b45994dc-1ece-43fd-8fa2-6166cc40461f"
        ]
    );
}

#[test]
fn names_of_the_system_clock_differ_between_threads_and_recorders() {
    const THREADS: usize = 4;
    const EACH: usize = 2000;
    let barrier = Barrier::new(THREADS);
    let names: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    let fake = FakeRecorder::with_clock(EACH, Clock::system());
                    let about = fake.recorder("tester").for_object(pod());
                    barrier.wait();
                    for _ in 0..EACH {
                        assert!(about.event(Normal, "R", "").is_accepted());
                    }
                    names(&fake)
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    assert_eq!(names.iter().collect::<HashSet<_>>().len(), THREADS * EACH);
}

/// A correlator names the events that stand for a group by the same clock.
#[test]
fn the_name_of_a_group_is_not_that_of_a_recorded_event() {
    let (fake, clock) = fake();
    let correlator = EventCorrelator::new(CorrelatorOptions::default().clock(clock.clock())).unwrap();
    let recorder = fake.recorder("tester");
    let mut created = Vec::new();
    for round in 0..2 {
        for i in 0..10 {
            recorder.event(pod(), Normal, "R", format_args!("message {i}"));
        }
        for event in fake.take() {
            if let Correlation::Create { event, .. } = correlator.correlate(&event) {
                created.push(event.metadata.name.as_str().to_owned());
            }
        }
        // The group's event has a name of this moment, and the recorder now makes one of the same
        // moment.
        recorder.event(pod(), Normal, "Other", "");
        created.extend(names(&fake));
        clock.advance(Duration::from_secs(round));
    }
    assert_eq!(created.len(), 12, "{created:?}");
    assert_eq!(created.iter().collect::<HashSet<_>>().len(), 12, "{created:?}");
}

#[test]
fn the_time_before_1970_has_names_too() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH - Duration::from_secs(5));
    let fake = FakeRecorder::with_clock(10, clock.clock());
    for _ in 0..2 {
        fake.recorder("tester").event(pod(), Normal, "R", "");
    }
    assert_eq!(names(&fake), ["foo.0", "foo.1"]);
}

#[test]
fn recorders_cross_threads() {
    fn assert<T: Send + Sync + 'static>() {}
    assert::<Recorder>();
    assert::<ObjectRecorder>();
    assert::<FakeRecorder>();
    assert::<Recorded>();
}
