//! Core/v1's `Event` itself, with its type and its series.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::metadata::ObjectMeta;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timestamp::Timestamp;
use super::wire_fields;

/// Whether an event is in order or asks for attention.
#[doc(alias = "ValidateEventType")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub enum EventType {
    /// As it should be.
    Normal,
    /// Something to look at.
    Warning,
}

impl EventType {
    /// The name that events carry.
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

impl From<EventType> for Text {
    fn from(type_: EventType) -> Self {
        type_.as_str().into()
    }
}

/// How often an event of the newer events API was seen, and when last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "camelCase", expecting = "a series, as a JSON object")]
#[non_exhaustive]
pub struct EventSeries {
    /// Occurrences up to the last one heard of.
    #[serde(
        default,
        deserialize_with = "wire_fields::nullable",
        skip_serializing_if = "wire_fields::is_zero"
    )]
    pub count: i32,
    /// The last one heard of, kept to the microsecond.
    #[serde(
        default,
        serialize_with = "wire_fields::write_micros",
        deserialize_with = "wire_fields::read_time"
    )]
    pub last_observed_time: Option<Timestamp>,
}

impl EventSeries {
    /// So many occurrences, the last one then.
    pub fn new(count: i32, last_observed_time: Timestamp) -> Self {
        Self { count, last_observed_time: Some(last_observed_time) }
    }
}

/// Something that happened to an object: core/v1's `Event`.
///
/// Nothing is validated: an event that was read from a store may be of any type and lack anything. Start from
/// [`Event::default`] and set what there is; a recorder fills in the rest.
///
/// An event is moved by value from queue to queue, because one allocation for each would halve the rate of a bus. So
/// its size matters (440 bytes, checked by a test): what a freshly recorded event does not have lies in two boxes
/// that are only there when needed, one in the metadata and one here, and is reached by methods.
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
    /// The event's own name and namespace, and what a store adds.
    pub metadata: ObjectMeta,
    /// What the event is about.
    pub involved_object: ObjectReference,
    /// Why it happened: one word in `CamelCase`, for programs.
    pub reason: Text,
    /// What happened: for people.
    pub message: Text,
    /// The program that saw it, and where.
    pub source: EventSource,
    /// When it was first seen. Kubernetes keeps whole seconds.
    pub first_timestamp: Option<Timestamp>,
    /// When it was last seen. Kubernetes keeps whole seconds.
    pub last_timestamp: Option<Timestamp>,
    /// How often it was seen.
    pub count: i32,
    /// `Normal` or `Warning`, but stored events may have any other; [`event_type`](Event::event_type) reads it.
    pub type_: Text,
    /// The program that reports it; `reportingComponent` in JSON.
    #[doc(alias = "reportingComponent")]
    pub reporting_controller: Text,
    /// Which instance of that program; its host.
    pub reporting_instance: Text,
    rare: Option<Box<Rare>>,
}

#[derive(Clone, Debug, PartialEq)]
struct Rare {
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

    /// Sets a value, without making the box only to hold nothing.
    fn set<T>(&mut self, value: T, is_some: bool, field: fn(&mut Rare) -> &mut T) {
        if is_some || self.rare.is_some() {
            *field(self.rare_mut()) = value;
        }
    }

    /// The event's type, if it is one of the two that a recorder accepts.
    pub fn event_type(&self) -> Option<EventType> {
        [EventType::Normal, EventType::Warning].into_iter().find(|t| t.as_str() == self.type_)
    }

    /// `Event` where the JSON that it was read from says so; not set by a recorder.
    pub fn kind(&self) -> &Text {
        &self.rare().kind
    }

    /// Sets [`kind`](Self::kind).
    pub fn set_kind(&mut self, kind: impl Into<Text>) {
        let kind = kind.into();
        let is_some = !kind.is_empty();
        self.set(kind, is_some, |rare| &mut rare.kind);
    }

    /// `v1` where the JSON that it was read from says so; not set by a recorder.
    pub fn api_version(&self) -> &Text {
        &self.rare().api_version
    }

    /// Sets [`api_version`](Self::api_version).
    pub fn set_api_version(&mut self, api_version: impl Into<Text>) {
        let api_version = api_version.into();
        let is_some = !api_version.is_empty();
        self.set(api_version, is_some, |rare| &mut rare.api_version);
    }

    /// What was done about the object: one word in `CamelCase`.
    pub fn action(&self) -> &Text {
        &self.rare().action
    }

    /// Sets [`action`](Self::action).
    pub fn set_action(&mut self, action: impl Into<Text>) {
        let action = action.into();
        let is_some = !action.is_empty();
        self.set(action, is_some, |rare| &mut rare.action);
    }

    /// When it was first seen, to the microsecond: the newer events API.
    pub fn event_time(&self) -> Option<Timestamp> {
        self.rare().event_time
    }

    /// Sets [`event_time`](Self::event_time).
    pub fn set_event_time(&mut self, at: impl Into<Option<Timestamp>>) {
        let at = at.into();
        self.set(at, at.is_some(), |rare| &mut rare.event_time);
    }

    /// How often it was seen: the newer events API.
    pub fn series(&self) -> Option<EventSeries> {
        self.rare().series
    }

    /// Sets [`series`](Self::series).
    pub fn set_series(&mut self, series: impl Into<Option<EventSeries>>) {
        let series = series.into();
        self.set(series, series.is_some(), |rare| &mut rare.series);
    }

    /// A second object that had a part in it.
    pub fn related(&self) -> Option<&ObjectReference> {
        self.rare().related.as_ref()
    }

    /// Sets [`related`](Self::related).
    pub fn set_related(&mut self, related: impl Into<Option<ObjectReference>>) {
        let related = related.into();
        let is_some = related.is_some();
        self.set(related, is_some, |rare| &mut rare.related);
    }
}

/// By content: an empty box is no box.
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
