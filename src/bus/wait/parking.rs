//! Waiting without lost wake-ups. Every thread and task of the bus uses the following protocol to
//! wait.
//!
//! - The waiting side arms its wake cell, fences, checks its condition again, and parks only if the
//!   condition still does not hold.
//! - The waking side makes the condition true, fences, and checks whether the wake cell is armed.
//!   If the cell is armed, the waking side disarms it and wakes the waiting side.
//!
//! The two fences are sequentially consistent, so at least one side sees the other. Either the
//! waiting side finds the condition true, or the waking side finds the cell armed. A single fence
//! on the waking side is enough for any number of waiting sides.
//!
//! A [`WakeCell`] serves a single waiting side, which is the dispatcher or one watcher's reader.
//! The cell's parker is fixed, so the thread that the cell wakes is always the thread that armed
//! it. A [`WaitQueue`] serves many waiters, such as publishers waiting for capacity, flushes and
//! shutdowns. The queue is first in, first out. If a waiter is chosen but does not need its turn,
//! the waiter passes the turn on.
//!
//! Both a [`WakeCell`] and a [`WaitQueue`] serve threads and tasks. A task's waker is user code, so
//! the bus calls it outside all locks, and catches its panics.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::task::Waker;

use crate::catch::catch_panic;
use crate::clock::{Clock, Deadline};
use crate::sync::AtomicWaker;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering, fence};
use crate::sync::{Mutex, Parker, SPINS, Unparker, YIELDS, hint, thread};

/// Issues the full fence that both the waiting side and the waking side need. This fence always
/// pairs with another call of this function.
#[inline]
pub(crate) fn full_fence() {
    // SeqCst: pairs with the other side's fence. See the top of the file.
    fence(Ordering::SeqCst);
}

/// Calls `found` a few times before the caller parks. Returns `None` if no call returned a result.
#[inline]
pub(crate) fn spin_until<R>(found: impl FnMut() -> Option<R>) -> Option<R> {
    spin_and_yield_until(YIELDS, found)
}

/// Calls `found` like [`spin_until`], but yields up to `yields` times.
#[cfg_attr(
    eventcast_loom,
    allow(clippy::reversed_empty_ranges, clippy::absurd_extreme_comparisons, reason = "a model looks once")
)]
#[inline]
pub(crate) fn spin_and_yield_until<R>(yields: u32, mut found: impl FnMut() -> Option<R>) -> Option<R> {
    let mut result = found();
    for round in 0..SPINS + yields {
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

    /// Arms the cell for a thread, as the first step of waiting. The caller must then check its
    /// condition again.
    pub(crate) fn arm(&self) {
        // Relaxed: the fence that follows orders this store before the check of the condition. The
        // fence also publishes the store to publishers that see the gate's idle bit, because
        // `Gate::set_idle` follows the fence.
        self.armed.store(true, Ordering::Relaxed);
        full_fence();
    }

    /// Arms the cell for a task. A task may arm the cell again without having been woken.
    pub(crate) fn arm_task(&self, waker: &Waker) {
        self.task.register(waker);
        // The waking side takes an arming with a compare-and-exchange. If the exchange precedes
        // this arming, it takes the previous arming. If the exchange follows this arming, it takes
        // this arming. In both cases, the task checks its condition after the fence. A store would
        // suffice, because no write can occur between an arming and the exchange that takes it.
        // However, loom does not know this about a store, and would report a lost wake-up that
        // cannot happen. With a swap, loom sees the arming and the exchange in the right order.
        // Relaxed: `AtomicWaker` does its own synchronisation.
        // - If `wake_armed` takes the waker after `register`, it finds this waker.
        // - If `wake_armed` took the waker before `register`, everything that `wake_armed` did
        //   happens before this swap, so `wake_armed` took an earlier arming.
        // - If `wake_armed` and `register` run at the same time, `register` detects this and wakes
        //   the task.
        self.armed.swap(true, Ordering::Relaxed);
        full_fence();
    }

    /// Disarms the cell, unless the waking side has already taken the arming.
    ///
    /// A plain store is enough. The waking side takes an arming with a compare-and-exchange, which
    /// fails after this store. The waiting side's next arming follows this store in program order.
    pub(crate) fn disarm(&self) {
        // Relaxed: a waking side that sees this store late only causes an unnecessary wake-up.
        self.armed.store(false, Ordering::Relaxed);
    }

    /// Disarms the cell for a task that no longer waits, and drops the task's waker.
    pub(crate) fn disarm_task(&self) {
        self.disarm();
        drop(self.task.take());
    }

    /// Returns whether a thread or task is waiting. As with [`wake`](Self::wake), the caller must
    /// have made the condition true and then fenced.
    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        // Relaxed: the caller's fence orders this load after the condition. The fence pairs with
        // the fence in `arm` and `arm_task`.
        self.armed.load(Ordering::Relaxed)
    }

    /// Wakes the waiting side if the cell is armed. The caller must have made the condition true
    /// and then fenced, or must have seen the gate's idle bit. Returns whether the cell was armed.
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
        // Relaxed, both: `arm_task` explains why this call finds the task's waker. If a call does
        // not take the arming, it changes nothing.
        if self.armed.compare_exchange(true, false, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.unparker.unpark();
            if let Some(task) = self.task.take() {
                catch_panic(|| task.wake());
            }
        }
    }
}

