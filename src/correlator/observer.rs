//! The second stage: the same event again is a higher count, not another event.

use super::key::{AnyKey, Key, Kind};
use super::lru::LruCache;
use crate::event::{Event, Text, Timestamp};

pub(super) struct Observer {
    seen: LruCache<Seen>,
}

/// What is known of an event that has been seen, as it should be in the store.
#[derive(Clone)]
struct Seen {
    count: i32,
    first: Option<Timestamp>,
    name: Text,
    resource_version: Text,
}

impl Observer {
    pub(super) fn new(entries: usize) -> Self {
        Self { seen: LruCache::new(entries) }
    }

    /// Counts an event, and says whether it has been seen before. Then it becomes the stored event, counted up, with its
    /// own message and last time; else it gets the name, if there is one for it.
    pub(super) fn observe(
        &self,
        key: &dyn AnyKey,
        event: &mut Event,
        name: impl FnOnce() -> Option<Text>,
    ) -> (Key, bool) {
        self.seen.with(key, Seen::nothing, |key, seen| {
            let is_repeat = seen.count > 0;
            if is_repeat {
                seen.count = seen.count.saturating_add(1);
                seen.carry_over_to(event);
            } else {
                if let Some(name) = name() {
                    event.metadata.name = name;
                }
                seen.store(event);
            }
            (key.clone(), is_repeat)
        })
    }

    /// Learns what the store made of an event.
    pub(super) fn confirm(&self, key: &Key, stored: &Event) {
        self.seen.with(key, Seen::nothing, |key, seen| {
            let before = seen.clone();
            seen.store(stored);
            // An answer may come after the next occurrence has been counted: a count never goes back.
            seen.count = before.count.max(stored.count);
            // client-go never hears of the name under which an event that stands for a group was stored.
            if key.kind() != Kind::Event && before.count > 0 {
                seen.name = before.name;
            }
        });
    }

    pub(super) fn evicted(&self) -> u64 {
        self.seen.evicted()
    }
}

impl Seen {
    /// Nobody's count is zero: an event that came with one is taken for new again.
    fn nothing() -> Self {
        Self { count: 0, first: None, name: Text::EMPTY, resource_version: Text::EMPTY }
    }

    fn store(&mut self, event: &Event) {
        self.count = event.count;
        self.first = event.first_timestamp;
        self.name = event.metadata.name.clone();
        self.resource_version = event.metadata.resource_version().clone();
    }

    fn carry_over_to(&self, event: &mut Event) {
        event.count = self.count;
        event.first_timestamp = self.first;
        event.metadata.name = self.name.clone();
        event.metadata.set_resource_version(self.resource_version.clone());
    }
}
