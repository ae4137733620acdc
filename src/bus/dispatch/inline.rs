//! The front of an inline bus, which has neither a thread nor an incoming queue. Each publish call
//! offers its events to the watchers itself, while holding a single lock.
//!
//! Between two calls, every accepted event is in each watcher's queue, or is counted as filtered or
//! lost. No event is ever pending. A call consists of the following steps:
//!
//! 1. Take the lock. From now on, the current thread is the *owner*.
//! 2. If the bus is closing, refuse the entry. If a watcher with `Wait` has no capacity, refuse the
//!    entry as well. The caller then waits without holding the lock, and tries again.
//! 3. Accept the events, and offer them to each mailbox in turn. After each group of mailboxes,
//!    issue a fence, and note the sleeping readers.
//! 4. Process the entries that user code has added during the call (`nested.rs`).
//! 5. End the ownership. If work has become due (reaping a watcher or closing the bus), do this
//!    work, and end the ownership again.
//! 6. Release the lock. Wake readers and publishers only after releasing the lock, because a waker
//!    is user code and may take locks. Nested calls leave their wake-ups to the owner as well.
//!
//! # Rules
//!
//! - Publishing, registration, flushes and gaps wait for the lock. Receiving, `stop`, dropping a
//!   watcher, `close`, `shutdown`, `stats` and dropping the last handle do not wait for the lock.
//!   These calls leave due work to the owner (`state/owner.rs`).
//! - No thread holds the lock while waiting for capacity, a deadline or a reader.
//! - Filters, `on_drop`, the `Clone` and `Drop` of events, and the completion function run while
//!   the lock is held. The destructors of a removed watcher's closures run after the lock has been
//!   released. Lock order: `InlineFront::core` before `NestedEntries::list`, `SliceQueue::Growing`,
//!   `SliceQueue::Ring`, `SliceQueue::Conflating`, `FlushTicket::handlers`, `Registry::entries`,
//!   `Registry::reapable` and `Fake::state`.
//! - If a call is made from inside a call to another inline bus, it tries to acquire the lock only
//!   for a bounded time.

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

/// The maximum time for which a call made from inside a call to another inline bus tries to acquire
/// the lock. Without this limit, two threads could wait for each other forever if the filters of
/// two buses publish on each other's bus.
const PATIENCE: Duration = Duration::from_millis(10);

pub(crate) struct InlineFront<T> {
    core: TryMutex<Core<T>>,
    nested: NestedEntries<T>,
}

/// The state protected by the bus's lock.
struct Core<T> {
    fan_out: FanOut<T>,
    /// Whether any reader has been asked to wake a publisher once there is capacity.
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
    /// Returns the events that were not accepted, and the reason. If the reason is `Full`, a reader
    /// that frees capacity will wake a publisher.
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

    /// Processes a control entry.
    ///
    /// # Errors
    ///
    /// If the entry is refused, returns the entry and the reason.
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

    /// Returns whether every watcher that publishers wait for has capacity. If it returns `false`,
    /// a reader that frees capacity will wake a publisher.
    pub(crate) fn has_room(&self, call: &mut Call, bus: &BusState) -> bool {
        call.begin();
        self.enter().is_none_or(|mut core| core.room_or_wish(None, 1, call, bus).is_some())
    }

