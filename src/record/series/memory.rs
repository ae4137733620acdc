//! Stores the series of one recording.
//!
//! The series are sorted by the time when they were last seen, because the least recently seen
//! series is the next to end and the first to be evicted. Series with held events are also sorted
//! by their first held event, and by the time when their held events are due to be written.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use hashbrown::HashTable;

use crate::record::event::{Event, EventSeries, ObjectMeta, ObjectReference, Stored, Text};
use crate::record::recency::Recency;
use crate::sync::Arc;

use super::options::{SeriesOptions, SeriesUpdate};

/// The position of a series in `SeriesMemory::series`.
type Place = u32;

/// The key that identifies the stored event of a series. The key consists of the series' hash, and
/// of the event's original name and namespace.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct SeriesKey(Arc<(u64, Text, Text)>);

impl SeriesKey {
    pub(crate) fn new(hash: u64, event: &Event) -> Self {
        let ObjectMeta { name, namespace, .. } = &event.metadata;
        Self(Arc::new((hash, name.clone(), namespace.clone())))
    }

    pub(crate) fn hash(&self) -> u64 {
        self.0.0
    }
}

/// A write requested by a series.
pub(crate) struct SeriesWrite {
    pub(crate) key: SeriesKey,
    /// The event in the state in which it should be stored.
    pub(crate) event: Event,
    /// Whether the write updates the event of a series that had already begun. By the time the
    /// event is written, the series may have ended, and the store may no longer have the event.
    pub(crate) is_update: bool,
    /// The offset of the first event that the write covers.
    pub(crate) offset: u64,
    /// The number of events that the write covers, or 0 if the write does not contain any new
    /// events.
    pub(crate) events: u64,
    /// The number of covered events that still count against the watcher's queue.
    pub(crate) in_hand: u64,
}

/// A stored event, and the number of repeats that have been seen since.
struct Series {
    key: SeriesKey,
    /// The first event of the series. After the first repeat, the event's `series` field counts all
    /// events in the series.
    event: Event,
    hash: u64,
    /// The number of events that have been counted but not yet included in a write.
    held: u64,
    /// The offset of the first held event.
    held_from: u64,
    /// The times when the series was last seen and last written.
    seen: Duration,
    written: Duration,
    /// The time when the held events are due to be written, or `None` if no events are held.
    due: Option<Duration>,
}

#[derive(Default)]
pub(crate) struct SeriesMemory {
    /// The options, or `None` if the recording does not count events in series.
    options: Option<SeriesOptions>,
    hasher: ahash::RandomState,
    table: HashTable<Place>,
    /// The series, sorted by the time when they were last seen.
    series: Recency<Series>,
    held: BTreeSet<(u64, Place)>,
    due: BTreeSet<(Duration, Place)>,
    writes: VecDeque<SeriesWrite>,
    /// The offset of the newest event.
    offset: u64,
    /// The number of series that have been evicted.
    evicted: u64,
}

impl SeriesMemory {
    /// Creates an empty `SeriesMemory`. The caller must already have validated the `options`.
    pub(crate) fn new(options: Option<SeriesOptions>) -> Self {
        Self { options, ..Self::default() }
    }

    /// Removes and returns the next requested write.
    pub(crate) fn next_write(&mut self) -> Option<SeriesWrite> {
        self.writes.pop_front()
    }

    /// Returns the offset of the first held event, or `None` if no events are held.
    pub(crate) fn offset(&self) -> Option<u64> {
        self.held.first().map(|(offset, _)| *offset)
    }

    /// Returns the time when [`tick`](Self::tick) must be called next.
    pub(crate) fn next_due(&self) -> Option<Duration> {
        let first = self.series.oldest().and_then(|place| self.series.get(place));
        let end = self.options.zip(first).map(|(options, first)| end_of(&options, first));
        end.into_iter().chain(self.due.first().map(|(due, _)| *due)).min()
    }

    /// Returns how many series have been evicted so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Returns the maximum number of series that may be stored.
    pub(crate) fn capacity(&self) -> usize {
        self.options.map_or(0, |options| options.cache_size)
    }

    // ── events ──

