//! The dispatcher: one thread that takes what publishers put into the incoming queue and hands it to the watchers.
//!
//! One round: take what waits, up to a batch or a control entry; offer the batch to every watcher without waiting; one
//! fence; wake the watchers that sleep and the publishers that wait for room; only then wait, for those watchers that
//! must be waited for, all deadlines counted from the same moment; then perform the control entry. So control entries
//! stand in the same order as events, and a watcher that is slow on purpose delays nobody's share of the same batch.
//!
//! It never blocks in a channel, and it takes no lock that a publisher takes. User code that runs here (filters, hooks,
//! `Clone`, `Drop`) is caught when it panics.

use std::collections::HashMap;

use crate::sync::{Arc, Mutex, Parker, Receiver, thread};

use super::batch::{Frozen, Slice, discard};
use super::core::Core;
use super::current::on_bus;
use super::hub::Hub;
use super::outbox::Outbox;
use super::sleeper::{full_fence, look, spin};

/// What the incoming queue carries.
pub(super) enum Entry<T> {
    Event(T),
    Batch(Vec<T>),
    Register(Box<Outbox<T>>),
    Flush(Arc<FlushTicket>),
}

/// What a flush waits for, once the dispatcher has come to it.
#[derive(Debug, Default)]
pub(super) struct FlushTicket {
    /// `None` while the dispatcher has not come to the flush.
    handlers: Mutex<Option<Handlers>>,
}

/// Each with the position that it has to come to.
type Handlers = Vec<(u64, Arc<Core>)>;

impl FlushTicket {
    fn reach(&self, handlers: Handlers) {
        *self.handlers.lock() = Some(handlers);
    }

    /// The handlers that are not through; `None` while the dispatcher has not come to the flush.
    pub(super) fn waiting_for(&self) -> Option<Vec<Arc<Core>>> {
        let mut handlers = self.handlers.lock();
        let handlers = handlers.as_mut()?;
        handlers.retain(|(position, core)| !core.is_finished() && core.handled() < *position);
        Some(handlers.iter().map(|(_, core)| core.clone()).collect())
    }
}

pub(super) struct Dispatcher<T> {
    hub: Arc<Hub>,
    incoming: Receiver<Entry<T>>,
    parker: Parker,
    max_batch: usize,
    #[allow(clippy::vec_box, reason = "the list grows by doubling: what it has to spare should be small")]
    outboxes: Vec<Box<Outbox<T>>>,
    /// Where each watcher stands in `outboxes`.
    index: HashMap<u64, usize>,
    /// Those in `outboxes` that have to be waited for.
    pending: Vec<usize>,
    /// An entry that was taken but belongs to the next round.
    carried: Option<Entry<T>>,
    accepted: u64,
}

impl<T: Clone> Dispatcher<T> {
    pub(super) fn new(hub: Arc<Hub>, incoming: Receiver<Entry<T>>, parker: Parker, max_batch: usize) -> Self {
        Self {
            hub,
            incoming,
            parker,
            max_batch,
            outboxes: Vec::new(),
            index: HashMap::new(),
            pending: Vec::new(),
            carried: None,
            accepted: 0,
        }
    }

    /// Runs until the bus is closed and empty, and to the end of all destructors.
    pub(super) fn run(self) {
        on_bus(self.hub.id, move || {
            let mut this = self;
            this.parker.settle();
            this.work();
        });
    }

    /// Works until the bus is closed and empty.
    fn work(&mut self) {
        while let Some(first) = self.next_entry() {
            let mut taken = 1;
            let (batch, control) = self.gather(first, &mut taken);
            self.distribute(batch, taken);
            match control {
                Some(Entry::Register(outbox)) => self.register(outbox),
                Some(Entry::Flush(ticket)) => self.answer(&ticket),
                Some(entry) => self.carried = Some(entry),
                None => {}
            }
            if self.hub.must_reap() {
                self.reap();
            }
        }
    }

    /// The next entry, when there is one; `None` when there never will be.
    fn next_entry(&mut self) -> Option<Entry<T>> {
        if let Some(entry) = self.carried.take() {
            return Some(entry);
        }
        loop {
            if let Some(entry) = look(|| self.incoming.try_recv()).or_else(|| self.spin()) {
                return Some(entry);
            }
            if self.hub.is_quiet() {
                // All pushes happened before the quiet, so this look is the last that is needed.
                return self.incoming.try_recv();
            }
            if self.hub.must_reap() {
                self.reap();
            }
            if self.hand_on() {
                continue;
            }
            self.hub.dispatcher.arm();
            self.hub.gate.set_idle();
            let entry = self.incoming.try_recv();
            if entry.is_none() && !self.hub.is_quiet() && !self.hub.must_reap() {
                self.hub.clock.park(&self.parker, None);
            }
            self.hub.gate.clear_idle();
            self.hub.dispatcher.disarm();
            if entry.is_some() {
                return entry;
            }
        }
    }

