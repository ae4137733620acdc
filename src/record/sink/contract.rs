//! Defines the contract between a recording and a store.

use std::time::Duration;

use crate::catch::catch_panic_message;
use crate::record::event::{Event, Stored};
use crate::sync::{Arc, Parker, park_until};

use super::batch::{OpId, Replies, Reply, SinkBatch, in_call};
use super::error::SinkError;
use super::mode::SinkMode;
use super::needed_thread::NeededThread;
use super::op::{SinkOp, SinkOpError};
use super::order::WriteOrder;

/// The cause that is reported if a sink rejects an update because it does not implement `update`.
pub(super) const NO_UPDATE: &str = "this sink does not replace events";

/// The default value of [`EventSink::refresh_every`].
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);

/// A store for events. An implementation only has to provide `create` and `patch`.
///
/// A recording calls the sink on the recording's worker threads. By default, a recording has one
/// worker. Use [`workers`](crate::record::RecordingBuilder::workers) to set a larger number. Except
/// for the [`group`](Self::group) method, the sink is never called on a thread that records,
/// dispatches or correlates events. The sink may therefore take as long as it needs without
/// affecting other recordings. If the sink panics, the recording drops the event as if the sink had
/// rejected it.
///
/// The sink receives states rather than individual occurrences. If an event arrives while an
/// earlier write for the same key is pending, the event is combined into that write. At most one
/// operation per stored event is in progress at a time. If a sink needs every change, it should
/// return [`WriteOrder::Bus`] from [`write_order`](Self::write_order).
///
/// By default, each worker calls `create` or `patch` for one operation at a time. If a store can
/// perform several operations together, it should return a different [`mode`](Self::mode) and
/// implement [`submit`](Self::submit). If a store has many tenants that may be slow or fail
/// independently, it should return the event's tenant from [`group`](Self::group).
///
/// The trait is also implemented for a sink in an `Arc` or a `Box`, including `dyn EventSink`. With
/// an `Arc`, several recordings can share a store, and the program can read from the same store.
///
/// If a store has an asynchronous client, it should implement
/// [`AsyncEventSink`](crate::sink::AsyncEventSink) instead. An
/// [`AsyncSink`](crate::sink::AsyncSink) turns such a store into a sink. See
/// `examples/more/custom_sink.rs` in the repository for an example.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventSink, SinkError};
///
/// /// Keeps nothing and prints what happens.
/// struct Printer;
///
/// impl EventSink for Printer {
///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         println!("new: {}", event.to_json());
///         Ok(event.clone())
///     }
///
///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         println!("again: {}", event.to_json());
///         Ok(event.clone())
///     }
/// }
///
/// let mut event = Event::default();
/// event.reason = "Started".into();
/// assert_eq!(Printer.create(&event).unwrap(), event);
/// ```
pub trait EventSink: Send + Sync + 'static {
    /// Stores a new event in the event's namespace. Returns the event as stored.
    ///
    /// # Errors
    ///
    /// Returns [`AlreadyExists`](crate::sink::SinkErrorKind::AlreadyExists) if the store already
    /// has an event with this name. See [`SinkError`] for the other errors.
    #[doc(alias = "Create")]
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let sink = MemorySink::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// assert_eq!(sink.create(&event)?.metadata.resource_version(), "1");
    /// assert_eq!(sink.create(&event).unwrap_err().kind(), SinkErrorKind::AlreadyExists);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn create(&self, event: &Event) -> Result<Event, SinkError>;

    /// Changes the count, last time and message of the stored event that has the same name. Returns
    /// the event as stored. If `event` has an event time and a series but no count, changes only
    /// the series.
    ///
    /// `event` is the complete event in the state that it should have after the change, so a store
    /// may replace the stored event instead. If the event is missing, the store must not create it,
    /// because the recording itself creates a missing event and counts it as created. If this
    /// method inserted a missing event, the statistics would be wrong, and events that the store
    /// had rejected would reappear. A log, which appends everything it receives, may implement this
    /// method like [`create`](Self::create).
    ///
    /// To send the same bytes as client-go, a store can call
    /// [`to_patch_json`](Event::to_patch_json).
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name, because the event has expired or was never created. After this error, a recording
    /// creates the event. See [`SinkError`] for the other errors.
    #[doc(alias = "Patch")]
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let sink = MemorySink::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// assert_eq!(sink.patch(&event).unwrap_err().kind(), SinkErrorKind::NotFound);
    ///
    /// let mut again = sink.create(&event)?;
    /// again.count = 2;
    /// assert_eq!(sink.patch(&again)?.count, 2);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn patch(&self, event: &Event) -> Result<Event, SinkError>;

    /// Replaces the stored event that has the same name. Returns the event as stored. Recordings
    /// never call this method, so a sink does not have to implement it. The default implementation
    /// rejects the event.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name and does not create the event. See [`SinkError`] for the other errors.
    #[doc(alias = "Update")]
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let sink = MemorySink::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let mut stored = sink.create(&event)?;
    /// stored.reason = "Stopped".into();
    /// assert_eq!(sink.update(&stored)?.reason, "Stopped");
    /// assert_eq!(sink.len(), 1);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        let _ = event;
        Err(SinkError::rejected(NO_UPDATE))
    }

    /// Returns the order in which a recording should pass its writes to the sink, unless the
    /// recording itself sets an order. A sink that appends, such as a log, should return
    /// [`WriteOrder::Bus`] to receive every write. Defaults to [`WriteOrder::PerKey`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{JsonLinesSink, WriteOrder};
    /// use eventcast::{EventSink, MemorySink};
    ///
    /// assert_eq!(MemorySink::new().write_order(), WriteOrder::PerKey);
    /// assert_eq!(JsonLinesSink::new(std::io::sink()).write_order(), WriteOrder::Bus);
    /// ```
    fn write_order(&self) -> WriteOrder {
        WriteOrder::PerKey
    }

    /// Returns how long the store keeps an event after the event's last write. Returns `None` if
    /// the store keeps events forever or if the time is unknown. Defaults to `None`.
    ///
    /// A recording calls this method at most once, when the recording starts. If
    /// [`refresh_every`](crate::record::SeriesOptions::refresh_every) is longer than half of the
    /// time to live, the recording refreshes running series after half of the time to live instead,
    /// so that the store does not remove their events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{JsonLinesSink, MemorySinkOptions};
    /// use eventcast::{EventSink, MemorySink};
    /// use std::time::Duration;
    ///
    /// let ten_minutes = Duration::from_secs(600);
    /// let store = MemorySink::with_options(MemorySinkOptions::default().ttl(ten_minutes))?;
    /// assert_eq!(store.ttl(), Some(ten_minutes));
    /// assert_eq!(JsonLinesSink::new(std::io::sink()).ttl(), None);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    fn ttl(&self) -> Option<Duration> {
        None
    }

    /// Returns the thread on which the sink depends, if the program also runs other code on that
    /// thread. Returns `None` if the sink needs only its own threads or the thread that calls it.
    /// Defaults to `None`.
    ///
    /// If a sink's requests run on a single-threaded executor, the sink depends on that executor's
    /// thread, which must therefore not wait for the sink. A recording calls this method once, when
    /// the recording starts. From then on, the library does not wait for the recording on that
    /// thread. See [`EventBroadcaster`](crate::EventBroadcaster#a-sink-that-needs-this-thread).
    fn needed_thread(&self) -> Option<NeededThread> {
        None
    }

    /// Returns the maximum time for which a recording should hold a count whose write was stopped
    /// by the spam filter, unless the recording itself sets a time. If this method returns `None`,
    /// such a count is written only during a flush and when the recording ends. Defaults to 30
    /// minutes. If each write is expensive, as with an API server, the store should return `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventSink, MemorySink};
    ///
    /// assert_eq!(MemorySink::new().refresh_every().unwrap().as_secs(), 30 * 60);
    /// ```
    fn refresh_every(&self) -> Option<Duration> {
        Some(REFRESH_EVERY)
    }

    /// Returns how the sink accepts operations. A recording calls this method once, when the
    /// recording starts. Defaults to [`SinkMode::OneByOne`].
    fn mode(&self) -> SinkMode {
        SinkMode::OneByOne
    }

    /// Returns the name of the group to which an event belongs. A group is a tenant, a namespace or
    /// any other part of the store that may be slow or unavailable independently of other parts. By
    /// default, all events belong to a single group, whose name is empty.
    ///
    /// A slow or unavailable group can use only a bounded share of the queue and of the operations
    /// in progress, so events in other groups do not have to wait for that group.
    /// [`group_queue_capacity`](crate::record::RecordingBuilder::group_queue_capacity) sets a
    /// group's share of the queue. `docs/book/stores.md` in the repository describes all limits
    /// that apply to groups. Groups are not used with [`WriteOrder::Bus`].
    ///
    /// The recording's own thread calls this method once for each stored event that has a pending
    /// write. The method must return immediately, and must always return the same name for events
    /// about the same object. If the method panics, the event is assigned to the group whose name
    /// is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, SinkError};
    ///
    /// struct PerTenant;
    ///
    /// impl EventSink for PerTenant {
    ///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone()) // the request
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event)
    ///     }
    ///
    ///     fn group<'e>(&self, event: &'e Event) -> &'e str {
    ///         &event.involved_object.namespace
    ///     }
    /// }
    ///
    /// let mut event = Event::default();
    /// event.involved_object.namespace = "shop".into();
    /// assert_eq!(PerTenant.group(&event), "shop");
    /// ```
    #[doc(alias("tenant", "namespace", "shard", "bulkhead"))]
    fn group<'e>(&self, event: &'e Event) -> &'e str {
        let _ = event;
        ""
    }

    /// Performs the operations in a [batch](SinkBatch), and answers each operation through the
    /// batch. The [mode](Self::mode) determines how many operations a batch contains, and whether
    /// this method may return before all operations have been answered. The default implementation
    /// calls `create`, `update` or `patch` for each operation in turn, continues if a call fails or
    /// panics, and then answers all operations.
    ///
    /// A recording calls this method only if the mode is not [`SinkMode::OneByOne`]. With
    /// [`WriteOrder::Bus`], each batch contains one operation, and the next batch is submitted only
    /// after that operation has been answered. If this method panics while processing several
    /// operations, the recording resubmits each unanswered operation separately. The sink may
    /// already have performed a resubmitted creation. In this case, it should answer with
    /// [`AlreadyExists`](crate::sink::SinkErrorKind::AlreadyExists).
    ///
    /// # Examples
    ///
    /// See [`SinkBatch`] for a store with transactions, and [`SinkCall`](crate::sink::SinkCall) for
    /// a store that runs operations concurrently. The sink in this example uses the default
    /// implementation:
    ///
    /// ```
    /// use eventcast::sink::{SinkBatch, SinkOp};
    /// use eventcast::{Event, EventSink, SinkError};
    ///
    /// struct Picky;
    ///
    /// impl EventSink for Picky {
    ///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         assert!(!event.reason.is_empty(), "no reason");
    ///         Ok(event.clone())
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    /// }
    ///
    /// // The first one panics.
    /// let ops = vec![SinkOp::Create(Event::default()), SinkOp::Patch(Event::default())];
    /// let answers = SinkBatch::perform(ops, &Picky);
    /// assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "rejected: the sink panicked: no reason");
    /// assert!(answers[1].is_ok());
    /// ```
    #[doc(alias("apply", "bulk"))]
    fn submit(&self, batch: SinkBatch) {
        batch.answer_each(|op| op.perform(self));
    }
}

