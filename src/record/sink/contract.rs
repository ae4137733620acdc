//! The contract between a recording and a store.

use crate::catch::catch_panic_message;
use crate::record::event::{Event, EventPatch};
use crate::sync::Arc;

use super::error::SinkError;

/// A store for events.
///
/// It is called by the threads of a recording, one unless [`workers`](crate::RecordingBuilder::workers) asks for more,
/// never by a thread that records or distributes events, so it may take as long as it needs; other recordings do not
/// notice. If it panics, the event is given up as if it had been rejected.
/// An `Arc` and a `Box` of a sink are sinks, so one store can serve several recordings and be read meanwhile.
///
/// The trait is synchronous. A store with an asynchronous client blocks on its runtime's handle inside the call.
/// The example `custom_sink` shows it.
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
    /// Stores a new event, in the namespace that it names, and returns it as stored.
    ///
    /// # Errors
    ///
    /// [`SinkError::already_exists`] when there is an event of this name; see there for the others.
    #[doc(alias = "Create")]
    fn create(&self, event: &Event) -> Result<Event, SinkError>;

    /// Replaces the stored event of this name, and returns it as stored. Recordings do not call it themselves.
    ///
    /// # Errors
    ///
    /// [`SinkError::not_found`] when there is none, unless the store creates it then; see there for the others.
    #[doc(alias = "Update")]
    fn update(&self, event: &Event) -> Result<Event, SinkError>;

    /// Changes count, last time and message of the stored event of this name, and returns it as stored.
    ///
    /// `event` is the whole event as it should be afterwards, `patch` the bytes that client-go would send; a store uses what
    /// is handier. Unless overridden this is [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`SinkError::not_found`] when there is none, because it has expired: a recording then creates it. See there for
    /// the others.
    #[doc(alias = "Patch")]
    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        let _ = patch;
        self.update(event)
    }

    /// Several operations in order, with one answer each: for stores where a transaction for all of them is cheaper. Unless
    /// overridden it performs them one by one, and goes on after one that fails or panics.
    ///
    /// This is what recordings call, with 2 to 256 operations, no two of them about the same event; a single one they call
    /// by itself. An operation whose answer is missing counts as rejected. If it panics, each operation is done again by
    /// itself, so it should answer [`SinkError::already_exists`] for what it has done already.
    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let perform = |op: &SinkOp| {
            catch_panic_message(|| op.apply_to(self)).unwrap_or_else(|text| Err(SinkError::panicked(&text)))
        };
        batch.iter().map(perform).collect()
    }
}

/// One thing to do to a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SinkOp {
    /// See [`EventSink::create`].
    Create(Event),
    /// See [`EventSink::update`].
    Update(Event),
    /// See [`EventSink::patch`].
    Patch(Event, EventPatch),
}

impl SinkOp {
    /// The event: as it is to be stored, or, of a patch, as it should be afterwards.
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event, _) => event,
        }
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// The sink's.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink, SinkOp};
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
