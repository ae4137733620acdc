//! The history: the newest events of the bus, for watchers that start in the past. It holds the
//! batches that the watchers share, and copies nothing.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bus::mailbox::SharedBatch;
use crate::sync::Arc;

pub(super) struct History<T> {
    /// The batches, oldest first. Their events have increasing positions, without a hole inside a
    /// batch.
    batches: VecDeque<Arc<SharedBatch<T>>>,
    /// The number of events in all batches. It exceeds `limit` by less than the first batch.
    events: usize,
    /// The number of events that watchers may still start at.
    limit: usize,
}

impl<T> History<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { batches: VecDeque::new(), events: 0, limit }
    }

    /// Returns whether the history keeps anything.
    pub(super) fn keeps_events(&self) -> bool {
        self.limit > 0
    }

    /// Keeps a batch, and drops the batches that have no event among the newest `limit`. The
    /// destructors of their events may run here.
    pub(super) fn keep(&mut self, batch: Arc<SharedBatch<T>>) {
        if !self.keeps_events() {
            return;
        }
        self.events += batch.events().len();
        self.batches.push_back(batch);
        while let Some(first) = self.batches.front() {
            let rest = self.events - first.events().len();
            if rest < self.limit {
                break;
            }
            self.events = rest;
            self.batches.pop_front();
        }
        // If the batches have become larger, there are fewer of them.
        let held = self.batches.len();
        if self.batches.capacity() > 64 && held < self.batches.capacity() / 4 {
            self.batches.shrink_to(2 * held);
        }
    }

    /// Returns the position before the oldest event. Returns `None` if there is no event.
    pub(super) fn position_before(&self) -> Option<u64> {
        let oldest = self.batches.front()?;
        Some(oldest.position(self.too_old()) - 1)
    }

    /// Returns the batches with events after this position, each with the range of these events.
    pub(super) fn after(&self, position: u64) -> impl Iterator<Item = (&Arc<SharedBatch<T>>, Range<usize>)> {
        let first = self.batches.partition_point(|batch| last(batch) <= position);
        let too_old = if first == 0 { self.too_old() } else { 0 };
        self.batches.range(first..).enumerate().map(move |(i, batch)| {
            let known = (position + 1).saturating_sub(batch.position(0)) as usize;
            let start = known.max(if i == 0 { too_old } else { 0 });
            (batch, start..batch.events().len())
        })
    }

    /// Returns the number of events in the first batch that are not among the newest `limit`.
    fn too_old(&self) -> usize {
        self.events.saturating_sub(self.limit)
    }
}

/// Returns the position of the last event. A batch in the history is not empty.
fn last<T>(batch: &SharedBatch<T>) -> u64 {
    batch.position(batch.events().len() - 1)
}
