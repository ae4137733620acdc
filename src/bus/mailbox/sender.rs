//! The dispatcher's end of a watcher's mailbox, which runs the filter, tracks the credit, applies
//! the overflow policy, and keeps the counters.
//!
//! Credit is counted in events, as if each event had its own slot. The credit equals the capacity
//! minus the number of events that are queued or held by the reader. The `DropOldest` policy does
//! not need credit, because it evicts queued events.
//!
//! The sender sends the events that fit, in one of three forms:
//!
//! - If a whole batch fits, the sender sends a slice of the shared batch.
//! - If only a part fits, and the watcher loses or may lose the rest, the sender sends a copy of
//!   that part, so that the watcher does not keep the whole batch alive for the sake of a few
//!   events.
//! - If the policy is `Wait`, the watcher does not lose events. The sender then sends small slices
//!   of the batch itself, because the dispatcher keeps the batch alive anyway.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bus::counters::DropReason;
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::{BusState, Sent, WatcherState};
use crate::catch::catch_panic;
use crate::clock::Deadline;
use crate::sync::Arc;

use super::hooks::{FilterHook, Hooks};
use super::queue::{SliceQueue, events_in};
use super::slice::{BatchSlice, SharedBatch, copied};

/// The fields are in the order of memory, and those that every event needs are first. See
/// [`WatcherState`].
#[allow(clippy::struct_excessive_bools, reason = "they are independent, and a byte each")]
#[repr(C)]
pub(crate) struct MailboxSender<T> {
    pub(crate) state: Arc<WatcherState>,
    pub(super) queue: SliceQueue<T>,
    pub(crate) filter: Option<FilterHook<T>>,
    /// Whether the events being offered come from the history.
    pub(super) is_replaying: bool,
    /// Whether the growing batch may hold events, in which case it must be sealed before a slice is
    /// sent.
    pub(super) has_grown: bool,
    /// Whether a publisher of an inline bus has found the queue full since the queue last had
    /// capacity.
    pub(super) is_full: bool,
    /// Whether the reader is a handler that has abandoned its queue because of a shutdown with a
    /// deadline.
    pub(super) gave_up: bool,
    /// The filter's decision about the next event to be offered, if the filter has already been run
    /// on that event.
    pub(super) judged: Option<bool>,
    /// The maximum number of events in the growing batch. Zero if the queue has no growing batch.
    pub(super) grows_to: u16,
    /// The value of the reader's `consumed` counter when the sender last read it. The reader may
    /// have advanced since then.
    consumed: u64,
    /// The number of events from the history. Events from the history are at the front of the
    /// queue, and do not need credit.
    pub(super) replayed: u64,
    pub(super) sent: Sent,
    /// The parts of batches that are still waiting for capacity, if the dispatcher waits for this
    /// watcher.
    pub(super) pending: VecDeque<Part<T>>,
    pub(crate) deadline: Deadline,
    /// The number of events that had been sent when the reader last failed to keep up with pulling.
    /// Zero if the reader has always kept up.
    slow_until: u64,
    pub(super) hooks: Option<Box<Hooks<T>>>,
}

/// A range of the events in a batch.
pub(super) struct Part<T> {
    batch: Arc<SharedBatch<T>>,
    pub(super) range: Range<usize>,
}

impl<T> MailboxSender<T> {
    pub(crate) fn new(
        state: Arc<WatcherState>,
        queue: SliceQueue<T>,
        filter: Option<FilterHook<T>>,
        hooks: Hooks<T>,
        grows_to: usize,
    ) -> Self {
        let grows_to = if queue.grows() { u16::try_from(grows_to).unwrap_or(u16::MAX) } else { 0 };
        Self {
            state,
            queue,
            filter,
            hooks: hooks.boxed(),
            sent: Sent::default(),
            consumed: 0,
            replayed: 0,
            is_replaying: false,
            pending: VecDeque::new(),
            deadline: None,
            grows_to,
            has_grown: false,
            is_full: false,
            judged: None,
            slow_until: 0,
            gave_up: false,
        }
    }

    /// Returns the number of events that fit into the queue. If at least `wanted` events fit, the
    /// result is at least `wanted`. If fewer events fit, the result is exact.
    pub(super) fn credit(&mut self, wanted: usize) -> usize {
        let free = |sender: &Self| sender.state.capacity().saturating_sub(sender.in_use());
        let mut credit = free(self);
        if credit < wanted as u64 {
            self.consumed = self.state.consumed();
            credit = free(self);
        }
        credit as usize
    }

