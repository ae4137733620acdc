//! Sleeping without lost wake-ups: the one protocol by which everybody on the bus waits.
//!
//! The sleeping side: arm; fence; look at the condition again; park only if it still does not hold. Waker: make the condition
//! true; fence; look whether the sleeper is armed; if so, take the arming and wake. The two fences are
//! sequentially consistent, so at least one of the two sees the other: either the sleeper finds the condition, or the
//! waker finds it armed. One fence serves any number of sleepers.
//!
//! A [`WakeCell`] is a cell for one (the dispatcher, a watcher), whose parker is fixed, so that who is armed and whom to
//! wake cannot come apart. A [`WaitQueue`] is for many (publishers that wait for room, flushes, shutdowns): first in, first
//! out, and one who was chosen but did not need it hands the turn on.
//!
//! Both wait for a thread or for a task. A task's waker is user code: it is called outside every lock, and its panic
//! ends here.

use std::collections::BTreeMap;
use std::time::Duration;

use std::task::Waker;

use crate::catch::catch_panic;
use crate::clock::{Clock, Deadline};
use crate::sync::AtomicWaker;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, Parker, SPINS, Unparker, YIELDS, hint, thread};

/// The full fence of both sides. Its partner is always another call of this function.
#[inline]
pub(crate) fn full_fence() {
    // SeqCst: pairs with the other side's fence, see the head of the file.
    fence(Ordering::SeqCst);
}

/// Looks a few times before it is worth going to sleep.
#[cfg_attr(
    eventcast_loom,
    allow(clippy::reversed_empty_ranges, clippy::absurd_extreme_comparisons, reason = "a model looks once")
)]
#[inline]
pub(crate) fn spin_until<R>(mut found: impl FnMut() -> Option<R>) -> Option<R> {
    let mut result = found();
    for round in 0..SPINS + YIELDS {
        if result.is_some() {
            return result;
        }
        if round < SPINS {
            (0..1 << round).for_each(|_| hint::spin_loop());
        } else {
            thread::yield_now();
        }
        result = found();
    }
    result
}

/// Looks on for `time`, by the system's clock. `found` also finds what else ends the wait: its
/// deadline, the end.
#[inline]
pub(crate) fn spin_for<R>(time: Duration, found: impl FnMut() -> Option<R>) -> Option<R> {
    if time.is_zero() { None } else { spin_by_clock(time, found) }
}

#[cold]
fn spin_by_clock<R>(time: Duration, mut found: impl FnMut() -> Option<R>) -> Option<R> {
    let clock = Clock::system();
    let end = clock.deadline(time);
    let mut rounds = 0_u32;
    loop {
        if let Some(result) = found() {
            return Some(result);
        }
        if clock.has_passed(end) {
            return None;
        }
        rounds = rounds.wrapping_add(1);
        // Whom this thread waits for may need its processor.
        if rounds % 32 == 0 {
            thread::yield_now();
        } else {
            (0..8).for_each(|_| hint::spin_loop());
        }
    }
}

/// A cell for one sleeper.
#[derive(Debug)]
pub(crate) struct WakeCell {
    armed: AtomicBool,
    unparker: Unparker,
    task: AtomicWaker,
}

impl WakeCell {
    pub(crate) fn new(parker: &Parker) -> Self {
        Self { armed: AtomicBool::new(false), unparker: parker.unparker(), task: AtomicWaker::new() }
    }

    /// The sleeper's first step. The condition is looked at again after this.
    pub(crate) fn arm(&self) {
        // Relaxed: the fence that follows orders it before the look at the condition; where a gate's idle bit is the
        // condition's witness, it publishes it, too: `Gate::set_idle` comes after it.
        self.armed.store(true, Ordering::Relaxed);
        full_fence();
    }

    /// The same for a task, which may arm again without having been woken.
    pub(crate) fn arm_task(&self, waker: &Waker) {
        self.task.register(waker);
        // Relaxed: `AtomicWaker` orders itself.
        // - If `wake_armed` comes to the cell after `register`, it finds this waker.
        // - If it came before, all that it did happens before this store, so it took another arming.
        // - If both meet, `register` notices, and wakes the task.
        // A waker takes an arming with a compare-and-exchange. It comes before this store and takes
        // the last arming, or behind it and takes this one. Either way the task looks at its
        // condition behind the fence.
        self.armed.store(true, Ordering::Relaxed);
        full_fence();
    }

    /// Takes the arming back, if no waker has.
    ///
    /// A plain store is enough. A waker takes an arming with a compare-and-exchange, which fails
    /// behind this store, and the sleeper's next arming is behind it by its own program's order.
    pub(crate) fn disarm(&self) {
        // Relaxed: late news only costs a wake-up that the sleeper does not need.
        self.armed.store(false, Ordering::Relaxed);
    }

    /// The same, and lets go of a task that does not wait any more.
    pub(crate) fn disarm_task(&self) {
        self.disarm();
        drop(self.task.take());
    }

    /// The waker's last step, after it has made the condition true and fenced (or, for the gate, has seen the idle bit).
    #[inline]
    pub(crate) fn wake(&self) {
        // Relaxed: the caller's fence (or the Acquire of `Pass::leave`) orders it after the condition.
        if self.armed.load(Ordering::Relaxed) {
            self.wake_armed();
        }
    }

