//! Event names.

use std::collections::HashSet;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::Normal;
use eventcast::correlator::{Correlation, EventCorrelator};
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{Clock, CorrelatorOptions, EventBroadcaster};

use crate::support::pod;

use super::{fake, foo, moment};

fn names(fake: &FakeRecorder) -> Vec<String> {
    fake.take().into_iter().map(|event| event.metadata.name.into()).collect()
}

/// Returns whether the name is a DNS subdomain according to the Kubernetes rules.
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
        recorder.event(pod(object), Normal, "R", "");
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
            recorder.event(pod(object), Normal, "R", "");
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
    let far = Duration::from_secs(300_000_000_000);
    for start in [moment(), SystemTime::UNIX_EPOCH - far, SystemTime::UNIX_EPOCH + far] {
        let (fake, clock) = fake();
        let recorder = fake.recorder("tester");
        for object in ["foo", "Not_Valid", ""] {
            clock.set(start);
            let mut seen = HashSet::new();
            for step in [0, 1, 100] {
                for _ in 0..10 {
                    recorder.event(pod(object), Normal, "R", "");
                }
                clock.advance(Duration::from_nanos(step));
            }
            for at in [start - Duration::from_secs(1), start] {
                clock.set(at);
                recorder.event(pod(object), Normal, "R", "");
            }
            for name in names(&fake) {
                assert!(is_valid(&name), "{name}");
                assert!(seen.insert(name.clone()), "{name} twice");
            }
            assert_eq!(seen.len(), 32);
        }
    }
}

#[test]
fn names_before_1970_count_from_zero() {
    let (fake, clock) = fake();
    clock.set(SystemTime::UNIX_EPOCH - Duration::from_secs(5));
    for _ in 0..2 {
        fake.recorder("tester").event(pod("foo"), Normal, "R", "");
    }
    assert_eq!(names(&fake), ["foo.0", "foo.1"]);
}

#[test]
fn names_and_times_are_the_same_in_every_run() {
    let run = || {
        let (fake, clock) = fake();
        let recorder = fake.recorder("tester");
        for object in ["foo", "foo", "bar", "NOT VALID", "NOT VALID"] {
            recorder.event(pod(object), Normal, "R", "m");
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
                    let about = fake.recorder("tester").for_object(foo());
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

/// A correlator uses the same clock to name its groups.
#[test]
fn a_group_and_a_recorded_event_have_different_names() {
    let (fake, clock) = fake();
    let correlator = EventCorrelator::new(CorrelatorOptions::default().clock(clock.clock())).unwrap();
    let recorder = fake.recorder("tester");
    let mut created = Vec::new();
    for round in 0..2 {
        for i in 0..10 {
            recorder.event(foo(), Normal, "R", format_args!("message {i}"));
        }
        for event in fake.take() {
            if let Correlation::Create { event, .. } = correlator.correlate(&event) {
                created.push(event.metadata.name.as_str().to_owned());
            }
        }
        // The name of the group's event contains this time, and the recorder now generates a name
        // for the same time.
        recorder.event(foo(), Normal, "Other", "");
        created.extend(names(&fake));
        clock.advance(Duration::from_secs(round));
    }
    assert_eq!(created.len(), 12, "{created:?}");
    assert_eq!(created.iter().collect::<HashSet<_>>().len(), 12, "{created:?}");
}

/// Truncated and untruncated events get their names from the same source.
#[test]
fn an_event_that_is_cut_keeps_its_name() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_nanos(10));
    let events = EventBroadcaster::builder().max_message_len(4).clock(clock.clock()).build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder("test");
    for message in ["much too long", "fits", "too long", "fits"] {
        assert!(recorder.event(pod("web-0"), Normal, "R", message).is_accepted());
    }
    events.close();
    let names: Vec<_> = watcher.events().map(|event| event.metadata.name).collect();
    assert_eq!(names, ["web-0.a", "web-0.b", "web-0.c", "web-0.d"]);
}
