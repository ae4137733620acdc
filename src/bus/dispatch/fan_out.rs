//! The fan-out, which offers events to the watchers, and registers and reaps watchers.
//!
//! Only one thread at a time runs the fan-out. In a bus with a dispatcher, the fan-out is part of
//! the [`Intake`](super::intake::Intake). In an inline bus, it is part of the
//! [`InlineFront`](super::inline::InlineFront). No function in this module waits. Waking the
//! readers is left to the callers, because an inline bus wakes readers only after it has released
//! its lock.

use std::collections::HashMap;

use crate::bus::mailbox::{BatchSlice, Entry, MailboxSender, SharedBatch};
use crate::bus::options::Start;
use crate::bus::state::{BusState, WatcherState};
use crate::bus::wait::full_fence;
use crate::sync::{Arc, GROUP};

use super::entry::{Control, Step};
use super::history::History;

/// An internal function that completes an event before any watcher sees it. It must not panic.
pub(crate) type Completion<T> = Box<dyn Fn(&mut T) + Send>;

/// The highest position that a gap may reach. Later events are counted from this position onwards,
/// so no count overflows.
const LAST_POSITION: u64 = 1 << 62;

pub(super) struct FanOut<T> {
    pub(super) completion: Option<Completion<T>>,
    #[allow(clippy::vec_box, reason = "the list grows by doubling: what it has to spare should be small")]
    pub(super) senders: Vec<Box<MailboxSender<T>>>,
    /// Maps each watcher's id to its index in `senders`.
    pub(super) index: HashMap<u64, usize>,
    /// The number of senders whose policy makes the bus wait for capacity.
    pub(super) waited_for: usize,
    pub(super) history: History<T>,
    accepted: u64,
}

impl<T> FanOut<T> {
    pub(super) fn new(completion: Option<Completion<T>>, history: usize) -> Self {
        Self {
            completion,
            senders: Vec::new(),
            index: HashMap::new(),
            waited_for: 0,
            history: History::new(history),
            accepted: 0,
        }
    }

    /// Counts events as accepted, before they are offered to any watcher. Returns the position of
    /// the first event.
    pub(super) fn accept(&mut self, events: usize, bus: &BusState) -> u64 {
        let first = self.position(bus) + 1;
        self.accepted += events as u64;
        bus.set_accepted(self.accepted);
        first
    }

    /// Returns the position of the newest event or gap.
    fn position(&self, bus: &BusState) -> u64 {
        self.accepted + bus.missed()
    }

    /// Records a gap of this many events for every watcher. The caller must issue a fence and wake
    /// the sleeping readers.
    fn add_gap(&mut self, events: u64, bus: &BusState) {
        let events = events.min(LAST_POSITION.saturating_sub(self.position(bus)));
        bus.set_missed(bus.missed() + events);
        for sender in &mut self.senders {
            sender.add_gap(events);
        }
    }

    /// Removes the senders of stopped watchers, and passes each sender to `removed`, which must
    /// close the sender's mailbox.
    pub(super) fn reap(&mut self, bus: &BusState, mut removed: impl FnMut(Box<MailboxSender<T>>)) {
        for id in bus.registry.take_reapable() {
            let Some(i) = self.index.remove(&id) else { continue };
            let sender = self.senders.swap_remove(i);
            if let Some(moved) = self.senders.get(i) {
                self.index.insert(moved.state.id, i);
            }
            self.waited_for -= usize::from(sender.state.policy.waits());
            removed(sender);
        }
        // Once most watchers have been removed, the memory for them is freed as well. Some spare
        // capacity is kept for new watchers, so that it need not be allocated again.
        let held = self.senders.len();
        if self.senders.capacity() > 64 && held < self.senders.capacity() / 4 {
            self.senders.shrink_to(2 * held);
            self.index.shrink_to(2 * held);
        }
    }

    /// Ends the bus by closing every mailbox. `closed` is called with each watcher, and must wake
    /// the watcher's reader or note the reader for later. The caller need not issue a fence. Adds
    /// the remains of the mailboxes to `rest`.
    pub(super) fn end(
        &mut self,
        bus: &BusState,
        rest: &mut Rest<T>,
        mut closed: impl FnMut(&Arc<WatcherState>),
    ) {
        // All readers must see that the bus has ended before the first of the destructors in `rest`
        // runs, because a destructor may wait for a reader.
        for mut sender in std::mem::take(&mut self.senders) {
            rest.slices.push(announce_end(bus, &mut sender));
            closed(&sender.state);
            rest.senders.push(sender);
        }
        self.index.clear();
        self.waited_for = 0;
        rest.history = Some(std::mem::replace(&mut self.history, History::new(0)));
    }

