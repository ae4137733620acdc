//! The dispatcher, a thread that runs the intake while there is work to do, and sleeps otherwise.
//!
//! Each iteration of the dispatcher's loop consists of these steps:
//!
//! 1. Reap watchers, if any must be reaped.
//! 2. Process the control entries whose places have been reached.
//! 3. Take the waiting entries, up to a full batch or up to the place of a control entry.
//! 4. Offer the batch to every watcher, without waiting.
//! 5. Issue a single fence.
//! 6. Wake the sleeping readers, and the publishers waiting for capacity.
//!
//! Steps 4 to 6 are repeated for each group of watchers, except that publishers are woken last.
//!
//! The dispatcher is *blocked* while events of the batch are waiting for capacity in the mailbox of
//! a watcher with `Wait` or `WaitFor`. Deadlines are measured from the offer. A slow watcher does
//! not delay the other watchers' events from the same batch, but it delays all later entries.
//! Control entries stay in their list. If an entry has been taken out of the queue but does not
//! belong to the batch, the entry is *carried*. While the dispatcher is blocked, it queues the
//! events that fit, drops events that have waited too long, and reaps watchers.
//!
//! # Sleep
//!
//! The dispatcher holds the intake's lock while it is awake. It releases the lock before it sleeps
//! in [`Dispatcher::sleep`], and before it naps while the reader is pulling. The dispatcher's sleep
//! ends when one of the following events occurs, which [`Intake::is_ready`] checks for:
//!
//! | event | the thread that wakes the dispatcher | while idle | while blocked |
//! |---|---|---|---|
//! | an entry is pushed, or a control entry is added | the caller, which sees an idle bit of the gate | yes | not woken |
//! | the gate becomes quiet | the closing thread, or the last publisher | yes | not needed |
//! | a watcher was stopped or dropped, and must be reaped | the stopping thread | yes | yes |
//! | a watcher has capacity for its pending events | its reader | none pending | yes |
//! | the deadline of pending events expires | the dispatcher itself | none pending | yes |
//! | a shutdown with a deadline abandons the bus | the thread that calls it | not needed | yes |
//!
//! A publisher waiting for capacity in the incoming queue does not end a sleep, because the
//! dispatcher [passes the turn on](Dispatcher::pass_turn_on) before each sleep.
//!
//! While the dispatcher is asleep and blocked, another thread may acquire the lock. This thread may
//! be a reader, or a publisher that saw an idle bit before the dispatcher cleared the bit. In
//! either case, that thread does not offer any events ([`Intake::is_clear`]).
//!
//! The dispatcher never blocks inside a channel. It waits for the intake's lock while a publisher
//! delivers directly or a reader pulls. While the dispatcher holds the intake's lock, it waits only
//! for the locks listed below, each of which other threads hold for only a few instructions. Lock
//! order: `SharedIntake::intake` before `Controls::list`, `WaitQueue::waiters`, `SliceQueue::Ring`,
//! `SliceQueue::Conflating`, `FlushTicket::handlers`, `Registry::entries`, `Registry::reapable` and
//! `Fake::state`.
//!
//! If user code that the dispatcher runs (filters, hooks, `Clone`, `Drop`) panics, the dispatcher
//! catches the panic.

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

    /// Runs the dispatcher until the bus is closed, the incoming queue is empty, and all
    /// destructors have run.
    pub(crate) fn run(self) {
        on_bus_thread(self.shared.bus.id, move || self.work());
    }

    /// Runs the main loop until the bus is closed and the incoming queue is empty.
    fn work(&self) {
        let bus = &self.shared.bus;
        let mut intake = self.shared.intake.lock();
        loop {
            intake.settle();
            if bus.registry.must_reap() {
                intake.reap();
            }
            intake = self.lend_or_take_back(intake);
            if intake.control() {
                continue;
            }
            let first = if intake.is_blocked() { None } else { spin_until(|| intake.take()) };
            if let Some(first) = first {
                intake.round(first);
            } else if !intake.is_blocked() && bus.is_quiet() {
                // All entries were pushed or added before the gate became quiet, so this check is
                // final.
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

    /// Sleeps until there may be work to do, unless there is already work to do. Unless the
    /// dispatcher is blocked, publishers may deliver events directly while it is asleep.
    fn sleep<'d>(&'d self, mut intake: TryMutexGuard<'d, Intake<T>>) -> TryMutexGuard<'d, Intake<T>> {
        let bus = &self.shared.bus;
        let (is_blocked, deadline) = (intake.is_blocked(), intake.want_room());
        bus.dispatcher.arm();
        // A publisher cannot help a blocked dispatcher, and need not wake it.
        if !is_blocked {
            intake.busy_rounds = 0;
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
    /// before it sleeps, because the publisher that got the last turn may be a task that is not
    /// being polled. As long as there is capacity, the next publisher therefore gets a turn as
    /// well. Returns whether there was capacity and a publisher was waiting for it. In that case,
    /// the dispatcher checks for work again.
    fn pass_turn_on(&self, intake: &Intake<T>) -> bool {
        let bus = &self.shared.bus;
        let is_wanted = bus.room.is_waited_for() && !intake.incoming.is_full();
        if is_wanted {
            // No fence is needed, because a publisher that is still waiting must have found the
            // queue full before the last round's fence.
            bus.room.wake(1);
            if intake.is_blocked() {
                // Gives the woken publisher time to use its turn.
                let _ = spin_until(|| intake.incoming.is_full().then_some(()));
            }
        }
        is_wanted
    }
}

impl<T> Drop for Dispatcher<T> {
    /// Ends the bus, even if an unexpected panic is unwinding this thread, so that no thread or
    /// task is left waiting for the bus to end.
    fn drop(&mut self) {
        let bus = &self.shared.bus;
        bus.close();
        // Publishers inside the gate never wait, so they eventually leave. If `work` has returned,
        // all publishers have already left.
        while !bus.is_quiet() {
            thread::yield_now();
        }
        let history = self.shared.intake.lock().end(thread::panicking());
        bus.set_ended();
        // Everything has been handled, so no thread waits for the destructors of events in the
        // history.
        drop(history);
    }
}
