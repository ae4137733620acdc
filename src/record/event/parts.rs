//! The parts of an event that a recorder's caller supplies, and their conversion into an event.
//!
//! An event is built in two steps, to delay the caller as little as possible:
//!
//! 1. [`EventParts::into_event`] runs on the caller's thread and builds the event in one
//!    expression. It does not generate the event's name, but receives a number from which the name
//!    is generated later.
//! 2. [`complete`] runs on the dispatcher and generates the name, which requires an allocation.

use crate::clock::Clock;

use super::core_v1::{Event, Rare};
use super::metadata::ObjectMeta;
use super::name;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timed;
use super::timestamp::Timestamp;

/// The namespace that is used by default for an event about an object without a namespace.
pub(crate) const DEFAULT_NAMESPACE: Text = Text::from_static("default");

/// The parts of an event that the caller supplies. The recorder adds the remaining parts.
pub(crate) struct EventParts {
    pub(crate) involved_object: ObjectReference,
    pub(crate) type_: Text,
    pub(crate) reason: Text,
    pub(crate) message: Text,
    /// The event's time, or `None` to use the time of the call.
    pub(crate) at: Option<Timestamp>,
    /// The event's labels and annotations. The name and namespace in the metadata are empty.
    pub(crate) metadata: ObjectMeta,
    rare: Option<Box<Rare>>,
}

impl EventParts {
    #[inline]
    pub(crate) fn new(involved_object: ObjectReference, type_: Text, reason: Text, message: Text) -> Self {
        let metadata = ObjectMeta::default();
        Self { involved_object, type_, reason, message, at: None, metadata, rare: None }
    }

    /// Builds the event, which has a count of one and no name yet. Until [`complete`] generates the
    /// name, `first_timestamp` holds the number for the name, and only `last_timestamp` holds the
    /// event's time. If the object has no namespace, the event is placed in `cluster_namespace`.
    #[inline]
    pub(crate) fn into_event(
        self,
        name_number: u64,
        now: Timestamp,
        source: &EventSource,
        cluster_namespace: &Text,
    ) -> Event {
        let namespace = match &self.involved_object.namespace {
            namespace if namespace.is_empty() => cluster_namespace.clone(),
            namespace => namespace.clone(),
        };
        Event {
            metadata: ObjectMeta { namespace, ..self.metadata },
            involved_object: self.involved_object,
            reason: self.reason,
            message: self.message,
            source: source.clone(),
            first_timestamp: Some(Timestamp::from_nanos(name_number)),
            last_timestamp: Some(self.at.unwrap_or(now)),
            count: 1,
            type_: self.type_,
            reporting_controller: source.component.clone(),
            reporting_instance: source.host.clone(),
            rare: self.rare,
        }
    }
}

/// Extracts the event's parts from a draft.
impl From<Event> for EventParts {
    fn from(draft: Event) -> Self {
        let Event { metadata, involved_object, reason, message, first_timestamp, type_, rare, .. } = draft;
        Self { involved_object, type_, reason, message, at: first_timestamp, metadata, rare }
    }
}

/// Generates the name of an event that was returned by [`EventParts::into_event`]. If
/// `has_event_time` is set, also converts the event to an event with an event time. An event that
/// already has a name is left unchanged.
pub(crate) fn complete(event: &mut Event, clock: &Clock, has_event_time: bool) {
    if event.metadata.name.is_empty() {
        let number = event.first_timestamp.and_then(|at| u64::try_from(at.as_nanos()).ok());
        let object = &event.involved_object.name;
        event.metadata.name = name::numbered(clock, object, number.unwrap_or_default());
        event.first_timestamp = event.last_timestamp;
        if has_event_time {
            timed::set_event_time(event);
        }
    }
}
