//! The twin, which is a broadcaster without locks or threads. Before returning, each call does
//! everything that a dispatcher would do, so there are no races.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::test_runner::TestCaseError;

use super::api::{Event, Figures, How, Refused, Spec, Totals};
use super::mailbox::Mailbox;
use super::program::{Model, Publish};
use super::real::RealReader;

#[derive(Default)]
pub struct Twin {
    incoming_capacity: usize,
    max_batch: usize,
    now: Duration,
    /// The accepted events, interleaved with registrations, which do not use any capacity.
    incoming: VecDeque<Entry>,
    /// The number of entries that were taken out together with the batch being offered and no
    /// longer use capacity. This is either none or the first entry that contains events. These
    /// entries follow the batch.
    carried: usize,
    mailboxes: Vec<Mailbox>,
    /// The numbers of the watchers that events are offered to.
    registered: Vec<usize>,
    is_closed: bool,
    is_abandoned: bool,
    has_ended: bool,
    report: Option<bool>,
    accepted: u64,
    rejected_full: u64,
    rejected_closed: u64,
}

#[derive(Debug)]
enum Entry {
    Events(Vec<Event>),
    Register(usize),
}

impl Twin {
    fn free(&self) -> usize {
        let events = self.incoming.iter().filter(|entry| matches!(entry, Entry::Events(_))).count();
        self.incoming_capacity - (events - self.carried)
    }

    /// Runs until there is nothing left to do or the dispatcher must wait for a watcher.
    fn run(&mut self) {
        loop {
            let (now, abandoned) = (self.now, self.is_abandoned);
            self.mailboxes.iter_mut().for_each(|mailbox| mailbox.settle(now, abandoned));
            if self.is_blocked() {
                return;
            }
            match self.incoming.pop_front() {
                Some(Entry::Register(number)) => self.registered.push(number),
                Some(Entry::Events(events)) => {
                    self.carried = 0;
                    self.offer(events);
                }
                None => break,
            }
        }
        if self.is_closed && !self.has_ended {
            self.has_ended = true;
            self.mailboxes.iter_mut().for_each(|mailbox| mailbox.is_closed = true);
        }
    }

    fn offer(&mut self, mut batch: Vec<Event>) {
        while batch.len() < self.max_batch {
            match self.incoming.front_mut() {
                Some(Entry::Events(more)) if batch.len() + more.len() <= self.max_batch => {
                    batch.append(more);
                    self.incoming.pop_front();
                }
                _ => {
                    let has_events = self.incoming.iter().any(|entry| matches!(entry, Entry::Events(_)));
                    self.carried = usize::from(has_events);
                    break;
                }
            }
        }
        self.accepted += batch.len() as u64;
        for number in &self.registered {
            self.mailboxes[*number].offer(&batch, self.now);
        }
    }

    fn push(&mut self, entry: Entry) -> Result<(), Entry> {
        if self.free() == 0 && matches!(entry, Entry::Events(_)) {
            return Err(entry);
        }
        self.incoming.push_back(entry);
        self.run();
        Ok(())
    }
}

impl Twin {
    /// Accepts the events that fit.
    fn accept(&mut self, mut rest: Vec<Event>) -> Result<(), Refused> {
        while !rest.is_empty() {
            if self.is_closed {
                self.rejected_closed += rest.len() as u64;
                return Err(Refused::Stopped(rest));
            }
            let mut piece = rest;
            rest = piece.split_off(piece.len().min(self.max_batch));
            if let Err(Entry::Events(mut back)) = self.push(Entry::Events(piece)) {
                back.append(&mut rest);
                self.rejected_full += back.len() as u64;
                return Err(Refused::Full(back));
            }
        }
        Ok(())
    }
}

impl Model for Twin {
    const IS_INLINE: bool = false;

    fn new(incoming_capacity: usize, max_batch: usize) -> Self {
        Self { incoming_capacity, max_batch, ..Self::default() }
    }

    fn publish(&mut self, mut events: Vec<Event>, mut how: How) -> Option<Publish> {
        let free = self.free();
        if !self.is_closed && events.len().div_ceil(self.max_batch) > free {
            if self.is_blocked() {
                // Waiting for capacity would never end.
                how = how.without_waiting();
            } else {
                // The dispatcher removes entries while this thread adds them, so more events may or
                // may not fit.
                events.truncate(free * self.max_batch);
            }
        }
        let answer = self.accept(events.clone());
        Some(Publish { events, how, answer })
    }

    fn publish_gap(&mut self, _events: u64) -> Result<(), Refused> {
        unreachable!("only programs for an inline bus publish gaps")
    }

    fn watch(&mut self, spec: &Spec) -> Option<usize> {
        if self.is_closed {
            return None;
        }
        let number = self.mailboxes.len();
        self.mailboxes.push(Mailbox::new(spec.clone()));
        assert!(self.push(Entry::Register(number)).is_ok(), "a registration uses no capacity");
        Some(number)
    }

    fn mailbox(&self, number: usize) -> &Mailbox {
        &self.mailboxes[number]
    }

    fn with<R>(&mut self, number: usize, act: impl FnOnce(&mut Mailbox) -> R) -> R {
        let result = act(&mut self.mailboxes[number]);
        // A dropped watcher's registration no longer separates the events.
        if self.mailboxes[number].is_gone {
            self.incoming
                .retain(|entry| !matches!(entry, Entry::Register(registered) if *registered == number));
        }
        self.run();
        result
    }

    fn advance(&mut self, by: Duration) {
        self.now += by;
        self.run();
    }

    fn is_blocked(&self) -> bool {
        self.mailboxes.iter().any(Mailbox::is_pending)
    }

    fn is_abandoned(&self) -> bool {
        self.is_abandoned
    }

    fn close(&mut self) {
        self.is_closed = true;
        self.run();
    }

    fn shutdown(&mut self, give_up: bool) -> bool {
        self.close();
        if let Some(complete) = self.report {
            return complete;
        }
        let complete = self.has_ended;
        assert!(complete || give_up, "the program waits only if the end can be reached");
        if !complete {
            self.is_abandoned = true;
            self.run();
        }
        self.report = Some(complete);
        complete
    }

    fn totals(&self) -> Totals {
        Totals {
            accepted: self.accepted,
            rejected_full: self.rejected_full,
            rejected_closed: self.rejected_closed,
            watchers: Figures::sum(self.mailboxes.iter().map(Mailbox::figures)),
            listed: Some(self.mailboxes.iter().filter(|mailbox| !mailbox.is_gone).count()),
        }
    }

    fn check(&self, _number: usize, _real: &RealReader) -> Result<(), TestCaseError> {
        Ok(())
    }
}
