//! Validates options, and defines the limits of their values.

use std::fmt;

use crate::error::BuildError;
use crate::escape::escape;

/// The maximum length of a queue, in events or entries.
pub(super) const MAX_QUEUE: usize = 1 << 24;
/// The maximum length of a batch, in events.
pub(super) const MAX_BATCH: usize = 1 << 16;
/// The maximum size of an incoming queue, in bytes (4 GiB).
const MAX_INCOMING: u64 = 1 << 32;

/// Checks that the system has memory for an incoming queue with this many entries, because the
/// queue allocates all its memory up front.
pub(crate) fn check_incoming<E>(entries: usize) -> Result<(), BuildError> {
    // The queue stores a stamp with each entry.
    let size = size_of::<(usize, E)>();
    let most = MAX_INCOMING / size as u64;
    let refuse = |allowed: fmt::Arguments<'_>| Err(BuildError::new("incoming_capacity", entries, allowed));
    if entries as u64 > most {
        return refuse(format_args!(
            "up to {most} entries of {size} bytes, which the queue allocates up front"
        ));
    }
    // The memory is allocated and freed again here, because a failed allocation in the queue itself
    // would abort the process.
    let mut room: Vec<(usize, E)> = Vec::new();
    let granted = room.try_reserve_exact(entries);
    std::hint::black_box(&mut room);
    if granted.is_err() {
        return refuse(format_args!("small enough to fit into memory with {size} bytes for each entry"));
    }
    Ok(())
}

pub(crate) fn check_queue_capacity(events: usize) -> Result<(), BuildError> {
    check_limit("queue_capacity", events, MAX_QUEUE, "events")
}

/// Checks that a name does not contain a NUL character. The name is used as a thread name, which
/// the system truncates at the first NUL.
pub(crate) fn check_name(option: &'static str, name: &str) -> Result<(), BuildError> {
    if name.contains('\0') {
        return Err(BuildError::new(option, escape(name), "a name without NUL"));
    }
    Ok(())
}

pub(super) fn check_limit(
    option: &'static str,
    value: usize,
    max: usize,
    unit: &str,
) -> Result<(), BuildError> {
    if value == 0 || value > max {
        return Err(BuildError::new(option, value, format_args!("1 to {max} {unit}")));
    }
    Ok(())
}

pub(super) fn check_history(events: usize) -> Result<(), BuildError> {
    if events > MAX_QUEUE {
        return Err(BuildError::new("history", events, format_args!("0 to {MAX_QUEUE} events")));
    }
    Ok(())
}
