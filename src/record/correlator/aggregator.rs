//! The first stage: many similar events become one.
//!
//! Similar events are equal but for their messages. For each group of them the messages seen are kept, up to one less
//! than `max_events`; a message beyond those is folded into one event that stands for the group. A message that is kept
//! stays an event of its own, however often it comes. The group is forgotten when nothing similar has come for longer
//! than `max_interval`.
//!
//! client-go removes a message at random once there are `max_events` of them; here it is always the one that has just
//! come, so the first ones stay and the outcome is the same every time.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::options::{Aggregation, KeyFn, MessageFn};
use crate::record::event::{Event, Text, Timestamp};

/// What the message of a folded event begins with.
const PREFIX: &str = "(combined from similar events): ";

pub(super) struct Aggregator {
    options: Aggregation,
    key: Option<KeyFn>,
    message: Option<MessageFn>,
}

/// The messages of similar events that stay events of their own.
pub(super) struct Group {
    /// Each with its hash. Most groups never have another than the first, and need no table.
    first: Option<(u64, Text)>,
    more: HashTable<(u64, Text)>,
    last: Timestamp,
}

impl Group {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { first: None, more: HashTable::new(), last: now }
    }
}

impl Aggregator {
    pub(super) fn new(options: Aggregation, key: Option<KeyFn>, message: Option<MessageFn>) -> Self {
        Self { options, key, message }
    }

    /// The group's key and the member's, if the user has a function for them.
    pub(super) fn custom_key(&self, event: &Event) -> Option<(Text, Text)> {
        self.key.as_ref().map(|key| key(event))
    }

    /// Whether each event that stands for a group has a name of its own.
    pub(super) fn has_own_names(&self) -> bool {
        self.options.own_names
    }

    /// Whether the store's name for an event that stands for a group counts.
    pub(super) fn keeps_stored_name(&self) -> bool {
        self.options.keep_stored_name
    }

    /// Whether a message is folded.
    pub(super) fn folds(&self, group: &mut Group, message: &Text, hash: u64, now: Timestamp) -> bool {
        // More than, not as long as: exactly the interval still belongs to the group.
        if now.duration_since(group.last) > self.options.max_interval {
            group.first = None;
            group.more.clear();
        }
        group.last = now;
        let same = |(other, text): &(u64, Text)| *other == hash && text == message;
        let Some(first) = &group.first else {
            let is_folded = self.options.max_events <= 1;
            if !is_folded {
                group.first = Some((hash, message.clone()));
            }
            return is_folded;
        };
        if same(first) {
            return false;
        }
        // The first one, and the one that has just come.
        if group.more.len() + 2 >= self.options.max_events {
            return group.more.find(hash, same).is_none();
        }
        if let Entry::Vacant(vacant) = group.more.entry(hash, same, |(hash, _)| *hash) {
            vacant.insert((hash, message.clone()));
        }
        false
    }

    /// The event that stands for the group of this one, without a name. Unless asked otherwise it has neither
    /// annotations nor a reporting controller, like client-go's.
    pub(super) fn combined(&self, event: &Event, now: Timestamp) -> Event {
        let mut combined = Event::default();
        combined.metadata.namespace = event.metadata.namespace.clone();
        combined.involved_object = event.involved_object.clone();
        combined.reason = event.reason.clone();
        combined.message = match &self.message {
            None => Text::joined(PREFIX, &event.message),
            Some(message) => message(event),
        };
        combined.source = event.source.clone();
        combined.first_timestamp = Some(now);
        combined.last_timestamp = Some(now);
        combined.count = 1;
        combined.type_ = event.type_.clone();
        if self.options.keep_metadata {
            if !event.metadata.labels().is_empty() {
                *combined.metadata.labels_mut() = event.metadata.labels().clone();
            }
            if !event.metadata.annotations().is_empty() {
                *combined.metadata.annotations_mut() = event.metadata.annotations().clone();
            }
            combined.reporting_controller = event.reporting_controller.clone();
            combined.reporting_instance = event.reporting_instance.clone();
        }
        combined
    }
}
