//! Events, names, times and durations at their limits.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use eventcast::EventType::Normal;
use eventcast::correlator::{Aggregation, Correlation, EventCorrelator};
use eventcast::sink::MemorySinkOptions;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventBroadcaster, MemorySink, RetryPolicy, SinkError, Timestamp};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, pod, record, until};

use super::in_time;

/// Events of different reporters are in different groups. Events about different parts of one
/// object are in the same group.
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

/// Two correlators on one clock that see the same events give the same names, so a test sees the
/// same names every time.
#[test]
fn a_group_has_one_name_in_all_correlators_of_a_clock() {
    let clock = clock();
    let name = || {
        let correlator = EventCorrelator::new(CorrelatorOptions::default().clock(clock.clock())).unwrap();
        let mut last = None;
        for i in 0..10 {
            let mut event = Event::default();
            event.involved_object = pod("web-0");
            event.message = format!("message {i}").into();
            event.count = 1;
            if let Correlation::Create { event, .. } = correlator.correlate(&event) {
                last = Some(event.metadata.name);
            }
        }
        last.unwrap()
    };
    assert_eq!(name(), name());
}

#[test]
fn names_stay_valid_and_unique_at_the_ends_of_time() {
    let far = Duration::from_secs(300_000_000_000);
    for (at, shown) in [
        (SystemTime::UNIX_EPOCH - far, Timestamp::MIN),
        (SystemTime::UNIX_EPOCH, Timestamp::UNIX_EPOCH),
        (SystemTime::UNIX_EPOCH + far, Timestamp::MAX),
    ] {
        let clock = FakeClock::new(at);
        let fake = eventcast::testing::FakeRecorder::with_clock(100, clock.clock());
        for _ in 0..10 {
            for name in ["web-0", "Web_0", ""] {
                fake.recorder("tester").event(pod(name), Normal, "R", "");
            }
            clock.advance(Duration::from_secs(1));
        }
        let events = fake.take();
        let names: HashSet<_> = events.iter().map(|event| event.metadata.name.to_string()).collect();
        assert_eq!(names.len(), 30);
        for event in &events {
            let name = &event.metadata.name;
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b)));
            assert!(name.starts_with("web-0.") || name.len() == 36, "{name}");
            // The clock advanced by ten seconds in all.
            let at = event.first_timestamp.unwrap();
            assert!(at >= shown && at.duration_since(shown) < Duration::from_secs(10), "{at}");
            assert_eq!(Event::from_json(&event.to_json()).unwrap().metadata.name, *name);
        }
    }
}

// ── numbers at their ends ──

#[test]
fn the_limit_of_a_message_holds_but_for_the_prefix_of_a_group() {
    let clock = clock();
    let events = EventBroadcaster::builder().clock(clock.clock()).max_message_len(20).build().unwrap();
    let sink = Scripted::obedient(&clock);
    events.record_to(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..10 {
        recorder.event(pod("a"), Normal, "R", format_args!("{i}: a message that is too long"));
    }
    events.shutdown();
    let mut lens: Vec<_> = sink.store.events().iter().map(|event| event.message.len()).collect();
    assert_eq!(lens.pop(), Some(20 + "(combined from similar events): ".len()));
    assert_eq!(lens, [20; 9]);
}

/// Go compares times in the form in which it writes them, in whole seconds.
#[test]
fn a_patch_leaves_out_every_time_that_is_written_as_the_epoch() {
    let mut event = Event::default();
    event.count = 2;
    event.last_timestamp = Timestamp::new(0, 999_999_999);
    assert_eq!(event.to_patch_json(), r#"{"count":2}"#);
    event.last_timestamp = Timestamp::new(-1, 999_999_999);
    assert_eq!(event.to_patch_json(), r#"{"count":2,"lastTimestamp":"1969-12-31T23:59:59Z"}"#);
}

#[test]
fn a_time_has_as_many_digits_as_are_asked_for() {
    let at = Timestamp::new(0, 120_000_000).unwrap();
    for digits in 1..15_usize {
        let shown = format!("{at:.digits$}");
        assert_eq!(shown.len(), "1970-01-01T00:00:00.Z".len() + digits, "{shown}");
        assert_eq!(
            shown.parse(),
            Ok(Timestamp::new(0, if digits == 1 { 100_000_000 } else { 120_000_000 }).unwrap())
        );
    }
}

#[test]
fn a_count_at_its_end_stays_there() {
    let clock = clock();
    let options = CorrelatorOptions::default().clock(clock.clock()).spam_filter(None);
    let correlator = EventCorrelator::new(options).unwrap();
    let mut event = Event::default();
    event.count = i32::MAX - 1;
    assert!(matches!(correlator.correlate(&event), Correlation::Create { .. }));
    for _ in 0..3 {
        let Correlation::Update { event, .. } = correlator.correlate(&event) else { panic!() };
        assert_eq!(event.count, i32::MAX);
        assert!(event.to_patch_json().starts_with(r#"{"count":2147483647,"#));
    }
}

#[test]
fn no_duration_is_too_long() {
    in_time(|| {
        let clock = clock();
        clock.advance(Duration::from_secs(1));
        let retry = RetryPolicy::default().delay(Duration::MAX).max_delay(Duration::MAX);
        let aggregation = Aggregation::default().max_interval(Duration::MAX);
        let correlator = CorrelatorOptions::default().aggregation(aggregation);
        let options = MemorySinkOptions::default().ttl(Duration::MAX);
        let store = MemorySink::with_clock(options, clock.clock()).unwrap();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .retry(retry)
            .correlator(correlator)
            .drop_timeout(Duration::MAX)
            .build()
            .unwrap();
        let (sink, calls) = Scripted::new(&clock, |_, op| match &*event_of(op).reason {
            "Wait" => Err(SinkError::retry("").with_retry_after(Duration::MAX)),
            "Retry" => Err(SinkError::retry("")),
            _ => Ok(()),
        });
        events.record_to(store.clone()).unwrap();
        let pausing = events.record_to(sink.clone()).unwrap();
        record(&events, "a", "Started");
        record(&events, "a", "Wait");
        record(&events, "a", "Retry");
        calls.recv_timeout(LONG).unwrap();
        calls.recv_timeout(LONG).unwrap();
        // Both recordings must have been offered all three events before the end begins.
        until(|| store.len() == 3 && pausing.stats().watcher.offered == 3);
        clock.advance(Duration::from_secs(1 << 40));
        assert_eq!(store.len(), 3);
        pausing.stop();
        assert!(pausing.join(Duration::MAX));
        assert_eq!(events.flush(Duration::MAX), Ok(()));
        let report = events.shutdown_timeout(Duration::MAX);
        assert_balanced(&report.recordings[1]);
        assert_eq!((report.recordings[1].abandoned, report.recordings[1].retried), (2, 2));
    });
}

// ── hooks that call back ──
