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

/// An event that is serialised in this format.
#[derive(Serialize)]
pub(super) struct EventsV1<'a>(#[serde(serialize_with = "EventsV1Out::serialize")] pub(super) &'a Event);

/// The fields of the document, in the order in which they are serialised.
#[derive(Serialize)]
#[serde(remote = "Event", tag = "kind", rename = "Event", rename_all = "camelCase")]
struct EventsV1Out {
    #[serde(getter = "api_version")]
    api_version: &'static str,
    metadata: ObjectMeta,
    #[serde(serialize_with = "write_micros", getter = "Event::event_time")]
    event_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", getter = "series")]
    series: Option<SeriesOut>,
    #[serde(skip_serializing_if = "is_empty")]
    reporting_controller: Text,
    #[serde(skip_serializing_if = "is_empty")]
    reporting_instance: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "Event::action")]
    action: Text,
    #[serde(skip_serializing_if = "is_empty")]
    reason: Text,
    #[serde(rename = "regarding")]
    involved_object: ObjectReference,
    #[serde(skip_serializing_if = "Option::is_none", getter = "Event::related_field")]
    related: Option<ObjectReference>,
    #[serde(rename = "note", skip_serializing_if = "is_empty")]
    message: Text,
    #[serde(rename = "type", skip_serializing_if = "is_empty")]
    type_: Text,
    #[serde(rename = "deprecatedSource")]
    source: EventSource,
    #[serde(rename = "deprecatedFirstTimestamp", serialize_with = "write_seconds")]
    first_timestamp: Option<Timestamp>,
    #[serde(rename = "deprecatedLastTimestamp", serialize_with = "write_seconds")]
    last_timestamp: Option<Timestamp>,
    #[serde(rename = "deprecatedCount", skip_serializing_if = "is_zero")]
    count: i32,
}

fn api_version(_: &Event) -> &'static str {
    "events.k8s.io/v1"
}

fn series(event: &Event) -> Option<SeriesOut> {
    let EventSeries { count, last_observed_time } = event.series()?;
    Some(SeriesOut { count, last_observed_time })
}

/// A series whose count is serialised even if the count is 0.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SeriesOut {
    count: i32,
    #[serde(serialize_with = "write_micros")]
    last_observed_time: Option<Timestamp>,
}