impl SinkOp {
    /// Performs the operation on `sink` and returns the result.
    ///
    /// # Errors
    ///
    /// Returns the error from the sink.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkOp;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let sink = MemorySink::new();
    /// let op = SinkOp::Create(event);
    /// assert_eq!(op.apply_to(&sink)?.metadata.name, "web-0.1");
    /// let error = op.apply_to(&sink).unwrap_err();
    /// assert_eq!(error.to_string(), "already exists: events \"web-0.1\" in namespace default");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn apply_to<S: EventSink + ?Sized>(&self, sink: &S) -> Result<Event, SinkError> {
        match self {
            Self::Create(event) => sink.create(event),
            Self::Update(event) => sink.update(event),
            Self::Patch(event) => sink.patch(event),
        }
    }

    /// Performs the operation on `sink`. If the operation fails, returns the operation together
    /// with the error. A panic in the sink counts as a rejection.
    pub(crate) fn perform<S: EventSink + ?Sized>(self, sink: &S) -> Result<Stored, SinkOpError> {
        match catch_panic_message(|| self.apply_to(sink)) {
            Ok(Ok(stored)) => Ok(Stored::from(stored)),
            Ok(Err(error)) => Err(self.failed(error)),
            Err(text) => Err(self.failed(SinkError::panicked(&text))),
        }
    }
}

