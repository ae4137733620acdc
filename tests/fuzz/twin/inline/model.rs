//! The model of an inline bus. The model is plain data, without locks, threads or a queue of
//! entries.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use eventcast::OverflowPolicy;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::twin::api::{Event, Figures, How, Item, Numbers, Refused, Spec, Totals};
use crate::twin::mailbox::Mailbox;
use crate::twin::program::{Model, Publish};
use crate::twin::real::RealReader;

#[derive(Clone, Debug)]
pub struct Inline {
    pub(super) incoming_capacity: usize,
    pub(super) max_batch: usize,
    pub(super) now: Duration,
    pub(super) watchers: Vec<Watched>,
    pub(super) call: Call,
    pub(super) is_closed: bool,
    /// Whether the documentation does not specify what this bus does now.
    pub(super) is_undetermined: bool,
    /// The position of the newest event or gap.
    position: u64,
    positions: HashMap<Event, u64>,
    accepted: u64,
    pub(super) rejected_full: u64,
    pub(super) rejected_closed: u64,
}

/// One outermost call.
#[derive(Clone, Debug, Default)]
pub(super) struct Call {
    /// The number of entries published inside the call, and the entries that are waiting for their
    /// turn.
    pub(super) taken: usize,
    pub(super) nested: VecDeque<Nested>,
    /// The number of further events that every queue has space for after the call's own event.
    pub(super) left: u64,
    /// The watcher that published during the current offer.
    pub(super) speaker: Option<usize>,
}

/// An entry that was published inside a call.
#[derive(Clone, Debug)]
pub(super) enum Nested {
    Events(Vec<Event>),
    Gap(u64),
}

/// A call of a watcher's filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Surely(Event),
    /// Another full watcher also refuses the event, and which filter is called first is
    /// unspecified.
    Perhaps(Event),
}

#[derive(Clone, Debug)]
pub(super) struct Watched {
    pub(super) mailbox: Mailbox,
    pub(super) numbers: Numbers,
    pub(super) asked: Vec<Asked>,
    pub(super) heard: Vec<Result<(), Refused>>,
    /// The time of the first publish that found the queue full, if the queue has had no space
    /// since.
    full_since: Option<Duration>,
    position: Position,
}

/// The position of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Position {
    least: u64,
    most: u64,
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

    /// Returns whether the full watcher loses events now, because it has been full for as long as
    /// its limit allows.
    fn is_late(&mut self, now: Duration) -> bool {
        let OverflowPolicy::WaitFor(limit) = self.policy() else { return false };
        *self.full_since.get_or_insert(now) + limit <= now
    }
}

/// The space available to a publish call.
#[derive(Debug)]
pub(super) struct Space {
    /// The number of events that every watcher has space for, or loses.
    pub(super) free: u64,
    /// The watchers that are full and must not lose the event.
    pub(super) full: Vec<usize>,
}

impl Inline {
    /// Checks for space, as every publish does. Starts the time limit for watchers that are full.
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

    /// Assigns positions to the events, and offers them to every watcher. Some watchers' filters
    /// have already been called with the first event.
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
        let filter = self.watchers[number].mailbox.spec.filter;
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

    /// Ends the bus if it is closed, because nothing is in transit between two calls.
    pub(super) fn end_if_closed(&mut self) {
        if self.is_closed {
            self.watchers.iter_mut().for_each(|watched| watched.mailbox.is_closed = true);
        }
    }

