//! An in-memory store that bounds the number and age of its events and responds like a Kubernetes
//! API server.
//!
//! Every write assigns the store's next number to the event as the event's resource version, and
//! moves the event to the end of the write order. The least recently written event is therefore the
//! first to expire and the first to be evicted. The store does not run background tasks. Instead,
//! each access first removes the events that have expired.

mod options;
mod read;
mod slab;
mod versions;

use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Deadline};
use crate::error::BuildError;
use crate::record::event::{Event, Stored, Text, Timestamp};
use crate::sync::{Arc, Mutex};

use super::rules::{self, Rules, namespace_of};
use super::{EventSink, SinkBatch, SinkError, SinkMode, SinkOp, SinkOpError};

pub use options::MemorySinkOptions;
pub use read::MemoryEvents;

use slab::{Birth, EventSlab};

/// Statistics about a [`MemorySink`]. `created` always equals `stored` + `expired` + `evicted`.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventSink, MemorySink};
///
/// let store = MemorySink::new();
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// store.create(&event)?;
/// let text = "stored 1, created 1, updated 0, expired 0, evicted 0";
/// assert_eq!(store.stats().to_string(), text);
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemorySinkStats {
    /// The number of events currently in the store.
    pub stored: u64,
    /// The total number of events created.
    pub created: u64,
    /// The number of updates and patches applied to stored events.
    pub updated: u64,
    /// The number of events removed because they had expired. An event expires when its time to
    /// live has elapsed since its last write.
    pub expired: u64,
    /// The number of events removed to make space in a full store.
    pub evicted: u64,
}

impl fmt::Display for MemorySinkStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, created, updated, expired, evicted } = self;
        write!(
            f,
            "stored {stored}, created {created}, updated {updated}, expired {expired}, evicted {evicted}"
        )
    }
}

/// An in-memory store. All clones share the same store, so a recording can own one clone while the
/// program reads from another clone.
///
/// The store responds like an API server, following the [`rules`]:
///
/// - Names are unique within a namespace.
/// - Creating an event sets its uid, creation time and resource version, regardless of their
///   previous values.
/// - A patch changes the count, last time and message, and restarts the time to live. If a patch
///   does not change the event, it does not count as a write.
/// - If an update concerns an event that is not in the store, the event is created. If the update
///   has a resource version that differs from the stored resource version, the update is rejected.
/// - The event time and the series' time are truncated to microseconds. All other times are
///   truncated to whole seconds.
/// - If an event violates a rule, it is [rejected](crate::SinkError::rejected) as invalid. If
///   [`events_v1_rules`](MemorySinkOptions::events_v1_rules) is set, an event with an event time
///   must also satisfy the rules of events.k8s.io/v1.
/// - If an event has no namespace, it is stored in its object's namespace, or in `default` if the
///   object has no namespace.
///
/// Memory usage is bounded by `max_events` times the size of the largest event. By default, a
/// recorder limits messages to 16 KiB. Every access holds a single lock for a short time. Readers
/// receive copies of the events, and the copies share their strings with the store. When many
/// events are read, the lock is acquired again for every 256 events.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventSink, MemorySink};
///
/// let store = MemorySink::new();
/// let sink = store.clone();
///
/// let mut event = Event::default();
/// event.metadata.name = "web-0.17a6".into();
/// event.reason = "Started".into();
/// let stored = sink.create(&event)?;
/// assert_eq!(stored.metadata.resource_version(), "1");
/// assert_eq!(store.events(), [stored]);
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[derive(Clone)]
pub struct MemorySink {
    shared: Arc<MemoryStore>,
}

struct MemoryStore {
    options: MemorySinkOptions,
    clock: Clock,
    state: Mutex<MemoryState>,
}