    /// Returns the number of events that need credit because they are in the queue or held by the
    /// reader, according to the last known value of `consumed`. The result saturates at zero,
    /// because if the reader is being dropped, its queue may already have been emptied.
    fn in_use(&self) -> u64 {
        self.sent.queued.saturating_sub(self.consumed.max(self.replayed))
    }

    /// Returns a lower bound on how many of `wanted` events fit. Returns `None` if a publisher must
    /// leave this watcher to the dispatcher. A publisher must do so if the watcher has a filter
    /// (which is user code) or a ring (which has a lock), or if the watcher has been stopped.
    pub(crate) fn direct_room(&mut self, wanted: usize) -> Option<usize> {
        let is_direct = self.filter.is_none()
            && self.state.policy != OverflowPolicy::DropOldest
            && !self.state.is_stopped();
        is_direct.then(|| self.credit(wanted))
    }

    /// Records that the reader was expected to pull but did not keep up.
    pub(crate) fn note_slow(&mut self) {
        self.slow_until = self.sent.queued;
    }

    /// Returns whether the reader can be expected to keep up. If the reader has failed to keep up
    /// before, it must have received everything that had been sent by that time.
    pub(crate) fn keeps_up(&self) -> bool {
        self.slow_until == 0 || self.state.consumed() >= self.slow_until
    }

    /// Offers a batch that fits. The caller must have checked with
    /// [`direct_room`](Self::direct_room) that the batch fits. No user code runs, because no event
    /// is lost, copied or dropped, even if the watcher has just been stopped.
    pub(crate) fn offer_whole(&mut self, batch: Arc<SharedBatch<T>>) {
        let all = 0..batch.events().len();
        self.begin_whole(all.len());
        self.send(batch, all);
        self.state.publish_sent(&mut self.sent);
    }

    pub(super) fn begin_whole(&mut self, events: usize) {
        self.sent.offered += events as u64;
        self.state.publish_offered(self.sent.offered);
    }

    /// Queues events that are known to fit.
    fn send(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>) {
        let events = range.len();
        self.send_slice(BatchSlice::new(batch, range, self.sent.decided), events);
    }

    pub(super) fn send_slice(&mut self, slice: BatchSlice<T>, events: usize) {
        if std::mem::take(&mut self.has_grown) {
            self.queue.seal();
        }
        self.queue.push(slice);
        self.count_sent(events);
    }

    pub(super) fn count_sent(&mut self, events: usize) {
        self.sent.decided += events as u64;
        self.sent.queued += events as u64;
        self.note_high_water();
    }

    pub(super) fn note_high_water(&mut self) {
        if self.in_use() > self.sent.high_water {
            self.consumed = self.state.consumed();
            // Events held by the reader are included. Events that the reader took out of a ring
            // have already left the queue, so the sum can exceed the capacity.
            let queued = self.in_use().min(self.state.capacity());
            self.sent.high_water = self.sent.high_water.max(queued);
        }
    }

    /// Counts events that the reader will not receive, and passes them to the `on_drop` hook.
    pub(super) fn lose(&mut self, reason: DropReason, events: &[T]) {
        self.sent.decided += events.len() as u64;
        self.count_lost(reason, events);
    }

    pub(super) fn count_lost(&mut self, reason: DropReason, events: &[T]) {
        *self.sent.drops_mut(reason) += events.len() as u64;
        if let Some(hook) = self.hooks.as_mut().and_then(|hooks| hooks.on_drop.as_mut()) {
            if self.state.run_user_code(|| hook(&self.state.name.text(), reason, events)).is_none() {
                self.state.count_panic();
            }
        }
    }

    /// Returns whether events are still offered to the watcher. Events are offered if the watcher
    /// has not been stopped, or if it is a handler that has abandoned its queue. If a handler has
    /// abandoned its queue, further events offered to it count as abandoned.
    pub(crate) fn is_offered(&mut self) -> bool {
        if !self.state.is_stopped() {
            return true;
        }
        self.gave_up = self.state.has_given_up();
        self.gave_up
    }

