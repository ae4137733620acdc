//! An adapter that allows a recording to write to an asynchronous store. The adapter runs each
//! operation as a separate task.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use crate::bus::{Timer, TimerEntry};
use crate::catch::catch_panic_in;
use crate::clock::Clock;
use crate::record::event::{Event, Stored};
use crate::sync::{Arc, Mutex, Parker, Unparker, park_until, unique_id};

use super::async_sink::AsyncEventSink;
use super::batch::SinkBatch;
use super::contract::EventSink;
use super::error::{SinkError, SinkErrorKind};
use super::mode::SinkMode;
use super::needed_thread::NeededThread;
use super::op::SinkOp;
use super::order::WriteOrder;

/// The default for the maximum number of operations in progress at the same time.
const IN_FLIGHT: usize = 16;
/// The default time limit for an operation.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A sink that wraps an [`AsyncEventSink`]. Each operation runs as a separate task, so a slow
/// operation delays only writes for the same key.
///
/// The library does not depend on a particular runtime, so the program must pass a function that
/// spawns a task:
///
/// | runtime | function |
/// |---|---|
/// | tokio | `move \|operation\| { handle.spawn(operation); }`, with a `tokio::runtime::Handle` |
/// | smol | `\|operation\| smol::spawn(operation).detach()` |
/// | futures | `move \|operation\| pool.spawn_ok(operation)`, with a `ThreadPool` |
///
/// - Each operation has a [time limit](Self::timeout).
/// - At most [`in_flight`](Self::in_flight) operations are in progress at the same time.
/// - If a task panics, the recording drops the task's event, as described in [`EventSink`].
/// - If the runtime drops a task, the recording retries the task's event.
///
/// # Blocking
///
/// While a recording is running, it does not wait for individual tasks. Before a recording ends, it
/// waits for all of its tasks to finish. The runtime must therefore keep running until the
/// recording has ended:
///
/// - The program must shut down the broadcaster before it drops the runtime. If a tokio timer is
///   used after its runtime was dropped, the timer panics, and the recording drops the event.
/// - A task should await [`flush_async`](crate::EventBroadcaster::flush_async) and
///   [`shutdown_async`](crate::EventBroadcaster::shutdown_async), because `flush` and `shutdown`
///   would block one of the runtime's threads.
/// - A single-threaded tokio runtime (`current_thread`) runs tasks only while its thread is inside
///   `Runtime::block_on`. If that thread waits for the recording, the thread and the recording
///   deadlock. To prevent a deadlock, the store should return the thread from
///   [`needed_thread`](AsyncEventSink::needed_thread). The library then does not wait for the
///   recording on that thread. A multi-threaded runtime cannot deadlock in this way, and neither
///   can a runtime on a separate thread that serves only the sink.
/// - A task that stores events from a broadcaster must not wait for that broadcaster.
///
/// If a program calls one of the sink's methods directly, such as `create`, the call blocks until
/// the operation's task has finished. Do not call these methods on the thread of a single-threaded
/// runtime.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{AsyncEventSink, AsyncSink};
/// use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, SinkError};
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
/// let sink = AsyncSink::new(Client, move |operation| {
///     handle.spawn(operation);
/// });
/// let recording = events.record_to(sink)?;
/// let disk = ObjectReference::new("Disk", "sda");
/// events.recorder("mounter").event(disk, EventType::Normal, "Mounted", "/");
/// assert!(events.shutdown_async(Duration::from_secs(30)).await.complete);
/// assert_eq!(recording.stats().created, 1);
/// # Ok(())
/// # }
/// ```
#[must_use = "a sink does nothing until a recording writes to it"]
pub struct AsyncSink<S, P> {
    sink: Arc<S>,
    spawn: P,
    in_flight: usize,
    limit: Limit,
}

