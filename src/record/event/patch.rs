//! The one change that a stored event gets when it is seen again.

use std::fmt;

use serde::Serialize;

use super::core_v1::{Event, EventSeries};
use super::json_writer;
use super::text::Text;
use super::timed::is_timed;
use super::timestamp::Timestamp;
use super::wire_fields::{is_empty, is_zero, write_seconds};

/// A strategic merge patch, as client-go would send it: JSON with `count`, `lastTimestamp` and
/// `message`. If the event has an event time and a series, and no count, the JSON has the series
/// alone.
///
/// A store that uses `update` does not need the patch, because the event that comes with the patch
/// is the result.
///
/// # Examples
///
/// ```
/// use eventcast::event::EventPatch;
/// use eventcast::Event;
///
/// let mut event = Event::default();
/// event.count = 2;
/// event.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse()?);
/// event.message = "a<b".into();
/// let patch = r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"a\u003cb"}"#;
/// assert_eq!(EventPatch::new(&event).as_bytes(), patch.as_bytes());
/// # Ok::<(), eventcast::error::ParseError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPatch {
    json: String,
}

/// The fields as they are written, in this order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PatchOut<'a> {
    #[serde(skip_serializing_if = "is_zero")]
    count: i32,
    #[serde(skip_serializing_if = "is_epoch", serialize_with = "write_seconds")]
    last_timestamp: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_empty")]
    message: &'a Text,
}

/// Returns whether the time is 1970-01-01T00:00:00Z in whole seconds, as client-go compares times.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde's signature")]
fn is_epoch(at: &Option<Timestamp>) -> bool {
    at.map(Timestamp::whole_seconds) == Some(Timestamp::UNIX_EPOCH)
}

/// The only field of the other API that is written.
#[derive(Serialize)]
struct SeriesOut {
    series: EventSeries,
}

/// Returns the series if the patch of this event changes nothing else.
pub(crate) fn changed_series(event: &Event) -> Option<EventSeries> {
    event.series().filter(|_| is_timed(event))
}

impl EventPatch {
    /// Creates the patch that gives a stored event the count, last time and message of `event`.
    ///
    /// client-go computes this patch as the difference from an event whose count is 0, whose last
    /// time is 1970-01-01T00:00:00Z and whose message is empty. Values equal to these are therefore
    /// left out.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventPatch;
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// event.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    /// assert_eq!(EventPatch::new(&event).as_str(), "{}");
    /// event.count = 2;
    /// assert_eq!(EventPatch::new(&event).to_string(), r#"{"count":2}"#);
    /// ```
    pub fn new(event: &Event) -> Self {
        if let Some(series) = changed_series(event) {
            return Self { json: json_writer::to_string(&SeriesOut { series }, 80) };
        }
        let Event { count, last_timestamp, message, .. } = event;
        let patch = PatchOut { count: *count, last_timestamp: *last_timestamp, message };
        Self { json: json_writer::to_string(&patch, 72 + message.len()) }
    }

    /// Returns the patch as the bytes that a client sends.
    pub fn as_bytes(&self) -> &[u8] {
        self.json.as_bytes()
    }

    /// Returns the patch as text.
    pub fn as_str(&self) -> &str {
        &self.json
    }
}

/// Shows the same text as [`as_str`](EventPatch::as_str).
impl fmt::Display for EventPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}
