//! A store in memory, bounded in number and time, that answers as a Kubernetes API server does.
//!
//! Every write gives the event the next number, which is its resource version and its place in one ordered map: so the
//! event that was written longest ago is the first, whether it is to expire or to make room. Nothing runs in the
//! background; what has expired goes when somebody next looks.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Clock, Deadline};
use crate::document::document;
use crate::error::BuildError;
use crate::escape::escaped;
use crate::event::{Event, EventPatch, ObjectReference, Text, Timestamp};
use crate::sync::{Arc, Mutex};

use super::query::EventQuery;
use super::{EventSink, SinkError, table};

/// The most events that a store can be asked to hold.
const MAX_EVENTS: usize = 1 << 24;
/// The API server's limit for events that have an event time.
const MAX_TIMED_MESSAGE: usize = 1024;

/// Options of a [`MemorySink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields, expecting = "a store's options, as an object")]
#[non_exhaustive]
pub struct MemorySinkOptions {
    /// How many events it holds; when there would be more, the one that was written longest ago makes room. 1 to
    /// 16,777,216, default 10,000.
    pub max_events: usize,
    /// How long after its last write an event is kept. More than zero, default an hour, as an API server keeps events.
    #[serde(with = "crate::duration")]
    pub ttl: Duration,
}

document!(MemorySinkOptions);

impl Default for MemorySinkOptions {
    fn default() -> Self {
        // An hour is the API server's `--event-ttl`.
        Self { max_events: 10_000, ttl: Duration::from_secs(3600) }
    }
}

impl MemorySinkOptions {
    fn check(&self) -> Result<(), BuildError> {
        if !(1..=MAX_EVENTS).contains(&self.max_events) {
            let allowed = format_args!("1 to {MAX_EVENTS} events");
            return Err(BuildError::new("max_events", self.max_events, allowed));
        }
        if self.ttl.is_zero() {
            return Err(BuildError::new("ttl", "0s", "more than zero"));
        }
        Ok(())
    }
}

/// What has become of the events of a [`MemorySink`]: `created` = `stored` + `expired` + `evicted`, at any moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct MemorySinkStats {
    /// Held now.
    pub stored: u64,
    /// Ever created.
    pub created: u64,
    /// Updates and patches of stored events.
    pub updated: u64,
    /// Gone because nobody wrote them for too long.
    pub expired: u64,
    /// Gone to make room.
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

/// A store in memory. A clone is the same store, so that one can be given to a recording and the other be read.
///
/// It behaves as an API server does. A name exists once in a namespace. Creating sets uid, creation time and resource version,
/// whatever they were. A patch changes count, last time and message, and starts the time to live again; one that changes
/// nothing writes nothing. An update of an event that is not there creates it; one with an old resource version is
/// rejected. Times are cut to whole seconds, event time and series to microseconds. Rejected as invalid are: a
/// missing name, one with `/`, an object in another namespace than the event, and an event time without action and
/// reporting controller and instance, or with a message of more than 1024 bytes.
///
/// An event without a namespace is stored in its object's, or in `default`.
///
/// Memory is bounded by `max_events` times the largest event; a recorder limits messages to 16 KiB unless told
/// otherwise. Every access takes one lock for a short time, and readers get copies, which share the texts.
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
    shared: Arc<Shared>,
}

struct Shared {
    options: MemorySinkOptions,
    clock: Clock,
    /// The moment of creation in nanoseconds, a part of the uids.
    born: u64,
    state: Mutex<State>,
}

/// Namespace and name.
type Key = (Text, Text);

struct Stored {
    event: Event,
    expires: Deadline,
}

#[derive(Default)]
struct State {
    /// The number of the last write.
    version: u64,
    by_write: BTreeMap<u64, Stored>,
    index: HashMap<Key, u64>,
    stats: MemorySinkStats,
}

impl Default for MemorySink {
    fn default() -> Self {
        Self::new()
    }
}

impl MemorySink {
    /// An empty store of at most 10,000 events, each kept for an hour after its last write by the system's clock. Beside a
    /// broadcaster on a [`FakeClock`](crate::FakeClock), [`with_clock`](Self::with_clock) gives it the same.
    pub fn new() -> Self {
        Self::build(MemorySinkOptions::default(), Clock::system())
    }

