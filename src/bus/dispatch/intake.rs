//! The intake, which takes entries out of the incoming queue and has the fan-out offer their
//! events.
//!
//! Only one thread at a time runs the intake, while holding the intake's lock. This thread is the
//! dispatcher for as long as the dispatcher is awake, a publisher that is delivering directly
//! (`direct.rs`), or a reader that is pulling (`pull.rs`).

use crate::bus::mailbox::{Entry, MailboxSender, discard};
use crate::bus::options::BusOptions;
use crate::bus::state::BusState;
use crate::bus::wait::full_fence;
use crate::clock::Deadline;
use crate::sync::{Arc, BUSY_ROUNDS, LARGE_ROUND, Receiver};

use super::controls::Controls;
use super::entry::{Control, Step};
use super::fan_out::{Completion, FanOut, Rest, wake_or_drain};
use super::history::History;

pub(super) struct Intake<T> {
    pub(super) bus: Arc<BusState>,
    pub(super) incoming: Receiver<Entry<T>>,
    pub(super) controls: Arc<Controls<T>>,
    pub(super) fan_out: FanOut<T>,
    pub(super) max_batch: usize,
    /// The indices of the fan-out's senders that have pending events. While any events are pending,
    /// no entry is processed, and only the dispatcher modifies the intake.
    pending: Vec<usize>,
    /// An entry that has been taken out of the queue but belongs to the next round. The next round
    /// begins once no events are pending and the control entries with a place before this entry
    /// have been processed.
    pub(super) carried: Option<Entry<T>>,
    /// The total number of entries taken out of the incoming queue.
    pub(super) received: u64,
    /// The number of deliveries since the last delivery that found a sleeping reader. Zero after
    /// the dispatcher has slept, or the fan-out was handed or taken back. A large round raises it.
    pub(super) busy_rounds: u32,
    /// Whether a publisher has lent the fan-out since the dispatcher's nap or sleep began.
    pub(super) is_lent_early: bool,
    /// The number of entries that have been pulled since the dispatcher's nap began.
    pub(super) pulled: usize,
}

impl<T> Intake<T> {
    pub(super) fn new(
        bus: Arc<BusState>,
        incoming: Receiver<Entry<T>>,
        controls: Arc<Controls<T>>,
        completion: Option<Completion<T>>,
        options: &BusOptions,
    ) -> Self {
        Self {
            bus,
            incoming,
            controls,
            fan_out: FanOut::new(completion, options.history),
            max_batch: options.max_batch,
            pending: Vec::new(),
            carried: None,
            received: 0,
            busy_rounds: 0,
            is_lent_early: false,
            pulled: 0,
        }
    }

    /// Returns the carried entry if there is one, or else takes an entry out of the incoming queue.
    /// Returns `None` if no entry is waiting.
    pub(super) fn take(&mut self) -> Option<Entry<T>> {
        self.carried.take().or_else(|| self.receive())
    }

    /// Takes an entry out of the incoming queue. Returns `None` if no entry is waiting.
    pub(super) fn receive(&mut self) -> Option<Entry<T>> {
        let entry = self.incoming.try_recv()?;
        self.received += 1;
        Some(entry)
    }

    /// Returns the number of entries from the incoming queue that have been offered, including
    /// entries with pending events.
    fn offered(&self) -> u64 {
        self.received - u64::from(self.carried.is_some())
    }