/// The error returned when a wait's deadline has passed.
#[derive(Debug)]
pub(crate) struct TimedOut;

/// A queue in which threads and tasks wait for their turn.
#[derive(Debug)]
pub(crate) struct WaitQueue {
    /// The number of entries in `waiters`. The waking side reads this number without taking the
    /// lock.
    waiting: AtomicU32,
    waiters: Mutex<Waiters>,
    /// Whether this is the queue of an inline bus, where no thread passes on a turn that a task
    /// does not use.
    is_inline: bool,
    /// Whether a waiter that cannot use its turn passes the turn to later waiters, because not all
    /// waiters are waiting for the same condition.
    passes_behind: AtomicBool,
}

#[derive(Debug)]
struct Waiters {
    next_ticket: u64,
    /// The waiters, keyed by ticket. The waiter that has waited longest has the lowest ticket.
    entries: BTreeMap<u64, Wake>,
}

/// A handle that wakes a single waiter.
#[derive(Debug)]
pub(crate) enum Wake {
    Thread(Unparker),
    Task(Waker),
}

/// The number of turns that a woken thread is expected to use. A woken thread usually continues to
/// publish, and waking a thread costs as much as publishing tens of events. Waiters that stay
/// asleep are not at a disadvantage, because the dispatcher passes turns on before it sleeps.
const TURNS_OF_A_THREAD: usize = 32;

impl Wake {
    /// Returns how many turns the waiter uses. Waking a task is cheap, and a task may use its turn
    /// late, so a task gets only one turn.
    fn turns(&self) -> usize {
        match self {
            Self::Thread(_) => TURNS_OF_A_THREAD,
            Self::Task(_) => 1,
        }
    }

