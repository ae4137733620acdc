//! Handlers. The library reads a handler's watcher, either on a new thread or wherever the user
//! runs the runner.

use std::any::Any;
use std::fmt;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::bus::counters::WatcherStats;
use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::bus::state::{BusState, EndReason, Threads, WatcherState};
use crate::bus::wait::{BusThread, on_bus_thread};
use crate::catch::catch_panic;
use crate::error::WatchError;
use crate::sync::Arc;

use super::delivery::Delivery;

/// A hook that is called on the handler's thread, with the watcher's name and the delivery that the
/// handler was processing when it panicked.
pub(crate) type OnPanic<T> = Box<dyn FnMut(&str, Delivery<&T>) + Send>;

/// A handler together with its watcher, which you can [`run`](Self::run) on a thread of your choice
/// or await on any executor.
///
/// Flush and shutdown wait until the runner has ended or has been dropped, so make sure that one of
/// the two happens.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
/// use std::thread;
///
/// let bus = Broadcaster::new()?;
/// let runner = bus.watch_builder().runner(|delivery: Delivery<&u32>| {
///     assert_eq!(delivery, Delivery::Event(&7));
/// })?;
/// let handle = runner.handle();
/// let thread = thread::spawn(|| runner.run());
/// bus.publisher().publish(7)?;
/// assert!(bus.shutdown().complete);
/// assert_eq!((handle.stats().delivered, handle.stats().panics), (1, 0));
/// thread.join().unwrap();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a handler does nothing until it is run, and shutdown waits for it"]
pub struct Runner<T, H> {
    /// The handler and its receiver, which are dropped in this order. A thread waiting for the
    /// runner to end therefore also waits for the closure's destructor.
    running: Option<(Handler<T, H>, MailboxReceiver<T>)>,
    handle: WatchHandle,
}

/// The user-supplied closure, and the action to take if it panics.
pub(crate) struct Handler<T, H> {
    pub(crate) run: H,
    pub(crate) on_panic: Option<OnPanic<T>>,
    pub(crate) stop_on_panic: bool,
}

impl<T, H: FnMut(Delivery<&T>) -> R, R: Any> Handler<T, H> {
    /// Calls the closure. Returns `Break` if the closure ended the handler, either by its result or
    /// by a panic that is to end the handler. A result other than a `ControlFlow` is ignored.
    fn call(&mut self, state: &WatcherState, delivery: Delivery<&T>) -> ControlFlow<()> {
        if let Some(result) = catch_panic(|| (self.run)(delivery)) {
            let flow = (&result as &dyn Any).downcast_ref().copied();
            return flow.unwrap_or(ControlFlow::Continue(()));
        }
        state.count_panic();
        if let Some(tell) = &mut self.on_panic {
            catch_panic(|| tell(&state.name.text(), delivery));
        }
        if self.stop_on_panic { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// The result `R` of the handler is `()` or, for a handler that can [end
/// itself](crate::WatchBuilder::spawn_while), a [`ControlFlow`].
impl<T, H: FnMut(Delivery<&T>) -> R, R: Any> Runner<T, H> {
    /// Returns a handle that can stop the handler, wait for it, and read its counters, from
    /// anywhere.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let runner = bus.watch_builder().runner(|_: Delivery<&u32>| ())?;
    /// let handle = runner.handle();
    /// bus.publisher().publish(7)?;
    /// bus.close();
    /// runner.run();
    /// assert!(handle.join(Duration::ZERO));
    /// assert_eq!(handle.stats().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn handle(&self) -> WatchHandle {
        self.handle.clone()
    }

    /// Handles every delivery until the watcher reaches its end. If the watcher is stopped or
    /// evicted, or the bus ends, the queued events are still handled first.
    ///
    /// If the handler panics, the panic is caught and counted in [`WatcherStats::panics`]. The
    /// handler then continues with the next event, unless
    /// [`stop_on_panic`](crate::WatchBuilder::stop_on_panic) was set. If the handler
    /// [ends itself](crate::WatchBuilder::spawn_while), the rest of the queue is dropped. If a
    /// shutdown's deadline passes first, the rest of the queue is abandoned.
    ///
    /// # Blocking
    ///
    /// Blocks until the handler has ended. In an async task, await the runner instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::sync::mpsc;
    ///
    /// let bus = Broadcaster::new()?;
    /// let (tx, rx) = mpsc::channel();
    /// let runner = bus.watch_builder().runner(move |delivery| tx.send(delivery.event().copied()).unwrap())?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// bus.close();
    /// // The handler runs on this thread, until the bus ends.
    /// runner.run();
    /// assert_eq!(rx.iter().collect::<Vec<_>>(), [Some(1), Some(2)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run(mut self) {
        let _mark = self.enter();
        while let Some(receiver) = self.receiver() {
            match receiver.wait(None) {
                Next::Empty | Next::End => break,
                next => self.handle_next(next),
            }
        }
        self.finish();
    }

    pub(crate) fn enter(&self) -> BusThread {
        BusThread::enter(self.handle.bus.id)
    }

    /// Returns the receiver, or `None` if the handler has ended. If a shutdown with a deadline has
    /// abandoned the bus, this call ends the handler.
    pub(crate) fn receiver(&mut self) -> Option<&mut MailboxReceiver<T>> {
        if self.handle.bus.is_abandoned() {
            self.finish();
        }
        self.running.as_mut().map(|(_, receiver)| receiver)
    }

    /// Handles one delivery, which the receiver has just announced.
    pub(crate) fn handle_next(&mut self, next: Next) {
        let Some((handler, receiver)) = &mut self.running else { return };
        let flow = match (next, receiver.events().first()) {
            (Next::Event, Some(event)) => {
                let flow = handler.call(&receiver.state, Delivery::Event(event));
                receiver.advance(1);
                flow
            }
            (Next::Lagged(count), _) => handler.call(&receiver.state, Delivery::Lagged(count)),
            _ => return,
        };
        if flow.is_break() {
            self.finish();
        }
    }

    /// Runs the handler on a new thread that has the watcher's name.
    pub(super) fn spawn(self) -> Result<WatchHandle, WatchError>
    where
        T: Send + Sync + 'static,
        H: Send + 'static,
    {
        let handle = self.handle();
        // If the thread cannot be started, the runner is dropped, and the registration with it.
        let run = move || self.run();
        Threads::spawn(&handle.bus.threads, handle.name(), run).map_err(WatchError::Thread)?;
        Ok(handle)
    }
}

impl<T, H> Runner<T, H> {
    pub(crate) fn new(receiver: MailboxReceiver<T>, handler: Handler<T, H>) -> Self {
        let handle = WatchHandle::new(&receiver);
        Self { running: Some((handler, receiver)), handle }
    }

