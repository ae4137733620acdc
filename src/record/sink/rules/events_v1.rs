//! The rules that an API server (Kubernetes 1.36) applies to an event received through
//! events.k8s.io/v1, in addition to the rules in `core_v1`. If a store's options enable these
//! rules, the store applies them to events with an event time.

use crate::escape::escape;
use crate::record::event::name::{MAX_NAME, is_subdomain};
use crate::record::event::timed::{is_name_part, is_qualified};
use crate::record::event::{Event, EventSeries, EventSource, ObjectMeta};
use crate::record::sink::error::SinkError;

use super::core_v1::{invalid, namespace_of, set};

/// The maximum total size of the keys and values of all annotations, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The maximum number of characters of an invalid value that an error message includes.
const SHOWN: usize = 100;

/// Returns an error if an API server would reject this new event.
pub(super) fn check_new(event: &Event) -> Result<(), SinkError> {
    let wrong = || {
        let wrong = wrong_name(event).or_else(|| wrong_labels(&event.metadata));
        let wrong = wrong.or_else(|| event.series().and_then(wrong_series));
        wrong.or_else(|| wrong_type(event)).or_else(|| set_but_gone(event))
    };
    answer(event, if is_timed(event) { wrong() } else { None })
}

/// Returns an error if an API server would refuse to replace `old` with `new`. Both events must be
/// in the form in which a store keeps events.
pub(super) fn check_change(old: &Event, new: &Event) -> Result<(), SinkError> {
    let wrong = || {
        let series = new.series().filter(|_| new.series() != old.series());
        let wrong = wrong_labels(&new.metadata).or_else(|| series.and_then(wrong_series));
        wrong.or_else(|| changed_field(old, new).map(|field| format!("the {field} must not change")))
    };
    answer(new, if is_timed(new) { wrong() } else { None })
}

/// Returns an error if an API server would refuse to set this series in the stored event.
pub(super) fn check_series(event: &Event, series: EventSeries) -> Result<(), SinkError> {
    answer(event, wrong_series(series))
}

/// Returns whether the event has an event time, like an event sent through events.k8s.io/v1.
fn is_timed(event: &Event) -> bool {
    set(event.event_time()).is_some()
}

fn answer(event: &Event, wrong: Option<String>) -> Result<(), SinkError> {
    match wrong {
        None => Ok(()),
        Some(wrong) => Err(invalid(event, &format!("for events.k8s.io/v1 {wrong}"))),
    }
}

fn wrong_name(event: &Event) -> Option<String> {
    let metadata = &event.metadata;
    let is_valid = |text: &str| text.len() <= MAX_NAME && is_subdomain(text);
    // An API server also checks the `generateName` if the event already has a name. Because the
    // server appends letters and digits to the `generateName`, the `generateName` may end with a
    // dash. Otherwise, the rules are the same as for a name.
    let (name, beginning) = (metadata.name.as_str(), metadata.generate_name().as_str());
    let wrong = [(name, name), (beginning, beginning.trim_end_matches('-'))];
    let wrong = wrong.into_iter().find(|(given, name)| !given.is_empty() && !is_valid(name));
    if let Some((name, _)) = wrong {
        return Some(format!("the name must be a DNS subdomain, got \"{:.SHOWN$}\"", escape(name)));
    }
    let namespace = namespace_of(event);
    if !is_valid(namespace) {
        let namespace = escape(namespace);
        return Some(format!("the namespace must be a DNS subdomain, got \"{namespace:.SHOWN$}\""));
    }
    None
}

/// Returns a description of the first problem with the labels or annotations, if any. An API server
/// also checks labels and annotations for core/v1.
fn wrong_labels(metadata: &ObjectMeta) -> Option<String> {
    let is_value = |value: &str| value.is_empty() || is_name_part(value);
    if let Some((key, _)) =
        metadata.labels().iter().find(|(key, value)| !is_qualified(key) || !is_value(value))
    {
        let key = escape(key);
        return Some(format!(
            "a label must be a qualified name with a value like one, got \"{key:.SHOWN$}\""
        ));
    }
    wrong_annotations(metadata)
}

fn wrong_annotations(metadata: &ObjectMeta) -> Option<String> {
    // An API server converts the keys to lower case before it validates them.
    let mut keys = metadata.annotations().keys();
    if let Some(key) = keys.find(|key| !is_qualified(&key.to_ascii_lowercase())) {
        let key = escape(key);
        return Some(format!("an annotation's key must be a qualified name, got \"{key:.SHOWN$}\""));
    }
    let size: usize = metadata.annotations().iter().map(|(key, value)| key.len() + value.len()).sum();
    (size > MAX_ANNOTATIONS)
        .then(|| format!("the annotations must be at most {MAX_ANNOTATIONS} bytes, got {size}"))
}

fn wrong_series(series: EventSeries) -> Option<String> {
    if series.count < 2 {
        return Some(format!("the count of the series must be at least 2, got {}", series.count));
    }
    let is_unset = set(series.last_observed_time).is_none();
    is_unset.then(|| "the last observed time of the series must be set".to_owned())
}

fn wrong_type(event: &Event) -> Option<String> {
    let type_ = escape(&event.type_);
    event
        .event_type()
        .is_none()
        .then(|| format!("the type must be Normal or Warning, got \"{type_:.SHOWN$}\""))
}

/// Returns a description of the first field that is set although it is allowed only in core/v1
/// events.
fn set_but_gone(event: &Event) -> Option<String> {
    let fields = [
        ("source", event.source != EventSource::default()),
        ("first time", set(event.first_timestamp).is_some()),
        ("last time", set(event.last_timestamp).is_some()),
        ("count", event.count != 0),
    ];
    let (field, _) = fields.into_iter().find(|(_, is_set)| *is_set)?;
    Some(format!("the {field} must be unset"))
}

/// Returns the first field that differs between the events although an update must not change it.
fn changed_field(old: &Event, new: &Event) -> Option<&'static str> {
    let fields = [
        ("involved object", old.involved_object != new.involved_object),
        ("reason", old.reason != new.reason),
        ("message", old.message != new.message),
        ("source", old.source != new.source),
        ("first time", old.first_timestamp != new.first_timestamp),
        ("last time", old.last_timestamp != new.last_timestamp),
        ("count", old.count != new.count),
        ("type", old.type_ != new.type_),
        ("event time", old.event_time() != new.event_time()),
        ("action", old.action() != new.action()),
        ("related object", old.related() != new.related()),
        ("reporting controller", old.reporting_controller != new.reporting_controller),
        ("reporting instance", old.reporting_instance != new.reporting_instance),
    ];
    fields.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field)
}
