//! The twin's model of one watcher, which is a list of the items that its reader will see. A lost
//! event is represented by a gap.

use std::collections::VecDeque;
use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::stats::DropReason;

use super::api::{Event, Figures, Item, Nothing, Received, Spec, place};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// An event in the prefix, which is not counted and never lost.
    Prefix(Event),
    Event(Event),
    Gap(u64),
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "plainness is the point")]
pub struct Mailbox {
    pub spec: Spec,
    stream: VecDeque<Slot>,
    /// The events waiting for capacity.
    pending: VecDeque<Event>,
    deadline: Option<Duration>,
    /// The number of events that the reader has seen and still borrows.
    lent: u64,
    /// Whether some of the waiting events fit now and the rest do not. The real dispatcher is not
    /// woken for so little capacity, so it may not have moved these events yet.
    pub is_unsure: bool,
    pub is_stopped: bool,
    pub is_closed: bool,
    /// Whether the reader was dropped.
    pub is_gone: bool,
    figures: Figures,
    pub told: Vec<(DropReason, Event)>,
    /// The last gap or event that the reader received.
    pub last: Option<Item>,
}

impl Mailbox {
    pub fn new(spec: Spec) -> Self {
        Self {
            stream: spec.prefix.iter().map(|event| Slot::Prefix(*event)).collect(),
            spec,
            pending: VecDeque::new(),
            deadline: None,
            lent: 0,
            is_unsure: false,
            is_stopped: false,
            is_closed: false,
            is_gone: false,
            figures: Figures::default(),
            told: Vec::new(),
            last: None,
        }
    }

    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Returns whether the next receive finds nothing. The next receive frees the capacity of the
    /// borrowed events, so it also finds the events waiting for this capacity.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty() && self.pending.is_empty()
    }

    /// Returns whether events are waiting for the capacity used by the events that the reader
    /// borrows.
    pub fn is_begrudged(&self) -> bool {
        self.lent > 0 && self.is_pending()
    }

    pub fn has_ended(&self) -> bool {
        self.is_stopped || self.is_closed
    }

    pub fn is_full(&self) -> bool {
        self.queued() >= self.capacity()
    }

    /// Returns the first event in the queue, or `None` if there is none.
    pub fn oldest(&self) -> Option<Event> {
        self.stream.iter().find_map(|slot| if let Slot::Event(event) = slot { Some(*event) } else { None })
    }

    /// Returns the next item, if it is a published event.
    pub fn next(&self) -> Option<Event> {
        if let Some(Slot::Event(event)) = self.stream.front() { Some(*event) } else { None }
    }

    /// Returns the number of events that there is space for.
    pub fn free(&self) -> u64 {
        self.capacity().saturating_sub(self.queued())
    }

    fn events(&self) -> u64 {
        self.stream.iter().filter(|slot| matches!(slot, Slot::Event(_))).count() as u64
    }

    fn queued(&self) -> u64 {
        self.lent + self.events()
    }

    fn capacity(&self) -> u64 {
        self.spec.queue_capacity as u64
    }

    pub fn figures(&self) -> Figures {
        Figures { queued: Some(self.queued()), ..self.figures.clone() }
    }

    // ── the bus's side ──

    pub fn offer(&mut self, batch: &[Event], now: Duration) {
        if self.is_stopped {
            return;
        }
        let kept: Option<Vec<_>> =
            batch.iter().map(|event| self.spec.filter.keeps(*event).map(|keep| (*event, keep))).collect();
        let Some(kept) = kept else { return self.panic() };
        let wanted: Vec<_> = kept.iter().filter(|(_, keep)| *keep).map(|(event, _)| *event).collect();
        self.figures.filtered += (batch.len() - wanted.len()) as u64;
        if let OverflowPolicy::WaitFor(limit) = self.spec.policy {
            self.deadline = Some(now + limit);
        }
        for event in wanted {
            self.figures.offered += 1;
            match self.spec.policy {
                OverflowPolicy::DropIncoming | OverflowPolicy::Evict if self.queued() < self.capacity() => {
                    self.stream.push_back(Slot::Event(event));
                }
                OverflowPolicy::DropIncoming => self.lose_last(DropReason::Incoming, event),
                // The watcher ends before the event, so the event is not offered.
                OverflowPolicy::Evict => {
                    self.figures.offered -= 1;
                    self.figures.evictions += 1;
                    self.is_stopped = true;
                    break;
                }
                OverflowPolicy::DropOldest => {
                    self.stream.push_back(Slot::Event(event));
                    while self.events() > self.capacity() {
                        self.lose_oldest();
                    }
                }
                _ => self.pending.push_back(event),
            }
        }
        self.fill();
        self.note_high_water();
    }

    /// Moves as many waiting events into the queue as fit. Returns whether any events were moved.
    fn fill(&mut self) -> bool {
        let mut moved = false;
        while self.queued() < self.capacity() {
            let Some(event) = self.pending.pop_front() else { break };
            self.stream.push_back(Slot::Event(event));
            moved = true;
        }
        self.note_high_water();
        moved
    }

    fn note_high_water(&mut self) {
        self.figures.high_water = self.figures.high_water.max(self.queued().min(self.capacity()));
    }

    /// Moves as many waiting events into the queue as fit, and drops the rest if the bus no longer
    /// waits for them.
    pub fn settle(&mut self, now: Duration, abandoned: bool) {
        if !self.is_pending() {
            return;
        }
        let moved = !self.is_stopped && self.fill();
        let reason = if self.is_stopped {
            DropReason::Stopped
        } else if abandoned {
            DropReason::Abandoned
        } else if self.deadline.is_some_and(|at| at <= now) {
            DropReason::TimedOut
        } else {
            self.is_unsure = self.is_pending() && (self.is_unsure || moved);
            return;
        };
        self.is_unsure = false;
        while let Some(event) = self.pending.pop_front() {
            self.lose_last(reason, event);
        }
    }

    /// Loses the events waiting for space, because their time limit has passed.
    pub fn time_out(&mut self) {
        while let Some(event) = self.pending.pop_front() {
            self.lose_last(DropReason::TimedOut, event);
        }
    }

    /// Ends the watcher because its filter panicked.
    pub fn panic(&mut self) {
        self.figures.panics += 1;
        self.is_stopped = true;
    }

    /// Shows a published gap.
    pub fn miss(&mut self, events: u64) {
        if !self.is_stopped {
            self.figures.missed += events;
            self.show_gap(events);
        }
    }

    fn show_gap(&mut self, events: u64) {
        match self.stream.back_mut() {
            Some(Slot::Gap(count)) => *count += events,
            _ => self.stream.push_back(Slot::Gap(events)),
        }
    }

    fn count_lost(&mut self, reason: DropReason, event: Event) {
        self.figures.dropped[place(reason)] += 1;
        self.told.push((reason, event));
    }

    fn lose_last(&mut self, reason: DropReason, event: Event) {
        self.count_lost(reason, event);
        self.show_gap(1);
    }

    fn lose_oldest(&mut self) {
        let oldest = self.stream.iter().position(|slot| matches!(slot, Slot::Event(_)));
        let at = oldest.expect("the queue is over capacity");
        let Slot::Event(event) = self.stream[at] else { unreachable!("an event was counted") };
        self.count_lost(DropReason::Oldest, event);
        let mut gap = 1;
        if let Some(Slot::Gap(after)) = self.stream.get(at + 1) {
            gap += after;
            self.stream.remove(at + 1);
        }
        match at.checked_sub(1).and_then(|before| self.stream.get_mut(before)) {
            Some(Slot::Gap(before)) => {
                *before += gap;
                self.stream.remove(at);
            }
            _ => self.stream[at] = Slot::Gap(gap),
        }
    }

    // ── the reader's side ──

    /// Counts the borrowed events as delivered, and frees their capacity.
    pub fn take_back(&mut self) {
        self.figures.delivered += self.lent;
        self.lent = 0;
    }

    fn nothing(&self) -> Nothing {
        if self.has_ended() { Nothing::Ever } else { Nothing::Yet }
    }

    /// Takes the next item if it is a gap, and returns `None` otherwise.
    fn take_gap(&mut self) -> Option<u64> {
        let Some(Slot::Gap(count)) = self.stream.front().copied() else { return None };
        self.stream.pop_front();
        Some(count)
    }

    fn take_event(&mut self) -> Option<Event> {
        match self.stream.front().copied()? {
            Slot::Prefix(event) => {
                self.stream.pop_front();
                Some(event)
            }
            Slot::Event(event) => {
                self.stream.pop_front();
                self.lent += 1;
                Some(event)
            }
            Slot::Gap(_) => None,
        }
    }

    pub fn receive_ref(&mut self) -> Received {
        self.take_back();
        let gap = self.take_gap().map(Item::Lagged);
        let received = gap.or_else(|| self.take_event().map(Item::Event));
        self.last = received.or(self.last);
        received.ok_or(self.nothing())
    }

    pub fn receive(&mut self) -> Received {
        let received = self.receive_ref();
        self.take_back();
        received
    }

    pub fn receive_batch(&mut self, most: usize) -> Result<(u64, Vec<Event>), Nothing> {
        self.take_back();
        if self.stream.is_empty() {
            return Err(self.nothing());
        }
        let gap = self.take_gap();
        let alike = |a: &Slot, b: &Slot| matches!(a, Slot::Prefix(_)) == matches!(b, Slot::Prefix(_));
        let first = self.stream.front().copied();
        let mut events = Vec::new();
        while events.len() < most && self.stream.front().zip(first.as_ref()).is_some_and(|(a, b)| alike(a, b))
        {
            let Some(event) = self.take_event() else { break };
            events.push(event);
        }
        // Waiting events may enter the queue only after the reader has received the gap.
        let may_be_late = matches!(self.spec.policy, OverflowPolicy::Wait | OverflowPolicy::WaitFor(_));
        let is_gap_alone = gap.is_some() && (first.is_none() || may_be_late);
        assert!(!events.is_empty() || is_gap_alone, "an empty batch although items are available: {self:?}");
        self.last = events.last().copied().map(Item::Event).or(gap.map(Item::Lagged));
        Ok((gap.unwrap_or(0), events))
    }

    /// Removes the reader, and counts the events that it has not read as lost.
    pub fn leave(&mut self, abandoned: bool) {
        self.take_back();
        let lost = self.events();
        let reason = if abandoned { DropReason::Abandoned } else { DropReason::Stopped };
        self.figures.dropped[place(reason)] += lost;
        self.stream.clear();
        self.is_stopped = true;
        self.is_gone = true;
    }
}
