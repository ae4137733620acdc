//! Options of a bus and of its watchers: plain data, checked when a bus or a watcher is built.

use std::fmt;
use std::time::Duration;

use crate::error::BuildError;
use crate::escape::escape;
use crate::policy::OverflowPolicy;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

/// The largest length of a queue, in events or entries.
const MAX_QUEUE: usize = 1 << 24;
/// The longest time for which a thread may spin.
const MAX_SPIN: Duration = Duration::from_secs(1);
/// The largest length of a batch, in events.
const MAX_BATCH: usize = 1 << 16;
/// The largest size of an incoming queue, in bytes: 4 GiB.
const MAX_INCOMING: u64 = 1 << 32;

/// Options of a [`Broadcaster`](crate::Broadcaster).
///
/// Memory is bounded by the sum of these numbers of events:
///
/// - `incoming_len` × `max_batch` events in the incoming queue.
/// - The events in the queues of the watchers.
/// - Two batches of `max_batch` for the dispatcher and for each watcher: the current one, and the
///   one to which the oldest part of the queue belongs.
///
/// The bound in bytes is this sum times the size of an event and of what an event owns.
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
    doc = r##"They can come from a configuration file, with the setters' names as keys. A key that is left out
has its default, and a key that does not exist is an error. A value out of range, such as a queue of
zero, is an error that names the option when the bus is built:

```
use eventcast::{BusOptions, OverflowPolicy};
use std::time::Duration;

let options: BusOptions = serde_json::from_str(r#"{"queue_len": 64, "overflow": {"wait_for": "250ms"}}"#)?;
let limit = OverflowPolicy::WaitFor(Duration::from_millis(250));
assert_eq!(options, BusOptions::default().queue_len(64).overflow(limit));
assert!(serde_json::from_str::<BusOptions>(r#"{"queue": 64}"#).is_err());

let options = serde_json::from_str(r#"{"queue_len": 0}"#)?;
let error = eventcast::Broadcaster::<u8>::with_options(options).unwrap_err();
assert_eq!(error.to_string(), "queue_len must be 1 to 16777216 events, got 0");
# Ok::<(), serde_json::Error>(())
```"##
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(remote = "Self", default, deny_unknown_fields, expecting = "a bus's options, as an object")
)]
#[must_use = "options do nothing until a bus is built with them"]
pub struct BusOptions {
    pub(super) incoming_len: usize,
    pub(super) queue_len: usize,
    pub(super) overflow: OverflowPolicy,
    pub(super) max_batch: usize,
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub(super) spin: Duration,
    pub(super) thread_name: String,
}

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            // As in client-go's recorder: both lengths are 1000, and the incoming event is given
            // up.
            incoming_len: 1000,
            queue_len: 1000,
            overflow: OverflowPolicy::DropIncoming,
            max_batch: 256,
            spin: Duration::ZERO,
            thread_name: "eventcast".to_owned(),
        }
    }
}

impl BusOptions {
    /// Sets the largest number of entries that wait for the dispatcher: 1 to 16,777,216, with 1000
    /// as the default. An entry is an event, a piece of a published batch, a registration or a
    /// flush.
    ///
    /// The queue takes its memory at once, even if few entries wait in it. Each entry takes the
    /// larger of an event and 24 bytes, and up to 16 bytes more. A million entries for events of
    /// 128 bytes take 144 MB. [`with_options`](crate::Broadcaster::with_options) returns an error
    /// if the queue needs more than 4 GiB, or more than the system grants. The check does not
    /// detect a system that grants more than it has, as Linux may.
    pub fn incoming_len(mut self, entries: usize) -> Self {
        self.incoming_len = entries;
        self
    }

    /// Sets the largest number of events that wait for a watcher, unless the watcher sets its own:
    /// 1 to 16,777,216, with 1000 as the default.
    pub fn queue_len(mut self, events: usize) -> Self {
        self.queue_len = events;
        self
    }

    /// Sets what happens when a watcher's queue is full, unless the watcher sets its own policy.
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = policy;
        self
    }

    /// Sets the largest number of events that the dispatcher offers at once, and the largest piece
    /// of a published batch: 1 to 65,536, with 256 as the default.
    pub fn max_batch(mut self, events: usize) -> Self {
        self.max_batch = events;
        self
    }

    /// Sets how long the dispatcher, the handlers' threads and blocking receives keep looking
    /// before they sleep: at most one second, default zero.
    ///
    /// These threads always look about seven times, within a few microseconds. A longer time lowers
    /// the latency at low rates, because no thread has to be woken, which takes tens of
    /// microseconds. Each of these threads then occupies a processor for this time after each
    /// event. The option pays only if there are more processors than such threads. A task never
    /// spins. A deadline or the end of the bus ends the wait even while a thread spins.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
        self
    }

    /// Sets the name of the dispatcher's thread. Default `eventcast`.
    pub fn thread_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.thread_name);
        self
    }

    /// Returns the largest number of entries that wait for the dispatcher.
    pub fn get_incoming_len(&self) -> usize {
        self.incoming_len
    }

    /// Returns the largest number of events that wait for a watcher.
    pub fn get_queue_len(&self) -> usize {
        self.queue_len
    }

    /// Returns the policy for a watcher whose queue is full.
    pub fn get_overflow(&self) -> OverflowPolicy {
        self.overflow
    }

    /// Returns the largest number of events that the dispatcher offers at once.
    pub fn get_max_batch(&self) -> usize {
        self.max_batch
    }

    /// Returns how long a thread keeps looking before it sleeps.
    pub fn get_spin(&self) -> Duration {
        self.spin
    }

    /// Returns the name of the dispatcher's thread.
    pub fn get_thread_name(&self) -> &str {
        &self.thread_name
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        check_len("incoming_len", self.incoming_len, MAX_QUEUE, "entries")?;
        check_queue_len(self.queue_len)?;
        check_len("max_batch", self.max_batch, MAX_BATCH, "events")?;
        if self.spin > MAX_SPIN {
            return Err(BuildError::new(
                "spin",
                format_args!("{:?}", self.spin),
                format_args!("up to {MAX_SPIN:?}"),
            ));
        }
        check_name("thread_name", &self.thread_name)
    }
}

