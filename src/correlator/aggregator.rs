//! The first stage: many similar events become one.
//!
//! Similar events are equal but for their messages. For each group of them the messages seen are kept, up to one less
//! than `max_events`; a message beyond those is folded into one event that stands for the group. A message that is kept
//! stays an event of its own, however often it comes. The group is forgotten when nothing similar has come for longer
//! than `max_interval`.
//!
//! client-go removes a message at random once there are `max_events` of them; here it is always the one that has just
//! come, so the first ones stay and the outcome is the same every time.

use std::collections::HashSet;
use std::time::Duration;

use super::key::{Key, KeyRef};
use super::lru::LruCache;
use super::options::{Aggregation, KeyFn, MessageFn};
use crate::event::{Event, Text, Timestamp};

/// What the message of a folded event begins with.
const PREFIX: &str = "(combined from similar events): ";

pub(super) struct Aggregator {
    groups: LruCache<Group>,
    max_events: usize,
    max_interval: Duration,
    key: Option<KeyFn>,
    message: Option<MessageFn>,
    hasher: ahash::RandomState,
}

/// The messages of similar events that stay events of their own.
struct Group {
    messages: HashSet<Text, ahash::RandomState>,
    last: Timestamp,
}

impl Aggregator {
    pub(super) fn new(
        options: &Aggregation,
        entries: usize,
        key: Option<KeyFn>,
        message: Option<MessageFn>,
    ) -> Self {
        Self {
            groups: LruCache::new(entries),
            max_events: options.max_events,
            max_interval: options.max_interval,
            key,
            message,
            hasher: ahash::RandomState::new(),
        }
    }

    /// The event that stands for the group, without a name, and the group's key, if this one is folded.
    pub(super) fn fold(&self, event: &Event, now: Timestamp) -> Option<(Event, Key)> {
        let key = match &self.key {
            None => self.fold_message(&KeyRef::Aggregate(event), &event.message, now),
            Some(key) => {
                let (group, local) = key(event);
                self.fold_message(&KeyRef::Custom(&group), &local, now)
            }
        }?;
        Some((self.combined(event, now), key))
    }

    fn fold_message(&self, group: &KeyRef<'_>, message: &Text, now: Timestamp) -> Option<Key> {
        let make = || Group { messages: HashSet::with_hasher(self.hasher.clone()), last: now };
        self.groups.with(group, make, |key, group| {
            // More than, not as long as: exactly the interval still belongs to the group.
            if now.duration_since(group.last) > self.max_interval {
                group.messages.clear();
            }
            group.last = now;
            if group.messages.contains(message.as_str()) {
                return None;
            }
            if group.messages.len() + 1 < self.max_events {
                group.messages.insert(message.clone());
                return None;
            }
            Some(key.clone())
        })
    }

    /// Like client-go's, it has neither annotations nor a reporting controller. It gets its name when it is the first.
    fn combined(&self, event: &Event, now: Timestamp) -> Event {
        let mut combined = Event::default();
        combined.metadata.namespace = event.metadata.namespace.clone();
        combined.involved_object = event.involved_object.clone();
        combined.reason = event.reason.clone();
        combined.message = match &self.message {
            None => format_args!("{PREFIX}{}", event.message).into(),
            Some(message) => message(event),
        };
        combined.source = event.source.clone();
        combined.first_timestamp = Some(now);
        combined.last_timestamp = Some(now);
        combined.count = 1;
        combined.type_ = event.type_.clone();
        combined
    }

    pub(super) fn evicted(&self) -> u64 {
        self.groups.evicted()
    }
}
