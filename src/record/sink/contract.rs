//! The contract between a recording and a store.

use crate::catch::catch_panic_message;
use crate::record::event::{Event, EventPatch};
use crate::sync::Arc;

use super::error::SinkError;

/// A store for events.
///
/// The threads of a recording call the sink: one thread, unless
/// [`workers`](crate::record::RecordingBuilder::workers) asks for more. A thread that records or
/// distributes events never calls the sink. The sink may therefore take as long as it needs, and
/// other recordings do not notice. If the sink panics, the recording gives the event up as if the
/// sink had rejected it.
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
///     fn update(&self, event: &Event) -> Result<Event, SinkError> {
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

    /// Replaces the stored event of this name, and returns the event as stored. Recordings do not
    /// call this method themselves.
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
    fn update(&self, event: &Event) -> Result<Event, SinkError>;

    /// Changes the count, the last time and the message of the stored event of this name, and
    /// returns the event as stored.
    ///
    /// `event` is the whole event as it should be after the change. `patch` holds the bytes that
    /// client-go would send. A store uses whichever is easier. The default implementation calls
    /// [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// Returns [`SinkError::not_found`] if the store has no event of this name, because the event
    /// has expired. A recording then creates the event. [`SinkError`] describes the other errors.
    #[doc(alias = "Patch")]
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventPatch;
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let sink = MemorySink::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let patch = EventPatch::new(&event);
    /// assert_eq!(sink.patch(&event, &patch).unwrap_err().kind(), SinkErrorKind::NotFound);
    ///
    /// let mut again = sink.create(&event)?;
    /// again.count = 2;
    /// assert_eq!(sink.patch(&again, &EventPatch::new(&again))?.count, 2);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        let _ = patch;
        self.update(event)
    }

    /// Performs several operations in order, and returns one answer for each. A store overrides
    /// this method if one transaction for all operations is cheaper. The default implementation
    /// performs them one by one, and continues after one that fails or panics.
    ///
    /// A recording calls this method with 2 to 256 operations, no two of them about the same event.
    /// For a single operation the recording calls the method of that operation. An operation
    /// without an answer counts as rejected. If this method panics, the recording performs each
    /// operation again on its own. A sink should therefore answer [`SinkError::already_exists`] for
    /// what it has already done.
    ///
    /// # Examples
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
    ///     fn update(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    /// }
    ///
    /// // The first one panics.
    /// let answers = Picky.apply(&[SinkOp::Create(Event::default()), SinkOp::Update(Event::default())]);
    /// assert_eq!(answers[0].as_ref().unwrap_err().to_string(), "rejected: the sink panicked: no reason");
    /// assert!(answers[1].is_ok());
    /// ```
    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let perform = |op: &SinkOp| {
            catch_panic_message(|| op.apply_to(self)).unwrap_or_else(|text| Err(SinkError::panicked(&text)))
        };
        batch.iter().map(perform).collect()
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
    /// A call of [`EventSink::patch`].
    Patch(Event, EventPatch),
}

impl SinkOp {
    /// Returns the event: as it is to be stored, or, for a patch, as it should be after the patch.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::event::EventPatch;
    /// use eventcast::sink::SinkOp;
    ///
    /// let event = Event::default();
    /// let op = SinkOp::Patch(event.clone(), EventPatch::new(&event));
    /// assert_eq!(op.event(), &event);
    /// ```
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event, _) => event,
        }
    }

    /// Performs the operation on `sink`, and returns the answer.
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
    /// let answers = sink.apply(&[SinkOp::Create(event.clone()), SinkOp::Create(event)]);
    /// assert!(answers[0].is_ok());
    /// assert_eq!(answers[1].as_ref().unwrap_err().to_string(), "already exists: events \"web-0.1\" in namespace default");
    /// ```
    pub fn apply_to<S: EventSink + ?Sized>(&self, sink: &S) -> Result<Event, SinkError> {
        match self {
            Self::Create(event) => sink.create(event),
            Self::Update(event) => sink.update(event),
            Self::Patch(event, patch) => sink.patch(event, patch),
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

            fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
                (**self).patch(event, patch)
            }

            fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
                (**self).apply(batch)
            }
        }
    )*};
}

forward!(Arc<S>, S; Box<dyn EventSink>,);
