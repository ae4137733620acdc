//! The intake: takes entries out of the incoming queue, and has the distributor offer their events.
//!
//! One thread at a time works with it, under its lock: the dispatcher for as long as it is awake,
//! a publisher that delivers directly (`direct.rs`), or a reader that pulls (`pull.rs`).

use crate::bus::mailbox::{MailboxSender, discard};
use crate::bus::state::Lifecycle;
use crate::bus::wait::full_fence;
use crate::clock::Deadline;
use crate::sync::{Arc, Receiver};

use super::distributor::{Completion, Distributor, Rest, answer, wake_or_drain};
use super::entry::{Control, Entry};
use super::history::History;

pub(super) struct Intake<T> {
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) incoming: Receiver<Entry<T>>,
    pub(super) distributor: Distributor<T>,
    pub(super) max_batch: usize,
    /// The indices of the distributor's senders that have pending events. While there are any, no
    /// entry is carried out, and only the dispatcher changes something here.
    pending: Vec<usize>,
    /// An entry that has been taken. It belongs to the next round, which begins when no events are
    /// pending.
    pub(super) carried: Option<Entry<T>>,
    /// The number of entries that have been taken out of the incoming queue.
    received: u64,
    /// The number of deliveries since one of them found a reader that slept.
    pub(super) unheard: u32,
    /// The number of entries that others than the dispatcher have taken out of the incoming queue
    /// since its nap began.
    pub(super) pulled: usize,
}

impl<T> Intake<T> {
    pub(super) fn new(
        lifecycle: Arc<Lifecycle>,
        incoming: Receiver<Entry<T>>,
        max_batch: usize,
        completion: Option<Completion<T>>,
        history: usize,
    ) -> Self {
        Self {
            lifecycle,
            incoming,
            distributor: Distributor::new(completion, history),
            max_batch,
            pending: Vec::new(),
            carried: None,
            received: 0,
            unheard: 0,
            pulled: 0,
        }
    }

    /// Returns the entry that was taken before, or else takes one. Returns `None` if none waits.
    pub(super) fn take(&mut self) -> Option<Entry<T>> {
        self.carried.take().or_else(|| self.receive())
    }

    /// Takes an entry out of the incoming queue. Returns `None` if none waits.
    pub(super) fn receive(&mut self) -> Option<Entry<T>> {
        let entry = self.incoming.try_recv()?;
        self.count_received(1);
        Some(entry)
    }

    fn count_received(&mut self, entries: usize) {
        self.received += entries as u64;
        self.lifecycle.taken.set(self.received);
    }

    /// Collects events from the first entry on, until there are `most`, no entry waits, or an entry
    /// does not belong to the batch. Returns the events, and the entry that does not belong to
    /// them. Adds the number of entries taken behind the first to `taken`.
    pub(super) fn gather(
        &mut self,
        first: Entry<T>,
        most: usize,
        taken: &mut usize,
    ) -> (Vec<T>, Option<Entry<T>>) {
        let mut events = match first {
            Entry::Event(event) => {
                let mut events = Vec::with_capacity(most.min(self.incoming.len() + 1));
                events.push(event);
                events
            }
            Entry::Batch(events) if events.len() <= most => events,
            control => return (Vec::new(), Some(control)),
        };
        while events.len() < most {
            let room = most - events.len();
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
            self.count_received(1);
            if other.is_some() {
                return (events, other);
            }
        }
        (events, None)
    }

    /// Carries out a control entry, or keeps an entry that belongs to the next round.
    pub(super) fn carry_out(&mut self, entry: Entry<T>)
    where
        T: Clone,
    {
        match entry {
            Entry::Control(Control::Register(sender)) => {
                let Self { distributor, lifecycle, .. } = self;
                let show = |sender: &mut _| {
                    full_fence();
                    wake_or_drain(sender, lifecycle.is_abandoned());
                };
                if let Err(stopped) = distributor.register(sender, lifecycle, show) {
                    stopped.close(lifecycle).wake_cell.wake();
                }
            }
            Entry::Control(Control::Flush(ticket)) => {
                answer(&ticket, &self.lifecycle);
                // No fence: a flush looks at its condition under the ticket's lock, see
                // `WaitQueue::wake`.
                self.lifecycle.done.wake_all();
            }
            Entry::Control(Control::Gap(events)) => {
                self.distributor.add_gap(events, &self.lifecycle);
                full_fence();
                for sender in &self.distributor.senders {
                    sender.state.wake_cell.wake();
                }
            }
            entry => self.carried = Some(entry),
        }
    }

    /// Reaps the stopped watchers, and wakes their readers. They lose what is pending for them.
    pub(super) fn reap(&mut self) {
        let Self { distributor, lifecycle, pending, .. } = self;
        // A reap moves senders, so those with pending events are known by their watchers.
        let waiting: Vec<u64> = pending.drain(..).map(|i| distributor.senders[i].state.id).collect();
        distributor.reap(lifecycle, |mut sender| {
            if sender.is_pending() {
                sender.give_up_pending(&lifecycle.clock, true);
                sender.state.has_room();
            }
            sender.close(lifecycle).wake_cell.wake();
        });
        pending.extend(waiting.iter().filter_map(|id| distributor.index.get(id)));
        if pending.capacity() > 64 && distributor.senders.len() < pending.capacity() / 4 {
            pending.shrink_to(2 * distributor.senders.len());
        }
    }

