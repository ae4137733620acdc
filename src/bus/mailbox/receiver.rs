//! The reader's end of a mailbox, which holds the current slice and the offset, and frees capacity.

use std::any::Any;
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
    queue: SliceQueue<T>,
    parker: Parker,
    /// The current slice, which has been taken out of the queue but not fully read yet.
    current: Option<BatchSlice<T>>,
    /// A batch that has been read, whose memory is reused for the next events.
    spare: Option<Box<OwnBatch<T>>>,
    /// The number of events at the beginning of `current` that the caller borrows until its next
    /// call.
    borrowed: u32,
    /// The number of events at the beginning of `current` that belong to a prefix, and therefore
    /// have not passed through the queue.
    prefix: u32,
    /// The number of events from the queue whose capacity has been freed, as last published.
    consumed: u64,
    /// The offset of the next event.
    expected: u64,
    /// The position up to which everything has been decided, according to the slices and gaps that
    /// the reader has already passed. Zero if the reader has not passed any.
    reached: u64,
    /// The offset last published for threads and tasks waiting for a handler.
    handled: u64,
    /// Whether the receiver publishes `handled` at the end of each slice, because the slice has
    /// been handled by then.
    pub(crate) announces: bool,
    /// Whether the last slice was a growing queue's batch with few events, which means that the
    /// reader is faster than the publishers.
    is_ahead: bool,
    /// The number of spins during which entries accumulate before the next pull.
    gather: u32,
    ended: bool,
    /// The reason why the watcher ended, once the reader has reached the end.
    pub(crate) end_reason: Option<EndReason>,
    /// The fan-out, if the bus may lend it to this reader.
    upstream: Option<Box<dyn Upstream>>,
    /// The last field, so that it is dropped when everything else has been.
    rare: Option<Box<Rare>>,
}

/// The fields that few watchers use, boxed so that the other watchers are smaller.
#[derive(Default)]
struct Rare {
    /// The hook for abandoned events.
    on_abandon: Option<OnAbandon>,
    lease: Option<KeptByReader>,
}

/// A value that a reader drops last.
pub(crate) type KeptByReader = Box<dyn Any + Send + Sync>;

/// The fan-out, from the perspective of a reader to which it may be lent.
pub(crate) trait Upstream: Send + Sync {
    /// Spins `spins` times, and then offers the entries in the incoming queue if at least `least`
    /// entries are waiting. Returns the number of spins for the next call. Never waits.
    fn pull(&self, least: usize, spins: u32) -> u32;

    /// Hands the fan-out back, because the reader is about to sleep. The reader must already have
    /// armed its wake cell. Never waits.
    fn hand_back(&self);
}

/// The result of checking the mailbox for something to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// The current slice holds an event.
    Event,
    /// The reader has reached a gap of the given number of events.
    Lagged(u64),
    /// The mailbox has nothing to receive now.
    Empty,
    /// The watcher has ended, so nothing more will be received.
    End,
}