    /// Collects events, starting with the first entry, until there are `most` events, `entries`
    /// entries have been taken, no entry is waiting, or an entry does not belong to the batch. An
    /// entry does not belong to the batch if it is too large, or if, according to `is_late`, a
    /// control entry may have its place before that entry. If an entry does not belong to the
    /// batch, it is carried from then on. Returns the events, or `None` if the first entry is
    /// carried.
    pub(super) fn gather(
        &mut self,
        first: Entry<T>,
        most: usize,
        mut entries: usize,
        is_late: impl Fn(&Controls<T>, u64) -> bool,
    ) -> Option<Entry<T>> {
        // This thread took the entry out of the queue, so it sees every control entry that was
        // added before the entry's publish call began.
        if is_late(&self.controls, self.received - 1) || first.len() > most {
            self.carried = Some(first);
            return None;
        }
        let mut events = match first {
            Entry::Event(_) if most == 1 || entries == 1 || self.incoming.is_empty() => return Some(first),
            Entry::Event(event) => {
                let mut events = Vec::with_capacity(most.min(self.incoming.len() + 1));
                events.push(event);
                events
            }
            Entry::Batch(events) => events,
        };
        // Each event is moved directly to its destination, because moving a large event takes time.
        let Self { incoming, controls, carried, received, .. } = self;
        while events.len() < most && entries > 1 && carried.is_none() {
            entries -= 1;
            let room = most - events.len();
            let is_next = || !is_late(controls, *received);
            let took = incoming.try_recv_with(|entry| match entry {
                Entry::Event(event) if is_next() => events.push(event),
                Entry::Batch(more) if more.len() <= room && is_next() => events.extend(more),
                other => *carried = Some(other),
            });
            if took.is_none() {
                break;
            }
            *received += 1;
        }
        Some(Entry::Batch(events))
    }

    /// Reaps the stopped watchers, which lose their pending events, and wakes their readers.
    pub(super) fn reap(&mut self) {
        let Self { fan_out, bus, pending, .. } = self;
        // Reaping moves senders, so the senders with pending events are identified by their
        // watchers' ids.
        let waiting: Vec<u64> = pending.drain(..).map(|i| fan_out.senders[i].state.id).collect();
        fan_out.reap(bus, |mut sender| {
            if sender.is_pending() {
                sender.give_up_pending(&bus.clock, true);
                sender.state.has_room();
            }
            sender.close(bus).wake_cell.wake();
        });
        pending.extend(waiting.iter().filter_map(|id| fan_out.index.get(id)));
        if pending.capacity() > 64 && fan_out.senders.len() < pending.capacity() / 4 {
            pending.shrink_to(2 * fan_out.senders.len());
        }
    }

    /// Returns whether events are waiting for capacity in a watcher's mailbox.
    pub(super) fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether no carried entry or pending event precedes the entries in the incoming
    /// queue, and no control entry is waiting. If this returns `false`, only the dispatcher may run
    /// the intake.
    pub(super) fn is_clear(&self) -> bool {
        self.carried.is_none() && !self.is_blocked() && !self.controls.is_waiting()
    }

    fn pending(&self) -> impl Iterator<Item = &MailboxSender<T>> {
        self.pending.iter().map(|&i| &*self.fan_out.senders[i])
    }

    /// Requests a wake-up from the readers of full mailboxes. Returns the earliest deadline of the
    /// pending events.
    pub(super) fn want_room(&self) -> Deadline {
        self.pending().for_each(MailboxSender::want_room);
        self.pending().filter_map(|sender| sender.deadline).min()
    }

    /// Returns whether one of the events that end the dispatcher's sleep has happened. The caller
    /// must have armed its wake cell, so that this call is the caller's second check.
    pub(super) fn is_ready(&self, deadline: Deadline) -> bool {
        let BusState { clock, registry, .. } = &*self.bus;
        let is_ready = if self.is_blocked() {
            let can_go_on = |sender: &MailboxSender<T>| sender.found_room() || sender.state.is_stopped();
            self.bus.is_abandoned() || self.pending().any(can_go_on) || clock.has_passed(deadline)
        } else {
            self.carried.is_some() || self.controls.is_due(self.received) || self.bus.is_quiet()
        };
        is_ready || registry.must_reap()
    }

    /// Returns the dispatcher's next step.
    fn next_step(&mut self) -> Option<Step<T>> {
        let control = self.controls.take_due(self.offered()).map(Step::Control);
        control.or_else(|| self.take().map(Step::Offer))
    }

