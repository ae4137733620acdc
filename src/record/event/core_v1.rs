//! Defines core/v1's `Event` with its type and its series.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::ParseError;
use crate::escape::escape;
use crate::serde_object::object_only;

use super::metadata::ObjectMeta;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timestamp::Timestamp;
use super::wire_fields;

/// The type of an event, which is either normal or a warning.
///
/// # Examples
///
/// ```
/// use eventcast::EventType;
///
/// assert_eq!("Warning".parse(), Ok(EventType::Warning));
/// assert_eq!(EventType::Warning.to_string(), EventType::Warning.as_str());
/// assert_eq!(format!("{:8}|", EventType::Normal), "Normal  |");
/// let error = "warning".parse::<EventType>().unwrap_err();
/// assert_eq!(error.to_string(), "type must be Normal or Warning, got warning");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EventType {
    /// Indicates normal operation.
    Normal,
    /// Indicates that something needs attention.
    Warning,
}

impl EventType {
    /// Returns the name of the type as it is stored in events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

impl fmt::Display for EventType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for EventType {
    type Err = ParseError;

    /// Parses the name of the type as it is stored in events, which is `Normal` or `Warning`.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text {
            "Normal" => Ok(Self::Normal),
            "Warning" => Ok(Self::Warning),
            _ => Err(ParseError::new(format!("type must be Normal or Warning, got {:.64}", escape(text)))),
        }
    }
}

impl From<EventType> for Text {
    fn from(type_: EventType) -> Self {
        Self::from_static(type_.as_str())
    }
}

/// The number of times an event of the newer events API was seen, and the time when the event was
/// last seen.
///
/// # Examples
///
/// ```
/// use eventcast::event::EventSeries;
/// use eventcast::{Event, Timestamp};
///
/// let mut event = Event::default();
/// event.set_series(EventSeries::new(3, Timestamp::UNIX_EPOCH));
/// let json = event.to_json();
/// assert!(json.contains(r#""series":{"count":3,"lastObservedTime":"1970-01-01T00:00:00.000000Z"}"#));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct EventSeries {
    /// The number of occurrences up to and including the last reported occurrence.
    #[serde(skip_serializing_if = "wire_fields::is_zero")]
    pub count: i32,
    /// The time of the last reported occurrence, with microsecond precision.
    #[serde(serialize_with = "wire_fields::write_micros")]
    pub last_observed_time: Option<Timestamp>,
}

/// The fields that `serde` reads for [`EventSeries`].
#[derive(Deserialize)]
#[serde(
    remote = "EventSeries",
    default = "EventSeries::default",
    rename_all = "camelCase",
    expecting = "a series, as a JSON object"
)]
struct EventSeriesObject {
    #[serde(deserialize_with = "wire_fields::nullable")]
    count: i32,
    #[serde(deserialize_with = "wire_fields::read_time")]
    last_observed_time: Option<Timestamp>,
}

object_only!(EventSeries, EventSeriesObject);

impl EventSeries {
    /// Creates a series of `count` occurrences, with the last occurrence at `last_observed_time`.
    pub fn new(count: i32, last_observed_time: Timestamp) -> Self {
        Self { count, last_observed_time: Some(last_observed_time) }
    }
}

