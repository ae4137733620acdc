//! Watchers with a queue, a policy, a filter of their own.

use std::fmt;

use crate::bus::incoming::{Entry, IncomingQueue, Refused};
use crate::bus::mailbox::{FilterHook, MailboxReceiver, MailboxSender, OnAbandon, OnDrop, SliceQueue};
use crate::bus::options::{BusOptions, WatchOptions, check_name, check_queue_len};
use crate::bus::state::{Refusal, WatcherState};
#[cfg(feature = "recorder")]
use crate::catch::catch_panic;
use crate::error::{BuildError, WatchError};
use crate::policy::OverflowPolicy;
use crate::stats::DropReason;
use crate::sync::{Arc, Parker, thread};

#[cfg(any(feature = "recorder", eventcast_loom))]
use super::bulk::BulkReader;
use super::handler::{Handler, OnPanic, Runner, WatchHandle};
use super::watcher::{Delivery, Watcher};

/// Makes a watcher that differs from the bus's defaults. Ends in [`watch`](Self::watch), [`spawn`](Self::spawn) or
/// [`runner`](Self::runner).
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, OverflowPolicy};
///
/// let bus = Broadcaster::new()?;
/// let mut even = bus
///     .watch_builder()
///     .name("even")
///     .queue_len(8)
///     .overflow(OverflowPolicy::Wait)
///     .filter(|n: &u32| n % 2 == 0)
///     .prefix([0])
///     .watch()?;
/// bus.publisher().publish_batch(vec![1, 2, 3, 4])?;
/// bus.shutdown();
/// assert_eq!(even.events().collect::<Vec<_>>(), [0, 2, 4]);
/// assert_eq!(even.stats().filtered, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is watched until `watch`, `spawn` or `runner`"]
pub struct WatchBuilder<'b, T> {
    incoming: &'b IncomingQueue<T>,
    name: Option<String>,
    queue_len: usize,
    overflow: OverflowPolicy,
    prefix: Vec<T>,
    filter: Option<FilterHook<T>>,
    on_drop: Option<OnDrop<T>>,
    /// For either end of the mailbox: each tells of what it throws away.
    on_abandon: (Option<OnAbandon>, Option<OnAbandon>),
    on_panic: Option<OnPanic<T>>,
    stop_on_panic: bool,
}

