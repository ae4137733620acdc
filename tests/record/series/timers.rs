//! Behaviour of series that goes beyond client-go's: bounds, flushes, shutdowns, and separate
//! times.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::event::EventSeries;
use eventcast::record::{SeriesOptions, SeriesUpdate};
use eventcast::sink::{JsonLinesSink, MemorySinkOptions, SinkErrorKind};
use eventcast::{Event, EventBroadcaster, EventSource, MemorySink, SinkError};

use crate::support::{LONG, assert_balanced, clock, clocked, pod, until};

use super::{answering, line};

#[test]
fn a_series_ends_at_the_end_of_its_silence() {
    let mut line = line(SeriesOptions::default());
    for second in 1..=3 {
        line.record(0, second, "a");
    }
    line.record(0, 4, "b");
    line.record(0, 5, "b");
    line.at(6, 2);
    line.expect(6, 3, 5);
    // The second series has nothing left to write.
    line.record(6, 5, "b");
    line.record(6, 5, "a");
    let calls = line.end();
    assert_eq!(
        calls[..4],
        ["0:01 create a", "0:02 patch a x2 0:02", "0:04 create b", "0:05 patch b x2 0:05"]
    );
    assert_eq!(calls[4..], ["6:03 patch a x3 0:03", "6:05 create b", "6:05 create a"]);
}

#[test]
fn an_event_that_is_recorded_once_is_evicted_without_a_write() {
    let mut line = line(SeriesOptions::default());
    line.record(0, 1, "a");
    line.record(6, 1, "a");
    assert_eq!(line.end(), ["0:01 create a", "6:01 create a"]);
}

#[test]
fn only_the_series_that_is_silent_ends() {
    let mut line = line(SeriesOptions::default());
    for second in 0..10 {
        line.record(3, second, "a");
    }
    line.record(9, 8, "b");
    line.expect(9, 9, 4);
    line.record(9, 10, "b");
    let expected = ["3:00 create a", "3:01 patch a x2 3:01", "9:08 create b", "9:09 patch a x10 3:09"];
    let calls = line.end();
    assert_eq!(calls[..4], expected);
    assert_eq!(calls[4..], ["9:10 patch b x2 9:10"]);
}

#[test]
fn a_series_is_written_at_most_once_in_a_time() {
    let mut line = line(SeriesOptions::default().update(SeriesUpdate::Every(Duration::from_secs(10))));
    for second in [0, 1, 2, 3, 11] {
        line.record(0, second, "a");
    }
    line.expect(0, 11, 3);
    line.record(0, 12, "a");
    line.expect(0, 21, 4);
    line.record(1, 0, "a");
    let calls = line.end();
    assert_eq!(calls[..3], ["0:00 create a", "0:01 patch a x2 0:01", "0:11 patch a x4 0:03"]);
    assert_eq!(calls[3..], ["0:21 patch a x6 0:12", "1:00 patch a x7 1:00"]);
}

#[test]
fn a_flush_writes_what_is_held() {
    let mut line = line(SeriesOptions::default());
    for _ in 0..5 {
        line.record(0, 1, "a");
        line.record(0, 1, "b");
    }
    assert_eq!(line.calls().len(), 4);
    line.events.flush(LONG).unwrap();
    assert_eq!(line.calls()[4..], ["0:01 patch a x5 0:01", "0:01 patch b x5 0:01"]);
    // After that, repeats are held again.
    line.record(0, 2, "a");
    assert_eq!(line.calls().len(), 6);
    futures::executor::block_on(line.events.flush_async(LONG)).unwrap();
    assert_eq!(line.calls()[6..], ["0:02 patch a x6 0:02"]);
    let stats = line.recording.stats();
    assert_eq!((stats.created, stats.updated, stats.coalesced, stats.written()), (2, 9, 4, 7));
    line.end();
}

#[test]
fn a_recording_that_stops_writes_what_is_held() {
    let mut line = line(SeriesOptions::default());
    for _ in 0..5 {
        line.record(0, 1, "a");
    }
    line.recording.stop();
    assert!(line.recording.join(LONG));
    assert_eq!(line.calls()[2..], ["0:01 patch a x5 0:01"]);
    assert_balanced(&line.recording.stats());
}

