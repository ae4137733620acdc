//! The contract for a store that has an asynchronous client.

use std::future::Future;
use std::time::Duration;

use crate::record::event::Event;
use crate::sync::Arc;

use super::contract::{NO_UPDATE, REFRESH_EVERY};
use super::error::SinkError;
use super::needed_thread::NeededThread;
use super::order::WriteOrder;

/// A store for events whose methods return futures. This trait is the counterpart of
/// [`EventSink`](crate::EventSink) for stores that have an asynchronous client. An
/// [`AsyncSink`](crate::sink::AsyncSink) turns such a store into a sink that runs several
/// operations concurrently.
///
/// Implement the methods as `async fn`. The futures returned by the methods must be `Send`.
///
/// The trait is also implemented for a store in an `Arc`, so several recordings can share the
/// store.
///
/// # Examples
///
/// ```
/// use eventcast::sink::{AsyncEventSink, AsyncSink, SinkErrorKind};
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
///     async fn patch(&self, _: &Event) -> Result<Event, SinkError> {
///         Err(SinkError::new(SinkErrorKind::NotFound, "expired"))
///     }
/// }
///
/// let sink = AsyncSink::new(Client, |operation| smol::spawn(operation).detach());
/// let event = Event::default();
/// assert_eq!(sink.create(&event)?, event);
/// assert_eq!(sink.patch(&event).unwrap_err().to_string(), "not found: expired");
/// # Ok::<(), SinkError>(())
/// ```
pub trait AsyncEventSink: Send + Sync + 'static {
    /// Stores a new event, like [`EventSink::create`](crate::EventSink::create).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`EventSink::create`](crate::EventSink::create).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::AsyncEventSink;
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.patch(event)
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

    /// Changes the stored event that has the same name, like
    /// [`EventSink::patch`](crate::EventSink::patch). If the event is missing, this method must not
    /// create the event.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`EventSink::patch`](crate::EventSink::patch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, SinkErrorKind};
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.patch(event)
    /// #     }
    /// # }
    ///
    /// let client = Client(MemorySink::new());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let error = smol::block_on(client.patch(&event)).unwrap_err();
    /// assert_eq!(error.kind(), SinkErrorKind::NotFound);
    /// let mut again = smol::block_on(client.create(&event))?;
    /// again.count = 2;
    /// assert_eq!(smol::block_on(client.patch(&again))?.count, 2);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    fn patch(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send;

    /// Replaces the stored event that has the same name, like
    /// [`EventSink::update`](crate::EventSink::update). Recordings never call this method. The
    /// default implementation rejects the event.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`EventSink::update`](crate::EventSink::update).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::AsyncEventSink;
    /// # use eventcast::{Event, EventSink, MemorySink, SinkError};
    /// # struct Client(MemorySink);
    /// # impl AsyncEventSink for Client {
    /// #     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.create(event)
    /// #     }
    /// #     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    /// #         self.0.patch(event)
    /// #     }
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
    fn update(&self, event: &Event) -> impl Future<Output = Result<Event, SinkError>> + Send {
        let _ = event;
        std::future::ready(Err(SinkError::rejected(NO_UPDATE)))
    }

    /// Returns the order in which a recording should pass its writes to the store. See
    /// [`EventSink::write_order`](crate::EventSink::write_order). A store that appends should
    /// return [`WriteOrder::Bus`]. Defaults to [`WriteOrder::PerKey`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::{AsyncEventSink, AsyncSink, WriteOrder};
    /// use eventcast::{Event, EventSink, SinkError};
    ///
    /// struct Journal;
    ///
    /// impl AsyncEventSink for Journal {
    ///     async fn create(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     async fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         Ok(event.clone())
    ///     }
    ///
    ///     fn write_order(&self) -> WriteOrder {
    ///         WriteOrder::Bus
    ///     }
    /// }
    ///
    /// let sink = AsyncSink::new(Journal, |operation| smol::spawn(operation).detach());
    /// assert_eq!(sink.write_order(), WriteOrder::Bus);
    /// ```
    fn write_order(&self) -> WriteOrder {
        WriteOrder::PerKey
    }

    /// Returns how long the store keeps an event after the event's last write. See
    /// [`EventSink::ttl`](crate::EventSink::ttl). Defaults to `None`.
    fn ttl(&self) -> Option<Duration> {
        None
    }

    /// Returns the thread that runs the store's futures, if the futures cannot run on any other
    /// thread. See [`EventSink::needed_thread`](crate::EventSink::needed_thread). If a store uses a
    /// single-threaded tokio runtime, it should return the runtime's thread. Defaults to `None`.
    fn needed_thread(&self) -> Option<NeededThread> {
        None
    }

    /// Returns the maximum time for which a recording should hold a count whose write was stopped
    /// by the spam filter. See [`EventSink::refresh_every`](crate::EventSink::refresh_every).
    /// Defaults to 30 minutes.
    fn refresh_every(&self) -> Option<Duration> {
        Some(REFRESH_EVERY)
    }

    /// Returns the name of the group to which an event belongs. See
    /// [`EventSink::group`](crate::EventSink::group). By default, all events belong to a single
    /// group, whose name is empty.
    fn group<'e>(&self, event: &'e Event) -> &'e str {
        let _ = event;
        ""
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

    fn needed_thread(&self) -> Option<NeededThread> {
        (**self).needed_thread()
    }

    fn refresh_every(&self) -> Option<Duration> {
        (**self).refresh_every()
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        (**self).group(event)
    }
}
