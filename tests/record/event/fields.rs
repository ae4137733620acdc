//! The fields of an event, and patches.

use eventcast::event::EventSeries;
use eventcast::{Event, EventType, Text, Timestamp};

use super::json::{at, full_event};

#[test]
fn an_event_stays_small_enough_to_be_moved_by_value() {
    let size = size_of::<Event>();
    // Shorter addresses make an event smaller.
    assert!(if cfg!(target_pointer_width = "64") { size == 464 } else { size < 464 }, "{size}");
    assert_eq!(size_of::<Option<Timestamp>>(), size_of::<Timestamp>());
}

/// If a box contains only default values, it makes no difference to equality.
#[test]
fn rare_fields_make_a_difference_only_while_they_are_set() {
    let mut touched = Event::default();
    touched.set_action("x");
    touched.set_action("");
    touched.metadata.labels_mut().clear();
    assert_eq!(touched, Event::default());
    let event = full_event();
    let mut without = event.clone();
    without.set_series(None);
    assert_ne!(without, event);
    without.set_series(event.series());
    assert_eq!(without, event);
}

/// The order in which kubectl reads the fields.
#[test]
fn last_seen_prefers_the_series_and_then_the_last_time() {
    let mut event = Event::default();
    event.metadata.set_creation_timestamp(at("2024-01-01T00:00:05Z"));
    assert_eq!(event.last_seen(), None);
    event.set_event_time(at("2024-01-01T00:00:04Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:04Z")));
    event.first_timestamp = Some(at("2024-01-01T00:00:03Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:03Z")));
    event.last_timestamp = Some(at("2024-01-01T00:00:02Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:02Z")));
    event.set_series(EventSeries::new(2, at("2024-01-01T00:00:01Z")));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:01Z")));
    // The series has no time, which no API server would accept.
    event.set_series(EventSeries::default());
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:02Z")));
}

#[test]
fn a_type_is_read_where_it_is_one_of_the_two() {
    let mut event = Event::default();
    assert_eq!(event.event_type(), None);
    for type_ in [EventType::Normal, EventType::Warning] {
        event.type_ = type_.into();
        assert_eq!(event.event_type(), Some(type_));
        assert_eq!(event.type_, *type_.to_string());
    }
    event.type_ = "warning".into();
    assert_eq!(event.event_type(), None);
}

#[test]
fn a_patch_has_the_fields_that_are_not_empty() {
    let mut event = Event::default();
    assert_eq!(event.to_patch_json(), r#"{"lastTimestamp":null}"#);
    event.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(event.to_patch_json(), "{}");
    event.message = "<a>&\u{2028}\u{2029}\"\\\n\u{1}\u{7f}é".into();
    assert_eq!(
        event.to_patch_json(),
        "{\"message\":\"\\u003ca\\u003e\\u0026\\u2028\\u2029\\\"\\\\\\n\\u0001\u{7f}é\"}"
    );
    event.count = -3;
    event.message = Text::default();
    assert_eq!(event.to_patch_json(), r#"{"count":-3}"#);
    event.last_timestamp = Some(at("2024-01-02T03:04:05.999999999Z"));
    event.message = "m".into();
    assert_eq!(
        event.to_patch_json().as_bytes(),
        br#"{"count":-3,"lastTimestamp":"2024-01-02T03:04:05Z","message":"m"}"#
    );
}

/// Go compares times in the form in which it writes them, that is, in whole seconds.
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
fn a_patch_has_the_series_alone() {
    let at: Timestamp = "2024-01-02T03:04:05.678901Z".parse().unwrap();
    let mut event = Event::default();
    event.message = "message".into();
    event.set_event_time(at);
    event.set_series(EventSeries::new(17, at));
    let expected = r#"{"series":{"count":17,"lastObservedTime":"2024-01-02T03:04:05.678901Z"}}"#;
    assert_eq!(event.to_patch_json(), expected);
}
