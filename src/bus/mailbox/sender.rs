//! The dispatcher's end of one watcher's mailbox: filter, credit, policy, accounting.
//!
//! Credit is counted in events, as if each event had its own slot. It is the capacity minus the
//! events that are queued or held by the reader. `DropOldest` needs no credit, because it evicts
//! queued events.
//!
//! The sender sends what fits, in one of three forms:
//!
//! - If a whole batch fits: as a slice of the shared batch.
//! - If only a part fits, and the watcher loses the rest or may lose it: as a copy of that part, so
//!   that the watcher does not keep the whole batch alive for a few events.
//! - If the policy is `Wait`, so that the watcher loses nothing: as small slices of the batch
//!   itself, which the dispatcher keeps alive anyway.

use std::collections::VecDeque;
use std::ops::Range;

use crate::bus::counters::DropReason;
use crate::bus::options::Start;
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::{BusState, Sent, WatcherState};
use crate::catch::catch_panic;
use crate::clock::Deadline;
use crate::sync::Arc;

use super::hooks::{FilterHook, LossHooks, OnAbandon, OnDrop};
use super::queue::{SliceQueue, events_in};
use super::slice::{BatchSlice, SharedBatch, copied};

#[allow(clippy::struct_excessive_bools, reason = "they are independent, and a byte each")]
pub(crate) struct MailboxSender<T> {
    pub(crate) state: Arc<WatcherState>,
    pub(super) queue: Arc<SliceQueue<T>>,
    pub(crate) filter: Option<FilterHook<T>>,
    hooks: Option<Box<LossHooks<T>>>,
    pub(super) sent: Sent,
    /// The reader's `consumed` when the sender last read it. The reader may have advanced since.
    consumed: u64,
    /// The number of events from the history. They are the first in the queue, and need no credit.
    replayed: u64,
    /// Whether the events that are being offered are from the history.
    is_replaying: bool,
    /// The point in the order of events at which the watcher starts.
    pub(crate) start: Start,
    /// The parts that still wait for capacity, if the dispatcher waits for this watcher.
    pub(super) pending: VecDeque<Part<T>>,
    pub(crate) deadline: Deadline,
    /// The highest number of events in the batch that grows. Zero if no batch grows in the queue.
    pub(super) grows_to: u16,
    /// Whether the batch that grows may hold events, so that a slice must not pass it.
    pub(super) has_grown: bool,
    /// Whether a publisher of an inline bus has found the queue full since it last had capacity.
    pub(super) is_full: bool,
    /// The filter's decision about the event that is offered next, if the filter has already been
    /// run on it.
    pub(super) judged: Option<bool>,
    /// The number of events sent by the time when the reader was expected to pull and did not keep
    /// up. Zero if this has not happened.
    slow_until: u64,
    /// Whether the reader is a handler that has abandoned its queue because of a shutdown by
    /// deadline.
    gave_up: bool,
}

/// A range of the events of a batch.
pub(super) struct Part<T> {
    batch: Arc<SharedBatch<T>>,
    pub(super) range: Range<usize>,
}

