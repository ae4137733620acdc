//! The batches that the dispatcher offers to the watchers, and slices of these batches. A batch is
//! a single allocation, which all watchers share and read in place.

use std::ops::Range;

use crate::catch::catch_panic;
use crate::sync::Arc;

/// The maximum size, in bytes, of a single event that is moved out of its vector.
const SMALL: usize = 128;

/// Drops events one by one, catching panics in their destructors. If a plain `Vec` were dropped, a
/// second panicking `Drop` would abort the process.
pub(crate) fn discard<T>(mut events: Vec<T>) {
    discard_all(&mut events);
}

/// Drops a vector's events like [`discard`], but keeps the vector's memory.
fn discard_all<T>(events: &mut Vec<T>) {
    // `retain` drops each event in place. If a destructor panics, the remaining events are still in
    // the vector.
    while std::mem::needs_drop::<T>() && !events.is_empty() {
        catch_panic(|| events.retain(|_| false));
    }
    events.clear();
}

/// An immutable batch of events. Any thread of the bus or of a watcher may drop the events, so
/// panics in their destructors are caught here.
#[derive(Debug)]
pub(crate) struct SharedBatch<T> {
    events: Events<T>,
    positions: Positions,
}

/// The events in a batch. A single event does not need an allocation besides the batch's own.
#[derive(Debug)]
enum Events<T> {
    /// A single event, which is `Some` until the batch is dropped.
    One(Option<T>),
    /// Several events, in a box without spare capacity.
    Many(Box<[T]>),
}

/// The positions of a batch's events in the bus's order of events. The positions increase by one
/// from event to event, except where a filter has refused events.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    /// The position of the first event. Zero means that the events have no position, because they
    /// did not pass through the bus.
    first: u64,
    /// The runs of consecutive events after the first run. Each run is represented by the index at
    /// which it begins, and by the total number of events that were refused before it.
    runs: Box<[(u32, u32)]>,
}

impl Positions {
    /// Returns positions that begin at `first` and increase by one.
    pub(crate) fn from(first: u64) -> Self {
        Self { first, runs: Box::default() }
    }

    /// Returns the `Positions` for events that have no positions.
    pub(crate) fn none() -> Self {
        Self::from(0)
    }

    /// Returns the position of the event at `index`, or zero if the event has no position.
    fn at(&self, index: usize) -> u64 {
        if self.first == 0 {
            return 0;
        }
        let run = self.runs.partition_point(|(begins, _)| *begins as usize <= index);
        let refused = run.checked_sub(1).map_or(0, |run| self.runs[run].1);
        self.first + index as u64 + u64::from(refused)
    }

    /// Returns the positions for a copy of the events in these ranges. Each range must begin after
    /// the end of the previous range.
    fn of(&self, ranges: &[Range<usize>]) -> Self {
        let [first, others @ ..] = ranges else { return Self::none() };
        let mut runs = Vec::with_capacity(others.len());
        let mut index = 0;
        for range in ranges {
            let refused = range.start - first.start - index;
            if refused > 0 {
                runs.push((index as u32, refused as u32));
            }
            index += range.len();
        }
        if !self.runs.is_empty() {
            // The batch itself is a copy, and no filter has run since it was made.
            debug_assert!(others.is_empty());
            let refused = self.at(first.start) - self.first - first.start as u64;
            let begins = |(begins, before): &(u32, u32)| {
                let is_inside = (first.start + 1..first.end).contains(&(*begins as usize));
                is_inside.then(|| (*begins - first.start as u32, *before - refused as u32))
            };
            runs = self.runs.iter().filter_map(begins).collect();
        }
        Self { first: self.at(first.start), runs: runs.into() }
    }
}

impl<T> SharedBatch<T> {
    pub(crate) fn new(mut events: Vec<T>, positions: Positions) -> Arc<Self> {
        // A large event is not moved, because moving it takes time and stack space.
        let is_small = size_of::<T>() <= SMALL && events.len() == 1;
        let one = if is_small { events.pop() } else { None };
        let events = match one {
            Some(event) => Events::One(Some(event)),
            None => Events::Many(events.into_boxed_slice()),
        };
        Arc::new(Self { events, positions })
    }

