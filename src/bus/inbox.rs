//! The reader's end of a mailbox: what is in hand, the position, and giving room back.

#[cfg(feature = "async")]
use std::task::Poll;
#[cfg(any(feature = "async", feature = "select"))]
use std::task::Waker;

use crate::clock::Deadline;
use crate::guard::guarded;
use crate::sync::{Arc, Parker};

use super::batch::{Frozen, Slice};
use super::core::Core;
use super::hub::Hub;
use super::queue::{Queue, events_in};
use super::sleeper::{full_fence, look, spin};

/// Learns how many events the queue of the watcher of this name held when a shutdown by deadline
/// gave it up.
pub(super) type OnAbandon = Box<dyn FnMut(&str, u64) + Send>;

pub(super) struct Inbox<T> {
    pub(super) core: Arc<Core>,
    pub(super) hub: Arc<Hub>,
    queue: Arc<Queue<T>>,
    parker: Parker,
    /// What was taken out of the queue and not yet given out.
    hand: Option<Slice<T>>,
    /// Events at the beginning of `hand` that are lent to the caller until its next call.
    lent: usize,
    /// Events at the beginning of `hand` that came as a prefix, not through the queue.
    prefix: usize,
    /// Events that came through the queue and are no longer in hand, as published.
    consumed: u64,
    /// The position of the next event.
    expected: u64,
    /// What of `expected` was published for those who wait for a handler.
    handled: u64,
    /// Whether the end of each slice tells them, because it has been handled then.
    pub(super) announces: bool,
    on_abandon: Option<OnAbandon>,
    ended: bool,
}

/// What a reader finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// There is an event in hand.
    Event,
    /// So many were lost just here.
    Lagged(u64),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

impl<T> Inbox<T> {
    pub(super) fn new(
        core: Arc<Core>,
        hub: Arc<Hub>,
        queue: Arc<Queue<T>>,
        parker: Parker,
        prefix: Vec<T>,
        on_abandon: Option<OnAbandon>,
    ) -> Self {
        let events = prefix.len();
        let hand = (events > 0).then(|| Slice::new(Frozen::new(prefix), 0, events, 0));
        let announces = core.is_handler;
        Self {
            core,
            hub,
            queue,
            parker,
            hand,
            lent: 0,
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
    pub(super) fn next(&mut self) -> Next {
        self.take_back();
        if self.hand.is_some() {
            return Next::Event;
        }
        if self.ended {
            return Next::End;
        }
        // In this order: whoever sees the end, or a position decided, then finds in the queue all that came before.
        let over = self.core.is_over();
        let decided = self.core.decided();
        if let Some(slice) = self.queue.pop() {
            let gap = slice.position() - self.expected;
            self.expected = slice.position();
            self.hand = Some(slice);
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
    pub(super) fn wait(&mut self, deadline: Deadline) -> Next {
        if let Some(next) = look(|| self.found()).or_else(|| self.spin(deadline)) {
            return next;
        }
        loop {
            self.core.sleeper.arm();
            let next = self.next();
            if next != Next::Empty || self.hub.clock.has_passed(deadline) {
                self.core.sleeper.disarm();
                return next;
            }
            self.hub.clock.park(&self.parker, deadline);
        }
    }

    fn spin(&mut self, deadline: Deadline) -> Option<Next> {
        let time = self.hub.spin;
        spin(time, || self.found().or_else(|| self.hub.clock.has_passed(deadline).then_some(Next::Empty)))
    }

    fn found(&mut self) -> Option<Next> {
        Some(self.next()).filter(|next| *next != Next::Empty)
    }

    /// What there is now; if nothing, `waker` is called when it is worth another look.
    #[cfg(feature = "async")]
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<Next> {
        if let Some(next) = self.found() {
            return Poll::Ready(next);
        }
        self.core.sleeper.arm_task(waker);
        match self.found() {
            Some(next) => {
                self.core.sleeper.disarm_task();
                Poll::Ready(next)
            }
            None => Poll::Pending,
        }
    }

    /// Arranges that `waker` is called when there is something, or the end; at once if there is now.
    #[cfg(feature = "select")]
    pub(super) fn notify(&self, waker: &Waker) {
        self.core.sleeper.arm_task(waker);
        let in_hand = self.events().len();
        // What is lent counts, too: its room is given back by the next receive, for which the dispatcher may wait.
        let known = self.expected + (in_hand - self.prefix) as u64;
        if in_hand > 0 || self.ended || self.core.decided() > known || self.core.is_over() {
            waker.wake_by_ref();
        }
    }

    /// The events in hand.
    pub(super) fn events(&self) -> &[T] {
        self.hand.as_ref().map_or(&[], Slice::events)
    }

    /// Lends the first events in hand until the next call.
    pub(super) fn lend(&mut self, events: usize) {
        debug_assert!(self.lent == 0 && events <= self.events().len());
        self.lent = events;
    }

    /// The first events in hand are done with: their room is given back.
    pub(super) fn pass(&mut self, events: usize) {
        let Some(hand) = &mut self.hand else { return };
        hand.advance(events);
        let from_prefix = events.min(self.prefix);
        self.prefix -= from_prefix;
        let counted = (events - from_prefix) as u64;
        if counted > 0 {
            self.expected += counted;
            self.consumed += counted;
            self.core.set_consumed(self.consumed);
        }
        if hand.len() == 0 {
            let done = self.hand.take();
            self.announce();
            // The last who holds a batch runs its events' destructors: nobody should wait for them.
            drop(done);
        } else if counted > 0 && self.core.policy.waits() {
            // The reader may stay away before the slice ends.
            self.make_room();
        }
    }

    /// Ends what was lent.
    pub(super) fn take_back(&mut self) {
        if self.lent > 0 {
            let lent = std::mem::take(&mut self.lent);
            self.pass(lent);
        } else if self.announces && self.handled != self.expected && self.hand.is_none() {
            // A gap at the end has been handled too.
            self.announce();
        }
    }

    /// At the end of a slice: tells those who wait for a handler how far it is.
    fn announce(&mut self) {
        if self.announces {
            self.handled = self.expected;
            self.core.set_handled(self.handled);
        }
        self.make_room();
        if self.announces {
            self.hub.done.wake_all();
        }
    }

    // ── for a feed ──

    /// Whether there may be something to receive, or the end.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(super) fn has_news(&self) -> bool {
        !self.ended && (self.hand.is_some() || self.core.decided() > self.expected || self.core.is_over())
    }

    /// Takes out what is in hand. Its room is given back later.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(super) fn take_hand(&mut self) -> Option<Slice<T>> {
        let slice = self.hand.take()?;
        self.expected += slice.len() as u64;
        Some(slice)
    }

    /// Gives back the room of so many that were taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(super) fn give_back(&mut self, events: u64) {
        self.consumed += events;
        self.core.set_consumed(self.consumed);
        self.make_room();
    }

    /// Tells those who wait for a handler how far it is: up to this position, or with everything that was taken out.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(super) fn set_handled(&mut self, position: Option<u64>) {
        let position = position.unwrap_or(self.expected);
        if position != self.handled {
            self.handled = position;
            self.core.set_handled(position);
            full_fence();
            self.hub.done.wake_all();
        }
    }

