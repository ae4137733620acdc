//! The front of an inline bus: a bus without a thread and without an incoming queue. Each publish
//! offers its events to the watchers itself, under one lock.
//!
//! Between two calls every accepted event is in the queue of each watcher, or is counted as
//! filtered or lost. Nothing is ever pending. One call:
//!
//! 1. Take the lock. This thread is the *owner* from here on.
//! 2. If the bus is closing, refuse. If a watcher with `Wait` has no capacity, refuse: the caller
//!    waits without the lock, and tries again.
//! 3. Accept, and offer to each mailbox in turn. Fence, and note the readers that sleep.
//! 4. Carry out what your code has added during the call (`nested.rs`).
//! 5. End the ownership. If work has become due (a watcher to reap, the close), do it, and end the
//!    ownership again.
//! 6. Release the lock. Only then wake readers and publishers, because a waker is user code and may
//!    take locks. Nested calls leave their wake-ups to the owner, too.
//!
//! # Rules
//!
//! - Publishing, registration, flushes and gaps wait for the lock. Receiving, `stop`, dropping a
//!   watcher, `close`, `shutdown`, `stats` and dropping the last handle do not: they leave due work
//!   to the owner (`state/owner.rs`).
//! - No thread holds the lock while it waits for capacity, a deadline or a reader.
//! - Filters, `on_drop`, `Clone` and `Drop` of events, and the completion run under it. Destructors
//!   of closures run without it. Lock order: `InlineFront::core` before `NestedEntries::list`,
//!   `SliceQueue::Growing`, `SliceQueue::Ring`, `FlushTicket::handlers`, `Registry::entries`,
//!   `Registry::reapable` and `Fake::state`.
//! - A call from inside a call of another inline bus tries the lock for a bounded time.

use std::time::Duration;

use crate::bus::counters::DropReason;
use crate::bus::mailbox::{Call, Entry, MailboxSender, Room};
use crate::bus::state::{BusState, Drive, Refusal};
use crate::bus::wait::{InsideCall, full_fence};
use crate::clock::Clock;
use crate::sync::{Arc, TryMutex, TryMutexGuard, thread};

use super::entry::{Control, Refused, Step};
use super::fan_out::{Completion, FanOut, drain_gone};
use super::later::Later;
use super::nested::NestedEntries;

/// How long a call from inside a call of another inline bus tries to get the lock. Two buses whose
/// filters publish into each other would wait forever.
const PATIENCE: Duration = Duration::from_millis(10);

pub(crate) struct InlineFront<T> {
    core: TryMutex<Core<T>>,
    nested: NestedEntries<T>,
}

/// The state that the lock guards.
struct Core<T> {
    fan_out: FanOut<T>,
    /// Whether a reader has been asked for a wake-up when there is capacity.
    has_wishes: bool,
    has_ended: bool,
}

