//! Formats an event as one line.

use std::fmt;

use crate::escape::{escape, escape_message};

use super::core_v1::Event;

/// Writes the event as one line with the columns of `kubectl get events`: time, type, reason,
/// object and message. Control characters and invisible characters are
/// [escaped](crate::escape). [`EventBroadcaster::log_to`](crate::EventBroadcaster::log_to)
/// describes the columns.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, ObjectReference};
///
/// let mut event = Event::default();
/// event.last_timestamp = Some("2024-01-31T08:15:00Z".parse()?);
/// event.involved_object = ObjectReference::new("Pod", "web-0");
/// (event.type_, event.reason) = ("Warning".into(), "BackOff".into());
/// event.message = "restarting\u{1b}[2J".into();
/// let line = r"2024-01-31T08:15:00Z  Warning  BackOff  pod/web-0  restarting\u{1b}[2J";
/// assert_eq!(event.to_string(), line);
/// # Ok::<(), eventcast::error::ParseError>(())
/// ```
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { involved_object: object, type_, reason, message, .. } = self;
        let at = self.last_seen().map_or_else(|| "<unknown>".to_owned(), |at| format!("{at:.0}"));
        let kind = object.kind.to_lowercase();
        let slash = if object.name.is_empty() { "" } else { "/" };
        // The `Display` implementation of an escaped string ignores the width, so the type is
        // converted to a `String` first.
        let type_ = escape(type_).to_string();
        let (reason, kind, name) = (escape(reason), escape(&kind), escape(&object.name));
        let message = escape_message(message.trim());
        write!(f, "{at:20}  {type_:7}  {reason}  {kind}{slash}{name}  {message}")
    }
}
