//! The handle that stops a watcher from elsewhere.

use std::fmt;

use crate::bus::mailbox::MailboxReceiver;
use crate::bus::state::{Lifecycle, WatcherState};
use crate::sync::Arc;

/// A handle that stops a watcher from another thread. It keeps neither the watcher nor the bus
/// open.
#[derive(Clone)]
pub struct StopHandle {
    state: Arc<WatcherState>,
    lifecycle: Arc<Lifecycle>,
}

impl StopHandle {
    pub(crate) fn new<T>(receiver: &MailboxReceiver<T>) -> Self {
        Self { state: receiver.state.clone(), lifecycle: receiver.lifecycle.clone() }
    }

    /// Stops the watcher as [`Watcher::stop`] does. Idempotent. Never waits.
    pub fn stop(&self) {
        self.lifecycle.stop(&self.state);
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle").field("name", &self.state.name).finish_non_exhaustive()
    }
}
