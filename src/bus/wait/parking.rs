//! Waiting without lost wake-ups: the one protocol by which every thread and task of the bus waits.
//!
//! - The waiting side arms its wake cell, fences, checks its condition again, and parks only if the
//!   condition still does not hold.
//! - The waking side makes the condition true, fences, and checks whether the wake cell is armed.
//!   If the cell is armed, the waking side takes the arming and wakes the waiting side.
//!
//! The two fences are sequentially consistent, so at least one side sees the other: either the
//! waiting side finds the condition true, or the waking side finds the cell armed. One fence of the
//! waking side serves any number of waiting sides.
//!
//! A [`WakeCell`] is for one waiting side: the dispatcher, or the reader of one watcher. Its parker
//! is fixed, so that the armed thread is always the thread that the cell wakes. A [`WaitQueue`] is
//! for many waiters: publishers that wait for capacity, flushes, shutdowns. It is first in, first
//! out. A waiter that was chosen but does not need its turn passes the turn on.
//!
//! Both serve threads and tasks. A task's waker is user code. The bus calls it outside every lock,
//! and catches its panic.

use std::collections::BTreeMap;

use std::task::Waker;

use crate::catch::catch_panic;
use crate::clock::{Clock, Deadline};
use crate::sync::AtomicWaker;
use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, Parker, SPINS, Unparker, YIELDS, hint, thread};

/// Issues the full fence of both sides. The partner of this fence is always another call of this
/// function.
#[inline]
pub(crate) fn full_fence() {
    // SeqCst: pairs with the other side's fence, see the top of the file.
    fence(Ordering::SeqCst);
}

/// Calls `found` a few times, before the caller parks. Returns `None` if `found` gave no result.
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

/// The slot in which one thread or task waits.
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

    /// Arms the cell, as the first step of a thread that waits. The caller then checks its
    /// condition again.
    pub(crate) fn arm(&self) {
        // Relaxed: the fence that follows orders this store before the check of the condition. The
        // fence also publishes the store to a publisher that sees the gate's idle bit, because
        // `Gate::set_idle` follows the fence.
        self.armed.store(true, Ordering::Relaxed);
        full_fence();
    }

    /// Arms the cell for a task, which may arm it again without having been woken.
    pub(crate) fn arm_task(&self, waker: &Waker) {
        self.task.register(waker);
        // The waking side takes an arming with a compare-and-exchange. If the exchange precedes
        // this arming, it takes the previous one. If it follows this arming, it takes this one. In
        // both cases the task checks its condition after the fence. A store would suffice, because
        // no write can occur between an arming and the exchange that takes it. But loom does not
        // know this about a store, and reports a lost wake-up that cannot happen. With a swap, loom
        // finds the two in the right order.
        // Relaxed: `AtomicWaker` orders itself.
        // - If `wake_armed` takes the waker after `register`: it finds this waker.
        // - If `wake_armed` took it before `register`: everything that it did happens before this
        //   swap, so it took another arming.
        // - If both run at the same time: `register` notices this, and wakes the task.
        self.armed.swap(true, Ordering::Relaxed);
        full_fence();
    }

    /// Takes the arming back, unless the waking side has taken it.
    ///
    /// A plain store is enough. The waking side takes an arming with a compare-and-exchange, which
    /// fails after this store. The next arming of the waiting side follows this store in program
    /// order.
    pub(crate) fn disarm(&self) {
        // Relaxed: if the waking side sees this late, it only wakes the waiting side unnecessarily.
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Takes the arming back, and drops the waker of a task that no longer waits.
    pub(crate) fn disarm_task(&self) {
        self.disarm();
        drop(self.task.take());
    }

    /// Returns whether a thread or task waits. As for [`wake`](Self::wake), the caller has made the
    /// condition true and then fenced.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        // Relaxed: the caller's fence orders this load after the condition. Its partner is the
        // fence in `arm` and `arm_task`.
        self.armed.load(Ordering::Relaxed)
    }

    /// Wakes the waiting side if the cell is armed. The caller has made the condition true and then
    /// fenced, or has seen the idle bit of the gate. Returns whether the cell was armed.
    #[inline]
    pub(crate) fn wake(&self) -> bool {
        // Relaxed: the caller's fence (or the Acquire of `Pass::leave`) orders this load after the
        // condition.
        let is_armed = self.armed.load(Ordering::Relaxed);
        if is_armed {
            self.wake_armed();
        }
        is_armed
    }

    #[cold]
    fn wake_armed(&self) {
        // Relaxed, both: `arm_task` explains why this call finds the waker of the task. A call that
        // does not get the arming changes nothing.
        if self.armed.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.unparker.unpark();
            if let Some(task) = self.task.take() {
                catch_panic(|| task.wake());
            }
        }
    }
}

