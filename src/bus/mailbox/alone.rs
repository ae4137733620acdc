//! Offers events to a bus's only watcher without sharing them. This module is used by inline buses,
//! and by any bus that offers a single event to a ring.

use crate::bus::policy::OverflowPolicy;

use super::entry::Entry;
use super::sender::MailboxSender;
use super::slice::BatchSlice;

/// The maximum total size, in bytes, of the events that are moved into a growing batch at once.
const MOST_MOVED: usize = 16 << 10;

impl<T> MailboxSender<T> {
    /// Returns whether [`offer_alone`](Self::offer_alone) can offer this number of events. If the
    /// watcher's queue is a ring, only a single event can be offered, whatever the kind of bus.
    #[inline]
    pub(crate) fn takes_alone(&mut self, events: usize) -> bool {
        let takes = match self.state.policy {
            OverflowPolicy::DropOldest => events == 1,
            _ => events <= usize::from(self.grows_to) && events.saturating_mul(size_of::<T>()) <= MOST_MOVED,
        };
        takes
            && self.filter.is_none()
            && !self.state.is_stopped()
            && (self.state.policy == OverflowPolicy::DropOldest || self.credit(events) >= events)
    }

    /// Offers the events in `entry`, where `first` is the position of the first event.
    #[inline]
    pub(crate) fn offer_alone(&mut self, entry: Entry<T>, first: u64) {
        let events = entry.len();
        self.begin_whole(events);
        if self.state.policy == OverflowPolicy::DropOldest {
            let batch = entry.share(first);
            self.send_newest(BatchSlice::new(batch, 0..events, self.sent.decided), events);
        } else {
            let space = usize::from(self.grows_to).saturating_sub(events);
            self.queue.grow(space, self.sent.decided, first, entry);
            self.has_grown = true;
            self.count_sent(events);
        }
        self.state.publish_sent(&mut self.sent);
    }
}
