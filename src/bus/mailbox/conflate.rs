//! Offers events to watchers that conflate events by key.

use std::ops::Range;
use std::slice;

use crate::bus::counters::DropReason;
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::BusState;
use crate::catch::catch_panic;

use super::entry::Entry;
use super::queue::SliceQueue;
use super::sender::MailboxSender;
use super::slice::SharedBatch;

impl<T: Clone> MailboxSender<T> {
    /// Offers the events in the given ranges one by one, until the watcher is stopped. Each event
    /// replaces the unread event with the same key.
    pub(super) fn offer_by_key(&mut self, batch: &SharedBatch<T>, runs: Vec<Range<usize>>, bus: &BusState) {
        for i in runs.into_iter().flatten() {
            if !self.is_offered() {
                break;
            }
            if self.conflate(&batch.events()[i], batch.position(i), bus).is_none() {
                // If the key function or `Clone` panics, the watcher is stopped, because it is
                // unknown which event the new event would have replaced.
                self.state.count_panic();
                bus.stop_offering(&self.state);
            }
        }
    }

    /// Offers one event. Returns `None` if user code panicked before the event was offered.
    fn conflate(&mut self, event: &T, position: u64, bus: &BusState) -> Option<()> {
        let SliceQueue::Conflating(queue) = &*self.queue else { return None };
        let keys = self.hooks.as_mut()?.keys.as_mut()?;
        let last = catch_panic(|| (keys.last_slot(event, &|| queue.lock().front()), event.clone()));
        let (slot, event) = last?;
        let policy = self.state.policy;
        // As in the other queues, the events of the history do not count towards the capacity,
        // unless the policy keeps only the newest events.
        let is_bounded = !self.is_replaying || policy == OverflowPolicy::DropOldest;
        let most = if is_bounded { self.state.capacity as usize } else { usize::MAX };
        // Only this thread adds slots, so a place that exists now is not lost until it is used.
        if policy == OverflowPolicy::Evict && !queue.lock().has_place(*slot, most) {
            self.state.publish_sent(&self.sent);
            bus.evict(&self.state);
            Entry::Event(event).discard();
            return Some(());
        }
        self.sent.offered += 1;
        self.state.publish_offered(self.sent.offered);
        let (decided, evicts) = (self.sent.decided + 1, policy == OverflowPolicy::DropOldest);
        let lost = queue.lock().put(slot, (event, position), decided, most, evicts);
        // A replaced event is decided together with the events that replace it, so it leaves no
        // gap.
        if !matches!(lost, Some((DropReason::Conflated, _))) {
            self.sent.decided = decided;
        }
        if let Some((reason, event)) = lost {
            self.count_lost(reason, slice::from_ref(&event));
            Entry::Event(event).discard();
        } else {
            self.sent.queued += 1;
            self.note_high_water();
        }
        Some(())
    }
}