    /// Returns one for a thread and zero for a task.
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
            waiting: AtomicU32::new(0),
            waiters: Mutex::new(waiters),
            is_inline: false,
            passes_behind: AtomicBool::new(false),
        }
    }

    /// Creates the queue in which the publishers of an inline bus wait.
    pub(crate) fn inline() -> Self {
        Self { is_inline: true, ..Self::new() }
    }

    /// Waits until `condition` returns a result, or until the deadline. The waiter checks
    /// `condition` after each registration, so that it does not miss a wake-up.
    pub(crate) fn wait<R>(
        &self,
        clock: &Clock,
        deadline: Deadline,
        condition: impl FnMut() -> Option<R>,
    ) -> Result<R, TimedOut> {
        Place::new(self).wait(clock, deadline, condition)
    }

    /// Returns whether a thread or task is waiting.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: the caller's fence or lock orders this load after the condition. The fence pairs
        // with the fence in `register`.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Wakes waiters for up to `turns` turns, starting with the waiters that have waited longest.
    /// Unless `turns` is zero, wakes at least one waiter if any waiter is in the queue. A task uses
    /// one turn, and a thread uses [`TURNS_OF_A_THREAD`]. The caller must have made the condition
    /// true in one of two ways:
    ///
    /// - Without holding a lock. In this case, the caller must have fenced afterwards.
    /// - While holding a lock, if the waiters check the condition while holding the same lock. If a
    ///   waiter takes the lock after the caller, the waiter finds the condition true. If a waiter
    ///   took the lock before the caller, the waiter already has its place in the queue, and this
    ///   method finds that place.
    #[inline]
    pub(crate) fn wake(&self, turns: usize) {
        if self.is_waited_for() {
            self.wake_some(turns, 0, Wake::turns);
        }
    }

    pub(crate) fn wake_all(&self) {
        self.wake(usize::MAX);
    }

    /// Returns whether more than one thread or task is waiting.
    pub(crate) fn has_several(&self) -> bool {
        // Relaxed: same as in `is_waited_for`.
        self.waiting.load(Ordering::Relaxed) > 1
    }

    /// From now on, makes each waiter that cannot use its turn pass the turn to later waiters.
    pub(crate) fn pass_behind(&self) {
        // Relaxed: written while holding the lock of an inline bus. A waiter that cannot use its
        // turn has held that lock since then.
        self.passes_behind.store(true, Ordering::Relaxed);
    }

    pub(crate) fn passes_behind(&self) -> bool {
        // Relaxed: same as in `pass_behind`.
        self.is_inline && self.passes_behind.load(Ordering::Relaxed)
    }

    /// Passes a turn on. In the queue of an inline bus, the turn goes to the first thread and to
    /// all tasks before it, because a task that is woken but not polled must not delay the other
    /// waiters. The caller must have made the condition true in the same way as for
    /// [`wake`](Self::wake).
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
            // Relaxed: written only while holding the lock.
            self.waiting.store(waiters.entries.len() as u32, Ordering::Relaxed);
        }
        for wake in chosen {
            wake.wake();
        }
    }

    /// Registers a new place at the end of the queue, or registers an old place again, even if the
    /// old place is still in the queue. Returns the place's ticket.
    fn register(&self, wake: Wake, old: Option<u64>) -> u64 {
        let (ticket, replaced) = {
            let mut waiters = self.waiters.lock();
            let ticket = old.unwrap_or(waiters.next_ticket);
            waiters.next_ticket = waiters.next_ticket.max(ticket + 1);
            let replaced = waiters.entries.insert(ticket, wake);
            // Relaxed: written only while holding the lock. The fence below orders this store
            // before the check of the condition.
            self.waiting.store(waiters.entries.len() as u32, Ordering::Relaxed);
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

    /// Removes a place from the queue. Returns `false` if the waking side has already chosen it.
    fn cancel(&self, ticket: u64) -> bool {
        let removed = {
            let mut waiters = self.waiters.lock();
            let removed = waiters.entries.remove(&ticket);
            // Relaxed: written only while holding the lock.
            self.waiting.store(waiters.entries.len() as u32, Ordering::Relaxed);
            removed
        };
        removed.is_some()
    }
}

/// A wait queue that takes no memory until it is first waited in.
pub(crate) struct LazyWaitQueue(OnceLock<Box<WaitQueue>>);

impl LazyWaitQueue {
    pub(crate) fn new() -> Self {
        let queue = Self(OnceLock::new());
        // loom does not know that a `OnceLock` publishes its value.
        #[cfg(eventcast_loom)]
        queue.get();
        queue
    }

    /// Returns the queue for a waiter.
    pub(crate) fn get(&self) -> &WaitQueue {
        self.0.get_or_init(|| Box::new(WaitQueue::new()))
    }

    /// Wakes all waiters. The caller must have made the condition true while holding a lock that
    /// the waiters hold while they check the condition. A waiter that checked the condition before
    /// the caller took the lock has created the queue before that.
    pub(crate) fn wake_all(&self) {
        if let Some(queue) = self.0.get() {
            queue.wake_all();
        }
    }
}

/// A waiter's place in a queue. If the waiter was given a turn and has not used it, dropping the
/// place passes the turn on.
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

    /// Checks the condition. Returns `None` if the condition does not hold. In that case, `wake`
    /// was registered before the last check, so the caller will be woken when it has to check
    /// again.
    pub(crate) fn poll<R>(&mut self, wake: Wake, mut condition: impl FnMut() -> Option<R>) -> Option<R> {
        let is_chosen = self.ticket.is_some_and(|ticket| !self.queue.is_waiting(ticket));
        if is_chosen {
            // The waiter was chosen, but another waiter may have been faster. If another waiter was
            // faster, this waiter keeps its old place.
            if let Some(result) = condition() {
                self.ticket = None;
                return Some(result);
            }
        }
        let ticket = self.queue.register(wake, self.ticket);
        self.ticket = Some(ticket);
        let result = condition();
        if is_chosen && result.is_none() && self.queue.passes_behind() {
            // The freed capacity may suffice for a waiter with a different condition.
            self.queue.wake_some(1, ticket + 1, Wake::is_thread);
        }
        result
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket {
            if !self.queue.cancel(ticket) {
                // The place was chosen in the meantime, so the turn passes to the next waiter.
                self.queue.pass_on();
            }
        }
    }
}
