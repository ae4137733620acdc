//! The watcher builder, which sets a watcher's queue, policy, filter and hooks.

use std::fmt;
use std::panic::Location;

use crate::bus::counters::DropReason;
use crate::bus::incoming::IncomingQueue;
use crate::bus::mailbox::{FilterHook, KeptByReader, Keys, OnAbandon, OnDrop};
use crate::bus::options::{Start, WatchOptions};
use crate::bus::policy::OverflowPolicy;
#[cfg(feature = "recorder")]
use crate::bus::state::Threads;
#[cfg(feature = "recorder")]
use crate::catch::catch_panic;
#[cfg(feature = "recorder")]
use crate::error::BuildError;
use crate::error::WatchError;

#[cfg(any(feature = "recorder", eventcast_loom))]
use super::bulk::BulkReader;
use super::delivery::Delivery;
use super::handler::{Handler, OnPanic, Runner, WatchHandle};
use super::watcher::Watcher;

/// A builder for a watcher whose settings differ from the bus's defaults. To create the watcher,
/// call [`watch`](Self::watch), [`spawn`](Self::spawn) or [`runner`](Self::runner).
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
///     .queue_capacity(8)
///     .overflow(OverflowPolicy::Wait)
///     .filter(|n: &u32| n % 2 == 0)
///     .prefix([0])
///     .watch()?;
/// bus.publisher().publish_batch([1, 2, 3, 4])?;
/// bus.shutdown();
/// assert_eq!(even.events().collect::<Vec<_>>(), [0, 2, 4]);
/// assert_eq!(even.stats().filtered, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is watched until `watch`, `spawn`, `runner` or a `_while` method"]
pub struct WatchBuilder<'b, T> {
    pub(super) incoming: &'b IncomingQueue<T>,
    pub(super) name: Option<String>,
    /// The place where the program created the builder.
    pub(super) place: &'static Location<'static>,
    pub(super) queue_capacity: usize,
    pub(super) overflow: OverflowPolicy,
    pub(super) prefix: Vec<T>,
    pub(super) filter: Option<FilterHook<T>>,
    pub(super) keys: Option<Box<dyn Keys<T>>>,
    pub(super) on_drop: Option<OnDrop<T>>,
    /// The receiver's hook and the sender's hook. Each hook reports the events that its own end of
    /// the mailbox abandons.
    pub(super) on_abandon: (Option<OnAbandon>, Option<OnAbandon>),
    pub(super) on_panic: Option<OnPanic<T>>,
    pub(super) stop_on_panic: bool,
    pub(super) start: Start,
    /// The maximum number of events from the history that are added to the queue if the watcher
    /// starts in the past.
    pub(super) history: usize,
    pub(super) lease: Option<KeptByReader>,
}

impl<'b, T> WatchBuilder<'b, T> {
    #[track_caller]
    pub(crate) fn new(incoming: &'b IncomingQueue<T>) -> Self {
        let options = &incoming.options;
        Self {
            incoming,
            name: None,
            place: Location::caller(),
            queue_capacity: options.queue_capacity,
            overflow: options.overflow,
            prefix: Vec::new(),
            filter: None,
            keys: None,
            on_drop: None,
            on_abandon: (None, None),
            on_panic: None,
            stop_on_panic: false,
            start: Start::Next,
            history: options.history,
            lease: None,
        }
    }