/// The error of a wait whose deadline has passed.
#[derive(Debug)]
pub(crate) struct TimedOut;

/// A queue in which many threads and tasks wait, in turn.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// The number of entries in `waiters`. Wakers read it without the lock.
    waiting: AtomicUsize,
    waiters: Mutex<Waiters>,
    /// Whether no thread passes on the turn of a task that does not use it.
    is_inline: bool,
    /// Whether a waiter that cannot use its turn passes it to later waiters, because not all
    /// waiters wait for the same thing.
    passes_behind: AtomicBool,
}

#[derive(Debug)]
struct Waiters {
    next_ticket: u64,
    /// The waiters by ticket. The waiter that has waited longest has the lowest ticket.
    entries: BTreeMap<u64, Wake>,
}

/// The means to wake one waiter.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Unparker),
    Task(Waker),
}

/// The number of turns for which one thread is woken. A woken thread usually continues to publish,
/// and waking it costs as much as tens of events. Waiters that stay asleep lose nothing, because
/// the dispatcher passes the turns on before it sleeps.
const TURNS_OF_A_THREAD: usize = 32;

impl Wake {
    /// Returns how many turns the waiter uses. Waking a task is cheap, and a task may use its turn
    /// late, so it gets one.
    fn turns(&self) -> usize {
        match self {
            Self::Thread(_) => TURNS_OF_A_THREAD,
            Self::Task(_) => 1,
        }
    }