    /// Returns whether events wait for the capacity of a watcher.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether nothing is in front of the entries in the incoming queue. If something is,
    /// only the dispatcher may work here.
    pub(super) fn is_clear(&self) -> bool {
        self.carried.is_none() && !self.is_blocked()
    }

    fn pending(&self) -> impl Iterator<Item = &MailboxSender<T>> {
        self.pending.iter().map(|&i| &*self.distributor.senders[i])
    }

    /// Asks the readers of full mailboxes for a wake-up. Returns the earliest deadline of the
    /// pending events.
    pub(super) fn want_room(&self) -> Deadline {
        self.pending().for_each(MailboxSender::want_room);
        self.pending().filter_map(MailboxSender::deadline).min()
    }

    /// Returns whether one of the events has happened that end a sleep of the dispatcher. The
    /// caller has armed its wake cell, so this is its second check.
    pub(super) fn is_ready(&self, deadline: Deadline) -> bool {
        let Lifecycle { clock, registry, .. } = &*self.lifecycle;
        let is_ready = if self.is_blocked() {
            let can_go_on = |sender: &MailboxSender<T>| sender.found_room() || sender.state.is_stopped();
            self.lifecycle.is_abandoned() || self.pending().any(can_go_on) || clock.has_passed(deadline)
        } else {
            self.carried.is_some() || self.lifecycle.is_quiet()
        };
        is_ready || registry.must_reap()
    }

    /// Ends the bus: gives up what is left if the dispatcher unwinds, and closes every mailbox.
    /// Returns the history, whose events' destructors may take long.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(super) fn end(&mut self, unwinds: bool) -> Option<History<T>> {
        let left: Vec<_> = if unwinds { std::iter::from_fn(|| self.take()).collect() } else { Vec::new() };
        let Self { distributor, lifecycle, .. } = self;
        let events = if unwinds { distributor.give_up(left.into_iter(), lifecycle) } else { Vec::new() };
        let mut rest = Rest::default();
        distributor.end(lifecycle, &mut rest, |state| {
            state.wake_cell.wake();
        });
        let history = rest.release();
        discard(events);
        history
    }
}

impl<T: Clone> Intake<T> {
    /// Offers one batch that begins with this entry. Carries out the control entry that follows, or
    /// keeps it while events of the batch are pending.
    pub(super) fn round(&mut self, first: Entry<T>) {
        let mut taken = 1;
        let (batch, control) = self.gather(first, self.max_batch, &mut taken);
        self.distribute(batch, taken);
        if self.is_blocked() {
            self.carried = control;
            return;
        }
        // Before the control entry, so that a flush finds the watchers reaped that were dropped
        // before it.
        if self.lifecycle.registry.must_reap() {
            self.reap();
        }
        if let Some(entry) = control {
            self.carry_out(entry);
        }
    }

    /// Queues the pending events that fit, and loses those that must not wait any longer.
    pub(super) fn settle(&mut self) {
        if !self.is_blocked() {
            return;
        }
        let Self { distributor, lifecycle, pending, .. } = self;
        let abandoned = lifecycle.is_abandoned();
        for &i in &*pending {
            let sender = &mut distributor.senders[i];
            // An event that fits is not lost, even if its deadline has just passed. A stopped
            // watcher is offered nothing more.
            if !sender.state.is_stopped() {
                sender.push_pending();
            }
            if sender.is_pending() {
                sender.give_up_pending(&lifecycle.clock, abandoned);
            }
        }
        full_fence();
        pending.retain(|&i| {
            let sender = &mut distributor.senders[i];
            wake_or_drain(sender, abandoned);
            let is_pending = sender.is_pending();
            if !is_pending {
                sender.state.has_room();
            }
            is_pending
        });
    }

    /// Offers events to every watcher without waiting, and wakes the readers that sleep. The
    /// watchers without capacity are then in `pending`.
    fn distribute(&mut self, events: Vec<T>, taken: usize) {
        let Self { distributor, lifecycle, pending, .. } = self;
        let batch = distributor.offer(events, lifecycle, |i, sender, is_pending| {
            if is_pending {
                sender.begin_to_wait(&lifecycle.clock);
                pending.push(i);
            }
        });
        full_fence();
        if let Some(batch) = batch {
            let abandoned = lifecycle.is_abandoned();
            let mut is_heard = false;
            for sender in &mut distributor.senders {
                is_heard |= wake_or_drain(sender, abandoned);
            }
            self.unheard = if is_heard { 0 } else { self.unheard.saturating_add(1) };
            lifecycle.room.wake(taken);
            // Last, because the destructors of the events that leave the history run here.
            distributor.history.keep(batch);
        } else {
            lifecycle.room.wake(taken);
        }
    }
}