    /// Sets the watcher's name, which appears in statistics, errors and metrics. A thread that is
    /// started by [`spawn`](Self::spawn) gets the same name. Defaults to the place in the program's
    /// source that created this builder, such as `src/main.rs:42`, with at most the last four parts
    /// of the path. Such a name changes with the source, so name each watcher that an alarm refers
    /// to.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// assert_eq!(bus.watch_builder().name("view").watch()?.stats().name, "view");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the maximum number of events in this watcher's queue, from 1 to 16,777,216. Defaults to
    /// the bus's value. Events from a [prefix](Self::prefix) or a [start in the past](Self::start)
    /// do not count towards the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch_builder().queue_capacity(2).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.shutdown();
    /// assert_eq!(watcher.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queueLength")]
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.queue_capacity = events;
        self
    }

    /// Sets what happens when the queue is full. Defaults to the bus's policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery, OverflowPolicy};
    ///
    /// let bus = Broadcaster::new()?;
    /// let gauge = bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::DropOldest).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.shutdown();
    /// assert_eq!(gauge.into_iter().collect::<Vec<_>>(), [Delivery::Lagged(2), Delivery::Event(3)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = policy;
        self
    }

    /// Applies the values that are set in `options`, and leaves all other settings unchanged.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, WatchOptions};
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let options = WatchOptions::default().queue_capacity(64);
    /// let watcher = bus.watch_builder().name("view").options(options).watch()?;
    /// assert_eq!(watcher.stats().name, "view");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn options(mut self, options: WatchOptions) -> Self {
        let WatchOptions { name, queue_capacity, overflow, stop_on_panic } = options;
        self.name = name.or(self.name);
        self.queue_capacity = queue_capacity.unwrap_or(self.queue_capacity);
        self.overflow = overflow.unwrap_or(self.overflow);
        self.stop_on_panic = stop_on_panic.unwrap_or(self.stop_on_panic);
        self
    }

    /// Sets whether a panic in the handler ends the watcher. Defaults to `false`.
    ///
    /// - If `false`, the panic is counted, and the handler continues with the next event.
    /// - If `true`, the panic is counted, and the handler ends. The event counts as delivered, and
    ///   the queued events count as dropped (stopped). [`join`](WatchHandle::join) then returns
    ///   `true`. The bus and all other watchers continue.
    ///
    /// This setting has no effect on a watcher that you read yourself.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let handle = bus.watch_builder().stop_on_panic(true).spawn(|_| panic!("at once"))?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert!(handle.join(Duration::from_secs(10)));
    /// assert_eq!((handle.stats().delivered, handle.stats().panics), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_on_panic(mut self, stops: bool) -> Self {
        self.stop_on_panic = stops;
        self
    }

    /// Sets the events that the watcher delivers before all other events.
    ///
    /// The watcher itself holds the prefix. The events of the prefix are never lost, do not take up
    /// capacity in the queue, bypass the filter, and are not counted in the statistics.
    ///
    /// # Examples
    ///
    /// `examples/more/sse.rs` in the repository sends reconnecting clients the events that they
    /// missed.
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch_builder().prefix(["the state so far"]).watch()?;
    /// bus.publisher().publish("a change")?;
    /// assert_eq!(watcher.recv()?, Delivery::Event("the state so far"));
    /// assert_eq!(watcher.recv()?, Delivery::Event("a change"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "WatchWithPrefix")]
    pub fn prefix(mut self, events: impl IntoIterator<Item = T>) -> Self {
        self.prefix = events.into_iter().collect();
        self
    }

    /// Sets a filter. If `keep` returns `false` for an event, the dispatcher does not offer the
    /// event to this watcher, and counts it as filtered.
    ///
    /// The filter runs on the dispatcher, or inside the publish call on an
    /// [inline](crate::Broadcaster::new_inline) bus, so it must be fast and must not block. If the
    /// filter panics, the panic is counted, this watcher ends as if it had been stopped, and
    /// nothing else is affected.
    ///
    /// # Examples
    ///
    /// `examples/bus/filters.rs` in the repository shows watchers that each receive their own
    /// subset of the events.
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut even = bus.watch_builder().filter(|n: &u32| n % 2 == 0).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3, 4])?;
    /// bus.shutdown();
    /// assert_eq!(even.events().collect::<Vec<_>>(), [2, 4]);
    /// assert_eq!(even.stats().filtered, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "FilterFunc")]
    #[doc(alias = "Filter")]
    pub fn filter(mut self, keep: impl FnMut(&T) -> bool + Send + 'static) -> Self {
        self.filter = Some(Box::new(keep));
        self
    }

    /// Sets a hook that is called with the events that this watcher has just lost, or that newer
    /// events have [replaced](Self::conflate_by), and with the reason.
    ///
    /// The hook runs on the dispatcher, so it must be fast and must not block. While the hook runs,
    /// no other thread waits for a lock that the dispatcher holds. On an
    /// [inline](crate::Broadcaster::new_inline) bus, the hook runs inside the publish call, which
    /// holds the lock that other publishers wait for. A panic in the hook is caught and counted.
    /// The hook does not receive events that were still in the queue when the watcher was dropped
    /// or its handler ended.
    ///
    /// If a hook publishes to its own bus, it can trigger itself indefinitely, because while the
    /// watcher's queue is full, the watcher also loses the event that reports the loss. Report
    /// losses to a channel or to another bus instead, or have the watcher's
    /// [`filter`](Self::filter) refuse the reports.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::stats::DropReason;
    /// use std::sync::mpsc;
    ///
    /// let bus = Broadcaster::new()?;
    /// let (tx, lost) = mpsc::channel();
    /// let hook = move |reason: DropReason, events: &[u32]| tx.send((reason, events.to_vec())).unwrap();
    /// let watcher = bus.watch_builder().queue_capacity(1).on_drop(hook).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// assert_eq!(lost.recv()?, (DropReason::Incoming, vec![2, 3]));
    /// drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_drop(self, mut hook: impl FnMut(DropReason, &[T]) + Send + 'static) -> Self {
        self.on_drop_named(move |_, reason, events| hook(reason, events))
    }

    /// Sets a hook like [`on_drop`](Self::on_drop). The hook also receives the watcher's name, so
    /// one hook can serve several watchers.
    pub(crate) fn on_drop_named(mut self, hook: impl FnMut(&str, DropReason, &[T]) + Send + 'static) -> Self {
        self.on_drop = Some(Box::new(hook));
        self
    }

    /// Sets a hook that receives the number of events that were in the watcher's queue when a
    /// shutdown with a deadline abandoned the watcher. `on_drop` does not receive these events.
    ///
    /// The hook runs on the thread that empties the queue, which is either the dispatcher or the
    /// reader's thread.
    #[cfg(feature = "recorder")]
    pub(crate) fn on_abandon(mut self, hook: impl FnMut(&str, u64) + Clone + Send + 'static) -> Self {
        self.on_abandon = (Some(Box::new(hook.clone())), Some(Box::new(hook)));
        self
    }

    /// Sets a value that is dropped when the watcher's reader has been dropped.
    #[cfg(feature = "topics")]
    pub(crate) fn lease(mut self, lease: impl Send + Sync + 'static) -> Self {
        self.lease = Some(Box::new(lease));
        self
    }

    /// Sets a hook that the handler's thread calls after the handler has panicked. The hook
    /// receives the watcher's name and the delivery.
    #[cfg(feature = "recorder")]
    pub(crate) fn on_panic(mut self, hook: impl FnMut(&str, Delivery<&T>) + Send + 'static) -> Self {
        self.on_panic = Some(Box::new(hook));
        self
    }
}

