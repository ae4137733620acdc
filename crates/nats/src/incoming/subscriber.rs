//! A program's handle to the incoming side of a bridge.

use std::fmt;
use std::time::{Duration, Instant};

use crate::remote_status::RemoteStatus;
use tokio::sync::watch;

use crate::runtime::Signal;

use super::parts::Shared;
use super::stats::NatsSubscriberStats;

/// The incoming side of a bridge, which reads a NATS JetStream stream and publishes the events on a
/// bus, or passes them to a [`RemoteWatcher`](crate::RemoteWatcher).
///
/// # Order
///
/// Each event from a publisher arrives once, and a publisher's events arrive in the order in which
/// they were published. Events from several publishers arrive in the order in which the server
/// stored their messages. This order is the same for every reader.
///
/// # Gaps
///
/// If events were lost on the way, are no longer in the stream, or cannot be decoded, the reader
/// reports the number of missing events as [`Delivery::Lagged`](eventcast::Delivery::Lagged), at
/// the position where they are missing. The losses that a publisher reports have no subject. If a
/// reader has a filter, it therefore detects only losses that are reported in a message that it
/// receives.
///
/// # Overflow
///
/// While the local bus is full, the reader waits and the server keeps the messages. With
/// [`Overflow::Drop`](crate::Overflow::Drop) the reader drops events instead.
///
/// # Ending
///
/// The reader ends when the bus ends or this handle is dropped. Dropping the handle does not block.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::stats::RemoteState;
/// use eventcast_nats::NatsSubscriber;
/// use std::time::Duration;
///
/// let bus = Broadcaster::<u64>::new()?;
/// // Nobody listens there.
/// let reader = NatsSubscriber::builder("nats://127.0.0.1:1").attach(&bus.publisher())?;
/// assert_eq!(reader.status().state, RemoteState::Connecting);
/// assert!(reader.shutdown_timeout(Duration::from_secs(10)));
/// assert_eq!(reader.status().state, RemoteState::Ended);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the reader stops when its handle is dropped"]
pub struct NatsSubscriber {
    shared: Shared,
    finished: Signal,
    stop: watch::Sender<Option<tokio::time::Instant>>,
}

impl NatsSubscriber {
    pub(crate) fn new(
        shared: Shared,
        finished: Signal,
        stop: watch::Sender<Option<tokio::time::Instant>>,
    ) -> Self {
        Self { shared, finished, stop }
    }

    /// Returns the current statistics of the reader. This method never waits for the server.
    pub fn stats(&self) -> NatsSubscriberStats {
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

    /// Waits until the reader has determined its position in the stream. Every message that the
    /// server stores from then on is read or becomes part of a gap. Returns whether the reader was
    /// ready in time.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`.
    pub fn ready(&self, timeout: Duration) -> bool {
        Instant::now().checked_add(timeout).is_some_and(|deadline| self.shared.ready.wait_until(deadline))
    }

    /// Stops the reader, and waits until it has saved its position and ended. Returns whether the
    /// reader ended in time.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`.
    pub fn shutdown_timeout(&self, timeout: Duration) -> bool {
        self.stop();
        Instant::now().checked_add(timeout).is_some_and(|deadline| self.finished.wait_until(deadline))
    }

    /// Stops the reader without waiting. The reader still saves its position.
    pub fn stop(&self) {
        self.stop.send_replace(Some(tokio::time::Instant::now()));
    }
}

impl Drop for NatsSubscriber {
    /// Stops the reader without waiting.
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for NatsSubscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSubscriber").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
