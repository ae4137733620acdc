//! Events for logs: one line each, and, with the feature `tracing`, one structured record each.

use std::fmt;

use crate::escape::{escape, escape_message};
use crate::record::event::Event;

/// The form of the lines of a log. Every form escapes control characters and invisible characters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogFormat {
    /// The columns time, type, reason, object and message, with two blanks between them:
    /// `2024-01-31T08:15:00Z  Warning  BackOff  pod/web-0  restarting`.
    ///
    /// - The time is when the event was last seen, in RFC 3339 and UTC, to the second. The column
    ///   is 20 characters wide. If the event has no time, the column shows `<unknown>`.
    /// - The type is padded to 7 characters.
    /// - The reason and the object are as wide as their texts. The object is its kind in lower
    ///   case, a slash and its name, without the namespace.
    /// - The message is without blanks and newlines at its ends.
    #[default]
    Columns,
    /// The form of client-go's logs, with the namespace, and with the uid and the field path if
    /// they are not empty:
    /// `Event(Pod/default/web-0 uid=7f3a): type: 'Warning' reason: 'BackOff' restarting`.
    #[doc(alias = "StartLogging")]
    Klog,
}

/// An event on one line, with control characters escaped.
pub(super) struct Line<'a>(pub(super) LogFormat, pub(super) &'a Event);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            LogFormat::Columns => write_columns(f, self.1),
            LogFormat::Klog => write_klog(f, self.1),
        }
    }
}

fn write_columns(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    let Event { involved_object: object, type_, reason, message, .. } = event;
    let at = event.last_timestamp.or(event.first_timestamp);
    let at = at.map_or_else(|| "<unknown>".to_owned(), |at| format!("{at:.0}"));
    let kind = object.kind.to_lowercase();
    let slash = if object.name.is_empty() { "" } else { "/" };
    // An escaped text does not pad itself.
    let type_ = escape(type_).to_string();
    let (reason, kind, name) = (escape(reason), escape(&kind), escape(&object.name));
    let message = escape_message(message.trim());
    write!(f, "{at:20}  {type_:7}  {reason}  {kind}{slash}{name}  {message}")
}

fn write_klog(f: &mut fmt::Formatter<'_>, event: &Event) -> fmt::Result {
    let Event { involved_object: object, type_, reason, message, .. } = event;
    write!(f, "Event({object}")?;
    for (name, value) in [("uid", &object.uid), ("fieldPath", &object.field_path)] {
        if !value.is_empty() {
            write!(f, " {name}={}", escape(value))?;
        }
    }
    let (type_, reason, message) = (escape(type_), escape(reason), escape_message(message));
    write!(f, "): type: '{type_}' reason: '{reason}' {message}")
}

#[cfg(feature = "tracing")]
pub(super) mod structured {
    use tracing::Level;

    use crate::bus::Delivery;
    use crate::escape::{escape, escape_message};
    use crate::record::event::Event;

    /// Records a delivery with client-go's field names.
    pub(crate) fn log(level: Level, delivery: Delivery<&Event>) {
        // The level is part of the macro's static data.
        macro_rules! at {
            ($level:expr) => {
                match delivery {
                    Delivery::Event(event) => {
                        let object = &event.involved_object;
                        let (namespace, slash) = match object.namespace.as_str() {
                            "" => ("", ""),
                            namespace => (namespace, "/"),
                        };
                        tracing::event!(
                            name: "Event occurred",
                            $level,
                            object = %format_args!("{}{slash}{}", escape(namespace), escape(&object.name)),
                            fieldPath = %escape(&object.field_path),
                            kind = %escape(&object.kind),
                            apiVersion = %escape(&object.api_version),
                            "type" = %escape(&event.type_),
                            reason = %escape(&event.reason),
                            message = %escape_message(&event.message),
                        );
                    }
                    Delivery::Lagged(count) => tracing::event!(name: "Events lost", $level, count),
                }
            };
        }
        match level {
            Level::ERROR => at!(Level::ERROR),
            Level::WARN => at!(Level::WARN),
            Level::INFO => at!(Level::INFO),
            Level::DEBUG => at!(Level::DEBUG),
            Level::TRACE => at!(Level::TRACE),
        }
    }
}