    /// Looks on for the next entry, as long as the options say and nothing else is to be done.
    fn spin(&self) -> Option<Entry<T>> {
        if self.hub.spin.is_zero() || self.hub.room.is_waited_for() {
            return None;
        }
        let found = || match self.incoming.try_recv() {
            None => (self.hub.is_closing() || self.hub.must_reap()).then_some(None),
            entry => Some(entry),
        };
        spin(self.hub.spin, found).flatten()
    }

    /// Before the dispatcher sleeps: who was given a turn may be a task that is not polled, so room
    /// that is still there is the turn of the next one as well. True: somebody was woken, so the
    /// dispatcher looks again.
    fn hand_on(&self) -> bool {
        let is_wanted = self.hub.room.is_waited_for() && !self.incoming.is_full();
        if is_wanted {
            // No fence: whoever waits had found the queue full before the last round's fence.
            self.hub.room.wake(1);
        }
        is_wanted
    }

    /// Collects events behind the first entry, until a batch is full, nothing waits, or something else comes.
    fn gather(&mut self, first: Entry<T>, taken: &mut usize) -> (Vec<T>, Option<Entry<T>>) {
        let mut events = match first {
            Entry::Event(event) => {
                let mut events = Vec::with_capacity(self.max_batch.min(self.incoming.len() + 1));
                events.push(event);
                events
            }
            Entry::Batch(events) => events,
            control => return (Vec::new(), Some(control)),
        };
        while events.len() < self.max_batch {
            match self.incoming.try_recv() {
                Some(Entry::Event(event)) => events.push(event),
                Some(Entry::Batch(more)) if events.len() + more.len() <= self.max_batch => {
                    events.extend(more);
                }
                Some(other) => {
                    *taken += 1;
                    return (events, Some(other));
                }
                None => break,
            }
            *taken += 1;
        }
        (events, None)
    }

    fn distribute(&mut self, events: Vec<T>, taken: usize) {
        self.accepted += events.len() as u64;
        self.hub.set_accepted(self.accepted);
        if self.outboxes.is_empty() || events.is_empty() {
            full_fence();
            self.hub.room.wake(taken);
            return discard(events);
        }
        let batch = Frozen::new(events);
        for (i, outbox) in self.outboxes.iter_mut().enumerate() {
            if outbox.offer(&batch, &self.hub) {
                self.pending.push(i);
            }
        }
        full_fence();
        let abandoned = self.hub.is_abandoned();
        for outbox in &mut self.outboxes {
            settle(outbox, abandoned);
        }
        self.hub.room.wake(taken);
        if !self.pending.is_empty() {
            // The events live on in the parts that are pending.
            drop(batch);
            self.wait_for_room();
        }
    }

    /// Waits until everything pending has found room, or was given up.
    fn wait_for_room(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        loop {
            let abandoned = self.hub.is_abandoned();
            for &i in &pending {
                let outbox = &mut self.outboxes[i];
                // What fits is not lost, even at the last moment; a watcher that has been stopped is offered no more.
                if !outbox.core.is_stopped() {
                    outbox.push_pending();
                }
                if outbox.is_pending() {
                    outbox.give_up_pending(&self.hub.clock, abandoned);
                }
            }
            full_fence();
            for &i in &pending {
                settle(&mut self.outboxes[i], abandoned);
            }
            pending.retain(|&i| self.outboxes[i].is_pending());
            if pending.is_empty() {
                break;
            }
            if self.hand_on() {
                // Time to take the turn up.
                let _ = look(|| self.incoming.is_full().then_some(()));
            } else {
                self.park_for_room(&pending);
            }
        }
        self.pending = pending;
    }

    fn park_for_room(&self, pending: &[usize]) {
        let pending = || pending.iter().map(|&i| &*self.outboxes[i]);
        pending().for_each(Outbox::want_room);
        self.hub.dispatcher.arm();
        // The second look, behind the fence: at all that can end the wait.
        let ready = |outbox: &Outbox<T>| outbox.found_room() || outbox.core.is_stopped();
        let deadline = pending().filter_map(Outbox::deadline).min();
        if !self.hub.is_abandoned() && !pending().any(ready) && !self.hub.clock.has_passed(deadline) {
            self.hub.clock.park(&self.parker, deadline);
        }
        self.hub.dispatcher.disarm();
        pending().for_each(|outbox| outbox.core.has_room());
    }