impl<T> MailboxSender<T> {
    pub(crate) fn new(
        state: Arc<WatcherState>,
        queue: Arc<SliceQueue<T>>,
        filter: Option<FilterHook<T>>,
        on_drop: Option<OnDrop<T>>,
        on_abandon: Option<OnAbandon>,
        start: Start,
        grows_to: usize,
    ) -> Self {
        let grows_to = if queue.grows() { u16::try_from(grows_to).unwrap_or(u16::MAX) } else { 0 };
        Self {
            state,
            queue,
            filter,
            hooks: LossHooks::new(on_drop, on_abandon),
            sent: Sent::default(),
            consumed: 0,
            replayed: 0,
            is_replaying: false,
            start,
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

    /// Returns the free capacity in events. The result is at least `wanted` if there is that much
    /// capacity, and exact if there is less.
    pub(super) fn credit(&mut self, wanted: usize) -> usize {
        let free = |sender: &Self| sender.state.capacity.saturating_sub(sender.in_use());
        let mut credit = free(self);
        if credit < wanted as u64 {
            self.consumed = self.state.consumed();
            credit = free(self);
        }
        credit as usize
    }

    /// Returns how many events of the queue and of the reader need credit, by the last known
    /// `consumed`. The queue of a reader that is just being dropped may have been emptied.
    fn in_use(&self) -> u64 {
        self.sent.queued.saturating_sub(self.consumed.max(self.replayed))
    }

    /// Returns how many of `wanted` events fit, at least. Returns `None` if a publisher must leave
    /// this watcher to the dispatcher: its filter is user code, its ring has a lock, or it has been
    /// stopped.
    pub(crate) fn direct_room(&mut self, wanted: usize) -> Option<usize> {
        let is_direct = self.filter.is_none()
            && self.state.policy != OverflowPolicy::DropOldest
            && !self.state.is_stopped();
        is_direct.then(|| self.credit(wanted))
    }

    /// Records that the reader did not keep up when it was expected to pull.
    pub(crate) fn note_slow(&mut self) {
        self.slow_until = self.sent.queued;
    }

    /// Returns whether the reader may be expected to keep up: if it once did not, it has received
    /// everything that was sent by then.
    pub(crate) fn keeps_up(&self) -> bool {
        self.slow_until == 0 || self.state.consumed() >= self.slow_until
    }

    /// Offers a batch that fits. The caller has this from [`direct_room`](Self::direct_room). No
    /// user code runs: no event is lost, copied or dropped, even if the watcher has just stopped.
    pub(crate) fn offer_whole(&mut self, batch: Arc<SharedBatch<T>>) {
        let all = 0..batch.events().len();
        self.begin_whole(all.len());
        self.send(batch, all);
        self.state.publish_sent(&self.sent);
    }

    pub(super) fn begin_whole(&mut self, events: usize) {
        self.sent.offered += events as u64;
        self.state.publish_offered(self.sent.offered);
    }

    /// Queues events that fit.
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
            // The events that the reader holds count too. Events taken from a ring have left the
            // queue, so with them the number can exceed the capacity.
            let queued = self.in_use().min(self.state.capacity);
            self.sent.high_water = self.sent.high_water.max(queued);
        }
    }

    /// Counts events that the reader will not receive, and calls the hook with them.
    pub(super) fn lose(&mut self, reason: DropReason, events: &[T]) {
        self.sent.decided += events.len() as u64;
        self.count_lost(reason, events);
    }

    pub(super) fn count_lost(&mut self, reason: DropReason, events: &[T]) {
        *self.sent.drops.by_mut(reason) += events.len() as u64;
        if let Some(hook) = self.hooks.as_mut().and_then(|hooks| hooks.on_drop.as_mut()) {
            if catch_panic(|| hook(&self.state.name, reason, events)).is_none() {
                self.state.count_panic();
            }
        }
    }

    /// Returns whether the watcher is still offered events: it has not been stopped, or it is a
    /// handler that has abandoned its queue, whose events count as abandoned from then on.
    pub(crate) fn is_offered(&mut self) -> bool {
        if !self.state.is_stopped() {
            return true;
        }
        self.gave_up = self.state.has_given_up();
        self.gave_up
    }

    /// Records for the watcher that this many events are missing here. None of them was offered.
    pub(crate) fn add_gap(&mut self, events: u64) {
        if self.is_offered() {
            self.sent.decided += events;
            self.sent.missed += events;
            self.state.set_missed(self.sent.missed);
            self.state.publish_sent(&self.sent);
        }
    }

    pub(crate) fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Loses the pending events.
    pub(crate) fn lose_pending(&mut self, reason: DropReason) {
        while let Some(part) = self.pending.pop_front() {
            self.lose(reason, &part.batch.events()[part.range]);
        }
        self.state.publish_sent(&self.sent);
    }

    /// Counts the pending events and `events` more as abandoned. `on_drop` does not receive them.
    #[cold]
    pub(crate) fn abandon(&mut self, events: usize) {
        let pending: usize = self.pending.iter().map(|part| part.range.len()).sum();
        let events = if self.is_offered() { events as u64 } else { 0 };
        let lost = pending as u64 + events;
        self.sent.offered += events;
        self.state.publish_offered(self.sent.offered);
        self.owe_report(lost);
        self.sent.decided += lost;
        self.sent.drops.abandoned += lost;
        self.state.publish_sent(&self.sent);
    }

    /// Reports the abandoned events, and drops the user's closures. Their destructors may panic.
    /// Each closure is dropped separately, because a panic during a panic would abort the process.
    pub(crate) fn drop_closures(&mut self) {
        self.report_abandoned();
        let filter = self.filter.take();
        catch_panic(|| drop(filter));
        if let Some(hooks) = self.hooks.take() {
            hooks.discard();
        }
    }

