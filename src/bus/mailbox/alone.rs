//! Offers events to a bus's only watcher without sharing them. An inline bus offers events this
//! way, and any bus offers single events to a ring this way.

use crate::bus::policy::OverflowPolicy;

use super::entry::Entry;
use super::sender::MailboxSender;
use super::slice::BatchSlice;

/// The maximum size of the events that are moved into a growing batch, in bytes.
const MOST_MOVED: usize = 16 << 10;

impl<T> MailboxSender<T> {
    /// Returns whether [`offer_alone`](Self::offer_alone) can offer this many events. A ring takes
    /// only a single event, on any bus.
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

    /// Offers events, the first of which has this position.
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
        self.state.publish_sent(&self.sent);
    }
}