    pub(crate) fn finish(&mut self) {
        if let Some((handler, receiver)) = self.running.take() {
            catch_panic(|| drop(handler));
            drop(receiver);
        }
    }
}

impl<T, H> Drop for Runner<T, H> {
    /// Ends the handler while this thread counts as one of the bus's own. Every thread that waits
    /// for the handler to end also waits for the handler's destructors, so if a destructor calls
    /// the bus, the call must not wait.
    fn drop(&mut self) {
        on_bus_thread(self.handle.bus.id, || self.finish());
    }
}

impl<T, H> fmt::Debug for Runner<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("name", &self.handle.state.name.text()).finish_non_exhaustive()
    }
}

/// A handle that can stop a handler or another watcher, wait until it has ended, and read its
/// counters. A handle keeps neither the watcher nor the bus open. If a handler's `WatchHandle` is
/// dropped, the handler continues until the bus ends.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use std::time::Duration;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let handle = bus.watch_builder().spawn(|_| ())?;
/// handle.stop();
/// assert!(handle.join(Duration::from_secs(10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct WatchHandle {
    pub(in crate::bus) state: Arc<WatcherState>,
    pub(super) bus: Arc<BusState>,
}

impl WatchHandle {
    pub(crate) fn new<T>(receiver: &MailboxReceiver<T>) -> Self {
        Self { state: receiver.state.clone(), bus: receiver.bus.clone() }
    }

    /// Returns the watcher's name, which is also the name of the handler's thread.
    pub(crate) fn name(&self) -> String {
        self.state.name.text().into_owned()
    }

