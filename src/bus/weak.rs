//! A handle to a bus that does not keep the bus open.

use std::fmt;

use crate::error::WatchError;
use crate::sync::Arc;

use super::broadcaster::Broadcaster;
use super::incoming::{IncomingQueue, Publisher};
use super::watch::{WatchBuilder, Watcher};

impl<T> Broadcaster<T> {
    /// Returns a handle to the same bus that does not keep the bus open.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let weak = bus.downgrade();
    /// drop(bus);
    /// assert!(weak.is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "a weak handle does nothing by itself"]
    pub fn downgrade(&self) -> WeakBroadcaster<T> {
        WeakBroadcaster { incoming: self.incoming.clone() }
    }
}

/// A handle to a bus that can register watchers and create publishers, but does not keep the bus
/// open. To create a `WeakBroadcaster`, call [`Broadcaster::downgrade`].
///
/// Pass a `WeakBroadcaster` to the parts of a program that subscribe to a bus but must not keep the
/// bus alive, such as the objects that a server creates for its clients. When the owner drops the
/// last [`Broadcaster`], the bus closes, and the watchers registered by those parts end. If a
/// handler, a filter or a hook registers watchers on its own bus, it should own a
/// `WeakBroadcaster`. A `Broadcaster` would keep the bus open until the watcher of that handler,
/// filter or hook ends. Like a `WeakBroadcaster`, a [`Publisher`] does not keep the bus open.
///
/// A `WeakBroadcaster` is `Send` and `Sync`. Cloning a `WeakBroadcaster` increments one reference
/// count. Each handle keeps the bus's memory allocated, except for the watchers' queues.
///
/// # Examples
///
/// ```
/// use eventcast::error::WatchError;
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let subscriptions = bus.downgrade();
///
/// let mut watcher = subscriptions.watch()?;
/// bus.publisher().publish("hello")?;
/// assert_eq!(watcher.recv()?, Delivery::Event("hello"));
///
/// drop(bus);
/// assert!(watcher.recv().is_err());
/// assert!(matches!(subscriptions.watch(), Err(WatchError::Closed)));
/// assert!(subscriptions.upgrade().is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct WeakBroadcaster<T> {
    pub(super) incoming: Arc<IncomingQueue<T>>,
}

impl<T: Clone + Send + Sync + 'static> WeakBroadcaster<T> {
    /// Registers a watcher, like [`Broadcaster::watch`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`WatchBuilder::watch`]. Returns [`WatchError::Closed`] once the
    /// last [`Broadcaster`] has been dropped.
    ///
    /// # Blocking
    ///
    /// Same as [`WatchBuilder::watch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.downgrade().watch()?;
    /// bus.publisher().publish(7)?;
    /// assert_eq!(watcher.recv()?, Delivery::Event(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "subscribe")]
    #[track_caller]
    pub fn watch(&self) -> Result<Watcher<T>, WatchError> {
        self.watch_builder().watch()
    }
}

impl<T> WeakBroadcaster<T> {
    /// Returns a builder for a watcher or a handler, like [`Broadcaster::watch_builder`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let watcher = bus.downgrade().watch_builder().name("client").watch()?;
    /// assert_eq!(watcher.stats().name, "client");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn watch_builder(&self) -> WatchBuilder<'_, T> {
        WatchBuilder::new(&self.incoming)
    }

    /// Returns a handle that publishes events, like [`Broadcaster::publisher`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let weak = bus.downgrade();
    /// assert!(weak.publisher().publish(1).is_ok());
    /// drop(bus);
    /// assert!(weak.publisher().publish(2).unwrap_err().is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publisher(&self) -> Publisher<T> {
        Publisher::new(self.incoming.clone())
    }

    /// Returns a handle that keeps the bus open, or `None` if the last [`Broadcaster`] has been
    /// dropped. This method never blocks.
    ///
    /// If `upgrade` returns `None`, the bus is closed, even if another thread is still dropping the
    /// last handle. If `upgrade` returns `Some`, the bus stays open until the returned handle is
    /// dropped, unless the bus is [closed](Broadcaster::close) explicitly. If a bus was closed
    /// explicitly, its weak handles can still be upgraded while a `Broadcaster` exists, so that you
    /// can read the bus's statistics or wait for the bus to end.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let weak = bus.downgrade();
    /// let upgraded = weak.upgrade().expect("`bus` is left");
    /// drop(bus);
    /// upgraded.publisher().publish(1)?;
    /// drop(upgraded);
    /// assert!(weak.upgrade().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "an upgraded handle that is dropped may close the bus"]
    pub fn upgrade(&self) -> Option<Broadcaster<T>> {
        if self.incoming.handles.try_add() {
            return Some(Broadcaster { incoming: self.incoming.clone() });
        }
        // The thread that is dropping the last handle may not have closed the bus yet. Two threads
        // may safely close a bus at the same time.
        if !self.is_closed() {
            self.incoming.bus.close();
        }
        None
    }

    /// Returns whether the bus has been closed, like [`Broadcaster::is_closed`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let weak = bus.downgrade();
    /// assert!(!weak.is_closed());
    /// bus.close();
    /// assert!(weak.is_closed() && weak.upgrade().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        self.incoming.bus.is_closed()
    }
}

impl<T> Clone for WeakBroadcaster<T> {
    fn clone(&self) -> Self {
        Self { incoming: self.incoming.clone() }
    }
}

impl<T> fmt::Debug for WeakBroadcaster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WeakBroadcaster").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
