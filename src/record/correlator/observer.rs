//! The second stage: the same event again is a higher count, not another event.

use crate::record::event::{Event, Text, Timestamp};

/// What is known of an event that has been seen, as it should be in the store.
pub(super) struct Seen {
    count: i32,
    first: Option<Timestamp>,
    name: Text,
    resource_version: Text,
}

/// What a repeat has from the event that is stored.
pub(super) struct Stored {
    count: i32,
    first: Option<Timestamp>,
    name: Text,
    resource_version: Text,
}

impl Seen {
    /// Nobody's count is zero: an event that came with one is taken for new again.
    pub(super) fn nothing() -> Self {
        Self { count: 0, first: None, name: Text::EMPTY, resource_version: Text::EMPTY }
    }

    /// Counts one more, if it has been seen before.
    pub(super) fn count(&mut self) -> bool {
        let is_repeat = self.count > 0;
        if is_repeat {
            self.count = self.count.saturating_add(1);
        }
        is_repeat
    }

    /// What the repeat that has just been counted is to be stored as.
    pub(super) fn stored(&self) -> Stored {
        Stored {
            count: self.count,
            first: self.first,
            name: self.name.clone(),
            resource_version: self.resource_version.clone(),
        }
    }

    /// Takes an event for stored.
    pub(super) fn store(&mut self, event: &Event) {
        self.count = event.count;
        self.first = event.first_timestamp;
        self.name = event.metadata.name.clone();
        self.resource_version = event.metadata.resource_version().clone();
    }

    /// Takes a first event of the correlator's own making for stored.
    pub(super) fn store_own(&mut self, name: Text, now: Timestamp) {
        *self = Self { count: 1, first: Some(now), name, resource_version: Text::EMPTY };
    }

    pub(super) fn name(&self) -> &Text {
        &self.name
    }

    /// Learns what the store made of an event.
    pub(super) fn confirm(&mut self, stored: &Event, keeps_name: bool) {
        let before = self.count;
        // client-go never hears of the name under which an event that stands for a group was stored.
        let name = (keeps_name && before > 0).then(|| self.name.clone());
        self.store(stored);
        // An answer may come after the next occurrence has been counted: a count never goes back.
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