    #[cold]
    fn wake_armed(&self) {
        // Relaxed, both: that the task is found, see `arm_task`; who does not get the arming changes nothing.
        if self.armed.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.unparker.unpark();
            if let Some(task) = self.task.take() {
                catch_panic(|| task.wake());
            }
        }
    }
}

/// Time was up.
#[derive(Debug)]
pub(crate) struct TimedOut;

/// A list of sleepers.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// As many as `waiters` holds; read without the lock.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
}

#[derive(Debug)]
struct Waiters {
    next_ticket: u64,
    /// Who waits longest has the lowest ticket.
    entries: BTreeMap<u64, Wake>,
}

/// How to wake somebody.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Unparker),
    Task(Waker),
}

impl Wake {
    fn wake(self) {
        match self {
            Self::Thread(unparker) => unparker.unpark(),
            Self::Task(waker) => {
                catch_panic(|| waker.wake());
            }
        }
    }
}

impl WaitQueue {
    pub(crate) fn new() -> Self {
        let waiters = Waiters { next_ticket: 0, entries: BTreeMap::new() };
        Self { waiting: AtomicUsize::new(0), waiters: Mutex::new(waiters) }
    }

    /// Waits until `condition` gives something. It is looked at after each registration, so nothing is missed.
    pub(crate) fn wait<R>(
        &self,
        clock: &Clock,
        deadline: Deadline,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R, TimedOut> {
        Place::new(self).wait(clock, deadline, condition)
    }

    /// Whether anybody waits.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: the caller's fence, or its lock, orders it after the condition; its partner is
        // the fence in `register`.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Wakes up to so many of those who wait longest. The caller has made the condition true and fenced; or has made it
    /// true under a lock under which those who wait look at it. Who comes to that lock first is seen by the other: either
    /// the waiter finds the condition, or its place in the list, which it took before, is seen here.
    #[inline]
    pub(crate) fn wake(&self, count: usize) {
        if self.is_waited_for() {
            self.wake_some(count);
        }
    }

    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
    }

    #[cold]
    fn wake_some(&self, count: usize) {
        let chosen: Vec<_> = {
            let mut waiters = self.waiters.lock();
            let chosen = std::iter::from_fn(|| waiters.entries.pop_first()).take(count).collect();
            // Relaxed: written under the lock only.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
            chosen
        };
        for (_, wake) in chosen {
            wake.wake();
        }
    }

    /// A new place at the end, or an old one again, also when it is still held.
    fn register(&self, wake: Wake, old: Option<u64>) -> u64 {
        let (ticket, replaced) = {
            let mut waiters = self.waiters.lock();
            let ticket = old.unwrap_or(waiters.next_ticket);
            waiters.next_ticket = waiters.next_ticket.max(ticket + 1);
            let replaced = waiters.entries.insert(ticket, wake);
            // Relaxed: written under the lock only; the fence orders it before the look at the condition.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
            (ticket, replaced)
        };
        full_fence();
        // A waker's destructor is user code, and runs outside the lock.
        drop(replaced);
        ticket
    }

    fn is_waiting(&self, ticket: u64) -> bool {
        self.waiters.lock().entries.contains_key(&ticket)
    }

    /// Leaves the list; false when already chosen.
    fn cancel(&self, ticket: u64) -> bool {
        let removed = {
            let mut waiters = self.waiters.lock();
            let removed = waiters.entries.remove(&ticket);
            // Relaxed: written under the lock only.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
            removed
        };
        removed.is_some()
    }
}

/// Somebody's place in a list. Given up, it hands on a turn that it had and did not use.
#[derive(Debug)]
pub(crate) struct Place<'l> {
    queue: &'l WaitQueue,
    ticket: Option<u64>,
}

impl<'l> Place<'l> {
    pub(crate) fn new(queue: &'l WaitQueue) -> Self {
        Self { queue, ticket: None }
    }

    /// Blocks the thread until `condition` gives something, or the deadline.
    pub(crate) fn wait<R>(
        &mut self,
        clock: &Clock,
        deadline: Deadline,
        mut condition: impl FnMut() -> Option<R>,
    ) -> Result<R, TimedOut> {
        let parker = Parker::new();
        loop {
            if let Some(result) = self.poll(Wake::Thread(parker.unparker()), &mut condition) {
                return Ok(result);
            }
            if clock.has_passed(deadline) {
                return Err(TimedOut);
            }
            clock.park(&parker, deadline);
        }
    }

    /// Looks at the condition, and makes sure of being woken when it is to be looked at again.
    pub(crate) fn poll<R>(&mut self, wake: Wake, mut condition: impl FnMut() -> Option<R>) -> Option<R> {
        if self.ticket.is_some_and(|ticket| !self.queue.is_waiting(ticket)) {
            // Chosen, but perhaps overtaken: in that case the old place is kept.
            if let Some(result) = condition() {
                self.ticket = None;
                return Some(result);
            }
        }
        self.ticket = Some(self.queue.register(wake, self.ticket));
        condition()
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            if !self.queue.cancel(ticket) {
                // Chosen meanwhile: the turn belongs to the next.
                self.queue.wake(1);
            }
        }
    }
}