struct MemoryState {
    /// The number of the last write, or 0 if nothing has been written yet.
    version: u64,
    events: EventSlab,
    stats: MemorySinkStats,
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySink {
    /// Creates an empty store that holds at most 10,000 events. An event is kept for an hour after
    /// its last write, as measured by the system clock. If a broadcaster uses a
    /// [`FakeClock`](crate::testing::FakeClock), create the store with
    /// [`with_clock`](Self::with_clock), so that both use the same clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::MemorySink;
    ///
    /// let store = MemorySink::new();
    /// assert!(store.is_empty());
    /// ```
    pub fn new() -> Self {
        Self::build(MemorySinkOptions::default(), Clock::system())
    }

    /// Creates an empty store with the given options.
    ///
    /// # Errors
    ///
    /// Returns an error if an option is out of range. The error names the option.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::MemorySinkOptions;
    /// use eventcast::MemorySink;
    ///
    /// let options = MemorySinkOptions::default().max_events(500);
    /// assert!(MemorySink::with_options(options).is_ok());
    ///
    /// let error = MemorySink::with_options(options.max_events(0)).unwrap_err();
    /// assert_eq!(error.to_string(), "max_events must be 1 to 16777216 events, got 0");
    /// ```
    pub fn with_options(options: MemorySinkOptions) -> Result<Self, BuildError> {
        Self::with_clock(options, Clock::system())
    }

    /// Creates an empty store that uses the given clock for creation times and expiry.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`with_options`](Self::with_options).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::MemorySinkOptions;
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Event, EventSink, MemorySink};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let (clock, minute) = (FakeClock::new(SystemTime::UNIX_EPOCH), Duration::from_secs(60));
    /// let store = MemorySink::with_clock(MemorySinkOptions::default().ttl(minute), clock.clock())?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// assert_eq!(store.len(), 1);
    /// clock.advance(minute);
    /// assert_eq!((store.len(), store.stats().expired), (0, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(options: MemorySinkOptions, clock: Clock) -> Result<Self, BuildError> {
        options.check()?;
        Ok(Self::build(options, clock))
    }

    fn build(options: MemorySinkOptions, clock: Clock) -> Self {
        // The uids begin with the store's creation time.
        let number = Timestamp::from(clock.now()).as_nanos().unsigned_abs() as u64;
        let state =
            MemoryState { version: 0, events: EventSlab::new(number), stats: MemorySinkStats::default() };
        Self { shared: Arc::new(MemoryStore { options, clock, state: Mutex::new(state) }) }
    }

    /// Removes the events that have expired, and then calls `look` with the store's state.
    fn with<R>(&self, look: impl FnOnce(&MemoryState) -> R) -> R {
        self.change(|change| look(change.state))
    }

    /// Removes the events that have expired, and then calls `make` to change the store. The current
    /// time is read only once for expiry.
    fn change<R>(&self, make: impl FnOnce(&mut Change<'_>) -> R) -> R {
        let MemoryStore { options, clock, state } = &*self.shared;
        // Lock order: `MemoryStore::state` before `Fake::state`.
        let mut state = state.lock();
        let now = clock.deadline(Duration::ZERO);
        while state.events.next_expiry().is_some_and(|at| now >= Some(at)) {
            state.events.remove_oldest();
            state.stats.expired += 1;
        }
        let expires = now.and_then(|now| now.checked_add(options.ttl));
        make(&mut Change { state: &mut state, options, clock, today: None, expires })
    }
}

/// A group of writes that use the same current time.
struct Change<'a> {
    state: &'a mut MemoryState,
    options: &'a MemorySinkOptions,
    clock: &'a Clock,
    /// The current date and time, in whole seconds. The time is read when it is first needed.
    today: Option<Timestamp>,
    /// The time when the events written by this change expire.
    expires: Deadline,
}

