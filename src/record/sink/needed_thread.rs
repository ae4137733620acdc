//! Identifies the thread on which a sink depends.

use std::fmt;

use crate::catch::catch_panic;
use crate::sync::{Arc, thread};

/// Refers to the thread on which a sink depends. A sink returns this value from
/// [`EventSink::needed_thread`].
///
/// A clone refers to the same thread as the original.
///
/// [`EventSink::needed_thread`]: crate::EventSink::needed_thread
///
/// # Examples
///
/// ```
/// use eventcast::sink::NeededThread;
///
/// let main = NeededThread::current();
/// assert!(main.is_current());
/// assert!(!std::thread::spawn(move || main.is_current()).join().unwrap());
/// ```
#[derive(Clone)]
pub struct NeededThread {
    is_current: Arc<dyn Fn() -> bool + Send + Sync>,
}

impl NeededThread {
    /// Returns a reference to the calling thread.
    ///
    /// # Examples
    ///
    /// In this example, the store's futures run on the program's main thread:
    ///
    /// ```
    /// use eventcast::error::FlushError;
    /// use eventcast::sink::{AsyncEventSink, AsyncSink, NeededThread};
    /// use eventcast::{Event, EventBroadcaster, SinkError};
    /// use std::time::Duration;
    ///
    /// struct Client(NeededThread);
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
    ///
    ///     fn needed_thread(&self) -> Option<NeededThread> {
    ///         Some(self.0.clone())
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let handle = tokio::runtime::Handle::current();
    /// let events = EventBroadcaster::new()?;
    /// let client = Client(NeededThread::current());
    /// events.record_to(AsyncSink::new(client, move |operation| {
    ///     handle.spawn(operation);
    /// }))?;
    /// // Waiting on this thread would never succeed.
    /// assert_eq!(events.flush(Duration::from_secs(60)), Err(FlushError::WouldDeadlock));
    /// assert!(events.shutdown_async(Duration::from_secs(60)).await.complete);
    /// # Ok(())
    /// # }
    /// ```
    pub fn current() -> Self {
        let this = thread::current().id();
        Self::new(move || thread::current().id() == this)
    }

    /// Creates a reference to the thread on which `is_current` returns `true`. Use this function if
    /// a sink finds out only later which thread it needs. `is_current` must return immediately. If
    /// `is_current` panics, the result counts as `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::NeededThread;
    ///
    /// let ui = NeededThread::new(|| std::thread::current().name() == Some("ui"));
    /// assert!(!ui.is_current());
    /// ```
    pub fn new(is_current: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { is_current: Arc::new(is_current) }
    }

    /// Returns whether the calling thread is the thread on which the sink depends.
    pub fn is_current(&self) -> bool {
        catch_panic(|| (self.is_current)()).unwrap_or(false)
    }
}

impl fmt::Debug for NeededThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NeededThread").field("is_current", &self.is_current()).finish()
    }
}