impl<T: Clone + Send + Sync + 'static> InlineFront<T> {
    pub(crate) fn new(most_nested: usize, completion: Option<Completion<T>>, history: usize) -> Self {
        let fan_out = FanOut::new(completion, history);
        let core = Core { fan_out, has_wishes: false, has_ended: false };
        Self { core: TryMutex::new(core), nested: NestedEntries::new(most_nested) }
    }

    /// Accepts and offers an event or the first events of a batch.
    ///
    /// # Errors
    ///
    /// Returns the events that were not accepted, and the reason. If it is `Full`, a reader that
    /// frees capacity wakes a publisher.
    pub(crate) fn push(&self, entry: Entry<T>, call: &mut Call, bus: &BusState) -> Result<(), Refused<T>> {
        call.begin();
        if bus.is_closing() {
            return Err(Refused(entry, Refusal::Closed));
        }
        if bus.owner.is_this_thread() {
            return self.nested.add(entry);
        }
        let Some(guard) = self.enter() else { return Err(Refused(entry, Refusal::Full)) };
        let mut turn = Turn::begin(self, guard, bus);
        turn.push(entry, call)
    }

    /// Carries out a control entry.
    ///
    /// # Errors
    ///
    /// Returns the entry if it was not carried out, and the reason.
    pub(crate) fn control(&self, control: Control<T>, bus: &BusState) -> Result<(), (Control<T>, Refusal)> {
        if bus.is_closing() {
            return Err((control, Refusal::Closed));
        }
        if bus.owner.is_this_thread() {
            return self.nested.add_control(control);
        }
        let Some(guard) = self.enter() else { return Err((control, Refusal::Full)) };
        Turn::begin(self, guard, bus).do_control(control)
    }

    /// Returns whether every watcher that publishers wait for has capacity. If not, a reader that
    /// frees capacity wakes a publisher.
    pub(crate) fn has_room(&self, call: &mut Call, bus: &BusState) -> bool {
        call.begin();
        self.enter().is_none_or(|mut core| core.room_or_wish(None, 1, call, bus).is_some())
    }

    /// Takes the lock. Returns `None` if that takes too long inside a call of another inline bus.
    fn enter(&self) -> Option<TryMutexGuard<'_, Core<T>>> {
        if !InsideCall::is_marked() {
            return Some(self.core.lock());
        }
        let clock = Clock::system();
        let end = clock.deadline(PATIENCE);
        loop {
            if let Some(guard) = self.core.try_lock() {
                return Some(guard);
            }
            if clock.has_passed(end) {
                return None;
            }
            thread::yield_now();
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Drive for Arc<InlineFront<T>> {
    fn drive(&self, bus: &BusState) {
        // If there is no owner and the lock is taken, another thread is between two instructions:
        // it holds the lock and is not yet the owner, or no longer.
        while !bus.owner.ask() {
            if let Some(guard) = self.core.try_lock() {
                let mut turn = Turn::begin(self, guard, bus);
                turn.reap_or_end();
                turn.is_whole = true;
                return;
            }
            thread::yield_now();
        }
    }
}

/// One outermost call of the owner. Its drop ends the ownership and releases the lock.
struct Turn<'f, T: Clone + Send + Sync + 'static> {
    front: &'f InlineFront<T>,
    bus: &'f BusState,
    /// `None` once the lock has been released.
    core: Option<TryMutexGuard<'f, Core<T>>>,
    later: Later<T>,
    mark: Option<InsideCall>,
    /// Whether the call was refused for lack of capacity, and has asked the readers to wake a
    /// publisher.
    is_refused: bool,
    /// Whether the current step may end the call. This is false if something unforeseen unwinds.
    is_whole: bool,
}

impl<'f, T: Clone + Send + Sync + 'static> Turn<'f, T> {
    fn begin(front: &'f InlineFront<T>, core: TryMutexGuard<'f, Core<T>>, bus: &'f BusState) -> Self {
        bus.owner.set();
        front.nested.begin();
        Self {
            front,
            bus,
            core: Some(core),
            later: Later::default(),
            mark: Some(InsideCall::enter()),
            is_refused: false,
            is_whole: false,
        }
    }

    fn push(&mut self, entry: Entry<T>, call: &mut Call) -> Result<(), Refused<T>> {
        let result = self.accept(entry, call);
        self.carry_out_nested();
        self.is_whole = true;
        result
    }

    fn do_control(&mut self, control: Control<T>) -> Result<(), (Control<T>, Refusal)> {
        let result = if self.bus.is_closing() {
            Err((control, Refusal::Closed))
        } else {
            let left = self.core.as_mut().map_or(0, |core| core.look(self.bus).0);
            self.front.nested.set_events_left(left.min(control.credit_at_first()));
            self.control(control);
            self.carry_out_nested();
            Ok(())
        };
        self.is_whole = true;
        result
    }

    /// Accepts and offers the leading events for which there is capacity.
    ///
    /// # Errors
    ///
    /// Returns the others.
    fn accept(&mut self, mut entry: Entry<T>, call: &mut Call) -> Result<(), Refused<T>> {
        if self.bus.is_closing() {
            return Err(Refused(entry, Refusal::Closed));
        }
        let Some(room) = self.room_for(entry.events_mut(), call) else {
            return Err(Refused(entry, self.refusal()));
        };
        match &mut entry {
            Entry::Batch(events) if events.len() > room => {
                return self.accept_in_parts(std::mem::take(events), room, call);
            }
            // It stays where it is, because each move of a large event takes stack.
            _ => {}
        }
        self.front.nested.set_events_left(room - entry.len());
        self.offer(entry, Some(call));
        Ok(())
    }

    /// Accepts like [`accept`](Self::accept), if there is only capacity for the first `room`
    /// events. Moves each event once, however small the parts are.
    fn accept_in_parts(
        &mut self,
        events: Vec<T>,
        mut room: usize,
        call: &mut Call,
    ) -> Result<(), Refused<T>> {
        let mut rest = events.into_iter();
        loop {
            let part: Vec<T> = rest.by_ref().take(room).collect();
            self.front.nested.set_events_left(room - part.len());
            self.offer(Entry::Batch(part), Some(call));
            if rest.len() == 0 {
                return Ok(());
            }
            // A watcher that a nested call has registered counts for the next part.
            self.carry_out_nested();
            call.begin_anew();
            let is_closing = self.bus.is_closing();
            let more = if is_closing { None } else { self.room_for(rest.as_mut_slice(), call) };
            let Some(more) = more else {
                return Err(Refused(Entry::Batch(rest.collect()), self.refusal()));
            };
            room = more;
        }
    }

    /// Returns why there is no capacity.
    fn refusal(&self) -> Refusal {
        if self.bus.is_closing() { Refusal::Closed } else { Refusal::Full }
    }

    /// Returns how many of the events there is capacity for. If there is none, returns `None`, and
    /// asks the readers that free capacity for them to wake a publisher.
    fn room_for(&mut self, events: &mut [T], call: &mut Call) -> Option<usize> {
        let core = self.core.as_mut()?;
        // If filters are run here, a mailbox is full.
        self.front.nested.set_events_left(0);
        let most = events.len();
        let room = core.room_or_wish(events.first_mut(), most, call, self.bus);
        self.is_refused = room.is_none();
        room
    }

    /// Offers events, and notes the readers that sleep. A watcher that has no capacity for some of
    /// them has been full for its limit, and loses these.
    fn offer(&mut self, events: Entry<T>, call: Option<&Call>) {
        let (Some(core), bus, later) = (self.core.as_mut(), self.bus, &mut self.later) else {
            return;
        };
        core.use_decisions(call);
        let time_out = |_, sender: &mut MailboxSender<T>| sender.lose_pending(DropReason::TimedOut);
        let show = |sender: &mut MailboxSender<T>| show(sender, later, bus);
        core.fan_out.offer(events, false, bus, time_out, show, || ());
    }

    fn control(&mut self, control: Control<T>) {
        let (Some(core), bus, later) = (self.core.as_mut(), self.bus, &mut self.later) else {
            return;
        };
        // The caller of a flush checks the ticket next.
        let stopped = core.fan_out.carry_out(control, bus, |sender| show(sender, later, bus));
        if let Some(stopped) = stopped {
            later.close(stopped, bus);
        }
    }

    /// Carries out, in order, the entries that nested calls have added. Doing so may add more.
    fn carry_out_nested(&mut self) {
        while let Some(step) = self.front.nested.take() {
            match step {
                Step::Offer(events) => self.offer(events, None),
                Step::Control(control) => self.control(control),
            }
        }
    }

    /// Reaps the watchers that have stopped, and ends the bus if it is closing.
    fn reap_or_end(&mut self) {
        let (Some(core), later) = (self.core.as_mut(), &mut self.later) else { return };
        if self.bus.registry.must_reap() {
            core.fan_out.reap(self.bus, |sender| later.close(sender, self.bus));
        }
        if self.bus.is_closing() && !std::mem::replace(&mut core.has_ended, true) {
            later.end(&mut core.fan_out, self.bus);
        }
        later.note_due();
    }

    /// Ends the bus after something unforeseen has unwound this thread: no thread may be left
    /// waiting.
    #[cold]
    fn fail(&mut self) {
        self.bus.close();
        let Some(core) = self.core.as_mut() else { return };
        let nested = std::iter::from_fn(|| self.front.nested.take());
        self.later.keep(core.fan_out.give_up(nested, self.bus));
        self.reap_or_end();
    }
}

