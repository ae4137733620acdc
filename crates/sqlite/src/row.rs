//! Converts events to rows and rows to events. Each field of an event is stored unchanged in one of
//! the columns.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use eventcast::event::EventSeries;
use eventcast::{Event, ObjectReference, Text, Timestamp};
use rusqlite::types::Type;
use rusqlite::{CachedStatement, Row, params};
use serde::{Deserialize, Serialize};

/// The names of the columns, in the order in which [`event_of`] and [`write()`] number the columns.
macro_rules! columns {
    () => {
        "resourceVersion, expires, namespace, name, lastSeen, type, reason, involvedObjectKind, \
         involvedObjectNamespace, involvedObjectName, count, message, firstTimestamp, lastTimestamp, eventTime, \
         action, sourceComponent, sourceHost, reportingComponent, reportingInstance, involvedObjectUid, \
         involvedObjectApiVersion, involvedObjectResourceVersion, involvedObjectFieldPath, uid, creationTimestamp, rest"
    };
}

pub(crate) use columns;

/// A list of statement parameters with one question mark for each column.
macro_rules! marks {
    () => {
        "?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?"
    };
}

pub(crate) use marks;

/// The condition that selects an event by namespace and name, written in a form that lets SQLite
/// use an index.
macro_rules! is_named {
    () => {
        "substr(name, -16) = substr(?2, -16) AND namespace = ?1 AND name = ?2"
    };
}

pub(crate) use is_named;

/// The fields that only a few events have, with the same structure as in an event's JSON.
#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Rest {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: Text,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: Text,
    #[serde(skip_serializing_if = "RestOfMetadata::is_empty")]
    metadata: RestOfMetadata,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<EventSeries>,
    #[serde(skip_serializing_if = "Option::is_none")]
    related: Option<ObjectReference>,
}

#[derive(Default, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RestOfMetadata {
    #[serde(skip_serializing_if = "str::is_empty")]
    generate_name: Text,
    #[serde(skip_serializing_if = "str::is_empty")]
    self_link: Text,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: BTreeMap<Text, Text>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: BTreeMap<Text, Text>,
}

impl RestOfMetadata {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Rest {
    /// Returns the rarely used fields of an event as JSON. Returns `None` if the event has none of
    /// these fields, which is the case for most events.
    fn of(event: &Event) -> Option<String> {
        let metadata = &event.metadata;
        let texts = [event.kind(), event.api_version(), metadata.generate_name(), metadata.self_link()];
        if texts.into_iter().all(|text| text.is_empty())
            && metadata.labels().is_empty()
            && metadata.annotations().is_empty()
            && event.series().is_none()
            && event.related().is_none()
        {
            return None;
        }
        let rest = Self {
            kind: event.kind().clone(),
            api_version: event.api_version().clone(),
            metadata: RestOfMetadata {
                generate_name: metadata.generate_name().clone(),
                self_link: metadata.self_link().clone(),
                labels: metadata.labels().clone(),
                annotations: metadata.annotations().clone(),
            },
            series: event.series(),
            related: event.related().cloned(),
        };
        // Serialising these fields never fails, because all keys are strings.
        serde_json::to_string(&rest).ok()
    }

