//! The twin: a broadcaster that is one state under one lock. It does at once, on the caller's
//! thread, everything that a dispatcher would do, so nothing in it could race.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use eventcast::stats::DropReason;

use super::api::{Bus, Event, Figures, How, Nothing, Reader, Received, Refused, Spec, Totals};
use super::mailbox::Mailbox;

#[derive(Clone)]
pub struct Twin {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    incoming_len: usize,
    max_batch: usize,
    now: Duration,
    /// The accepted events, and the registrations among them, which take no place.
    incoming: VecDeque<Entry>,
    /// The number of entries, none or the first one with events, that were taken out together with
    /// the batch that is being offered, and no longer take a place. They follow the batch.
    carried: usize,
    mailboxes: Vec<Mailbox>,
    /// The numbers of the watchers that are offered events.
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
    pub fn new(incoming_len: usize, max_batch: usize) -> Self {
        let state = State { incoming_len, max_batch, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Returns whether the dispatcher waits for a watcher to make room.
    pub fn is_blocked(&self) -> bool {
        self.lock().is_blocked()
    }

    /// Returns the number of entries for which there is room.
    pub fn free(&self) -> usize {
        self.lock().free()
    }

    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    pub fn max_batch(&self) -> usize {
        self.lock().max_batch
    }
}

impl State {
    fn free(&self) -> usize {
        let events = self.incoming.iter().filter(|entry| matches!(entry, Entry::Events(_))).count();
        self.incoming_len - (events - self.carried)
    }

    fn is_blocked(&self) -> bool {
        self.mailboxes.iter().any(Mailbox::is_pending)
    }

    /// Works until there is nothing to do, or until the dispatcher must wait for a watcher.
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

impl Bus for Twin {
    type Reader = TwinReader;

    /// Publishes without waiting: the program uses [`How::Wait`] and [`How::Batch`] only where
    /// there is room.
    fn publish(&self, events: Vec<Event>, _how: How) -> Result<(), Refused> {
        let mut state = self.lock();
        let mut rest = events;
        while !rest.is_empty() {
            if state.is_closed {
                state.rejected_closed += rest.len() as u64;
                return Err(Refused::Stopped(rest));
            }
            let mut piece = rest;
            rest = piece.split_off(piece.len().min(state.max_batch));
            if let Err(Entry::Events(mut back)) = state.push(Entry::Events(piece)) {
                back.append(&mut rest);
                state.rejected_full += back.len() as u64;
                return Err(Refused::Full(back));
            }
        }
        Ok(())
    }

    fn watch(&self, spec: &Spec) -> Option<TwinReader> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let number = state.mailboxes.len();
        state.mailboxes.push(Mailbox::new(spec.clone()));
        assert!(state.push(Entry::Register(number)).is_ok(), "a registration takes no place");
        Some(TwinReader { twin: self.clone(), number })
    }

    fn advance(&self, by: Duration) {
        let mut state = self.lock();
        state.now += by;
        state.run();
    }

    fn flush(&self) -> bool {
        !self.lock().is_abandoned
    }

    fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        state.run();
    }

    fn shutdown(&self, give_up: bool) -> bool {
        self.close();
        let mut state = self.lock();
        if let Some(complete) = state.report {
            return complete;
        }
        let complete = state.has_ended;
        assert!(complete || give_up, "the program waits for the end where it comes");
        if !complete {
            state.is_abandoned = true;
            state.run();
        }
        state.report = Some(complete);
        complete
    }

    fn totals(&self) -> Totals {
        let state = self.lock();
        let mut watchers = Figures { queued: Some(0), ..Figures::default() };
        state.mailboxes.iter().for_each(|mailbox| watchers.add(&mailbox.figures()));
        Totals {
            accepted: state.accepted,
            rejected_full: state.rejected_full,
            rejected_closed: state.rejected_closed,
            watchers,
            listed: Some(state.mailboxes.iter().filter(|mailbox| !mailbox.is_gone).count()),
        }
    }
}

pub struct TwinReader {
    twin: Twin,
    number: usize,
}

impl TwinReader {
    fn with<R>(&self, act: impl FnOnce(&mut Mailbox) -> R) -> R {
        let mut state = self.twin.lock();
        let result = act(&mut state.mailboxes[self.number]);
        state.run();
        result
    }

    pub fn peek<R>(&self, look: impl FnOnce(&Mailbox) -> R) -> R {
        look(&self.twin.lock().mailboxes[self.number])
    }
}

impl Reader for TwinReader {
    fn receive(&mut self) -> Received {
        self.with(Mailbox::take_back);
        self.with(Mailbox::receive)
    }

    fn receive_ref(&mut self) -> Received {
        self.with(Mailbox::take_back);
        self.with(Mailbox::receive_ref)
    }

    fn receive_batch(&mut self, most: usize) -> Result<(u64, Vec<Event>), Nothing> {
        self.with(Mailbox::take_back);
        self.with(|mailbox| mailbox.receive_batch(most))
    }

    fn stop(&self) {
        self.with(|mailbox| mailbox.is_stopped = true);
    }

    fn figures(&self) -> Figures {
        self.peek(Mailbox::figures)
    }

    fn told(&self) -> Vec<(DropReason, Event)> {
        self.peek(|mailbox| mailbox.told.clone())
    }
}

impl Drop for TwinReader {
    fn drop(&mut self) {
        // A test that fails may have poisoned the lock.
        if let Ok(mut state) = self.twin.state.lock() {
            let abandoned = state.is_abandoned;
            state.mailboxes[self.number].leave(abandoned);
            state.run();
        }
    }
}
