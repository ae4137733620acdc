//! Options of a bus and of its watchers: plain data, checked when something is built from it.

use crate::error::BuildError;
use crate::policy::OverflowPolicy;

/// The longest queue that can be asked for, in events or entries.
const MAX_QUEUE: usize = 1 << 24;
/// The largest batch that can be asked for, in events.
const MAX_BATCH: usize = 1 << 16;

/// Options of a [`Broadcaster`](crate::Broadcaster).
///
/// Memory is bounded by `incoming_len` × `max_batch` events on their way in, the queues of the watchers, and two batches
/// of `max_batch` for the dispatcher and for each watcher: one in its hand and one that the oldest part of its queue
/// belongs to. In bytes that is times the size of an event and of what it owns.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
///
/// let options = BusOptions::default().incoming_len(64).queue_len(16).overflow(OverflowPolicy::Wait);
/// assert!(Broadcaster::<u8>::with_options(options).is_ok());
/// ```
///
#[cfg_attr(
    feature = "serde",
    doc = r##"They can come from a configuration file. What is left out has its default, and a name that does not exist is an error:

```
use eventcast::{BusOptions, OverflowPolicy};
use std::time::Duration;

let options: BusOptions = serde_json::from_str(r#"{"queue_len": 64, "overflow": {"wait_for": "250ms"}}"#)?;
let limit = OverflowPolicy::WaitFor(Duration::from_millis(250));
assert_eq!(options, BusOptions::default().queue_len(64).overflow(limit));
assert!(serde_json::from_str::<BusOptions>(r#"{"queue": 64}"#).is_err());
# Ok::<(), serde_json::Error>(())
```"##
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(default, deny_unknown_fields)
)]
pub struct BusOptions {
    pub(super) incoming_len: usize,
    pub(super) queue_len: usize,
    pub(super) overflow: OverflowPolicy,
    pub(super) max_batch: usize,
    pub(super) thread_name: String,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            // 1000 and 1000, and giving up the incoming event, are what client-go's recorder uses.
            incoming_len: 1000,
            queue_len: 1000,
            overflow: OverflowPolicy::DropIncoming,
            max_batch: 256,
            thread_name: "eventcast".to_owned(),
        }
    }
}

impl BusOptions {
    /// How many entries wait for the dispatcher at most, an entry being one event or one published batch. 1 to
    /// 16,777,216, default 1000.
    pub fn incoming_len(mut self, entries: usize) -> Self {
        self.incoming_len = entries;
        self
    }

    /// How many events wait for a watcher at most, where the watcher does not say so itself. 1 to 16,777,216, default
    /// 1000.
    pub fn queue_len(mut self, events: usize) -> Self {
        self.queue_len = events;
        self
    }

    /// What happens when a watcher's queue is full, where the watcher does not say so itself.
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = policy;
        self
    }

    /// How many events are distributed at once at most, and the largest piece of a published batch. 1 to 65,536,
    /// default 256.
    pub fn max_batch(mut self, events: usize) -> Self {
        self.max_batch = events;
        self
    }

    /// The name of the dispatcher's thread. Default `eventcast`.
    pub fn thread_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.thread_name);
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        check_len("incoming_len", self.incoming_len, MAX_QUEUE, "entries")?;
        check_queue_len(self.queue_len)?;
        check_len("max_batch", self.max_batch, MAX_BATCH, "events")?;
        check_name("thread_name", &self.thread_name)
    }
}

pub(super) fn check_queue_len(events: usize) -> Result<(), BuildError> {
    check_len("queue_len", events, MAX_QUEUE, "events")
}

/// Names become thread names, which the system ends at the first NUL.
pub(super) fn check_name(option: &'static str, name: &str) -> Result<(), BuildError> {
    if name.contains('\0') {
        return Err(BuildError::new(option, name.escape_debug(), "a name without NUL"));
    }
    Ok(())
}

fn check_len(option: &'static str, value: usize, max: usize, unit: &str) -> Result<(), BuildError> {
    if value == 0 || value > max {
        return Err(BuildError::new(option, value, format_args!("1 to {max} {unit}")));
    }
    Ok(())
}