/// The events of a refused write count as lost until the next write carries their count. The
/// refusal does not cause the next write to be made earlier.
#[test]
fn a_refused_write_is_counted_and_the_next_one_has_its_count() {
    let mut line = answering(SeriesOptions::default(), |event| match event.series() {
        Some(EventSeries { count: 5, .. }) => Err(SinkError::rejected("not this one")),
        _ => Ok(()),
    });
    for _ in 0..5 {
        line.record(0, 1, "a");
    }
    line.events.flush(LONG).unwrap();
    let stats = line.recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.rejected), (1, 1, 3));
    line.record(0, 2, "a");
    line.record(0, 3, "a");
    assert_eq!(line.calls()[2..], ["0:01 patch a x5 0:01"]);
    let stats = line.events.shutdown().recordings.remove(0);
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.rejected), (1, 6, 0));
    assert_eq!(line.calls()[3..], ["0:03 patch a x7 0:03"]);
}

/// The store refuses every patch, with an error that is retried or with an error that is not. The
/// recording calls the store as many times as client-go would, rather than once per event.
#[test]
fn a_store_that_refuses_every_repeat_is_asked_once_for_each_tick() {
    let refusals: [fn() -> SinkError; 3] = [
        || SinkError::rejected("patch is not allowed"),
        || SinkError::new(SinkErrorKind::AlreadyExists, "it exists"),
        || SinkError::retry("busy"),
    ];
    for refusal in refusals {
        refused_at_each_tick(refusal, [(31, 3), (61, 3)]);
    }
}

/// Records an event each minute with a store that refuses every repeat, and asserts that the store
/// is called only at these times and at the end.
fn refused_at_each_tick(refusal: fn() -> SinkError, ticks: [(u64, u64); 2]) {
    let answer = move |event: &Event| event.series().map_or(Ok(()), |_| Err(refusal()));
    let mut line = answering(SeriesOptions::default(), answer);
    let mut expected = vec!["0:03 create a".to_owned(), "1:03 patch a x2 1:03".to_owned()];
    for minute in 0..65 {
        if let Some(&(_, second)) = ticks.iter().find(|(tick, _)| *tick == minute) {
            line.at(minute, second);
            let call = format!("{minute}:{second:02} patch a x{minute} {}:03", minute - 1);
            until(|| line.calls().contains(&call));
            expected.push(call);
        }
        line.record(minute, 3, "a");
    }
    expected.push("64:03 patch a x65 64:03".to_owned());
    let stats = line.events.shutdown().recordings.remove(0);
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated), (1, 0));
    let mut calls = line.calls();
    // Several attempts at one write are equal except for their times, because the clock may advance
    // between them.
    calls.dedup_by_key(|call| call.split_once(' ').unwrap().1.to_owned());
    assert_eq!(calls, expected, "{}", refusal());
}

/// At most one write happens in each interval set in the options, whatever the store's response is.
#[test]
fn a_refusal_does_not_shorten_the_time_between_two_writes() {
    let options = SeriesOptions::default().update(SeriesUpdate::Every(Duration::from_secs(60)));
    let mut line = answering(options, |event| match event.series() {
        None => Ok(()),
        Some(_) => Err(SinkError::rejected("patch is not allowed")),
    });
    for second in [1, 2, 3, 30, 61] {
        line.record(0, second, "a");
    }
    line.expect(1, 2, 3);
    line.record(1, 3, "a");
    assert_eq!(line.calls(), ["0:01 create a", "0:02 patch a x2 0:02", "1:02 patch a x5 1:01"]);
    assert_eq!(line.end()[3..], ["1:03 patch a x6 1:03"]);
}

/// The store refuses the first event. The next event finds nothing to patch, so it is created with
/// the count of both events.
#[test]
fn an_event_that_was_refused_is_created_by_the_next_one() {
    let mut line = answering(SeriesOptions::default(), |event| match event.series() {
        None => Err(SinkError::rejected("not alone")),
        Some(_) => Ok(()),
    });
    for second in 1..=4 {
        line.record(0, second, "a");
    }
    let stats = line.events.shutdown().recordings.remove(0);
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.recreated, stats.rejected), (1, 3, 1, 0));
    let expected = ["0:01 create a", "0:02 patch a x2 0:02", "0:02 create a x2 0:02", "0:04 patch a x4 0:04"];
    assert_eq!(line.calls(), expected);
    assert_eq!(line.sink.store.events()[0].series().unwrap().count, 4);
}

