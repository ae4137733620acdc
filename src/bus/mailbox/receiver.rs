//! The reader's end of a mailbox: what is in hand, the position, and giving room back.

use std::task::{Poll, Waker};

use crate::bus::state::{Lifecycle, WatcherState};
use crate::bus::wait::{full_fence, spin_for, spin_until};
use crate::catch::catch_panic;
use crate::clock::Deadline;
use crate::sync::{Arc, Parker};

use super::hooks::OnAbandon;
use super::queue::{SliceQueue, events_in};
use super::slice::{BatchSlice, SharedBatch};

pub(crate) struct MailboxReceiver<T> {
    pub(crate) state: Arc<WatcherState>,
    pub(crate) lifecycle: Arc<Lifecycle>,
    queue: Arc<SliceQueue<T>>,
    parker: Parker,
    /// What was taken out of the queue and not yet given out.
    current: Option<BatchSlice<T>>,
    /// Events at the beginning of `current` that are lent to the caller until its next call.
    borrowed: usize,
    /// Events at the beginning of `current` that came as a prefix, not through the queue.
    prefix: usize,
    /// Events that came through the queue and are no longer in hand, as published.
    consumed: u64,
    /// The position of the next event.
    expected: u64,
    /// What of `expected` was published for those who wait for a handler.
    handled: u64,
    /// Whether the end of each slice tells them, because it has been handled then.
    pub(crate) announces: bool,
    on_abandon: Option<OnAbandon>,
    ended: bool,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// There is an event in hand.
    Event,
    /// So many were lost just here.
    Lagged(u64),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

impl<T> MailboxReceiver<T> {
    pub(crate) fn new(
        state: Arc<WatcherState>,
        lifecycle: Arc<Lifecycle>,
        queue: Arc<SliceQueue<T>>,
        parker: Parker,
        prefix: Vec<T>,
        on_abandon: Option<OnAbandon>,
    ) -> Self {
        let events = prefix.len();
        let current = (events > 0).then(|| BatchSlice::new(SharedBatch::new(prefix), 0, events, 0));
        let announces = state.is_handler;
        Self {
            state,
            lifecycle,
            queue,
            parker,
            current,
            borrowed: 0,
            prefix: events,
            consumed: 0,
            expected: 0,
            handled: 0,
            announces,
            on_abandon,
            ended: false,
        }
    }

    /// Ends what the last call lent, and looks for more. Never waits.
    pub(crate) fn next(&mut self) -> Next {
        self.release();
        if self.current.is_some() {
            return Next::Event;
        }
        if self.ended {
            return Next::End;
        }
        // In this order: whoever sees the end, or a position decided, then finds in the queue all that came before.
        let over = self.state.is_over();
        let decided = self.state.decided();
        if let Some(slice) = self.queue.pop() {
            let gap = slice.position() - self.expected;
            self.expected = slice.position();
            self.current = Some(slice);
            return if gap > 0 { Next::Lagged(gap) } else { Next::Event };
        }
        if decided > self.expected {
            let gap = decided - self.expected;
            self.expected = decided;
            return Next::Lagged(gap);
        }
        if over {
            self.retire();
            return Next::End;
        }
        Next::Empty
    }

    /// Waits until there is something, or the end, or the deadline (then `Empty`).
    pub(crate) fn wait(&mut self, deadline: Deadline) -> Next {
        if let Some(next) = spin_until(|| self.found()).or_else(|| self.spin(deadline)) {
            return next;
        }
        loop {
            self.state.wake_cell.arm();
            let next = self.next();
            if next != Next::Empty || self.lifecycle.clock.has_passed(deadline) {
                self.state.wake_cell.disarm();
                return next;
            }
            self.lifecycle.clock.park(&self.parker, deadline);
        }
    }

    fn spin(&mut self, deadline: Deadline) -> Option<Next> {
        let time = self.lifecycle.spin;
        spin_for(time, || {
            self.found().or_else(|| self.lifecycle.clock.has_passed(deadline).then_some(Next::Empty))
        })
    }

    fn found(&mut self) -> Option<Next> {
        Some(self.next()).filter(|next| *next != Next::Empty)
    }

    /// What there is now; if nothing, `waker` is called when it is worth another look.
    pub(crate) fn poll(&mut self, waker: &Waker) -> Poll<Next> {
        if let Some(next) = self.found() {
            return Poll::Ready(next);
        }
        self.state.wake_cell.arm_task(waker);
        match self.found() {
            Some(next) => {
                self.state.wake_cell.disarm_task();
                Poll::Ready(next)
            }
            None => Poll::Pending,
        }
    }

    /// Arranges that `waker` is called when there is something, or the end; at once if there is now.
    #[cfg(feature = "select")]
    pub(crate) fn notify(&self, waker: &Waker) {
        self.state.wake_cell.arm_task(waker);
        let in_current = self.events().len();
        // What is lent counts, too: its room is given back by the next receive, for which the dispatcher may wait.
        let known = self.expected + (in_current - self.prefix) as u64;
        if in_current > 0 || self.ended || self.state.decided() > known || self.state.is_over() {
            waker.wake_by_ref();
        }
    }