impl<T: Clone + Send + Sync + 'static> WatchBuilder<'_, T> {
    /// Registers the watcher.
    ///
    /// The bus offers the watcher every event whose publish call begins after this method has
    /// returned. Unless the watcher [starts in the past](Self::start), the bus does not offer it
    /// any event whose publish call returned before this method was called. The registration takes
    /// effect at a single point in the order of events, and does not take up capacity that events
    /// could use.
    ///
    /// If the watcher is dropped before the dispatcher has carried out the registration, the bus
    /// does not offer it any events.
    ///
    /// # Errors
    ///
    /// - [`WatchError::Closed`] if the bus is closed.
    /// - [`WatchError::Invalid`] if an option is out of range.
    /// - [`WatchError::WouldDeadlock`] only if this method is called from inside a call to an
    ///   inline bus. If that call is to this bus, the error means that the call has already taken
    ///   [`incoming_capacity`](crate::BusOptions::incoming_capacity) entries. If that call is to
    ///   another bus, the error means that this bus's lock did not become free within 10 ms.
    ///
    /// # Blocking
    ///
    /// Waits neither for capacity nor for the dispatcher to carry out the registration, so an async
    /// task can call this method. On an inline bus, this method waits for the lock and carries out
    /// the registration itself.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::WatchError;
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let error = bus.watch_builder().queue_capacity(0).watch().unwrap_err();
    /// assert_eq!(error.to_string(), "queue_capacity must be 1 to 16777216 events, got 0");
    /// bus.close();
    /// assert!(matches!(bus.watch_builder().watch(), Err(WatchError::Closed)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("resubscribe", "subscribe"))]
    pub fn watch(self) -> Result<Watcher<T>, WatchError> {
        Ok(Watcher::new(self.register(false)?))
    }

