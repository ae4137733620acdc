//! The dispatcher: the thread that runs the intake while there is something to do, and sleeps
//! otherwise.
//!
//! One iteration of the dispatcher's loop:
//!
//! 1. Reap, if a watcher must be reaped.
//! 2. Carry out the control entries whose place has been reached.
//! 3. Take the waiting entries, up to a batch or the place of a control entry.
//! 4. Offer the batch to every watcher, without waiting.
//! 5. Fence once.
//! 6. Wake the readers that sleep, and the publishers that wait for capacity.
//!
//! The dispatcher is *blocked* while events of the batch wait for the capacity of a watcher with
//! `Wait` or `WaitFor`. Each deadline counts from the offer. A slow watcher does not delay the
//! events of the same batch for the other watchers, but it delays every later entry: control
//! entries stay in their list, and an entry that was taken and does not belong to the batch is
//! *carried*. While it is blocked, the dispatcher queues the events that fit, drops events that
//! have waited for too long, and reaps.
//!
//! # Sleep
//!
//! The dispatcher holds the lock of the intake while it is awake, and releases it before it sleeps
//! in [`Dispatcher::sleep`], or naps while the reader pulls. These events end a sleep, and
//! [`Intake::is_ready`] checks for them:
//!
//! | event | the thread that wakes the dispatcher | while idle | while blocked |
//! |---|---|---|---|
//! | an entry is pushed, or a control entry added | the caller, which sees an idle bit of the gate | yes | not woken |
//! | the gate becomes quiet | the closing thread, or the last publisher | yes | not needed |
//! | a watcher must be reaped: it was stopped or dropped | the stopping thread | yes | yes |
//! | a watcher has capacity for its pending events | its reader | none pending | yes |
//! | the deadline of pending events expires | the dispatcher itself | none pending | yes |
//! | a shutdown by deadline abandons the bus | the thread that calls it | not needed | yes |
//!
//! A publisher that waits for capacity in the incoming queue does not end a sleep: before each
//! sleep, the dispatcher [passes the turn on](Dispatcher::pass_turn_on).
//!
//! Another thread may get the lock while the dispatcher is asleep and blocked: a publisher that saw
//! an idle bit before the dispatcher cleared it, or a reader. It offers nothing then
//! ([`Intake::is_clear`]).
//!
//! The dispatcher never blocks in a channel. It waits for the intake while a publisher delivers
//! directly or a reader pulls, and then for the locks that it takes under the intake's, each of
//! which other threads hold for a few instructions. Lock order: `SharedIntake::intake` before
//! `Controls::list`, `WaitQueue::waiters`, `SliceQueue::Ring`, `FlushTicket::handlers`,
//! `Registry::entries`, `Registry::reapable` and `Fake::state`.
//!
//! If user code that runs here (filters, hooks, `Clone`, `Drop`) panics, the dispatcher catches the
//! panic.

use crate::bus::wait::{on_bus_thread, spin_until};
use crate::sync::{Arc, Parker, TryMutexGuard, thread};

use super::direct::SharedIntake;
use super::intake::Intake;

pub(crate) struct Dispatcher<T> {
    pub(super) shared: Arc<SharedIntake<T>>,
    pub(super) parker: Parker,
}

impl<T: Clone> Dispatcher<T> {
    pub(crate) fn new(shared: Arc<SharedIntake<T>>, parker: Parker) -> Self {
        Self { shared, parker }
    }

    /// Runs until the bus is closed and the incoming queue is empty, and until all destructors have
    /// run.
    pub(crate) fn run(self) {
        on_bus_thread(self.shared.bus.id, move || self.work());
    }

    /// Works until the bus is closed and the incoming queue is empty.
    fn work(&self) {
        let bus = &self.shared.bus;
        let mut intake = self.shared.intake.lock();
        loop {
            intake.settle();
            if bus.registry.must_reap() {
                intake.reap();
            }
            intake = self.lend(intake);
            if intake.control() {
                continue;
            }
            let first = if intake.is_blocked() { None } else { spin_until(|| intake.take()) };
            if let Some(first) = first {
                intake.round(first);
            } else if !intake.is_blocked() && bus.is_quiet() {
                // Every entry was pushed or added before the gate became quiet, so this is the last
                // check.
                match intake.take() {
                    Some(last) => intake.round(last),
                    None if !intake.control() => return,
                    None => {}
                }
            } else if !self.pass_turn_on(&intake) {
                intake = self.sleep(intake);
            }
        }
    }

    /// Sleeps until there may be something to do, unless there is already. If the dispatcher is not
    /// blocked, the publishers may deliver directly.
    fn sleep<'d>(&'d self, mut intake: TryMutexGuard<'d, Intake<T>>) -> TryMutexGuard<'d, Intake<T>> {
        let bus = &self.shared.bus;
        let (is_blocked, deadline) = (intake.is_blocked(), intake.want_room());
        bus.dispatcher.arm();
        // A publisher cannot help a dispatcher that is blocked, and need not wake it.
        if !is_blocked {
            intake.unheard = 0;
            bus.gate.set_idle();
            intake.carried = intake.take();
        }
        if !intake.is_ready(deadline) {
            drop(intake);
            bus.clock.park(&self.parker, deadline);
            intake = self.shared.intake.lock();
        }
        if !is_blocked {
            bus.gate.clear_idle();
        }
        bus.dispatcher.disarm();
        intake
    }

    /// Gives the next waiting publisher a turn if there is capacity. The dispatcher calls this
    /// before it sleeps. The publisher that got the last turn may be a task that is not polled.
    /// While there is still capacity, the next publisher therefore gets a turn as well. Returns
    /// whether there was capacity and a publisher waited for it. The dispatcher then checks again.
    fn pass_turn_on(&self, intake: &Intake<T>) -> bool {
        let bus = &self.shared.bus;
        let is_wanted = bus.room.is_waited_for() && !intake.incoming.is_full();
        if is_wanted {
            // No fence: a publisher that waits had found the queue full before the last round's
            // fence.
            bus.room.wake(1);
            if intake.is_blocked() {
                // Time for the woken publisher to use its turn.
                let _ = spin_until(|| intake.incoming.is_full().then_some(()));
            }
        }
        is_wanted
    }
}

impl<T> Drop for Dispatcher<T> {
    /// Ends the bus, even if something unforeseen unwinds this thread, so that no thread or task is
    /// left waiting for the end.
    fn drop(&mut self) {
        let bus = &self.shared.bus;
        bus.close();
        // A publisher inside the gate never waits, so it leaves eventually. If `work` has returned,
        // all publishers have already left.
        while !bus.is_quiet() {
            thread::yield_now();
        }
        let history = self.shared.intake.lock().end(thread::panicking());
        bus.set_ended();
        // Everything has been handled, so no thread waits for the events that were only kept.
        drop(history);
    }
}