    fn add_to(self, event: &mut Event) {
        event.set_kind(self.kind);
        event.set_api_version(self.api_version);
        event.set_series(self.series);
        event.set_related(self.related);
        let RestOfMetadata { generate_name, self_link, labels, annotations } = self.metadata;
        event.metadata.set_generate_name(generate_name);
        event.metadata.set_self_link(self_link);
        if !labels.is_empty() {
            *event.metadata.labels_mut() = labels;
        }
        if !annotations.is_empty() {
            *event.metadata.annotations_mut() = annotations;
        }
    }
}

/// Converts a counter to a SQLite integer, which is signed. No counter reaches `i64::MAX`.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Formats a time with microsecond precision and a fixed length, so that the strings sort
/// chronologically.
pub(crate) fn micros(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// Returns a time in microseconds since 1970.
pub(crate) fn unix_micros(at: Timestamp) -> i64 {
    let micros = at.as_nanos().div_euclid(1000);
    // The number always fits, because the year of a timestamp has four digits.
    i64::try_from(micros).unwrap_or(i64::MAX)
}

fn seconds(at: Timestamp) -> String {
    format!("{at:.0}")
}

/// Executes a statement with one parameter for each column, and returns the number of rows written.
pub(crate) fn write(
    statement: &mut CachedStatement<'_>,
    event: &Event,
    version: u64,
    expires: &str,
) -> rusqlite::Result<usize> {
    let object = &event.involved_object;
    statement.execute(params![
        signed(version),
        expires,
        event.metadata.namespace.as_str(),
        event.metadata.name.as_str(),
        event.last_seen().map(micros),
        event.type_.as_str(),
        event.reason.as_str(),
        object.kind.as_str(),
        object.namespace.as_str(),
        object.name.as_str(),
        event.count,
        event.message.as_str(),
        event.first_timestamp.map(seconds),
        event.last_timestamp.map(seconds),
        event.event_time().map(micros),
        event.action().as_str(),
        event.source.component.as_str(),
        event.source.host.as_str(),
        event.reporting_controller.as_str(),
        event.reporting_instance.as_str(),
        object.uid.as_str(),
        object.api_version.as_str(),
        object.resource_version.as_str(),
        object.field_path.as_str(),
        event.metadata.uid().as_str(),
        event.metadata.creation_timestamp().map(seconds),
        Rest::of(event),
    ])
}

/// Returns the event in a row that contains all columns.
pub(crate) fn event_of(row: &Row<'_>) -> rusqlite::Result<Event> {
    let mut event = Event::default();
    event.metadata.set_resource_version(version_of(row)?.to_string());
    event.metadata.namespace = text(row, 2)?;
    event.metadata.name = text(row, 3)?;
    event.type_ = text(row, 5)?;
    event.reason = text(row, 6)?;
    event.involved_object.kind = text(row, 7)?;
    event.involved_object.namespace = text(row, 8)?;
    event.involved_object.name = text(row, 9)?;
    event.count = row.get(10)?;
    event.message = text(row, 11)?;
    event.first_timestamp = time(row, 12)?;
    event.last_timestamp = time(row, 13)?;
    event.set_event_time(time(row, 14)?);
    event.set_action(text(row, 15)?);
    event.source.component = text(row, 16)?;
    event.source.host = text(row, 17)?;
    event.reporting_controller = text(row, 18)?;
    event.reporting_instance = text(row, 19)?;
    event.involved_object.uid = text(row, 20)?;
    event.involved_object.api_version = text(row, 21)?;
    event.involved_object.resource_version = text(row, 22)?;
    event.involved_object.field_path = text(row, 23)?;
    event.metadata.set_uid(text(row, 24)?);
    event.metadata.set_creation_timestamp(time(row, 25)?);
    if let Some(rest) = row.get_ref(26)?.as_str_or_null()? {
        let rest: Rest = serde_json::from_str(rest).map_err(|error| unreadable(26, error))?;
        rest.add_to(&mut event);
    }
    Ok(event)
}

/// Returns the event in a row that contains all columns. If the row does not contain a valid event,
/// because another program wrote the row, this function returns `None` and increments `unreadable`.
/// The caller skips such a row so that the remaining rows can still be read.
pub(crate) fn readable(row: &Row<'_>, unreadable: &AtomicU64) -> Option<Event> {
    let event = event_of(row).ok();
    if event.is_none() {
        // Relaxed: only the value matters.
        unreadable.fetch_add(1, Ordering::Relaxed);
    }
    event
}

/// Returns the number of an event's last write, from a row that contains all columns.
pub(crate) fn version_of(row: &Row<'_>) -> rusqlite::Result<u64> {
    Ok(row.get::<_, i64>(0)?.unsigned_abs())
}

fn text(row: &Row<'_>, column: usize) -> rusqlite::Result<Text> {
    Ok(row.get_ref(column)?.as_str().map_err(|error| unreadable(column, error))?.into())
}

fn time(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    let found = row.get_ref(column)?.as_str_or_null().map_err(|error| unreadable(column, error))?;
    found.map(|text| text.parse().map_err(|error| unreadable(column, error))).transpose()
}

fn unreadable(column: usize, error: impl std::error::Error + Send + Sync + 'static) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