    /// An empty store with these options.
    ///
    /// # Errors
    ///
    /// Names the option that is out of range.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{MemorySink, MemorySinkOptions};
    ///
    /// let mut options = MemorySinkOptions::default();
    /// options.max_events = 500;
    /// assert!(MemorySink::with_options(options).is_ok());
    ///
    /// options.max_events = 0;
    /// let error = MemorySink::with_options(options).unwrap_err();
    /// assert_eq!(error.to_string(), "max_events is 0, allowed is 1 to 16777216 events");
    /// ```
    pub fn with_options(options: MemorySinkOptions) -> Result<Self, BuildError> {
        Self::with_clock(options, Clock::system())
    }

    /// An empty store whose events expire, and whose table shows ages, by this clock.
    ///
    /// # Errors
    ///
    /// As [`with_options`](Self::with_options).
    pub fn with_clock(options: MemorySinkOptions, clock: Clock) -> Result<Self, BuildError> {
        options.check()?;
        Ok(Self::build(options, clock))
    }

    fn build(options: MemorySinkOptions, clock: Clock) -> Self {
        let born = Timestamp::from(clock.now()).unix_nanoseconds().unsigned_abs() as u64;
        let state = Mutex::new(State::default());
        Self { shared: Arc::new(Shared { options, clock, born, state }) }
    }

    /// All events, in the order of their last writes.
    pub fn events(&self) -> Vec<Event> {
        self.with(|state| state.by_write.values().map(|stored| stored.event.clone()).collect())
    }

