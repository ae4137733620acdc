//! Defines the document format of an event in events.k8s.io/v1. The field names, their order, and
//! the fields that may be omitted match Go's `json` tags for that API's `Event`.
//!
//! The API server stores one object for both APIs, and converts that object field by field.
//! Documents in this format are read by the `wire` module.

use serde::Serialize;

use super::core_v1::{Event, EventSeries};
use super::metadata::ObjectMeta;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timestamp::Timestamp;
use super::wire_fields::{is_empty, is_zero, write_micros, write_seconds};

/// The fields of the document, in the order in which they are serialised.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventsV1Out<'a> {
    kind: &'static str,
    api_version: &'static str,
    metadata: &'a ObjectMeta,
    #[serde(serialize_with = "write_micros")]
    event_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<SeriesOut>,
    #[serde(skip_serializing_if = "is_empty")]
    reporting_controller: &'a Text,
    #[serde(skip_serializing_if = "is_empty")]
    reporting_instance: &'a Text,
    #[serde(skip_serializing_if = "is_empty")]
    action: &'a Text,
    #[serde(skip_serializing_if = "is_empty")]
    reason: &'a Text,
    regarding: &'a ObjectReference,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<&'a ObjectReference>,
    #[serde(skip_serializing_if = "is_empty")]
    note: &'a Text,
    #[serde(skip_serializing_if = "is_empty")]
    r#type: &'a Text,
    deprecated_source: &'a EventSource,
    #[serde(serialize_with = "write_seconds")]
    deprecated_first_timestamp: Option<Timestamp>,
    #[serde(serialize_with = "write_seconds")]
    deprecated_last_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_zero")]
    deprecated_count: i32,
}

/// A series whose count is serialised even if the count is 0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeriesOut {
    count: i32,
    #[serde(serialize_with = "write_micros")]
    last_observed_time: Option<Timestamp>,
}

impl<'a> EventsV1Out<'a> {
    pub(super) fn new(event: &'a Event) -> Self {
        Self {
            kind: "Event",
            api_version: "events.k8s.io/v1",
            metadata: &event.metadata,
            event_time: event.event_time(),
            series: event.series().map(SeriesOut::from),
            reporting_controller: &event.reporting_controller,
            reporting_instance: &event.reporting_instance,
            action: event.action(),
            reason: &event.reason,
            regarding: &event.involved_object,
            related: event.related(),
            note: &event.message,
            r#type: &event.type_,
            deprecated_source: &event.source,
            deprecated_first_timestamp: event.first_timestamp,
            deprecated_last_timestamp: event.last_timestamp,
            deprecated_count: event.count,
        }
    }
}

impl From<EventSeries> for SeriesOut {
    fn from(series: EventSeries) -> Self {
        Self { count: series.count, last_observed_time: series.last_observed_time }
    }
}
