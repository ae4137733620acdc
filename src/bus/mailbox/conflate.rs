//! Offers events to watchers that conflate events by key.

use std::ops::Range;
use std::slice;

use crate::bus::counters::DropReason;
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::BusState;

use super::conflating::Slot;
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
        let SliceQueue::Conflating(queue) = &self.queue else { return None };
        let keys = self.hooks.as_mut()?.keys.as_mut()?;
        let last =
            self.state.run_user_code(|| (keys.last_slot(event, &|| queue.lock().front()), event.clone()));
        let (slot, event) = last?;
        let policy = self.state.policy;
        let evicts = policy == OverflowPolicy::DropOldest;
        // As in the other queues, events from the history do not count towards the capacity, unless
        // the policy keeps only the newest events.
        let most = (!self.is_replaying || evicts).then_some(self.state.capacity() as usize);
        // Only this thread adds slots, so a place that exists now still exists when it is used.
        let has_place = |most| queue.lock().has_place(*slot, most);
        if policy == OverflowPolicy::Evict && !most.is_none_or(has_place) {
            self.state.publish_sent(&mut self.sent);
            bus.evict(&self.state);
            self.state.run_user_code(|| drop(event));
            return Some(());
        }
        self.sent.offered += 1;
        self.state.publish_offered(self.sent.offered);
        let new = Slot { event, offset: self.sent.decided, position };
        let lost = queue.lock().put(slot, new, most, evicts);
        self.sent.decided += u64::from(!matches!(lost, Some((DropReason::Conflated, _))));
        if let Some((reason, event)) = lost {
            self.count_lost(reason, slice::from_ref(&event));
            self.state.run_user_code(|| drop(event));
        } else {
            self.sent.queued += 1;
            self.replayed += u64::from(most.is_none());
            self.note_high_water();
        }
        Some(())
    }
}
