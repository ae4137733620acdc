//! The registration of a watcher: its mailbox, and the way of the sender to the dispatcher.

use std::time::Duration;

use crate::bus::dispatch::Control;
use crate::bus::mailbox::{MailboxReceiver, MailboxSender, SliceQueue};
use crate::bus::options::{check_name, check_queue_len};
use crate::bus::state::{Lifecycle, Refusal, WatcherState};
use crate::error::{BuildError, WatchError};
use crate::sync::{Arc, Parker};

use super::builder::WatchBuilder;
use super::watcher::Watcher;

/// The sender of a new mailbox, on its way to the dispatcher. If the dispatcher does not get it,
/// the drop closes the mailbox.
struct Registering<'l, T> {
    lifecycle: &'l Lifecycle,
    entry: Option<Control<T>>,
}

impl<T> Drop for Registering<'_, T> {
    fn drop(&mut self) {
        if let Some(Control::Register(sender)) = self.entry.take() {
            sender.close(self.lifecycle).wake_cell.wake();
        }
    }
}

impl<'b, T: Clone + Send + Sync + 'static> WatchBuilder<'b, T> {
    /// Registers the watcher like [`watch`](Self::watch), but does not wait while the incoming
    /// queue is full.
    ///
    /// # Errors
    ///
    /// [`WatchError::Full`] if the incoming queue is full, also on a thread of the bus. The bus
    /// then offers nothing to this watcher, and does not count it. On an inline bus: where `watch`
    /// returns [`WatchError::WouldDeadlock`], and in no other case, because a registration needs no
    /// capacity there. Otherwise as [`watch`](Self::watch).
    ///
    /// # Blocking
    ///
    /// Never waits for capacity. On an inline bus it waits for the lock, like every registration.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::WatchError;
    /// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
    ///
    /// let options = BusOptions::default().incoming_len(1).queue_len(1).overflow(OverflowPolicy::Wait);
    /// let bus = Broadcaster::with_options(options)?;
    /// let unread = bus.watch_builder().try_watch()?;
    /// // No thread reads the watcher, so the incoming queue becomes full.
    /// let error = loop {
    ///     let _ = bus.publisher().try_publish(1);
    ///     if let Err(error) = bus.watch_builder().try_watch() {
    ///         break error;
    ///     }
    /// };
    /// assert!(matches!(error, WatchError::Full));
    /// drop(unread);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "subscribe")]
    pub fn try_watch(self) -> Result<Watcher<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, mut registering) = self.prepare(false)?;
        let pushed = incoming.try_push_control(&mut registering.entry);
        Ok(Watcher::new(registered(receiver, registering, pushed, WatchError::Full)?))
    }

    /// Registers the watcher like [`watch`](Self::watch), but waits for at most `timeout` while the
    /// incoming queue is full, by the bus's clock.
    ///
    /// # Errors
    ///
    /// [`WatchError::Full`] if the incoming queue has been full until the timeout. On a thread of
    /// the bus, and on an inline bus, this does not wait, and returns what
    /// [`try_watch`](Self::try_watch) returns. Otherwise as [`watch`](Self::watch).
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`. On an inline bus it waits for the lock, like every
    /// registration, and not for capacity. In an async task, put `watch_async` under your runtime's
    /// timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::WatchError;
    /// use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
    /// use std::time::Duration;
    ///
    /// let options = BusOptions::default().incoming_len(1).queue_len(1).overflow(OverflowPolicy::Wait);
    /// let bus = Broadcaster::with_options(options)?;
    /// let unread = bus.watch()?;
    /// let watch = |timeout| bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch_timeout(timeout);
    /// while !matches!(watch(Duration::from_millis(1)), Err(WatchError::Full)) {
    ///     let _ = bus.publisher().try_publish(1);
    /// }
    /// // The incoming queue was full for a millisecond. Now it has capacity again.
    /// drop(unread);
    /// let mut watcher = watch(Duration::from_secs(10))?;
    /// bus.publisher().publish(2)?;
    /// assert_eq!(watcher.recv()?, Delivery::Event(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch_timeout(self, timeout: Duration) -> Result<Watcher<T>, WatchError> {
        let (incoming, clock) = (self.incoming, &self.incoming.lifecycle.clock);
        let deadline = clock.deadline(timeout);
        let (receiver, mut registering) = self.prepare(false)?;
        let pushed = incoming.push_control(&mut registering.entry, clock, deadline);
        Ok(Watcher::new(registered(receiver, registering, pushed, WatchError::Full)?))
    }

    /// Registers a watcher, and waits for room in the incoming queue. `is_handler` says whether the
    /// library runs the reader.
    pub(super) fn register(self, is_handler: bool) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, mut registering) = self.prepare(is_handler)?;
        let pushed = incoming.push_control(&mut registering.entry, &incoming.lifecycle.clock, None);
        registered(receiver, registering, pushed, WatchError::WouldDeadlock)
    }

    /// Registers a watcher that its owner reads, as a task.
    pub(super) async fn register_async(self) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, mut registering) = self.prepare(false)?;
        let pushed = incoming.push_async(&mut registering.entry, None).await;
        registered(receiver, registering, pushed, WatchError::WouldDeadlock)
    }

    /// Checks the options, and creates both ends of the mailbox: the receiver for the caller, and
    /// the sender as a control entry.
    fn prepare(self, is_handler: bool) -> Result<(MailboxReceiver<T>, Registering<'b, T>), WatchError> {
        check_queue_len(self.queue_len)?;
        if u32::try_from(self.prefix.len()).is_err() {
            return Err(BuildError::new("prefix", self.prefix.len(), "up to 4294967295 events").into());
        }
        if let Some(name) = &self.name {
            check_name("name", name)?;
        }
        let lifecycle = &self.incoming.lifecycle;
        let parker = Parker::new();
        let state = lifecycle.registry.add(|number| {
            let name = self.name.unwrap_or_else(|| format!("watcher-{number}"));
            WatcherState::new(number, &name, self.queue_len, self.overflow, is_handler, &parker)
        });
        let state = state.ok_or(WatchError::Stopped)?;
        let is_inline = lifecycle.is_inline();
        let queue = Arc::new(SliceQueue::new(self.queue_len, self.history, self.overflow, is_inline));
        let (reader_tells, dispatcher_tells) = self.on_abandon;
        let may_pull = self.overflow.waits() && self.filter.is_none();
        let upstream = if may_pull { self.incoming.upstream() } else { None };
        let receiver = MailboxReceiver::new(
            state.clone(),
            lifecycle.clone(),
            queue.clone(),
            parker,
            self.prefix,
            reader_tells,
            upstream,
        );
        let (filter, on_drop) = (self.filter, self.on_drop);
        // A reader that is waited for takes few events at a time, to return capacity often.
        let most = if self.overflow.waits() { (self.queue_len / 4).max(1) } else { usize::MAX };
        let grows_to = most.min(self.incoming.options.max_batch);
        let sender =
            MailboxSender::new(state, queue, filter, on_drop, dispatcher_tells, self.start, grows_to);
        let entry = Some(Control::Register(Box::new(sender)));
        Ok((receiver, Registering { lifecycle, entry }))
    }
}

/// Returns the receiver if the sender was pushed. Otherwise undoes the registration and returns an
/// error, which is `full` if there was no capacity.
fn registered<T>(
    receiver: MailboxReceiver<T>,
    registering: Registering<'_, T>,
    pushed: Result<(), Refusal>,
    full: WatchError,
) -> Result<MailboxReceiver<T>, WatchError> {
    let Err(refusal) = pushed else { return Ok(receiver) };
    receiver.lifecycle.registry.remove(&receiver.state);
    drop(registering);
    Err(match refusal {
        Refusal::Full => full,
        Refusal::Stopped => WatchError::Stopped,
    })
}
