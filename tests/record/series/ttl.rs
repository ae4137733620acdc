//! Series that last longer than the store keeps an event.

use std::time::Duration;

use eventcast::record::SeriesOptions;
use eventcast::sink::MemorySinkOptions;

use crate::support::LONG;

use super::{Line, on};

fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

fn line(ttl: Duration, options: SeriesOptions) -> Line {
    on(MemorySinkOptions::default().ttl(ttl), options, |_| Ok(()))
}

/// Records often enough for the series to continue, and expects a write each time `every` has
/// passed. The store never deletes the event.
#[track_caller]
fn expect_writes(mut line: Line, every: Duration) {
    let at = |seconds: u64| (seconds / 60, seconds % 60);
    // The second event is written immediately.
    line.record(0, 0, "a");
    line.record(0, 0, "a");
    let first = line.sink.store.events().remove(0);
    let (period, mut calls) = (every.as_secs(), 2);
    for round in 0..6 {
        for step in 1..=11 {
            let (minutes, seconds) = at(period * round + period * step / 12);
            line.record(minutes, seconds, "a");
        }
        assert_eq!(line.calls().len(), calls);
        calls += 1;
        let (minutes, seconds) = at(period * (round + 1));
        line.expect(minutes, seconds, calls);
        let stored = line.sink.store.events().remove(0);
        assert_eq!(i64::from(stored.series().unwrap().count), i64::try_from(line.recorded).unwrap());
        assert_eq!(stored.metadata.uid(), first.metadata.uid());
    }
    assert_eq!(line.recording.stats().recreated, 0);
    assert_eq!(line.sink.store.stats().expired, 0);
    line.end();
}

#[test]
fn a_store_gets_a_series_again_before_it_removes_the_event() {
    expect_writes(line(minutes(10), SeriesOptions::default()), minutes(5));
}

/// API servers keep events for an hour.
#[test]
fn an_hour_is_time_enough_for_the_default_options() {
    expect_writes(line(minutes(60), SeriesOptions::default()), minutes(30));
    expect_writes(line(minutes(61), SeriesOptions::default()), minutes(30));
}

#[test]
fn a_shorter_time_of_the_options_counts() {
    expect_writes(line(minutes(10), SeriesOptions::default().refresh_every(minutes(3))), minutes(3));
}

/// Half of the shortest retention time that a store can have is less than the time that a recording
/// can wait.
#[test]
fn a_store_that_keeps_nothing_gets_every_count() {
    let mut line = line(Duration::from_nanos(1), SeriesOptions::default());
    for second in 0..4 {
        line.record(0, second, "a");
    }
    line.events.flush(LONG).unwrap();
    assert!(line.calls().last().unwrap().ends_with("a x4 0:03"));
    line.events.shutdown();
}
