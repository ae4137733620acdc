//! The bridge from an asynchronous store to the threads of a recording.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::time::Duration;

use crate::record::event::{Event, Stored};

use super::async_sink::AsyncEventSink;
use super::contract::{EventSink, SinkOp};
use super::error::SinkError;
use super::needed_thread::NeededThread;
use super::order::WriteOrder;

/// A sink over an [`AsyncEventSink`]. A thread of the recording waits for each future.
///
/// The library needs no runtime, so the program passes a function that waits for a future:
///
/// | runtime | function |
/// |---|---|
/// | tokio | `move \|future\| handle.block_on(future)`, with a `tokio::runtime::Handle` |
/// | smol | `\|future\| smol::block_on(future)` |
/// | futures | `\|future\| futures::executor::block_on(future)` |
///
/// - With tokio, the future runs on a thread of the recording, and sees the runtime of the handle:
///   `tokio::time`, `tokio::net` and `tokio::spawn` work.
/// - With smol, I/O and timers run on a thread that smol starts itself.
/// - With futures there are no I/O and no timers, so this is for clients that have threads of their
///   own.
///
/// A limit for each operation belongs into the methods of the [`AsyncEventSink`], as the example of
/// [`new`](Self::new) shows. The function may also return before the future is ready. The future is
/// then dropped, and its operations fail with [`SinkError::unavailable`], so they may be tried
/// again. A batch of up to 256 operations is one such future.
///
/// If a future panics, the recording gives the event up, as [`EventSink`] says. If the future of a
/// batch panics outside its operations, the recording performs each operation again on its own.
///
/// # Blocking
///
/// Each call waits until the future is ready. The runtime must be running meanwhile, or the call
/// waits for ever:
///
/// - The program shuts the broadcaster down before it drops the runtime. Without its runtime a
///   timer of tokio panics, and the recording gives the event up.
/// - A task awaits [`flush_async`](crate::EventBroadcaster::flush_async) and
///   [`shutdown_async`](crate::EventBroadcaster::shutdown_async). It does not call `flush` and
///   `shutdown`, which block a thread of the runtime.
/// - `Handle::block_on` does not run the I/O and the timers of a tokio runtime with one thread
///   (`current_thread`). Only a thread that is inside `Runtime::block_on` does. If that thread
///   blocks, neither it nor the recording ever continues. The store names that thread in
///   [`needed_thread`](AsyncEventSink::needed_thread), and then the library does not wait on it. A
///   multi-thread runtime, or a runtime on a thread of its own that serves only the sink, does not
///   have this hazard.
/// - A future must not wait for the broadcaster whose events it stores.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{AsyncEventSink, Blocking};
/// use eventcast::{Event, EventBroadcaster, ObjectReference, SinkError};
/// use std::time::Duration;
///
/// struct Client;
///
/// impl AsyncEventSink for Client {
///     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         tokio::task::yield_now().await; // the request
///         Ok(event.clone())
///     }
///
///     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         self.create(event).await
///     }
/// }
///
/// # #[tokio::main(flavor = "multi_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let handle = tokio::runtime::Handle::current();
/// let events = EventBroadcaster::new()?;
/// let sink = Blocking::new(Client, move |future| handle.block_on(future));
/// let recording = events.start_recording_to_sink(sink)?;
/// events.new_recorder("mounter").event(ObjectReference::new("Disk", "sda"), eventcast::EventType::Normal, "Mounted", "/");
/// assert!(events.shutdown_async(Duration::from_secs(30)).await.complete);
/// assert_eq!(recording.stats().created, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[doc(alias = "block_on")]
pub struct Blocking<S, B> {
    sink: S,
    block_on: B,
}

impl<S, B> Blocking<S, B>
where
    S: AsyncEventSink,
    B: Fn(Pin<&mut (dyn Future<Output = ()> + Send)>) + Send + Sync + 'static,
{
    /// Creates a sink over `sink` that waits for a future by calling `block_on`. The threads of the
    /// recording call `block_on`, several at the same time if there are several
    /// [workers](crate::record::RecordingBuilder::workers).
    ///
    /// `block_on` is a closure. The function of a runtime does not fit without one, because it
    /// would have to be the same for futures of any lifetime.
    ///
    /// # Examples
    ///
    /// A limit for each operation:
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, Blocking};
    /// use eventcast::{Event, EventSink, SinkError};
    /// use std::time::Duration;
    /// use tokio::time::timeout;
    ///
    /// struct Silent;
    ///
    /// impl AsyncEventSink for Silent {
    ///     async fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         let answer = timeout(Duration::from_millis(1), std::future::pending()).await;
    ///         answer.map_err(|_| SinkError::unavailable("no answer in time"))
    ///     }
    ///
    ///     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event).await
    ///     }
    /// }
    ///
    /// let runtime = tokio::runtime::Builder::new_multi_thread().enable_time().build()?;
    /// let handle = runtime.handle().clone();
    /// let sink = Blocking::new(Silent, move |future| handle.block_on(future));
    /// let error = sink.create(&Event::default()).unwrap_err();
    /// assert_eq!(error.to_string(), "unavailable: no answer in time");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn new(sink: S, block_on: B) -> Self {
        Self { sink, block_on }
    }

    /// Waits for the future. Returns `None` if `block_on` returned before the future was ready.
    fn wait<T: Send>(&self, future: impl Future<Output = T> + Send) -> Option<T> {
        let mut answer = None;
        (self.block_on)(pin!(async { answer = Some(future.await) }));
        answer
    }

    fn wait_for_one(
        &self,
        future: impl Future<Output = Result<Event, SinkError>> + Send,
    ) -> Result<Event, SinkError> {
        self.wait(future).unwrap_or_else(|| Err(not_ready()))
    }
}

/// Returns the error of an operation that may or may not have been done.
fn not_ready() -> SinkError {
    SinkError::unavailable("the sink's future was dropped before it was ready")
}

impl<S, B> EventSink for Blocking<S, B>
where
    S: AsyncEventSink,
    B: Fn(Pin<&mut (dyn Future<Output = ()> + Send)>) + Send + Sync + 'static,
{
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.wait_for_one(self.sink.create(event))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.wait_for_one(self.sink.update(event))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.wait_for_one(self.sink.patch(event))
    }

    fn write_order(&self) -> WriteOrder {
        self.sink.write_order()
    }

    fn ttl(&self) -> Option<Duration> {
        self.sink.ttl()
    }

    fn refresh_every(&self) -> Option<Duration> {
        self.sink.refresh_every()
    }

    fn needed_thread(&self) -> Option<NeededThread> {
        self.sink.needed_thread()
    }

    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        let answers = self.wait(self.sink.apply(batch));
        answers.unwrap_or_else(|| batch.iter().map(|_| Err(not_ready())).collect())
    }
}

impl<S: fmt::Debug, B> fmt::Debug for Blocking<S, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Blocking").field("sink", &self.sink).finish_non_exhaustive()
    }
}
