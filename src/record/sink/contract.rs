//! The contract between a recording and a store.

use std::sync::LazyLock;
use std::time::Duration;

use crate::catch::catch_panic_message;
use crate::record::event::{Event, Stored};
use crate::sync::Arc;

use super::error::{SinkError, SinkErrorKind};
use super::needed_thread::NeededThread;
use super::order::WriteOrder;

/// The cause with which a sink without an `update` rejects one.
pub(super) const NO_UPDATE: &str = "this sink does not replace events";

/// The default of [`EventSink::refresh_every`].
pub(super) const REFRESH_EVERY: Duration = Duration::from_secs(30 * 60);

/// A store for events. A store that implements `create` and `patch` is one.
///
/// The workers of a recording call the sink: one thread, unless
/// [`workers`](crate::record::RecordingBuilder::workers) asks for more. Threads that record,
/// distribute or correlate events never call the sink. The sink may therefore take as long as it
/// needs, and other recordings do not notice. The recording itself counts repeats meanwhile, and
/// reports a call that takes longer than one second as an [`Outage`](crate::record::Outage). If the
/// sink panics, the recording gives the event up as if the sink had rejected it.
///
/// The sink gets states, not occurrences: events that come while an earlier write of the same key
/// is pending share that write. A sink that needs every change returns [`WriteOrder::Bus`] from
/// [`write_order`](Self::write_order).
///
/// An `Arc` of a sink is a sink, and so is a `Box<dyn EventSink>`. In an `Arc` one store can serve
/// several recordings and be read meanwhile.
///
/// The trait is synchronous. A store with an asynchronous client implements
/// [`AsyncEventSink`](crate::sink::AsyncEventSink) instead, and a
/// [`Blocking`](crate::sink::Blocking) makes a sink of it. `examples/custom_sink.rs` in the
/// repository shows this.
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
    /// Stores a new event in the namespace that it names, and returns the event as stored.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::already_exists`] if the store already has an event of this name.
    /// [`SinkError`] describes the other errors.
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

    /// Changes the count, the last time and the message of the stored event of this name, and
    /// returns the event as stored. If `event` has an event time, a series and no count, changes
    /// the series alone.
    ///
    /// `event` is the whole event as it should be after the change, so a store may also replace the
    /// stored event. It must not create one that is missing: the recording creates it, and counts
    /// it as created. A store that inserts here what is missing would contradict the statistics,
    /// and bring back events that it had rejected. A log, which appends whatever it gets, may do
    /// the same as for [`create`](Self::create).
    ///
    /// A store that wants the bytes that client-go would send makes an
    /// [`EventPatch`](crate::event::EventPatch) of the event.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::not_found`] if the store has no event of this name, because the event
    /// has expired, or was never created. A recording then creates the event. [`SinkError`]
    /// describes the other errors.
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

    /// Replaces the stored event of this name, and returns the event as stored. Recordings never
    /// call this method, so a sink can leave it out. The default implementation rejects the event.
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::not_found`] if the store has no event of this name and does not create
    /// it. [`SinkError`] describes the other errors.
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

    /// Returns the order in which a recording should give the sink its writes, if the recording
    /// does not say. A sink that appends, such as a log, returns [`WriteOrder::Bus`], and then gets
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

    /// Returns the time for which the store keeps an event after the last write of the event.
    /// Returns `None`, the default, if the store keeps events for ever, or does not know.
    ///
    /// A recording asks once, when it starts. It refreshes the series that go on after half of this
    /// time, if [`refresh_every`](crate::record::SeriesOptions::refresh_every) is longer, so the
    /// store does not remove the event of such a series.
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

    /// Returns the thread that the sink needs for its work, if other code of the program runs there
    /// as well. Returns `None`, the default, if the sink has what it needs on the thread that calls
    /// it, or on threads of its own.
    ///
    /// A sink whose requests run on an executor of one thread needs that thread, which must not
    /// wait for the sink. A recording asks once, when it starts, and then the library does not wait
    /// on this thread for the recording: see
    /// [`EventBroadcaster`](crate::EventBroadcaster#a-sink-that-needs-this-thread).
    fn needed_thread(&self) -> Option<NeededThread> {
        None
    }

    /// Returns the time after which a recording should write a count that its spam filter stopped,
    /// if the recording does not say. With `None` such a count is written only at a flush and at
    /// the end. Default 30 minutes. A store for which each write is expensive, such as an API
    /// server, returns `None`.
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

    /// Performs several operations in order, and returns one answer for each: what the store has
    /// now, or why the operation failed. A store overrides this method if one transaction for all
    /// operations is cheaper. The default implementation performs them one by one, and continues
    /// after one that fails or panics.
    ///
    /// The sink may [take](SinkOp::take) the event of an operation, instead of cloning it, if the
    /// answer to that operation is `Ok`. The caller needs the event of every other operation to try
    /// again. A recording rejects an event that the sink took although the operation failed.
    ///
    /// A recording calls this method with 1 to 256 operations, no two of them about the same event.
    /// With [`WriteOrder::Bus`] it calls the method of each operation instead. An operation without
    /// an answer counts as rejected. If this method panics at several operations, the recording
    /// calls the method of each of them, and rejects those whose events the sink has taken. A sink
    /// should therefore answer [`SinkError::already_exists`] for what it has already done.
    ///
    /// # Examples
    ///
    /// A list that keeps the events as they come, without a copy:
    ///
    /// ```
    /// use eventcast::sink::{SinkOp, Stored};
    /// use eventcast::{Event, EventSink, SinkError};
    /// use std::sync::Mutex;
    ///
    /// #[derive(Default)]
    /// struct List(Mutex<Vec<Event>>);
    ///
    /// impl EventSink for List {
    ///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.0.lock().unwrap().push(event.clone());
    ///         Ok(event.clone())
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event)
    ///     }
    ///
    ///     fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
    ///         let mut list = self.0.lock().unwrap();
    ///         let keep = |op: &mut SinkOp| {
    ///             let stored = Stored::from(op.event());
    ///             list.push(op.take());
    ///             Ok(stored)
    ///         };
    ///         batch.iter_mut().map(keep).collect()
    ///     }
    /// }
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let list = List::default();
    /// let answers = list.apply(&mut [SinkOp::Create(event.clone()), SinkOp::Patch(event.clone())]);
    /// assert_eq!(answers[0].as_ref().unwrap().name, "web-0.1");
    /// assert_eq!(*list.0.lock().unwrap(), [event.clone(), event]);
    /// ```
    ///
    /// The default implementation:
    ///
    /// ```
    /// use eventcast::sink::SinkOp;
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
    /// let mut batch = [SinkOp::Create(Event::default()), SinkOp::Patch(Event::default())];
    /// let answers = Picky.apply(&mut batch);
    /// assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "rejected: the sink panicked: no reason");
    /// assert!(answers[1].is_ok());
    /// ```
    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        let perform = |op: &mut SinkOp| {
            let answer = catch_panic_message(|| op.apply_to(self));
            answer.unwrap_or_else(|text| Err(SinkError::panicked(&text))).map(Stored::from)
        };
        batch.iter_mut().map(perform).collect()
    }
}