    #[cfg(any(feature = "recorder", eventcast_loom))]
    pub(super) fn park(&self, deadline: Deadline) {
        self.hub.clock.park(&self.parker, deadline);
    }

    /// Tells a dispatcher that waits for the room that has been given back. Fences.
    fn make_room(&self) {
        full_fence();
        if self.core.is_room_wanted(self.consumed) {
            self.hub.dispatcher.wake();
        }
    }

    /// Takes no more, and counts what is left as lost. The dispatcher, which may be offering at this moment, looks after
    /// its own fence whether the reader has gone: one of the two finds each slice.
    fn retire(&mut self) {
        if self.ended {
            return;
        }
        self.ended = true;
        let abandoned = self.hub.is_abandoned();
        let gave_up = abandoned && self.core.is_handler && !self.core.is_stopped();
        // What is here already is taken out before the dispatcher can see that nobody will: it throws away what it finds.
        let (hand, mut queued) = (self.hand.take(), self.queue.take_all());
        let first = self.core.set_gone(gave_up);
        full_fence();
        queued.extend(self.queue.take_all());
        let in_hand = hand.as_ref().map_or(0, |hand| hand.len() - self.prefix.min(hand.len())) as u64;
        let discarded = in_hand + events_in(&queued);
        if discarded > 0 {
            self.core.count_discarded(discarded, abandoned);
        }
        // A handler that gives up stays listed to the end, so that what is still accepted is counted as abandoned.
        // Otherwise the dispatcher has been told already: by whoever stopped the watcher, or by the shutdown that gave up.
        if first && !gave_up {
            self.hub.reap(self.core.id);
        }
        let hook = self.on_abandon.take();
        guarded(|| {
            if let Some(mut hook) = hook.filter(|_| abandoned && discarded > 0) {
                hook(&self.core.name, discarded);
            }
        });
        // The events' destructors run last, on this thread: the dispatcher does not wait for them.
        drop((hand, queued));
    }
}

impl<T> Drop for Inbox<T> {
    fn drop(&mut self) {
        // What was lent has been seen.
        self.take_back();
        self.retire();
        self.hub.forget_reader(&self.core);
    }
}
