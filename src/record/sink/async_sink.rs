//! Stores with an asynchronous client, and the bridge from them to the threads of a recording.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::catch::catch_panic_message;
use crate::record::event::{Event, Stored};
use crate::sync::Arc;

use super::contract::{EventSink, SinkOp};
use super::error::SinkError;
use super::order::WriteOrder;

/// A store for events whose methods return futures: the contract of [`EventSink`], for a client
/// that is asynchronous. A [`Blocking`] makes a sink of it.
///
/// An implementation writes the methods as `async fn`. Their futures must be `Send`.
///
/// An `Arc` of such a store is such a store, so several recordings can share one.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{AsyncEventSink, Blocking};
/// use eventcast::{Event, EventSink, SinkError};
///
/// struct Client;
///
/// impl AsyncEventSink for Client {
///     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         smol::future::yield_now().await; // the request
///         Ok(event.clone())
///     }
///
///     async fn update(&self, _: &Event) -> Result<Event, SinkError> {
///         Err(SinkError::not_found("expired"))
///     }
/// }
///
/// let sink = Blocking::new(Client, |future| smol::block_on(future));
/// let event = Event::default();
/// assert_eq!(sink.create(&event)?, event);
/// assert_eq!(sink.update(&event).unwrap_err().to_string(), "not found: expired");
/// # Ok::<(), SinkError>(())
/// ```
pub trait AsyncEventSink: Send + Sync + 'static {
    /// Stores a new event, as [`EventSink::create`] does.
    ///
    /// # Errors
    ///
    /// As of [`EventSink::create`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::AsyncEventSink;
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// #
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #
    /// #     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.update(event)
    /// #     }
    /// # }
    ///
    /// let client = Client(MemorySink::new());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let stored = smol::block_on(AsyncEventSink::create(&client, &event))?;
    /// assert_eq!(stored.metadata.name, "web-0.1");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn create(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send;

    /// Replaces the stored event of this name, as [`EventSink::update`] does.
    ///
    /// # Errors
    ///
    /// As of [`EventSink::update`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::AsyncEventSink;
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// #
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #
    /// #     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.update(event)
    /// #     }
    /// # }
    ///
    /// let client = Client(MemorySink::new());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let mut stored = smol::block_on(client.create(&event))?;
    /// stored.reason = "Stopped".into();
    /// assert_eq!(smol::block_on(client.update(&stored))?.reason, "Stopped");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn update(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send;

    /// Changes the stored event of this name, as [`EventSink::patch`] does. The default
    /// implementation calls [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// As of [`EventSink::patch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::AsyncEventSink;
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// #
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #
    /// #     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.update(event)
    /// #     }
    /// # }
    ///
    /// let client = Client(MemorySink::new());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let mut again = smol::block_on(client.create(&event))?;
    /// again.count = 2;
    /// // This client has no `patch`, so `update` does it.
    /// assert_eq!(smol::block_on(client.patch(&again))?.count, 2);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn patch(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        self.update(event)
    }

    /// Returns the order in which a recording should give the store its writes, as
    /// [`EventSink::write_order`] does. A store that appends returns [`WriteOrder::Bus`]. Default
    /// [`WriteOrder::PerKey`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, Blocking, WriteOrder};
    /// use eventcast::{Event, EventSink, SinkError};
    ///
    /// struct Journal;
    ///
    /// impl AsyncEventSink for Journal {
    ///     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     fn write_order(&self) -> WriteOrder {
    ///         WriteOrder::Bus
    ///     }
    /// }
    ///
    /// let sink = Blocking::new(Journal, |future| smol::block_on(future));
    /// assert_eq!(sink.write_order(), WriteOrder::Bus);
    /// ```
    fn write_order(&self) -> WriteOrder {
        WriteOrder::PerKey
    }

    /// Returns the time for which the store keeps an event after the last write of the event, as
    /// [`EventSink::ttl`] does. Default `None`.
    fn ttl(&self) -> Option<Duration> {
        None
    }

    /// Performs several operations in order, and returns one answer for each, as
    /// [`EventSink::apply`] does. The default implementation performs them one by one, and
    /// continues after one that fails or panics.
    ///
    /// No two operations of a batch are about the same event, so a store may also have several of
    /// them in flight.
    ///
    /// # Examples
    ///
    /// A store that sends all requests of a batch at once:
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, Blocking, SinkOp, Stored};
    /// use eventcast::{Event, EventSink, SinkError};
    /// use futures::future::join_all;
    ///
    /// struct Client;
    ///
    /// impl AsyncEventSink for Client {
    ///     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     async fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
    ///         let one = async |op: &SinkOp| op.apply_to_async(self).await.map(Stored::from);
    ///         join_all(batch.iter().map(one)).await
    ///     }
    /// }
    ///
    /// let sink = Blocking::new(Client, |future| futures::executor::block_on(future));
    /// let mut ops = [SinkOp::Create(Event::default()), SinkOp::Update(Event::default())];
    /// assert!(sink.apply(&mut ops).iter().all(Result::is_ok));
    /// ```
    fn apply(&self, batch: &mut [SinkOp]) -> impl Future<Output = Vec<Result<Stored, SinkError>>> + Send {
        async move {
            let mut answers = Vec::with_capacity(batch.len());
            for op in &*batch {
                let answer = catch_panic_in(op.apply_to_async(self)).await;
                let answer = answer.unwrap_or_else(|text| Err(SinkError::panicked(&text)));
                answers.push(answer.map(Stored::from));
            }
            answers
        }
    }
}

