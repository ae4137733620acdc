//! Defines queries for stored events.

use crate::record::event::{Event, ObjectReference, Text, Timestamp};

use super::rules::namespace_of;

/// A query for events in a store. An empty query finds all events. Each method narrows the query.
/// If an empty string is passed to a method, the method removes its condition from the query.
///
/// # Examples
///
/// ```
/// use eventcast::sink::EventQuery;
/// use eventcast::{EventSink, EventType, MemorySink, ObjectReference};
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
/// let query = EventQuery::default()
///     .object(ObjectReference::new("pod", "web-0"))
///     .type_(EventType::Warning)
///     .reason("BackOff");
/// assert_eq!(store.find(&query).len(), 2);
/// assert_eq!(store.find(&query.last(1))[0].metadata.name, "web-0.3");
/// # Ok::<(), eventcast::SinkError>(())
/// ```
///
/// A custom store can use the query's fields to narrow the search with its own indexes. The store
/// must then call [`matches`](Self::matches) for each event that the indexes return.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "it finds nothing by itself"]
#[non_exhaustive]
pub struct EventQuery {
    /// The events' [namespace](crate::sink::rules::namespace_of). An empty string matches any
    /// namespace.
    pub namespace: Text,
    /// The kind of the object that the events are about, compared without regard to ASCII case. An
    /// empty string matches any kind.
    pub kind: Text,
    /// The name of the object that the events are about. An empty string matches any name.
    pub name: Text,
    /// The uid of the object that the events are about. An empty string matches any uid.
    pub uid: Text,
    /// The events' type. An empty string matches any type.
    pub type_: Text,
    /// The events' reason. An empty string matches any reason.
    pub reason: Text,
    /// The query finds only events that were [last seen](Event::last_seen) at this time or later.
    /// `None` matches any event.
    pub since: Option<Timestamp>,
    /// The number of a write. The query finds only events whose last write is after the write with
    /// this number.
    pub after: u64,
    /// Limits which of the matching events the query returns.
    pub limit: QueryLimit,
}

/// Specifies which of the matching events an [`EventQuery`] returns.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{EventQuery, QueryLimit};
///
/// assert_eq!(EventQuery::default().limit, QueryLimit::All);
/// assert_eq!(EventQuery::default().first(3).last(2).limit, QueryLimit::Last(2));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QueryLimit {
    /// All matching events.
    #[default]
    All,
    /// The least recently written matching events, up to this number.
    First(usize),
    /// The most recently written matching events, up to this number.
    Last(usize),
}

impl EventQuery {
    /// Narrows the query to events in this namespace. The query compares the event's own namespace.
    /// This is usually the namespace of the event's object, or `default` if the object has no
    /// namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.involved_object.namespace = "shop".into();
    /// assert!(EventQuery::default().namespace("shop").matches(&event));
    /// assert!(!EventQuery::default().namespace("default").matches(&event));
    /// ```
    pub fn namespace(mut self, namespace: impl Into<Text>) -> Self {
        self.namespace = namespace.into();
        self
    }

    /// Narrows the query to events about this object. The events are selected in the same way as in
    /// `kubectl describe` and `kubectl get events --for`. The kind, name, uid and namespace are
    /// each compared only if the field is set in the reference. The kind is compared without regard
    /// to ASCII case. If the reference has a namespace, it replaces the query's
    /// [`namespace`](Self::namespace).
    ///
    /// If only the kind is set in the reference, the query finds the events about all objects of
    /// that kind.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, ObjectReference};
    ///
    /// let mut event = Event::default();
    /// event.involved_object = ObjectReference::new("Pod", "web-0");
    /// let about = |object: ObjectReference| EventQuery::default().object(object);
    /// assert!(about(ObjectReference::new("pod", "web-0")).matches(&event));
    /// assert!(about(ObjectReference::new("Pod", "")).matches(&event));
    /// assert!(!about(ObjectReference::new("Pod", "web-1")).matches(&event));
    /// ```
    pub fn object(mut self, object: impl Into<ObjectReference>) -> Self {
        let ObjectReference { kind, namespace, name, uid, .. } = object.into();
        if !namespace.is_empty() {
            self.namespace = namespace;
        }
        (self.kind, self.name, self.uid) = (kind, name, uid);
        self
    }