    /// Counts as abandoned the accepted events that will not be offered because the thread running
    /// the fan-out is unwinding. Returns these events, so that the caller can run their destructors
    /// last.
    #[cold]
    pub(super) fn give_up(&mut self, steps: impl IntoIterator<Item = Step<T>>, bus: &BusState) -> Vec<T> {
        bus.abandon();
        let (mut events, mut late) = (Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Offer(Entry::Event(event)) => events.push(event),
                Step::Offer(Entry::Batch(more)) => events.extend(more),
                Step::Control(Control::Register(sender, _)) => late.push((sender, events.len())),
                Step::Control(Control::Flush(_) | Control::Gap(_)) => {}
            }
        }
        self.accept(events.len(), bus);
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

impl<T: Clone> FanOut<T> {
    /// Accepts events, and offers them to every watcher without waiting. Every event takes this
    /// path, whether it is offered by the dispatcher, a publisher that delivers directly, a reader
    /// that pulls, or the owner of an inline bus.
    ///
    /// 1. Accept and complete the events.
    /// 2. Share the events, and offer them to the mailboxes of a [group](GROUP). If some of the
    ///    events have to wait for capacity in a mailbox, call `pending` with the index of the
    ///    mailbox's sender.
    /// 3. Issue a single fence for the group.
    /// 4. Call `show` for each sender of the group, to wake the sender's reader or to note that the
    ///    reader is asleep. Continue with the next group. After the last group, call `shown`.
    /// 5. Add the batch to the history, and drop events that no reader holds.
    ///
    /// If `is_whole` is set, the caller must have checked that the events fit into every mailbox,
    /// and the current thread must not run user code. In this case, no event is lost, copied or
    /// dropped here.
    #[inline]
    pub(super) fn offer(
        &mut self,
        mut entry: Entry<T>,
        is_whole: bool,
        bus: &BusState,
        pending: impl FnMut(usize, &mut MailboxSender<T>),
        mut show: impl FnMut(&mut MailboxSender<T>),
        shown: impl FnOnce(),
    ) {
        let first = self.accept(entry.len(), bus);
        if self.senders.is_empty() {
            bus.count_unheard(entry.len());
            full_fence();
            if !self.history.keeps_events() {
                shown();
                return entry.discard();
            }
        }
        if let Some(complete) = &self.completion {
            entry.events_mut().iter_mut().for_each(complete);
        }
        let is_alone = match &mut *self.senders {
            [only] => !is_whole && !self.history.keeps_events() && only.takes_alone(entry.len()),
            _ => false,
        };
        let kept = match &mut *self.senders {
            [only] if is_alone => {
                only.offer_alone(entry, first);
                full_fence();
                show(only);
                None
            }
            _ => self.offer_batch(entry.share(first), is_whole, bus, pending, show),
        };
        shown();
        // The batch is added to the history last, because destructors may run here.
        if let Some(batch) = kept {
            self.history.keep(batch);
        }
    }

    /// Offers a batch to each mailbox, one [group](GROUP) after the other. After a group, issues a
    /// fence, and calls `show` for the group's senders. Returns this thread's reference to the
    /// batch. If the thread must not run the events' destructors, the reference is moved into the
    /// last mailbox instead, so that a reader drops the last reference.
    fn offer_batch(
        &mut self,
        batch: Arc<SharedBatch<T>>,
        is_whole: bool,
        bus: &BusState,
        mut pending: impl FnMut(usize, &mut MailboxSender<T>),
        mut show: impl FnMut(&mut MailboxSender<T>),
    ) -> Option<Arc<SharedBatch<T>>> {
        let (events, last) = (batch.events().len(), self.senders.len().saturating_sub(1));
        let mut batch = Some(batch);
        let mut offered = 0;
        for group in self.senders.chunks_mut(GROUP) {
            for sender in &mut *group {
                // The last mailbox gets this thread's reference.
                let share = if is_whole && offered == last { batch.take() } else { batch.clone() };
                if let Some(share) = share {
                    if is_whole {
                        sender.offer_whole(share);
                    } else if sender.offer(share, 0..events, bus) {
                        pending(offered, sender);
                    }
                }
                offered += 1;
            }
            full_fence();
            for sender in group {
                show(sender);
            }
        }
        batch
    }

    /// Processes a control entry. After a fence, calls `show` for each sender that has something
    /// new for its reader. `show` wakes the reader or notes that the reader is asleep. If a watcher
    /// was stopped before its registration, returns the watcher's sender. The caller must close
    /// that sender's mailbox.
    pub(super) fn carry_out(
        &mut self,
        control: Control<T>,
        bus: &BusState,
        mut show: impl FnMut(&mut MailboxSender<T>),
    ) -> Option<Box<MailboxSender<T>>> {
        match control {
            Control::Register(sender, start) => {
                let show = |sender: &mut _| {
                    full_fence();
                    show(sender);
                };
                return self.register(sender, start, bus, show).err();
            }
            Control::Flush(ticket) => {
                // The registry's list also includes handlers that were stopped but are still
                // handling queued events. If a handler is registered after the flush, its offset is
                // zero, so the flush does not wait for the handler.
                let offset = |state: Arc<WatcherState>| (state.decided(), state);
                ticket.reach(bus.registry.unfinished().into_iter().map(offset).collect());
            }
            Control::Gap(events) => {
                self.add_gap(events, bus);
                full_fence();
                self.senders.iter_mut().for_each(|sender| show(sender));
            }
        }
        None
    }

