//! Passes each event to a log, as one line.

use crate::bus::{Delivery, WatchHandle};
use crate::error::WatchError;

use super::EventBroadcaster;

impl EventBroadcaster {
    /// Calls `log` with one line for each event. In statistics and loss reports, the handler that
    /// calls `log` is named `logging`.
    ///
    /// A line is the event's [`Display`](std::fmt::Display) form. It consists of the columns time,
    /// type, reason, object and message, which are separated by two spaces:
    /// `2024-01-31T08:15:00Z  Warning  BackOff  pod/web-0  restarting`.
    ///
    /// - The time is [`Event::last_seen`](crate::event::Event::last_seen) in RFC 3339 format, in
    ///   UTC and with a precision of one second. The time column is 20 characters wide. If the
    ///   event has no time, the time column shows `<unknown>`.
    /// - The type is padded to 7 characters.
    /// - The reason and the object are not padded. The object column consists of the object's kind
    ///   in lower case, a slash and the object's name, without the namespace.
    /// - Leading and trailing blanks and newlines are removed from the message.
    /// - Control characters and invisible characters are [escaped](crate::escape).
    ///
    /// If `log` is so slow that its queue overflows, a line such as `(3 events lost here)` marks
    /// the gap.
    ///
    /// For a different line format, or to emit `tracing` records, call [`spawn`](Self::spawn). To
    /// be notified of gaps as well, call [`spawn`](crate::WatchBuilder::spawn) on a
    /// [`watch_builder`](Self::watch_builder).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`WatchBuilder::spawn`](crate::WatchBuilder::spawn).
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`WatchBuilder::watch`](crate::WatchBuilder::watch).
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
    /// events.log_to(move |line| tx.send(line.to_owned()).unwrap())?;
    /// let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    /// events.recorder("kubelet").event(&pod, EventType::Warning, "BackOff", "restarting");
    /// events.shutdown();
    /// assert_eq!(lines.recv()?, "1970-01-01T00:00:00Z  Warning  BackOff  pod/web-0  restarting");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "StartLogging")]
    pub fn log_to(&self, mut log: impl FnMut(&str) + Send + 'static) -> Result<WatchHandle, WatchError> {
        let handle = self.watch_builder().name("logging").spawn(move |delivery| match delivery {
            Delivery::Event(event) => log(&event.to_string()),
            Delivery::Lagged(count) => log(&format!("({count} events lost here)")),
        })?;
        Ok(self.shared.listed(handle))
    }
}
