//! Batches, which the dispatcher offers to the watchers, and slices of them. A batch is one
//! allocation that all watchers share and read in place.

use crate::catch::catch_panic;
use crate::sync::Arc;

/// Drops events one by one, and catches their panics. In a plain `Vec`, a second `Drop` that panics
/// would abort the process.
pub(crate) fn discard<T>(mut events: Vec<T>) {
    if std::mem::needs_drop::<T>() {
        // `retain` drops each event where it lies. After a panic, the events behind it are left.
        while !events.is_empty() {
            catch_panic(|| events.retain(|_| false));
        }
    }
}

/// A batch of events that no longer change. Any thread of the bus or of a watcher may drop them, so
/// a panic in an event's `Drop` is caught here.
#[derive(Debug)]
pub(crate) struct SharedBatch<T> {
    /// The events, in a box that takes their memory and no more.
    events: Box<[T]>,
}

impl<T> SharedBatch<T> {
    pub(crate) fn new(events: Vec<T>) -> Arc<Self> {
        Arc::new(Self { events: events.into_boxed_slice() })
    }

    pub(crate) fn events(&self) -> &[T] {
        &self.events
    }
}

impl<T> Drop for SharedBatch<T> {
    fn drop(&mut self) {
        discard(std::mem::take(&mut self.events).into_vec());
    }
}

/// A range of a batch, on its way to one watcher.
#[derive(Debug)]
pub(crate) struct BatchSlice<T> {
    batch: Arc<SharedBatch<T>>,
    start: u32,
    end: u32,
    /// The watcher's position of the event at `start`: the number of events that it was offered
    /// before.
    position: u64,
}

impl<T> BatchSlice<T> {
    pub(crate) fn new(batch: Arc<SharedBatch<T>>, start: usize, end: usize, position: u64) -> Self {
        debug_assert!(start <= end && end <= batch.events.len());
        Self { batch, start: start as u32, end: end as u32, position }
    }

    pub(crate) fn events(&self) -> &[T] {
        &self.batch.events[self.start as usize..self.end as usize]
    }

    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Splits off the first `events` events, and returns them as a slice.
    pub(crate) fn split_front(&mut self, events: usize) -> Self {
        let front = Self {
            batch: self.batch.clone(),
            start: self.start,
            end: self.start + events as u32,
            position: self.position,
        };
        self.advance(events);
        front
    }

    /// Moves past the first `events` events, whatever became of them.
    pub(crate) fn advance(&mut self, events: usize) {
        debug_assert!(events <= self.len());
        self.start += events as u32;
        self.position += events as u64;
    }
}

/// Copies events into an allocation of their size, so that a slow watcher does not keep a whole
/// batch alive. Returns `None` if a `Clone` panicked.
pub(crate) fn copied<'e, T: Clone + 'e>(events: impl Iterator<Item = &'e T>) -> Option<Arc<SharedBatch<T>>> {
    // The vector is outside of `catch_panic`, because the copies already made must not be dropped
    // while a panic unwinds. If one of them panicked too, the process would end.
    let mut copies = Vec::with_capacity(events.size_hint().0);
    if catch_panic(|| events.for_each(|event| copies.push(event.clone()))).is_some() {
        return Some(SharedBatch::new(copies));
    }
    discard(copies);
    None
}