    /// Counts an event. Returns `true` if the event is held, and `false` if the event is covered by
    /// a write.
    pub(crate) fn count(&mut self, event: &Event, offset: u64, now: Duration) -> bool {
        self.offset = offset;
        let Some(options) = self.options else {
            let hash = self.hasher.hash_one(event.metadata.name.as_str());
            self.create(SeriesKey::new(hash, event), event.clone());
            return false;
        };
        let fields = fields(&options, event);
        let hash = self.hasher.hash_one(fields);
        let series = &self.series;
        let is_same = |place: &Place| {
            series.get(*place).is_some_and(|series| {
                series.hash == hash && are(&self::fields(&options, &series.event), &fields)
            })
        };
        if let Some(place) = self.table.find(hash, is_same).copied() {
            return self.repeat(&options, place, event, now);
        }
        self.begin(&options, hash, event, now);
        false
    }

    fn create(&mut self, key: SeriesKey, event: Event) {
        let offset = self.offset;
        self.writes.push_back(SeriesWrite { key, event, is_update: false, offset, events: 1, in_hand: 1 });
    }

    fn begin(&mut self, options: &SeriesOptions, hash: u64, event: &Event, now: Duration) {
        if self.table.len() >= options.cache_size {
            self.evicted += 1;
            if let Some(first) = self.series.oldest() {
                self.end(first, now);
            }
        }
        let key = SeriesKey::new(hash, event);
        self.create(key.clone(), event.clone());
        let series = Series {
            key,
            event: event.clone(),
            hash,
            held: 0,
            held_from: 0,
            seen: now,
            written: now,
            due: None,
        };
        let place = self.series.push(series);
        let all = &self.series;
        self.table.insert_unique(hash, place, |place| all.get(*place).map_or(0, |series| series.hash));
    }

    /// Counts an event in an existing series. Returns whether the event is held.
    fn repeat(&mut self, options: &SeriesOptions, place: Place, event: &Event, now: Duration) -> bool {
        let offset = self.offset;
        let Some(series) = self.series.touch(place) else { return false };
        let is_first = series.event.series().is_none();
        series.event.set_series(counted(&series.event, event));
        series.seen = now;
        let is_now = is_first
            || match options.update {
                SeriesUpdate::AsClientGo => false,
                SeriesUpdate::Every(time) => now >= series.written.saturating_add(time),
                SeriesUpdate::Always => true,
            };
        series.held += 1;
        if series.held == 1 {
            series.held_from = offset;
            self.held.insert((offset, place));
            self.set_due(options, place);
        }
        if is_now {
            self.write(place, now, 1);
        }
        !is_now
    }

    // ── time ──

    /// Ends each series that has not been seen for `finish_after`, and requests a write for each
    /// series whose held events are due.
    pub(crate) fn tick(&mut self, now: Duration) {
        let Some(options) = self.options else { return };
        while let Some(first) = self.series.oldest() {
            if self.series.get(first).is_none_or(|first| end_of(&options, first) > now) {
                break;
            }
            self.end(first, now);
        }
        while let Some(&(_, place)) = self.due.first().filter(|(due, _)| *due <= now) {
            self.write(place, now, 0);
        }
    }

    /// Requests a write for every series that has held events.
    pub(crate) fn write_held(&mut self, now: Duration) {
        while let Some(&(_, place)) = self.held.first() {
            self.write(place, now, 0);
        }
    }

    /// Determines and sets the time when a series' held events are due to be written.
    fn set_due(&mut self, options: &SeriesOptions, place: Place) {
        let Some(series) = self.series.get_mut(place) else { return };
        let refresh = series.written.saturating_add(options.refresh_every);
        let due = match options.update {
            SeriesUpdate::Every(time) => refresh.min(series.written.saturating_add(time)),
            _ => refresh,
        };
        series.due = Some(due);
        self.due.insert((due, place));
    }

