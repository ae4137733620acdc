//! The one change that a stored event gets when it is seen again.

use std::fmt;

use super::core_v1::Event;
use super::json_writer::Object;
use super::timestamp::Timestamp;

/// A strategic merge patch, as client-go would send it: JSON with `count`, `lastTimestamp` and
/// `message`.
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
/// # Ok::<(), eventcast::event::TimestampError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPatch {
    json: String,
}

impl EventPatch {
    /// Creates the patch that gives a stored event the count, last time and message of `event`.
    ///
    /// client-go computes this patch as the difference from an event whose count is 0, whose last
    /// time is 1970-01-01T00:00:00Z and whose message is empty. Values equal to these are therefore
    /// left out.
    pub fn new(event: &Event) -> Self {
        let mut json = String::with_capacity(72 + event.message.len());
        let mut object = Object::open(&mut json);
        object.number("count", event.count);
        // client-go compares the times as it writes them: in whole seconds.
        if event.last_timestamp.map(Timestamp::whole_seconds) != Some(Timestamp::UNIX_EPOCH) {
            object.time("lastTimestamp", event.last_timestamp, 0);
        }
        object.text("message", &event.message);
        object.close();
        Self { json }
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
