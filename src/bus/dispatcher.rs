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

use crate::sync::{Arc, Parker, Receiver, thread};

use super::incoming::{Entry, FlushTicket};
use super::mailbox::{BatchSlice, MailboxSender, SharedBatch, discard};
use super::state::{Lifecycle, WatcherState};
use super::wait::{full_fence, on_bus_thread, spin_for, spin_until};

pub(super) struct Dispatcher<T> {
    lifecycle: Arc<Lifecycle>,
    incoming: Receiver<Entry<T>>,
    parker: Parker,
    max_batch: usize,
    #[allow(clippy::vec_box, reason = "the list grows by doubling: what it has to spare should be small")]
    senders: Vec<Box<MailboxSender<T>>>,
    /// Where each watcher stands in `senders`.
    index: HashMap<u64, usize>,
    /// Those in `senders` that have to be waited for.
    pending: Vec<usize>,
    /// An entry that was taken but belongs to the next round.
    carried: Option<Entry<T>>,
    accepted: u64,
}

impl<T: Clone> Dispatcher<T> {
    pub(super) fn new(
        lifecycle: Arc<Lifecycle>,
        incoming: Receiver<Entry<T>>,
        parker: Parker,
        max_batch: usize,
    ) -> Self {
        Self {
            lifecycle,
            incoming,
            parker,
            max_batch,
            senders: Vec::new(),
            index: HashMap::new(),
            pending: Vec::new(),
            carried: None,
            accepted: 0,
        }
    }

