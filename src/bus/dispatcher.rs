//! The dispatcher: one thread that takes entries out of the incoming queue, and offers their events
//! to the watchers.
//!
//! One round of the dispatcher:
//!
//! 1. Take the waiting entries, up to a batch or a control entry.
//! 2. Offer the batch to every watcher, without waiting.
//! 3. Fence once.
//! 4. Wake the readers that sleep, and the publishers that wait for room.
//! 5. Wait for those watchers that must be waited for. Each deadline counts from the offer.
//! 6. Carry out the control entry.
//!
//! Control entries therefore stand in the same order as events. A slow watcher for which the
//! dispatcher waits does not delay the events of the same batch for the other watchers.
//!
//! The dispatcher never blocks in a channel. It takes no lock that a publisher takes, except the
//! lock of the wait queue for room. If user code that runs here (filters, hooks, `Clone`, `Drop`)
//! panics, the dispatcher catches the panic.

use std::collections::HashMap;

use crate::sync::{Arc, Parker, Receiver, thread};

use super::incoming::{Entry, FlushTicket};
use super::mailbox::{BatchSlice, MailboxSender, SharedBatch, discard};
use super::state::{Lifecycle, WatcherState};
use super::wait::{full_fence, on_bus_thread, spin_for, spin_until};

/// A function of the library's own that completes an event before any watcher sees the event. It
/// does not panic.
pub(crate) type Completion<T> = Box<dyn Fn(&mut T) + Send>;

pub(super) struct Dispatcher<T> {
    lifecycle: Arc<Lifecycle>,
    incoming: Receiver<Entry<T>>,
    parker: Parker,
    max_batch: usize,
    completion: Option<Completion<T>>,
    #[allow(clippy::vec_box, reason = "the list grows by doubling: what it has to spare should be small")]
    senders: Vec<Box<MailboxSender<T>>>,
    /// The index in `senders` of each watcher, by the watcher's id.
    index: HashMap<u64, usize>,
    /// The indices in `senders` of the watchers that must be waited for.
    pending: Vec<usize>,
    /// An entry that the dispatcher has taken, but that belongs to the next round.
    carried: Option<Entry<T>>,
    accepted: u64,
}

impl<T: Clone> Dispatcher<T> {
    pub(super) fn new(
        lifecycle: Arc<Lifecycle>,
        incoming: Receiver<Entry<T>>,
        parker: Parker,
        max_batch: usize,
        completion: Option<Completion<T>>,
    ) -> Self {
        Self {
            lifecycle,
            incoming,
            parker,
            max_batch,
            completion,
            senders: Vec::new(),
            index: HashMap::new(),
            pending: Vec::new(),
            carried: None,
            accepted: 0,
        }
    }

    /// Runs until the bus is closed and the incoming queue is empty, and until all destructors have
    /// run.
    pub(super) fn run(self) {
        on_bus_thread(self.lifecycle.id, move || {
            let mut this = self;
            this.parker.settle();
            this.work();
        });
    }

    /// Works until the bus is closed and the incoming queue is empty.
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

