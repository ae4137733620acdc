//! The rules by which an API server accepts an event, and the form in which it keeps an event. All
//! stores of this crate follow them.

use std::time::Duration;

use crate::error::BuildError;
use crate::escape::{escape, escape_to};
use crate::record::event::timed::{self, MAX_TIMED_MESSAGE, MAX_TIMED_TEXT, is_qualified};
use crate::record::event::{Event, EventSeries, ObjectMeta, Text, Timestamp, name};

use super::SinkError;

/// Returns the words by which an error names an event, for example a missing or an invalid one.
pub(super) fn described(namespace: &str, name: &str) -> String {
    format!("events \"{}\" in namespace {}", escape(name), escape(namespace))
}

/// Returns the namespace in which the event is, or would be, stored.
pub(super) fn namespace_of(event: &Event) -> &str {
    match event.metadata.namespace.as_str() {
        "" => home(event),
        namespace => namespace,
    }
}

/// Returns the namespace of the event's object, or `default` if the object has none. client-go and
/// the API server choose it in the same way.
fn home(event: &Event) -> &str {
    match event.involved_object.namespace.as_str() {
        "" => "default",
        namespace => namespace,
    }
}

/// Returns `Ok` if the event can be stored, or an error that says why it cannot. If `can_be_named`
/// is true, a `generateName` is enough in place of a name.
pub(super) fn check(event: &Event, can_be_named: bool) -> Result<(), SinkError> {
    let name = event.metadata.name.as_str();
    let is_timed = set(event.event_time()).is_some();
    let wrong = if name.is_empty() {
        match event.metadata.generate_name().as_str() {
            beginning if !can_be_named || beginning.is_empty() => Some("a name is required"),
            beginning if beginning.contains('/') => Some("the name cannot be used in a URL path"),
            _ => None,
        }
    } else {
        (name.contains('/') || [".", ".."].contains(&name)).then_some("the name cannot be used in a URL path")
    };
    let wrong = wrong.or_else(|| {
        is_elsewhere(event, is_timed).then_some("the object is in another namespace than the event")
    });
    let wrong = wrong.map(str::to_owned);
    match wrong.or_else(|| if is_timed { wrong_if_timed(event) } else { None }) {
        None => Ok(()),
        Some(wrong) => Err(invalid(event, &wrong)),
    }
}

/// Returns the error of an event that breaks a rule.
pub(super) fn invalid(event: &Event, wrong: &str) -> SinkError {
    let event = described(namespace_of(event), &event.metadata.name);
    SinkError::rejected(format!("{event} is invalid: {wrong}"))
}

/// Returns whether the event is in a namespace in which an API server refuses it.
///
/// - If the object has no namespace: the event must be in `default`. With an event time it may also
///   be in `kube-system`.
/// - If the object has a namespace: the event must be in the same one. With an event time it may be
///   in any.
fn is_elsewhere(event: &Event, is_timed: bool) -> bool {
    let namespace = namespace_of(event);
    match event.involved_object.namespace.as_str() {
        "" => namespace != "default" && !(is_timed && namespace == "kube-system"),
        object => !is_timed && namespace != object,
    }
}

fn wrong_if_timed(event: &Event) -> Option<String> {
    let controller = event.reporting_controller.as_str();
    if !is_qualified(controller) {
        let controller = escape_to(controller, 100);
        return Some(format!(
            "with an event time the reporting controller must be a qualified name, got \"{controller}\""
        ));
    }
    let bounds = [
        ("reporting instance", &event.reporting_instance, 1, MAX_TIMED_TEXT),
        ("action", event.action(), 1, MAX_TIMED_TEXT),
        ("reason", &event.reason, 1, MAX_TIMED_TEXT),
        ("message", &event.message, 0, MAX_TIMED_MESSAGE),
    ];
    let wrong = bounds.into_iter().find(|(_, text, min, max)| !(*min..=*max).contains(&text.len()));
    wrong.map(|(what, text, min, max)| {
        format!("with an event time the {what} must be {min} to {max} bytes, got {}", text.len())
    })
}

