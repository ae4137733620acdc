//! Events as JSON text, byte for byte as Go's encoder writes them.

use std::error::Error;
use std::{fmt, io};

use super::core_v1::Event;
use super::json_writer::push_event;
use crate::escape::escaped_to;

impl Event {
    /// The event as Go's encoder writes a core/v1 Event: on one line, without a newline at the end.
    ///
    /// Times are cut to what Kubernetes keeps, whole seconds or microseconds. Reading it back with
    /// [`from_json`](Self::from_json) gives the same event but for what was cut, unless `kind` or `apiVersion` was set to
    /// another than `Event` and `v1`.
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
    /// # Ok::<(), eventcast::EventJsonError>(())
    /// ```
    pub fn to_json(&self) -> String {
        let mut json = String::with_capacity(768 + self.message.len());
        push_event(&mut json, self);
        json
    }

    /// As [`to_json`](Self::to_json), into a writer.
    ///
    /// # Errors
    ///
    /// Only the writer's own.
    pub fn write_json(&self, mut writer: impl io::Write) -> io::Result<()> {
        writer.write_all(self.to_json().as_bytes())
    }

    /// Reads a core/v1 Event as an API server or `kubectl get event -o json` gives it.
    ///
    /// Unknown fields are ignored, `null` is as good as absent, a time may have any fraction, and `kind` and
    /// `apiVersion` may be missing.
    ///
    /// # Errors
    ///
    /// Text that is no JSON object, a field twice or of another type, a count that is no 32-bit integer, a time that
    /// is not RFC 3339 of the years 0000 to 9999, half of a surrogate pair. The error says what and where.
    ///
    /// Another document than a core/v1 Event: an `EventList`, an event of events.k8s.io/v1, an event of a watch, any other
    /// kind. The error says what was found and what to read instead.
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
    /// # Ok::<(), eventcast::EventJsonError>(())
    /// ```
    pub fn from_json(json: &str) -> Result<Self, EventJsonError> {
        serde_json::from_str(json).map_err(|error| EventJsonError::new(&error))
    }
}

/// Text that is not the JSON of an event: says what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventJsonError {
    line: usize,
    column: usize,
    /// With the place at its end, escaped and cut.
    text: String,
}

impl EventJsonError {
    fn new(error: &serde_json::Error) -> Self {
        let text = escaped_to(&error.to_string(), 300).to_string();
        Self { line: error.line(), column: error.column(), text }
    }

    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// The column, in bytes, up to which the text was read.
    pub fn column(&self) -> usize {
        self.column
    }
}

impl fmt::Display for EventJsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not the JSON of an event: {}", self.text)
    }
}

impl Error for EventJsonError {}
