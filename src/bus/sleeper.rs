//! Sleeping without lost wake-ups: the one protocol by which everybody on the bus waits.
//!
//! Sleeper: arm; fence; look at the condition again; park only if it still does not hold. Waker: make the condition
//! true; fence; look whether the sleeper is armed; if so, take the arming and unpark. The two fences are
//! sequentially consistent, so at least one of the two sees the other: either the sleeper finds the condition, or the
//! waker finds it armed. One fence serves any number of sleepers.
//!
//! A [`Sleeper`] is a cell for one (the dispatcher, a watcher), whose parker is fixed, so that who is armed and whom to
//! unpark cannot come apart. A [`WaitList`] is for many (publishers that wait for room, flushes, shutdowns, handlers that pause): first in,
//! first out, and one who was chosen but did not need it hands the turn on.

use std::collections::VecDeque;

use crate::clock::{Clock, Deadline};
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, Parker, Unparker};

/// The full fence of both sides. Its partner is always another call of this function.
#[inline]
pub(super) fn full_fence() {
    // SeqCst: pairs with the other side's fence, see the head of the file.
    fence(Ordering::SeqCst);
}

/// A cell for one sleeper.
#[derive(Debug)]
pub(super) struct Sleeper {
    armed: AtomicBool,
    unparker: Unparker,
}

impl Sleeper {
    pub(super) fn new(parker: &Parker) -> Self {
        Self { armed: AtomicBool::new(false), unparker: parker.unparker() }
    }

    /// The sleeper's first step. The condition is looked at again after this.
    pub(super) fn arm(&self) {
        // Relaxed: the fence that follows orders it before the look at the condition; where a gate's idle bit is the
        // condition's witness, the Release of `Gate::set_idle` publishes it.
        self.armed.store(true, Ordering::Relaxed);
        full_fence();
    }

    /// Takes the arming back, if no waker has. A read-modify-write, so that the next arming comes after whatever a waker
    /// did to this one.
    pub(super) fn disarm(&self) {
        // Relaxed: late news only costs an unpark that the sleeper does not need.
        self.armed.swap(false, Ordering::Relaxed);
    }

    /// The waker's last step, after it has made the condition true and fenced (or, for the gate, has seen the idle bit).
    #[inline]
    pub(super) fn wake(&self) {
        // Relaxed: the caller's fence (or the Acquire of `Pass::leave`) orders it after the condition.
        if self.armed.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        // Relaxed: only who gets the arming is decided here. Who does not get it changes nothing.
        if self.armed.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.unparker.unpark();
        }
    }
}

/// Time was up.
#[derive(Debug)]
pub(super) struct TimedOut;

/// A list of sleepers.
#[derive(Debug)]
pub(super) struct WaitList {
    /// As many as `queue` holds; read without the lock.
    waiting: AtomicUsize,
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    next_ticket: u64,
    waiters: VecDeque<(u64, Unparker)>,
}

impl WaitList {
    pub(super) fn new() -> Self {
        let queue = Queue { next_ticket: 0, waiters: VecDeque::new() };
        Self { waiting: AtomicUsize::new(0), queue: Mutex::new(queue) }
    }

    /// Waits until `condition` gives something. It is looked at after each registration, so nothing is missed.
    pub(super) fn wait<R>(
        &self,
        clock: &Clock,
        deadline: Deadline,
        mut condition: impl FnMut() -> Option<R>,
    ) -> Result<R, TimedOut> {
        let parker = Parker::new();
        let mut place = self.register(&parker, None);
        loop {
            let result = match condition() {
                Some(result) => Ok(result),
                None if clock.has_passed(deadline) => Err(TimedOut),
                None => {
                    clock.park(&parker, deadline);
                    if !self.is_waiting(place) {
                        // Chosen, but perhaps overtaken: in that case the old place is kept.
                        if let Some(result) = condition() {
                            return Ok(result);
                        }
                        place = self.register(&parker, Some(place));
                    }
                    continue;
                }
            };
            if !self.cancel(place) {
                // Chosen meanwhile: the turn belongs to the next.
                self.wake(1);
            }
            return result;
        }
    }

    /// Wakes up to so many of those who wait longest. The caller has made the condition true and fenced.
    #[inline]
    pub(super) fn wake(&self, count: usize) {
        // Relaxed: the caller's fence orders it after the condition; its partner is the fence in `register`.
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.wake_some(count);
        }
    }

    pub(super) fn wake_all(&self) {
        self.wake(usize::MAX);
    }

    #[cold]
    fn wake_some(&self, count: usize) {
        let chosen: Vec<_> = {
            let mut queue = self.queue.lock();
            let count = count.min(queue.waiters.len());
            let chosen = queue.waiters.drain(..count).collect();
            // Relaxed: written under the lock only.
            self.waiting.store(queue.waiters.len(), Ordering::Relaxed);
            chosen
        };
        for (_, unparker) in chosen {
            unparker.unpark();
        }
    }

    /// A new place at the end, or an old one again in front.
    fn register(&self, parker: &Parker, old: Option<u64>) -> u64 {
        let ticket = {
            let mut queue = self.queue.lock();
            let unparker = parker.unparker();
            let ticket = if let Some(ticket) = old {
                queue.waiters.push_front((ticket, unparker));
                ticket
            } else {
                let ticket = queue.next_ticket;
                queue.next_ticket += 1;
                queue.waiters.push_back((ticket, unparker));
                ticket
            };
            // Relaxed: written under the lock only; the fence orders it before the look at the condition.
            self.waiting.store(queue.waiters.len(), Ordering::Relaxed);
            ticket
        };
        full_fence();
        ticket
    }

    fn is_waiting(&self, place: u64) -> bool {
        self.queue.lock().waiters.iter().any(|(ticket, _)| *ticket == place)
    }

    /// Leaves the list; false when already chosen.
    fn cancel(&self, place: u64) -> bool {
        let mut queue = self.queue.lock();
        let before = queue.waiters.len();
        queue.waiters.retain(|(ticket, _)| *ticket != place);
        // Relaxed: written under the lock only.
        self.waiting.store(queue.waiters.len(), Ordering::Relaxed);
        queue.waiters.len() < before
    }
}
