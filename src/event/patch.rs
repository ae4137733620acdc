//! The one change that a stored event gets when it is seen again.

use std::fmt::{self, Write as _};

use super::{Event, Timestamp, json};

/// A strategic merge patch, as client-go would send it: JSON with `count`, `lastTimestamp` and `message`.
///
/// A store that has an `update` does not need it: the event that comes with it is the result.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventPatch};
///
/// let mut event = Event::default();
/// event.count = 2;
/// event.last_timestamp = Some("2024-01-02T03:04:05.9Z".parse()?);
/// event.message = "a<b".into();
/// let patch = r#"{"count":2,"lastTimestamp":"2024-01-02T03:04:05Z","message":"a\u003cb"}"#;
/// assert_eq!(EventPatch::new(&event).as_bytes(), patch.as_bytes());
/// # Ok::<(), eventcast::TimestampError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPatch {
    json: String,
}

impl EventPatch {
    /// What makes the stored event's count, last time and message those of `event`.
    ///
    /// client-go computes it as the difference from an event whose count is 0, whose last time is 1970-01-01T00:00:00Z
    /// and whose message is empty, so what equals those is left out.
    pub fn new(event: &Event) -> Self {
        let mut json = String::with_capacity(64 + event.message.len());
        let mut before = '{';
        if event.count != 0 {
            let _ = write!(json, "{before}\"count\":{}", event.count);
            before = ',';
        }
        match event.last_timestamp.filter(|at| *at != Timestamp::GO_ZERO) {
            // It compares what it writes, which is whole seconds.
            Some(at) if at.whole_seconds() == Timestamp::UNIX_EPOCH => {}
            Some(at) => {
                let _ = write!(json, "{before}\"lastTimestamp\":\"{at:.0}\"");
                before = ',';
            }
            None => {
                let _ = write!(json, "{before}\"lastTimestamp\":null");
                before = ',';
            }
        }
        if !event.message.is_empty() {
            let _ = write!(json, "{before}\"message\":");
            json::push(&mut json, &event.message);
            before = ',';
        }
        json.push_str(if before == '{' { "{}" } else { "}" });
        Self { json }
    }

    /// The patch as it goes over the wire.
    pub fn as_bytes(&self) -> &[u8] {
        self.json.as_bytes()
    }

    /// The patch as text.
    pub fn as_str(&self) -> &str {
        &self.json
    }
}

/// As [`as_str`](EventPatch::as_str).
impl fmt::Display for EventPatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.json)
    }
}
