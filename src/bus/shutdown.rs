//! The methods that shut down a bus.

use std::time::Duration;

use crate::bus::report::ShutdownReport;

use super::broadcaster::Broadcaster;
use super::state::Patience;

/// The maximum time that a shutdown with a deadline reserves for abandoning the remaining events.
/// Such a shutdown reserves a tenth of its timeout, up to this maximum.
const RESERVE: Duration = Duration::from_millis(50);

impl<T> Broadcaster<T> {
    /// Closes the bus. All later publish calls return `Closed`. The dispatcher still offers the
    /// events that the bus has already accepted. This method never blocks.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish(1)?;
    /// bus.close();
    /// assert!(bus.publisher().publish(2).unwrap_err().is_closed());
    /// assert_eq!(watcher.events().collect::<Vec<_>>(), [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn close(&self) {
        self.incoming.bus.close();
    }

    /// Returns whether the bus has been closed. A result of `true` is final, while `false` may be
    /// out of date by the time the caller reads it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// assert!(!bus.is_closed());
    /// bus.clone().close();
    /// assert!(bus.is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        self.incoming.bus.is_closed()
    }

    /// Closes the bus, and waits until every accepted event has been offered to every watcher and
    /// handled by every handler. Watchers that you read yourself keep their queued events until you
    /// read them.
    ///
    /// The call then joins the threads that the bus started for the dispatcher and the handlers, so
    /// that a program may unload the code that these threads ran. The only exception is the timer
    /// thread, which exists while a task is waiting with a deadline.
    ///
    /// A shutdown is idempotent. Every call waits for the bus to end and returns the same report.
    /// If a call to [`shutdown_timeout`](Self::shutdown_timeout) has timed out, a later shutdown
    /// call continues to wait, and returns a report with the final counters. Abandoned events stay
    /// abandoned. If a shutdown call is made on a thread of this bus, it closes the bus and returns
    /// an incomplete report without waiting.
    ///
    /// You may ignore the report, because a shutdown without a deadline does not abandon any
    /// events.
    ///
    /// # Blocking
    ///
    /// Blocks without a deadline. The call never returns if a watcher whose policy is
    /// [`Wait`](crate::OverflowPolicy::Wait) is neither read nor dropped, or if a handler does not
    /// return. To limit the wait, call [`shutdown_timeout`](Self::shutdown_timeout) instead. In an
    /// async task, use `shutdown_async`, because a runner awaited on the blocked thread would never
    /// end.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let handle = bus.watch_builder().spawn(|_| ())?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// let report = bus.shutdown();
    /// assert!(report.complete && report.threads_ended);
    /// assert_eq!(handle.stats().delivered, 3);
    /// assert_eq!(bus.shutdown(), report);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "Shutdown")]
    pub fn shutdown(&self) -> ShutdownReport {
        self.end(Patience::FOREVER)
    }

    /// Closes the bus like [`shutdown`](Self::shutdown), but waits for at most `timeout`, and does
    /// not abandon any events. If the bus has not ended by the deadline, the report is an
    /// incomplete snapshot, and the bus continues to drain.
    ///
    /// This is the first, soft phase of a graceful shutdown. To force the bus to end in a second
    /// phase, call [`shutdown_timeout`](Self::shutdown_timeout) afterwards.
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`. In an async task, use `drain_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy};
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut late = bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::Wait).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// // The watcher does not read yet, so the dispatcher waits for room.
    /// assert!(!bus.drain(Duration::from_millis(10)).complete);
    /// let reader = std::thread::spawn(move || late.events().collect::<Vec<_>>());
    /// let report = bus.shutdown_timeout(Duration::from_secs(30));
    /// assert!(report.complete && report.is_clean());
    /// assert_eq!(reader.join().unwrap(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "graceful shutdown")]
    #[must_use = "the report says whether the bus has ended"]
    pub fn drain(&self, timeout: Duration) -> ShutdownReport {
        self.end(self.patience(timeout))
    }

    /// Closes the bus like [`shutdown`](Self::shutdown), but returns no later than the deadline,
    /// and reports the events that were abandoned.
    ///
    /// The last tenth of the timeout, but at most 50 ms, is reserved for an orderly finish. During
    /// this reserved time, the watchers that the dispatcher is waiting for lose the events that do
    /// not fit, and each handler finishes its current event and abandons the rest. With a timeout
    /// of zero, or if user code does not return, the report is an incomplete snapshot, in which
    /// [`pending`](crate::stats::BusStats::pending) counts the events that have not been offered to
    /// any watcher yet. A later call continues to wait and returns a new report.
    ///
    /// If a thread has not reached its last step by the deadline, it is not joined, and
    /// [`threads_ended`](ShutdownReport::threads_ended) is `false`.
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`. In an async task, use `shutdown_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy};
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let stuck = bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::Wait).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// // No thread reads the watcher, so the dispatcher waits until the shutdown abandons events.
    /// assert!(!bus.shutdown_timeout(Duration::from_millis(10)).complete);
    /// assert_eq!(bus.shutdown().bus.watchers[0].dropped.abandoned, 2);
    /// drop(stuck);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "the report says whether something was lost"]
    pub fn shutdown_timeout(&self, timeout: Duration) -> ShutdownReport {
        self.end(self.patience_before_giving_up(timeout))
    }

    /// Drains the bus like [`drain`](Self::drain), but asynchronously. The drain and its timeout
    /// begin when the future is first polled. If the future is dropped after its first poll, the
    /// bus stays closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// bus.publisher().publish(1)?;
    /// let report = futures::executor::block_on(bus.drain_async(Duration::from_secs(10)));
    /// assert!(report.complete);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_async(&self, timeout: Duration) -> impl Future<Output = ShutdownReport> + Send
    where
        T: Send + Sync,
    {
        async move { self.end_async(self.patience(timeout)).await }
    }

    /// Closes the bus like [`shutdown_timeout`](Self::shutdown_timeout), but asynchronously. If a
    /// server's clients read watchers, the server should shut the bus down first, so that the
    /// clients' streams end and the server's own shutdown does not wait for these streams. The
    /// bus's shutdown and its timeout begin when the future is first polled. If the future is
    /// dropped after its first poll, the bus stays closed. If the future is dropped before the
    /// reserved last tenth of the timeout begins, no events have been abandoned.
    ///
    /// The bus's timer thread enforces the deadline, and runs for as long as the future is waiting.
    /// If the system cannot start this thread, polling the future blocks until the bus ends or the
    /// deadline passes.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// bus.publisher().publish(1)?;
    /// let report = futures::executor::block_on(bus.shutdown_async(Duration::from_secs(10)));
    /// assert!(report.complete);
    /// assert_eq!(report.bus.accepted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_async(&self, timeout: Duration) -> impl Future<Output = ShutdownReport> + Send
    where
        T: Send + Sync,
    {
        async move { self.end_async(self.patience_before_giving_up(timeout)).await }
    }

    fn end(&self, patience: Patience) -> ShutdownReport {
        self.with_pending(self.incoming.bus.shutdown(patience))
    }

    async fn end_async(&self, patience: Patience) -> ShutdownReport {
        self.with_pending(self.incoming.bus.shutdown_async(patience).await)
    }

    /// Adds the number of pending events to a snapshot. Once the bus has ended, no events are
    /// pending.
    fn with_pending(&self, mut report: ShutdownReport) -> ShutdownReport {
        if !report.complete && !report.threads_ended {
            report.bus.pending = self.incoming.way.pending(&self.incoming.bus, report.bus.accepted);
        }
        report
    }

    fn patience(&self, timeout: Duration) -> Patience {
        let until = self.incoming.bus.end_clock.deadline(timeout);
        Patience { until, after_giving_up: None }
    }

    fn patience_before_giving_up(&self, timeout: Duration) -> Patience {
        let reserve = (timeout / 10).min(RESERVE);
        let end = self.incoming.bus.end_clock.deadline(timeout);
        Patience { after_giving_up: Some(end), ..self.patience(timeout.saturating_sub(reserve)) }
    }

    /// Returns whether the current thread is one of this bus's own threads.
    #[cfg(feature = "recorder")]
    pub(crate) fn is_current(&self) -> bool {
        self.incoming.bus.is_current()
    }

    /// Waits until a closed bus has ended, without abandoning any events. Returns immediately if
    /// called on a thread of this bus.
    #[cfg(feature = "recorder")]
    pub(crate) fn wait_ended(&self, timeout: Duration) {
        let bus = &self.incoming.bus;
        if !bus.is_current() {
            bus.wait_ended(bus.end_clock.deadline(timeout));
        }
    }
}
