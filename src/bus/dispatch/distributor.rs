//! The distributor: takes entries out of the incoming queue, and offers their events to the
//! watchers.
//!
//! One thread at a time works with it, under its lock: the dispatcher for as long as it is awake,
//! a publisher that delivers directly (`direct.rs`), or a reader that pulls (`pull.rs`).

use std::collections::HashMap;

use crate::bus::mailbox::{BatchSlice, MailboxSender, Positions, SharedBatch, discard};
use crate::bus::options::Start;
use crate::bus::state::{Lifecycle, WatcherState};
use crate::bus::wait::full_fence;
use crate::sync::{Arc, Receiver};

use super::entry::{Control, Entry, FlushTicket};
use super::history::History;

/// A function of the library's own that completes an event before any watcher sees the event. It
/// does not panic.
pub(crate) type Completion<T> = Box<dyn Fn(&mut T) + Send>;

/// The highest position that a gap may reach. Events are counted on from there, so no count
/// overflows.
const LAST_POSITION: u64 = 1 << 62;

pub(super) struct Distributor<T> {
    pub(super) lifecycle: Arc<Lifecycle>,
    pub(super) incoming: Receiver<Entry<T>>,
    pub(super) max_batch: usize,
    pub(super) completion: Option<Completion<T>>,
    #[allow(clippy::vec_box, reason = "the list grows by doubling: what it has to spare should be small")]
    pub(super) senders: Vec<Box<MailboxSender<T>>>,
    /// The index in `senders` of each watcher, by the watcher's id.
    index: HashMap<u64, usize>,
    /// The indices in `senders` of the watchers that must be waited for. While there are any, the
    /// dispatcher keeps the lock.
    pub(super) pending: Vec<usize>,
    pub(super) history: History<T>,
    /// An entry that has been taken, but that belongs to the next round.
    pub(super) carried: Option<Entry<T>>,
    pub(super) accepted: u64,
    /// The number of entries that have been taken out of the incoming queue.
    received: u64,
    /// The number of events that gaps from outside stood for.
    missed: u64,
    /// The number of deliveries since one of them found a reader that slept.
    pub(super) unheard: u32,
    /// The number of entries that others than the dispatcher have taken out of the incoming queue
    /// since its nap began.
    pub(super) pulled: usize,
}

impl<T> Distributor<T> {
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
            max_batch,
            completion,
            senders: Vec::new(),
            index: HashMap::new(),
            pending: Vec::new(),
            history: History::new(history),
            carried: None,
            accepted: 0,
            received: 0,
            missed: 0,
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

    /// Counts events as accepted, before any watcher is offered them. Returns the position of the
    /// first of them.
    pub(super) fn accept(&mut self, events: usize) -> u64 {
        let first = self.position() + 1;
        self.accepted += events as u64;
        self.lifecycle.set_accepted(self.accepted);
        first
    }

    /// Returns the position of the newest event or gap.
    fn position(&self) -> u64 {
        self.accepted + self.missed
    }

    /// Tells every watcher that this many events are missing here, and wakes those that sleep.
    pub(super) fn offer_gap(&mut self, events: u64) {
        let events = events.min(LAST_POSITION.saturating_sub(self.position()));
        self.missed += events;
        self.lifecycle.set_missed(self.missed);
        for sender in &mut self.senders {
            sender.add_gap(events);
        }
        full_fence();
        for sender in &self.senders {
            sender.state.wake_cell.wake();
        }
    }

    pub(super) fn answer(&self, ticket: &FlushTicket) {
        // Handlers that were stopped but still handle queued events count too, because the list is
        // the registry's. A handler that is registered behind the flush has offset zero, so the
        // flush does not wait for it.
        let offset = |state: Arc<WatcherState>| (state.decided(), state);
        ticket.reach(self.lifecycle.registry.unfinished().into_iter().map(offset).collect());
        // No fence: a flush looks at its condition under the ticket's lock, see `WaitQueue::wake`.
        self.lifecycle.done.wake_all();
    }

    /// Reaps the stopped watchers: removes their senders, and closes their mailboxes.
    pub(super) fn reap(&mut self) {
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

    /// Ends the bus: gives up what is left if the dispatcher unwinds, and closes every mailbox.
    /// Returns the history, whose events' destructors may take long.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(super) fn end(&mut self, unwinds: bool) -> History<T> {
        let events = if unwinds { self.give_up() } else { Vec::new() };
        // All readers see the end before the first of the user's destructors runs, because that
        // destructor may wait for a reader.
        let left: Vec<_> =
            self.senders.iter_mut().map(|sender| announce_end(&self.lifecycle, sender)).collect();
        for mut sender in self.senders.drain(..) {
            sender.drop_closures();
        }
        drop(left);
        discard(events);
        std::mem::replace(&mut self.history, History::new(0))
    }

