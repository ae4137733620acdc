//! Events with an event time: the form that events.k8s.io/v1 requires. This module defines the
//! limits of that form, and converts a recorded event to it.
//!
//! The limits match the API server's validation (Kubernetes 1.36). The server checks them for
//! events with an event time, whichever API is used, and measures lengths in bytes.

use std::fmt;

use serde::Serialize;

use super::core_v1::Event;
use super::name;
use super::reference::EventSource;
use super::text::Text;
use super::timestamp::Timestamp;

/// The maximum length of the message of an event with an event time, in bytes.
pub(crate) const MAX_TIMED_MESSAGE: usize = 1024;
/// The maximum length of a reporting instance, an action or a reason in an event with an event
/// time, in bytes.
pub(crate) const MAX_TIMED_TEXT: usize = 128;
/// The maximum length of the name part of a qualified name, in bytes.
const MAX_QUALIFIED: usize = 63;

/// A field that an API server validates in events with an event time.
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
    /// The action must have 1 to 128 bytes. If there is no action, a recorder uses the reason.
    Action,
    /// The reason must have 1 to 128 bytes.
    Reason,
    /// The reporting controller must be a qualified name: a name of 1 to 63 ASCII letters, digits,
    /// `-`, `_` and `.`, optionally preceded by a DNS subdomain and a slash.
    ReportingController,
    /// The reporting instance must have 1 to 128 bytes.
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

/// Returns whether an event is counted in its series, because it has an event time and no core/v1
/// count.
pub(crate) fn is_timed(event: &Event) -> bool {
    event.event_time().is_some() && event.count == 0
}

/// Returns the first of these two fields that is invalid in an event with an event time.
pub(crate) fn wrong_text(reason: &str, action: &str) -> Option<EventField> {
    if !(1..=MAX_TIMED_TEXT).contains(&reason.len()) {
        return Some(EventField::Reason);
    }
    (action.len() > MAX_TIMED_TEXT).then_some(EventField::Action)
}

/// Returns the field that this source would make invalid in an event with an event time, if any.
/// The component becomes the reporting controller, and the host becomes the reporting instance.
pub(crate) fn wrong_source(source: &EventSource) -> Option<EventField> {
    if !is_qualified(&source.component) {
        return Some(EventField::ReportingController);
    }
    let is_right = (1..=MAX_TIMED_TEXT).contains(&source.host.len());
    (!is_right).then_some(EventField::ReportingInstance)
}

/// Returns whether `text` is a qualified name as defined by Kubernetes: a name of ASCII letters,
/// digits, `-`, `_` and `.` that begins and ends with a letter or a digit. It may be preceded by a
/// DNS subdomain and a slash.
pub(crate) fn is_qualified(text: &str) -> bool {
    let (prefix, name) = text.split_once('/').map_or((None, text), |(prefix, name)| (Some(prefix), name));
    let is_prefix = |prefix: &str| prefix.len() <= name::MAX_NAME && name::is_subdomain(prefix);
    prefix.is_none_or(is_prefix) && is_name_part(name)
}

/// Returns whether `name` can be the name part of a qualified name. A non-empty label value has the
/// same form.
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

/// Converts a completed recorded event into an event with an event time. The fields that exist only
/// in core/v1 (source, count, first and last time) are unset, as an API server requires.
pub(crate) fn set_event_time(event: &mut Event) {
    let at = event.last_timestamp.take().and_then(whole_micros);
    event.set_event_time(at);
    event.first_timestamp = None;
    event.count = 0;
    event.source = EventSource::default();
}

/// Sets an event's action to its reason if the event has no action. This must happen after
/// scrubbing, because the reason may contain data that must not be shown.
pub(crate) fn set_action(event: &mut Event) {
    if event.action().is_empty() {
        event.set_action(event.reason.clone());
    }
}

/// Returns the source for a recorder whose events have an event time. If the source has no host,
/// one is added, because the host becomes the reporting instance.
pub(crate) fn with_instance(source: EventSource) -> EventSource {
    if !source.host.is_empty() {
        return source;
    }
    // As in client-go, an error is ignored.
    let host = hostname::get().unwrap_or_default();
    let instance = Text::from(format_args!("{}-{}", source.component, host.to_string_lossy()));
    source.on_host(instance)
}
