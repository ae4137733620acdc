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

/// The cause with which a sink without an `update` rejects an update.
pub(super) const NO_UPDATE: &str = "this sink does not replace events";

/// The default of [`EventSink::refresh_every`].
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);

/// A store for events. Only `create` and `patch` must be implemented.
///
/// The workers of a recording call the sink: one thread, unless
/// [`workers`](crate::record::RecordingBuilder::workers) sets more. Threads that record, dispatch
/// or correlate events never call the sink, except its method [`group`](Self::group). The sink may
/// therefore take as long as it needs without affecting other recordings. If the sink panics, the
/// recording drops the event as if the sink had rejected it.
///
/// The sink gets states, not occurrences: events that arrive while an earlier write of the same key
/// is pending share that write. At most one operation per stored event is in progress. A sink that
/// needs every change returns [`WriteOrder::Bus`] from [`write_order`](Self::write_order).
///
/// By default each worker calls `create` or `patch` for one operation at a time. A store that can
/// perform several operations together returns another [`mode`](Self::mode), and implements
/// [`submit`](Self::submit). A store with many tenants, each of which may be slow or fail
/// independently, returns the tenant of an event from [`group`](Self::group).
///
/// An `Arc` or a `Box` of a sink also implements the trait, including for `dyn EventSink`. With an
/// `Arc`, one store can serve several recordings and be read at the same time.
///
/// A store with an asynchronous client implements [`AsyncEventSink`](crate::sink::AsyncEventSink)
/// instead, and an [`AsyncSink`](crate::sink::AsyncSink) turns it into a sink.
/// `examples/more/custom_sink.rs` in the repository shows this.
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
    /// has an event with this name. [`SinkError`] describes the other errors.
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

    /// Changes the count, the last time and the message of the stored event with this name, and
    /// returns the event as stored. If `event` has an event time, a series and no count, changes
    /// only the series.
    ///
    /// `event` is the whole event as it should be after the change, so a store may also replace the
    /// stored event. It must not create a missing event: the recording does that, and counts the
    /// event as created. A store that inserts a missing event here would contradict the statistics,
    /// and bring back events that it had rejected. A log, which appends everything that it gets,
    /// may do the same here as in [`create`](Self::create).
    ///
    /// To get the same bytes that client-go would send, a store calls
    /// [`to_patch_json`](Event::to_patch_json).
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name, because the event has expired or was never created. A recording then creates the
    /// event. [`SinkError`] describes the other errors.
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
    /// call this method, so a sink need not implement it. The default implementation rejects the
    /// event.
    ///
    /// # Errors
    ///
    /// Returns [`NotFound`](crate::sink::SinkErrorKind::NotFound) if the store has no event with
    /// this name and does not create it. [`SinkError`] describes the other errors.
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

    /// Returns the order in which a recording should give the sink its writes, unless the recording
    /// sets one. A sink that appends, such as a log, returns [`WriteOrder::Bus`], and then gets
    /// every write. Default [`WriteOrder::PerKey`].
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
    /// default, if the store keeps events forever, or if the time is not known.
    ///
    /// A recording calls this once, when it starts. It refreshes running series after half of this
    /// time if [`refresh_every`](crate::record::SeriesOptions::refresh_every) is longer, so that
    /// the store does not remove their events.
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

    /// Returns the thread that the sink needs for its work, if the program also runs other code on
    /// that thread. Returns `None`, the default, if the thread that calls the sink, or the sink's
    /// own threads, are enough.
    ///
    /// A sink whose requests run on an executor with one thread needs that thread, which must not
    /// wait for the sink. A recording calls this once, when it starts, and the library then does
    /// not wait on this thread for the recording. See
    /// [`EventBroadcaster`](crate::EventBroadcaster#a-sink-that-needs-this-thread).
    fn needed_thread(&self) -> Option<NeededThread> {
        None
    }

    /// Returns the time after which a recording should write a count that its spam filter stopped,
    /// unless the recording sets one. With `None`, such a count is written only at a flush and when
    /// the recording ends. Default 30 minutes. A store for which each write is expensive, such as
    /// an API server, returns `None`.
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

    /// Returns how the sink accepts its operations. A recording calls this method once, when it
    /// starts. Default [`SinkMode::OneByOne`].
    fn mode(&self) -> SinkMode {
        SinkMode::OneByOne
    }

    /// Returns the name of the group to which an event belongs, such as the tenant, the namespace,
    /// or another part that the store may serve well or badly independently of others. Default: one
    /// group, whose name is empty.
    ///
    /// A group that is slow or unavailable gets a bounded share of the operations in progress and
    /// of the queue, so events in other groups do not wait for it.
    /// [`group_queue_capacity`](crate::record::RecordingBuilder::group_queue_capacity) sets the
    /// share of the queue. `docs/book/stores.md` in the repository describes all shares. With
    /// [`WriteOrder::Bus`] there are no groups.
    ///
    /// The recording's own thread calls this method, once for each stored event that has something
    /// to write. The method must return immediately, and must always return the same name for
    /// events of the same object. If it panics, the event belongs to the group whose name is empty.
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

    /// Performs operations, and answers each of them through the [batch](SinkBatch). The
    /// [mode](Self::mode) determines how many operations a batch has, and whether the method may
    /// return before they are answered. The default implementation calls `create`, `update` or
    /// `patch` for each operation in turn, continues after one that fails or panics, and then
    /// answers all of them.
    ///
    /// A recording calls this method only if the mode is not [`SinkMode::OneByOne`]. With
    /// [`WriteOrder::Bus`], each batch has one operation, and the next batch follows its answer. If
    /// the method panics while it has several operations, the recording submits each unanswered
    /// operation again separately. A sink should therefore answer
    /// [`AlreadyExists`](crate::sink::SinkErrorKind::AlreadyExists) to a creation that it has
    /// already performed.
    ///
    /// # Examples
    ///
    /// See [`SinkBatch`] for a store with transactions, and [`SinkCall`](crate::sink::SinkCall) for
    /// a store whose operations run at the same time. The default implementation:
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
    /// Performs the operation on `sink`, and returns the result.
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

    /// Performs the operation on `sink`, and returns the operation with the error if it fails. A
    /// panic in the sink counts as a rejection.
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
    /// order of the operations. This is for programs that use a sink without a recording, such as a
    /// test of the sink.
    ///
    /// # Errors
    ///
    /// Each result is either the stored fields of the event, or the operation with the reason for
    /// its failure. If a sink panics while it has several operations, the unanswered ones are
    /// rejected.
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
            // Only a recording has these.
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
