//! Log lines.

use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::event::EventSeries;
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, EventBroadcaster, ObjectReference};

use crate::support::{clocked, gate, logged, pod, record, until};

use super::Shared;

/// If a forwarding controller records an event that was counted elsewhere, the log line takes its
/// date from the event's series.
#[test]
fn a_log_line_has_columns_as_events_watch_prints_them() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_999));
    let series = EventSeries::new(61, "2026-01-02T04:00:00.5Z".parse().unwrap());
    let builder = clocked(&clock).scrub(move |event| match &*event.reason {
        "Timeless" => (event.first_timestamp, event.last_timestamp) = (None, None),
        "Counted" => event.set_series(series),
        _ => {}
    });
    let events = builder.build().unwrap();
    let lines = logged(&events);
    let recorder = events.recorder("tester");
    let web = pod("web-0").in_namespace("default");
    recorder.event(&web, Warning, "BackOff", " restarting 100 %d {}\n");
    recorder.event(ObjectReference::default(), Normal, "Odd", "about nothing");
    let past = "2001-02-03T04:05:06.7+01:00".parse().unwrap();
    recorder.draft(&web, Normal, "Started").message("it's up").at(past).record();
    recorder.event(&web, Normal, "Timeless", "");
    recorder.event(&web, Normal, "Counted", "again");
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "2023-11-14T22:13:20Z  Warning  BackOff  pod/web-0  restarting 100 %d {}",
            "2023-11-14T22:13:20Z  Normal   Odd    about nothing",
            "2001-02-03T03:05:06Z  Normal   Started  pod/web-0  it's up",
            "<unknown>             Normal   Timeless  pod/web-0  ",
            "2026-01-02T04:00:00Z  Normal   Counted  pod/web-0  again",
        ]
    );
    let timed = clocked(&clock).event_time(true).build().unwrap();
    let lines = logged(&timed);
    record(&timed, "web-0", "Started");
    timed.shutdown();
    assert_eq!(*lines.lock().unwrap(), ["2023-11-14T22:13:20Z  Normal   Started  pod/web-0  message"]);
}

#[test]
fn a_log_shows_where_events_are_missing() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let builder = EventBroadcaster::builder().bus(BusOptions::default().queue_capacity(1));
    let events = builder.clock(clock.clock()).build().unwrap();
    let (gate, pass) = gate();
    let lines = Shared::default();
    let into = lines.clone();
    let logging = events
        .log_to(move |line| {
            into.lock().unwrap().push(line.to_owned());
            pass();
        })
        .unwrap();
    record(&events, "a", "Started");
    gate.wait();
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| logging.stats().dropped.incoming == 2);
    drop(gate);
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        ["1970-01-01T00:00:00Z  Normal   Started  pod/a  message", "(2 events lost here)"]
    );
}