/// An operation on a store.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::SinkOp;
///
/// fn is_repeat(op: &SinkOp) -> bool {
///     !matches!(op, SinkOp::Create(_))
/// }
/// assert!(is_repeat(&SinkOp::Update(Event::default())));
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SinkOp {
    /// A call of [`EventSink::create`].
    Create(Event),
    /// A call of [`EventSink::update`].
    Update(Event),
    /// A call of [`EventSink::patch`], with the event as it should be after the patch.
    Patch(Event),
    /// An operation whose event a sink has [taken](SinkOp::take).
    Taken,
}

/// The event of an operation whose event has been taken.
static NOTHING: LazyLock<Event> = LazyLock::new(Event::default);

impl SinkOp {
    /// Returns the event: as it is to be stored, or, for a patch, as it should be after the patch.
    /// If the event has been taken, returns an empty event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::SinkOp;
    ///
    /// let mut event = Event::default();
    /// event.count = 2;
    /// assert_eq!(SinkOp::Patch(event.clone()).event(), &event);
    /// assert_eq!(SinkOp::Taken.event(), &Event::default());
    /// ```
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event) => event,
            Self::Taken => &NOTHING,
        }
    }

    /// Takes the event out of the operation, and leaves [`Taken`](Self::Taken) behind. If the event
    /// has been taken before, returns an empty event.
    ///
    /// In [`EventSink::apply`], take only the events of operations whose answer is `Ok`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::SinkOp;
    ///
    /// let mut op = SinkOp::Create(Event::default());
    /// assert_eq!(op.take(), Event::default());
    /// assert!(matches!(op, SinkOp::Taken));
    /// ```
    pub fn take(&mut self) -> Event {
        match std::mem::replace(self, Self::Taken) {
            Self::Create(event) | Self::Update(event) | Self::Patch(event) => event,
            Self::Taken => Event::default(),
        }
    }

    /// Returns the sink's answer to this operation. If the operation failed although the sink took
    /// the event, nobody can try again, so the answer is a rejection.
    pub(crate) fn checked<T>(&self, answer: Result<T, SinkError>) -> Result<T, SinkError> {
        match (self, answer) {
            (Self::Taken, Err(error)) if error.kind() != SinkErrorKind::Rejected => Err(error.of_taken()),
            (_, answer) => answer,
        }
    }

    /// Performs the operation on `sink`, and returns the answer.
    ///
    /// # Errors
    ///
    /// Returns the sink's error. If the event has been taken, the operation is rejected.
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
            Self::Taken => Err(SinkError::taken()),
        }
    }
}

macro_rules! forward {
    ($($pointer:ty, $($generic:ident)?);*) => {$(
        impl$(<$generic: EventSink + ?Sized>)? EventSink for $pointer {
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

            fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
                (**self).apply(batch)
            }
        }
    )*};
}

forward!(Arc<S>, S; Box<dyn EventSink>,);
