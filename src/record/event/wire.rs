//! Defines the document format of an event in core/v1. The field names, their order, and the fields
//! that may be omitted match Go's `json` tags for core/v1.
//!
//! When an event is serialised:
//!
//! - Empty strings, zeros and empty maps are omitted.
//! - A missing time is written as `null`, except in the metadata, where it is omitted.
//! - `metadata`, `involvedObject`, `source` and the two `reporting*` fields are always present.
//!
//! When an event is deserialised:
//!
//! - Unknown fields are ignored.
//! - `null` is treated as absent everywhere.
//! - A document of events.k8s.io is converted to the event that an API server would return as `v1`.

use std::collections::BTreeMap;

use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::escape::escape;
use crate::serde_object::ObjectOnly;

use super::core_v1::{Event, EventSeries};
use super::metadata::ObjectMeta;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timestamp::Timestamp;
use super::wire_fields::{
    is_empty, is_unset, is_zero, nullable, read_time, texts, write_micros, write_seconds,
};

/// The fields of the document, in the order in which they are serialised.
#[derive(Serialize)]
#[serde(remote = "Event", rename_all = "camelCase")]
struct EventOut {
    #[serde(skip_serializing_if = "is_empty", getter = "Event::kind")]
    kind: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "Event::api_version")]
    api_version: Text,
    metadata: ObjectMeta,
    involved_object: ObjectReference,
    #[serde(skip_serializing_if = "is_empty")]
    reason: Text,
    #[serde(skip_serializing_if = "is_empty")]
    message: Text,
    source: EventSource,
    #[serde(serialize_with = "write_seconds")]
    first_timestamp: Option<Timestamp>,
    #[serde(serialize_with = "write_seconds")]
    last_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_zero")]
    count: i32,
    #[serde(rename = "type", skip_serializing_if = "is_empty")]
    type_: Text,
    #[serde(serialize_with = "write_micros", getter = "Event::event_time")]
    event_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none", getter = "Event::series")]
    series: Option<EventSeries>,
    #[serde(skip_serializing_if = "is_empty", getter = "Event::action")]
    action: Text,
    #[serde(skip_serializing_if = "Option::is_none", getter = "Event::related_field")]
    related: Option<ObjectReference>,
    #[serde(rename = "reportingComponent")]
    reporting_controller: Text,
    reporting_instance: Text,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "an event, as a JSON object")]
struct EventIn {
    #[serde(default, deserialize_with = "nullable")]
    kind: Text,
    #[serde(default, deserialize_with = "nullable")]
    api_version: Text,
    #[serde(default, deserialize_with = "nullable")]
    metadata: ObjectMeta,
    #[serde(default, deserialize_with = "nullable")]
    involved_object: ObjectReference,
    #[serde(default, deserialize_with = "nullable")]
    reason: Text,
    #[serde(default, deserialize_with = "nullable")]
    message: Text,
    #[serde(default, deserialize_with = "nullable")]
    source: EventSource,
    #[serde(default, deserialize_with = "read_time")]
    first_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "read_time")]
    last_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "nullable")]
    count: i32,
    #[serde(default, deserialize_with = "nullable")]
    r#type: Text,
    #[serde(default, deserialize_with = "read_time")]
    event_time: Option<Timestamp>,
    series: Option<EventSeries>,
    #[serde(default, deserialize_with = "nullable")]
    action: Text,
    related: Option<ObjectReference>,
    #[serde(default, deserialize_with = "nullable")]
    reporting_component: Text,
    #[serde(default, deserialize_with = "nullable")]
    reporting_instance: Text,
    // The fields whose names differ in events.k8s.io/v1.
    regarding: Option<ObjectReference>,
    note: Option<Text>,
    reporting_controller: Option<Text>,
    #[serde(default, deserialize_with = "nullable")]
    deprecated_source: EventSource,
    #[serde(default, deserialize_with = "read_time")]
    deprecated_first_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "read_time")]
    deprecated_last_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "nullable")]
    deprecated_count: i32,
    // The remaining fields do not belong to an event, but to other documents that contain events.
    items: Option<IgnoredAny>,
    object: Option<IgnoredAny>,
}

impl EventIn {
    /// Returns whether the document is an event of events.k8s.io. The v1beta1 and v1 versions of
    /// that API use the same field names. A document without a version counts as such an event if
    /// it has no `involvedObject`, but has a `regarding`, a `note` or a `reportingController`.
    fn is_events_v1(&self) -> bool {
        match self.api_version.as_str() {
            "events.k8s.io/v1" | "events.k8s.io/v1beta1" => true,
            "" => {
                self.lacks_object()
                    && (self.regarding.is_some()
                        || self.note.is_some()
                        || self.reporting_controller.is_some())
            }
            _ => false,
        }
    }

    fn lacks_object(&self) -> bool {
        self.involved_object == ObjectReference::default()
    }