impl<T: Clone + Send + Sync + 'static> Drop for Turn<'_, T> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.fail();
        }
        while self.bus.owner.leave() {
            self.bus.owner.set();
            self.reap_or_end();
        }
        // A publisher that got a turn and did not use it must not delay the others.
        let is_refused = self.is_refused;
        if self.core.as_mut().is_some_and(|core| !is_refused && core.passes_turn_on(self.bus)) {
            self.later.note_room();
        }
        self.core = None;
        self.mark = None;
        self.later.carry_out(self.bus);
    }
}

impl<T> Core<T> {
    /// Keeps the filters that a publish has run on its first event from being run again.
    fn use_decisions(&mut self, call: Option<&Call>) {
        if let Some(call) = call.filter(|call| call.has_asked()) {
            self.fan_out.senders.iter_mut().for_each(|sender| sender.set_judged(call));
        }
    }

    /// Calls [`room_for`](Self::room_for). If there is no capacity, asks the readers to wake a
    /// publisher once there is capacity for `events` events, and checks again.
    fn room_or_wish(
        &mut self,
        mut first: Option<&mut T>,
        events: usize,
        call: &mut Call,
        bus: &BusState,
    ) -> Option<usize> {
        let room = self.room_for(first.as_deref_mut(), call, bus);
        if room.is_some() {
            return room;
        }
        // A batch waits for much capacity, unless other publishers wait, which may need only one
        // slot.
        self.wish_for(if bus.room.has_several() { 1 } else { events }, bus);
        self.room_for(first, call, bus)
    }

