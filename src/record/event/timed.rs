//! Events with an event time, as events.k8s.io/v1 requires. This module defines the limits that
//! apply to such events, and converts a recorded event into an event with an event time.
//!
//! The limits match the API server's validation (Kubernetes 1.36). The server checks the limits for
//! events with an event time, regardless of which API is used, and measures lengths in bytes.

use std::fmt;

use serde::Serialize;

use super::core_v1::Event;
use super::name;
use super::reference::EventSource;
use super::text::Text;
use super::timestamp::Timestamp;

/// The maximum length, in bytes, of an event's message if the event has an event time.
pub(crate) const MAX_TIMED_MESSAGE: usize = 1024;
/// The maximum length, in bytes, of the reporting instance, the action and the reason in an event
/// with an event time.
pub(crate) const MAX_TIMED_TEXT: usize = 128;
/// The maximum length, in bytes, of the name part of a qualified name.
const MAX_QUALIFIED: usize = 63;

/// A field that an API server validates if an event has an event time.
///
/// # Examples
///
/// ```
/// use eventcast::event::EventField;
///
/// assert_eq!(EventField::ReportingController.to_string(), "reportingController");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum EventField {
    /// The action must be 1 to 128 bytes long. If an event has no action, the recorder uses the
    /// event's reason instead.
    Action,
    /// The reason must be 1 to 128 bytes long.
    Reason,
    /// The reporting controller must be a qualified name: a name of 1 to 63 ASCII letters, digits,
    /// `-`, `_` and `.`, optionally preceded by a DNS subdomain and a slash.
    ReportingController,
    /// The reporting instance must be 1 to 128 bytes long.
    ReportingInstance,
}

impl EventField {
    /// Returns the field's name in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Reason => "reason",
            Self::ReportingController => "reportingController",
            Self::ReportingInstance => "reportingInstance",
        }
    }
}

impl fmt::Display for EventField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns whether an event is counted in its series, which is the case if it has an event time and
/// no core/v1 count.
pub(crate) fn is_timed(event: &Event) -> bool {
    event.event_time().is_some() && event.count == 0
}

/// Checks the reason, then the action. Returns the first field that would be invalid in an event
/// with an event time, if any.
pub(crate) fn wrong_text(reason: &str, action: &str) -> Option<EventField> {
    if !(1..=MAX_TIMED_TEXT).contains(&reason.len()) {
        return Some(EventField::Reason);
    }
    (action.len() > MAX_TIMED_TEXT).then_some(EventField::Action)
}

/// Returns the field of an event with an event time that would be invalid because of this source,
/// if any. The component becomes the reporting controller, and the host becomes the reporting
/// instance.
pub(crate) fn wrong_source(source: &EventSource) -> Option<EventField> {
    if !is_qualified(&source.component) {
        return Some(EventField::ReportingController);
    }
    let is_right = (1..=MAX_TIMED_TEXT).contains(&source.host.len());
    (!is_right).then_some(EventField::ReportingInstance)
}

/// Returns whether `text` is a qualified name as defined by Kubernetes: a name of ASCII letters,
/// digits, `-`, `_` and `.` that begins and ends with a letter or a digit. The name may be preceded
/// by a DNS subdomain and a slash.
pub(crate) fn is_qualified(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let is_prefix = |prefix: &str| prefix.len() <= name::MAX_NAME && name::is_subdomain(prefix);
    prefix.is_none_or(is_prefix) && is_name_part(name)
}

/// Returns whether `name` can be the name part of a qualified name. A non-empty label value must
/// have the same form.
pub(crate) fn is_name_part(name: &str) -> bool {
    name.len() <= MAX_QUALIFIED
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// Returns the time truncated to microseconds, the precision that Kubernetes keeps for an event
/// time.
pub(crate) fn whole_micros(at: Timestamp) -> Option<Timestamp> {
    let nanos = at.subsec_nanos();
    Timestamp::new(at.as_secs(), nanos - nanos % 1000)
}

/// Converts a recorded event, whose name must already have been generated, into an event with an
/// event time. Clears the fields that exist only in core/v1 (source, count, first and last time),
/// as an API server requires.
pub(crate) fn set_event_time(event: &mut Event) {
    let at = event.last_timestamp.take().and_then(whole_micros);
    event.set_event_time(at);
    event.first_timestamp = None;
    event.count = 0;
    event.source = EventSource::default();
}

/// Sets an event's action to its reason if the event has no action. The caller must scrub the event
/// first, because the reason may contain data that must not be shown.
pub(crate) fn set_action(event: &mut Event) {
    if event.action().is_empty() {
        event.set_action(event.reason.clone());
    }
}

/// Returns the source for a recorder whose events have an event time. If the source has no host,
/// this function adds a host, because the host becomes the reporting instance.
pub(crate) fn with_instance(source: EventSource) -> EventSource {
    if !source.host.is_empty() {
        return source;
    }
    // Like client-go, this function ignores an error here.
    let host = hostname::get().unwrap_or_default();
    let instance = Text::from(format_args!("{}-{}", source.component, host.to_string_lossy()));
    source.on_host(instance)
}
