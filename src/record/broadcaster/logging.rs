//! Events for logs: one line each, and, with the feature `tracing`, one structured record each.

use std::fmt;

use crate::escape::{escape, escape_message};
use crate::record::event::Event;

/// An event on one line, with control characters escaped.
pub(super) struct Line<'a>(pub(super) &'a Event);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Event { involved_object: object, type_, reason, message, .. } = self.0;
        write!(f, "Event({object}")?;
        for (name, value) in [("uid", &object.uid), ("fieldPath", &object.field_path)] {
            if !value.is_empty() {
                write!(f, " {name}={}", escape(value))?;
            }
        }
        let (type_, reason, message) = (escape(type_), escape(reason), escape_message(message));
        write!(f, "): type: '{type_}' reason: '{reason}' {message}")
    }
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