    /// Empties the queue of a reader that is gone. Both ends may do so at the same time, and each
    /// counts the events that it takes out. Returns the slices, so that the caller chooses when the
    /// events' destructors run.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(crate) fn drain(&mut self, abandon: bool) -> Vec<BatchSlice<T>> {
        let slices = self.queue.take_all();
        let events = events_in(&slices);
        if events > 0 {
            self.sent.queued -= events;
            let reason = if abandon { DropReason::Abandoned } else { DropReason::Stopped };
            *self.sent.drops.by_mut(reason) += events;
            self.state.publish_sent(&self.sent);
            self.owe_report(if abandon { events } else { 0 });
        }
        slices
    }

    /// Closes the mailbox. The dispatcher sends nothing more to this watcher, and the queued events
    /// stay readable. Returns the watcher's state, so that the caller wakes the reader.
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

    /// Calls the hook with the number of events abandoned since the last call. The hook is user
    /// code, so the caller chooses when it runs.
    pub(crate) fn report_abandoned(&mut self) {
        if let Some(hooks) = &mut self.hooks {
            hooks.report(&self.state.name);
        }
    }

    /// Counts events for the next [report](Self::report_abandoned).
    fn owe_report(&mut self, events: u64) {
        if let Some(hooks) = &mut self.hooks {
            hooks.unreported += events;
        }
    }
}

impl<T: Clone> MailboxSender<T> {
    /// Offers a part of a batch from the history. The part needs no credit, except in a ring, which
    /// keeps the newest events.
    pub(crate) fn replay(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        self.is_replaying = true;
        self.offer(batch, range, bus);
        self.is_replaying = false;
    }

    /// Offers a part of a batch without waiting. Returns whether some of its events wait for
    /// capacity.
    pub(crate) fn offer(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) -> bool {
        if !self.is_offered() {
            return false;
        }
        if self.filter.is_none() {
            self.offer_part(batch, range, bus);
        } else {
            self.offer_filtered(batch, range, bus);
        }
        self.state.publish_sent(&self.sent);
        self.is_pending()
    }

    /// Offers a part of a batch. If the watcher gets all of it, its queue gets this hold on the
    /// batch, too.
    #[inline]
    pub(super) fn offer_part(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        let is_lossless = self.gave_up || self.is_replaying;
        if self.state.policy == OverflowPolicy::Evict && !is_lossless {
            return self.offer_or_evict(batch, range, bus);
        }
        self.sent.offered += range.len() as u64;
        // The count is published before any of these events can be delivered or lost, so that no
        // snapshot shows more of them than were offered.
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
                // The usual case, without the list.
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

    /// Offers the events that fit. If one does not, ends the watcher before it: the reader receives
    /// the queued events and then the end. As after any end, no later event is offered.
    fn offer_or_evict(&mut self, batch: Arc<SharedBatch<T>>, range: Range<usize>, bus: &BusState) {
        let fits = self.credit(range.len()).min(range.len());
        self.sent.offered += fits as u64;
        self.state.publish_offered(self.sent.offered);
        if fits == range.len() {
            return self.send(batch, range);
        }
        self.send_copy(&batch, range.start..range.start + fits);
        // A reader that sees the end also sees the counters.
        self.state.publish_sent(&self.sent);
        bus.evict(&self.state);
    }

    /// Returns the number of events up to which a slice for a reader that the bus waits for is not
    /// split. The slices are small, so that the reader frees capacity often. A tiny rest joins the
    /// slice before it.
    fn longest_slice(&self) -> usize {
        self.quarter() + self.quarter() / 2
    }

    fn quarter(&self) -> usize {
        (self.state.capacity as usize / 4).max(1)
    }

    /// Sends the pending events that fit now, for a dispatcher that waits for capacity.
    pub(crate) fn push_pending(&mut self) {
        self.send_pending();
        self.state.publish_sent(&self.sent);
    }

    /// Sends the pending events that fit. The caller publishes the counters.
    fn send_pending(&mut self) {
        let (longest, quarter) = (self.longest_slice(), self.quarter());
        // With `Wait`, the dispatcher holds the batch until all of its events are queued, so the
        // slices may share it. With `WaitFor`, the dispatcher may drop the rest of a batch, and
        // whole batches would stay alive for the few of their events that are queued.
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

    /// Sends like [`send`](Self::send), but as a copy, so that a part does not keep the whole batch
    /// alive.
    pub(super) fn send_copy(&mut self, batch: &Arc<SharedBatch<T>>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some(own) = copied(batch, std::slice::from_ref(&range)) {
            self.send(own, 0..range.len());
        } else {
            self.state.count_panic();
            self.send(batch.clone(), range);
        }
    }
}