impl Change<'_> {
    /// Performs an operation. If the operation is a [`SinkOp::Create`], its event is moved into the
    /// store.
    fn perform(&mut self, op: SinkOp) -> Result<Stored, SinkOpError> {
        let slot = match &op {
            SinkOp::Create(event) => self.check_new(event).map(|()| None),
            SinkOp::Update(event) => self.update(event).map(Some),
            SinkOp::Patch(event) => self.patch(event).map(Some),
        };
        let slot = match slot {
            Ok(Some(slot)) => slot,
            Ok(None) => self.create(op.into_event()),
            Err(error) => return Err(op.failed(error)),
        };
        Ok(self.state.events.stored(slot))
    }

    fn rules(&self) -> Rules {
        Rules::new().events_v1(self.options.events_v1_rules)
    }

    /// Returns an error if the event cannot be created.
    fn check_new(&self, event: &Event) -> Result<(), SinkError> {
        self.rules().check_new(event)?;
        match self.state.events.find(namespace_of(event), &event.metadata.name) {
            None => Ok(()),
            Some(slot) => Err(rules::already_exists(event).with_stored(self.state.events.whole(slot))),
        }
    }

    /// Adds an event that has passed [`check_new`](Self::check_new). Returns the event's slot.
    fn create(&mut self, mut event: Event) -> u32 {
        rules::admit(&mut event);
        let metadata = &mut event.metadata;
        if metadata.name.is_empty() {
            metadata.name = self.free_name(&metadata.namespace, metadata.generate_name());
        }
        self.insert(event)
    }

    fn update(&mut self, event: &Event) -> Result<u32, SinkError> {
        rules::check_named(event)?;
        let mut event = event.clone();
        rules::admit(&mut event);
        let slot = self.state.events.find(&event.metadata.namespace, &event.metadata.name);
        let old = slot.map(|slot| self.state.events.whole(slot));
        let is_write = self.rules().update(old.as_ref(), &mut event)?;
        let Some(slot) = slot else { return Ok(self.insert(event)) };
        self.state.stats.updated += 1;
        if is_write {
            self.state.events.replace(slot, event);
            self.written(slot);
        }
        Ok(slot)
    }

    fn patch(&mut self, event: &Event) -> Result<u32, SinkError> {
        rules::check_named(event)?;
        let found = self.state.events.find(namespace_of(event), &event.metadata.name);
        let slot = found.ok_or_else(|| rules::not_found(event))?;
        let is_write = self.rules().patch(self.state.events.at_mut(slot), event)?;
        self.state.stats.updated += 1;
        if is_write {
            self.written(slot);
        }
        Ok(slot)
    }

    /// Adds an event whose name is not taken, and returns the event's slot. If the store is full,
    /// evicts the least recently written event.
    fn insert(&mut self, event: Event) -> u32 {
        if self.state.events.len() >= self.options.max_events {
            self.state.events.free_oldest();
            self.state.stats.evicted += 1;
        }
        let version = self.next_version();
        self.state.stats.created += 1;
        let clock = self.clock;
        let today = *self.today.get_or_insert_with(|| Timestamp::from(clock.now()).trunc_to_second());
        let birth = Birth { number: self.state.stats.created, at: today };
        self.state.events.push(event, birth, version, self.expires)
    }

    fn written(&mut self, slot: u32) {
        let version = self.next_version();
        self.state.events.written(slot, version, self.expires);
    }

    fn next_version(&mut self) -> u64 {
        self.state.version += 1;
        self.state.version
    }

    /// Generates a name from a `generateName`. The name begins with `beginning` and is not taken.
    fn free_name(&self, namespace: &str, beginning: &str) -> Text {
        let is_taken = |name: &str| Ok::<_, Infallible>(self.state.events.find(namespace, name).is_some());
        let Ok(name) = rules::free_name(beginning, self.state.version, is_taken);
        name
    }
}

/// The store performs all operations in a batch without releasing the lock in between. All
/// operations in a batch share the same current time.
impl EventSink for MemorySink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.change(|change| {
            change.check_new(event)?;
            let slot = change.create(event.clone());
            Ok(change.state.events.whole(slot))
        })
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.change(|change| change.update(event).map(|slot| change.state.events.whole(slot)))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.change(|change| change.patch(event).map(|slot| change.state.events.whole(slot)))
    }

    fn ttl(&self) -> Option<Duration> {
        Some(self.shared.options.ttl)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        // Lock order: `MemoryStore::state` before `Replies::answers`.
        self.change(|change| batch.answer_each(|op| change.perform(op)));
    }
}

impl fmt::Debug for MemorySink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemorySink")
            .field("options", &self.shared.options)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