/// Ten thousand series share a cache with space for 4096. Every count reaches the store.
#[test]
fn an_evicted_series_is_written() {
    let clock = clock();
    let store =
        MemorySink::with_clock(MemorySinkOptions::default().max_events(100_000), clock.clock()).unwrap();
    let builder = clocked(&clock).event_time(true);
    let events = builder.bus(eventcast::BusOptions::default().incoming_capacity(40_000)).build().unwrap();
    let recording = events.recording().queue_capacity(40_000).start(store.clone()).unwrap();
    let recorder = events.recorder(EventSource::from("web").on_host("web-7"));
    for key in 0..10_000 {
        for _ in 0..4 {
            assert!(recorder.event(pod(&format!("p{key}")), Normal, "Started", "up").is_accepted());
        }
    }
    let report = events.shutdown();
    assert!(report.complete);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.evicted), (10_000, 30_000, 10_000 - 4096));
    assert_eq!(store.len(), 10_000);
    assert!(store.events().iter().all(|event| event.series().unwrap().count == 4));
}

/// A new series evicts the least recently seen series.
#[test]
fn the_series_that_was_seen_least_recently_is_evicted() {
    let mut line = line(SeriesOptions::default().cache_size(2));
    for (second, name) in (0..).zip(["a", "b", "a", "c", "a", "b"]) {
        line.record(0, second, name);
    }
    assert_eq!(line.recording.stats().evicted, 2);
    let expected = [
        "0:00 create a",
        "0:01 create b",
        "0:02 patch a x2 0:02",
        "0:03 create c",
        "0:05 create b",
        "0:05 patch a x3 0:04",
    ];
    assert_eq!(line.end(), expected);
}

/// A series's last time does not go back even if the clock does.
#[test]
fn the_last_time_of_a_series_does_not_go_back() {
    let mut line = line(SeriesOptions::default().update(SeriesUpdate::Always));
    line.record(0, 10, "a");
    line.record(0, 20, "a");
    line.clock.set(line.clock.clock().now() - Duration::from_secs(15));
    line.record(0, 5, "a");
    line.record(0, 30, "a");
    let expected = ["0:10 create a", "0:20 patch a x2 0:20", "0:05 patch a x3 0:20", "0:30 patch a x4 0:30"];
    assert_eq!(line.end(), expected);
}

#[test]
fn recordings_count_independently() {
    let clock = clock();
    let events = clocked(&clock).event_time(true).build().unwrap();
    let stores = [MemorySink::new(), MemorySink::new()];
    events.record_to(stores[0].clone()).unwrap();
    events.recording().filter(|event| event.message != "second").start(stores[1].clone()).unwrap();
    let recorder = events.recorder(EventSource::from("web").on_host("web-7"));
    for message in ["first", "second", "third"] {
        recorder.event(pod("a"), Normal, "Started", message);
    }
    events.shutdown();
    assert_eq!(stores.map(|store| store.events()[0].series().unwrap().count), [3, 2]);
}

/// A log has one line per event, so the recording holds back no events for a sink that requires the
/// bus order.
#[test]
fn a_log_has_every_repeat() {
    let events = EventBroadcaster::builder().event_time(true).build().unwrap();
    let lines = Arc::new(Mutex::new(Vec::new()));
    events.record_to(JsonLinesSink::new(Lines(lines.clone()))).unwrap();
    let recorder = events.recorder(EventSource::from("web").on_host("web-7"));
    for _ in 0..5 {
        assert!(recorder.event(pod("a"), Normal, "Started", "up").is_accepted());
    }
    events.shutdown();
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    let count = |line: &str| Event::from_json(line).unwrap().series().map(|series| series.count);
    let counts: Vec<_> = text.lines().map(count).collect();
    assert_eq!(counts, [None, Some(2), Some(3), Some(4), Some(5)]);
}

/// A writer whose output the test can read.
struct Lines(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