/// Runs a future to its end. Returns the text of the panic if the future panicked.
async fn catch_panic_in<T>(future: impl Future<Output = T>) -> Result<T, String> {
    let mut future = pin!(future);
    poll_fn(|context| match catch_panic_message(|| future.as_mut().poll(context)) {
        Ok(progress) => progress.map(Ok),
        Err(text) => Poll::Ready(Err(text)),
    })
    .await
}

impl SinkOp {
    /// Performs the operation on an asynchronous store, and returns the answer.
    ///
    /// # Errors
    ///
    /// Returns the store's error. If the event has been taken, the operation is rejected.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, SinkOp};
    /// use eventcast::{Event, SinkError};
    ///
    /// struct Full;
    ///
    /// impl AsyncEventSink for Full {
    ///     async fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         Err(SinkError::unavailable("the disk is full"))
    ///     }
    ///
    ///     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    /// }
    ///
    /// let op = SinkOp::Create(Event::default());
    /// let error = smol::block_on(op.apply_to_async(&Full)).unwrap_err();
    /// assert_eq!(error.to_string(), "unavailable: the disk is full");
    /// ```
    pub async fn apply_to_async<S: AsyncEventSink + ?Sized>(&self, sink: &S) -> Result<Event, SinkError> {
        match self {
            Self::Create(event) => sink.create(event).await,
            Self::Update(event) => sink.update(event).await,
            Self::Patch(event) => sink.patch(event).await,
            Self::Taken => Err(SinkError::taken()),
        }
    }
}

impl<S: AsyncEventSink> AsyncEventSink for Arc<S> {
    fn create(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        (**self).create(event)
    }

    fn update(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        (**self).update(event)
    }

    fn patch(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        (**self).patch(event)
    }

    fn write_order(&self) -> WriteOrder {
        (**self).write_order()
    }

    fn ttl(&self) -> Option<Duration> {
        (**self).ttl()
    }

    fn apply(&self, batch: &mut [SinkOp]) -> impl Future<Output = Vec<Result<Stored, SinkError>>> + Send {
        (**self).apply(batch)
    }
}

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
///   blocks, neither it nor the recording ever continues. A multi-thread runtime, or a runtime on a
///   thread of its own that serves only the sink, does not have this hazard.
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
///     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
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
    ///     async fn update(&self, event: &Event) -> Result<Event, SinkError> {
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