    /// The events in hand.
    pub(crate) fn events(&self) -> &[T] {
        self.current.as_ref().map_or(&[], BatchSlice::events)
    }

    /// Lends the first events in hand until the next call.
    pub(crate) fn borrow(&mut self, events: usize) {
        debug_assert!(self.borrowed == 0 && events <= self.events().len());
        self.borrowed = events;
    }

    /// The first events in hand are done with: their room is given back.
    pub(crate) fn advance(&mut self, events: usize) {
        let Some(current) = &mut self.current else { return };
        current.advance(events);
        let from_prefix = events.min(self.prefix);
        self.prefix -= from_prefix;
        let counted = (events - from_prefix) as u64;
        if counted > 0 {
            self.expected += counted;
            self.consumed += counted;
            self.state.set_consumed(self.consumed);
        }
        if current.len() == 0 {
            let done = self.current.take();
            self.announce();
            // The last who holds a batch runs its events' destructors: nobody should wait for them.
            drop(done);
        } else if counted > 0 && self.state.policy.waits() {
            // The reader may stay away before the slice ends.
            self.make_room();
        }
    }

    /// Ends what was lent.
    pub(crate) fn release(&mut self) {
        if self.borrowed > 0 {
            let borrowed = std::mem::take(&mut self.borrowed);
            self.advance(borrowed);
        } else if self.announces && self.handled != self.expected && self.current.is_none() {
            // A gap at the end has been handled too.
            self.announce();
        }
    }

    /// At the end of a slice: tells those who wait for a handler how far it is.
    fn announce(&mut self) {
        if self.announces {
            self.handled = self.expected;
            self.state.set_handled(self.handled);
        }
        self.make_room();
        if self.announces {
            self.lifecycle.done.wake_all();
        }
    }

    // ── for a feed ──

    /// Whether there may be something to receive, or the end.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn has_news(&self) -> bool {
        !self.ended
            && (self.current.is_some() || self.state.decided() > self.expected || self.state.is_over())
    }

    /// Takes out what is in hand. Its room is given back later.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn take_current(&mut self) -> Option<BatchSlice<T>> {
        let slice = self.current.take()?;
        self.expected += slice.len() as u64;
        Some(slice)
    }

    /// Gives back the room of so many that were taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn give_back(&mut self, events: u64) {
        self.consumed += events;
        self.state.set_consumed(self.consumed);
        self.make_room();
    }

    /// Tells those who wait for a handler how far it is: up to this position, or with everything that was taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn set_handled(&mut self, position: Option<u64>) {
        let position = position.unwrap_or(self.expected);
        if position != self.handled {
            self.handled = position;
            self.state.set_handled(position);
            full_fence();
            self.lifecycle.done.wake_all();
        }
    }

    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(crate) fn park(&self, deadline: Deadline) {
        self.lifecycle.clock.park(&self.parker, deadline);
    }

    /// Tells a dispatcher that waits for the room that has been given back. Fences.
    fn make_room(&self) {
        full_fence();
        if self.state.is_room_wanted(self.consumed) {
            self.lifecycle.dispatcher.wake();
        }
    }

    /// Takes no more, and counts what is left as lost. The dispatcher, which may be offering at this moment, looks after
    /// its own fence whether the reader has gone: one of the two finds each slice.
    fn retire(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        let abandoned = self.lifecycle.is_abandoned();
        let gave_up = abandoned && self.state.is_handler && !self.state.is_stopped();
        // What is here already is taken out before the dispatcher can see that nobody will: it throws away what it finds.
        let (current, mut queued) = (self.current.take(), self.queue.take_all());
        let first = self.state.set_gone(gave_up);
        full_fence();
        queued.extend(self.queue.take_all());
        let in_current =
            current.as_ref().map_or(0, |current| current.len() - self.prefix.min(current.len())) as u64;
        let discarded = in_current + events_in(&queued);
        if discarded > 0 {
            self.state.count_discarded(discarded, abandoned);
        }
        // A handler that gives up stays listed to the end, so that what is still accepted is counted as abandoned.
        // Otherwise the dispatcher has been told already: by whoever stopped the watcher, or by the shutdown that gave up.
        if first && !gave_up {
            self.lifecycle.reap(self.state.id);
        }
        let hook = self.on_abandon.take();
        catch_panic(|| {
            if let Some(mut hook) = hook.filter(|_| abandoned && discarded > 0) {
                hook(&self.state.name, discarded);
            }
        });
        // The events' destructors run last, on this thread: the dispatcher does not wait for them.
        drop((current, queued));
    }
}

impl<T> Drop for MailboxReceiver<T> {
    fn drop(&mut self) {
        // What was lent has been seen.
        self.release();
        self.retire();
        self.lifecycle.receiver_dropped(&self.state);
    }
}
