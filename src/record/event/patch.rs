//! The patch that updates a stored event when the event is seen again. Stored events are not
//! changed in any other way.

use serde::Serialize;

use super::core_v1::{Event, EventSeries};
use super::json_writer;
use super::text::Text;
use super::timed::is_timed;
use super::timestamp::Timestamp;
use super::wire_fields::{is_empty, is_zero, write_seconds};

/// The fields of the patch, in the order in which they are serialised.
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

/// Returns whether the time, truncated to whole seconds, is 1970-01-01T00:00:00Z. client-go
/// compares times in the same way.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde's signature")]
fn is_epoch(at: &Option<Timestamp>) -> bool {
    at.map(Timestamp::trunc_to_second) == Some(Timestamp::UNIX_EPOCH)
}

/// The patch for an event that is counted in its series. This patch contains only the series.
#[derive(Serialize)]
struct SeriesOut {
    series: EventSeries,
}

/// Returns the series if the series is the only field that this event's patch changes.
pub(crate) fn changed_series(event: &Event) -> Option<EventSeries> {
    event.series().filter(|_| is_timed(event))
}

impl Event {
    /// Returns the strategic merge patch that sets a stored event's count, last time and message to
    /// the values in this event. The patch is the JSON that client-go would send, with `count`,
    /// `lastTimestamp` and `message`. If the event has an event time, a series and no count, the
    /// JSON contains only the series.
    ///
    /// client-go computes this patch as the difference from an event whose count is 0, whose last
    /// time is 1970-01-01T00:00:00Z and whose message is empty. Fields with these values are
    /// therefore omitted.
    ///
    /// A store that uses `update` does not need the patch, because
    /// [`EventSink::patch`](crate::EventSink::patch) already receives the updated event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, Timestamp};
    ///
    /// let mut event = Event::default();
    /// event.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    /// assert_eq!(event.to_patch_json(), "{}");
    /// event.count = 2;
    /// event.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse()?);
    /// event.message = "a<b".into();
    /// let patch = r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"a\u003cb"}"#;
    /// assert_eq!(event.to_patch_json(), patch);
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    #[doc(alias("strategic merge patch", "EventPatch"))]
    pub fn to_patch_json(&self) -> String {
        if let Some(series) = changed_series(self) {
            return json_writer::to_string(&SeriesOut { series }, 80);
        }
        let Self { count, last_timestamp, message, .. } = self;
        let patch = PatchOut { count: *count, last_timestamp: *last_timestamp, message };
        json_writer::to_string(&patch, 72 + message.len())
    }
}
