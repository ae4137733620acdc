//! The model of an inline bus: plain data, without a lock, a thread or a queue of entries.

use std::collections::HashMap;
use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::stats::DropReason;

use crate::twin::api::{Event, Figures, How, Item, Nothing, Received, Refused, Totals};
use crate::twin::mailbox::Mailbox;

use super::calls::Call;
use super::speech::{Numbers, Watching};

#[derive(Clone, Debug)]
pub struct Model {
    pub(super) incoming_len: usize,
    pub(super) max_batch: usize,
    pub(super) now: Duration,
    pub(super) watchers: Vec<Watched>,
    pub(super) call: Call,
    pub(super) is_closed: bool,
    /// Whether the documentation leaves open what this bus does now.
    pub is_undetermined: bool,
    /// The position of the newest event or gap.
    position: u64,
    positions: HashMap<Event, u64>,
    accepted: u64,
    pub(super) rejected_full: u64,
    pub(super) rejected_closed: u64,
}

/// A call of a watcher's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Surely(Event),
    /// Another full watcher refuses the event, too, and it is open which one is asked first.
    Perhaps(Event),
}

#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) watching: Watching,
    pub(super) mailbox: Mailbox,
    pub(super) numbers: Numbers,
    pub(super) asked: Vec<Asked>,
    pub(super) heard: Vec<Result<(), Refused>>,
    /// The time of the first publish that found the queue full, if there was no space since then.
    full_since: Option<Duration>,
    position: Position,
}

/// The position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub least: u64,
    pub most: u64,
}

impl Position {
    fn exactly(position: u64) -> Self {
        Self { least: position, most: position }
    }
}

impl Watched {
    pub(super) fn policy(&self) -> OverflowPolicy {
        self.mailbox.spec.policy
    }

    /// Returns whether the bus waits for this watcher when its queue is full.
    fn is_waited_for(&self) -> bool {
        let waits = matches!(self.policy(), OverflowPolicy::Wait | OverflowPolicy::WaitFor(_));
        waits && !self.mailbox.is_stopped
    }

    /// Returns whether the full watcher loses events now, because it has been full for its limit.
    fn is_late(&mut self, now: Duration) -> bool {
        let OverflowPolicy::WaitFor(limit) = self.policy() else { return false };
        *self.full_since.get_or_insert(now) + limit <= now
    }
}

/// The space that a publish finds.
#[derive(Debug)]
pub(super) struct Space {
    /// The number of events that every watcher has space for, or loses.
    pub(super) free: u64,
    /// The watchers that are full and must not lose the event.
    pub(super) full: Vec<usize>,
}

impl Model {
    pub fn new(incoming_len: usize, max_batch: usize) -> Self {
        Self {
            incoming_len,
            max_batch,
            now: Duration::ZERO,
            watchers: Vec::new(),
            call: Call::default(),
            is_closed: false,
            is_undetermined: false,
            position: 0,
            positions: HashMap::new(),
            accepted: 0,
            rejected_full: 0,
            rejected_closed: 0,
        }
    }

    // ── the way in ──

    /// Looks for space, as each publish does. The time of the watchers that are full begins.
    pub(super) fn space(&mut self) -> Space {
        let (mut space, now) = (Space { free: u64::MAX, full: Vec::new() }, self.now);
        for (number, watched) in self.watchers.iter_mut().enumerate().filter(|(_, w)| w.is_waited_for()) {
            match watched.mailbox.free() {
                0 if watched.is_late(now) => {}
                0 => space.full.push(number),
                free => space.free = space.free.min(free),
            }
        }
        space
    }

    /// Gives the events their positions, and offers them to every watcher. The filters of some
    /// watchers have been asked about the first event already.
    pub(super) fn offer(&mut self, events: &[Event], asked: &[usize]) {
        self.accepted += events.len() as u64;
        for event in events {
            self.position += 1;
            self.positions.insert(*event, self.position);
        }
        self.call.speaker = None;
        for number in 0..self.watchers.len() {
            if !self.watchers[number].mailbox.is_stopped {
                self.offer_to(number, events, asked.contains(&number));
            }
        }
    }

    fn offer_to(&mut self, number: usize, events: &[Event], is_asked: bool) {
        let filter = self.watchers[number].watching.spec.filter;
        for (n, event) in events.iter().enumerate() {
            if n > 0 || !is_asked {
                self.ask(number, *event);
            }
            if filter.keeps(*event).is_none() {
                break;
            }
        }
        let watched = &mut self.watchers[number];
        let told = watched.mailbox.told.len();
        watched.mailbox.offer(events, self.now);
        let is_late = watched.full_since.is_some();
        assert!(is_late || !watched.mailbox.is_pending(), "the events were accepted: {watched:?}");
        watched.mailbox.time_out();
        let lost = self.watchers[number].mailbox.told.split_off(told);
        for (_, event) in &lost {
            self.report(number, *event);
        }
        self.watchers[number].mailbox.told.extend(lost);
    }

