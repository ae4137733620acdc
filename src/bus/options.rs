//! Options of a bus and of its watchers: plain data, checked when something is built from it.

use std::fmt;
use std::time::Duration;

use crate::error::BuildError;
use crate::escape::escaped;
use crate::policy::OverflowPolicy;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

/// The longest queue that can be asked for, in events or entries.
const MAX_QUEUE: usize = 1 << 24;
/// The longest time that anybody can be told to spin.
const MAX_SPIN: Duration = Duration::from_secs(1);
/// The largest batch that can be asked for, in events.
const MAX_BATCH: usize = 1 << 16;
/// The most bytes that an incoming queue may take: 4 GiB.
const MAX_INCOMING: u64 = 1 << 32;

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
    doc = r##"They can come from a configuration file, with the setters' names as keys. What is left out has its default, and a key that
does not exist is an error. A value out of range, such as a queue of zero, is an error that names it when the bus is
built, wherever it came from:

```
use eventcast::{BusOptions, OverflowPolicy};
use std::time::Duration;

let options: BusOptions = serde_json::from_str(r#"{"queue_len": 64, "overflow": {"wait_for": "250ms"}}"#)?;
let limit = OverflowPolicy::WaitFor(Duration::from_millis(250));
assert_eq!(options, BusOptions::default().queue_len(64).overflow(limit));
assert!(serde_json::from_str::<BusOptions>(r#"{"queue": 64}"#).is_err());

let options = serde_json::from_str(r#"{"queue_len": 0}"#)?;
let error = eventcast::Broadcaster::<u8>::with_options(options).unwrap_err();
assert_eq!(error.to_string(), "queue_len is 0, allowed is 1 to 16777216 events");
# Ok::<(), serde_json::Error>(())
```"##
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(remote = "Self", default, deny_unknown_fields, expecting = "a bus's options, as an object")
)]
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
            // 1000 and 1000, and giving up the incoming event, are what client-go's recorder uses.
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
    /// How many entries wait for the dispatcher at most, an entry being one event or one published batch. 1 to
    /// 16,777,216, default 1000.
    ///
    /// This queue takes its memory at once, however little waits in it: for each entry the larger
    /// of an event and 24 bytes, and up to 16 bytes more. A million entries for events of 128 bytes
    /// take 144 MB. More than 4 GiB, and what the system does not grant, is an error of
    /// [`with_options`](crate::Broadcaster::with_options). That does not find out a system that
    /// grants more than it has, as Linux may.
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

    /// How long the dispatcher, the handlers' threads and receives that block go on looking before they sleep. At most a
    /// second, default zero.
    ///
    /// They always look about seven times, within a few microseconds. More buys latency at low
    /// rates, because nobody has to be woken (which takes tens of microseconds), and costs a
    /// processor for each of them for that long after each event. It pays only where there are more
    /// processors than such threads. What waits as a task never spins. A deadline, and the end of
    /// the bus, end the wait while it spins.
    pub fn spin(mut self, time: Duration) -> Self {
        self.spin = time;
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

/// Options of one watcher, as far as they are plain data. What they leave out stays as the
/// [builder](crate::WatchBuilder::options) has it, which is at first as the bus's options say.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions, OverflowPolicy, WatchOptions};
///
/// let bus = Broadcaster::<u8>::with_options(BusOptions::default().overflow(OverflowPolicy::Wait))?;
/// let view = WatchOptions::default().name("view").queue_len(64);
/// let watcher = bus.watch_builder().options(view).watch()?;
/// assert_eq!((watcher.stats().name.as_str(), watcher.stats().policy), ("view", OverflowPolicy::Wait));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
#[cfg_attr(
    feature = "serde",
    doc = r##"They can come from a configuration file, with the setters' names as keys. A key that does not exist is an error; a value out of
range, such as a queue of zero, is one that names it when the watcher is made, wherever it came from:

```
use eventcast::{Broadcaster, WatchOptions};

let bus = Broadcaster::<u8>::new()?;
let read = |json: &str| serde_json::from_str::<WatchOptions>(json);
let options = read(r#"{"queue_len": 64, "overflow": {"wait_for": "50ms"}}"#)?;
assert!(bus.watch_builder().options(options).watch().is_ok());

assert!(read(r#"{"queue": 64}"#).is_err());
let error = bus.watch_builder().options(read(r#"{"queue_len": 0}"#)?).watch().unwrap_err();
assert_eq!(error.to_string(), "queue_len is 0, allowed is 1 to 16777216 events");
# Ok::<(), Box<dyn std::error::Error>>(())
```"##
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(remote = "Self", default, deny_unknown_fields, expecting = "a watcher's options, as an object")
)]
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
    /// See [`WatchBuilder::name`](crate::WatchBuilder::name).
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// See [`WatchBuilder::queue_len`](crate::WatchBuilder::queue_len).
    pub fn queue_len(mut self, events: usize) -> Self {
        self.queue_len = Some(events);
        self
    }

    /// See [`WatchBuilder::overflow`](crate::WatchBuilder::overflow).
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = Some(policy);
        self
    }

    /// See [`WatchBuilder::stop_on_panic`](crate::WatchBuilder::stop_on_panic).
    pub fn stop_on_panic(mut self, stops: bool) -> Self {
        self.stop_on_panic = Some(stops);
        self
    }
}

/// Whether there is memory for an incoming queue of so many entries, which takes it at once.
pub(super) fn check_incoming<E>(entries: usize) -> Result<(), BuildError> {
    // With the mark that the queue keeps with each.
    let size = size_of::<(usize, E)>();
    let most = MAX_INCOMING / size as u64;
    let refuse = |allowed: fmt::Arguments<'_>| Err(BuildError::new("incoming_len", entries, allowed));
    if entries as u64 > most {
        return refuse(format_args!("up to {most} entries of {size} bytes, which the queue takes at once"));
    }
    // Allocated and freed again, because the queue itself would end the process.
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

/// Names become thread names, which the system ends at the first NUL.
pub(super) fn check_name(option: &'static str, name: &str) -> Result<(), BuildError> {
    if name.contains('\0') {
        return Err(BuildError::new(option, escaped(name), "a name without NUL"));
    }
    Ok(())
}

fn check_len(option: &'static str, value: usize, max: usize, unit: &str) -> Result<(), BuildError> {
    if value == 0 || value > max {
        return Err(BuildError::new(option, value, format_args!("1 to {max} {unit}")));
    }
    Ok(())
}
