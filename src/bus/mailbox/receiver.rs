//! The reader's end of a mailbox: the current slice, the offset, and freeing capacity.

use std::task::{Poll, Waker};

use crate::bus::state::{BusState, EndReason, WatcherState};
use crate::bus::wait::{full_fence, spin_until};
use crate::catch::catch_panic;
use crate::clock::Deadline;
use crate::sync::{Arc, GATHER, MANY, Parker, hint};

use super::hooks::OnAbandon;
use super::queue::{Front, SliceQueue, events_in};
use super::slice::{BatchSlice, OwnBatch, Positions, SharedBatch};

pub(crate) struct MailboxReceiver<T> {
    pub(crate) state: Arc<WatcherState>,
    pub(crate) bus: Arc<BusState>,
    queue: Arc<SliceQueue<T>>,
    parker: Parker,
    /// The current slice, which was taken out of the queue and has not been fully read yet.
    current: Option<BatchSlice<T>>,
    /// The memory of a batch that has been read, for the next events.
    spare: Option<Box<OwnBatch<T>>>,
    /// The number of events at the beginning of `current` that the caller borrows until its next
    /// call.
    borrowed: u32,
    /// The number of events at the beginning of `current` that belong to a prefix, and did not pass
    /// through the queue.
    prefix: u32,
    /// The number of events that passed through the queue and whose capacity was freed, as
    /// published.
    consumed: u64,
    /// The offset of the next event.
    expected: u64,
    /// The position up to which everything is decided by the slices and gaps that the reader has
    /// already passed. Zero if there is none.
    reached: u64,
    /// The offset that was last published for the threads and tasks that wait for a handler.
    handled: u64,
    /// Whether the receiver publishes this offset at the end of each slice, because the slice has
    /// been handled by then.
    pub(crate) announces: bool,
    /// In a box, because few watchers have it.
    on_abandon: Option<Box<OnAbandon>>,
    /// Whether the last slice was the batch of a growing queue, and had few events: the reader is
    /// faster than the publishers.
    is_ahead: bool,
    ended: bool,
    /// The reason why the watcher ended, once the reader has reached the end.
    pub(crate) end_reason: Option<EndReason>,
    /// The fan-out, if the bus may lend it to this reader.
    upstream: Option<Box<dyn Upstream>>,
}

/// The fan-out, from the perspective of a reader to which the dispatcher may lend it.
pub(crate) trait Upstream: Send + Sync {
    /// Offers the waiting entries of the incoming queue, if there are at least `least`. Never
    /// waits.
    fn pull(&self, least: usize);

    /// Gives the fan-out back, because the reader is about to sleep. The reader has armed its
    /// wake cell. Never waits.
    fn hand_back(&self);
}

/// The result of checking the mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The current slice holds an event.
    Event,
    /// This many events were lost at this offset.
    Lagged(u64),
    /// There is nothing to receive now.
    Empty,
    /// There will never be anything to receive again.
    End,
}

impl<T> MailboxReceiver<T> {
    pub(crate) fn new(
        state: Arc<WatcherState>,
        bus: Arc<BusState>,
        queue: Arc<SliceQueue<T>>,
        parker: Parker,
        prefix: Vec<T>,
        on_abandon: Option<OnAbandon>,
        upstream: Option<Box<dyn Upstream>>,
    ) -> Self {
        let events = prefix.len();
        let batch = |prefix| SharedBatch::new(prefix, Positions::none());
        let current = (events > 0).then(|| BatchSlice::new(batch(prefix), 0..events, 0));
        let announces = state.is_handler;
        Self {
            state,
            bus,
            queue,
            parker,
            current,
            spare: None,
            borrowed: 0,
            // The builder has checked the length.
            prefix: events as u32,
            consumed: 0,
            expected: 0,
            reached: 0,
            handled: 0,
            announces,
            on_abandon: on_abandon.map(Box::new),
            is_ahead: false,
            ended: false,
            end_reason: None,
            upstream,
        }
    }