/// Gives an event that [`check`] has let through the form in which a store keeps it.
pub(super) fn admit(event: &mut Event) {
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
    if let Some(series) = event.series() {
        event.set_series(whole_series(series));
    }
}

/// Returns a series in the form in which a store keeps it.
pub(super) fn whole_series(mut series: EventSeries) -> EventSeries {
    series.last_observed_time = series.last_observed_time.and_then(whole_micros);
    series
}

/// Returns the time, or `None` if JSON writes the time as `null`. For an API server too, such a
/// time is not set.
pub(super) fn set(at: Option<Timestamp>) -> Option<Timestamp> {
    at.filter(|at| *at != Timestamp::GO_ZERO)
}

/// Returns the time as Kubernetes keeps it in most fields: in whole seconds.
pub(super) fn whole_seconds(at: Option<Timestamp>) -> Option<Timestamp> {
    set(at.map(Timestamp::whole_seconds))
}

fn whole_micros(at: Timestamp) -> Option<Timestamp> {
    set(timed::whole_micros(at))
}

/// The largest `max_events` that a store accepts.
const MAX_EVENTS: usize = 1 << 24;

/// Checks the options of a store: `max_events` must be 1 to `MAX_EVENTS`, and `ttl` more than zero.
pub(super) fn check_bounds(max_events: usize, ttl: Duration) -> Result<(), BuildError> {
    if !(1..=MAX_EVENTS).contains(&max_events) {
        return Err(BuildError::new("max_events", max_events, format_args!("1 to {MAX_EVENTS} events")));
    }
    if ttl.is_zero() {
        return Err(BuildError::new("ttl", "0s", "more than zero"));
    }
    Ok(())
}

/// Returns a number for a store that is created now: the nanoseconds between 1970 and `now`.
pub(super) fn birth(now: Timestamp) -> u64 {
    now.unix_nanoseconds().unsigned_abs() as u64
}

/// Returns the beginning of all uids of a store: `created_at`, the number of the store, in the form
/// of a random UUID.
pub(super) fn beginning_of_uids(created_at: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-",
        created_at >> 32,
        (created_at >> 16) & 0xFFFF,
        (created_at >> 4) & 0xFFF,
        created_at & 0xF
    )
}

/// Returns the uid of the `number`th event that a store has created. The uid is unique, and in a
/// test with a fake clock it is the same in every run.
pub(super) fn uid(beginning: &str, number: u64) -> Text {
    let mut digits = [0; 12];
    name::write_hex(number, &mut digits);
    match std::str::from_utf8(&digits) {
        Ok(digits) if number >> 48 == 0 => Text::joined(beginning, digits),
        _ => Text::joined(beginning, &format!("{number:012x}")),
    }
}

/// Completes `generateName`. Returns `beginning` followed by a number: the first one above
/// `version` with which the name is not taken. `version` is the number of the store's last write.
pub(super) fn free_name<E>(
    beginning: &str,
    version: u64,
    mut is_taken: impl FnMut(&str) -> Result<bool, E>,
) -> Result<Text, E> {
    let mut number = version;
    loop {
        number += 1;
        let name = Text::from(format_args!("{beginning}{number:05x}"));
        if !is_taken(&name)? {
            return Ok(name);
        }
    }
}

/// Refuses an update that is based on another version of the event than the stored one. Otherwise
/// copies into `new` what an update does not change: uid, creation time and resource version.
pub(super) fn take_over(new: &mut ObjectMeta, old: &Event) -> Result<(), SinkError> {
    let (given, version) = (new.resource_version(), old.metadata.resource_version());
    if !given.is_empty() && given != version {
        let name = described(&new.namespace, &new.name);
        let cause = format!("{name} has been changed since version {}", escape(given));
        return Err(SinkError::rejected(cause));
    }
    new.set_uid(old.metadata.uid());
    new.set_creation_timestamp(old.metadata.creation_timestamp());
    new.set_resource_version(version);
    Ok(())
}