impl<'b, T: Clone + Send + Sync + 'static> WatchBuilder<'b, T> {
    pub(crate) fn new(incoming: &'b IncomingQueue<T>, options: &BusOptions) -> Self {
        Self {
            incoming,
            name: None,
            queue_len: options.queue_len,
            overflow: options.overflow,
            prefix: Vec::new(),
            filter: None,
            on_drop: None,
            on_abandon: (None, None),
            on_panic: None,
            stop_on_panic: false,
        }
    }

    /// The name in statistics and errors, and of the handler's thread. Default `watcher-<n>`.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// How many events wait for this watcher at most. 1 to 16,777,216, default as the bus's.
    pub fn queue_len(mut self, events: usize) -> Self {
        self.queue_len = events;
        self
    }

    /// What happens when the queue is full. Default as the bus's.
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = policy;
        self
    }

    /// Sets what these options say, and leaves what they do not say as it is.
    pub fn options(mut self, options: WatchOptions) -> Self {
        let WatchOptions { name, queue_len, overflow, stop_on_panic } = options;
        self.name = name.or(self.name);
        self.queue_len = queue_len.unwrap_or(self.queue_len);
        self.overflow = overflow.unwrap_or(self.overflow);
        self.stop_on_panic = stop_on_panic.unwrap_or(self.stop_on_panic);
        self
    }

    /// Whether a handler that panics ends its watcher. Default no: the panic is counted, and the handler goes on with
    /// the next event. If yes, the event counts as delivered, what is queued as dropped (stopped), and
    /// [`join`](WatchHandle::join) returns true; the bus and all others go on. It says nothing about a watcher that you
    /// read yourself.
    pub fn stop_on_panic(mut self, stops: bool) -> Self {
        self.stop_on_panic = stops;
        self
    }

    /// Events to deliver before all others. They are kept in the watcher itself: they are never lost, need no room in
    /// the queue, pass no filter, and are not counted in the statistics.
    #[doc(alias = "WatchWithPrefix")]
    pub fn prefix(mut self, events: impl IntoIterator<Item = T>) -> Self {
        self.prefix = events.into_iter().collect();
        self
    }

    /// Events for which `keep` is false are not offered to this watcher; they count as filtered.
    ///
    /// It runs on the dispatcher, so it must be quick and must not wait. If it panics, this watcher ends, as if stopped,
    /// and nothing else happens.
    #[doc(alias = "FilterFunc")]
    #[doc(alias = "Filter")]
    pub fn filter(mut self, keep: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// Learns which events this watcher has just lost, and why.
    ///
    /// It runs on the dispatcher, outside every lock, so it must be quick and must not wait; a panic is caught and
    /// counted. What a watcher throws away itself, by being dropped with events in its queue, is not told here.
    pub fn on_drop(self, mut hook: impl FnMut(DropReason, &[T]) + Send + 'static) -> Self {
        self.on_drop_named(move |_, reason, events| hook(reason, events))
    }

    /// As [`on_drop`](Self::on_drop), for a hook that serves several watchers.
    pub(crate) fn on_drop_named(mut self, hook: impl FnMut(&str, DropReason, &[T]) + Send + 'static) -> Self {
        self.on_drop = Some(Box::new(hook));
        self
    }

    /// Learns how many events the watcher's queue held when a shutdown by deadline gave it up.
    /// `on_drop` does not.
    ///
    /// It runs on the dispatcher or on the reader's thread, whichever empties the queue.
    #[cfg(feature = "recorder")]
    pub(crate) fn on_abandon(mut self, hook: impl FnMut(&str, u64) + Clone + Send + 'static) -> Self {
        self.on_abandon = (Some(Box::new(hook.clone())), Some(Box::new(hook)));
        self
    }

    /// Learns, on the handler's thread, at which delivery the handler of the watcher of this name has just panicked.
    #[cfg(feature = "recorder")]
    pub(crate) fn on_panic(mut self, hook: impl FnMut(&str, Delivery<&T>) + Send + 'static) -> Self {
        self.on_panic = Some(Box::new(hook));
        self
    }

    /// Registers the watcher.
    ///
    /// The registration travels through the incoming queue, as events do. When this returns, the watcher will be offered
    /// every event whose publish begins after that, and none whose publish had returned before this was called.
    ///
    /// # Errors
    ///
    /// [`WatchError::Stopped`] when the bus is closed, [`WatchError::Invalid`] for an option out of range,
    /// [`WatchError::WouldDeadlock`] on a thread of this bus while the incoming queue is full.
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full. It does not wait for the dispatcher. In an async task, use `watch_async`
    ///.
    pub fn watch(self) -> Result<Watcher<T>, WatchError> {
        Ok(Watcher::new(self.register(false)?))
    }

    /// As [`watch`](Self::watch), for a task: it waits for room in the incoming queue without blocking a thread.
    ///
    /// The registration has its place in the order of events when this is ready. Dropped before, nothing remains of it.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use futures::StreamExt;
    /// use futures::executor::block_on;
    ///
    /// let bus = Broadcaster::new()?;
    /// block_on(async {
    ///     let mut watcher = bus.watch_builder().queue_len(64).watch_async().await?;
    ///     bus.publisher().publish_async("hello").await?;
    ///     assert_eq!(watcher.next().await, Some(Delivery::Event("hello")));
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch_async(self) -> impl Future<Output = Result<Watcher<T>, WatchError>> + Send {
        async move {
            let incoming = self.incoming;
            let (receiver, entry) = self.prepare(false)?;
            Ok(Watcher::new(registered(receiver, incoming.push_async(entry, None).await)?))
        }
    }

    /// Runs a handler on a thread of its own, named after the watcher. See [`Runner::run`] for what becomes of panics.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch), and [`WatchError::Thread`] when the system gives no thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::sync::mpsc;
    ///
    /// let bus = Broadcaster::new()?;
    /// let (tx, rx) = mpsc::channel();
    /// bus.watch_builder().name("printer").spawn(move |delivery| {
    ///     if let Delivery::Event(n) = delivery {
    ///         tx.send(*n).unwrap();
    ///     }
    /// })?;
    /// bus.publisher().publish(7)?;
    /// assert!(bus.shutdown().complete);
    /// assert_eq!(rx.recv()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spawn(
        self,
        handler: impl FnMut(Delivery<&T>) + Send + 'static,
    ) -> Result<WatchHandle, WatchError> {
        let runner = self.runner(handler)?;
        let handle = runner.handle();
        // When there is no thread the runner goes, and with it the registration.
        thread::spawn(handle.thread_name(), move || runner.run()).map_err(WatchError::Thread)?;
        Ok(handle)
    }

    /// What `spawn_bulk` gives to who runs it.
    #[cfg(eventcast_loom)]
    pub fn bulk(self) -> Result<BulkReader<T>, WatchError> {
        Ok(BulkReader::new(self.register(true)?))
    }

    /// Registers a watcher, and runs what is made of it on a thread of its own.
    #[cfg(feature = "recorder")]
    pub(crate) fn spawn_bulk<F: FnOnce() + Send + 'static>(
        self,
        make: impl FnOnce(BulkReader<T>) -> Result<F, WatchError>,
    ) -> Result<WatchHandle, WatchError> {
        let reader = BulkReader::new(self.register(true)?);
        let (handle, waker) = (reader.handle(), reader.waker());
        let name = handle.thread_name();
        // If there is no thread, user destructors run here, while everybody waits for the reader that
        // they are made of.
        waker.clone().on_bus_thread(|| {
            let run = make(reader)?;
            let run = move || {
                waker.on_bus_thread(|| catch_panic(run));
            };
            thread::spawn(name, run).map_err(WatchError::Thread)
        })?;
        Ok(handle)
    }

    /// The handler as a value, to be run on a thread of your choice, or awaited on any executor.
    ///
    /// # Errors
    ///
    /// As [`watch`](Self::watch).
    ///
    /// # Blocking
    ///
    /// As [`watch`](Self::watch): only while the incoming queue is full. On an executor's thread that may be for ever, if
    /// the bus waits for a watcher that a task of the same thread reads; register where blocking is allowed.
    pub fn runner<H: FnMut(Delivery<&T>) + Send + 'static>(
        mut self,
        handler: H,
    ) -> Result<Runner<T, H>, WatchError> {
        let (on_panic, stop_on_panic) = (self.on_panic.take(), self.stop_on_panic);
        let handler = Handler { run: handler, on_panic, stop_on_panic };
        Ok(Runner::new(self.register(true)?, handler))
    }

    fn register(self, is_handler: bool) -> Result<MailboxReceiver<T>, WatchError> {
        let incoming = self.incoming;
        let (receiver, entry) = self.prepare(is_handler)?;
        registered(receiver, incoming.push(entry, None))
    }

    /// The two ends of the mailbox: one for the caller, one on its way to the dispatcher.
    fn prepare(self, is_handler: bool) -> Result<(MailboxReceiver<T>, Entry<T>), WatchError> {
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
        let queue = Arc::new(SliceQueue::new(self.queue_len, self.overflow));
        let (reader_tells, dispatcher_tells) = self.on_abandon;
        let receiver = MailboxReceiver::new(
            state.clone(),
            lifecycle.clone(),
            queue.clone(),
            parker,
            self.prefix,
            reader_tells,
        );
        let sender = Box::new(MailboxSender::new(state, queue, self.filter, self.on_drop, dispatcher_tells));
        Ok((receiver, Entry::Register(sender)))
    }
}

/// The caller's end, if the other one was accepted; otherwise nothing remains.
fn registered<T>(
    receiver: MailboxReceiver<T>,
    pushed: Result<(), Refused<T>>,
) -> Result<MailboxReceiver<T>, WatchError> {
    let Err(Refused(entry, refusal)) = pushed else { return Ok(receiver) };
    receiver.lifecycle.registry.remove(&receiver.state);
    if let Entry::Register(sender) = entry {
        sender.close(&receiver.lifecycle);
    }
    Err(match refusal {
        Refusal::Full => WatchError::WouldDeadlock,
        Refusal::Stopped => WatchError::Stopped,
    })
}

impl<T> fmt::Debug for WatchBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchBuilder")
            .field("name", &self.name)
            .field("queue_len", &self.queue_len)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}