impl<T> MailboxReceiver<T> {
    pub(crate) fn new(
        state: Arc<WatcherState>,
        bus: Arc<BusState>,
        queue: SliceQueue<T>,
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
            // The cast does not truncate, because the builder has checked the length.
            prefix: events as u32,
            consumed: 0,
            expected: 0,
            reached: 0,
            handled: 0,
            announces,
            is_ahead: false,
            gather: 0,
            ended: false,
            end_reason: None,
            upstream,
            rare: on_abandon.map(|hook| Box::new(Rare { on_abandon: Some(hook), lease: None })),
        }
    }

    /// Keeps a value until everything else of this receiver has been dropped.
    pub(crate) fn keep(&mut self, lease: KeptByReader) {
        self.rare.get_or_insert_default().lease.get_or_insert(lease);
    }

    /// Ends the last call's borrow, and checks for the next event. Never waits.
    pub(crate) fn next(&mut self) -> Next {
        self.release();
        if self.current.is_some() {
            return Next::Event;
        }
        if self.ended {
            return Next::End;
        }
        // The end and the decided offset must be read before the queue. A reader that has seen the
        // end or a decided offset then finds everything before that point in the queue.
        let end = self.state.end();
        let decided = self.state.decided();
        // If nothing new has been decided, the reader does not contend with the publisher for a
        // growing queue's lock.
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

    /// Makes `slice` the current slice. Returns the length of the gap before the slice.
    fn set_current(&mut self, slice: BatchSlice<T>) -> u64 {
        let gap = slice.offset() - self.expected;
        self.expected = slice.offset();
        self.current = Some(slice);
        gap
    }

    /// If the event after the last gap is still in a ring, takes that event. The caller must have
    /// received the gap but not reported it yet. Returns the number of events that the ring has
    /// lost since the gap was received.
    pub(crate) fn take_behind_gap(&mut self) -> u64 {
        if self.current.is_some() {
            return 0;
        }
        self.queue.pop_behind_gap().map_or(0, |slice| self.set_current(slice))
    }

    /// Checks for the next event like [`next`](Self::next). If there is nothing to receive, and the
    /// fan-out is lent to this reader, pulls the entries waiting upstream, provided that at least
    /// `least` entries are waiting. If `waits` is set, may first spin for a few microseconds.
    pub(crate) fn next_or_pull(&mut self, least: usize, waits: bool) -> Next {
        let next = self.next();
        if next != Next::Empty {
            return next;
        }
        let Some(upstream) = self.lender() else { return next };
        self.gather = upstream.pull(least, if waits { self.gather } else { 0 });
        self.next()
    }

    /// Returns the fan-out if it is lent to this reader.
    fn lender(&self) -> Option<&dyn Upstream> {
        self.upstream.as_deref().filter(|_| self.bus.is_lent())
    }

    /// Waits until an event or a gap arrives, or the watcher ends. Returns `Empty` if the deadline
    /// passes first.
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Next {
        if self.is_ahead {
            // Each check fetches the cache lines to which the publisher writes. If the reader
            // checks less often, it finds more events per check, and both threads are faster.
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
        Some(self.next_or_pull(least, true)).filter(|next| *next != Next::Empty)
    }

    /// Arms the wake cell for this thread. The caller must then check the mailbox again.
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

    /// Returns the next item if one is available. Otherwise, arranges for `waker` to be called when
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

    /// Arranges for `waker` to be called when there is something to receive, or when the watcher
    /// ends. Calls `waker` immediately if there is already something to receive, or if the watcher
    /// has already ended.
    #[cfg(feature = "select")]
    pub(crate) fn notify(&self, waker: &Waker) {
        self.arm_task(waker);
        let in_current = self.events().len();
        // Borrowed events count, too, because the dispatcher may be waiting for their capacity,
        // which the next receive call frees.
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

    /// Returns the events in the current slice that have not been released.
    pub(crate) fn events(&self) -> &[T] {
        self.current.as_ref().map_or(&[], BatchSlice::events)
    }

    /// Returns the number of events left to receive. The number includes the events in the queue
    /// and in the current slice, but not the events that the caller has borrowed.
    pub(crate) fn unread(&self) -> u64 {
        let borrowed = u64::from(self.borrowed);
        let counted = (self.state.queued() + u64::from(self.prefix)).saturating_sub(borrowed);
        // The dispatcher counts a slice after sending it, so the reader may already have a slice
        // that is not counted yet.
        counted.max((self.events().len() as u64).saturating_sub(borrowed))
    }

    /// Marks the first `events` events of the current slice as borrowed until the next call.
    pub(crate) fn borrow(&mut self, events: usize) {
        debug_assert!(self.borrowed == 0 && events <= self.events().len());
        // The cast does not truncate, because a slice is no longer than the longest queue or
        // prefix.
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
            // The bus waits only for handlers, and for readers whose policy makes it wait for
            // capacity.
            if self.announces || self.state.policy.waits() {
                self.announce();
            }
            // The last holder of a batch runs the events' destructors. The slice is dropped after
            // the announcement, so that no thread waits for the destructors.
            self.is_ahead = false;
            if let Some(BatchSlice::Own(mut own)) = done {
                self.is_ahead = own.has_few() && self.queue.grows();
                own.clear();
                // The memory of this batch can be reused for the next batch.
                self.spare = Some(own);
            }
        } else if counted > 0 && self.state.policy.waits() {
            // The wake-up is not deferred to the end of the slice, because the reader may stop
            // reading before the end.
            self.make_room();
        }
    }

    /// Ends the caller's borrow of events, if there is one.
    pub(crate) fn release(&mut self) {
        if self.borrowed > 0 {
            let borrowed = std::mem::take(&mut self.borrowed);
            self.advance(borrowed as usize);
        } else if self.announces && self.handled != self.expected && self.current.is_none() {
            // If no event follows a gap, the gap has been handled as well.
            self.announce();
        }
    }

    /// Announces the end of a slice by waking a dispatcher that is waiting for capacity. If
    /// `announces` is set, also publishes the handler's progress, and wakes the threads and tasks
    /// waiting for it.
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
    /// Returns whether there may be something to receive, or whether the watcher may have ended.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn has_news(&self) -> bool {
        !self.ended
            && (self.current.is_some() || self.state.decided() > self.expected || self.state.end().is_some())
    }

    /// Takes out the current slice, without freeing its capacity yet. Returns `None` if there is no
    /// current slice.
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

    /// Publishes a handler's progress, and wakes the threads and tasks waiting for it. `None` means
    /// the offset after the last event that was taken out.
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

    /// Wakes a dispatcher that is waiting for the freed capacity. Issues a full fence.
    fn make_room(&self) {
        full_fence();
        if self.state.is_room_wanted(self.consumed) {
            self.bus.room_came();
        }
    }

    /// Ends the receiver, and counts the remaining events as lost. The dispatcher may be offering
    /// events at the same time. After its own fence, the dispatcher checks whether the reader is
    /// gone, so either the dispatcher or the reader finds each slice.
    fn retire(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        let abandoned = self.bus.is_abandoned();
        let gave_up = abandoned && self.state.is_handler && !self.state.is_stopped();
        // The reader empties the queue before it sets the GONE flag. Once the flag is set, the
        // dispatcher may empty the queue as well, and would then drop the remaining events on its
        // own thread.
        let (current, mut queued) = (self.current.take(), self.queue.take_all());
        let first = self.state.set_gone(gave_up, self.end_reason == Some(EndReason::Closed));
        full_fence();
        queued.extend(self.queue.take_all());
        let in_current =
            current.as_ref().map_or(0, |current| current.len().saturating_sub(self.prefix as usize)) as u64;
        let discarded = in_current + events_in(&queued);
        if discarded > 0 {
            self.state.count_discarded(discarded, abandoned);
        }
        // The dispatcher has to remove the sender. The removal is requested as follows:
        // - If this reader is the first to stop the watcher, the reader requests that the
        //   dispatcher reap the watcher.
        // - If another thread has already stopped the watcher, that thread makes the request.
        // - If the mailbox is closed, no request is needed, because the dispatcher has no sender.
        //   Either the bus has ended, or the watcher was not registered.
        // - If a handler abandons its queue, the handler stays listed until the bus ends, so that
        //   events that are still accepted count as abandoned. The shutdown with a deadline has
        //   already woken the dispatcher.
        if first && !gave_up {
            self.bus.reap(self.state.id);
        }
        let hook = self.rare.as_mut().and_then(|rare| rare.on_abandon.take());
        catch_panic(|| {
            if let Some(mut hook) = hook.filter(|_| abandoned && discarded > 0) {
                hook(&self.state.name.text(), discarded);
            }
        });
        // The events' destructors run last and on this thread, so the dispatcher does not wait for
        // them.
        drop((current, queued));
    }
}

impl<T> Drop for MailboxReceiver<T> {
    fn drop(&mut self) {
        // The caller has already seen the borrowed events, so they are released first.
        self.release();
        // The registration is withdrawn before the receiver is retired, so that a watcher that was
        // never registered is not listed for reaping.
        self.bus.withdraw(&self.state);
        self.retire();
        self.bus.receiver_dropped(&self.state);
    }
}
