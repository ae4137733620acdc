//! What every store of our own decides about an event: the bounds of its options, names, uids, and who may update.

use std::time::Duration;

use crate::error::BuildError;
use crate::escape::escaped;
use crate::event::{Event, ObjectMeta, Text, Timestamp};

use super::SinkError;
use super::admission::described;

/// The most events that a store can be asked to hold.
const MAX_EVENTS: usize = 1 << 24;

/// What the options of a store allow.
pub(super) fn check_bounds(max_events: usize, ttl: Duration) -> Result<(), BuildError> {
    if !(1..=MAX_EVENTS).contains(&max_events) {
        return Err(BuildError::new("max_events", max_events, format_args!("1 to {MAX_EVENTS} events")));
    }
    if ttl.is_zero() {
        return Err(BuildError::new("ttl", "0s", "more than zero"));
    }
    Ok(())
}

/// A number for a store that begins now.
pub(super) fn birth(now: Timestamp) -> u64 {
    now.unix_nanoseconds().unsigned_abs() as u64
}

/// What all uids of a store begin with: its birth, in the form of a random UUID.
pub(super) fn beginning_of_uids(born: u64) -> String {
    format!(
        "{:08x}-{:04x}-4{:03x}-8{:03x}-",
        born >> 32,
        (born >> 16) & 0xFFFF,
        (born >> 4) & 0xFFF,
        born & 0xF
    )
}

/// The uid of the event that a store created as its `number`th: unique, and the same in every run of a test with a clock of
/// its own.
pub(super) fn uid(beginning: &str, number: u64) -> Text {
    Text::joined(beginning, &format!("{number:012x}"))
}

/// Completes `generateName`, by the first number after the store's version that makes a name of its own.
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

/// Refuses an update that is based on an older version of the event, and gives it what stays as the store has it.
pub(super) fn take_over(new: &mut ObjectMeta, old: &Event) -> Result<(), SinkError> {
    let (given, version) = (new.resource_version(), old.metadata.resource_version());
    if !given.is_empty() && given != version {
        let name = described(&new.namespace, &new.name);
        let cause = format!("{name} has been changed since version {}", escaped(given));
        return Err(SinkError::rejected(cause));
    }
    new.set_uid(old.metadata.uid());
    new.set_creation_timestamp(old.metadata.creation_timestamp());
    new.set_resource_version(version);
    Ok(())
}