    /// Creates a batch with a single event at the given position.
    #[inline]
    pub(super) fn of_one(event: T, position: u64) -> Arc<Self> {
        Arc::new(Self { events: Events::One(Some(event)), positions: Positions::from(position) })
    }

    #[inline]
    pub(crate) fn events(&self) -> &[T] {
        match &self.events {
            Events::One(event) => event.as_slice(),
            Events::Many(events) => events,
        }
    }

    /// Returns the position of the event at `index` in the bus's order of events, or zero if the
    /// event has no position.
    pub(crate) fn position(&self, index: usize) -> u64 {
        self.positions.at(index)
    }
}

impl<T> Drop for SharedBatch<T> {
    fn drop(&mut self) {
        if std::mem::needs_drop::<T>() {
            match &mut self.events {
                Events::One(event) => {
                    catch_panic(|| *event = None);
                }
                Events::Many(events) => discard(std::mem::take(events).into_vec()),
            }
        }
    }
}

/// The maximum size, in bytes, of a vector that a batch leaves to the next batch for reuse.
const KEPT: usize = 1 << 10;

/// The number of events below which a batch is small. If a batch is small, the reader has taken it
/// too early.
const FEW: usize = 8;

/// A batch of events that only one watcher of an inline bus receives. The events' positions and the
/// watcher's offsets have no holes. The batch grows until the reader takes it.
#[derive(Debug)]
pub(crate) struct OwnBatch<T> {
    events: Vec<T>,
    /// The number of events that the watcher has moved past.
    start: usize,
    /// The watcher's offset of the event at `start`, which is the number of events decided for the
    /// watcher before it.
    offset: u64,
    /// The position of the event at index zero.
    first: u64,
}

impl<T> Default for OwnBatch<T> {
    fn default() -> Self {
        Self { events: Vec::new(), start: 0, offset: 0, first: 0 }
    }
}

impl<T> OwnBatch<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Returns whether events with this offset and position directly follow the batch, and the
    /// batch has at most `most` events. The watcher must not have moved past any of the batch's
    /// events.
    #[inline]
    pub(super) fn is_followed_by(&self, offset: u64, position: u64, most: usize) -> bool {
        let events = self.events.len();
        let len = events as u64;
        len == 0 || events <= most && self.offset + len == offset && self.first + len == position
    }

    /// Returns the vector, so that the caller can append events that
    /// [follow](Self::is_followed_by).
    #[inline]
    pub(super) fn grow(&mut self, offset: u64, position: u64) -> &mut Vec<T> {
        if self.events.is_empty() {
            (self.offset, self.first) = (offset, position);
        }
        &mut self.events
    }

    pub(super) fn has_few(&self) -> bool {
        self.events.len() < FEW
    }

    /// Drops the events, but keeps the vector's memory if it is small.
    pub(super) fn clear(&mut self) {
        discard_all(&mut self.events);
        self.start = 0;
        if self.events.capacity() * size_of::<T>() > KEPT {
            self.events = Vec::new();
        }
    }
}

impl<T> Drop for OwnBatch<T> {
    fn drop(&mut self) {
        discard_all(&mut self.events);
    }
}

/// A range of a batch, as sent to one watcher. The size of this type is limited to 24 bytes,
/// because the queue holds one slice for each event that was published on its own.
#[derive(Debug)]
pub(crate) enum BatchSlice<T> {
    /// The events from `start` up to but excluding `end`.
    Shared {
        batch: Arc<SharedBatch<T>>,
        start: u32,
        end: u32,
        /// The watcher's offset of the event at `start`, which is the number of events decided for
        /// the watcher before it.
        offset: u64,
    },
    /// The events in a watcher's own batch that the watcher has not moved past.
    Own(Box<OwnBatch<T>>),
}