    /// Counts as abandoned the events that were accepted and will not be offered, because the
    /// dispatcher unwinds. Returns the events, so that their destructors run last.
    #[cold]
    fn give_up(&mut self) -> Vec<T> {
        self.lifecycle.abandon();
        let (mut events, mut late) = (Vec::new(), Vec::new());
        while let Some(entry) = self.take() {
            match entry {
                Entry::Event(event) => events.push(event),
                Entry::Batch(more) => events.extend(more),
                Entry::Control(Control::Register(sender)) => late.push((sender, events.len())),
                Entry::Control(Control::Flush(_) | Control::Gap(_)) => {}
            }
        }
        self.accept(events.len());
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

impl<T: Clone> Distributor<T> {
    /// Offers events to every watcher without waiting, and wakes the readers that sleep. The
    /// watchers that must be waited for are then in `pending`.
    pub(super) fn distribute(&mut self, mut events: Vec<T>, taken: usize) {
        let first = self.accept(events.len());
        if events.is_empty() || self.senders.is_empty() && !self.history.keeps_events() {
            full_fence();
            self.lifecycle.room.wake(taken);
            return discard(events);
        }
        if let Some(complete) = &self.completion {
            events.iter_mut().for_each(complete);
        }
        let batch = SharedBatch::new(events, Positions::from(first));
        for (i, sender) in self.senders.iter_mut().enumerate() {
            if sender.offer(&batch, &self.lifecycle) {
                self.pending.push(i);
            }
        }
        full_fence();
        let abandoned = self.lifecycle.is_abandoned();
        let mut is_heard = false;
        for sender in &mut self.senders {
            is_heard |= wake_or_drain(sender, abandoned);
        }
        self.unheard = if is_heard { 0 } else { self.unheard.saturating_add(1) };
        self.lifecycle.room.wake(taken);
        // Last, because the destructors of the events that leave the history run here.
        self.history.keep(batch);
    }

    /// Adds a watcher. Offers it what the history has from its start on.
    pub(super) fn register(&mut self, mut sender: Box<MailboxSender<T>>) {
        let newest = self.position();
        let start = match sender.start() {
            Start::Next => newest,
            Start::Oldest => self.history.position_before().unwrap_or(newest),
            Start::After(position) => position.min(newest),
        };
        sender.state.set_start(start);
        if !sender.is_offered() {
            // The reap that belongs to the stop does not find this sender, and may be over already.
            // The mailbox is therefore closed here. A handler that has given up is not reaped. Its
            // sender stays listed to the end, so that what was accepted behind the registration is
            // counted as abandoned.
            return sender.close(&self.lifecycle);
        }
        if start < newest {
            self.replay(&mut sender, start);
        }
        self.index.insert(sender.state.id, self.senders.len());
        self.senders.push(sender);
    }

    /// Offers a new watcher what the history has behind this position, with gaps for what is
    /// missing.
    fn replay(&self, sender: &mut MailboxSender<T>, start: u64) {
        let mut reached = start;
        for (batch, range) in self.history.after(start) {
            sender.add_gap(batch.position(range.start) - 1 - reached);
            // The filter of the next batch may take its time.
            self.show(sender);
            reached = batch.position(range.end - 1);
            sender.replay(batch, range, &self.lifecycle);
        }
        sender.add_gap(self.position() - reached);
        self.show(sender);
    }

    /// Wakes the reader of a watcher that is being registered, for what it was offered so far.
    fn show(&self, sender: &mut MailboxSender<T>) {
        full_fence();
        wake_or_drain(sender, self.lifecycle.is_abandoned());
    }
}

/// Wakes a reader that sleeps, and empties the queue of a reader that is gone. The caller has
/// fenced since its offer. Returns whether the reader slept.
pub(super) fn wake_or_drain<T>(sender: &mut MailboxSender<T>, abandoned: bool) -> bool {
    let slept = sender.state.wake_cell.wake();
    if sender.state.is_gone() {
        drop(sender.drain(abandoned));
        sender.report_abandoned();
    }
    slept
}

/// Closes a mailbox as [`MailboxSender::close`] does, before any value of the user's is dropped.
/// Returns the slices that were still in the queue of a reader that is gone.
fn announce_end<T>(lifecycle: &Lifecycle, sender: &mut MailboxSender<T>) -> Vec<BatchSlice<T>> {
    let left = if sender.state.is_gone() { sender.drain(lifecycle.is_abandoned()) } else { Vec::new() };
    lifecycle.sender_closed(&sender.state);
    left
}
