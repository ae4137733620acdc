//! The contract between a recording and a store.

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

/// The cause reported when a sink that does not implement `update` rejects an update.
pub(super) const NO_UPDATE: &str = "this sink does not replace events";

/// The default value of [`EventSink::refresh_every`].
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);

/// A store for events. Implementations are only required to provide `create` and `patch`.
///
/// A recording calls the sink on its worker threads. There is one worker unless
/// [`workers`](crate::record::RecordingBuilder::workers) sets more. Threads that record, dispatch
/// or correlate events never call the sink, except for its [`group`](Self::group) method. The sink
/// may therefore take as long as it needs without affecting other recordings. If the sink panics,
/// the recording drops the event as if the sink had rejected it.
///
/// The sink receives states rather than individual occurrences: events that arrive while an earlier
/// write for the same key is pending are combined into that write. At most one operation per stored
/// event is in progress at a time. A sink that needs every change should return [`WriteOrder::Bus`]
/// from [`write_order`](Self::write_order).
///
/// By default each worker calls `create` or `patch` for one operation at a time. A store that can
/// perform several operations together should return a different [`mode`](Self::mode) and implement
/// [`submit`](Self::submit). A store with many tenants, each of which may be slow or fail
/// independently, should return an event's tenant from [`group`](Self::group).
///
/// The trait is also implemented for an `Arc` or a `Box` of a sink, including `dyn EventSink`. With
/// an `Arc`, several recordings can share a store that the program also reads.
///
/// A store with an asynchronous client should instead implement
/// [`AsyncEventSink`](crate::sink::AsyncEventSink), which an [`AsyncSink`](crate::sink::AsyncSink)
/// turns into a sink. See `examples/more/custom_sink.rs` in the repository for an example.
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
    /// Stores a new event in the event's namespace, and returns the event as stored.
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

    /// Changes the count, last time and message of the stored event with this name, and returns the
    /// event as stored. If `event` has an event time and a series but no count, changes only the
    /// series.
    ///
    /// `event` is the complete event as it should be after the change, so a store may instead
    /// replace the stored event. The store must not create the event if it is missing, because the
    /// recording does so itself and counts the event as created. If the store inserted a missing
    /// event here, the statistics would be wrong, and events that the store had rejected would
    /// reappear. A log, which appends everything that it receives, may implement this method like
    /// [`create`](Self::create).
    ///
    /// To send the same bytes as client-go, a store can call
    /// [`to_patch_json`](Event::to_patch_json).
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name, because the event has expired or was never created. A recording then creates the
    /// event. See [`SinkError`] for the other errors.
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

    /// Replaces the stored event with this name, and returns the event as stored. Recordings never
    /// call this method, so a sink does not have to implement it. The default implementation
    /// rejects the event.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name and does not create it. See [`SinkError`] for the other errors.
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
    /// [`WriteOrder::Bus`], so that it receives every write. Defaults to [`WriteOrder::PerKey`].
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

    /// Returns how long the store keeps an event after the event's last write. Returns `None`, the
    /// default, if the store keeps events forever or if the time is unknown.
    ///
    /// A recording calls this method at most once, when it starts. If
    /// [`refresh_every`](crate::record::SeriesOptions::refresh_every) is longer than half of this
    /// time, the recording refreshes running series after half of this time instead, so that the
    /// store does not remove their events.
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
    /// thread. Returns `None`, the default, if the sink needs only its own threads or the thread
    /// that calls it.
    ///
    /// A sink whose requests run on a single-threaded executor depends on that executor's thread,
    /// which must therefore not wait for the sink. A recording calls this method once, when it
    /// starts. From then on, the library does not wait for the recording on that thread. See
    /// [`EventBroadcaster`](crate::EventBroadcaster#a-sink-that-needs-this-thread).
    fn needed_thread(&self) -> Option<NeededThread> {
        None
    }

    /// Returns the maximum time for which a recording should hold a count that its spam filter
    /// stopped, unless the recording itself sets a time. With `None`, such a count is written only
    /// at a flush and when the recording ends. Defaults to 30 minutes. A store for which each write
    /// is expensive, such as an API server, should return `None`.
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

    /// Returns how the sink accepts operations. A recording calls this method once, when it starts.
    /// Defaults to [`SinkMode::OneByOne`].
    fn mode(&self) -> SinkMode {
        SinkMode::OneByOne
    }

    /// Returns the name of the group to which an event belongs. A group is a tenant, a namespace or
    /// any other part of the store that may be slow or unavailable independently of other parts. By
    /// default, all events belong to one group, whose name is empty.
    ///
    /// A slow or unavailable group can use only a bounded share of the queue and of the operations
    /// in progress, so events in other groups do not wait for it.
    /// [`group_queue_capacity`](crate::record::RecordingBuilder::group_queue_capacity) sets a
    /// group's share of the queue. `docs/book/stores.md` in the repository describes all of these
    /// limits. With [`WriteOrder::Bus`], there are no groups.
    ///
    /// The recording's own thread calls this method once for each stored event that has a pending
    /// write. The method must return immediately, and must always return the same name for events
    /// about the same object. If it panics, the event is assigned to the group whose name is empty.
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

    /// Performs the operations in a [batch](SinkBatch), and answers each of them through the batch.
    /// The [mode](Self::mode) determines how many operations a batch contains, and whether the
    /// method may return before they have been answered. The default implementation calls `create`,
    /// `update` or `patch` for each operation in turn, continues if one of them fails or panics,
    /// and then answers all of them.
    ///
    /// A recording calls this method only if the mode is not [`SinkMode::OneByOne`]. With
    /// [`WriteOrder::Bus`], each batch contains one operation, and the next batch is submitted only
    /// after that operation has been answered. If the method panics while processing several
    /// operations, the recording resubmits each unanswered operation separately. If such an
    /// operation is a creation that the sink has already performed, the sink should therefore
    /// answer [`AlreadyExists`](crate::sink::SinkErrorKind::AlreadyExists).
    ///
    /// # Examples
    ///
    /// See [`SinkBatch`] for a store with transactions, and [`SinkCall`](crate::sink::SinkCall) for
    /// a store that runs operations concurrently. This sink uses the default implementation:
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
    /// Returns the sink's error.
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

    /// Performs the operation on `sink`. If it fails, returns the operation together with the
    /// error. A panic in the sink counts as a rejection.
    pub(crate) fn perform<S: EventSink + ?Sized>(self, sink: &S) -> Result<Stored, SinkOpError> {
        match catch_panic_message(|| self.apply_to(sink)) {
            Ok(Ok(stored)) => Ok(Stored::from(stored)),
            Ok(Err(error)) => Err(self.failed(error)),
            Err(text) => Err(self.failed(SinkError::panicked(&text))),
        }
    }
}

impl SinkBatch {
    /// Submits operations to a sink, waits until all are answered, and returns the results in the
    /// order of the operations. Use this in programs that use a sink without a recording, such as
    /// tests of the sink.
    ///
    /// # Errors
    ///
    /// Each result is either the stored fields of the event, or the operation together with the
    /// reason for its failure. If the sink panics, the unanswered operations are rejected. If a
    /// function passed to [`answer_each`](Self::answer_each) panics, its operation is lost, and the
    /// error holds a placeholder instead of the operation.
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
        let (mut answers, mut some) = (Vec::with_capacity(count), Vec::new());
        while answers.len() < count {
            replies.take(&mut some);
            if some.is_empty() {
                park_until(&parker, None);
            }
            answers.append(&mut some);
        }
        answers.sort_by_key(|(id, _)| *id);
        let answer = |(_, reply)| match reply {
            Reply::Stored(stored) => Ok(stored),
            Reply::Failed(failed) => Err(failed),
            Reply::Lost(error) => Err(SinkOp::Create(Event::default()).failed(error)),
            // Only a recording creates these replies.
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