    pub(super) fn show_gap(&mut self, events: u64) {
        self.position += events;
        self.watchers.iter_mut().for_each(|watched| watched.mailbox.miss(events));
    }

    pub fn watch(&mut self, watching: &Watching) -> Option<usize> {
        if self.is_closed {
            return None;
        }
        let number = self.watchers.len();
        self.watchers.push(Watched {
            watching: watching.clone(),
            mailbox: Mailbox::new(watching.spec.clone()),
            numbers: Numbers::new(number),
            asked: Vec::new(),
            heard: Vec::new(),
            full_since: None,
            position: Position::exactly(self.position),
        });
        Some(number)
    }

    pub fn publish_gap(&mut self, events: u64) -> Result<(), Refused> {
        if self.is_closed {
            return Err(Refused::Stopped(Vec::new()));
        }
        self.show_gap(events);
        Ok(())
    }

    pub fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    pub fn close(&mut self) {
        self.is_closed = true;
        self.end_if_closed();
    }

    /// Ends the bus if it is closed, because nothing is on its way between two calls.
    pub(super) fn end_if_closed(&mut self) {
        if self.is_closed {
            self.watchers.iter_mut().for_each(|watched| watched.mailbox.is_closed = true);
        }
    }

    // ── the watchers ──

    pub fn receive(&mut self, number: usize) -> Received {
        let received = self.watchers[number].mailbox.receive();
        self.note_received(number, received)
    }

    pub fn receive_ref(&mut self, number: usize) -> Received {
        let received = self.watchers[number].mailbox.receive_ref();
        self.note_received(number, received)
    }

    pub fn receive_batch(&mut self, number: usize, most: usize) -> Result<(u64, Vec<Event>), Nothing> {
        let received = self.watchers[number].mailbox.receive_batch(most);
        let last = received.as_ref().ok().map(|(lost, events)| match events.last() {
            Some(event) => Item::Event(*event),
            None => Item::Lagged(*lost),
        });
        let _ = self.note_received(number, last.ok_or(Nothing::Yet));
        received
    }

    fn note_received(&mut self, number: usize, received: Received) -> Received {
        let Self { watchers, positions, position, .. } = self;
        let watched = &mut watchers[number];
        if watched.mailbox.free() > 0 {
            watched.full_since = None;
        }
        match received {
            Ok(Item::Event(event)) => {
                // An event of the prefix has none.
                if let Some(position) = positions.get(&event) {
                    watched.position = Position::exactly(*position);
                }
            }
            Ok(Item::Lagged(lost)) => {
                let next = watched.mailbox.next().map(|next| positions[&next] - 1);
                let least = watched.position.least + lost;
                let most = next.unwrap_or(if watched.watching.has_filter() { *position } else { least });
                // The lost events, and those that the filter refused, may count or not.
                let least = if watched.watching.has_filter() { watched.position.least } else { most };
                watched.position = Position { least, most };
            }
            Err(_) => {}
        }
        received
    }

    pub fn position(&self, number: usize) -> Position {
        self.watchers[number].position
    }

    pub fn peek<R>(&self, number: usize, look: impl FnOnce(&Mailbox) -> R) -> R {
        look(&self.watchers[number].mailbox)
    }

    pub fn stop(&mut self, number: usize) {
        self.watchers[number].mailbox.is_stopped = true;
    }

    pub fn leave(&mut self, number: usize) {
        self.watchers[number].mailbox.leave(false);
    }

    // ── what can be seen ──

    pub fn figures(&self, number: usize) -> Figures {
        self.peek(number, Mailbox::figures)
    }

    pub fn told(&self, number: usize) -> &[(DropReason, Event)] {
        &self.watchers[number].mailbox.told
    }

    pub fn asked(&self, number: usize) -> &[Asked] {
        &self.watchers[number].asked
    }

    pub fn heard(&self, number: usize) -> &[Result<(), Refused>] {
        &self.watchers[number].heard
    }

    pub fn totals(&self) -> Totals {
        let mut watchers = Figures { queued: Some(0), ..Figures::default() };
        self.watchers.iter().for_each(|watched| watchers.add(&watched.mailbox.figures()));
        Totals {
            accepted: self.accepted,
            rejected_full: self.rejected_full,
            rejected_closed: self.rejected_closed,
            watchers,
            listed: Some(self.watchers.iter().filter(|watched| !watched.mailbox.is_gone).count()),
        }
    }

    /// Returns the publish that does not wait, in place of one that would wait forever.
    pub fn without_waiting(how: How) -> How {
        match how {
            How::Wait => How::Try,
            How::Batch => How::TryBatch,
            how => how,
        }
    }
}
