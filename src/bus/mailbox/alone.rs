//! Offers to a watcher that alone gets the events, on an inline bus: no other watcher shares them.

use crate::policy::OverflowPolicy;
use crate::sync::Arc;

use super::sender::MailboxSender;
use super::slice::{BatchSlice, SharedBatch};

/// The size up to which events are moved into a batch that grows, in bytes.
const MOST_MOVED: usize = 16 << 10;

impl<T> MailboxSender<T> {
    /// Returns whether [`offer_alone`](Self::offer_alone) can offer an event.
    #[inline]
    pub(crate) fn takes_alone(&mut self) -> bool {
        if self.state.policy == OverflowPolicy::DropOldest {
            return self.filter.is_none() && !self.state.is_stopped();
        }
        self.takes_all_alone(1)
    }

    /// Returns whether [`offer_all_alone`](Self::offer_all_alone) can offer so many events.
    #[inline]
    pub(crate) fn takes_all_alone(&mut self, events: usize) -> bool {
        events <= usize::from(self.grows_to)
            && events.saturating_mul(size_of::<T>()) <= MOST_MOVED
            && self.filter.is_none()
            && !self.state.is_stopped()
            && self.credit(events) >= events
    }

    /// Offers an event.
    #[inline]
    pub(crate) fn offer_alone(&mut self, event: T, position: u64) {
        if self.state.policy == OverflowPolicy::DropOldest {
            self.begin_whole(1);
            let batch = Arc::new(SharedBatch::of_one(event, position));
            self.send_newest(BatchSlice::new(batch, 0..1, self.sent.decided), 1);
            self.state.publish_sent(&self.sent);
        } else {
            self.grow(1, position, |batch| batch.push(event));
        }
    }

    /// Offers events.
    pub(crate) fn offer_all_alone(&mut self, mut events: Vec<T>, position: u64) {
        self.grow(events.len(), position, |batch| batch.append(&mut events));
    }

    #[inline]
    fn grow(&mut self, events: usize, position: u64, add: impl FnOnce(&mut Vec<T>)) {
        self.begin_whole(events);
        let space = usize::from(self.grows_to).saturating_sub(events);
        self.queue.grow(space, self.sent.decided, position, add);
        self.has_grown = true;
        self.count_sent(events);
        self.state.publish_sent(&self.sent);
    }
}
