//! The program's handle of an outgoing side.

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

/// The time that a dropped handle leaves the bridge to send what is queued.
const AFTER_DROP: Duration = Duration::from_secs(5);

/// The outgoing side of a bridge: it watches a bus, and sends the events to a stream of NATS
/// JetStream.
///
/// # Order
///
/// One message is in flight at a time, with up to `max_batch` events of one subject. It is sent
/// again, with the same identity, until the server acknowledges it. A reader therefore gets the
/// events of this bridge in order and without repeats, through reconnects and restarts of the
/// server.
///
/// # Acknowledged
///
/// A server acknowledges a message when it has given it to its system, and by default writes it to
/// the disk within two minutes. The end of the server's process loses nothing. A power failure can
/// lose acknowledged events. `docs/nats.md` in the repository has the details.
///
/// # Losses
///
/// While the server is away the watcher's queue fills, and then its policy decides. Every loss has
/// a place in the order, and readers hear of it there.
///
/// # Ending
///
/// The bridge sends the rest and ends when the bus has ended. Dropping this handle stops the bridge
/// without waiting: it goes on sending for 5 s at most, as long as the process lives.
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

    /// Returns the identity of this bridge, which is new at each start. Every message has it.
    pub fn origin(&self) -> &str {
        self.origin.as_str()
    }

    /// Returns what the bridge has done so far. Never waits for the server.
    pub fn stats(&self) -> NatsPublisherStats {
        let mut stats = self.shared.stats.lock().clone();
        stats.status = self.shared.status.get();
        stats
    }

    /// Returns the status of the connection and of the stream: the state, since when, and the last
    /// failure. Never waits for the server.
    pub fn status(&self) -> RemoteStatus {
        self.shared.status.get()
    }

    /// Waits until every event that the bus has offered to the bridge before this call is
    /// acknowledged or lost. Returns whether this was so in time.
    ///
    /// Flush the bus before, because an event may still be in its incoming queue.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`, and not at all if the bridge has ended.
    pub fn flush(&self, timeout: Duration) -> bool {
        let (sender, done) = blocking::channel();
        let answer = match self.requests.send(sender) {
            Ok(()) => done.recv_timeout(timeout),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        };
        match answer {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            // The bridge has ended, and its figures are the last ones.
            Err(RecvTimeoutError::Disconnected) => self.finished.is_given() && self.is_settled(),
        }
    }

    /// Returns whether every event that was offered is acknowledged or lost, and none was given up.
    fn is_settled(&self) -> bool {
        let stats = self.stats();
        stats.abandoned + stats.in_flight + stats.queued == 0
    }

    /// Stops the bridge: takes no further event, tries once more at once, and goes on until
    /// everything is sent or the time is over. Then says goodbye to the readers. Whatever could not
    /// be sent counts as abandoned.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout` and a little more, for the bridge's task to notice.
    pub fn shutdown_timeout(&self, timeout: Duration) -> NatsReport {
        self.stop_within(timeout);
        let patience = timeout.saturating_add(Duration::from_secs(1));
        let deadline = Instant::now().checked_add(patience);
        let deadline = deadline.unwrap_or_else(|| Instant::now() + Duration::from_secs(1 << 30));
        let complete = self.finished.wait_until(deadline) && self.is_settled();
        NatsReport { complete, stats: self.stats() }
    }

    /// Waits until the bridge has ended, which it does after the end of the bus. Returns whether it
    /// has ended in time.
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
    /// Stops the bridge, and waits for nothing.
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
