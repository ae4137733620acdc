//! Events from afar, and a watcher of them that needs no bus.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::SystemTime;

use eventcast::Delivery;
use eventcast::error::RecvError;
use futures::Stream;
use tokio::sync::mpsc;

use super::subscriber::NatsSubscriber;

/// An event of another process, and its place.
///
/// The pair of `origin` and `position` is different for each event, so it serves to recognise one
/// that was handled before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remote<T> {
    /// The event.
    pub event: T,
    /// The identity of the publisher, which is new at each of its starts.
    pub origin: Arc<str>,
    /// The position among all events of the origin, lost ones included.
    pub position: u64,
    /// The number of the message in the stream.
    pub stream_sequence: u64,
    /// The time at which the server stored the message.
    pub at: SystemTime,
}

impl<T> Remote<T> {
    pub(crate) fn new(
        event: T,
        origin: Arc<str>,
        position: u64,
        stream_sequence: u64,
        at: SystemTime,
    ) -> Self {
        Self { event, origin, position, stream_sequence, at }
    }
}

/// The items of one message, and the mark that says that they were received.
pub(crate) struct Chunk<T> {
    pub(crate) items: VecDeque<Delivery<Remote<T>>>,
    pub(crate) mark: Option<Mark>,
}

/// The place of a message that the watcher has received to its end.
#[derive(Clone, Debug)]
pub(crate) struct Mark {
    pub(crate) sequence: u64,
    pub(crate) origin: Option<(crate::wire::Origin, u64)>,
}

/// Receives the events of a stream, without a bus. It is a `Stream` of the same items.
///
/// If the position is saved, it is that of what was received: a message counts when the receive
/// behind its last event begins.
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
    subscriber: NatsSubscriber,
}

impl<T> RemoteWatcher<T> {
    pub(crate) fn new(
        chunks: mpsc::Receiver<Chunk<T>>,
        marks: mpsc::UnboundedSender<Mark>,
        subscriber: NatsSubscriber,
    ) -> Self {
        Self { chunks, marks, now: None, subscriber }
    }

    /// Returns the handle of the reader, with its statistics.
    pub fn subscriber(&self) -> &NatsSubscriber {
        &self.subscriber
    }

    /// Waits for the next delivery as a task. If the future is dropped before it is ready, it has
    /// taken nothing.
    ///
    /// # Errors
    ///
    /// [`RecvError`] at the end, after [`shutdown_timeout`](NatsSubscriber::shutdown_timeout).
    pub fn recv_async(&mut self) -> impl Future<Output = Result<Delivery<Remote<T>>, RecvError>> + Send
    where
        T: Send,
    {
        async move { std::future::poll_fn(|cx| self.poll_recv(cx)).await.ok_or(RecvError) }
    }

    /// Returns the next delivery if there is one now.
    pub fn try_recv(&mut self) -> Option<Delivery<Remote<T>>> {
        loop {
            if let Some(item) = self.take_item() {
                return Some(item);
            }
            self.now = Some(self.chunks.try_recv().ok()?);
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

    /// Takes an item of the current message. Marks a message that has none left.
    fn take_item(&mut self) -> Option<Delivery<Remote<T>>> {
        let chunk = self.now.as_mut()?;
        let item = chunk.items.pop_front();
        if item.is_none() {
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
