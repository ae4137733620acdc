//! The second stage of a correlator, which counts an event that comes again instead of storing
//! another one.

use crate::record::event::{Event, Text, Timestamp};

/// The known state of an event that has been seen, as it should be in the store.
pub(super) struct Seen {
    count: i32,
    first: Option<Timestamp>,
    name: Text,
    resource_version: Text,
}

/// The fields that a repeat takes over from the stored event.
pub(super) struct Stored {
    count: i32,
    first: Option<Timestamp>,
    name: Text,
    resource_version: Text,
}

impl Seen {
    /// Returns the state of an event that has not been seen, which has a count of zero. An event
    /// that came with a count of zero or less therefore counts as new again.
    pub(super) fn nothing() -> Self {
        Self { count: 0, first: None, name: Text::EMPTY, resource_version: Text::EMPTY }
    }

    /// Counts one more occurrence if the event has been seen before. Returns whether it has.
    pub(super) fn count(&mut self) -> bool {
        let is_repeat = self.count > 0;
        if is_repeat {
            self.count = self.count.saturating_add(1);
        }
        is_repeat
    }

    /// Returns the fields for the repeat that has just been counted.
    pub(super) fn stored(&self) -> Stored {
        Stored {
            count: self.count,
            first: self.first,
            name: self.name.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    /// Remembers an event as stored.
    pub(super) fn store(&mut self, event: &Event) {
        self.count = event.count;
        self.first = event.first_timestamp;
        self.name = event.metadata.name.clone();
        self.resource_version = event.metadata.resource_version().clone();
    }

    /// Remembers the first occurrence of an event that the correlator made itself as stored.
    pub(super) fn store_own(&mut self, name: Text, now: Timestamp) {
        *self = Self { count: 1, first: Some(now), name, resource_version: Text::EMPTY };
    }

    pub(super) fn name(&self) -> &Text {
        &self.name
    }

    /// Remembers what the store made of an event. If `keeps_name`, an event that has been seen
    /// keeps its name.
    pub(super) fn confirm(&mut self, stored: &Event, keeps_name: bool) {
        let before = self.count;
        // client-go never learns the name under which an event that stands for a group was stored.
        let name = (keeps_name && before > 0).then(|| self.name.clone());
        self.store(stored);
        // An answer may come after the next occurrence has been counted, and a count never
        // decreases.
        self.count = before.max(stored.count);
        if let Some(name) = name {
            self.name = name;
        }
    }
}

impl Stored {
    pub(super) fn carry_over_to(self, event: &mut Event) {
        event.count = self.count;
        event.first_timestamp = self.first;
        event.metadata.name = self.name;
        event.metadata.set_resource_version(self.resource_version);
    }
}