    /// Adds a watcher, and offers it the events in the history from the watcher's start onwards.
    /// `show` is called between batches and at the end, to wake the reader.
    ///
    /// # Errors
    ///
    /// Returns the sender if the watcher has already been stopped. The caller must close the
    /// sender's mailbox.
    fn register(
        &mut self,
        mut sender: Box<MailboxSender<T>>,
        start: Start,
        bus: &BusState,
        show: impl FnMut(&mut MailboxSender<T>),
    ) -> Result<(), Box<MailboxSender<T>>> {
        let newest = self.position(bus);
        let start = match start {
            Start::Next => newest,
            Start::Oldest => self.history.position_before().unwrap_or(newest),
            Start::After(position) => position.min(newest),
        };
        sender.state.set_start(start);
        if !sender.is_offered() {
            // The stopping thread has requested that the watcher be reaped, but reaping cannot find
            // this sender, and may already have finished, so the mailbox is closed now. This does
            // not apply to a handler that has abandoned its queue, because such a handler is not
            // reaped. The handler's sender stays listed until the bus ends, so that events accepted
            // after the registration count as abandoned.
            return Err(sender);
        }
        if start < newest {
            self.replay(&mut sender, start, bus, show);
        }
        self.index.insert(sender.state.id, self.senders.len());
        self.waited_for += usize::from(sender.state.policy.waits());
        self.senders.push(sender);
        Ok(())
    }

    /// Offers a new watcher the events in the history after this position, with gaps for missing
    /// events.
    fn replay(
        &self,
        sender: &mut MailboxSender<T>,
        start: u64,
        bus: &BusState,
        mut show: impl FnMut(&mut MailboxSender<T>),
    ) {
        let mut reached = start;
        for (batch, range) in self.history.after(start) {
            sender.add_gap(batch.position(range.start) - 1 - reached);
            // Wake the reader now, because the filter may take a long time to process the next
            // batch.
            show(sender);
            reached = batch.position(range.end - 1);
            sender.replay(batch.clone(), range, bus);
        }
        sender.add_gap(self.position(bus) - reached);
        show(sender);
    }
}

/// Wakes the sender's reader if it is asleep, and empties the queue if the reader is gone. The
/// caller must have issued a fence since its offer. Returns whether the reader was asleep.
pub(super) fn wake_or_drain<T>(sender: &mut MailboxSender<T>, bus: &BusState) -> bool {
    let slept = sender.state.wake_cell.wake();
    drain_gone(sender, bus);
    slept
}

/// Empties the sender's queue if the reader is gone. The caller must have issued a fence since its
/// offer.
pub(super) fn drain_gone<T>(sender: &mut MailboxSender<T>, bus: &BusState) {
    if sender.state.is_gone() {
        drop(sender.drain(bus.is_abandoned()));
        sender.report_abandoned();
    }
}

/// The remains of closed mailboxes, whose destructors run user code.
pub(super) struct Rest<T> {
    #[allow(clippy::vec_box, reason = "they come from a list of boxes")]
    senders: Vec<Box<MailboxSender<T>>>,
    /// The slices that were still in the queues of readers that are gone.
    slices: Vec<Vec<BatchSlice<T>>>,
    history: Option<History<T>>,
}

impl<T> Default for Rest<T> {
    fn default() -> Self {
        Self { senders: Vec::new(), slices: Vec::new(), history: None }
    }
}

impl<T> Rest<T> {
    /// Closes the mailbox of a removed sender, and keeps the sender. The caller must wake the
    /// reader.
    pub(super) fn close(&mut self, mut sender: Box<MailboxSender<T>>, bus: &BusState) {
        self.slices.push(announce_end(bus, &mut sender));
        self.senders.push(sender);
    }

    /// Runs all destructors except for the destructors of events in the history, which may take a
    /// long time. Returns the history.
    #[must_use = "the events' destructors run where it is dropped"]
    pub(super) fn release(self) -> Option<History<T>> {
        for mut sender in self.senders {
            sender.drop_closures();
        }
        drop(self.slices);
        self.history
    }
}

/// Closes a mailbox like [`MailboxSender::close`], before any user-supplied value is dropped.
/// Returns the slices that were still in the queue of a reader that is gone.
fn announce_end<T>(bus: &BusState, sender: &mut MailboxSender<T>) -> Vec<BatchSlice<T>> {
    let left = if sender.state.is_gone() { sender.drain(bus.is_abandoned()) } else { Vec::new() };
    bus.sender_closed(&sender.state);
    left
}
