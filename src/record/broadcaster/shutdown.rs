//! Methods that shut down an event broadcaster.

use std::time::Duration;

use crate::bus::report::ShutdownReport;

use super::EventBroadcaster;
use super::report::EventBroadcasterReport;

impl EventBroadcaster {
    /// Closes the broadcaster without waiting. From then on, recorders return `Closed`. Events that
    /// were recorded earlier are still handled, and recordings try to write each remaining event
    /// once.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, ObjectReference, Recorded};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let about_pod = events.recorder("kubelet").for_object(ObjectReference::new("Pod", "web-0"));
    /// assert!(about_pod.normal("Started", "up").is_accepted());
    /// events.close();
    /// assert_eq!(about_pod.normal("Killing", "down"), Recorded::Closed);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn close(&self) {
        self.shared.bus.close();
    }

    /// Closes the broadcaster, and waits until every recorded event has been handled by every
    /// handler and log, and has been written, skipped or dropped by every recording. Watchers that
    /// your program reads directly keep their queued events until your program has read them.
    ///
    /// The method is idempotent, so every call waits for the same shutdown to finish and returns
    /// the same report. If a [`shutdown_timeout`](Self::shutdown_timeout) has timed out, a later
    /// call to `shutdown` continues to wait, and returns a report with the final counters. If
    /// `shutdown` is called on one of this broadcaster's own threads (in a handler, a sink or a
    /// filter), it closes the broadcaster, does not wait, and returns an incomplete report.
    ///
    /// You may ignore the report, because every loss is also reported to
    /// [`on_loss`](crate::record::EventBroadcasterBuilder::on_loss).
    ///
    /// # Blocking
    ///
    /// Waits as long as necessary. If a sink or a handler does not return, the call waits forever.
    /// A failing sink does not block the call, because recordings try to write each event only
    /// once. If that attempt fails, the recording reports the event instead of retrying. To set a
    /// deadline, use [`shutdown_timeout`](Self::shutdown_timeout).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(MemorySink::new())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// let report = events.shutdown();
    /// assert!(report.complete);
    /// assert_eq!(report.recordings[0].created, 1);
    /// assert_eq!(events.shutdown(), report);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "Shutdown")]
    pub fn shutdown(&self) -> EventBroadcasterReport {
        self.shared.waiting(|bus| self.report(bus.shutdown()))
    }

    /// Does the same as [`shutdown`](Self::shutdown), but returns no later than the deadline, and
    /// reports the events that were abandoned. See
    /// [`Broadcaster::shutdown_timeout`](crate::Broadcaster::shutdown_timeout).
    ///
    /// The timeout gives slow sinks and handlers time to finish. If a sink fails before the
    /// timeout, recordings do not retry. If you need retries, call [`flush`](Self::flush) first,
    /// because a flush waits for retries.
    ///
    /// # Blocking
    ///
    /// Waits at most `timeout`. In an async task, use `shutdown_async`, because on a
    /// single-threaded runtime this method could block on a sink or a handler that needs the same
    /// thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.spawn(|event| assert_eq!(event.reason, "Started"))?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// let report = events.shutdown_timeout(Duration::from_secs(10));
    /// assert!(report.complete, "{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the report says whether something was lost"]
    pub fn shutdown_timeout(&self, timeout: Duration) -> EventBroadcasterReport {
        self.shared.waiting(|bus| self.report(bus.shutdown_timeout(timeout)))
    }

    /// Closes the broadcaster like [`shutdown`](Self::shutdown), and waits at most `timeout`, but
    /// does not abandon any events. See [`Broadcaster::drain`](crate::Broadcaster::drain).
    ///
    /// # Blocking
    ///
    /// Waits at most `timeout`. In an async task, use `drain_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(MemorySink::new())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// let mut report = events.drain(Duration::from_secs(5));
    /// if !report.complete {
    ///     report = events.shutdown_timeout(Duration::from_secs(30));
    /// }
    /// assert!(report.is_clean(), "{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "graceful shutdown")]
    #[must_use = "the report says whether the broadcaster has ended"]
    pub fn drain(&self, timeout: Duration) -> EventBroadcasterReport {
        self.shared.waiting(|bus| self.report(bus.drain(timeout)))
    }

    /// The async version of [`drain`](Self::drain). See
    /// [`Broadcaster::drain_async`](crate::Broadcaster::drain_async).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventBroadcaster;
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let report = futures::executor::block_on(events.drain_async(Duration::from_secs(5)));
    /// assert!(report.complete);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_async(&self, timeout: Duration) -> impl Future<Output = EventBroadcasterReport> + Send {
        async move { self.report(self.shared.bus.drain_async(timeout).await) }
    }

    /// The async version of [`shutdown_timeout`](Self::shutdown_timeout). See
    /// [`Broadcaster::shutdown_async`](crate::Broadcaster::shutdown_async).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(MemorySink::new())?;
    /// let job = ObjectReference::new("Job", "backup");
    /// events.recorder("runner").event(&job, EventType::Normal, "Done", "backed up");
    /// let report = futures::executor::block_on(events.shutdown_async(Duration::from_secs(10)));
    /// assert!(report.complete);
    /// assert_eq!(report.recordings[0].created, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_async(&self, timeout: Duration) -> impl Future<Output = EventBroadcasterReport> + Send {
        async move { self.report(self.shared.bus.shutdown_async(timeout).await) }
    }

    fn report(&self, report: ShutdownReport) -> EventBroadcasterReport {
        EventBroadcasterReport::new(report, self.shared.recordings.stats())
    }
}