    fn register(&mut self, outbox: Box<Outbox<T>>) {
        if outbox.core.is_stopped() {
            // It will not be found when its stop is reaped, which may be over already.
            return close(&self.hub, *outbox);
        }
        self.index.insert(outbox.core.id, self.outboxes.len());
        self.outboxes.push(outbox);
    }

    fn answer(&self, ticket: &FlushTicket) {
        // Those that have been stopped but still handle what is queued count, too: the list is the hub's. One that is
        // registered behind the flush has position zero, and is not waited for.
        let position = |core: Arc<Core>| (core.decided(), core);
        ticket.reach(self.hub.unfinished().into_iter().map(position).collect());
        // No fence: who waits for it looks under the ticket's lock, see `WaitList::wake`.
        self.hub.done.wake_all();
    }

    /// Takes the ends of stopped watchers out.
    fn reap(&mut self) {
        for id in self.hub.take_reapable() {
            let Some(i) = self.index.remove(&id) else { continue };
            let outbox = self.outboxes.swap_remove(i);
            if let Some(moved) = self.outboxes.get(i) {
                self.index.insert(moved.core.id, i);
            }
            close(&self.hub, *outbox);
        }
        // When most have gone, so does the room for them; not so soon that those who come next would have to make it
        // again.
        let held = self.outboxes.len();
        if self.outboxes.capacity() > 64 && held < self.outboxes.capacity() / 4 {
            self.outboxes.shrink_to(2 * held);
            self.index.shrink_to(2 * held);
            self.pending.shrink_to(2 * held);
        }
    }
}

impl<T> Dispatcher<T> {
    /// Counts as abandoned what was accepted and will not be offered, because this thread unwinds.
    /// It comes back, so that the events' destructors run last.
    #[cold]
    fn give_up(&mut self) -> Vec<T> {
        self.hub.abandon();
        let (mut events, mut late) = (Vec::new(), Vec::new());
        while let Some(entry) = self.carried.take().or_else(|| self.incoming.try_recv()) {
            match entry {
                Entry::Register(outbox) => late.push((outbox, events.len())),
                Entry::Event(event) => events.push(event),
                Entry::Batch(more) => events.extend(more),
                Entry::Flush(_) => {}
            }
        }
        self.accepted += events.len() as u64;
        self.hub.set_accepted(self.accepted);
        for outbox in &mut self.outboxes {
            outbox.abandon(events.len());
        }
        for (mut outbox, before) in late {
            outbox.abandon(events.len() - before);
            self.outboxes.push(outbox);
        }
        events
    }
}

impl<T> Drop for Dispatcher<T> {
    /// The end, also if something unforeseen unwinds this thread: nobody may be left waiting for
    /// it.
    fn drop(&mut self) {
        self.hub.close();
        // A publisher inside the gate waits for nobody, and leaves. When `work` has come to its end, all
        // have left.
        while !self.hub.is_quiet() {
            thread::yield_now();
        }
        let events = if thread::panicking() { self.give_up() } else { Vec::new() };
        // All readers see the end before the first of the user's destructors runs: that may wait
        // for one of them.
        let left: Vec<_> = self.outboxes.iter_mut().map(|outbox| say_end(&self.hub, outbox)).collect();
        for mut outbox in self.outboxes.drain(..) {
            outbox.drop_closures();
        }
        drop(left);
        discard(events);
        self.hub.set_ended();
    }
}

/// After the fence that follows an offer: wakes a reader that sleeps, and empties the queue of one that has gone.
fn settle<T>(outbox: &mut Outbox<T>, abandoned: bool) {
    outbox.core.sleeper.wake();
    if outbox.core.is_gone() {
        drop(outbox.drain(abandoned));
        outbox.tell_abandoned();
    }
}

/// Nothing more goes to this watcher. What is queued stays readable.
pub(super) fn close<T>(hub: &Hub, mut outbox: Outbox<T>) {
    if outbox.core.is_gone() {
        drop(outbox.drain(hub.is_abandoned()));
    }
    outbox.drop_closures();
    let core = outbox.core.clone();
    drop(outbox);
    hub.forget_outbox(&core);
}

/// The same, before anything of the user's goes. What the queue of a reader that has gone still
/// held comes back.
fn say_end<T>(hub: &Hub, outbox: &mut Outbox<T>) -> Vec<Slice<T>> {
    let left = if outbox.core.is_gone() { outbox.drain(hub.is_abandoned()) } else { Vec::new() };
    hub.forget_outbox(&outbox.core);
    left
}
