//! The first stage of a correlator, which folds many similar events into one event.
//!
//! Events are similar if they are equal except for their messages. For each group of similar
//! events, the aggregator keeps the messages that it has seen, up to one less than `max_events`.
//! The aggregator folds every additional message into one aggregate event for the group. An event
//! whose message is kept stays a separate event, however often the event repeats. The aggregator
//! drops a group's messages if no similar event has arrived for longer than `max_interval`.
//!
//! client-go removes an arbitrary message once a group has `max_events` messages. This aggregator
//! always folds the newest message instead, so the first messages stay, and the result is
//! deterministic.

use super::few::Few;
use super::options::{KeyFn, MessageFn};
use super::stage_options::Aggregation;
use crate::record::event::{Event, Text, Timestamp};

/// The prefix of a folded event's message.
const PREFIX: &str = "(combined from similar events): ";

pub(super) struct Aggregator {
    options: Aggregation,
    key: Option<KeyFn>,
    message: Option<MessageFn>,
}

/// A group's messages that are kept, and therefore not folded.
pub(super) struct Group {
    messages: Few<Text>,
    last: Timestamp,
}

impl Group {
    pub(super) fn new(now: Timestamp) -> Self {
        Self { messages: Few::default(), last: now }
    }
}

impl Aggregator {
    pub(super) fn new(options: Aggregation, key: Option<KeyFn>, message: Option<MessageFn>) -> Self {
        Self { options, key, message }
    }

    /// Returns the group key and the member key, or `None` if the user has not set a key function.
    pub(super) fn custom_key(&self, event: &Event) -> Option<(Text, Text)> {
        self.key.as_ref().map(|key| key(event))
    }

    /// Returns whether a message is folded. A new message that is not folded is added to the group.
    pub(super) fn folds(&self, group: &mut Group, message: &Text, hash: u64, now: Timestamp) -> bool {
        // `>`, not `>=`, because an event that arrives exactly one interval after the last event
        // still belongs to the group.
        if now.duration_since(group.last) > self.options.max_interval {
            group.messages = Few::default();
        }
        group.last = now;
        let has_capacity = group.messages.len() + 1 < self.options.max_events;
        let same = |other: &Text| other == message;
        if has_capacity {
            group.messages.get_or_insert_with(hash, same, || message.clone());
        }
        !has_capacity && group.messages.get(hash, same).is_none()
    }

    /// Returns the aggregate event for this event's group, without a name. As in client-go, the
    /// aggregate event has no labels, annotations, reporting controller or reporting instance.
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
        combined
    }
}