    /// Requests a write that covers a series' held events. `in_hand` is the number of held events
    /// that still count against the watcher's queue.
    fn write(&mut self, place: Place, now: Duration, in_hand: u64) {
        let newest = self.offset;
        let Some(series) = self.series.get_mut(place) else { return };
        let events = std::mem::take(&mut series.held);
        let offset = if events > 0 { series.held_from } else { newest };
        series.written = now;
        let (key, event, due) = (series.key.clone(), series.event.clone(), series.due.take());
        self.held.remove(&(offset, place));
        if let Some(due) = due {
            self.due.remove(&(due, place));
        }
        self.writes.push_back(SeriesWrite { key, event, is_update: true, offset, events, in_hand });
    }

    /// Ends a series. If the series has held events, requests a write that covers them first.
    fn end(&mut self, place: Place, now: Duration) {
        let Some(series) = self.series.get(place) else { return };
        if series.held > 0 {
            self.write(place, now, 0);
        }
        let Some(series) = self.series.remove(place) else { return };
        if let Ok(entry) = self.table.find_entry(series.hash, |&other| other == place) {
            entry.remove();
        }
    }

    // ── answers ──

    /// Saves the store's response to a write if the series still exists. `decided` is the name with
    /// which the write was requested. Returns the name under which the event is stored.
    pub(crate) fn confirm(&mut self, key: &SeriesKey, decided: &Text, stored: Stored) -> Text {
        if let Some(series) = self.find(key) {
            let metadata = &mut series.event.metadata;
            if [decided, &stored.name].contains(&&metadata.name) {
                metadata.name = stored.name.clone();
                metadata.set_resource_version(stored.resource_version);
            }
        }
        stored.name
    }

    /// Renames the stored event of a series, because the event's name is already taken in the
    /// store.
    pub(crate) fn rename(&mut self, key: &SeriesKey, name: &Text) {
        if let Some(series) = self.find(key) {
            series.event.metadata.name = name.clone();
        }
    }

    fn find(&mut self, key: &SeriesKey) -> Option<&mut Series> {
        let series = &self.series;
        let is = |place: &Place| series.get(*place).is_some_and(|series| series.key == *key);
        let place = self.table.find(key.hash(), is).copied()?;
        self.series.get_mut(place)
    }
}

/// Returns the count and time of the series after adding `event`.
fn counted(first: &Event, event: &Event) -> EventSeries {
    let at = event.event_time().or(first.event_time());
    match first.series() {
        None => EventSeries { count: 2, last_observed_time: at.max(first.event_time()) },
        Some(EventSeries { count, last_observed_time }) => {
            EventSeries { count: count.saturating_add(1), last_observed_time: last_observed_time.max(at) }
        }
    }
}

/// Returns the time when a series ends if no further event of the series is seen.
fn end_of(options: &SeriesOptions, series: &Series) -> Duration {
    series.seen.saturating_add(options.finish_after)
}

/// The strings that all events in a series have in common. The strings are the fields of
/// client-go's key, without the resource versions. If a field is not part of the key, its string is
/// empty.
type Fields<'a> = [&'a str; 18];

fn are(mine: &Fields<'_>, others: &Fields<'_>) -> bool {
    mine.iter().zip(others).all(|(mine, other)| {
        // Clones of a long string have the same address, and most strings are empty, so both cases
        // are checked before the bytes are compared.
        mine.len() == other.len() && (mine.is_empty() || mine.as_ptr() == other.as_ptr() || mine == other)
    })
}

fn fields<'a>(options: &SeriesOptions, event: &'a Event) -> Fields<'a> {
    let texts = |object: &'a ObjectReference| {
        let [kind, namespace, name] = [&object.kind, &object.namespace, &object.name].map(Text::as_str);
        let [uid, api_version, path] =
            [&object.uid, &object.api_version, &object.field_path].map(Text::as_str);
        [kind, namespace, name, uid, api_version, path]
    };
    let message = if options.message_in_key { &*event.message } else { "" };
    let [type_, reason, action] = [&event.type_, &event.reason, event.action()].map(Text::as_str);
    let [controller, instance] = [&event.reporting_controller, &event.reporting_instance].map(Text::as_str);
    let mut fields = [""; 18];
    fields[..6].copy_from_slice(&[type_, reason, action, controller, instance, message]);
    fields[6..12].copy_from_slice(&texts(&event.involved_object));
    if let Some(related) = event.related() {
        fields[12..].copy_from_slice(&texts(related));
    }
    fields
}