    /// Ends the bus. Closes every mailbox, and abandons the remaining entries if the dispatcher is
    /// unwinding. Returns the history, because its events' destructors may take a long time.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(super) fn end(&mut self, unwinds: bool) -> Option<History<T>> {
        let left: Vec<_> =
            if unwinds { std::iter::from_fn(|| self.next_step()).collect() } else { Vec::new() };
        let Self { fan_out, bus, .. } = self;
        let events = if unwinds { fan_out.give_up(left, bus) } else { Vec::new() };
        let mut rest = Rest::default();
        fan_out.end(bus, &mut rest, |state| {
            state.wake_cell.wake();
        });
        let history = rest.release();
        discard(events);
        history
    }
}

impl<T: Clone> Intake<T> {
    /// Processes the control entries that are due. Returns whether any control entry was due. While
    /// the dispatcher is blocked, no control entry is due.
    pub(super) fn control(&mut self) -> bool {
        if self.is_blocked() || !self.controls.is_due(self.offered()) {
            return false;
        }
        while let Some(control) = self.controls.take_due(self.offered()) {
            // Reap first, so that watchers that were dropped before a flush are reaped before the
            // flush is processed.
            if self.bus.registry.must_reap() {
                self.reap();
            }
            let Self { fan_out, bus, .. } = self;
            let is_flush = matches!(control, Control::Flush(_));
            let show = |sender: &mut _| {
                wake_or_drain(sender, bus);
            };
            if let Some(stopped) = fan_out.carry_out(control, bus, show) {
                stopped.close(bus).wake_cell.wake();
            }
            if is_flush {
                // No fence is needed, because a flush checks its condition while holding the
                // ticket's lock. See `WaitQueue::wake`.
                bus.done.wake_all();
            }
        }
        true
    }

    /// Offers one batch that begins with the given entry. The first entry that does not belong to
    /// the batch is carried. This may be the given entry itself, if a control entry has its place
    /// before the given entry.
    pub(super) fn round(&mut self, first: Entry<T>) {
        let before = self.received - 1;
        if let Some(events) = self.gather(first, self.max_batch, usize::MAX, Controls::is_due) {
            let taken = (self.received - before) as usize;
            self.offer(events, false, wake_or_drain, |bus| bus.room.wake(taken));
            if taken >= LARGE_ROUND {
                self.busy_rounds = self.busy_rounds.max(BUSY_ROUNDS);
            }
        }
    }

    /// Queues the pending events that now fit, and drops pending events that must not wait any
    /// longer.
    pub(super) fn settle(&mut self) {
        if !self.is_blocked() {
            return;
        }
        let Self { fan_out, bus, pending, .. } = self;
        for &i in &*pending {
            let sender = &mut fan_out.senders[i];
            // An event that fits is not lost, even if its deadline has just passed. A stopped
            // watcher receives no further events.
            if !sender.state.is_stopped() {
                sender.push_pending();
            }
            if sender.is_pending() {
                sender.give_up_pending(&bus.clock, bus.is_abandoned());
            }
        }
        full_fence();
        pending.retain(|&i| {
            let sender = &mut fan_out.senders[i];
            wake_or_drain(sender, bus);
            let is_pending = sender.is_pending();
            if !is_pending {
                sender.state.has_room();
            }
            is_pending
        });
    }

    /// Offers events to every watcher without waiting. Watchers without capacity are added to
    /// `pending`. `show` is called for each sender, and returns whether the sender's reader was
    /// asleep.
    pub(super) fn offer(
        &mut self,
        events: Entry<T>,
        is_whole: bool,
        mut show: impl FnMut(&mut MailboxSender<T>, &BusState) -> bool,
        shown: impl FnOnce(&BusState),
    ) {
        let Self { fan_out, bus, pending, .. } = self;
        let mut found_sleeper = false;
        fan_out.offer(
            events,
            is_whole,
            bus,
            |i, sender| {
                sender.begin_to_wait(&bus.clock);
                pending.push(i);
            },
            |sender| found_sleeper |= show(sender, bus),
            || shown(bus),
        );
        if !fan_out.senders.is_empty() {
            self.busy_rounds = if found_sleeper { 0 } else { self.busy_rounds.saturating_add(1) };
        }
    }
}