#[cfg(not(eventcast_loom))]
const _: () = assert!(size_of::<BatchSlice<[u8; 100]>>() <= 24);

impl<T> BatchSlice<T> {
    #[inline]
    pub(crate) fn new(batch: Arc<SharedBatch<T>>, range: Range<usize>, offset: u64) -> Self {
        debug_assert!(range.start <= range.end && range.end <= batch.events().len());
        Self::Shared { batch, start: range.start as u32, end: range.end as u32, offset }
    }

    #[inline]
    pub(crate) fn events(&self) -> &[T] {
        match self {
            Self::Shared { batch, start, end, .. } => &batch.events()[*start as usize..*end as usize],
            Self::Own(own) => &own.events[own.start..],
        }
    }

    /// Returns the events for modification, unless another slice or thread holds the batch too.
    #[cfg(all(feature = "recorder", not(eventcast_loom)))]
    pub(crate) fn events_mut(&mut self) -> Option<&mut [T]> {
        match self {
            Self::Shared { batch, start, end, .. } => {
                let events = match &mut Arc::get_mut(batch)?.events {
                    Events::One(event) => event.as_mut_slice(),
                    Events::Many(events) => events,
                };
                Some(&mut events[*start as usize..*end as usize])
            }
            Self::Own(own) => Some(&mut own.events[own.start..]),
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared { start, end, .. } => (end - start) as usize,
            Self::Own(own) => own.events.len() - own.start,
        }
    }

    #[inline]
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Shared { offset, .. } => *offset,
            Self::Own(own) => own.offset,
        }
    }

    /// Returns the position of the event at `index`, or zero if it has no position.
    pub(crate) fn position(&self, index: usize) -> u64 {
        match self {
            Self::Shared { batch, start, .. } => batch.position(*start as usize + index),
            Self::Own(own) => own.first + (own.start + index) as u64,
        }
    }

    /// Returns the position up to which everything has been decided once the first `events` events
    /// of the slice have been received. Returns zero if the events have no positions.
    pub(crate) fn position_behind(&self, events: usize) -> u64 {
        match self {
            Self::Shared { batch, start, .. } => match (*start as usize + events).checked_sub(1) {
                Some(index) => batch.position(index),
                None => batch.position(0).saturating_sub(1),
            },
            Self::Own(own) => own.first + (own.start + events) as u64 - 1,
        }
    }

    /// Splits off the first `events` events, and returns them as a slice. At least one event must
    /// remain. Returns `None` if the slice cannot be split.
    pub(crate) fn split_front(&mut self, events: usize) -> Option<Self> {
        let Self::Shared { batch, start, offset, .. } = self else { return None };
        let range = *start as usize..*start as usize + events;
        let front = Self::new(batch.clone(), range, *offset);
        self.advance(events);
        Some(front)
    }

    /// Moves past the first `events` events, regardless of their outcome.
    pub(crate) fn advance(&mut self, events: usize) {
        debug_assert!(events <= self.len());
        match self {
            Self::Shared { start, offset, .. } => {
                *start += events as u32;
                *offset += events as u64;
            }
            Self::Own(own) => {
                own.start += events;
                own.offset += events as u64;
            }
        }
    }
}

/// Copies the given ranges of a batch into an allocation of exactly their size, so that a slow
/// watcher does not keep the whole batch alive. Returns `None` if cloning an event panicked.
pub(crate) fn copied<T: Clone>(batch: &SharedBatch<T>, runs: &[Range<usize>]) -> Option<Arc<SharedBatch<T>>> {
    let events = runs.iter().flat_map(|run| &batch.events()[run.clone()]);
    // The vector is kept outside `catch_panic`, because the copies already made must not be dropped
    // while a panic unwinds. If a copy's destructor panicked as well, the process would abort.
    let mut copies = Vec::with_capacity(runs.iter().map(Range::len).sum());
    if catch_panic(|| events.for_each(|event| copies.push(event.clone()))).is_some() {
        return Some(SharedBatch::new(copies, batch.positions.of(runs)));
    }
    discard(copies);
    None
}
