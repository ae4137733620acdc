//! A program's handle to the outgoing side of a bridge.

use std::fmt;
use std::sync::mpsc::{self as blocking, RecvTimeoutError};
use std::time::{Duration, Instant};

use crate::remote_status::RemoteStatus;
use eventcast::WatchHandle;
use tokio::sync::{mpsc, watch};

use crate::runtime::Signal;
use crate::wire::Origin;

use super::pump::{Flush, Shared};
use super::stats::{NatsPublisherStats, NatsReport};

/// How long the bridge may continue to send queued events after its handle is dropped.
const AFTER_DROP: Duration = Duration::from_secs(5);

/// The outgoing side of a bridge, which watches a bus and sends the events to a NATS JetStream
/// stream.
///
/// # Order
///
/// One message is in flight at a time, with up to `max_batch` events of one subject. The bridge
/// sends a message again, with the same identity, until the server acknowledges the message or the
/// message's events count as lost. A reader therefore receives the events of this bridge in order
/// and without repeats, even across reconnects and restarts of the server.
///
/// # Acknowledged
///
/// A server acknowledges a message once it has passed the message to the operating system. By
/// default, the server writes the message to disk within two minutes. Acknowledged events survive
/// if the server's process ends, but can be lost in a power failure. For details, see
/// `docs/nats.md` in the repository.
///
/// # Losses
///
/// While the server is unavailable, the watcher's queue fills up. Once the queue is full, the
/// queue's overflow policy applies. Every loss has a position in the order of the events, and
/// readers receive the report of the loss at that position.
///
/// # Ending
///
/// When the bus ends, the bridge sends the remaining events and then ends too. Dropping this handle
/// stops the bridge without waiting. The bridge then continues to send events for at most 5 s, as
/// long as the process is running.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast_nats::NatsPublisher;
/// use std::time::Duration;
///
/// let bus = Broadcaster::<u64>::new()?;
/// // Nobody listens there, so nothing is acknowledged.
/// let out = NatsPublisher::builder("nats://127.0.0.1:1").attach(&bus)?;
/// bus.publisher().publish(7)?;
/// bus.flush(Duration::from_secs(10))?;
/// let report = out.shutdown_timeout(Duration::from_millis(50));
/// assert!(!report.complete);
/// assert_eq!((report.stats.offered, report.stats.abandoned), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the bridge stops when its handle is dropped"]
pub struct NatsPublisher {
    origin: Origin,
    shared: Shared,
    finished: Signal,
    watcher: WatchHandle,
    stop: watch::Sender<Option<tokio::time::Instant>>,
    requests: mpsc::UnboundedSender<Flush>,
}

impl NatsPublisher {
    pub(crate) fn new(
        origin: Origin,
        shared: Shared,
        finished: Signal,
        watcher: WatchHandle,
        stop: watch::Sender<Option<tokio::time::Instant>>,
        requests: mpsc::UnboundedSender<Flush>,
    ) -> Self {
        Self { origin, shared, finished, watcher, stop, requests }
    }

    /// Returns the identity of this bridge, which is generated at each start and included in every
    /// message.
    pub fn origin(&self) -> &str {
        self.origin.as_str()
    }

    /// Returns the current statistics of the bridge. This method never waits for the server.
    pub fn stats(&self) -> NatsPublisherStats {
        let mut stats = self.shared.stats.lock().clone();
        stats.status = self.shared.status.get();
        stats
    }

    /// Returns the status of the connection and of the stream. The status contains the current
    /// state, the time when the state began, and the last failure. This method never waits for the
    /// server.
    pub fn status(&self) -> RemoteStatus {
        self.shared.status.get()
    }

    /// Waits until every event that the bus offered to the bridge before this call is acknowledged
    /// or lost. Returns whether all these events were acknowledged or lost in time.
    ///
    /// Flush the bus first, because an event may still be in the bus's incoming queue.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`, and does not wait if the bridge has ended.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (sender, done) = blocking::channel();
        let answer = match self.requests.send(sender) {
            Ok(()) => done.recv_timeout(timeout),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            // The bridge has ended, and its statistics are final.
            Err(RecvTimeoutError::Disconnected) => self.finished.is_given() && self.is_settled(),
        }
    }

    /// Returns whether every offered event is acknowledged or lost, and no event was abandoned.
    fn is_settled(&self) -> bool {
        let stats = self.stats();
        stats.abandoned + stats.in_flight + stats.queued == 0
    }

    /// Stops the bridge. The bridge accepts no more events, retries once immediately, and continues
    /// to send until all events are sent or the timeout has passed. The bridge then announces to
    /// the readers that it has ended. Events that could not be sent count as abandoned.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`, plus a small margin for the bridge's task to notice the
    /// request.
    pub fn shutdown_timeout(&self, timeout: Duration) -> NatsReport {
        self.stop_within(timeout);
        let patience = timeout.saturating_add(Duration::from_secs(1));
        let deadline = Instant::now().checked_add(patience);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let complete = self.finished.wait_until(deadline) && self.is_settled();
        NatsReport { complete, stats: self.stats() }
    }

    /// Waits until the bridge has ended, which happens after the bus has ended. Returns whether the
    /// bridge ended in time.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`.
    pub fn join(&self, timeout: Duration) -> bool {
        Instant::now().checked_add(timeout).is_some_and(|deadline| self.finished.wait_until(deadline))
    }

    fn stop_within(&self, timeout: Duration) {
        let now = tokio::time::Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or_else(|| now + Duration::from_secs(1 << 30));
        self.stop.send_modify(|stop| *stop = Some(stop.map_or(deadline, |before| before.min(deadline))));
        self.watcher.stop();
    }
}

impl Drop for NatsPublisher {
    /// Stops the bridge without waiting.
    fn drop(&mut self) {
        if !self.finished.is_given() {
            self.stop_within(AFTER_DROP);
        }
    }
}

impl fmt::Debug for NatsPublisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsPublisher")
            .field("origin", &self.origin())
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
