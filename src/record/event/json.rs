//! Converts events to and from JSON. The JSON written is byte for byte identical to the output of
//! Go's encoder.

use std::error::Error;
use std::fmt;

use super::core_v1::Event;
use super::json_writer;
use super::wire_events_v1::EventsV1;
use crate::escape::escape;

impl Event {
    /// Serialises the event to JSON in the format that Go's encoder uses for a core/v1 Event. The
    /// JSON is on one line, without a trailing newline.
    ///
    /// Times are truncated to the precision that Kubernetes keeps (whole seconds or microseconds).
    /// Apart from the truncated fractions, [`from_json`](Self::from_json) returns the same event
    /// when it reads this JSON. If `kind` or `apiVersion` was set to a value other than `Event` and
    /// `v1`, [`from_json`](Self::from_json) returns an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.17a6".into();
    /// event.message = "exit code > 0".into();
    /// let json = event.to_json();
    /// assert!(json.starts_with(r#"{"metadata":{"name":"web-0.17a6"},"involvedObject":{},"#));
    /// assert!(json.contains(r#""message":"exit code \u003e 0""#));
    /// assert_eq!(Event::from_json(&json)?, event);
    /// # Ok::<(), eventcast::event::EventJsonError>(())
    /// ```
    pub fn to_json(&self) -> String {
        json_writer::to_string(self, 768 + self.message.len())
    }

    /// Serialises the event to JSON in the format that Go's encoder uses for an events.k8s.io/v1
    /// Event. The JSON is on one line, without a trailing newline.
    ///
    /// Kubernetes stores one object for both APIs. The JSON returned here contains the same event
    /// in the format of the events.k8s.io API. The version in the JSON is `events.k8s.io/v1`,
    /// regardless of [`api_version`](Self::api_version). Times are truncated as in
    /// [`to_json`](Self::to_json), and [`from_json`](Self::from_json) reads both formats.
    ///
    /// This method does not validate the event. An API server accepts an event through
    /// events.k8s.io/v1 only if the event has an event time, a reporting controller and instance,
    /// an action, a reason and a type, and has no count, source, first time or last time.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, ObjectReference, Timestamp};
    ///
    /// let mut event = Event::default();
    /// event.involved_object = ObjectReference::new("Pod", "web-0");
    /// event.message = "restarted".into();
    /// event.set_event_time(Timestamp::UNIX_EPOCH);
    /// let json = event.to_events_v1_json();
    /// assert!(json.starts_with(r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{},"#));
    /// assert!(json.contains(r#""eventTime":"1970-01-01T00:00:00.000000Z""#));
    /// assert!(json.contains(r#""regarding":{"kind":"Pod","name":"web-0"},"note":"restarted""#));
    /// assert_eq!(Event::from_json(&json)?.message, event.message);
    /// # Ok::<(), eventcast::event::EventJsonError>(())
    /// ```
    #[doc(alias = "events.k8s.io")]
    pub fn to_events_v1_json(&self) -> String {
        json_writer::to_string(&EventsV1(self), 896 + self.message.len())
    }

    /// Parses a core/v1 or events.k8s.io/v1 Event, as returned by an API server or by
    /// `kubectl get event -o json`.
    ///
    /// Unknown fields are ignored, and `null` is treated as absent. The fraction of a time may be
    /// of any length. `kind` and `apiVersion` may be missing.
    ///
    /// An event of events.k8s.io (v1 or v1beta1) is converted into the event that an API server
    /// would return through core/v1, and its [`api_version`](Self::api_version) becomes `v1`. A
    /// document without an `apiVersion` is treated as an event of events.k8s.io if it has no
    /// `involvedObject`, but has a `regarding`, a `note` or a `reportingController`. The
    /// [`api_version`](Self::api_version) of such an event stays empty.
    ///
    /// # Errors
    ///
    /// Returns an error with a description and a position in any of these cases:
    ///
    /// - The text is not a JSON object.
    /// - A field occurs twice, or has the wrong type.
    /// - A count is not a 32-bit integer.
    /// - A time is not in RFC 3339 format with a year from 0000 to 9999.
    /// - A string contains only one half of a surrogate pair.
    ///
    /// If the document is not an event, the error describes what was found and what to read
    /// instead. A document is not an event if it is an `EventList`, a watch event, a document of
    /// any other kind, or an Event of another API.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    ///
    /// let event = Event::from_json(r#"{"reason": "Started", "series": null, "x": [1]}"#)?;
    /// assert_eq!(event.reason, "Started");
    ///
    /// let error = Event::from_json("{\"reason\": \"Started\",\n\"count\": 3000000000}").unwrap_err();
    /// assert_eq!((error.line(), error.column()), (2, 19));
    ///
    /// let error = Event::from_json(r#"{"kind": "EventList", "apiVersion": "v1", "items": []}"#).unwrap_err();
    /// assert!(error.to_string().contains("read each of its `items`"));
    /// # Ok::<(), eventcast::event::EventJsonError>(())
    /// ```
    pub fn from_json(json: &str) -> Result<Self, EventJsonError> {
        serde_json::from_str(json).map_err(|error| EventJsonError::new(&error))
    }
}

/// The error returned for text that is not an event in JSON. The error describes the problem and
/// its position.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
///
/// let error = Event::from_json("{\"reason\":\n7}").unwrap_err();
/// assert_eq!((error.line(), error.column()), (2, 1));
/// assert_eq!(
///     error.to_string(),
///     "not an event in JSON: invalid type: integer `7`, expected a string at line 2 column 1"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventJsonError {
    line: usize,
    column: usize,
    /// The description, which ends with the position and is escaped and truncated to 300
    /// characters.
    text: String,
}

impl EventJsonError {
    fn new(error: &serde_json::Error) -> Self {
        let text = format!("{:.300}", escape(&error.to_string()));
        Self { line: error.line(), column: error.column(), text }
    }

    /// Returns the line number, starting at 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Returns the column, in bytes, that the parser had reached when it detected the problem.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for EventJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not an event in JSON: {}", self.text)
    }
}

impl Error for EventJsonError {}