    /// The event of this name.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Event> {
        self.with(|state| {
            let version = state.index.get(&(Text::copied(namespace), Text::copied(name)))?;
            Some(state.by_write.get(version)?.event.clone())
        })
    }

    /// How many events there are.
    pub fn len(&self) -> usize {
        self.with(|state| state.by_write.len())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What has become of the events so far.
    pub fn stats(&self) -> MemorySinkStats {
        self.with(|state| MemorySinkStats { stored: state.by_write.len() as u64, ..state.stats })
    }

    /// The events as `kubectl get events` shows them, in the order of their last writes, each on one line.
    ///
    /// An event that was counted says how often, and since when: `2s (x5 over 30s)`. Control characters of all texts
    /// are escaped, and columns stay aligned where characters are wide.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, FakeClock, MemorySink, MemorySinkOptions, ObjectReference};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    /// let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock())?;
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// event.involved_object = ObjectReference::new("Pod", "web-0");
    /// event.type_ = "Warning".into();
    /// event.reason = "BackOff".into();
    /// event.message = "restarting".into();
    /// event.first_timestamp = Some(clock.clock().now().into());
    /// event.last_timestamp = event.first_timestamp;
    /// event.count = 5;
    /// store.create(&event)?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(
    ///     store.table(),
    ///     "LAST SEEN         TYPE      REASON    OBJECT      MESSAGE\n\
    ///      3s (x5 over 3s)   Warning   BackOff   pod/web-0   restarting\n"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn table(&self) -> String {
        table::render(&self.events(), self.now())
    }

    /// The events that are looked for, in the order of their last writes.
    pub fn find(&self, query: &EventQuery) -> Vec<Event> {
        self.with(|state| {
            // From the newest, so that a limit ends the search.
            let newest = state.by_write.values().rev().map(|stored| &stored.event);
            let found = newest.filter(|event| query.matches(event)).take(query.limit.unwrap_or(usize::MAX));
            let mut found: Vec<Event> = found.cloned().collect();
            found.reverse();
            found
        })
    }

    /// As [`table`](Self::table), of the events that are looked for.
    pub fn table_of(&self, query: &EventQuery) -> String {
        table::render(&self.find(query), self.now())
    }

    /// The events about an object as the section `Events` of `kubectl describe` shows them: the one last seen longest
    /// ago first, control characters of all texts escaped.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, FakeClock, MemorySink, MemorySinkOptions, ObjectReference};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    /// let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock())?;
    /// let web = ObjectReference::new("Pod", "web-0");
    /// assert_eq!(store.describe(&web), "Events:  <none>\n");
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// event.involved_object = web.clone();
    /// event.type_ = "Warning".into();
    /// event.reason = "BackOff".into();
    /// event.message = "restarting".into();
    /// event.source = "kubelet".into();
    /// event.first_timestamp = Some(clock.clock().now().into());
    /// store.create(&event)?;
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(
    ///     store.describe(&web),
    ///     "Events:\n\
    ///     \x20 Type     Reason   Age   From     Message\n\
    ///     \x20 ----     ------   ----  ----     -------\n\
    ///     \x20 Warning  BackOff  3s    kubelet  restarting\n"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn describe(&self, object: impl Into<ObjectReference>) -> String {
        table::describe(self.find(&EventQuery::new().object(object)), self.now())
    }

    /// The events as a core/v1 `EventList`, one JSON document without a newline at its end, in the order of their last
    /// writes.
    ///
    /// # Examples
    ///
    /// ```
    /// let empty = eventcast::MemorySink::new();
    /// assert_eq!(
    ///     empty.to_list_json(),
    ///     r#"{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"0"},"items":[]}"#
    /// );
    /// ```
    pub fn to_list_json(&self) -> String {
        let (version, events) = self.with(|state| {
            (state.version, state.by_write.values().map(|stored| stored.event.clone()).collect::<Vec<_>>())
        });
        let items: Vec<String> = events.iter().map(Event::to_json).collect();
        let items = items.join(",");
        format!(
            r#"{{"kind":"EventList","apiVersion":"v1","metadata":{{"resourceVersion":"{version}"}},"items":[{items}]}}"#
        )
    }

    fn now(&self) -> Timestamp {
        self.shared.clock.now().into()
    }

    /// Looks at what has not expired.
    fn with<R>(&self, look: impl FnOnce(&mut State) -> R) -> R {
        let mut state = self.shared.state.lock();
        while let Some(oldest) = state.by_write.first_entry() {
            if !self.shared.clock.has_passed(oldest.get().expires) {
                break;
            }
            let event = oldest.remove().event;
            state.index.remove(&key_of(&event));
            state.stats.expired += 1;
        }
        look(&mut state)
    }

    /// Adds an event whose name is free.
    fn insert(&self, state: &mut State, mut event: Event) -> Event {
        if state.by_write.len() >= self.shared.options.max_events {
            if let Some((_, oldest)) = state.by_write.pop_first() {
                state.index.remove(&key_of(&oldest.event));
                state.stats.evicted += 1;
            }
        }
        state.stats.created += 1;
        let (born, number) = (self.shared.born, state.stats.created);
        // In the form of a random UUID, made of the store's beginning and a number: unique, and the same in every run
        // of a test with a clock of its own.
        event.metadata.set_uid(format!(
            "{:08x}-{:04x}-4{:03x}-8{:03x}-{number:012x}",
            born >> 32,
            (born >> 16) & 0xFFFF,
            (born >> 4) & 0xFFF,
            born & 0xF
        ));
        event.metadata.set_creation_timestamp(self.now().whole_seconds());
        self.write(state, event)
    }

    /// Puts an event that is not in the maps where the next write belongs.
    fn write(&self, state: &mut State, mut event: Event) -> Event {
        state.version += 1;
        event.metadata.set_resource_version(state.version.to_string());
        let expires = self.shared.clock.deadline(self.shared.options.ttl);
        state.index.insert(key_of(&event), state.version);
        state.by_write.insert(state.version, Stored { event: event.clone(), expires });
        event
    }

    /// Changes the event at `version`. What changes nothing is no write.
    fn change(&self, state: &mut State, version: u64, make: impl FnOnce(&Event) -> Event) -> Option<Event> {
        let old = &state.by_write.get(&version)?.event;
        let new = make(old);
        state.stats.updated += 1;
        if *old == new {
            return Some(new);
        }
        state.by_write.remove(&version);
        Some(self.write(state, new))
    }
}