    /// Narrows the query to events of this type. The type can be an [`EventType`](crate::EventType)
    /// or any string, because stored events may also have other types.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventType};
    ///
    /// let mut event = Event::default();
    /// event.type_ = EventType::Warning.into();
    /// assert!(EventQuery::default().type_(EventType::Warning).matches(&event));
    /// assert!(EventQuery::default().type_("Warning").matches(&event));
    /// assert!(!EventQuery::default().type_(EventType::Normal).matches(&event));
    /// ```
    pub fn type_(mut self, type_: impl Into<Text>) -> Self {
        self.type_ = type_.into();
        self
    }

    /// Narrows the query to events with this reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.reason = "BackOff".into();
    /// assert!(EventQuery::default().reason("BackOff").matches(&event));
    /// assert!(!EventQuery::default().reason("backoff").matches(&event));
    /// ```
    pub fn reason(mut self, reason: impl Into<Text>) -> Self {
        self.reason = reason.into();
        self
    }

    /// Narrows the query to events that were last seen at this time or later, according to
    /// [`Event::last_seen`]. Tables show the same time in the `LAST SEEN` column. Events that have
    /// no time at all do not match.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, Timestamp};
    /// use std::time::Duration;
    ///
    /// let start = Timestamp::UNIX_EPOCH;
    /// let mut event = Event::default();
    /// event.last_timestamp = Some(start);
    /// assert!(EventQuery::default().since(start).matches(&event));
    /// assert!(!EventQuery::default().since(start.saturating_add(Duration::from_secs(1))).matches(&event));
    /// ```
    pub fn since(mut self, at: Timestamp) -> Self {
        self.since = Some(at);
        self
    }

    /// Limits the result to the most recently written events, up to this number. This limit
    /// replaces a limit set by [`first`](Self::first).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["a", "b", "c"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let found = store.find(&EventQuery::default().last(2));
    /// assert_eq!(found.iter().map(|event| &*event.metadata.name).collect::<Vec<_>>(), ["b", "c"]);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    #[doc(alias("limit", "tail"))]
    pub fn last(mut self, events: usize) -> Self {
        self.limit = QueryLimit::Last(events);
        self
    }

    /// Limits the result to the least recently written events, up to this number. This limit
    /// replaces a limit set by [`last`](Self::last).
    ///
    /// Together with [`after`](Self::after), this limit allows a program to read a store page by
    /// page. If an event is written between two pages, the event moves to the end. A later page
    /// then returns that event again, in its new state. The write does not cause any other event to
    /// be skipped or returned twice.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["a", "b", "c"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let page = store.find(&EventQuery::default().first(2));
    /// let last = page[1].metadata.resource_version().parse().unwrap();
    /// assert_eq!(store.find(&EventQuery::default().after(last).first(2))[0].metadata.name, "c");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn first(mut self, events: usize) -> Self {
        self.limit = QueryLimit::First(events);
        self
    }

    /// Narrows the query to events whose last write is after the write with this number. Pass the
    /// resource version of an event that the store has returned, or 0 to start before the first
    /// event. A number from another store is meaningless.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["a", "b", "c"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// // The second write of this store.
    /// let later = store.find(&EventQuery::default().after(2));
    /// assert_eq!(later.iter().map(|event| &*event.metadata.name).collect::<Vec<_>>(), ["c"]);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn after(mut self, version: u64) -> Self {
        self.after = version;
        self
    }

    /// Returns whether this event satisfies the query's conditions. This method ignores the
    /// position and the limit ([`after`](Self::after), [`first`](Self::first) and
    /// [`last`](Self::last)), which the store itself must apply.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.reason = "BackOff".into();
    /// assert!(EventQuery::default().matches(&event));
    /// assert!(EventQuery::default().reason("BackOff").namespace("default").matches(&event));
    /// assert!(!EventQuery::default().reason("Back").matches(&event));
    /// ```
    pub fn matches(&self, event: &Event) -> bool {
        let Self { namespace, kind, name, uid, type_, reason, since, after: _, limit: _ } = self;
        let object = &event.involved_object;
        let is = |wanted: &Text, found: &Text| wanted.is_empty() || wanted == found;
        is(name, &object.name)
            && is(uid, &object.uid)
            && is(type_, &event.type_)
            && is(reason, &event.reason)
            && (kind.is_empty() || kind.eq_ignore_ascii_case(&object.kind))
            && (namespace.is_empty() || namespace == namespace_of(event))
            && since.is_none_or(|since| event.last_seen().is_some_and(|at| at >= since))
    }
}
