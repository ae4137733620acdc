//! Deadlines of tasks: who waits as a task has no thread to sleep on, and the library has no runtime to ask.
//!
//! One thread, shared by all tasks of a bus, which lives only while one of them waits with a
//! deadline. It sleeps until the first of them. Wakers are user code, so it counts as one of the
//! bus's own: one that waited for the end there would hold up everybody's deadlines.

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
    /// By deadline, and by a number of its own.
    entries: BTreeMap<(Duration, u64), Waker>,
    /// The thread, while there is one.
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
        // A waker's destructor is user code, and runs outside the lock.
        drop(replaced);
        Ok(())
    }

    fn cancel(&self, place: (Duration, u64)) {
        let removed = {
            let mut state = self.state.lock();
            let removed = state.entries.remove(&place);
            if state.entries.is_empty() {
                // Nothing to wait for: the thread ends.
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

    /// Those whose time has come, and when the next one's will; `None`: there is nobody left.
    fn take_due(&self) -> Option<(Vec<Waker>, Deadline)> {
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
        // It looks once more, when these have been woken.
        Some((due, Some(Duration::ZERO)))
    }
}

impl TimerState {
    fn unpark(&self) {
        self.thread.iter().for_each(Unparker::unpark);
    }
}

/// One task's deadline. Dropped, it is forgotten.
#[derive(Debug)]
pub(crate) struct TimerEntry<'h> {
    timer: &'h Arc<Timer>,
    place: Option<(Duration, u64)>,
}

impl<'h> TimerEntry<'h> {
    pub(crate) fn new(timer: &'h Arc<Timer>) -> Self {
        Self { timer, place: None }
    }

    /// Has `waker` called at the deadline, which is the same each time.
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
