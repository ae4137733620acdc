//! What every store of the library does to an event, because an API server does it: what it refuses, what it cuts, which
//! namespace, name and uid it gives, and what a patch and an update change.

use crate::error::BuildError;
use crate::escape::escaped;
use crate::event::{Event, Text, Timestamp};

use super::SinkError;
use super::query::namespace_of;

/// The most events that a store can be asked to hold.
const MAX_EVENTS: usize = 1 << 24;
/// The API server's limit for events that have an event time.
const MAX_TIMED_MESSAGE: usize = 1024;

/// What the options of a store allow.
pub(super) fn check_bounds(max_events: usize, ttl: std::time::Duration) -> Result<(), BuildError> {
    if !(1..=MAX_EVENTS).contains(&max_events) {
        let allowed = format_args!("1 to {MAX_EVENTS} events");
        return Err(BuildError::new("max_events", max_events, allowed));
    }
    if ttl.is_zero() {
        return Err(BuildError::new("ttl", "0s", "more than zero"));
    }
    Ok(())
}

/// The event as it can be stored, or why it cannot.
pub(super) fn admitted(event: &Event, can_be_named: bool) -> Result<Event, SinkError> {
    let mut event = event.clone();
    if event.metadata.namespace.is_empty() {
        event.metadata.namespace = home(&event);
    }
    // A time that JSON writes as none is none, so that what is stored is what was answered.
    let is_time = |at: &Timestamp| *at != Timestamp::GO_ZERO;
    event.first_timestamp = event.first_timestamp.filter(is_time).map(Timestamp::whole_seconds);
    event.last_timestamp = event.last_timestamp.filter(is_time).map(Timestamp::whole_seconds);
    event.set_event_time(event.event_time().filter(is_time).map(whole_micros));
    if let Some(mut series) = event.series() {
        series.last_observed_time = series.last_observed_time.filter(is_time).map(whole_micros);
        event.set_series(series);
    }
    match fault(&event, can_be_named) {
        None => Ok(event),
        Some(fault) => Err(SinkError::rejected(format!("{} is invalid: {fault}", described(&event)))),
    }
}

fn fault(event: &Event, can_be_named: bool) -> Option<&'static str> {
    let (name, beginning) = (&event.metadata.name, event.metadata.generate_name());
    if name.is_empty() && (!can_be_named || beginning.is_empty()) {
        return Some("a name is required");
    }
    if name.contains('/')
        || [".", ".."].contains(&name.as_str())
        || name.is_empty() && beginning.contains('/')
    {
        return Some("the name is no part of a path");
    }
    if event.metadata.namespace != home(event) {
        return Some("the object is in another namespace than the event");
    }
    if event.event_time().is_some() {
        if event.reporting_controller.is_empty()
            || event.reporting_instance.is_empty()
            || event.action().is_empty()
        {
            return Some("an event time requires reporting controller, reporting instance and action");
        }
        if event.message.len() > MAX_TIMED_MESSAGE {
            return Some("with an event time a message has at most 1024 bytes");
        }
    }
    None
}

/// Where an event belongs: to its object, or, as client-go and the API server have it, into `default`.
fn home(event: &Event) -> Text {
    let namespace = &event.involved_object.namespace;
    if namespace.is_empty() { Text::from_static("default") } else { namespace.clone() }
}

fn whole_micros(at: Timestamp) -> Timestamp {
    let nanos = at.subsec_nanoseconds();
    Timestamp::new(at.seconds(), nanos - nanos % 1000).unwrap_or(at)
}

/// An event in an answer to it.
pub(super) fn described(event: &Event) -> String {
    format!("events \"{}\" in namespace {}", escaped(&event.metadata.name), escaped(namespace_of(event)))
}

/// A number for a store that begins now, a part of the uids that it gives.
pub(super) fn birth(now: Timestamp) -> u64 {
    now.unix_nanoseconds().unsigned_abs() as u64
}

/// The uid of the event that a store created as its `number`th. In the form of a random UUID, made of the store's beginning and
/// the number: unique, and the same in every run of a test with a clock of its own.
pub(super) fn uid(born: u64, number: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-{number:012x}",
        born >> 32,
        (born >> 16) & 0xFFFF,
        (born >> 4) & 0xFFF,
        born & 0xF
    )
}

/// Completes `generateName`, by the first number after the store's version that makes a name of its own.
pub(super) fn free_name<E>(
    event: &Event,
    version: u64,
    mut is_taken: impl FnMut(&Text) -> Result<bool, E>,
) -> Result<Text, E> {
    let prefix = event.metadata.generate_name();
    let mut number = version;
    loop {
        number += 1;
        let name = Text::from(format_args!("{prefix}{number:05x}"));
        if !is_taken(&name)? {
            return Ok(name);
        }
    }
}

/// Refuses the update of an event that was read before its last write.
pub(super) fn check_version(event: &Event, version: u64) -> Result<(), SinkError> {
    let given = event.metadata.resource_version();
    if given.is_empty() || *given == *version.to_string() {
        return Ok(());
    }
    let cause = format!("{} has been changed since version {}", described(event), escaped(given));
    Err(SinkError::rejected(cause))
}

/// What an update makes of a stored event: what the store decides stays.
pub(super) fn replaced(old: &Event, mut new: Event) -> Event {
    new.metadata.set_uid(old.metadata.uid());
    new.metadata.set_creation_timestamp(old.metadata.creation_timestamp());
    new.metadata.set_resource_version(old.metadata.resource_version());
    new
}

/// What a patch makes of a stored event. What a patch leaves out, see `EventPatch::new`, stays as it was.
pub(super) fn patched(old: &Event, event: Event) -> Event {
    let mut new = old.clone();
    if event.count != 0 {
        new.count = event.count;
    }
    if event.last_timestamp != Some(Timestamp::UNIX_EPOCH) {
        new.last_timestamp = event.last_timestamp;
    }
    if !event.message.is_empty() {
        new.message = event.message;
    }
    new
}