impl SinkBatch {
    /// Submits operations to a sink, waits until all operations have been answered, and returns the
    /// results in the order of the operations. This function is intended for programs that use a
    /// sink without a recording, such as tests of the sink.
    ///
    /// # Errors
    ///
    /// If an operation fails, its result holds the operation together with the reason for the
    /// failure. Otherwise, the result holds the stored fields of the event. If the sink panics, the
    /// unanswered operations are rejected. If a function passed to
    /// [`answer_each`](Self::answer_each) panics, the operation that the function received is lost,
    /// and the error holds a placeholder instead.
    ///
    /// # Blocking
    ///
    /// Blocks until the sink has answered or dropped each operation.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{SinkBatch, SinkOp};
    /// use eventcast::{Event, MemorySink};
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let sink = MemorySink::new();
    /// let mut other = event.clone();
    /// other.metadata.name = "web-0.2".into();
    /// let answers = SinkBatch::perform(vec![SinkOp::Create(event), SinkOp::Patch(other)], &sink);
    /// assert_eq!(answers[0].as_ref().unwrap().name, "web-0.1");
    /// assert_eq!(answers[1].as_ref().unwrap_err().to_string(), "not found: events \"web-0.2\" in namespace default");
    /// ```
    #[must_use = "an operation may have failed"]
    pub fn perform<S: EventSink + ?Sized>(ops: Vec<SinkOp>, sink: &S) -> Vec<Result<Stored, SinkOpError>> {
        let parker = Parker::new();
        let unparker = parker.unparker();
        let replies = Replies::new(move || unparker.unpark());
        let count = ops.len();
        let batch = Self::new((0..count as OpId).collect(), ops, replies.clone());
        let panicked = in_call(&replies, || sink.submit(batch)).err();
        if let Some((text, left)) = panicked {
            let failed = |op: SinkOp| Reply::Failed(op.failed(SinkError::panicked(&text)));
            replies.push(left.into_iter().map(|(id, op)| (id, failed(op))));
        }
        let mut answers = Vec::with_capacity(count);
        replies.take(&mut answers);
        while answers.len() < count {
            park_until(&parker, None);
            replies.take(&mut answers);
        }
        answers.sort_by_key(|(id, _)| *id);
        let answer = |(_, reply)| match reply {
            Reply::Stored(stored) => Ok(stored),
            Reply::Failed(failed) => Err(failed),
            Reply::Lost(error) => Err(SinkOp::Create(Event::default()).failed(error)),
            // These replies are created only by a recording.
            Reply::Unsure(_) | Reply::Unsent(_) => Ok(Stored::default()),
        };
        answers.into_iter().map(answer).collect()
    }
}

macro_rules! forward {
    ($($pointer:ident),*) => {$(
        impl<S: EventSink + ?Sized> EventSink for $pointer<S> {
            fn create(&self, event: &Event) -> Result<Event, SinkError> {
                (**self).create(event)
            }

            fn update(&self, event: &Event) -> Result<Event, SinkError> {
                (**self).update(event)
            }

            fn patch(&self, event: &Event) -> Result<Event, SinkError> {
                (**self).patch(event)
            }

            fn write_order(&self) -> WriteOrder {
                (**self).write_order()
            }

            fn ttl(&self) -> Option<Duration> {
                (**self).ttl()
            }

            fn needed_thread(&self) -> Option<NeededThread> {
                (**self).needed_thread()
            }

            fn refresh_every(&self) -> Option<Duration> {
                (**self).refresh_every()
            }

            fn mode(&self) -> SinkMode {
                (**self).mode()
            }

            fn group<'e>(&self, event: &'e Event) -> &'e str {
                (**self).group(event)
            }

            fn submit(&self, batch: SinkBatch) {
                (**self).submit(batch);
            }
        }
    )*};
}

forward!(Arc, Box);
