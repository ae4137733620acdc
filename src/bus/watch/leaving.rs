//! Handlers that can end themselves.

use std::ops::ControlFlow;

use crate::error::WatchError;

use super::builder::WatchBuilder;
use super::delivery::Delivery;
use super::handler::{Runner, WatchHandle};

impl<T: Clone + Send + Sync + 'static> WatchBuilder<'_, T> {
    /// Runs a handler like [`spawn`](Self::spawn), for as long as the handler returns
    /// [`ControlFlow::Continue`].
    ///
    /// If the handler returns [`ControlFlow::Break`], it is not called again, and the watcher ends
    /// immediately. The delivery counts as delivered, and the queued events count as dropped
    /// (stopped). From then on, [`join`](WatchHandle::join) returns `true`, and neither a flush nor
    /// a shutdown waits for the handler. The bus and all other watchers continue. To end a handler
    /// after its queued events instead, call [`WatchHandle::stop`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`spawn`](Self::spawn).
    ///
    /// # Examples
    ///
    /// A handler for a single event:
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::ops::ControlFlow;
    /// use std::sync::mpsc;
    ///
    /// let bus = Broadcaster::new()?;
    /// let (tx, first) = mpsc::channel();
    /// let handle = bus.watch_builder().spawn_while(move |delivery| match delivery {
    ///     Delivery::Event(n) => {
    ///         tx.send(*n).unwrap();
    ///         ControlFlow::Break(())
    ///     }
    ///     _ => ControlFlow::Continue(()),
    /// })?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// assert!(bus.shutdown().complete);
    /// assert_eq!(first.iter().collect::<Vec<_>>(), [1]);
    /// assert_eq!((handle.stats().delivered, handle.stats().dropped.stopped), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("once", "take", "take_while", "unsubscribe"))]
    pub fn spawn_while(
        self,
        handler: impl FnMut(Delivery<&T>) -> ControlFlow<()> + Send + 'static,
    ) -> Result<WatchHandle, WatchError> {
        self.runner_while(handler)?.spawn()
    }

    /// Returns a runner like [`runner`](Self::runner), whose handler can end itself as in
    /// [`spawn_while`](Self::spawn_while).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`watch`](Self::watch).
    ///
    /// # Examples
    ///
    /// A handler that ends with an event of its choice, on the caller's thread:
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::ops::ControlFlow;
    ///
    /// let bus = Broadcaster::new()?;
    /// let runner = bus.watch_builder().runner_while(|delivery| match delivery {
    ///     Delivery::Event(&"quit") => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// })?;
    /// let handle = runner.handle();
    /// bus.publisher().publish_batch(["a", "quit"])?;
    /// runner.run();
    /// assert_eq!(handle.stats().delivered, 2);
    /// // The bus is still open.
    /// bus.publisher().publish("b")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runner_while<H: FnMut(Delivery<&T>) -> ControlFlow<()> + Send + 'static>(
        self,
        handler: H,
    ) -> Result<Runner<T, H>, WatchError> {
        self.runner_of(handler)
    }
}
