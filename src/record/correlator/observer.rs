//! A correlator's second stage, which counts repeats of an event instead of storing them
//! separately.

use super::key::Key;
use crate::record::event::{Event, Stored, Timestamp};
use crate::sync::Arc;

/// The known state of an event that has been seen, which is the state that the store should have.
///
/// The default is the state of an event that has not been seen, with a count of zero. An event that
/// arrived with a count of zero or less therefore counts as new when it is seen again.
#[derive(Default)]
pub(super) struct Seen {
    pub(super) stored: Stored,
    /// Whether an occurrence has passed the spam filter, which means that the store has the event
    /// or is due to receive it.
    pub(super) has_passed: bool,
}

impl Seen {
    /// Counts one more occurrence if the event has been seen before, and otherwise stores the
    /// result of `first`. `passes` is true if the occurrence is known to pass the spam filter.
    /// Returns whether the event has been seen before, and whether an earlier occurrence has passed
    /// the spam filter.
    pub(super) fn observe(&mut self, passes: bool, first: impl FnOnce() -> Stored) -> (bool, bool) {
        let (is_repeat, is_known) = (self.stored.count > 0, self.has_passed);
        if is_repeat {
            self.stored.count = self.stored.count.saturating_add(1);
        } else {
            self.stored = first();
        }
        self.has_passed |= passes;
        (is_repeat, is_known)
    }

    /// Records the store's response for an event. If `keeps_name` is true, an event that has been
    /// seen keeps its name.
    pub(super) fn confirm(&mut self, stored: &Stored, keeps_name: bool) {
        let before = self.stored.count;
        // An aggregate event keeps its name, as in client-go, which never learns the name under
        // which such an event was stored.
        let name = if keeps_name && before > 0 { &self.stored.name } else { &stored.name }.clone();
        // A response may arrive after the next occurrence has been counted, but a count must never
        // decrease.
        self.has_passed = true;
        self.stored = Stored {
            name,
            resource_version: stored.resource_version.clone(),
            count: before.max(stored.count),
            first_timestamp: stored.first_timestamp,
        };
    }
}

/// The result of the stages before the event is changed.
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(crate) struct Observation {
    pub(super) now: Timestamp,
    /// Whether the event passes the spam filter, as far as known.
    pub(super) passes: bool,
    /// Whether repeats of events that have passed the spam filter are held instead of skipped.
    holds: bool,
    pub(super) is_folded: bool,
    pub(super) is_repeat: bool,
    /// Whether an earlier occurrence has passed the spam filter.
    is_known: bool,
    /// Whether the entry records that this occurrence or an earlier occurrence has passed.
    pub(super) is_noted: bool,
    /// The key of the event's entry. `None` if the event is not to be written.
    key: Option<Arc<Key>>,
    /// The fields that the event to be stored inherits from the entry, unless the entry was created
    /// from the event itself.
    state: Stored,
}

impl Observation {
    pub(super) fn new(now: Timestamp, holds: bool) -> Self {
        let (passes, is_folded, is_repeat, is_known, is_noted) = (true, false, false, false, false);
        let (key, state) = (None, Stored::default());
        Self { now, passes, holds, is_folded, is_repeat, is_known, is_noted, key, state }
    }

    /// Returns whether the event is to be held if it does not pass the spam filter.
    pub(super) fn is_held(&self) -> bool {
        self.holds && self.is_repeat && self.is_known
    }

    /// Returns whether the event may have to be written.
    pub(super) fn is_wanted(&self) -> bool {
        self.passes || self.is_held()
    }

    /// Notes what the second stage has found. An event that is already known to be skipped is only
    /// counted.
    pub(super) fn note(&mut self, key: &Arc<Key>, seen: &Seen, (is_repeat, is_known): (bool, bool)) {
        (self.is_repeat, self.is_known, self.is_noted) = (is_repeat, is_known, seen.has_passed);
        if self.is_wanted() {
            self.key = Some(key.clone());
            if is_repeat || self.is_folded {
                self.state.clone_from(&seen.stored);
            }
        }
    }

    /// Moves the entry's name, version, first timestamp and count to the event to be stored.
    /// Returns the key, or `None` if the event is not wanted.
    pub(super) fn carry_over_to(self, event: &mut Event) -> Option<Arc<Key>> {
        if self.is_repeat || self.is_folded {
            let Stored { name, resource_version, count, first_timestamp } = self.state;
            event.count = count;
            event.first_timestamp = first_timestamp;
            event.metadata.name = name;
            event.metadata.set_resource_version(resource_version);
        }
        self.key
    }
}
