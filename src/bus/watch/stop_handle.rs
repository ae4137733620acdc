//! The handle that stops a watcher from elsewhere.

use std::fmt;

use crate::bus::mailbox::MailboxReceiver;
use crate::bus::state::{Lifecycle, WatcherState};
use crate::sync::Arc;

/// A handle that stops a watcher from another thread. It keeps neither the watcher nor the bus
/// open.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::TryRecvError;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let mut watcher = bus.watch()?;
/// let stop = watcher.stop_handle();
/// drop(stop.clone());
/// assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
/// stop.stop();
/// assert_eq!(watcher.try_recv(), Err(TryRecvError::Stopped));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct StopHandle {
    state: Arc<WatcherState>,
    lifecycle: Arc<Lifecycle>,
}

impl StopHandle {
    pub(crate) fn new<T>(receiver: &MailboxReceiver<T>) -> Self {
        Self { state: receiver.state.clone(), lifecycle: receiver.lifecycle.clone() }
    }

    /// Stops the watcher as [`Watcher::stop`](crate::Watcher::stop) does. Idempotent. Never waits.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let mut watcher = bus.watch()?;
    /// let stop = watcher.stop_handle();
    /// stop.stop();
    /// stop.stop();
    /// assert!(watcher.recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.lifecycle.stop(&self.state);
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle").field("name", &self.state.name).finish_non_exhaustive()
    }
}