    /// Runs until the bus is closed and empty, and to the end of all destructors.
    pub(super) fn run(self) {
        on_bus_thread(self.lifecycle.id, move || {
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
                Some(Entry::Register(sender)) => self.register(sender),
                Some(Entry::Flush(ticket)) => self.answer(&ticket),
                Some(entry) => self.carried = Some(entry),
                None => {}
            }
            if self.lifecycle.registry.must_reap() {
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
            if let Some(entry) = spin_until(|| self.incoming.try_recv()).or_else(|| self.spin()) {
                return Some(entry);
            }
            if self.lifecycle.is_quiet() {
                // All pushes happened before the quiet, so this look is the last that is needed.
                return self.incoming.try_recv();
            }
            if self.lifecycle.registry.must_reap() {
                self.reap();
            }
            if self.pass_turn_on() {
                continue;
            }
            self.lifecycle.dispatcher.arm();
            self.lifecycle.gate.set_idle();
            let entry = self.incoming.try_recv();
            if entry.is_none() && !self.lifecycle.is_quiet() && !self.lifecycle.registry.must_reap() {
                self.lifecycle.clock.park(&self.parker, None);
            }
            self.lifecycle.gate.clear_idle();
            self.lifecycle.dispatcher.disarm();
            if entry.is_some() {
                return entry;
            }
        }
    }

    /// Looks on for the next entry, as long as the options say and nothing else is to be done.
    fn spin(&self) -> Option<Entry<T>> {
        if self.lifecycle.spin.is_zero() || self.lifecycle.room.is_waited_for() {
            return None;
        }
        let found = || match self.incoming.try_recv() {
            None => (self.lifecycle.is_closing() || self.lifecycle.registry.must_reap()).then_some(None),
            entry => Some(entry),
        };
        spin_for(self.lifecycle.spin, found).flatten()
    }

    /// Before the dispatcher sleeps: who was given a turn may be a task that is not polled, so room
    /// that is still there is the turn of the next one as well. True: somebody was woken, so the
    /// dispatcher looks again.
    fn pass_turn_on(&self) -> bool {
        let is_wanted = self.lifecycle.room.is_waited_for() && !self.incoming.is_full();
        if is_wanted {
            // No fence: whoever waits had found the queue full before the last round's fence.
            self.lifecycle.room.wake(1);
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
        self.lifecycle.set_accepted(self.accepted);
        if self.senders.is_empty() || events.is_empty() {
            full_fence();
            self.lifecycle.room.wake(taken);
            return discard(events);
        }
        let batch = SharedBatch::new(events);
        for (i, sender) in self.senders.iter_mut().enumerate() {
            if sender.offer(&batch, &self.lifecycle) {
                self.pending.push(i);
            }
        }
        full_fence();
        let abandoned = self.lifecycle.is_abandoned();
        for sender in &mut self.senders {
            wake_or_drain(sender, abandoned);
        }
        self.lifecycle.room.wake(taken);
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
            let abandoned = self.lifecycle.is_abandoned();
            for &i in &pending {
                let sender = &mut self.senders[i];
                // What fits is not lost, even at the last moment; a watcher that has been stopped is offered no more.
                if !sender.state.is_stopped() {
                    sender.push_pending();
                }
                if sender.is_pending() {
                    sender.give_up_pending(&self.lifecycle.clock, abandoned);
                }
            }
            full_fence();
            for &i in &pending {
                wake_or_drain(&mut self.senders[i], abandoned);
            }
            pending.retain(|&i| self.senders[i].is_pending());
            if pending.is_empty() {
                break;
            }
            if self.pass_turn_on() {
                // Time to take the turn up.
                let _ = spin_until(|| self.incoming.is_full().then_some(()));
            } else {
                self.park_for_room(&pending);
            }
        }
        self.pending = pending;
    }

    fn park_for_room(&self, pending: &[usize]) {
        let pending = || pending.iter().map(|&i| &*self.senders[i]);
        pending().for_each(MailboxSender::want_room);
        self.lifecycle.dispatcher.arm();
        // The second look, behind the fence: at all that can end the wait.
        let ready = |sender: &MailboxSender<T>| sender.found_room() || sender.state.is_stopped();
        let deadline = pending().filter_map(MailboxSender::deadline).min();
        if !self.lifecycle.is_abandoned()
            && !pending().any(ready)
            && !self.lifecycle.clock.has_passed(deadline)
        {
            self.lifecycle.clock.park(&self.parker, deadline);
        }
        self.lifecycle.dispatcher.disarm();
        pending().for_each(|sender| sender.state.has_room());
    }

    fn register(&mut self, sender: Box<MailboxSender<T>>) {
        if sender.state.is_stopped() {
            // It will not be found when its stop is reaped, which may be over already.
            return sender.close(&self.lifecycle);
        }
        self.index.insert(sender.state.id, self.senders.len());
        self.senders.push(sender);
    }

    fn answer(&self, ticket: &FlushTicket) {
        // Those that have been stopped but still handle what is queued count, too: the list is the hub's. One that is
        // registered behind the flush has position zero, and is not waited for.
        let position = |state: Arc<WatcherState>| (state.decided(), state);
        ticket.reach(self.lifecycle.registry.unfinished().into_iter().map(position).collect());
        // No fence: who waits for it looks under the ticket's lock, see `WaitQueue::wake`.
        self.lifecycle.done.wake_all();
    }

    /// Takes the ends of stopped watchers out.
    fn reap(&mut self) {
        for id in self.lifecycle.registry.take_reapable() {
            let Some(i) = self.index.remove(&id) else { continue };
            let sender = self.senders.swap_remove(i);
            if let Some(moved) = self.senders.get(i) {
                self.index.insert(moved.state.id, i);
            }
            sender.close(&self.lifecycle);
        }
        // When most have gone, so does the room for them; not so soon that those who come next would have to make it
        // again.
        let held = self.senders.len();
        if self.senders.capacity() > 64 && held < self.senders.capacity() / 4 {
            self.senders.shrink_to(2 * held);
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
        self.lifecycle.abandon();
        let (mut events, mut late) = (Vec::new(), Vec::new());
        while let Some(entry) = self.carried.take().or_else(|| self.incoming.try_recv()) {
            match entry {
                Entry::Register(sender) => late.push((sender, events.len())),
                Entry::Event(event) => events.push(event),
                Entry::Batch(more) => events.extend(more),
                Entry::Flush(_) => {}
            }
        }
        self.accepted += events.len() as u64;
        self.lifecycle.set_accepted(self.accepted);
        for sender in &mut self.senders {
            sender.abandon(events.len());
        }
        for (mut sender, before) in late {
            sender.abandon(events.len() - before);
            self.senders.push(sender);
        }
        events
    }
}

impl<T> Drop for Dispatcher<T> {
    /// The end, also if something unforeseen unwinds this thread: nobody may be left waiting for
    /// it.
    fn drop(&mut self) {
        self.lifecycle.close();
        // A publisher inside the gate waits for nobody, and leaves. When `work` has come to its end, all
        // have left.
        while !self.lifecycle.is_quiet() {
            thread::yield_now();
        }
        let events = if thread::panicking() { self.give_up() } else { Vec::new() };
        // All readers see the end before the first of the user's destructors runs: that may wait
        // for one of them.
        let left: Vec<_> =
            self.senders.iter_mut().map(|sender| announce_end(&self.lifecycle, sender)).collect();
        for mut sender in self.senders.drain(..) {
            sender.drop_closures();
        }
        drop(left);
        discard(events);
        self.lifecycle.set_ended();
    }
}

/// After the fence that follows an offer: wakes a reader that sleeps, and empties the queue of one that has gone.
fn wake_or_drain<T>(sender: &mut MailboxSender<T>, abandoned: bool) {
    sender.state.wake_cell.wake();
    if sender.state.is_gone() {
        drop(sender.drain(abandoned));
        sender.report_abandoned();
    }
}

/// As [`MailboxSender::close`], before anything of the user's goes. What the queue of a reader that has gone still
/// held comes back.
fn announce_end<T>(lifecycle: &Lifecycle, sender: &mut MailboxSender<T>) -> Vec<BatchSlice<T>> {
    let left = if sender.state.is_gone() { sender.drain(lifecycle.is_abandoned()) } else { Vec::new() };
    lifecycle.sender_closed(&sender.state);
    left
}