    /// Records a gap for the watcher, where `events` is the number of missing events. The missing
    /// events do not count as offered.
    pub(crate) fn add_gap(&mut self, events: u64) {
        if self.is_offered() {
            self.sent.decided += events;
            self.sent.missed += events;
            self.state.set_missed(self.sent.missed);
            self.state.publish_sent(&mut self.sent);
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Drops the pending events, and counts them as lost for the given reason.
    pub(crate) fn lose_pending(&mut self, reason: DropReason) {
        while let Some(part) = self.pending.pop_front() {
            self.lose(reason, &part.batch.events()[part.range]);
            self.state.run_user_code(|| drop(part.batch));
        }
        self.state.publish_sent(&mut self.sent);
    }

    /// Counts the pending events, and `events` additional events, as abandoned. None of these
    /// events is passed to the `on_drop` hook. If the watcher is no longer offered events, the
    /// additional events are not counted.
    #[cold]
    pub(crate) fn abandon(&mut self, events: usize) {
        let pending: usize = self.pending.iter().map(|part| part.range.len()).sum();
        let events = if self.is_offered() { events as u64 } else { 0 };
        let lost = pending as u64 + events;
        self.sent.offered += events;
        self.state.publish_offered(self.sent.offered);
        self.owe_report(lost);
        self.sent.decided += lost;
        *self.sent.drops_mut(DropReason::Abandoned) += lost;
        self.state.publish_sent(&mut self.sent);
    }

    /// Reports the abandoned events, and drops the user-supplied closures. Each closure is dropped
    /// separately, because a closure's destructor may panic, and a second panic while the first one
    /// is unwinding would abort the process.
    pub(crate) fn drop_closures(&mut self) {
        self.report_abandoned();
        let filter = self.filter.take();
        catch_panic(|| drop(filter));
        if let Some(hooks) = self.hooks.take() {
            hooks.discard();
        }
    }

    /// Empties the queue of a reader that has been marked as gone. Both ends of the mailbox may
    /// empty the queue at the same time, and each end counts the events that it takes out. Returns
    /// the slices, so that the caller can choose when the events' destructors run.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(crate) fn drain(&mut self, abandon: bool) -> Vec<BatchSlice<T>> {
        let slices = self.queue.take_all();
        let events = events_in(&slices);
        if events > 0 {
            self.sent.queued -= events;
            let reason = if abandon { DropReason::Abandoned } else { DropReason::Stopped };
            *self.sent.drops_mut(reason) += events;
            self.state.publish_sent(&mut self.sent);
            self.owe_report(if abandon { events } else { 0 });
        }
        slices
    }

    /// Closes the mailbox. From now on, the dispatcher sends nothing to this watcher, but the
    /// queued events can still be received. Returns the watcher's state. The caller must wake the
    /// reader.
    #[must_use = "the reader is to be woken"]
    pub(crate) fn close(mut self, bus: &BusState) -> Arc<WatcherState> {
        if self.state.is_gone() {
            drop(self.drain(bus.is_abandoned()));
        }
        self.drop_closures();
        let state = self.state.clone();
        drop(self);
        bus.sender_closed(&state);
        state
    }

    /// Calls the `on_abandon` hook with the number of events abandoned since the last report. The
    /// hook is user code, so the caller chooses when it runs.
    pub(crate) fn report_abandoned(&mut self) {
        if let Some(hooks) = self.hooks.as_mut().filter(|hooks| hooks.unreported > 0) {
            self.state.run_user_code(|| hooks.report(&self.state.name.text()));
        }
    }

    /// Adds `events` to the number of events in the next [report](Self::report_abandoned).
    fn owe_report(&mut self, events: u64) {
        if let Some(hooks) = &mut self.hooks {
            hooks.unreported += events;
        }
    }
}

impl<T: Clone> MailboxSender<T> {
    /// Offers a part of a batch from the history. Events from the history do not need credit. In a
    /// ring, they count towards the capacity, and the ring keeps only the newest events.
    pub(crate) fn replay(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        self.is_replaying = true;
        self.offer(batch, range, bus);
        self.is_replaying = false;
    }

    /// Offers a part of a batch without waiting. Returns whether some of its events are now waiting
    /// for capacity.
    pub(crate) fn offer(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) -> bool {
        if !self.is_offered() {
            return false;
        }
        if self.filter.is_none() {
            self.offer_part(batch, range, bus);
        } else {
            self.offer_filtered(batch, range, bus);
        }
        self.state.publish_sent(&mut self.sent);
        // The policy is checked first, because it is in memory that this call has read already.
        self.state.policy.waits() && self.is_pending()
    }