    /// Stops the watcher, so that the bus offers it no further events. A handler ends after it has
    /// handled the queued events. This method is idempotent, and never waits. See
    /// [`Watcher::stop`](crate::Watcher::stop).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let handle = bus.watch_builder().spawn(|_| ())?;
    /// bus.publisher().publish(1)?;
    /// bus.flush(Duration::from_secs(10))?;
    /// handle.stop();
    /// bus.publisher().publish(2)?;
    /// bus.shutdown();
    /// assert_eq!(handle.stats().delivered, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.bus.stop(&self.state);
    }

    /// Waits until the handler has ended, and returns whether it has ended. This method does not
    /// stop the handler. A handler ends after [`stop`](Self::stop), when its watcher is evicted,
    /// when the bus ends, when it [ends itself](crate::WatchBuilder::spawn_while), or when it
    /// panics and [`stop_on_panic`](crate::WatchBuilder::stop_on_panic) is set. If `join` returns
    /// `true`, everything that the handler did happens before `join` returns. For a watcher that
    /// you read yourself, `join` waits until the watcher is dropped, so the thread that owns the
    /// watcher must not call `join` without a time limit. To wait without a time limit, call
    /// [`wait`](Self::wait).
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`, in real time unless the bus was created with a fake clock on
    /// which [`drive_the_end`](crate::testing::FakeClock::drive_the_end) had been called.
    /// `Duration::MAX` means no limit. On a thread of the same bus, this method does not wait, and
    /// returns `false` if the handler has not ended, because a handler that waited for itself would
    /// wait forever. In an async task, await the [`Runner`] itself, or await the end of the bus
    /// with `shutdown_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let handle = bus.watch_builder().spawn(|_| ())?;
    /// assert!(!handle.join(Duration::ZERO));
    /// bus.close();
    /// assert!(handle.join(Duration::MAX));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "`false` means that the handler has not ended in time"]
    pub fn join(&self, timeout: Duration) -> bool {
        let (bus, clock) = (&self.bus, &self.bus.end_clock);
        let deadline = clock.deadline(if bus.is_current() { Duration::ZERO } else { timeout });
        bus.done.wait(clock, deadline, || self.state.is_finished().then_some(())).is_ok()
    }

    /// Waits until the handler has ended, like [`join`](Self::join) without a time limit, and
    /// returns the reason for the end, like [`end_reason`](Self::end_reason). This method does not
    /// stop the handler.
    ///
    /// On a thread of the same bus, this method does not wait, and returns `None` if the handler
    /// has not ended. If a handler waits for itself, the result is therefore `None`.
    ///
    /// # Blocking
    ///
    /// Blocks until the handler has ended, which may be forever. For a watcher that you read
    /// yourself, blocks until the watcher is dropped, so the thread that owns the watcher must not
    /// call this method. In an async task, await the [`Runner`] itself, or await the end of the bus
    /// with `shutdown_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::bus::EndReason;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let handle = bus.watch_builder().spawn(|_| ())?;
    /// bus.close();
    /// assert_eq!(handle.wait(), Some(EndReason::Closed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("join without a timeout", "wait_for_end"))]
    pub fn wait(&self) -> Option<EndReason> {
        let _ = self.join(Duration::MAX);
        self.end_reason()
    }

    /// Returns the reason why the handler ended, or `None` if it has not ended yet. The result is
    /// `Some` from the time when [`join`](Self::join) returns `true`, and then no longer changes.
    ///
    /// - [`Closed`](EndReason::Closed) if the handler reached the end of the bus, or if a shutdown
    ///   with a deadline abandoned the handler's queue.
    /// - [`Evicted`](EndReason::Evicted) if the watcher was evicted.
    /// - [`Stopped`](EndReason::Stopped) if the watcher was stopped, its filter or key function
    ///   panicked, or its handler [ended itself](crate::WatchBuilder::spawn_while), was ended by a
    ///   panic, or was dropped before its end.
    ///
    /// To recognise a panic, read [`WatcherStats::panics`].
    ///
    /// For a watcher that you read yourself, the result is `None` until the watcher is dropped. If
    /// the watcher is dropped before its end, the reason is `Stopped`. See also
    /// [`Watcher::end_reason`](crate::Watcher::end_reason).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::bus::EndReason;
    /// use std::ops::ControlFlow;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let first = bus.watch_builder().spawn_while(|_| ControlFlow::Break(()))?;
    /// let all = bus.watch_builder().spawn(|_| ())?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert!(first.join(Duration::from_secs(10)));
    /// assert_eq!(first.end_reason(), Some(EndReason::Stopped));
    /// assert_eq!(all.end_reason(), None);
    /// bus.shutdown();
    /// assert_eq!(all.end_reason(), Some(EndReason::Closed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "is_finished")]
    pub fn end_reason(&self) -> Option<EndReason> {
        self.state.end_reason()
    }

    /// Returns the watcher's counters.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let handle = bus.watch_builder().spawn(|delivery| assert_eq!(delivery, Delivery::Event(&1)))?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// assert_eq!((handle.stats().delivered, handle.stats().panics), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> WatcherStats {
        self.state.stats()
    }
}

/// Methods for the library's own handlers.
#[cfg(feature = "recorder")]
impl WatchHandle {
    /// Runs a function on this thread, which counts as one of the bus's own until everything that
    /// the function owns has been dropped.
    pub(crate) fn on_bus_thread<R>(&self, run: impl FnOnce() -> R) -> R {
        on_bus_thread(self.bus.id, run)
    }

    /// Returns whether the handler has ended.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.is_finished()
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("name", &self.state.name.text()).finish_non_exhaustive()
    }
}
