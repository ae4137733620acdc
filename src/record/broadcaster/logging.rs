//! Events for logs: one line each, and, with the feature `tracing`, one structured record each.

use std::fmt::{self, Write as _};

use crate::bus::{Delivery, WatchHandle};
use crate::error::WatchError;
use crate::escape::{escape, escape_message, needs_escape};
use crate::record::event::Event;

use super::EventBroadcaster;

/// The form of the lines of a log. Every form escapes control characters and invisible characters.
///
/// # Examples
///
/// ```
/// use eventcast::record::LogFormat;
///
/// assert_eq!(LogFormat::default(), LogFormat::Columns);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LogFormat {
    /// The columns time, type, reason, object and message, with two blanks between them:
    /// `2024-01-31T08:15:00Z  Warning  BackOff  pod/web-0  restarting`.
    ///
    /// - The time is [`Event::last_seen`], in RFC 3339 and UTC, to the second. The column is 20
    ///   characters wide. If the event has no time, the column shows `<unknown>`.
    /// - The type is padded to 7 characters.
    /// - The reason and the object are as wide as their texts. The object is its kind in lower
    ///   case, a slash and its name, without the namespace.
    /// - The message is without blanks and newlines at its ends.
    #[default]
    Columns,
    /// The line that client-go's `StartLogging` writes, with the object as a Go value:
    /// `Event(v1.ObjectReference{Kind:"Pod", Namespace:"default", Name:"web-0", UID:"7f3a",
    /// APIVersion:"v1", ResourceVersion:"41", FieldPath:""}): type: 'Warning' reason: 'BackOff'
    /// restarting`, all on one line.
    ///
    /// The texts of the object are quoted by Go's rules, such as `\x1b` for an escape character.
    /// client-go writes the type, the reason and the message as they are, and here they are
    /// escaped like everywhere else.
    ///
    /// For the fields of client-go's `StartStructuredLogging`, use `start_structured_logging`.
    #[doc(alias = "StartLogging")]
    Klog,
}

impl EventBroadcaster {
    /// Calls `log` with a line for each event, in the form [`LogFormat::Columns`]. Also calls `log`
    /// with a line for each gap, in which events were lost because `log` was too slow. In
    /// statistics and losses this handler has the name `logging`.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WatchBuilder::spawn`](crate::WatchBuilder::spawn).
    ///
    /// # Blocking
    ///
    /// As [`WatchBuilder::watch`](crate::WatchBuilder::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{EventBroadcaster, EventType, ObjectReference};
    /// use std::{sync::mpsc, time::SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let events = EventBroadcaster::builder().clock(clock.clock()).build()?;
    /// let (tx, lines) = mpsc::channel();
    /// events.start_logging(move |line| tx.send(line.to_owned()).unwrap())?;
    /// let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    /// events.new_recorder("kubelet").event(&pod, EventType::Warning, "BackOff", "restarting");
    /// events.shutdown();
    /// assert_eq!(lines.recv()?, "1970-01-01T00:00:00Z  Warning  BackOff  pod/web-0  restarting");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "StartLogging")]
    pub fn start_logging(&self, log: impl FnMut(&str) + Send + 'static) -> Result<WatchHandle, WatchError> {
        self.start_logging_as(LogFormat::Columns, log)
    }

