//! A watcher that receives remote events without a bus.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use eventcast::Delivery;
use eventcast::error::{RecvError, RecvTimeoutError};
use futures::Stream;
use tokio::sync::mpsc;

use crate::positions::Reached;

use super::remote_event::{Chunk, Mark, Remote};
use super::subscriber::NatsSubscriber;

/// Receives the events of a stream without a bus. The watcher also implements `Stream` with the
/// same items.
///
/// The saved position covers only received events. An event counts as received once the program
/// begins to receive the next delivery, calls [`close`](Self::close), or drops the watcher.
///
/// # Examples
///
/// ```no_run
/// use eventcast::Delivery;
/// use eventcast_nats::NatsSubscriber;
///
/// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
/// let mut watcher = NatsSubscriber::builder::<u64>("nats://127.0.0.1:4222").stream("TICKS").watch()?;
/// loop {
///     match watcher.recv_async().await? {
///         Delivery::Event(remote) => println!("{} of {}", remote.event, remote.origin),
///         Delivery::Lagged(missed) => println!("{missed} events missed"),
///     }
/// }
/// # }
/// ```
#[must_use = "a watcher that is dropped receives nothing"]
pub struct RemoteWatcher<T> {
    chunks: mpsc::Receiver<Chunk<T>>,
    marks: mpsc::UnboundedSender<Mark>,
    now: Option<Chunk<T>>,
    /// The position after the last event received from the current message.
    part: Option<Reached>,
    subscriber: NatsSubscriber,
}

impl<T> RemoteWatcher<T> {
    pub(crate) fn new(
        chunks: mpsc::Receiver<Chunk<T>>,
        marks: mpsc::UnboundedSender<Mark>,
        subscriber: NatsSubscriber,
    ) -> Self {
        Self { chunks, marks, now: None, part: None, subscriber }
    }

    /// Returns the reader's handle, which provides the reader's statistics.
    pub fn subscriber(&self) -> &NatsSubscriber {
        &self.subscriber
    }

    /// Waits asynchronously for the next delivery. If the future is dropped before it is ready, no
    /// delivery is lost.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] once the reader has ended, for example after
    /// [`shutdown_timeout`](NatsSubscriber::shutdown_timeout), and no deliveries are left.
    pub fn recv_async(&mut self) -> impl Future<Output = Result<Delivery<Remote<T>>, RecvError>> + Send
    where
        T: Send,
    {
        async move { std::future::poll_fn(|cx| self.poll_recv(cx)).await.ok_or(RecvError) }
    }

    /// Returns the next delivery if one is available now.
    pub fn try_recv(&mut self) -> Option<Delivery<Remote<T>>> {
        loop {
            if let Some(item) = self.take_item() {
                return Some(item);
            }
            self.now = Some(self.chunks.try_recv().ok()?);
        }
    }

    /// Waits for the next delivery for at most `timeout`.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if no delivery arrived in time.
    /// - [`RecvTimeoutError::Ended`] if the reader has ended and no deliveries are left.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`. The method blocks the thread, so use
    /// [`recv_async`](Self::recv_async) in async tasks.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Delivery<Remote<T>>, RecvTimeoutError> {
        let begin = Instant::now();
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        loop {
            if let Poll::Ready(item) = self.poll_recv(&mut context) {
                return item.ok_or(RecvTimeoutError::Ended);
            }
            let Some(left) = timeout.checked_sub(begin.elapsed()).filter(|left| !left.is_zero()) else {
                return Err(RecvTimeoutError::Timeout);
            };
            thread::park_timeout(left);
        }
    }

    /// Stops the reader, and waits until it has saved the position of the received events. Returns
    /// whether the reader ended in time. To stop the reader without blocking, drop the watcher
    /// instead.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`.
    pub fn close(mut self, timeout: Duration) -> bool {
        self.mark_part();
        self.subscriber.shutdown_timeout(timeout)
    }

    /// Reports to the reader which events of the current message have been received.
    fn mark_part(&mut self) {
        if let Some(part) = self.part.take() {
            // An error means that the reader has ended.
            let _ = self.marks.send(Mark { sequence: None, reached: Some(part) });
        }
    }

    fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<Delivery<Remote<T>>>> {
        loop {
            if let Some(item) = self.take_item() {
                return Poll::Ready(Some(item));
            }
            match ready!(self.chunks.poll_recv(cx)) {
                Some(chunk) => self.now = Some(chunk),
                None => return Poll::Ready(None),
            }
        }
    }

    /// Takes the next item of the current message. If the message has no items left, reports to the
    /// reader that the whole message has been received.
    fn take_item(&mut self) -> Option<Delivery<Remote<T>>> {
        let chunk = self.now.as_mut()?;
        let item = chunk.items.pop_front();
        let reached = chunk.mark.as_ref().and_then(|mark| mark.reached.as_ref());
        if let (Some(Delivery::Event(remote)), Some(reached)) = (&item, reached) {
            self.part = Some(reached.back_at(remote.position.saturating_add(1)));
        }
        if item.is_none() {
            self.part = None;
            if let Some(mark) = chunk.mark.take() {
                // An error means that the reader has ended.
                let _ = self.marks.send(mark);
            }
            self.now = None;
        }
        item
    }
}

impl<T> Unpin for RemoteWatcher<T> {}

impl<T> Drop for RemoteWatcher<T> {
    fn drop(&mut self) {
        self.mark_part();
    }
}

/// Unparks a waiting thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

impl<T> Stream for RemoteWatcher<T> {
    type Item = Delivery<Remote<T>>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.poll_recv(cx)
    }
}

impl<T> fmt::Debug for RemoteWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteWatcher").field("subscriber", &self.subscriber).finish_non_exhaustive()
    }
}
