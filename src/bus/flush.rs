//! Flushing, which waits until everything accepted before the flush has been offered and handled.

use std::time::Duration;

use crate::error::FlushError;
use crate::sync::Arc;

use super::broadcaster::Broadcaster;
use super::dispatch::{Control, FlushTicket};
use super::incoming::IncomingQueue;
use super::state::{BusState, Refusal};
use super::wait::TimedOut;

impl<T: Clone + Send + Sync + 'static> Broadcaster<T> {
    /// Waits until everything accepted before this call has been offered to every watcher and
    /// handled by every handler.
    ///
    /// A flush does not wait for watchers that you read yourself. However, if the bus is waiting
    /// for such a watcher because of the watcher's policy, the flush waits as well.
    ///
    /// Once the bus has ended, a flush returns immediately. On an [inline](Self::new_inline) bus,
    /// all accepted events have already been offered, so a flush waits only for handlers.
    ///
    /// # Errors
    ///
    /// - [`FlushError::Timeout`] if the timeout expires. The error names the watchers and handlers
    ///   that the flush was waiting for.
    /// - [`FlushError::WouldDeadlock`] if this method is called on a thread of this bus.
    /// - [`FlushError::Abandoned`] if a shutdown with a deadline abandoned events.
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`. In an async task, use `flush_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::sync::atomic::{AtomicU64, Ordering};
    /// use std::time::Duration;
    ///
    /// static SUM: AtomicU64 = AtomicU64::new(0);
    /// let bus = Broadcaster::new()?;
    /// bus.watch_builder().spawn(|delivery| {
    ///     if let Delivery::Event(n) = delivery {
    ///         SUM.fetch_add(*n, Ordering::Relaxed);
    ///     }
    /// })?;
    /// bus.publisher().publish_batch(vec![1, 2, 3])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// assert_eq!(SUM.load(Ordering::Relaxed), 6);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        Flushing::wait(&self.incoming, FlushTicket::default(), timeout)
    }

    /// Flushes the bus like [`flush`](Self::flush), but asynchronously. The flush and its timeout
    /// begin when the future is first polled.
    ///
    /// The bus's timer thread enforces the deadline. If the system cannot start this thread,
    /// polling the future blocks until the flush completes or the deadline passes.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`flush`](Self::flush).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let handled = bus.watch_builder().spawn(|_| ())?;
    /// bus.publisher().publish_batch(vec![1, 2, 3])?;
    /// futures::executor::block_on(bus.flush_async(Duration::from_secs(10)))?;
    /// assert_eq!(handled.stats().delivered, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_async(&self, timeout: Duration) -> impl Future<Output = Result<(), FlushError>> + Send {
        async move {
            let bus = &self.incoming.bus;
            if bus.is_current() {
                return Err(FlushError::WouldDeadlock);
            }
            let deadline = bus.end_clock.deadline(timeout);
            let flushing = Flushing::begin(&self.incoming, FlushTicket::default());
            let answer = bus.waiting(&bus.done, deadline, || flushing.answer()).await;
            answer.unwrap_or_else(|TimedOut| Err(flushing.timeout()))
        }
    }
}

#[cfg(feature = "recorder")]
impl<T: Clone + Send + Sync + 'static> super::WeakBroadcaster<T> {
    /// Flushes the bus like [`Broadcaster::flush`], but does not wait for any handler except this
    /// one.
    pub(crate) fn flush_one(&self, one: &super::WatchHandle, timeout: Duration) -> Result<(), FlushError> {
        let mut ticket = FlushTicket::default();
        ticket.only = Some(one.state.clone());
        Flushing::wait(&self.incoming, ticket, timeout)
    }
}

/// A flush in progress. Dropping a `Flushing` withdraws the flush, unless the dispatcher has
/// already reached the flush.
struct Flushing<'b, T> {
    incoming: &'b IncomingQueue<T>,
    ticket: Arc<FlushTicket>,
    refused: Option<Refusal>,
}

impl<'b, T: Clone + Send + Sync + 'static> Flushing<'b, T> {
    /// Flushes the bus. Blocks for at most `timeout`.
    fn wait(queue: &'b IncomingQueue<T>, ticket: FlushTicket, timeout: Duration) -> Result<(), FlushError> {
        let bus = &queue.bus;
        if bus.is_current() {
            return Err(FlushError::WouldDeadlock);
        }
        let deadline = bus.end_clock.deadline(timeout);
        let flushing = Self::begin(queue, ticket);
        let answer = bus.done.wait(&bus.end_clock, deadline, || flushing.answer());
        answer.unwrap_or_else(|TimedOut| Err(flushing.timeout()))
    }

    fn begin(incoming: &'b IncomingQueue<T>, ticket: FlushTicket) -> Self {
        let ticket = Arc::new(ticket);
        let added = incoming.control(Control::Flush(ticket.clone()));
        Self { incoming, ticket, refused: added.err().map(|(_, refusal)| refusal) }
    }

    /// Returns the flush's result, or `None` while the flush has to wait.
    fn answer(&self) -> Option<Result<(), FlushError>> {
        let bus = &self.incoming.bus;
        let answer = match self.refused {
            None => flushed(bus, &self.ticket),
            Some(Refusal::Full) => Some(Err(self.timeout())),
            // Once the bus has ended, all events that it had accepted have been offered and
            // handled, unless they were abandoned.
            Some(Refusal::Closed) => all_flushed(bus),
        };
        // The only handler that the flush waits for may already have ended.
        answer.or_else(|| self.ticket.only.as_ref()?.is_finished().then_some(Ok(())))
    }

    fn timeout(&self) -> FlushError {
        let waiting_for = self.ticket.waiting_for();
        let watchers = waiting_for.unwrap_or_else(|| self.incoming.bus.registry.waited_for());
        FlushError::Timeout {
            waiting_for: watchers.iter().map(|state| state.name.text().into_owned()).collect(),
        }
    }
}

impl<T> Drop for Flushing<'_, T> {
    fn drop(&mut self) {
        self.incoming.way.forget(&self.ticket);
    }
}

/// Returns the result of a flush, or `None` while the flush has to wait.
fn flushed(bus: &BusState, ticket: &FlushTicket) -> Option<Result<(), FlushError>> {
    // Whether the bus has ended is checked before the ticket is read, because a bus that has ended
    // without reaching the ticket will never reach it.
    let ended = bus.registry.has_ended();
    match ticket.waiting_for() {
        _ if bus.is_abandoned() => Some(Err(FlushError::Abandoned)),
        Some(handlers) => handlers.is_empty().then_some(Ok(())),
        None => ended.then_some(Err(FlushError::Abandoned)),
    }
}

/// Returns the result of a flush that began after the bus was closed, or `None` while the flush has
/// to wait. The result depends on how the bus ends.
fn all_flushed(bus: &BusState) -> Option<Result<(), FlushError>> {
    match bus.ending() {
        Some(true) => Some(Ok(())),
        Some(false) => Some(Err(FlushError::Abandoned)),
        None => bus.is_abandoned().then_some(Err(FlushError::Abandoned)),
    }
}
