//! What an API server accepts as an event, and in which form it keeps it: the same for every store of our own.

use crate::escape::escaped;
use crate::event::{Event, Text, Timestamp};

use super::SinkError;

/// The API server's limit for events that have an event time.
const MAX_TIMED_MESSAGE: usize = 1024;

/// What is said of a name that is missing, taken or wrong.
pub(super) fn described(namespace: &str, name: &str) -> String {
    format!("events \"{}\" in namespace {}", escaped(name), escaped(namespace))
}

/// Where an event is, or would be stored.
pub(super) fn namespace_of(event: &Event) -> &str {
    match event.metadata.namespace.as_str() {
        "" => home(event),
        namespace => namespace,
    }
}

/// Where an event belongs: to its object, or, as client-go and the API server have it, into `default`.
fn home(event: &Event) -> &str {
    match event.involved_object.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// Whether the event can be stored, or why it cannot. `can_be_named`: a beginning of a name is enough.
pub(super) fn check(event: &Event, can_be_named: bool) -> Result<(), SinkError> {
    let name = event.metadata.name.as_str();
    let wrong = if name.is_empty() {
        match event.metadata.generate_name().as_str() {
            beginning if !can_be_named || beginning.is_empty() => Some("a name is required"),
            beginning if beginning.contains('/') => Some("the name is no part of a path"),
            _ => None,
        }
    } else {
        (name.contains('/') || [".", ".."].contains(&name)).then_some("the name is no part of a path")
    };
    let wrong = wrong.or_else(|| {
        let is_elsewhere = namespace_of(event) != home(event);
        is_elsewhere.then_some("the object is in another namespace than the event")
    });
    match wrong.or_else(|| set(event.event_time()).and_then(|_| wrong_if_timed(event))) {
        None => Ok(()),
        Some(wrong) => {
            let event = described(namespace_of(event), name);
            Err(SinkError::rejected(format!("{event} is invalid: {wrong}")))
        }
    }
}

fn wrong_if_timed(event: &Event) -> Option<&'static str> {
    let required = [&event.reporting_controller, &event.reporting_instance, event.action()];
    if required.into_iter().any(|text| text.is_empty()) {
        return Some("an event time requires reporting controller, reporting instance and action");
    }
    (event.message.len() > MAX_TIMED_MESSAGE).then_some("with an event time a message has at most 1024 bytes")
}

/// The event as it is kept, or why it cannot be.
pub(super) fn admitted(event: &Event, can_be_named: bool) -> Result<Event, SinkError> {
    check(event, can_be_named)?;
    let mut event = event.clone();
    if event.metadata.namespace.is_empty() {
        event.metadata.namespace = match &event.involved_object.namespace {
            none if none.is_empty() => Text::from_static("default"),
            namespace => namespace.clone(),
        };
    }
    event.first_timestamp = whole_seconds(event.first_timestamp);
    event.last_timestamp = whole_seconds(event.last_timestamp);
    if let Some(at) = event.event_time() {
        event.set_event_time(whole_micros(at));
    }
    if let Some(mut series) = event.series() {
        series.last_observed_time = series.last_observed_time.and_then(whole_micros);
        event.set_series(series);
    }
    Ok(event)
}

/// A time that JSON writes as none is none, as it is for an API server.
fn set(at: Option<Timestamp>) -> Option<Timestamp> {
    at.filter(|at| *at != Timestamp::GO_ZERO)
}

/// A time as Kubernetes keeps it in most fields.
pub(super) fn whole_seconds(at: Option<Timestamp>) -> Option<Timestamp> {
    set(at.map(Timestamp::whole_seconds))
}

fn whole_micros(at: Timestamp) -> Option<Timestamp> {
    let nanos = at.subsec_nanoseconds();
    set(Timestamp::new(at.seconds(), nanos - nanos % 1000))
}