impl EventSink for MemorySink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let mut event = admitted(event, true)?;
        self.with(|state| {
            if event.metadata.name.is_empty() {
                event.metadata.name = free_name(state, &event);
            }
            let key = key_of(&event);
            if let Some(version) = state.index.get(&key) {
                let taken = SinkError::already_exists(described(&key));
                let stored = state.by_write.get(version).map(|stored| stored.event.clone());
                return Err(match stored {
                    Some(stored) => taken.with_stored(stored),
                    None => taken,
                });
            }
            Ok(self.insert(state, event))
        })
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        let event = admitted(event, false)?;
        let key = key_of(&event);
        self.with(|state| {
            let Some(&version) = state.index.get(&key) else { return Ok(self.insert(state, event)) };
            let given = event.metadata.resource_version();
            if !given.is_empty() && *given != *version.to_string() {
                let cause = format!("{} has been changed since version {given}", described(&key));
                return Err(SinkError::rejected(cause));
            }
            let replaced = self.change(state, version, |old| {
                let mut new = event;
                new.metadata.set_uid(old.metadata.uid());
                new.metadata.set_creation_timestamp(old.metadata.creation_timestamp());
                new.metadata.set_resource_version(old.metadata.resource_version());
                new
            });
            replaced.ok_or_else(|| SinkError::not_found(described(&key)))
        })
    }

    fn patch(&self, event: &Event, _patch: &EventPatch) -> Result<Event, SinkError> {
        let event = admitted(event, false)?;
        let key = key_of(&event);
        self.with(|state| {
            let patched = state.index.get(&key).copied().and_then(|version| {
                self.change(state, version, |old| {
                    let mut new = old.clone();
                    // What a patch leaves out, see `EventPatch::new`, stays as it was.
                    if event.count != 0 {
                        new.count = event.count;
                    }
                    if event.last_timestamp != Some(Timestamp::UNIX_EPOCH) {
                        new.last_timestamp = event.last_timestamp;
                    }
                    if !event.message.is_empty() {
                        new.message = event.message;
                    }
                    new
                })
            });
            patched.ok_or_else(|| SinkError::not_found(described(&key)))
        })
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

fn key_of(event: &Event) -> Key {
    (event.metadata.namespace.clone(), event.metadata.name.clone())
}

fn described((namespace, name): &Key) -> String {
    format!("events \"{}\" in namespace {}", escaped(name), escaped(namespace))
}

/// The event as it can be stored, or why it cannot.
fn admitted(event: &Event, can_be_named: bool) -> Result<Event, SinkError> {
    let mut event = event.clone();
    if event.metadata.namespace.is_empty() {
        event.metadata.namespace = home(&event);
    }
    let invalid =
        |what: &str| Err(SinkError::rejected(format!("{} is invalid: {what}", described(&key_of(&event)))));
    let name = &event.metadata.name;
    if name.is_empty() && (!can_be_named || event.metadata.generate_name().is_empty()) {
        return invalid("a name is required");
    }
    let beginning = event.metadata.generate_name();
    if name.contains('/')
        || [".", ".."].contains(&name.as_str())
        || name.is_empty() && beginning.contains('/')
    {
        return invalid("the name is no part of a path");
    }
    if event.metadata.namespace != home(&event) {
        return invalid("the object is in another namespace than the event");
    }
    if event.event_time().is_some() {
        if event.reporting_controller.is_empty()
            || event.reporting_instance.is_empty()
            || event.action().is_empty()
        {
            return invalid("an event time requires reporting controller, reporting instance and action");
        }
        if event.message.len() > MAX_TIMED_MESSAGE {
            return invalid("with an event time a message has at most 1024 bytes");
        }
    }
    event.first_timestamp = event.first_timestamp.map(Timestamp::whole_seconds);
    event.last_timestamp = event.last_timestamp.map(Timestamp::whole_seconds);
    event.set_event_time(event.event_time().map(whole_micros));
    if let Some(mut series) = event.series() {
        series.last_observed_time = series.last_observed_time.map(whole_micros);
        event.set_series(series);
    }
    Ok(event)
}

/// Where an event belongs: to its object, or, as client-go and the API server have it, into `default`.
fn home(event: &Event) -> Text {
    let namespace = &event.involved_object.namespace;
    if namespace.is_empty() { Text::from_static("default") } else { namespace.clone() }
}

fn whole_micros(at: Timestamp) -> Timestamp {
    let nanos = at.subsec_nanoseconds();
    Timestamp::new(at.seconds(), nanos - nanos % 1000).unwrap_or(at)
}

/// Completes `generateName`.
fn free_name(state: &State, event: &Event) -> Text {
    let prefix = event.metadata.generate_name();
    let mut number = state.version;
    loop {
        number += 1;
        let name = Text::from(format_args!("{prefix}{number:05x}"));
        if !state.index.contains_key(&(event.metadata.namespace.clone(), name.clone())) {
            return name;
        }
    }
}