    /// Records how a change to the mailbox affects the watcher.
    fn note(&mut self, number: usize) {
        let Self { watchers, positions, position, .. } = self;
        let watched = &mut watchers[number];
        if watched.mailbox.free() > 0 {
            watched.full_since = None;
        }
        let has_filter = watched.mailbox.spec.has_filter();
        match watched.mailbox.last.take() {
            Some(Item::Event(event)) => {
                // An event in the prefix has no position.
                if let Some(position) = positions.get(&event) {
                    watched.position = Position::exactly(*position);
                }
            }
            Some(Item::Lagged(lost)) => {
                let next = watched.mailbox.next().map(|next| positions[&next] - 1);
                let least = watched.position.least + lost;
                let most = next.unwrap_or(if has_filter { *position } else { least });
                // Lost events, and events that the filter refused, may or may not count.
                let least = if has_filter { watched.position.least } else { most };
                watched.position = Position { least, most };
            }
            None => {}
        }
    }
}

impl Model for Inline {
    const IS_INLINE: bool = true;

    fn new(incoming_capacity: usize, max_batch: usize) -> Self {
        Self {
            incoming_capacity,
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

    /// On the real bus, a waiting form is used only if there is space.
    fn publish(&mut self, events: Vec<Event>, how: How) -> Option<Publish> {
        let mut after = self.clone();
        let answer = after.accept(events.clone(), how);
        if after.is_undetermined {
            return None;
        }
        *self = after;
        let how = if matches!(answer, Err(Refused::Full(_))) { how.without_waiting() } else { how };
        Some(Publish { events, how, answer })
    }

    fn publish_gap(&mut self, events: u64) -> Result<(), Refused> {
        if events > 0 && self.is_closed {
            return Err(Refused::Stopped(Vec::new()));
        }
        if events > 0 {
            self.show_gap(events);
        }
        Ok(())
    }

    fn watch(&mut self, spec: &Spec) -> Option<usize> {
        if self.is_closed {
            return None;
        }
        let number = self.watchers.len();
        self.watchers.push(Watched {
            mailbox: Mailbox::new(spec.clone()),
            numbers: Numbers::new(number),
            asked: Vec::new(),
            heard: Vec::new(),
            full_since: None,
            position: Position::exactly(self.position),
        });
        Some(number)
    }

    fn mailbox(&self, number: usize) -> &Mailbox {
        &self.watchers[number].mailbox
    }

    fn with<R>(&mut self, number: usize, act: impl FnOnce(&mut Mailbox) -> R) -> R {
        let result = act(&mut self.watchers[number].mailbox);
        self.note(number);
        result
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
    }

    fn is_blocked(&self) -> bool {
        false
    }

    fn is_abandoned(&self) -> bool {
        false
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.end_if_closed();
    }

    fn shutdown(&mut self, _give_up: bool) -> bool {
        self.close();
        true
    }

    fn totals(&self) -> Totals {
        Totals {
            accepted: self.accepted,
            rejected_full: self.rejected_full,
            rejected_closed: self.rejected_closed,
            watchers: Figures::sum(self.watchers.iter().map(|watched| watched.mailbox.figures())),
            listed: Some(self.watchers.iter().filter(|watched| !watched.mailbox.is_gone).count()),
        }
    }

    fn check(&self, number: usize, real: &RealReader) -> Result<(), TestCaseError> {
        let Watched { asked, heard, position, .. } = &self.watchers[number];
        prop_assert_eq!(&real.heard(), heard);
        prop_assert!(is_allowed(&real.asked(), asked), "asked about {:?}, not {:?}", real.asked(), asked);
        let at = real.watcher.position();
        let is_right = at.is_some_and(|at| (position.least..=position.most).contains(&at));
        prop_assert!(is_right, "the position is {:?}, not {:?}", at, position);
        Ok(())
    }
}

/// Returns whether the filter may have been called with these events. A filter is not called twice
/// with the same event in one publish.
fn is_allowed(asked: &[Event], allowed: &[Asked]) -> bool {
    let mut asked = asked.iter().peekable();
    for allowed in allowed {
        match allowed {
            Asked::Surely(event) if asked.next() == Some(event) => {}
            Asked::Surely(_) => return false,
            Asked::Perhaps(event) => {
                asked.next_if_eq(&event);
            }
        }
    }
    asked.next().is_none()
}
