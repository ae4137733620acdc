//! A correlator's second stage, which counts repeats of an event instead of storing them
//! separately.

use super::key::Key;
use crate::record::event::{Event, Stored};
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

/// The result of the second stage.
#[allow(clippy::struct_excessive_bools, reason = "they are independent of each other")]
pub(super) struct Observed {
    pub(super) is_folded: bool,
    pub(super) is_repeat: bool,
    /// Whether an earlier occurrence has passed the spam filter.
    pub(super) is_known: bool,
    /// Whether the entry records that this occurrence or an earlier occurrence has passed.
    pub(super) is_noted: bool,
    /// The event's entry. `None` if the event is not to be written.
    pub(super) entry: Option<ObservedEntry>,
}

/// The entry under which an event is counted.
pub(super) struct ObservedEntry {
    pub(super) key: Arc<Key>,
    /// The fields that the event to be stored inherits from the entry. `None` if the entry was
    /// created from the event itself.
    pub(super) stored: Option<Stored>,
}

impl ObservedEntry {
    /// Copies the entry's name, version, first timestamp and count to the event to be stored.
    /// Returns the key.
    pub(super) fn carry_over_to(self, event: &mut Event) -> Arc<Key> {
        if let Some(Stored { name, resource_version, count, first_timestamp }) = self.stored {
            event.count = count;
            event.first_timestamp = first_timestamp;
            event.metadata.name = name;
            event.metadata.set_resource_version(resource_version);
        }
        self.key
    }
}