impl<S, P> AsyncSink<S, P>
where
    S: AsyncEventSink,
    P: Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync + 'static,
{
    /// Creates a sink that wraps `sink` and passes each operation to `spawn`. The recording's
    /// threads call `spawn`, which must return without waiting for the operation.
    ///
    /// # Examples
    ///
    /// See [`AsyncSink`].
    pub fn new(sink: S, spawn: P) -> Self {
        let timer = Arc::new(Timer::new(unique_id(), Clock::system()));
        Self { sink: Arc::new(sink), spawn, in_flight: IN_FLIGHT, limit: Limit { timer, timeout: TIMEOUT } }
    }

    /// Sets the maximum number of operations in progress at the same time. Defaults to 16. A value
    /// of zero is treated as 1.
    ///
    /// # Examples
    ///
    /// ```
    /// # use eventcast::sink::{AsyncEventSink, AsyncSink};
    /// # use eventcast::{Event, SinkError};
    /// # struct Client;
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         Ok(event.clone())
    /// #     }
    /// #     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         Ok(event.clone())
    /// #     }
    /// # }
    /// use eventcast::EventSink;
    /// use eventcast::sink::SinkMode;
    ///
    /// let sink = AsyncSink::new(Client, |operation| smol::spawn(operation).detach());
    /// assert_eq!(sink.in_flight(4).mode(), SinkMode::InFlight(4));
    /// ```
    pub fn in_flight(mut self, operations: usize) -> Self {
        self.in_flight = operations.max(1);
        self
    }

    /// Sets the time limit for an operation. If an operation exceeds the limit, the operation is
    /// dropped and fails with [`SinkErrorKind::GroupUnavailable`], so it may be retried. Defaults
    /// to 30 s. The time is measured by the system clock. [`Duration::MAX`] disables the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, AsyncSink};
    /// use eventcast::{Event, EventSink, SinkError};
    /// use std::time::Duration;
    ///
    /// struct Silent;
    ///
    /// impl AsyncEventSink for Silent {
    ///     async fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         std::future::pending().await
    ///     }
    ///
    ///     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event).await
    ///     }
    /// }
    ///
    /// let sink = AsyncSink::new(Silent, |operation| smol::spawn(operation).detach());
    /// let error = sink.timeout(Duration::from_millis(1)).create(&Event::default()).unwrap_err();
    /// assert_eq!(error.to_string(), "group unavailable: no response within 1ms");
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.limit.timeout = timeout;
        self
    }

    /// Performs one operation, and blocks until the operation is complete.
    fn perform(&self, op: SinkOp) -> Result<Event, SinkError> {
        let (sink, limit, parker) = (self.sink.clone(), self.limit.clone(), Parker::new());
        let waiting = Arc::new(Waiting { answer: Mutex::new(None), unparker: parker.unparker() });
        // `Answers` is created outside the future, so that the operation is answered even if the
        // task is dropped before its first poll.
        let task = Answers(waiting.clone());
        (self.spawn)(Box::pin(async move {
            let answer = limit.perform(&*sink, &op).await;
            *task.0.answer.lock() = Some(answer);
        }));
        loop {
            if let Some(answer) = waiting.answer.lock().take() {
                return answer;
            }
            park_until(&parker, None);
        }
    }
}

/// The state shared by a task and the thread that is waiting for the task's result.
struct Waiting {
    answer: Mutex<Option<Result<Event, SinkError>>>,
    unparker: Unparker,
}

/// The task's handle to `Waiting`. Dropping this handle wakes the waiting thread. If the task has
/// not answered, an error is stored first.
struct Answers(Arc<Waiting>);

impl Drop for Answers {
    fn drop(&mut self) {
        let dropped =
            || Err(SinkError::new(SinkErrorKind::GroupUnavailable, "the runtime dropped the operation"));
        self.0.answer.lock().get_or_insert_with(dropped);
        self.0.unparker.unpark();
    }
}

/// The time limit that applies to each operation.
#[derive(Clone, Debug)]
struct Limit {
    timer: Arc<Timer>,
    timeout: Duration,
}

impl Limit {
    /// Performs an operation within the time limit.
    async fn perform<S: AsyncEventSink>(&self, sink: &S, op: &SinkOp) -> Result<Event, SinkError> {
        let answer = async {
            match op {
                SinkOp::Create(event) => sink.create(event).await,
                SinkOp::Update(event) => sink.update(event).await,
                SinkOp::Patch(event) => sink.patch(event).await,
            }
        };
        match self.within(catch_panic_in(answer)).await {
            Some(Ok(answer)) => answer,
            Some(Err(text)) => Err(SinkError::panicked(&text)),
            None => Err(SinkError::new(
                SinkErrorKind::GroupUnavailable,
                format!("no response within {:?}", self.timeout),
            )),
        }
    }

    /// Runs a future until it completes or the time limit expires. Returns `None` if the limit
    /// expires first.
    async fn within<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let clock = Clock::system();
        let deadline = clock.deadline(self.timeout);
        let (mut entry, mut future) = (TimerEntry::new(&self.timer), pin!(future));
        poll_fn(move |context| {
            if let Poll::Ready(done) = future.as_mut().poll(context) {
                return Poll::Ready(Some(done));
            }
            if clock.has_passed(deadline) {
                return Poll::Ready(None);
            }
            // If the system cannot start a thread for the timer, setting the timer is retried on
            // the next poll.
            let _ = entry.set(deadline, context.waker());
            Poll::Pending
        })
        .await
    }
}

impl<S, P> EventSink for AsyncSink<S, P>
where
    S: AsyncEventSink,
    P: Fn(Pin<Box<dyn Future<Output = ()> + Send>>) + Send + Sync + 'static,
{
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Create(event.clone()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.perform(SinkOp::Patch(event.clone()))
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

    fn mode(&self) -> SinkMode {
        SinkMode::InFlight(self.in_flight)
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        self.sink.group(event)
    }

    fn submit(&self, batch: SinkBatch) {
        for call in batch {
            let (sink, limit) = (self.sink.clone(), self.limit.clone());
            (self.spawn)(Box::pin(async move {
                let answer = limit.perform(&*sink, call.op()).await;
                call.answer(answer.map(Stored::from));
            }));
        }
    }
}

/// A clone writes to the same store as the original.
impl<S, P: Clone> Clone for AsyncSink<S, P> {
    fn clone(&self) -> Self {
        let (sink, spawn, limit) = (self.sink.clone(), self.spawn.clone(), self.limit.clone());
        Self { sink, spawn, in_flight: self.in_flight, limit }
    }
}

impl<S: fmt::Debug, P> fmt::Debug for AsyncSink<S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncSink")
            .field("sink", &self.sink)
            .field("in_flight", &self.in_flight)
            .field("timeout", &self.limit.timeout)
            .finish_non_exhaustive()
    }
}
