//! Runs queries on an in-memory store.
//!
//! Each access holds the lock while reading one page. Even if a million events are read, a write is
//! therefore never delayed for longer than it takes to read 256 events.

use std::convert::Infallible;
use std::fmt;

use crate::record::event::Event;
use crate::record::sink::pages::{EventCursor, EventPage};
use crate::record::sink::query::{EventQuery, QueryLimit};

use super::{MemorySink, MemorySinkStats, MemoryState};

/// An iterator over the events that a query finds in a [`MemorySink`], in the order in which they
/// were last written. See [`MemorySink::stream`].
///
/// # Examples
///
/// ```
/// use eventcast::sink::{EventQuery, MemoryEvents};
/// use eventcast::{Event, EventSink, MemorySink};
///
/// let store = MemorySink::new();
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// store.create(&event)?;
/// let mut events: MemoryEvents = store.stream(&EventQuery::default());
/// assert_eq!(events.next().unwrap().metadata.name, "web-0.1");
/// assert_eq!(events.next(), None);
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[must_use = "it reads nothing by itself"]
pub struct MemoryEvents {
    store: MemorySink,
    cursor: EventCursor,
}

impl Iterator for MemoryEvents {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        let read = |query: &EventQuery, after| {
            Ok::<_, Infallible>(self.store.with(|state| page(state, query, after)))
        };
        let Ok(event) = self.cursor.next(read);
        event
    }
}

impl fmt::Debug for MemoryEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryEvents").field("store", &self.store).finish_non_exhaustive()
    }
}

fn page(state: &MemoryState, query: &EventQuery, after: u64) -> EventPage {
    let mut page = EventPage { found: Vec::new(), last: after, version: state.version, is_end: true };
    let mut events = state.events.after(after);
    for (version, slot) in events.by_ref().take(EventPage::LEN) {
        page.last = version;
        if query.matches(state.events.at(slot)) {
            page.found.push(state.events.whole(slot));
        }
    }
    page.is_end = events.next().is_none();
    page
}

/// Returns the last `limit` events that match the query, or all matching events if there are fewer.
/// Returns `None` if the store would have to read more than one page.
fn newest(state: &MemoryState, query: &EventQuery, limit: usize) -> Option<Vec<Event>> {
    let mut found = Vec::new();
    let mut events = state.events.before(u64::MAX).take_while(|(version, _)| *version > query.after);
    for (_, slot) in events.by_ref().take(EventPage::LEN) {
        if found.len() == limit {
            break;
        }
        if query.matches(state.events.at(slot)) {
            found.push(state.events.whole(slot));
        }
    }
    let is_whole = found.len() == limit || events.next().is_none();
    found.reverse();
    is_whole.then_some(found)
}

/// A list of events in no particular order. Each event is paired with the number of its last write.
/// No two events are from the same slot.
type Found = Vec<(u64, Event)>;

/// Searches the given slots for events that match the query, and adds these events to `found`.
fn look(state: &MemoryState, query: &EventQuery, slots: impl Iterator<Item = u32>, found: &mut Found) {
    let events = &state.events;
    let is_wanted = |slot: &u32| events.version(*slot) > query.after && query.matches(events.at(*slot));
    found.extend(slots.filter(is_wanted).map(|slot| (events.version(slot), events.whole(slot))));
}

