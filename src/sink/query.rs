//! What to look for among stored events.

use crate::event::{Event, ObjectReference, Text, Timestamp};

use super::admission::namespace_of;
use super::table;

/// Which events to look for in a store. Empty, it finds all; each method narrows it down, and an empty text takes its
/// condition back.
///
/// # Examples
///
/// ```
/// use eventcast::{EventQuery, EventSink, EventType, MemorySink, ObjectReference};
///
/// let store = MemorySink::new();
/// for (name, reason) in [("web-0.1", "Started"), ("web-0.2", "BackOff"), ("web-0.3", "BackOff")] {
///     let mut event = eventcast::Event::default();
///     event.metadata.name = name.into();
///     event.involved_object = ObjectReference::new("Pod", "web-0");
///     event.type_ = EventType::Warning.into();
///     event.reason = reason.into();
///     store.create(&event)?;
/// }
/// let query = EventQuery::new()
///     .object(ObjectReference::new("pod", "web-0"))
///     .type_(EventType::Warning)
///     .reason("BackOff");
/// assert_eq!(store.find(&query).len(), 2);
/// assert_eq!(store.find(&query.limit(1))[0].metadata.name, "web-0.3");
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it finds nothing by itself"]
pub struct EventQuery {
    // A condition that is empty is none.
    pub(super) namespace: Text,
    pub(super) kind: Text,
    pub(super) name: Text,
    pub(super) uid: Text,
    pub(super) type_: Text,
    pub(super) reason: Text,
    pub(super) since: Option<Timestamp>,
    pub(super) limit: Option<usize>,
}

impl EventQuery {
    /// A query that finds every event.
    pub fn new() -> Self {
        Self::default()
    }

    /// Events of this namespace: the event's own, which is its object's, or `default` for objects without one.
    pub fn namespace(mut self, namespace: impl Into<Text>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Events about this object, as `kubectl get events --for` and `kubectl describe` choose them: by kind, name, uid and
    /// namespace, those of them that the reference has. A kind is found in upper and lower case alike (ASCII). A namespace in the
    /// reference is the query's [`namespace`](Self::namespace) from here on.
    ///
    /// A reference with a kind alone finds the events about all objects of that kind.
    pub fn object(mut self, object: impl Into<ObjectReference>) -> Self {
        let ObjectReference { kind, namespace, name, uid, .. } = object.into();
        if !namespace.is_empty() {
            self.namespace = namespace;
        }
        (self.kind, self.name, self.uid) = (kind, name, uid);
        self
    }

    /// Events of this type: an [`EventType`](crate::EventType), or any text, since stored events may have others.
    pub fn type_(mut self, type_: impl Into<Text>) -> Self {
        self.type_ = type_.into();
        self
    }

    /// Events with this reason.
    pub fn reason(mut self, reason: impl Into<Text>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Events that were seen at this time or later: the last time of those that were seen more than once, which is what
    /// tables show as `LAST SEEN`. An event that carries no time at all is not found.
    pub fn since(mut self, at: Timestamp) -> Self {
        self.since = Some(at);
        self
    }

    /// Of all that is found, only so many: those that were written last.
    pub fn limit(mut self, events: usize) -> Self {
        self.limit = Some(events);
        self
    }

    /// Whether this one is looked for. The limit, which no event can reach alone, is left out of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventQuery};
    ///
    /// let mut event = Event::default();
    /// event.reason = "BackOff".into();
    /// assert!(EventQuery::new().matches(&event));
    /// assert!(EventQuery::new().reason("BackOff").namespace("default").matches(&event));
    /// assert!(!EventQuery::new().reason("Back").matches(&event));
    /// ```
    pub fn matches(&self, event: &Event) -> bool {
        let Self { namespace, kind, name, uid, type_, reason, since, limit: _ } = self;
        let object = &event.involved_object;
        let is = |wanted: &Text, found: &Text| wanted.is_empty() || wanted == found;
        is(name, &object.name)
            && is(uid, &object.uid)
            && is(type_, &event.type_)
            && is(reason, &event.reason)
            && (kind.is_empty() || kind.eq_ignore_ascii_case(&object.kind))
            && (namespace.is_empty() || namespace == namespace_of(event))
            && since.is_none_or(|since| table::last_seen(event).is_some_and(|at| at >= since))
    }
}
