//! The twin's idea of one watcher: a list of what its reader will see, in which a lost event is a gap.

use std::collections::VecDeque;
use std::time::Duration;

use eventcast::{DropReason, OverflowPolicy};

use super::api::{Event, Figures, Item, Nothing, Received, Spec, place};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    /// Of the prefix: not counted, never lost.
    Prefix(Event),
    Event(Event),
    Gap(u64),
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "plainness is the point")]
pub struct Mailbox {
    pub spec: Spec,
    stream: VecDeque<Slot>,
    /// What is waited for.
    pending: VecDeque<Event>,
    deadline: Option<Duration>,
    /// Events in the reader's hand that it has seen.
    lent: u64,
    /// Of `DropOldest`: whether the first event of the stream is in the reader's hand, where it cannot be lost. That is
    /// so when the gap before it has been told.
    in_hand: bool,
    /// Some of what was waited for has found room, and the rest has not: the real dispatcher, which is not woken for
    /// little, may not have moved it yet.
    pub is_unsure: bool,
    pub is_stopped: bool,
    pub is_closed: bool,
    /// Its reader has gone.
    pub is_gone: bool,
    figures: Figures,
    pub told: Vec<(DropReason, Event)>,
}

impl Mailbox {
    pub fn new(spec: Spec) -> Self {
        Self {
            stream: spec.prefix.iter().map(|event| Slot::Prefix(*event)).collect(),
            spec,
            pending: VecDeque::new(),
            deadline: None,
            lent: 0,
            in_hand: false,
            is_unsure: false,
            is_stopped: false,
            is_closed: false,
            is_gone: false,
            figures: Figures::default(),
            told: Vec::new(),
        }
    }

    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Whether the next receive finds nothing: what waits for the room of what is in the reader's hand comes then.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty() && self.pending.is_empty()
    }

    /// Whether the room of what is in the reader's hand is waited for.
    pub fn is_begrudged(&self) -> bool {
        self.lent > 0 && self.is_pending()
    }

    pub fn has_ended(&self) -> bool {
        self.is_stopped || self.is_closed
    }

    pub fn is_full(&self) -> bool {
        self.queued() >= self.capacity()
    }

    /// The first event of the queue.
    pub fn oldest(&self) -> Option<Event> {
        self.stream.iter().find_map(|slot| if let Slot::Event(event) = slot { Some(*event) } else { None })
    }

    fn events(&self) -> u64 {
        self.stream.iter().filter(|slot| matches!(slot, Slot::Event(_))).count() as u64
    }

    fn queued(&self) -> u64 {
        self.lent + self.events()
    }

    fn capacity(&self) -> u64 {
        self.spec.queue_len as u64
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
        let Some(kept) = kept else {
            self.figures.panics += 1;
            self.is_stopped = true;
            return;
        };
        let wanted: Vec<_> = kept.iter().filter(|(_, keep)| *keep).map(|(event, _)| *event).collect();
        self.figures.filtered += (batch.len() - wanted.len()) as u64;
        self.figures.offered += wanted.len() as u64;
        if let OverflowPolicy::WaitFor(limit) = self.spec.policy {
            self.deadline = Some(now + limit);
        }
        for event in wanted {
            match self.spec.policy {
                OverflowPolicy::DropIncoming if self.queued() < self.capacity() => {
                    self.stream.push_back(Slot::Event(event));
                }
                OverflowPolicy::DropIncoming => self.lose_last(DropReason::Incoming, event),
                OverflowPolicy::DropOldest => {
                    self.stream.push_back(Slot::Event(event));
                    while self.events() - u64::from(self.in_hand) > self.capacity() {
                        self.lose_oldest();
                    }
                }
                _ => self.pending.push_back(event),
            }
        }
        self.fill();
        self.note_high_water();
    }

    /// Gives what is waited for the room that there is.
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

    /// Looks whether what is waited for has found room, or is not waited for any more.
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

    fn count_lost(&mut self, reason: DropReason, event: Event) {
        self.figures.dropped[place(reason)] += 1;
        self.told.push((reason, event));
    }

    fn lose_last(&mut self, reason: DropReason, event: Event) {
        self.count_lost(reason, event);
        match self.stream.back_mut() {
            Some(Slot::Gap(count)) => *count += 1,
            _ => self.stream.push_back(Slot::Gap(1)),
        }
    }

    fn lose_oldest(&mut self) {
        let mut seen = 0;
        let oldest = self.stream.iter().position(|slot| {
            seen += u64::from(matches!(slot, Slot::Event(_)));
            seen > u64::from(self.in_hand)
        });
        let at = oldest.expect("there is one too many");
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

    /// What was in the reader's hand is delivered, and its room is free.
    pub fn take_back(&mut self) {
        self.figures.delivered += self.lent;
        self.lent = 0;
    }

    fn nothing(&self) -> Nothing {
        if self.has_ended() { Nothing::Ever } else { Nothing::Yet }
    }

    /// A gap that comes next. Behind it, a reader of `DropOldest` has the next event in its hand.
    fn take_gap(&mut self) -> Option<u64> {
        let Some(Slot::Gap(count)) = self.stream.front().copied() else { return None };
        self.stream.pop_front();
        self.in_hand = self.spec.policy == OverflowPolicy::DropOldest && !self.stream.is_empty();
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
                self.in_hand = false;
                self.lent += 1;
                Some(event)
            }
            Slot::Gap(_) => None,
        }
    }

    pub fn receive_ref(&mut self) -> Received {
        self.take_back();
        if let Some(count) = self.take_gap() {
            return Ok(Item::Lagged(count));
        }
        self.take_event().map(Item::Event).ok_or(self.nothing())
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
        // What is waited for may find its room only after the gap was told.
        let may_be_late = matches!(self.spec.policy, OverflowPolicy::Wait | OverflowPolicy::WaitFor(_));
        let is_gap_alone = gap.is_some() && (first.is_none() || may_be_late);
        assert!(!events.is_empty() || is_gap_alone, "a batch of nothing where there is something: {self:?}");
        Ok((gap.unwrap_or(0), events))
    }

    /// The reader goes.
    pub fn leave(&mut self, abandoned: bool) {
        self.take_back();
        let lost = self.events();
        let reason = if abandoned { DropReason::Abandoned } else { DropReason::Stopped };
        self.figures.dropped[place(reason)] += lost;
        self.stream.clear();
        self.in_hand = false;
        self.is_stopped = true;
        self.is_gone = true;
    }
}