impl MemorySink {
    /// Returns all events in the order in which they were last written, like [`find`](Self::find).
    /// To format the events like `kubectl get events`, use an
    /// [`EventTable`](crate::sink::EventTable).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let names: Vec<_> = store.events().into_iter().map(|event| event.metadata.name).collect();
    /// assert_eq!(names, ["web-0.1", "web-0.2"]);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn events(&self) -> Vec<Event> {
        self.find(&EventQuery::default())
    }

    /// Returns an iterator over the events that the query finds, in the order in which they were
    /// last written. The iterator uses bounded memory.
    ///
    /// The iterator reads 256 stored events at a time, and events can be written between two reads.
    /// If an event does not change, it is returned once. If an event is written during the
    /// iteration, it moves to the end. The iterator then returns the event in its new state, even
    /// if the iterator has already returned the event.
    ///
    /// The iterator ends when it has caught up with the writes. If events are written faster than
    /// they are read, the iterator still ends, but omits some of the events that were written after
    /// the iteration began. To find the omitted events, use [`EventQuery::after`] with the version
    /// of the last event that the iterator returned.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for number in 0..1000 {
    ///     let mut event = Event::default();
    ///     event.metadata.name = format!("e-{number}").into();
    ///     store.create(&event)?;
    /// }
    /// let names = store.stream(&EventQuery::default()).map(|event| event.metadata.name.to_string());
    /// assert!(names.eq((0..1000).map(|number| format!("e-{number}"))));
    /// assert_eq!(store.stream(&EventQuery::default().after(990)).count(), 10);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn stream(&self, query: &EventQuery) -> MemoryEvents {
        let start = match query.limit {
            QueryLimit::Last(events) => self.start_of_last(query, events),
            QueryLimit::All | QueryLimit::First(_) => 0,
        };
        MemoryEvents { store: self.clone(), cursor: EventCursor::new(query, start, self.version()) }
    }

    /// Returns the number of the write that precedes the last `events` matching events, or 0 if
    /// fewer events match.
    fn start_of_last(&self, query: &EventQuery, events: usize) -> u64 {
        let (mut before, mut left) = (u64::MAX, events);
        while left > 0 {
            let looked_at = self.with(|state| {
                let page = state.events.before(before).take(EventPage::LEN);
                let mut last = None;
                for (version, slot) in page.take_while(|(version, _)| *version > query.after) {
                    last = Some(version);
                    left -= usize::from(query.matches(state.events.at(slot)));
                    if left == 0 {
                        break;
                    }
                }
                last
            });
            match looked_at {
                Some(version) => before = version,
                None => return 0,
            }
        }
        before.saturating_sub(1)
    }

    /// Returns the number of the last write, which is the highest resource version. Returns 0 if
    /// nothing has been written yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// assert_eq!(store.version(), 0);
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let stored = store.create(&event)?;
    /// assert_eq!(stored.metadata.resource_version(), store.version().to_string().as_str());
    /// assert!(store.find(&EventQuery::default().after(store.version())).is_empty());
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn version(&self) -> u64 {
        self.with(|state| state.version)
    }

    /// Returns the events that the query finds, in the order in which they were last written.
    ///
    /// If the store has to read 256 events or fewer, the result is a consistent snapshot of these
    /// events. Otherwise, events can be written during the call, and the result contains each event
    /// in the state that the event had when it was read. If an event is in the store during the
    /// whole call, it is returned once, no matter how often it is written. If the query specifies
    /// an object's name, the store reads only the events about objects with that name. If the query
    /// specifies no object name but a limit set by [`first`](EventQuery::first), this method reads
    /// events in the same way as [`stream`](Self::stream).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::EventQuery;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for (name, reason) in [("web-0.1", "Started"), ("web-0.2", "BackOff")] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     event.reason = reason.into();
    ///     store.create(&event)?;
    /// }
    /// let found = store.find(&EventQuery::default().reason("BackOff"));
    /// assert_eq!(found[0].metadata.name, "web-0.2");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn find(&self, query: &EventQuery) -> Vec<Event> {
        let limit = match query.limit {
            QueryLimit::First(_) if query.name.is_empty() => return self.stream(query).collect(),
            QueryLimit::Last(events) => events,
            QueryLimit::All | QueryLimit::First(_) => usize::MAX,
        };
        if query.name.is_empty() || limit < usize::MAX {
            if let Some(found) = self.with(|state| newest(state, query, limit)) {
                return found;
            }
        }
        let mut found = self.about_object(query).unwrap_or_else(|| self.in_all_slots(query));
        found.sort_by_cached_key(|(version, _)| *version);
        match query.limit {
            QueryLimit::First(events) => found.truncate(events),
            _ => drop(found.drain(..found.len().saturating_sub(limit))),
        }
        found.into_iter().map(|(_, event)| event).collect()
    }

    /// Returns the matching events about objects with the name specified in the query. Returns
    /// `None` if the query does not specify an object name, or if the event at which reading paused
    /// is no longer at its position in the list.
    fn about_object(&self, query: &EventQuery) -> Option<Found> {
        if query.name.is_empty() {
            return None;
        }
        let mut found = Vec::new();
        let mut next = self.with(|state| state.events.first_about(&query.name));
        while let Some(place) = next {
            next = self.with(|state| {
                let mut slots = state.events.list_from(place)?;
                look(state, query, slots.by_ref().take(EventPage::LEN), &mut found);
                Some(slots.next().map(|slot| state.events.place(slot)))
            })?;
        }
        Some(found)
    }

    /// Searches all slots and returns the events that match the query. This method reads slot by
    /// slot, because an event keeps its slot when the event is written. If this method read events
    /// in write order, an event could move past the reader.
    fn in_all_slots(&self, query: &EventQuery) -> Found {
        let mut found = Vec::new();
        let mut slot = 0;
        while self.with(|state| {
            let slots = state.events.slots_from(slot, EventPage::LEN as u32);
            slot = slots.end;
            look(state, query, slots.clone(), &mut found);
            !slots.is_empty()
        }) {}
        found
    }

    /// Returns the event with this namespace and name, or `None` if the store has no such event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let stored = store.create(&event)?;
    /// assert_eq!(store.get("default", "web-0.1"), Some(stored));
    /// assert_eq!(store.get("default", "web-0.2"), None);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn get(&self, namespace: &str, name: &str) -> Option<Event> {
        self.with(|state| {
            let slot = state.events.find(namespace, name)?;
            Some(state.events.whole(slot))
        })
    }

    /// Returns the number of events in the store.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// assert_eq!(store.len(), 2);
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn len(&self) -> usize {
        self.with(|state| state.events.len())
    }

    /// Returns whether the store is empty.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// assert!(store.is_empty());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// store.create(&event)?;
    /// assert!(!store.is_empty());
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the store's current statistics.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::MemorySinkOptions;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::with_options(MemorySinkOptions::default().max_events(1))?;
    /// for name in ["web-0.1", "web-0.2"] {
    ///     let mut event = Event::default();
    ///     event.metadata.name = name.into();
    ///     store.create(&event)?;
    /// }
    /// let stats = store.stats();
    /// assert_eq!((stats.created, stats.stored, stats.evicted), (2, 1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> MemorySinkStats {
        self.with(|state| MemorySinkStats { stored: state.events.len() as u64, ..state.stats })
    }
}
