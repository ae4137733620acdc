//! Options, including the smallest and largest permitted values.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use eventcast::correlator::Aggregation;
use eventcast::record::EventBroadcasterBuilder;
use eventcast::sink::{EventTable, MemorySinkOptions};
use eventcast::testing::FakeClock;
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventType, MemorySink, RetryPolicy, SinkError, Timestamp,
};
use test_support::watched;

use crate::support::{LONG, Scripted, assert_balanced, clock, clocked, memory, modes, pod, record, until};

#[test]
fn options_out_of_range_are_named() {
    let error = |builder: EventBroadcasterBuilder| builder.build().err().map(|error| error.to_string());
    let message_len = |bytes: usize| EventBroadcaster::builder().max_message_len(bytes);
    let refused = Some("max_message_len must be 1 byte or more, got 0");
    assert_eq!(error(message_len(0)).as_deref(), refused);
    assert_eq!([error(message_len(1024).event_time(true)), error(message_len(1025))], [None, None]);
    let refused = Some("max_message_len must be 1 to 1024 bytes if events have an event time, got 1025");
    assert_eq!(error(message_len(1025).event_time(true)).as_deref(), refused);
    for bus in modes() {
        let error = EventBroadcaster::builder().bus(bus.incoming_capacity(0)).build().unwrap_err();
        assert_eq!(error.option(), "incoming_capacity");
    }
}

#[test]
fn no_duration_is_too_long() {
    watched(|| {
        let clock = clock();
        clock.advance(Duration::from_secs(1));
        let retry = RetryPolicy::default().delay(Duration::MAX).max_delay(Duration::MAX);
        let aggregation = Aggregation::default().max_interval(Duration::MAX);
        let correlator = CorrelatorOptions::default().aggregation(aggregation);
        let options = MemorySinkOptions::default().ttl(Duration::MAX);
        let store = MemorySink::with_clock(options, clock.clock()).unwrap();
        let builder = clocked(&clock).retry(retry).correlator(correlator).drop_timeout(Duration::MAX);
        let events = builder.build().unwrap();
        let (sink, calls) = Scripted::new(&clock, |_, op| match &*op.event().reason {
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
        // Both recordings must have been offered all three events before the shutdown begins.
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

/// The system clock is far beyond the range of a timestamp, or far before 1970. Events are still
/// recorded, folded, stored, listed and read back, with times clamped to the end of the range.
#[test]
fn a_clock_at_the_ends_of_time_records_and_stores_as_usual() {
    let far = Duration::from_secs(300_000_000_000);
    for (at, shown) in
        [(SystemTime::UNIX_EPOCH + far, Timestamp::MAX), (SystemTime::UNIX_EPOCH - far, Timestamp::MIN)]
    {
        let clock = FakeClock::new(at).drive_the_end();
        let store = memory(&clock);
        let events = clocked(&clock).build().unwrap();
        let (lines, logged) = mpsc::channel();
        events.log_to(move |line| drop(lines.send(line.to_owned()))).unwrap();
        events.record_to(store.clone()).unwrap();
        let recorder = events.recorder("tester");
        for n in 0..15 {
            recorder.event(pod("web"), EventType::Warning, "BackOff", format_args!("restart {n}"));
            recorder.event(pod("db"), EventType::Normal, "Ready", "ready");
            clock.advance(Duration::from_secs(1));
        }
        let report = events.shutdown();
        assert!(report.complete, "{report}");
        assert_balanced(&report.recordings[0]);
        assert_eq!(report.recordings[0].rejected, 0, "{report}");
        let stored = store.events();
        assert_eq!(stored.iter().map(|event| event.count).max(), Some(15));
        for event in &stored {
            // Stores keep times in whole seconds.
            let first = event.first_timestamp.unwrap().to_string();
            assert_eq!(first.get(..19), shown.to_string().get(..19), "{event:?}");
            assert_eq!(Event::from_json(&event.to_json()).unwrap(), *event);
        }
        let table = EventTable::new(shown).rows(&stored);
        assert_eq!(table.lines().count(), stored.len() + 1);
        assert_eq!(logged.into_iter().count(), 30);
    }
}
