//! What to look for among stored events.

use crate::record::event::{Event, ObjectReference, Text, Timestamp};

use super::api_rules::namespace_of;
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
    /// Only what was written after the write of this number.
    pub(super) after: u64,
    pub(super) count: Count,
}

/// How many of the events that a query finds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Count {
    #[default]
    All,
    /// Those written first.
    First(usize),
    /// Those written last.
    Last(usize),
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

    /// Of all that is found, only so many: those that were written last. Takes the place of [`first`](Self::first).
    pub fn limit(mut self, events: usize) -> Self {
        self.count = Count::Last(events);
        self
    }

    /// Of all that is found, only so many: those that were written first. Takes the place of [`limit`](Self::limit).
    ///
    /// Together with [`after`](Self::after) this is a page. An event that is written between two pages moves behind all
    /// others: it is found again, as it is then, and no other event is skipped or found twice because of it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventQuery, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["a", "b", "c"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let page = store.find(&EventQuery::new().first(2));
    /// let last = page[1].metadata.resource_version().parse().unwrap();
    /// assert_eq!(store.find(&EventQuery::new().after(last).first(2))[0].metadata.name, "c");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn first(mut self, events: usize) -> Self {
        self.count = Count::First(events);
        self
    }

    /// Events whose last write came after the write of this number. A number is an event's resource version in the
    /// store, 0 before the first one. One from another store means nothing.
    pub fn after(mut self, version: u64) -> Self {
        self.after = version;
        self
    }

    /// Whether this one is looked for. Position and number ([`after`](Self::after), [`first`](Self::first),
    /// [`limit`](Self::limit)) are the store's business and left out of it.
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
        let Self { namespace, kind, name, uid, type_, reason, since, after: _, count: _ } = self;
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
