//! Deadlines of tasks: who waits as a task has no thread to sleep on, and the library has no runtime to ask.
//!
//! One thread, shared by all tasks of a bus, which lives only while one of them waits with a
//! deadline. It sleeps until the first of them. Wakers are user code, so it counts as one of the
//! bus's own: one that waited for the end there would hold up everybody's deadlines.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::guard::guarded;
use crate::sync::{Arc, Mutex, Parker, Unparker, thread};

use super::current::on_bus;

#[derive(Debug)]
pub(super) struct Alarm {
    bus: u64,
    clock: Clock,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    next_number: u64,
    /// By deadline, and by a number of its own.
    alerts: BTreeMap<(Duration, u64), Waker>,
    /// The thread, while there is one.
    thread: Option<Unparker>,
}

impl Alarm {
    pub(super) fn new(bus: u64, clock: Clock) -> Self {
        Self { bus, clock, state: Mutex::new(State::default()) }
    }

    fn set(alarm: &Arc<Self>, place: (Duration, u64), waker: Waker) -> io::Result<()> {
        let mut state = alarm.state.lock();
        let replaced = state.alerts.insert(place, waker);
        if state.thread.is_none() {
            let parker = Parker::new();
            let (thread, unparker) = (alarm.clone(), parker.unparker());
            let run = move || on_bus(thread.bus, || thread.run(&parker));
            if let Err(error) = thread::spawn("eventcast-alarm".to_owned(), run) {
                let removed = state.alerts.remove(&place);
                drop(state);
                drop((replaced, removed));
                return Err(error);
            }
            state.thread = Some(unparker);
        } else if state.alerts.first_key_value().is_some_and(|(first, _)| *first == place) {
            state.unpark();
        }
        drop(state);
        // A waker's destructor is user code, and runs outside the lock.
        drop(replaced);
        Ok(())
    }

    fn cancel(&self, place: (Duration, u64)) {
        let removed = {
            let mut state = self.state.lock();
            let removed = state.alerts.remove(&place);
            if state.alerts.is_empty() {
                // Nothing to wait for: the thread ends.
                state.unpark();
            }
            removed
        };
        drop(removed);
    }

    fn run(&self, parker: &Parker) {
        while let Some((due, next)) = self.look() {
            for waker in due {
                guarded(|| waker.wake());
            }
            self.clock.park(parker, next);
        }
    }

    /// Those whose time has come, and when the next one's will; `None`: there is nobody left.
    fn look(&self) -> Option<(Vec<Waker>, Deadline)> {
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while let Some(first) = state.alerts.first_entry() {
            let (at, _) = *first.key();
            if !self.clock.has_passed(Some(at)) {
                return Some((due, Some(at)));
            }
            due.push(first.remove());
        }
        if due.is_empty() {
            state.thread = None;
            return None;
        }
        // It looks once more, when these have been woken.
        Some((due, Some(Duration::ZERO)))
    }
}

impl State {
    fn unpark(&self) {
        self.thread.iter().for_each(Unparker::unpark);
    }
}

/// One task's deadline. Dropped, it is forgotten.
#[derive(Debug)]
pub(super) struct Alert<'h> {
    alarm: &'h Arc<Alarm>,
    place: Option<(Duration, u64)>,
}

impl<'h> Alert<'h> {
    pub(super) fn new(alarm: &'h Arc<Alarm>) -> Self {
        Self { alarm, place: None }
    }

    /// Has `waker` called at the deadline, which is the same each time.
    pub(super) fn set(&mut self, deadline: Deadline, waker: &Waker) -> io::Result<()> {
        let Some(at) = deadline else { return Ok(()) };
        let place = *self.place.get_or_insert_with(|| {
            let mut state = self.alarm.state.lock();
            state.next_number += 1;
            (at, state.next_number)
        });
        Alarm::set(self.alarm, place, waker.clone())
    }
}

impl Drop for Alert<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.alarm.cancel(place);
        }
    }
}
