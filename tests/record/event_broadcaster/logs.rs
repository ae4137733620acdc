//! Lines of logs.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::event::EventSeries;
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, EventBroadcaster, ObjectReference};

use crate::support::{LONG, gate, pod, record, until};

use super::{Shared, broadcaster};

#[test]
fn a_log_line_has_columns_as_events_watch_prints_them() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_999));
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .scrub(|event| {
            if event.reason == "Timeless" {
                (event.first_timestamp, event.last_timestamp) = (None, None);
            }
        })
        .build()
        .unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    let log = events.log_to(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    assert_eq!(log.stats().name, "logging");
    let recorder = events.recorder("tester");
    let web = pod("web-0").in_namespace("default");
    recorder.event(&web, Warning, "BackOff", " restarting 100 %d {}\n");
    recorder.event(ObjectReference::default(), Normal, "Odd", "about nothing");
    let past = "2001-02-03T04:05:06.7+01:00".parse().unwrap();
    recorder.draft(&web, Normal, "Started").message("it's up").at(past).record();
    recorder.event(&web, Normal, "Timeless", "");
    events.shutdown();
    assert_eq!(
        *lines.lock().unwrap(),
        [
            "2023-11-14T22:13:20Z  Warning  BackOff  pod/web-0  restarting 100 %d {}",
            "2023-11-14T22:13:20Z  Normal   Odd    about nothing",
            "2001-02-03T03:05:06Z  Normal   Started  pod/web-0  it's up",
            "<unknown>             Normal   Timeless  pod/web-0  ",
        ]
    );
}

/// An event that was counted elsewhere, as a controller that forwards events records it.
#[test]
fn a_log_line_dates_an_event_by_its_series() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .scrub(|event| event.set_series(EventSeries::new(61, "2026-01-02T04:00:00.5Z".parse().unwrap())))
        .build()
        .unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    events.log_to(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    record(&events, "web-0", "Unhealthy");
    events.shutdown();
    assert_eq!(*lines.lock().unwrap(), ["2026-01-02T04:00:00Z  Normal   Unhealthy  pod/web-0  message"]);
}

/// A payload such as that of CVE-2021-25743, in every field that a line shows.
#[test]
fn a_hostile_event_cannot_reach_a_log() {
    let payload = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let shown = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let events = broadcaster(&FakeClock::new(SystemTime::UNIX_EPOCH));
    let (tx, lines) = mpsc::channel();
    events.log_to(move |line| tx.send(line.to_owned()).unwrap()).unwrap();
    let mut object = ObjectReference::new(payload, payload).in_namespace(payload);
    object.uid = payload.into();
    object.field_path = payload.into();
    events.recorder("tester").event(&object, Normal, payload, payload);
    events.shutdown();
    let kind = shown.to_lowercase();
    assert_eq!(
        lines.recv().unwrap(),
        format!("1970-01-01T00:00:00Z  Normal   {shown}  {kind}/{shown}  {shown}")
    );
}

#[test]
fn a_log_says_where_events_are_missing() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let events = EventBroadcaster::builder()
        .bus(BusOptions::default().queue_len(1))
        .clock(clock.clock())
        .build()
        .unwrap();
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
    gate.entered.recv_timeout(LONG).unwrap();
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

// ── the end ──
