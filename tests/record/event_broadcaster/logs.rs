//! Lines of logs.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use eventcast::EventType::{Normal, Warning};
use eventcast::event::EventSeries;
use eventcast::record::LogFormat;
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
    events.start_logging(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    let recorder = events.new_recorder("tester");
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
    events.start_logging(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    record(&events, "web-0", "Unhealthy");
    events.shutdown();
    assert_eq!(*lines.lock().unwrap(), ["2026-01-02T04:00:00Z  Normal   Unhealthy  pod/web-0  message"]);
}

/// client-go passes `Event(%#v): type: '%v' reason: '%v' %v` to its log, so the object is a Go
/// value with all seven fields, and its strings are quoted by Go's rules.
#[test]
fn a_log_line_of_klogs_form_is_client_go_s() {
    let events = EventBroadcaster::new().unwrap();
    let lines = Shared::default();
    let into = lines.clone();
    let logging =
        events.start_logging_as(LogFormat::Klog, move |line| into.lock().unwrap().push(line.to_owned()));
    assert_eq!(logging.unwrap().stats().name, "logging");
    let recorder = events.new_recorder("tester");
    let mut foo = pod("foo").in_namespace("baz");
    (foo.uid, foo.api_version) = ("bar".into(), "v1".into());
    recorder.event(&foo, Normal, "Killed", "some other verbose message: 1 %d {}");
    foo.field_path = "spec.containers[2]".into();
    recorder.event(&foo, Warning, "Started", "some verbose message: 1");
    foo.resource_version = "41".into();
    recorder.event(&foo, Normal, "Started", "");
    recorder.event(ObjectReference::default(), Normal, "Odd", "about nothing");
    let odd = "\"\\ \u{7}\u{8}\u{c}\n\r\t\u{b}\u{1b}\u{7f}\u{9b}\u{a0}\u{200b}\u{e0001}'größe 网\u{301}";
    recorder.event(ObjectReference::new(odd, ""), Normal, "Odd", "quoted");
    events.shutdown();
    let object =
        r#"v1.ObjectReference{Kind:"Pod", Namespace:"baz", Name:"foo", UID:"bar", APIVersion:"v1", "#;
    let nothing = r#"Namespace:"", Name:"", UID:"", APIVersion:"", ResourceVersion:"", FieldPath:""}"#;
    let quoted = r#""\"\\ \a\b\f\n\r\t\v\x1b\x7f\u009b\u00a0\u200b\U000e0001'größe 网"#;
    assert_eq!(
        *lines.lock().unwrap(),
        [
            format!(
                "Event({object}ResourceVersion:\"\", FieldPath:\"\"}}): type: 'Normal' reason: 'Killed' some other \
                 verbose message: 1 %d {{}}"
            ),
            format!(
                "Event({object}ResourceVersion:\"\", FieldPath:\"spec.containers[2]\"}}): type: 'Warning' reason: \
                 'Started' some verbose message: 1"
            ),
            format!(
                "Event({object}ResourceVersion:\"41\", FieldPath:\"spec.containers[2]\"}}): type: 'Normal' reason: \
                 'Started' "
            ),
            format!(
                "Event(v1.ObjectReference{{Kind:\"\", {nothing}): type: 'Normal' reason: 'Odd' about nothing"
            ),
            format!(
                "Event(v1.ObjectReference{{Kind:{quoted}\u{301}\", {nothing}): type: 'Normal' reason: 'Odd' quoted"
            ),
        ]
    );
}

/// A payload such as that of CVE-2021-25743, in every field that a line shows.
#[test]
fn a_hostile_event_cannot_reach_a_log() {
    let payload = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let shown = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rEvent(\u{8}\u{7f}\u{202e}txet\u{2028}next\nEvent(";
    let events = broadcaster(&FakeClock::new(SystemTime::UNIX_EPOCH));
    let (tx, lines) = mpsc::channel();
    let (klog_tx, klog_lines) = mpsc::channel();
    events.start_logging(move |line| tx.send(line.to_owned()).unwrap()).unwrap();
    events.start_logging_as(LogFormat::Klog, move |line| klog_tx.send(line.to_owned()).unwrap()).unwrap();
    let mut object = ObjectReference::new(payload, payload).in_namespace(payload);
    object.uid = payload.into();
    object.field_path = payload.into();
    events.new_recorder("tester").event(&object, Normal, payload, payload);
    events.shutdown();
    let kind = shown.to_lowercase();
    assert_eq!(
        lines.recv().unwrap(),
        format!("1970-01-01T00:00:00Z  Normal   {shown}  {kind}/{shown}  {shown}")
    );
    // Within the quotes of the reference, Go's rules.
    let quoted = r"\x1b[2J\x1b[1;1H\u009b31mpwned\rEvent(\b\x7f\u202etxet\u2028next\nEvent(";
    assert_eq!(
        klog_lines.recv().unwrap(),
        format!(
            "Event(v1.ObjectReference{{Kind:\"{quoted}\", Namespace:\"{quoted}\", Name:\"{quoted}\", \
             UID:\"{quoted}\", APIVersion:\"\", ResourceVersion:\"\", FieldPath:\"{quoted}\"}}): \
             type: 'Normal' reason: '{shown}' {shown}"
        )
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
        .start_logging(move |line| {
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