    /// Ends the borrow of the last call, and looks for the next event. Never waits.
    pub(crate) fn next(&mut self) -> Next {
        self.release();
        if self.current.is_some() {
            return Next::Event;
        }
        if self.ended {
            return Next::End;
        }
        // The order matters: a reader that sees the end, or a decided offset, then finds everything
        // before it in the queue.
        let end = self.state.end();
        let decided = self.state.decided();
        // A reader that finds nothing decided leaves a growing queue's lock to the publisher.
        let front = if self.queue.grows() && decided <= self.expected {
            Front::Nothing
        } else {
            self.queue.pop_at(self.expected, &mut self.spare)
        };
        match front {
            Front::Slice(slice) => {
                let gap = self.set_current(slice);
                return if gap > 0 { Next::Lagged(gap) } else { Next::Event };
            }
            Front::Gap(gap, position) => {
                self.expected += gap;
                self.reached = self.reached.max(position);
                return Next::Lagged(gap);
            }
            Front::Nothing => {}
        }
        if decided > self.expected {
            let gap = decided - self.expected;
            self.expected = decided;
            self.reached = self.position().unwrap_or(0) + gap;
            return Next::Lagged(gap);
        }
        if let Some(reason) = end {
            self.end_reason = Some(reason);
            self.retire();
            return Next::End;
        }
        Next::Empty
    }

    /// Makes a slice the current one. Returns the length of the gap before it.
    fn set_current(&mut self, slice: BatchSlice<T>) -> u64 {
        let gap = slice.offset() - self.expected;
        self.expected = slice.offset();
        self.current = Some(slice);
        gap
    }

    /// Takes the event after a gap that the caller has received and not reported yet, if that event
    /// is still in a ring. Returns the number of events that the ring has lost since.
    pub(crate) fn take_behind_gap(&mut self) -> u64 {
        if self.current.is_some() {
            return 0;
        }
        self.queue.pop_behind_gap().map_or(0, |slice| self.set_current(slice))
    }

    /// Looks for the next event like [`next`](Self::next). If there is none, and at least `least`
    /// entries wait upstream, pulls them if the reader is responsible for them now.
    pub(crate) fn next_or_pull(&mut self, least: usize) -> Next {
        let next = self.next();
        if next != Next::Empty {
            return next;
        }
        let Some(upstream) = self.lender() else { return next };
        upstream.pull(least);
        self.next()
    }

    /// Returns the fan-out if it is lent to this reader.
    fn lender(&self) -> Option<&dyn Upstream> {
        self.upstream.as_deref().filter(|_| self.bus.is_lent())
    }