/// A report of something that happened to an object, with the fields of core/v1's `Event`.
///
/// The fields are not validated. If an event was read from a store, it may have any type, and any
/// of its fields may be missing. To create an event, start from [`Event::default`] and set the
/// fields that you know. A recorder fills in the remaining fields.
///
/// The bus moves events by value from queue to queue, because one allocation per event would halve
/// its throughput. The size of an event (464 bytes, checked by a test) therefore matters. The
/// values that a freshly recorded event does not have are held in two boxes, one in the metadata
/// and one in the event itself. A box is allocated only when needed, and the values in it are
/// accessed through methods.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventType, ObjectReference};
///
/// let mut event = Event::default();
/// event.involved_object = ObjectReference::new("Pod", "web-0").in_namespace("default");
/// event.type_ = EventType::Warning.into();
/// event.reason = "BackOff".into();
/// assert_eq!(event.event_type(), Some(EventType::Warning));
/// assert_eq!(event.action(), "");
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Event {
    /// The event's own name and namespace, and the values added by a store.
    pub metadata: ObjectMeta,
    /// The object that the event is about.
    pub involved_object: ObjectReference,
    /// The machine-readable reason for the event, as one word in `CamelCase`.
    pub reason: Text,
    /// A human-readable description of what happened.
    pub message: Text,
    /// The program that observed the event, and the machine on which that program runs.
    pub source: EventSource,
    /// The time when the event was first seen. Kubernetes stores this time in whole seconds.
    pub first_timestamp: Option<Timestamp>,
    /// The time when the event was last seen. Kubernetes stores this time in whole seconds.
    pub last_timestamp: Option<Timestamp>,
    /// The number of times the event was seen.
    pub count: i32,
    /// The event's type, which is `Normal` or `Warning`. Stored events may also have other types.
    /// [`event_type`](Event::event_type) parses this field.
    pub type_: Text,
    /// The program that reports the event. In JSON, this field is named `reportingComponent`.
    #[doc(alias = "reportingComponent")]
    pub reporting_controller: Text,
    /// The instance of the reporting program, identified by its host.
    pub reporting_instance: Text,
    pub(super) rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rare {
    kind: Text,
    api_version: Text,
    action: Text,
    event_time: Option<Timestamp>,
    series: Option<EventSeries>,
    related: Option<ObjectReference>,
}

impl Rare {
    const EMPTY: Self = Self {
        kind: Text::EMPTY,
        api_version: Text::EMPTY,
        action: Text::EMPTY,
        event_time: None,
        series: None,
        related: None,
    };
}

static EMPTY: Rare = Rare::EMPTY;

impl Event {
    fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&EMPTY)
    }

    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_with(|| Box::new(Rare::EMPTY))
    }

    /// Sets a field. Does not allocate the box just to hold an empty value.
    fn set<T>(&mut self, value: T, is_some: bool, field: fn(&mut Rare) -> &mut T) {
        if is_some || self.rare.is_some() {
            *field(self.rare_mut()) = value;
        }
    }

    /// Returns the event's type, or `None` if `type_` is not one of the two types that a recorder
    /// accepts.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventType};
    ///
    /// let mut event = Event::default();
    /// assert_eq!(event.event_type(), None);
    /// event.type_ = "Normal".into();
    /// assert_eq!(event.event_type(), Some(EventType::Normal));
    /// event.type_ = "normal".into();
    /// assert_eq!(event.event_type(), None);
    /// ```
    pub fn event_type(&self) -> Option<EventType> {
        [EventType::Normal, EventType::Warning].into_iter().find(|t| t.as_str() == self.type_)
    }

    /// Returns the document's kind, which is `Event` if the event was read from JSON with this
    /// kind. A recorder leaves the kind empty.
    pub fn kind(&self) -> &Text {
        &self.rare().kind
    }

    /// Sets [`kind`](Self::kind).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let mut event = Event::from_json(r#"{"kind": "Event", "apiVersion": "v1"}"#)?;
    /// assert_eq!((event.kind().as_str(), event.api_version().as_str()), ("Event", "v1"));
    /// event.set_kind("");
    /// event.set_api_version("");
    /// assert!(event.to_json().starts_with(r#"{"metadata":{}"#));
    /// # Ok::<(), eventcast::event::EventJsonError>(())
    /// ```
    pub fn set_kind(&mut self, kind: impl Into<Text>) {
        let kind = kind.into();
        let is_some = !kind.is_empty();
        self.set(kind, is_some, |rare| &mut rare.kind);
    }

    /// Returns the document's version, which is `v1` if the event was read from JSON with this
    /// version or with `events.k8s.io/v1`. A recorder leaves the version empty.
    pub fn api_version(&self) -> &Text {
        &self.rare().api_version
    }

    /// Sets [`api_version`](Self::api_version).
    pub fn set_api_version(&mut self, api_version: impl Into<Text>) {
        let api_version = api_version.into();
        let is_some = !api_version.is_empty();
        self.set(api_version, is_some, |rare| &mut rare.api_version);
    }

    /// Returns the action that was taken on the object, as one word in `CamelCase`.
    pub fn action(&self) -> &Text {
        &self.rare().action
    }

    /// Sets [`action`](Self::action).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.set_action("Binding");
    /// assert_eq!(event.action(), "Binding");
    /// assert!(event.to_json().contains(r#""action":"Binding""#));
    /// ```
    pub fn set_action(&mut self, action: impl Into<Text>) {
        let action = action.into();
        let is_some = !action.is_empty();
        self.set(action, is_some, |rare| &mut rare.action);
    }

    /// Returns the event time, a field of the newer events API that holds the time when the event
    /// was first seen, with microsecond precision. Returns `None` if the event time is not set.
    pub fn event_time(&self) -> Option<Timestamp> {
        self.rare().event_time
    }

    /// Sets [`event_time`](Self::event_time).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// event.set_event_time(Timestamp::UNIX_EPOCH);
    /// assert!(event.to_json().contains(r#""eventTime":"1970-01-01T00:00:00.000000Z""#));
    /// event.set_event_time(None);
    /// assert_eq!(event, Event::default());
    /// ```
    pub fn set_event_time(&mut self, at: impl Into<Option<Timestamp>>) {
        let at = at.into();
        self.set(at, at.is_some(), |rare| &mut rare.event_time);
    }

    /// Returns the series, a field of the newer events API that holds the number of times the event
    /// was seen and the time when the event was last seen. Returns `None` if the series is not set.
    pub fn series(&self) -> Option<EventSeries> {
        self.rare().series
    }

    /// Sets [`series`](Self::series).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventSeries;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// event.set_series(EventSeries::new(3, Timestamp::UNIX_EPOCH));
    /// assert_eq!(event.series().map(|series| series.count), Some(3));
    /// event.set_series(None);
    /// assert_eq!(event, Event::default());
    /// ```
    pub fn set_series(&mut self, series: impl Into<Option<EventSeries>>) {
        let series = series.into();
        self.set(series, series.is_some(), |rare| &mut rare.series);
    }

    /// Returns the time when the event was last seen, from the first of these fields that is set:
    ///
    /// 1. the last observed time of the [`series`](Self::series)
    /// 2. [`last_timestamp`](Self::last_timestamp)
    /// 3. [`first_timestamp`](Self::first_timestamp)
    /// 4. [`event_time`](Self::event_time)
    ///
    /// Returns `None` if none of these fields is set, even if the store has set a creation time.
    /// kubectl reads the fields in the same order. This crate's tables, logs, queries and stores
    /// call this method, so they agree on an event's time.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventSeries;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// assert_eq!(event.last_seen(), None);
    /// event.last_timestamp = Some("2024-01-02T03:00:00Z".parse()?);
    /// assert_eq!(event.last_seen(), event.last_timestamp);
    /// let last = "2024-01-02T04:00:00.5Z".parse()?;
    /// event.set_series(EventSeries::new(61, last));
    /// assert_eq!(event.last_seen(), Some(last));
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    #[doc(alias = "LAST SEEN")]
    pub fn last_seen(&self) -> Option<Timestamp> {
        let series = self.series().and_then(|series| series.last_observed_time);
        series.or(self.last_timestamp).or(self.first_timestamp).or(self.event_time())
    }

    /// Returns the time when the event was first seen. The time is taken from
    /// [`first_timestamp`](Self::first_timestamp) if that field is set, and otherwise from
    /// [`event_time`](Self::event_time). `kubectl get events` reads the fields in the same order.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// assert_eq!(event.first_seen(), None);
    /// event.set_event_time(Timestamp::UNIX_EPOCH);
    /// assert_eq!(event.first_seen(), Some(Timestamp::UNIX_EPOCH));
    /// event.first_timestamp = Some("2024-01-02T03:00:00Z".parse()?);
    /// assert_eq!(event.first_seen(), event.first_timestamp);
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    #[doc(alias = "FIRST SEEN")]
    pub fn first_seen(&self) -> Option<Timestamp> {
        self.first_timestamp.or(self.event_time())
    }

    /// Returns the number of times the event was seen. This number is the [`series`](Self::series)
    /// count if the event has a series, and otherwise [`count`](Self::count). The result is at
    /// least 1, because an event that exists has been seen, even if its count is not set.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventSeries;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// assert_eq!(event.occurrences(), 1);
    /// event.count = 3;
    /// assert_eq!(event.occurrences(), 3);
    /// event.set_series(EventSeries::new(61, Timestamp::UNIX_EPOCH));
    /// assert_eq!(event.occurrences(), 61);
    /// ```
    #[doc(alias = "COUNT")]
    pub fn occurrences(&self) -> u32 {
        self.series().map_or(self.count, |series| series.count).max(1).unsigned_abs()
    }

    /// Returns the second object involved in the event, or `None` if the event does not name a
    /// second object.
    pub fn related(&self) -> Option<&ObjectReference> {
        self.related_field().as_ref()
    }

    #[allow(clippy::ref_option, reason = "serde's signature")]
    pub(super) fn related_field(&self) -> &Option<ObjectReference> {
        &self.rare().related
    }

    /// Sets [`related`](Self::related).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, ObjectReference};
    ///
    /// let mut event = Event::default();
    /// event.set_related(ObjectReference::new("Node", "node-1"));
    /// assert_eq!(event.related().map(|node| node.to_string()), Some("Node/node-1".to_owned()));
    /// event.set_related(None);
    /// assert_eq!(event, Event::default());
    /// ```
    pub fn set_related(&mut self, related: impl Into<Option<ObjectReference>>) {
        let related = related.into();
        let is_some = related.is_some();
        self.set(related, is_some, |rare| &mut rare.related);
    }
}

/// Compares the contents, so an empty box is equal to a missing box.
impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.metadata == other.metadata
            && self.involved_object == other.involved_object
            && self.reason == other.reason
            && self.message == other.message
            && self.source == other.source
            && self.first_timestamp == other.first_timestamp
            && self.last_timestamp == other.last_timestamp
            && self.count == other.count
            && self.type_ == other.type_
            && self.reporting_controller == other.reporting_controller
            && self.reporting_instance == other.reporting_instance
            && self.rare() == other.rare()
    }
}