    /// Returns how many events there is capacity for, of which this is the first. Returns `None` if
    /// there is none. The filters of full watchers are run on the event, if there is one and
    /// nothing else is in its way.
    fn room_for(&mut self, first: Option<&mut T>, call: &mut Call, bus: &BusState) -> Option<usize> {
        let (mut least, mut asks) = (usize::MAX, false);
        // Each sender notes since when it has no capacity.
        for sender in &mut self.fan_out.senders {
            match sender.room(&bus.clock, call) {
                Room::For(events) => least = least.min(events),
                Room::IfFiltered => asks = true,
                Room::Full => least = 0,
            }
        }
        if least == 0 || !asks {
            return (least > 0).then_some(least);
        }
        let first = first?;
        // A filter sees complete events only. Completing an event twice changes nothing.
        if let Some(complete) = &self.fan_out.completion {
            complete(first);
        }
        for sender in &mut self.fan_out.senders {
            let is_full = sender.room(&bus.clock, call) == Room::IfFiltered;
            if is_full && !sender.refuses(first, bus, call) {
                return None;
            }
        }
        Some(1)
    }

    /// Asks the readers of full mailboxes to wake a publisher when there is capacity for this many
    /// events. The caller then checks again: a reader frees capacity, fences, and checks the
    /// request.
    #[cold]
    fn wish_for(&mut self, events: usize, bus: &BusState) {
        self.has_wishes = true;
        for sender in &mut self.fan_out.senders {
            if !matches!(sender.look(&bus.clock), Room::For(_)) {
                sender.wish_for(events);
                if sender.filter.is_some() {
                    bus.room.pass_behind();
                }
            }
        }
        full_fence();
    }

    /// Returns whether another publisher waits and there may be capacity for it. If there is no
    /// capacity, a reader that frees some wakes it. If no publisher waits, the readers need not
    /// wake any.
    fn passes_turn_on(&mut self, bus: &BusState) -> bool {
        if !bus.room.is_waited_for() {
            if std::mem::take(&mut self.has_wishes) {
                self.fan_out.senders.iter().for_each(|sender| sender.state.has_room());
            }
            return false;
        }
        let (mut least, mut is_any_free) = self.look(bus);
        if least == 0 {
            self.wish_for(1, bus);
            (least, is_any_free) = self.look(bus);
        }
        least > 0 || is_any_free && bus.room.passes_behind()
    }

    /// Returns how many events all watchers that publishers wait for have capacity for, and whether
    /// any of these watchers has capacity, for a caller that publishes nothing.
    fn look(&mut self, bus: &BusState) -> (usize, bool) {
        let (mut least, mut is_any_free) = (usize::MAX, false);
        // If publishers wait for no watcher, this takes no time.
        let waits = self.fan_out.waited_for > 0;
        for sender in self.fan_out.senders.iter_mut().filter(|_| waits) {
            match sender.look(&bus.clock) {
                Room::For(usize::MAX) => {}
                Room::For(events) => (least, is_any_free) = (least.min(events), true),
                Room::IfFiltered | Room::Full => least = 0,
            }
        }
        (least, is_any_free)
    }
}

/// Notes a reader that sleeps, and empties the queue of a reader that is gone. The caller has
/// fenced since its offer.
fn show<T>(sender: &mut MailboxSender<T>, later: &mut Later<T>, bus: &BusState) {
    later.note(&sender.state);
    drain_gone(sender, bus);
}
