//! The history, which keeps the newest events of the bus for watchers that start in the past. The
//! history holds the same batches that the watchers share, without copying any events.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bus::mailbox::SharedBatch;
use crate::sync::Arc;

pub(super) struct History<T> {
    /// The batches, oldest first. The events in the batches have increasing positions, without
    /// holes inside a batch.
    batches: VecDeque<Arc<SharedBatch<T>>>,
    /// The number of events in all batches, which exceeds `limit` by fewer events than the first
    /// batch holds.
    events: usize,
    /// The number of newest events that a watcher may start from.
    limit: usize,
}

impl<T> History<T> {
    pub(super) fn new(limit: usize) -> Self {
        Self { batches: VecDeque::new(), events: 0, limit }
    }

    /// Returns whether the history keeps any events.
    pub(super) fn keeps_events(&self) -> bool {
        self.limit > 0
    }

    /// Adds a batch, and drops every batch that contains none of the newest `limit` events. The
    /// destructors of events in the dropped batches may run here.
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
        // As batches become larger, fewer batches are kept, so the list can shrink.
        let held = self.batches.len();
        if self.batches.capacity() > 64 && held < self.batches.capacity() / 4 {
            self.batches.shrink_to(2 * held);
        }
    }

    /// Returns the position before the oldest event, or `None` if the history is empty.
    pub(super) fn position_before(&self) -> Option<u64> {
        let oldest = self.batches.front()?;
        Some(oldest.position(self.too_old()) - 1)
    }

    /// Returns the batches that contain events after this position, each with the range of these
    /// events.
    pub(super) fn after(&self, position: u64) -> impl Iterator<Item = (&Arc<SharedBatch<T>>, Range<usize>)> {
        let first = self.batches.partition_point(|batch| last(batch) <= position);
        let too_old = if first == 0 { self.too_old() } else { 0 };
        self.batches.range(first..).enumerate().map(move |(i, batch)| {
            let known = (position + 1).saturating_sub(batch.position(0)) as usize;
            let start = known.max(if i == 0 { too_old } else { 0 });
            (batch, start..batch.events().len())
        })
    }

    /// Returns the number of events in the first batch that are not among the newest `limit`
    /// events.
    fn too_old(&self) -> usize {
        self.events.saturating_sub(self.limit)
    }
}

/// Returns the position of a batch's last event. Batches in the history are never empty.
fn last<T>(batch: &SharedBatch<T>) -> u64 {
    batch.position(batch.events().len() - 1)
}
