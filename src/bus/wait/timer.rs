//! The timer, which wakes tasks at their deadlines. A waiting task has no thread that could park,
//! and the library has no runtime that could provide a timer.
//!
//! All tasks of a bus share one timer thread, which runs only while at least one of them is waiting
//! with a deadline. The timer thread parks until the earliest deadline. Wakers are user code. If a
//! waker waited on the timer thread for the bus to end, it would delay the deadlines of all tasks.
//! The timer thread therefore counts as one of the bus's own threads.

use std::collections::BTreeMap;
use std::io;
use std::task::Waker;
use std::time::Duration;

use crate::catch::catch_panic;
use crate::clock::{Clock, Deadline};
use crate::sync::{Arc, Mutex, Parker, Unparker, thread};

use super::reentrancy::on_bus_thread;

#[derive(Debug)]
pub(crate) struct Timer {
    bus: u64,
    clock: Clock,
    state: Mutex<TimerState>,
}

#[derive(Debug, Default)]
struct TimerState {
    next_number: u64,
    /// The wakers, keyed by deadline and entry number.
    entries: BTreeMap<(Duration, u64), Waker>,
    /// The timer thread's unparker, while the thread is running.
    thread: Option<Unparker>,
}

impl Timer {
    pub(crate) fn new(bus: u64, clock: Clock) -> Self {
        Self { bus, clock, state: Mutex::new(TimerState::default()) }
    }

    fn set(timer: &Arc<Self>, place: (Duration, u64), waker: Waker) -> io::Result<()> {
        let mut state = timer.state.lock();
        let replaced = state.entries.insert(place, waker);
        if state.thread.is_none() {
            let parker = Parker::new();
            let (thread, unparker) = (timer.clone(), parker.unparker());
            let run = move || on_bus_thread(thread.bus, || thread.run(&parker));
            if let Err(error) = thread::spawn("eventcast-timer".to_owned(), run) {
                let removed = state.entries.remove(&place);
                drop(state);
                drop((replaced, removed));
                return Err(error);
            }
            state.thread = Some(unparker);
        } else if state.entries.first_key_value().is_some_and(|(first, _)| *first == place) {
            state.unpark();
        }
        drop(state);
        // A waker's destructor is user code, so it runs outside the lock.
        drop(replaced);
        Ok(())
    }

    fn cancel(&self, place: (Duration, u64)) {
        let removed = {
            let mut state = self.state.lock();
            let removed = state.entries.remove(&place);
            if state.entries.is_empty() {
                // There are no more deadlines to wait for, so the timer thread ends.
                state.unpark();
            }
            removed
        };
        drop(removed);
    }

    fn run(&self, parker: &Parker) {
        while let Some((due, next)) = self.take_due() {
            for waker in due {
                catch_panic(|| waker.wake());
            }
            self.clock.park(parker, next);
        }
    }

    /// Returns the wakers whose deadlines have passed, and the deadline until which to park.
    /// Returns `None` if no entry is left.
    fn take_due(&self) -> Option<(Vec<Waker>, Deadline)> {
        // Lock order: `Timer::state` before `Fake::state`.
        let mut state = self.state.lock();
        let mut due = Vec::new();
        while let Some(first) = state.entries.first_entry() {
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
        // The timer thread checks once more after it has woken these tasks.
        Some((due, Some(Duration::ZERO)))
    }
}

impl TimerState {
    fn unpark(&self) {
        self.thread.iter().for_each(Unparker::unpark);
    }
}

/// A task's deadline. Dropping the entry cancels the deadline.
#[derive(Debug)]
pub(crate) struct TimerEntry<'h> {
    timer: &'h Arc<Timer>,
    place: Option<(Duration, u64)>,
}

impl<'h> TimerEntry<'h> {
    pub(crate) fn new(timer: &'h Arc<Timer>) -> Self {
        Self { timer, place: None }
    }

    /// Arranges for the timer to call `waker` at the deadline. Each call must pass the same
    /// deadline. Returns an error if the system cannot start the timer thread.
    pub(crate) fn set(&mut self, deadline: Deadline, waker: &Waker) -> io::Result<()> {
        let Some(at) = deadline else { return Ok(()) };
        let place = *self.place.get_or_insert_with(|| {
            let mut state = self.timer.state.lock();
            state.next_number += 1;
            (at, state.next_number)
        });
        Timer::set(self.timer, place, waker.clone())
    }
}

impl Drop for TimerEntry<'_> {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.timer.cancel(place);
        }
    }
}
