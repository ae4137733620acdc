//! Defines the settings and the state that the modules of a reader share.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::codec::Codec;
use crate::options::SubscriberOptions;
use crate::runtime::Signal;
use crate::status::StatusCell;

use super::stats::NatsSubscriberStats;
use super::store::{PositionStore, SavedPosition};

/// A user-supplied function that is called if a message cannot be read or the reader restarts.
pub(crate) type OnError = Box<dyn Fn(&str) + Send + Sync>;

/// The state that the program's handle shares with the task.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) stats: Arc<Mutex<NatsSubscriberStats>>,
    pub(crate) status: StatusCell,
    /// This signal is set once the reader has opened its first session. From then on, the reader
    /// misses no message.
    pub(crate) ready: Signal,
}

/// A reader's settings, its saved position, and the parts that the program supplies.
pub(crate) struct Parts<T> {
    pub(crate) options: SubscriberOptions,
    pub(crate) codec: Box<dyn Codec<T>>,
    pub(crate) store: Option<Arc<dyn PositionStore>>,
    pub(crate) saved: Option<SavedPosition>,
    pub(crate) own: HashSet<String>,
    pub(crate) on_error: Option<OnError>,
}

impl<T> Parts<T> {
    /// Reports a problem to the user-supplied hook.
    pub(super) fn complain(&self, text: &str) {
        if let Some(on_error) = &self.on_error {
            // Panics in the hook are not propagated.
            let _ = catch_unwind(AssertUnwindSafe(|| on_error(text)));
        }
    }
}