    /// Returns one for a thread, and none for a task.
    fn is_thread(&self) -> usize {
        usize::from(matches!(self, Self::Thread(_)))
    }

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
        Self {
            waiting: AtomicUsize::new(0),
            waiters: Mutex::new(waiters),
            is_inline: false,
            passes_behind: AtomicBool::new(false),
        }
    }

    /// Creates the queue of the publishers of an inline bus.
    pub(crate) fn inline() -> Self {
        Self { is_inline: true, ..Self::new() }
    }

    /// Waits until `condition` returns a result, or until the deadline. The waiter checks
    /// `condition` after each registration, so it misses no wake-up.
    pub(crate) fn wait<R>(
        &self,
        clock: &Clock,
        deadline: Deadline,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R, TimedOut> {
        Place::new(self).wait(clock, deadline, condition)
    }

    /// Returns whether a thread or task waits.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: the caller's fence or lock orders this load after the condition. Its partner is
        // the fence in `register`.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Wakes waiters for up to this many turns, starting with those that have waited longest, and
    /// at least one. A task uses one turn, and a thread [`TURNS_OF_A_THREAD`]. The caller has made
    /// the condition true in one of two ways:
    ///
    /// - If it took no lock: it has fenced afterwards.
    /// - If it held a lock: the waiters check the condition under the same lock. A waiter that
    ///   takes the lock after the caller finds the condition true. A waiter that takes the lock
    ///   before the caller already has its place in the queue, and the caller sees this place here.
    #[inline]
    pub(crate) fn wake(&self, turns: usize) {
        if self.is_waited_for() {
            self.wake_some(turns, 0, Wake::turns);
        }
    }

    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
    }

    /// Returns whether more than one thread or task waits.
    pub(crate) fn has_several(&self) -> bool {
        // Relaxed: as in `is_waited_for`.
        self.waiting.load(Ordering::Relaxed) > 1
    }

    /// Makes each waiter that cannot use its turn pass it to later waiters, from here on.
    pub(crate) fn pass_behind(&self) {
        // Relaxed: written under the lock of an inline bus. A waiter that cannot use its turn has
        // had that lock since.
        self.passes_behind.store(true, Ordering::Relaxed);
    }

    pub(crate) fn passes_behind(&self) -> bool {
        // Relaxed: as in `pass_behind`.
        self.is_inline && self.passes_behind.load(Ordering::Relaxed)
    }

    /// Passes a turn on. In the queue of an inline bus, the turn goes to all tasks before the first
    /// thread, and to that thread, because a task that is woken and not polled must not delay the
    /// others. The caller has made the condition true as for [`wake`](Self::wake).
    #[inline]
    pub(crate) fn pass_on(&self) {
        if !self.is_inline {
            self.wake(1);
        } else if self.is_waited_for() {
            self.wake_some(1, 0, Wake::is_thread);
        }
    }

    #[cold]
    fn wake_some(&self, mut turns: usize, first: u64, uses: impl Fn(&Wake) -> usize) {
        let mut chosen = Vec::new();
        {
            let mut waiters = self.waiters.lock();
            while turns > 0 {
                let next = if first == 0 {
                    waiters.entries.pop_first()
                } else {
                    let next = waiters.entries.range(first..).next().map(|(ticket, _)| *ticket);
                    next.and_then(|ticket| waiters.entries.remove_entry(&ticket))
                };
                let Some((_, wake)) = next else { break };
                turns = turns.saturating_sub(uses(&wake));
                chosen.push(wake);
            }
            // Relaxed: only written under the lock.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
        }
        for wake in chosen {
            wake.wake();
        }
    }

    /// Registers a new place at the end of the queue, or an old place again, even if the waiter
    /// still holds it. Returns the ticket of the place.
    fn register(&self, wake: Wake, old: Option<u64>) -> u64 {
        let (ticket, replaced) = {
            let mut waiters = self.waiters.lock();
            let ticket = old.unwrap_or(waiters.next_ticket);
            waiters.next_ticket = waiters.next_ticket.max(ticket + 1);
            let replaced = waiters.entries.insert(ticket, wake);
            // Relaxed: only written under the lock. The fence below orders this store before the
            // check of the condition.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
            (ticket, replaced)
        };
        full_fence();
        // A waker's destructor is user code, so it runs outside the lock.
        drop(replaced);
        ticket
    }

    fn is_waiting(&self, ticket: u64) -> bool {
        self.waiters.lock().entries.contains_key(&ticket)
    }

    /// Removes a place from the queue. Returns `false` if a waker had already chosen it.
    fn cancel(&self, ticket: u64) -> bool {
        let removed = {
            let mut waiters = self.waiters.lock();
            let removed = waiters.entries.remove(&ticket);
            // Relaxed: only written under the lock.
            self.waiting.store(waiters.entries.len(), Ordering::Relaxed);
            removed
        };
        removed.is_some()
    }
}

/// A waiter's place in a queue. When the place is dropped, it passes on a turn that the waiter got
/// and did not use.
#[derive(Debug)]
pub(crate) struct Place<'l> {
    queue: &'l WaitQueue,
    ticket: Option<u64>,
}

impl<'l> Place<'l> {
    pub(crate) fn new(queue: &'l WaitQueue) -> Self {
        Self { queue, ticket: None }
    }

    /// Blocks the thread until `condition` returns a result, or until the deadline.
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

    /// Checks the condition. Returns `None` if it does not hold. In this case `wake` is registered,
    /// so that the caller is woken for the next check.
    pub(crate) fn poll<R>(&mut self, wake: Wake, mut condition: impl FnMut() -> Option<R>) -> Option<R> {
        let is_chosen = self.ticket.is_some_and(|ticket| !self.queue.is_waiting(ticket));
        if is_chosen {
            // The waiter was chosen, but another waiter may have been faster. In that case the
            // waiter keeps its old place.
            if let Some(result) = condition() {
                self.ticket = None;
                return Some(result);
            }
        }
        let ticket = self.queue.register(wake, self.ticket);
        self.ticket = Some(ticket);
        let result = condition();
        if is_chosen && result.is_none() && self.queue.passes_behind() {
            // The freed capacity may suffice for a waiter that waits for another condition.
            self.queue.wake_some(1, ticket + 1, Wake::is_thread);
        }
        result
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            if !self.queue.cancel(ticket) {
                // The place has been chosen in the meantime, so the turn passes to the next waiter.
                self.queue.pass_on();
            }
        }
    }
}