    /// Runs a handler on a new thread that has the watcher's name. See [`Runner::run`] for what
    /// happens if the handler panics.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`watch`](Self::watch), and [`WatchError::Thread`] if the system
    /// cannot start a thread.
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
        self.runner(handler)?.spawn()
    }

    /// Registers a watcher, and returns the bulk reader that `spawn_bulk` passes to `make`.
    #[cfg(eventcast_loom)]
    pub fn bulk(self) -> Result<BulkReader<T>, WatchError> {
        Ok(BulkReader::new(self.register(true)?))
    }

    /// Registers a watcher, passes its bulk reader to `make`, and runs the function that `make`
    /// returns on a new thread.
    #[cfg(feature = "recorder")]
    pub(crate) fn spawn_bulk<F: FnOnce() + Send + 'static>(
        self,
        make: impl FnOnce(BulkReader<T>) -> Result<F, WatchError>,
    ) -> Result<WatchHandle, WatchError> {
        if self.overflow == OverflowPolicy::Evict {
            let error = BuildError::new("overflow", self.overflow, "a policy that does not end recordings");
            return Err(error.into());
        }
        let reader = BulkReader::new(self.register(true)?);
        let (handle, mark) = (reader.handle(), reader.handle());
        let name = handle.name();
        // If no thread can be started, the reader is dropped here, together with the user-supplied
        // values that it owns. Flush and shutdown wait for the reader until it is dropped. The
        // destructors of the user-supplied values must therefore run while this thread counts as
        // one of the bus's own, because neither flush nor shutdown waits on such a thread.
        handle.on_bus_thread(|| {
            let run = make(reader)?;
            let run = move || {
                mark.on_bus_thread(|| catch_panic(run));
            };
            Threads::spawn(&handle.bus.threads, name, run).map_err(WatchError::Thread)
        })?;
        Ok(handle)
    }

    /// Registers the watcher, and returns a runner for its handler. The runner can be run on a
    /// thread of your choice, or awaited on any executor.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`watch`](Self::watch).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::thread;
    ///
    /// let bus = Broadcaster::new()?;
    /// let runner = bus.watch_builder().runner(|_| ())?;
    /// let handle = runner.handle();
    /// bus.publisher().publish(1)?;
    /// bus.close();
    /// thread::spawn(|| runner.run()).join().unwrap();
    /// assert_eq!(handle.stats().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runner<H: FnMut(Delivery<&T>) + Send + 'static>(
        self,
        handler: H,
    ) -> Result<Runner<T, H>, WatchError> {
        self.runner_of(handler)
    }

    /// Registers the watcher, and returns a runner for a handler with any result.
    pub(super) fn runner_of<H>(mut self, run: H) -> Result<Runner<T, H>, WatchError> {
        let (on_panic, stop_on_panic) = (self.on_panic.take(), self.stop_on_panic);
        let handler = Handler { run, on_panic, stop_on_panic };
        Ok(Runner::new(self.register(true)?, handler))
    }
}

impl<T> fmt::Debug for WatchBuilder<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchBuilder")
            .field("name", &self.name)
            .field("queue_capacity", &self.queue_capacity)
            .field("overflow", &self.overflow)
            .finish_non_exhaustive()
    }
}