/// Options of one watcher, as far as they are plain data. An option that is left out keeps the
/// value in the [builder](crate::WatchBuilder::options), which begins with the value of the bus's
/// options.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions, OverflowPolicy, WatchOptions};
///
/// let bus = Broadcaster::<u8>::with_options(BusOptions::default().overflow(OverflowPolicy::Wait))?;
/// let view = WatchOptions::default().name("view").queue_len(64);
/// let watcher = bus.watch_builder().options(view).watch()?;
/// assert_eq!((watcher.stats().name.as_str(), watcher.stats().policy), ("view", Some(OverflowPolicy::Wait)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
#[cfg_attr(
    feature = "serde",
    doc = r##"They can come from a configuration file, with the setters' names as keys. A key that does not
exist is an error. A value out of range, such as a queue of zero, is an error that names the option
when the watcher is made:

```
use eventcast::{Broadcaster, WatchOptions};

let bus = Broadcaster::<u8>::new()?;
let read = |json: &str| serde_json::from_str::<WatchOptions>(json);
let options = read(r#"{"queue_len": 64, "overflow": {"wait_for": "50ms"}}"#)?;
assert!(bus.watch_builder().options(options).watch().is_ok());

assert!(read(r#"{"queue": 64}"#).is_err());
let error = bus.watch_builder().options(read(r#"{"queue_len": 0}"#)?).watch().unwrap_err();
assert_eq!(error.to_string(), "queue_len must be 1 to 16777216 events, got 0");
# Ok::<(), Box<dyn std::error::Error>>(())
```"##
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(remote = "Self", default, deny_unknown_fields, expecting = "a watcher's options, as an object")
)]
#[must_use = "options do nothing until a watcher is built with them"]
pub struct WatchOptions {
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) name: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) queue_len: Option<usize>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) overflow: Option<OverflowPolicy>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(super) stop_on_panic: Option<bool>,
}

#[cfg(feature = "serde")]
object_only!(BusOptions, WatchOptions);

impl WatchOptions {
    /// Sets the name. See [`WatchBuilder::name`](crate::WatchBuilder::name).
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the queue length. See [`WatchBuilder::queue_len`](crate::WatchBuilder::queue_len).
    pub fn queue_len(mut self, events: usize) -> Self {
        self.queue_len = Some(events);
        self
    }

    /// Sets the overflow policy. See [`WatchBuilder::overflow`](crate::WatchBuilder::overflow).
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = Some(policy);
        self
    }

    /// Sets whether a panic of the handler ends its watcher. See
    /// [`WatchBuilder::stop_on_panic`](crate::WatchBuilder::stop_on_panic).
    pub fn stop_on_panic(mut self, stops: bool) -> Self {
        self.stop_on_panic = Some(stops);
        self
    }

    /// Returns the name, or `None` if it is left out.
    pub fn get_name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the queue length, or `None` if it is left out.
    pub fn get_queue_len(&self) -> Option<usize> {
        self.queue_len
    }

    /// Returns the overflow policy, or `None` if it is left out.
    pub fn get_overflow(&self) -> Option<OverflowPolicy> {
        self.overflow
    }

    /// Returns whether a panic of the handler ends its watcher, or `None` if it is left out.
    pub fn get_stop_on_panic(&self) -> Option<bool> {
        self.stop_on_panic
    }
}

/// Checks that there is memory for an incoming queue of this many entries, which takes its memory
/// at once.
pub(super) fn check_incoming<E>(entries: usize) -> Result<(), BuildError> {
    // The queue keeps a mark with each entry.
    let size = size_of::<(usize, E)>();
    let most = MAX_INCOMING / size as u64;
    let refuse = |allowed: fmt::Arguments<'_>| Err(BuildError::new("incoming_len", entries, allowed));
    if entries as u64 > most {
        return refuse(format_args!("up to {most} entries of {size} bytes, which the queue takes at once"));
    }
    // Allocated and freed again, because a failed allocation of the queue itself would end the
    // process.
    let mut room: Vec<(usize, E)> = Vec::new();
    let granted = room.try_reserve_exact(entries);
    std::hint::black_box(&mut room);
    if granted.is_err() {
        return refuse(format_args!("as many entries of {size} bytes as the system has memory for"));
    }
    Ok(())
}

pub(super) fn check_queue_len(events: usize) -> Result<(), BuildError> {
    check_len("queue_len", events, MAX_QUEUE, "events")
}

/// Checks a name, which must not contain NUL. Names become thread names, which the system ends at
/// the first NUL.
pub(super) fn check_name(option: &'static str, name: &str) -> Result<(), BuildError> {
    if name.contains('\0') {
        return Err(BuildError::new(option, escape(name), "a name without NUL"));
    }
    Ok(())
}

fn check_len(option: &'static str, value: usize, max: usize, unit: &str) -> Result<(), BuildError> {
    if value == 0 || value > max {
        return Err(BuildError::new(option, value, format_args!("1 to {max} {unit}")));
    }
    Ok(())
}