    /// Offers a part of a batch. If the whole part is sent to the watcher, this reference to the
    /// batch is moved into the watcher's queue.
    #[inline]
    pub(super) fn offer_part(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        let is_lossless = self.gave_up || self.is_replaying;
        if self.state.policy == OverflowPolicy::Evict && !is_lossless {
            return self.offer_or_evict(batch, range, bus);
        }
        self.sent.offered += range.len() as u64;
        // The count is published before any of these events can be delivered or lost, so that no
        // snapshot shows more events delivered or lost than offered.
        self.state.publish_offered(self.sent.offered);
        if self.gave_up {
            return self.lose(DropReason::Abandoned, &batch.events()[range]);
        }
        if self.is_replaying && self.state.policy != OverflowPolicy::DropOldest {
            self.replayed += range.len() as u64;
            return self.send(batch, range);
        }
        match self.state.policy {
            OverflowPolicy::DropIncoming | OverflowPolicy::Evict => {
                let fits = self.credit(range.len()).min(range.len());
                if fits == range.len() {
                    return self.send(batch, range);
                }
                self.send_copy(&batch, range.start..range.start + fits);
                self.lose(DropReason::Incoming, &batch.events()[range.start + fits..range.end]);
            }
            OverflowPolicy::DropOldest => self.offer_newest(batch, range),
            OverflowPolicy::Wait | OverflowPolicy::WaitFor(_) => {
                // The common case, which avoids the list of pending parts.
                let events = range.len();
                if events <= self.longest_slice() && self.pending.is_empty() && self.credit(events) >= events
                {
                    return self.send(batch, range);
                }
                self.pending.push_back(Part { batch, range });
                self.send_pending();
            }
        }
    }

    /// Offers the events that fit. If an event does not fit, ends the watcher just before that
    /// event. The reader then receives the queued events followed by the end. Once the watcher has
    /// ended, no later event is offered to it.
    fn offer_or_evict(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        let fits = self.credit(range.len()).min(range.len());
        self.sent.offered += fits as u64;
        self.state.publish_offered(self.sent.offered);
        if fits == range.len() {
            return self.send(batch, range);
        }
        self.send_copy(&batch, range.start..range.start + fits);
        // The counters are published first, so that a reader that sees the end also sees the
        // counters.
        self.state.publish_sent(&mut self.sent);
        bus.evict(&self.state);
    }

    /// Returns the maximum length of a slice sent to a reader for which the bus waits. Longer
    /// slices are split, so that the reader frees capacity often. A small remainder is merged into
    /// the preceding slice.
    fn longest_slice(&self) -> usize {
        self.quarter() + self.quarter() / 2
    }

    fn quarter(&self) -> usize {
        (self.state.capacity() as usize / 4).max(1)
    }

    /// Sends the pending events that now fit, for a dispatcher that is waiting for capacity.
    pub(crate) fn push_pending(&mut self) {
        self.send_pending();
        self.state.publish_sent(&mut self.sent);
    }

    /// Sends the pending events that fit. The caller must publish the counters.
    fn send_pending(&mut self) {
        let (longest, quarter) = (self.longest_slice(), self.quarter());
        // With `Wait`, the dispatcher holds the batch until all of its events are queued, so the
        // slices may share it. With `WaitFor`, the dispatcher may drop the rest of a batch, and
        // slices would keep whole batches alive for the sake of a few queued events.
        let copies = self.state.policy != OverflowPolicy::Wait;
        'parts: while let Some(Part { batch, mut range }) = self.pending.pop_front() {
            let fits = self.credit(range.len()).min(range.len());
            let (whole, end) = (fits == batch.events().len(), range.start + fits);
            while range.start < end {
                let rest = end - range.start;
                let next = if rest <= longest { rest } else { quarter };
                let slice = range.start..range.start + next;
                range.start += next;
                if copies && !whole {
                    self.send_copy(&batch, slice);
                } else if range.is_empty() {
                    self.send(batch, slice);
                    continue 'parts;
                } else {
                    self.send(batch.clone(), slice);
                }
            }
            if !range.is_empty() {
                self.pending.push_front(Part { batch, range });
                break;
            }
        }
    }

    /// Sends the events like [`send`](Self::send), but copies them, so that a part of a batch does
    /// not keep the whole batch alive.
    pub(super) fn send_copy(&mut self, batch: &Arc<SharedBatch<T>>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let copy = || copied(batch, std::slice::from_ref(&range));
        if let Some(own) = self.state.run_user_code(copy).flatten() {
            self.send(own, 0..range.len());
        } else {
            self.state.count_panic();
            self.send(batch.clone(), range);
        }
    }
}