    /// Does the same as [`start_logging`](Self::start_logging), with lines of another form.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WatchBuilder::spawn`](crate::WatchBuilder::spawn).
    ///
    /// # Blocking
    ///
    /// As [`WatchBuilder::watch`](crate::WatchBuilder::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::record::LogFormat;
    /// use eventcast::{EventBroadcaster, EventType, ObjectReference};
    /// use std::sync::mpsc;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let (tx, lines) = mpsc::channel();
    /// events.start_logging_as(LogFormat::Klog, move |line| tx.send(line.to_owned()).unwrap())?;
    /// let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    /// events.new_recorder("kubelet").event(&pod, EventType::Warning, "BackOff", "restarting");
    /// events.shutdown();
    /// assert_eq!(
    ///     lines.recv()?,
    ///     "Event(v1.ObjectReference{Kind:\"Pod\", Namespace:\"default\", Name:\"web-0\", UID:\"\", \
    ///      APIVersion:\"\", ResourceVersion:\"\", FieldPath:\"\"}): \
    ///      type: 'Warning' reason: 'BackOff' restarting"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn start_logging_as(
        &self,
        format: LogFormat,
        mut log: impl FnMut(&str) + Send + 'static,
    ) -> Result<WatchHandle, WatchError> {
        let handle = self.watch_builder().name("logging").spawn(move |delivery| match delivery {
            Delivery::Event(event) => log(&Line(format, event).to_string()),
            Delivery::Lagged(count) => log(&format!("({count} events lost here)")),
        })?;
        Ok(self.shared.listed(handle))
    }

    /// Records each event with `tracing`, at this level.
    ///
    /// - Each event becomes a `tracing` event named `Event occurred`, with client-go's fields
    ///   `object`, `fieldPath`, `kind`, `apiVersion`, `type`, `reason` and `message`. Control
    ///   characters are escaped.
    /// - Each gap becomes a `tracing` event named `Events lost`, with its `count`.
    ///
    /// The handler uses the subscriber of its own thread, which is the global one.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WatchBuilder::spawn`](crate::WatchBuilder::spawn).
    ///
    /// # Blocking
    ///
    /// As [`WatchBuilder::watch`](crate::WatchBuilder::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let log = events.start_structured_logging(tracing::Level::INFO)?;
    /// events.new_recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// events.shutdown();
    /// assert_eq!(log.stats().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tracing")]
    #[doc(alias = "StartStructuredLogging")]
    pub fn start_structured_logging(&self, level: tracing::Level) -> Result<WatchHandle, WatchError> {
        let builder = self.watch_builder().name("structured-logging");
        Ok(self.shared.listed(builder.spawn(move |delivery| structured::log(level, delivery))?))
    }
}

/// An event on one line, with control characters escaped.
struct Line<'a>(LogFormat, &'a Event);

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
    let at = event.last_seen().map_or_else(|| "<unknown>".to_owned(), |at| format!("{at:.0}"));
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
    let fields = [
        ("Kind", &object.kind),
        ("Namespace", &object.namespace),
        ("Name", &object.name),
        ("UID", &object.uid),
        ("APIVersion", &object.api_version),
        ("ResourceVersion", &object.resource_version),
        ("FieldPath", &object.field_path),
    ];
    let mut before = "Event(v1.ObjectReference{";
    for (name, value) in fields {
        write!(f, "{before}{name}:")?;
        write_quoted(f, value)?;
        before = ", ";
    }
    let (type_, reason, message) = (escape(type_), escape(reason), escape_message(message));
    write!(f, "}}): type: '{type_}' reason: '{reason}' {message}")
}

/// Writes a string as Go's verb `%#v` does. Also escapes each character that [`escape`] escapes:
/// Go leaves a few of these, such as variation selectors, as they are.
fn write_quoted(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' | '\\' => write!(f, "\\{c}")?,
            '\u{7}' => f.write_str("\\a")?,
            '\u{8}' => f.write_str("\\b")?,
            '\u{c}' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\u{b}' => f.write_str("\\v")?,
            '\0'..' ' | '\u{7f}' => write!(f, "\\x{:02x}", u32::from(c))?,
            // For Go, a blank that is not ASCII cannot be printed.
            _ if needs_escape(c) || c != ' ' && c.is_whitespace() => match u32::from(c) {
                code @ ..0x1_0000 => write!(f, "\\u{code:04x}")?,
                code => write!(f, "\\U{code:08x}")?,
            },
            _ => f.write_char(c)?,
        }
    }
    f.write_char('"')
}

#[cfg(feature = "tracing")]
mod structured {
    use tracing::Level;

    use crate::bus::Delivery;
    use crate::escape::{escape, escape_message};
    use crate::record::event::Event;

    /// Records a delivery with client-go's field names.
    pub(super) fn log(level: Level, delivery: Delivery<&Event>) {
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