    /// Waits until there is an event, a gap or the end. Returns `Empty` at the deadline.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Next {
        if self.is_ahead {
            // Each check takes the cache lines that the publisher writes to. A reader that checks
            // less often finds more events each time, and both threads are faster.
            (0..GATHER).for_each(|_| hint::spin_loop());
        }
        let mut found = spin_until(|| self.found(MANY));
        if found.is_none() && self.lender().is_some() {
            found = self.found(1);
        }
        if let Some(next) = found {
            return next;
        }
        loop {
            self.arm();
            let next = self.next();
            if next != Next::Empty || self.bus.clock.has_passed(deadline) {
                self.state.wake_cell.disarm();
                return next;
            }
            self.bus.clock.park(&self.parker, deadline);
        }
    }

    fn found(&mut self, least: usize) -> Option<Next> {
        Some(self.next_or_pull(least)).filter(|next| *next != Next::Empty)
    }

    /// Arms the wake cell for this thread. The caller then checks again.
    pub(crate) fn arm(&self) {
        self.state.wake_cell.arm();
        self.hand_back();
    }

    fn arm_task(&self, waker: &Waker) {
        self.state.wake_cell.arm_task(waker);
        self.hand_back();
    }

    fn hand_back(&self) {
        if let Some(upstream) = self.lender() {
            upstream.hand_back();
        }
    }

    /// Returns the next item if there is one now. Otherwise arranges that `waker` is called when
    /// another poll may find an item.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Next> {
        if let Some(next) = self.found(1) {
            return Poll::Ready(next);
        }
        self.arm_task(waker);
        match self.next() {
            Next::Empty => Poll::Pending,
            next => {
                self.state.wake_cell.disarm_task();
                Poll::Ready(next)
            }
        }
    }

    /// Arranges that `waker` is called when there is something to receive, or the end. Calls
    /// `waker` immediately if that is already the case.
    #[cfg(feature = "select")]
    pub(crate) fn notify(&self, waker: &Waker) {
        self.arm_task(waker);
        let in_current = self.events().len();
        // Borrowed events count, too. The next receive frees their capacity, and the dispatcher may
        // wait for it.
        let known = self.expected + in_current as u64 - u64::from(self.prefix);
        if in_current > 0 || self.ended || self.state.decided() > known || self.state.end().is_some() {
            waker.wake_by_ref();
        }
    }

    /// Returns the position up to which everything has been received, lost or refused by the
    /// filter. Returns `None` if the dispatcher has not registered the watcher yet.
    pub(crate) fn position(&self) -> Option<u64> {
        let current = self.current.as_ref().map_or(0, |slice| slice.position_behind(self.borrowed as usize));
        let received = current.max(self.reached);
        if received > 0 { Some(received) } else { self.state.start() }
    }

    /// Returns the current slice.
    pub(crate) fn current(&self) -> Option<&BatchSlice<T>> {
        self.current.as_ref()
    }

    /// Returns the events of the current slice that have not been released.
    pub(crate) fn events(&self) -> &[T] {
        self.current.as_ref().map_or(&[], BatchSlice::events)
    }

    /// Returns the number of events that are left to receive: those in the queue and in the current
    /// slice, minus those that the caller borrows.
    pub(crate) fn unread(&self) -> u64 {
        let borrowed = u64::from(self.borrowed);
        let counted = (self.state.queued() + u64::from(self.prefix)).saturating_sub(borrowed);
        // The dispatcher counts a slice after it has sent it, and the reader may have it already.
        counted.max((self.events().len() as u64).saturating_sub(borrowed))
    }

    /// Marks the first `events` events of the current slice as borrowed until the next call.
    pub(crate) fn borrow(&mut self, events: usize) {
        debug_assert!(self.borrowed == 0 && events <= self.events().len());
        // A slice is no longer than a queue or a prefix may be.
        self.borrowed = events as u32;
    }

    /// Moves past the first `events` events of the current slice, and frees their capacity.
    pub(crate) fn advance(&mut self, events: usize) {
        let Some(current) = &mut self.current else { return };
        current.advance(events);
        let from_prefix = events.min(self.prefix as usize);
        self.prefix -= from_prefix as u32;
        let counted = (events - from_prefix) as u64;
        if counted > 0 {
            self.expected += counted;
            self.consumed += counted;
            self.state.set_consumed(self.consumed);
        }
        if current.len() == 0 {
            self.reached = self.reached.max(current.position_behind(0));
            let done = self.current.take();
            // The bus waits only for handlers, and for readers whose policy waits for capacity.
            if self.announces || self.state.policy.waits() {
                self.announce();
            }
            // The last holder of a batch runs its events' destructors. They run after the
            // announcement, so that no thread waits for them.
            self.is_ahead = false;
            if let Some(BatchSlice::Own(mut own)) = done {
                self.is_ahead = own.has_few();
                own.clear();
                // It leaves its memory to the next batch.
                self.spare = Some(own);
            }
        } else if counted > 0 && self.state.policy.waits() {
            // The reader may stop reading before it reaches the end of the slice.
            self.make_room();
        }
    }

    /// Ends the borrow.
    pub(crate) fn release(&mut self) {
        if self.borrowed > 0 {
            let borrowed = std::mem::take(&mut self.borrowed);
            self.advance(borrowed as usize);
        } else if self.announces && self.handled != self.expected && self.current.is_none() {
            // A gap without an event after it has been handled, too.
            self.announce();
        }
    }

    /// Announces the end of a slice: wakes a dispatcher that waits for capacity. If `announces` is
    /// set, also publishes the handler's progress, and wakes the threads and tasks that wait for
    /// it.
    fn announce(&mut self) {
        if self.announces {
            self.handled = self.expected;
            self.state.set_handled(self.handled);
        }
        self.make_room();
        if self.announces {
            self.bus.done.wake_all();
        }
    }

    // ── for a bulk reader ──

    /// Returns whether there may be something to receive, or the end.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn has_news(&self) -> bool {
        !self.ended
            && (self.current.is_some() || self.state.decided() > self.expected || self.state.end().is_some())
    }

    /// Takes out the current slice, whose capacity is freed later. Returns `None` if there is none.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn take_current(&mut self) -> Option<BatchSlice<T>> {
        let slice = self.current.take()?;
        self.expected += slice.len() as u64;
        Some(slice)
    }

    /// Frees the capacity of `events` events that were taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn give_back(&mut self, events: u64) {
        self.consumed += events;
        self.state.set_consumed(self.consumed);
        self.make_room();
    }

    /// Publishes a handler's progress, and wakes the threads and tasks that wait for it. `None`
    /// means the offset after the last event that was taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn set_handled(&mut self, offset: Option<u64>) {
        let offset = offset.unwrap_or(self.expected);
        if offset != self.handled {
            self.handled = offset;
            self.state.set_handled(offset);
            full_fence();
            self.bus.done.wake_all();
        }
    }

    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn park(&self, deadline: Deadline) {
        self.bus.clock.park(&self.parker, deadline);
    }

    /// Wakes a dispatcher that waits for the freed capacity. Fences.
    fn make_room(&self) {
        full_fence();
        if self.state.is_room_wanted(self.consumed) {
            self.bus.room_came();
        }
    }

    /// Ends the receiver, and counts the remaining events as lost. The dispatcher may be offering
    /// at the same time. It checks after its own fence whether the reader is gone, so one of the
    /// two finds each slice.
    fn retire(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        let abandoned = self.bus.is_abandoned();
        let gave_up = abandoned && self.state.is_handler && !self.state.is_stopped();
        // The reader empties the queue before it sets the flag GONE. From then on the dispatcher
        // may empty the queue as well, and would drop what it finds on its own thread.
        let (current, mut queued) = (self.current.take(), self.queue.take_all());
        let first = self.state.set_gone(gave_up);
        full_fence();
        queued.extend(self.queue.take_all());
        let in_current =
            current.as_ref().map_or(0, |current| current.len().saturating_sub(self.prefix as usize)) as u64;
        let discarded = in_current + events_in(&queued);
        if discarded > 0 {
            self.state.count_discarded(discarded, abandoned);
        }
        // The dispatcher has to remove the sender:
        // - If this reader is the first to stop the watcher: it asks the dispatcher to reap the
        //   watcher.
        // - If another thread has stopped the watcher: that thread asks the dispatcher.
        // - If the mailbox is closed: the dispatcher has no sender, because the bus has ended, or
        //   the watcher was not registered.
        // - If a handler abandons its queue: it stays listed until the end, so that events that are
        //   still accepted count as abandoned. The shutdown by deadline has woken the dispatcher.
        if first && !gave_up {
            self.bus.reap(self.state.id);
        }
        let hook = self.on_abandon.take();
        catch_panic(|| {
            if let Some(mut hook) = hook.filter(|_| abandoned && discarded > 0) {
                hook(&self.state.name, discarded);
            }
        });
        // The events' destructors run last, on this thread, so the dispatcher does not wait for
        // them.
        drop((current, queued));
    }
}

impl<T> Drop for MailboxReceiver<T> {
    fn drop(&mut self) {
        // The caller has seen the events that it borrowed.
        self.release();
        // First, so that a watcher that was never registered is not listed for a reap.
        self.bus.withdraw(&self.state);
        self.retire();
        self.bus.receiver_dropped(&self.state);
    }
}
