//! Event lists as kubectl displays them.

use std::time::Duration;

use eventcast::event::EventSeries;
use eventcast::sink::EventTable;
use eventcast::{Event, EventSource, Timestamp};

use crate::support::event;

/// Returns the time at which a table is created, `seconds` after the events were first seen.
fn later(seconds: u64) -> Timestamp {
    Timestamp::new(1_700_000_000, 0).unwrap().saturating_add(Duration::from_secs(seconds))
}

#[test]
fn the_table_is_kubectls() {
    assert_eq!(EventTable::new(later(0)).rows(&[]), "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n");

    let mut once = event("1", "Pod", "web-0");
    once.message = "started".into();
    (once.first_timestamp, once.last_timestamp) = (Some(later(0)), Some(later(0)));
    let mut counted = event("2", "Deployment", "größe-网络");
    counted.type_ = "Warning".into();
    counted.reason = "扩容失败".into();
    counted.message = "  no room\n".into();
    (counted.first_timestamp, counted.last_timestamp) = (Some(later(0)), Some(later(300)));
    counted.count = 12;
    let mut series = event("3", "Pod", "");
    series.message = "started".into();
    series.set_series(EventSeries::new(4, later(303)));

    let table = "
LAST SEEN                TYPE      REASON     OBJECT                  MESSAGE
5m3s                     Normal    Started    pod/web-0               started
3s (x12 over 5m3s)       Warning   扩容失败   deployment/größe-网络   no room
0s (x4 over <unknown>)   Normal    Started    pod                     started
";
    assert_eq!(EventTable::new(later(303)).rows(&[once, counted, series]), table[1..]);
}

/// kubectl's `-A` shows the namespace in the first column. In a table for a single namespace, this
/// column would be the same in every row.
#[test]
fn the_table_of_several_namespaces_names_them() {
    let in_default = event("a", "Pod", "web-0");
    let mut blue = event("b", "Pod", "web-1");
    (blue.involved_object.namespace, blue.message) = ("blue-网络".into(), "up".into());
    let mut hostile = event("c", "Pod", "web-2");
    hostile.involved_object.namespace = "\u{1b}[2K".into();
    let all = [in_default.clone(), blue.clone(), hostile];
    let table = "
NAMESPACE   LAST SEEN   TYPE     REASON    OBJECT      MESSAGE
default     <unknown>   Normal   Started   pod/web-0   \nblue-网络   \
<unknown>   Normal   Started   pod/web-1   up
\\u{1b}[2K   <unknown>   Normal   Started   pod/web-2   \n";
    assert_eq!(EventTable::new(later(0)).rows(&all), table[1..]);
    for namespace in [&all[..1], &all[1..2], &[blue.clone(), blue]] {
        let table = EventTable::new(later(0)).rows(namespace);
        assert!(table.starts_with("LAST SEEN   TYPE "), "{table}");
    }
    // The first rows decide whether later rows name the namespace, because the header is written
    // together with the first rows.
    let mut table = EventTable::new(later(0));
    assert!(table.rows(&all[..1]).starts_with("LAST SEEN "));
    assert_eq!(table.rows(&all[..1]), "<unknown>   Normal   Started   pod/web-0   \n");
    assert!(!table.rows(&all).contains("default"));
    let mut table = EventTable::new(later(0));
    assert!(table.rows(&all).starts_with("NAMESPACE "));
    assert!(table.rows(&all[..1]).starts_with("default "));
    assert!(!EventTable::new(later(0)).namespaces(false).rows(&all).contains("NAMESPACE"));
    assert!(EventTable::new(later(0)).namespaces(true).rows(&[in_default]).starts_with("NAMESPACE "));
}

/// Before the message, kubectl prints the part of the object that an event is about.
#[test]
fn describe_names_the_container() {
    let about = |(path, message): (&'static str, &'static str)| -> Event {
        let mut event = event("a", "Pod", "web-0");
        (event.involved_object.field_path, event.message) = (path.into(), message.into());
        event
    };
    let events =
        [("spec.containers{web}", " Started container\n"), ("spec.\n{x}", ""), ("", "whole")].map(about);
    let section = EventTable::new(later(0)).describe(&events);
    let messages: Vec<&str> = section
        .lines()
        .skip(3)
        .map(|line| line.trim_start_matches("  Normal  Started  <unknown>        "))
        .collect();
    assert_eq!(messages, ["spec.containers{web}: Started container", r"spec.\n{x}: ", "whole"], "{section}");
}

#[test]
fn describe_is_kubectls() {
    assert_eq!(EventTable::new(later(0)).describe(&[]), "Events:  <none>\n");

    // The section is sorted by the events' last times.
    let mut counted = event("counted", "Pod", "web-0");
    counted.type_ = "Warning".into();
    counted.reason = "BackOff".into();
    counted.source = EventSource::from("kubelet");
    counted.source.host = "node-7".into();
    counted.message = "  Back-off restarting\n".into();
    (counted.first_timestamp, counted.last_timestamp) = (Some(later(0)), Some(later(300)));
    counted.count = 12;
    let mut once = event("once", "Pod", "web-0");
    once.message = "größe 网络".into();
    once.reason = "Zug网".into();
    once.reporting_controller = "sched".into();
    once.first_timestamp = Some(later(0));
    let mut series = event("series", "Pod", "web-0");
    series.source = "kubelet".into();
    series.reporting_controller = "not-shown".into();
    series.reporting_instance = "i".into();
    series.set_action("Starting");
    series.set_event_time(later(0));
    series.set_series(EventSeries::new(1, later(300)));
    let unknown = event("unknown", "Pod", "web-0");
    let section = "\
Events:
  Type     Reason   Age                 From     Message
  ----     ------   ----                ----     -------
  Normal   Started  <unknown>                    \n  \
  Normal   Zug网    5m3s                sched    größe 网络
  Warning  BackOff  3s (x12 over 5m3s)  kubelet  Back-off restarting
  Normal   Started  3s (x1 over 5m3s)   kubelet  \n";
    assert_eq!(EventTable::new(later(303)).describe(&[counted, once, series, unknown]), section);
}

#[test]
fn a_table_in_parts_keeps_the_widths_of_its_first_part() {
    let now = Timestamp::UNIX_EPOCH;
    let (mut wide, narrow) = (event("a", "Pod", "web-0"), event("b", "Pod", "w"));
    wide.reason = "FailedScheduling".into();
    let mut table = EventTable::new(now);
    let parts = table.rows(&[narrow.clone(), wide.clone()])
        + &table.rows(&[])
        + &table.rows(std::slice::from_ref(&narrow));
    let whole = EventTable::new(now).rows(&[narrow.clone(), wide.clone(), narrow.clone()]);
    assert_eq!(parts, whole);
    // A wider cell widens its column from that row on.
    let mut table = EventTable::new(now);
    let parts = [table.rows(std::slice::from_ref(&narrow)), table.rows(&[wide]), table.rows(&[narrow])];
    assert_eq!(
        parts.concat(),
        "\
LAST SEEN   TYPE     REASON    OBJECT   MESSAGE
<unknown>   Normal   Started   pod/w    \n\
<unknown>   Normal   FailedScheduling   pod/web-0   \n\
<unknown>   Normal   Started            pod/w       \n"
    );
    assert_eq!(EventTable::new(now).rows(&[]), "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n");
}