    /// Waits for the next entry. Returns `None` if there will never be another.
    fn next_entry(&mut self) -> Option<Entry<T>> {
        if let Some(entry) = self.carried.take() {
            return Some(entry);
        }
        loop {
            if let Some(entry) = spin_until(|| self.incoming.try_recv()).or_else(|| self.spin()) {
                return Some(entry);
            }
            if self.lifecycle.is_quiet() {
                // All pushes happened before the gate became quiet, so this is the last look that
                // is needed.
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

    /// Keeps looking for the next entry, for as long as the options say. Returns `None` if no entry
    /// came, or if the dispatcher has something else to do.
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

    /// Gives the next waiting publisher a turn if there is room. The dispatcher calls this before
    /// it sleeps. The publisher that got the last turn may be a task that is not polled. While
    /// there is still room, the next publisher therefore gets a turn as well. Returns whether there
    /// was room and a publisher waited for it. The dispatcher then looks again.
    fn pass_turn_on(&self) -> bool {
        let is_wanted = self.lifecycle.room.is_waited_for() && !self.incoming.is_full();
        if is_wanted {
            // No fence: a publisher that waits had found the queue full before the last round's
            // fence.
            self.lifecycle.room.wake(1);
        }
        is_wanted
    }

    /// Collects events from the first entry on, until a batch is full, no entry waits, or an entry
    /// does not belong to the batch. Returns the events, and the entry that does not belong to
    /// them. Adds the number of entries taken behind the first to `taken`.
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
            let room = self.max_batch - events.len();
            let other = self.incoming.try_recv_with(|entry| match entry {
                Entry::Event(event) => {
                    events.push(event);
                    None
                }
                Entry::Batch(more) if more.len() <= room => {
                    events.extend(more);
                    None
                }
                other => Some(other),
            });
            let Some(other) = other else { break };
            *taken += 1;
            if other.is_some() {
                return (events, other);
            }
        }
        (events, None)
    }

    fn distribute(&mut self, mut events: Vec<T>, taken: usize) {
        self.accepted += events.len() as u64;
        self.lifecycle.set_accepted(self.accepted);
        if self.senders.is_empty() || events.is_empty() {
            full_fence();
            self.lifecycle.room.wake(taken);
            return discard(events);
        }
        if let Some(complete) = &self.completion {
            events.iter_mut().for_each(complete);
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
            // The pending parts keep their events alive.
            drop(batch);
            self.wait_for_room();
        }
    }

    /// Waits until every pending event has found room or was given up.
    fn wait_for_room(&mut self) {
        let mut pending = std::mem::take(&mut self.pending);
        loop {
            let abandoned = self.lifecycle.is_abandoned();
            for &i in &pending {
                let sender = &mut self.senders[i];
                // An event that fits is not lost, even at the last moment. A stopped watcher is
                // offered nothing more.
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
                // Time for the woken publisher to use its turn.
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
        // The second look, behind the fence in `arm`, at everything that can end the wait.
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
            // The reap that belongs to the stop does not find this sender, and may be over already.
            // The mailbox is therefore closed here.
            return sender.close(&self.lifecycle);
        }
        self.index.insert(sender.state.id, self.senders.len());
        self.senders.push(sender);
    }

    fn answer(&self, ticket: &FlushTicket) {
        // Handlers that were stopped but still handle queued events count too, because the list is
        // the registry's. A handler that is registered behind the flush has position zero, so the
        // flush does not wait for it.
        let position = |state: Arc<WatcherState>| (state.decided(), state);
        ticket.reach(self.lifecycle.registry.unfinished().into_iter().map(position).collect());
        // No fence: a flush looks at its condition under the ticket's lock, see `WaitQueue::wake`.
        self.lifecycle.done.wake_all();
    }

    /// Reaps the stopped watchers: removes their senders, and closes their mailboxes.
    fn reap(&mut self) {
        for id in self.lifecycle.registry.take_reapable() {
            let Some(i) = self.index.remove(&id) else { continue };
            let sender = self.senders.swap_remove(i);
            if let Some(moved) = self.senders.get(i) {
                self.index.insert(moved.state.id, i);
            }
            sender.close(&self.lifecycle);
        }
        // When most watchers have been removed, their memory is freed too. Some spare capacity
        // stays, so that the next watchers need not allocate it again.
        let held = self.senders.len();
        if self.senders.capacity() > 64 && held < self.senders.capacity() / 4 {
            self.senders.shrink_to(2 * held);
            self.index.shrink_to(2 * held);
            self.pending.shrink_to(2 * held);
        }
    }
}

impl<T> Dispatcher<T> {
    /// Counts as abandoned the events that were accepted and will not be offered, because this
    /// thread unwinds. Returns the events, so that their destructors run last.
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
    /// Ends the bus, even if something unforeseen unwinds this thread, because nobody may be left
    /// waiting for the end.
    fn drop(&mut self) {
        self.lifecycle.close();
        // A publisher inside the gate waits for nobody, so it leaves. When `work` has returned, all
        // have left.
        while !self.lifecycle.is_quiet() {
            thread::yield_now();
        }
        let events = if thread::panicking() { self.give_up() } else { Vec::new() };
        // All readers see the end before the first of the user's destructors runs, because that
        // destructor may wait for a reader.
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

/// Wakes a reader that sleeps, and empties the queue of a reader that is gone. The caller has
/// fenced since its offer.
fn wake_or_drain<T>(sender: &mut MailboxSender<T>, abandoned: bool) {
    sender.state.wake_cell.wake();
    if sender.state.is_gone() {
        drop(sender.drain(abandoned));
        sender.report_abandoned();
    }
}

/// Closes a mailbox as [`MailboxSender::close`] does, before any value of the user's is dropped.
/// Returns the slices that were still in the queue of a reader that is gone.
fn announce_end<T>(lifecycle: &Lifecycle, sender: &mut MailboxSender<T>) -> Vec<BatchSlice<T>> {
    let left = if sender.state.is_gone() { sender.drain(lifecycle.is_abandoned()) } else { Vec::new() };
    lifecycle.sender_closed(&sender.state);
    left
}