    /// Takes the lock. From inside a call to another inline bus, returns `None` if acquiring the
    /// lock takes too long.
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
        // If the lock is held although there is no owner, the thread that holds the lock is about
        // to become the owner, has just ended its ownership, or is only checking for capacity
        // (`has_room`).
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

/// One of the owner's outermost calls. Dropping a `Turn` ends the ownership and releases the lock.
struct Turn<'f, T: Clone + Send + Sync + 'static> {
    front: &'f InlineFront<T>,
    bus: &'f BusState,
    /// `None` once the lock has been released.
    core: Option<TryMutexGuard<'f, Core<T>>>,
    later: Later<T>,
    mark: Option<InsideCall>,
    /// Whether the call was refused for lack of capacity, and has requested that the readers wake a
    /// publisher.
    is_refused: bool,
    /// Whether the call has been completed. This field stays `false` if an unexpected panic unwinds
    /// the thread.
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
    /// Returns the events that were not accepted.
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
            // The entry is not moved, because each time a large event is moved, it uses stack
            // space.
            _ => {}
        }
        self.front.nested.set_events_left(room - entry.len());
        self.offer(entry, Some(call));
        Ok(())
    }

    /// Accepts events like [`accept`](Self::accept) if there is capacity for only the first `room`
    /// events. Each event is moved only once, however small the parts are.
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
            // Watchers registered by a nested call are taken into account for the next part.
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

    /// Returns the reason why an entry is refused.
    fn refusal(&self) -> Refusal {
        if self.bus.is_closing() { Refusal::Closed } else { Refusal::Full }
    }

    /// Returns the number of events for which there is capacity. If there is no capacity, returns
    /// `None`, and requests that readers wake a publisher once they free capacity for the events.
    fn room_for(&mut self, events: &mut [T], call: &mut Call) -> Option<usize> {
        let core = self.core.as_mut()?;
        // If this function runs filters, a mailbox is full, so code in a filter must not add
        // events.
        self.front.nested.set_events_left(0);
        let most = events.len();
        let room = core.room_or_wish(events.first_mut(), most, call, self.bus);
        self.is_refused = room.is_none();
        room
    }

    /// Offers events, and notes the sleeping readers. If a watcher with `WaitFor` has no capacity
    /// for some of the events, its queue has been full for the watcher's whole time limit, and the
    /// watcher loses these events.
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
        // After a flush has been processed, the flush's caller checks the ticket next.
        let stopped = core.fan_out.carry_out(control, bus, |sender| show(sender, later, bus));
        if let Some(stopped) = stopped {
            later.close(stopped, bus);
        }
    }

    /// Processes the entries that nested calls have added, in order. Doing so may add further
    /// entries.
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

    /// Ends the bus while an unexpected panic unwinds this thread, because no thread may be left
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
        // If a publisher got a turn but did not use it, the publisher must not delay other
        // publishers.
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
    /// If a publish call has already run filters on its first event, passes on the decisions of
    /// these filters, so that they are not run again.
    fn use_decisions(&mut self, call: Option<&Call>) {
        if let Some(call) = call.filter(|call| call.has_asked()) {
            self.fan_out.senders.iter_mut().for_each(|sender| sender.set_judged(call));
        }
    }

    /// Calls [`room_for`](Self::room_for). If there is no capacity, requests that the readers wake
    /// a publisher once there is capacity for `events` events, and checks again.
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
        // A batch waits until there is capacity for many events, unless other publishers are
        // waiting, because those publishers may need only one slot.
        self.wish_for(if bus.room.has_several() { 1 } else { events }, bus);
        self.room_for(first, call, bus)
    }

    /// Returns the number of events for which there is capacity. Returns `None` if there is no
    /// capacity. `first` is the first event to be published, if known. If only watchers with
    /// filters are full, their filters are run on that event.
    fn room_for(&mut self, first: Option<&mut T>, call: &mut Call, bus: &BusState) -> Option<usize> {
        if self.fan_out.waited_for == 0 {
            // No watcher makes publishers wait, so the watchers need not be visited.
            return Some(usize::MAX);
        }
        let (mut least, mut asks) = (usize::MAX, false);
        // Each sender records the time since which it has had no capacity.
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
        // Filters see only completed events. Completing an event twice has no further effect.
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

    /// Requests that the readers of full mailboxes wake a publisher once there is capacity for this
    /// many events. The caller must then check for capacity again, because a reader frees capacity,
    /// issues a fence, and then checks for the request.
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

    /// Returns whether another publisher is waiting and there may be capacity for its events. If
    /// there is no capacity, a reader that frees capacity will wake the publisher. If no publisher
    /// is waiting, the readers need not wake a publisher.
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

    /// Returns the number of events for which all watchers that publishers wait for have capacity,
    /// and whether any of these watchers has capacity. This function is for callers that do not
    /// publish.
    fn look(&mut self, bus: &BusState) -> (usize, bool) {
        let (mut least, mut is_any_free) = (usize::MAX, false);
        // If there is no watcher that publishers wait for, the loop is skipped.
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

/// Notes the sender's reader if it is asleep, and empties the queue if the reader is gone. The
/// caller must have issued a fence since its offer.
fn show<T>(sender: &mut MailboxSender<T>, later: &mut Later<T>, bus: &BusState) {
    later.note(&sender.state);
    drain_gone(sender, bus);
}
