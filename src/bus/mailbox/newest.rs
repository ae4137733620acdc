//! Offers events to watchers with the `DropOldest` policy, whose queues always accept new events.

use std::ops::Range;

use crate::bus::counters::DropReason;
use crate::sync::Arc;

use super::sender::MailboxSender;
use super::slice::{BatchSlice, SharedBatch};

impl<T> MailboxSender<T> {
    /// Pushes a slice, which must be no longer than the ring's capacity. Evicts the oldest events
    /// to make space.
    pub(super) fn send_newest(&mut self, slice: BatchSlice<T>, events: usize) {
        let lost = self.queue.push_newest(slice, self.state.capacity() as usize);
        self.sent.decided += events as u64;
        self.sent.queued += events as u64;
        self.count_oldest(lost);
        self.note_high_water();
    }

    fn count_oldest(&mut self, lost: Vec<BatchSlice<T>>) {
        for slice in lost {
            self.sent.queued -= slice.len() as u64;
            self.count_lost(DropReason::Oldest, slice.events());
            self.state.run_user_code(|| drop(slice));
        }
    }
}

impl<T: Clone> MailboxSender<T> {
    /// Pushes the newest events of the range into the ring, and evicts the oldest events.
    pub(super) fn offer_newest(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>) {
        let skipped = range.len().saturating_sub(self.state.capacity() as usize);
        if skipped > 0 {
            // The events in the ring are older than the skipped events, so the ring is emptied
            // first.
            let lost = self.queue.cut(0);
            self.count_oldest(lost);
            self.lose(DropReason::Oldest, &batch.events()[range.start..range.start + skipped]);
            self.send_copy(&batch, range.start + skipped..range.end);
        } else {
            let events = range.len();
            self.send_newest(BatchSlice::new(batch, range, self.sent.decided), events);
        }
    }
}