    /// In a document of events.k8s.io, moves the values of the fields that this API names
    /// differently to the corresponding core/v1 fields, as an API server does. If the document also
    /// contains these core/v1 fields, their values are ignored.
    fn convert(&mut self) {
        self.involved_object = self.regarding.take().unwrap_or_default();
        self.message = self.note.take().unwrap_or_default();
        self.reporting_component = self.reporting_controller.take().unwrap_or_default();
        self.source = std::mem::take(&mut self.deprecated_source);
        self.first_timestamp = self.deprecated_first_timestamp;
        self.last_timestamp = self.deprecated_last_timestamp;
        self.count = self.deprecated_count;
        if !self.api_version.is_empty() {
            self.api_version = Text::from_static("v1");
        }
    }

    /// If the document is not an event, returns a message that describes the document and specifies
    /// what to read instead. Returns `None` if the document is an event.
    fn refusal(&self) -> Option<String> {
        let Self { kind, api_version, .. } = self;
        let shown =
            |text: &Text, default| format!("{:.64}", escape(if text.is_empty() { default } else { text }));
        let group = shown(api_version, "v1");
        if self.items.is_some() || kind.ends_with("List") {
            return Some(format!(
                "found `{}` of `{group}`: read each of its `items` by itself",
                shown(kind, "List")
            ));
        }
        if !kind.is_empty() && kind != "Event" {
            return Some(format!("found `{}` of `{group}`: give an `Event` of `v1`", shown(kind, "")));
        }
        if self.is_events_v1() {
            return None;
        }
        if !api_version.is_empty() && api_version != "v1" {
            return Some(format!(
                "found `Event` of `{group}`: get the same event as `v1`, for example with \
                 `kubectl get events.v1. -o json`"
            ));
        }
        if self.lacks_object() && self.object.is_some() {
            return Some("found an event of a watch: read its `object`".to_owned());
        }
        None
    }
}

/// Serialises the event in the core/v1 format. To write JSON with the same escapes as Go, use
/// [`Event::to_json`].
impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        EventOut::serialize(self, serializer)
    }
}

/// Deserialises an event by the same rules as [`Event::from_json`].
impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut found = EventIn::deserialize(ObjectOnly(deserializer))?;
        if let Some(refusal) = found.refusal() {
            return Err(D::Error::custom(refusal));
        }
        if found.is_events_v1() {
            found.convert();
        }
        let mut event = Self {
            metadata: found.metadata,
            involved_object: found.involved_object,
            reason: found.reason,
            message: found.message,
            source: found.source,
            first_timestamp: found.first_timestamp,
            last_timestamp: found.last_timestamp,
            count: found.count,
            type_: found.r#type,
            reporting_controller: found.reporting_component,
            reporting_instance: found.reporting_instance,
            ..Self::default()
        };
        event.set_kind(found.kind);
        event.set_api_version(found.api_version);
        event.set_action(found.action);
        event.set_event_time(found.event_time);
        event.set_series(found.series);
        event.set_related(found.related);
        Ok(event)
    }
}

#[derive(Serialize)]
#[serde(remote = "ObjectMeta", rename_all = "camelCase")]
struct ObjectMetaOut {
    #[serde(skip_serializing_if = "is_empty")]
    name: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "ObjectMeta::generate_name")]
    generate_name: Text,
    #[serde(skip_serializing_if = "is_empty")]
    namespace: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "ObjectMeta::self_link")]
    self_link: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "ObjectMeta::uid")]
    uid: Text,
    #[serde(skip_serializing_if = "is_empty", getter = "ObjectMeta::resource_version")]
    resource_version: Text,
    #[serde(skip_serializing_if = "is_unset", serialize_with = "write_seconds")]
    #[serde(getter = "ObjectMeta::creation_timestamp")]
    creation_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", getter = "ObjectMeta::labels")]
    labels: BTreeMap<Text, Text>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty", getter = "ObjectMeta::annotations")]
    annotations: BTreeMap<Text, Text>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", expecting = "metadata, as a JSON object")]
struct ObjectMetaIn {
    #[serde(default, deserialize_with = "nullable")]
    name: Text,
    #[serde(default, deserialize_with = "nullable")]
    generate_name: Text,
    #[serde(default, deserialize_with = "nullable")]
    namespace: Text,
    #[serde(default, deserialize_with = "nullable")]
    self_link: Text,
    #[serde(default, deserialize_with = "nullable")]
    uid: Text,
    #[serde(default, deserialize_with = "nullable")]
    resource_version: Text,
    #[serde(default, deserialize_with = "read_time")]
    creation_timestamp: Option<Timestamp>,
    #[serde(default, deserialize_with = "texts")]
    labels: BTreeMap<Text, Text>,
    #[serde(default, deserialize_with = "texts")]
    annotations: BTreeMap<Text, Text>,
}

impl Serialize for ObjectMeta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        ObjectMetaOut::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let found = ObjectMetaIn::deserialize(ObjectOnly(deserializer))?;
        let mut metadata = Self { name: found.name, namespace: found.namespace, ..Self::default() };
        metadata.set_generate_name(found.generate_name);
        metadata.set_self_link(found.self_link);
        metadata.set_uid(found.uid);
        metadata.set_resource_version(found.resource_version);
        metadata.set_creation_timestamp(found.creation_timestamp);
        if !found.labels.is_empty() {
            *metadata.labels_mut() = found.labels;
        }
        if !found.annotations.is_empty() {
            *metadata.annotations_mut() = found.annotations;
        }
        Ok(metadata)
    }
}
