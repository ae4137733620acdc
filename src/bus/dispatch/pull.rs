//! Pulling, in which a bus's only reader, while it is busy, takes the waiting entries out of the
//! incoming queue itself.
//!
//! If publishers are faster than a reader that the dispatcher waits for, the dispatcher and the
//! reader wake each other once every few hundred events. Pulling avoids these wake-ups. While the
//! reader is pulling, it is responsible for the entries in the incoming queue:
//!
//! - *Lend*: the dispatcher lends the fan-out to the reader after a number of rounds in which the
//!   reader never slept, or after a single large round. The bus must have only a single watcher,
//!   and this watcher must have no filter and a policy that makes the dispatcher wait. There must
//!   be no function that completes the events, as there is for recorded events. After
//!   lending the fan-out, the dispatcher releases the intake's lock, and naps.
//! - *Lend early*: if the dispatcher is asleep, and a publisher has found that the reader did not
//!   sleep during a number of direct deliveries, that publisher lends the fan-out if the reader may
//!   pull, and wakes the dispatcher. Until the dispatcher is awake, the events would otherwise
//!   accumulate while the reader runs out of events and falls asleep.
//! - *Pull*: if the reader finds its mailbox empty, it tries to acquire the lock, and offers the
//!   waiting entries. If the reader has pulled many entries but less than a batch, it is as fast as
//!   the publishers. In that case, it spins for a few microseconds before its next pull, so that it
//!   pulls more entries together.
//! - *Hand back*: before the reader sleeps, it sets the gate's idle bits. From then on, the
//!   publishers are responsible for the entries. If an entry or a publisher is already waiting, or
//!   if the reader does not acquire the lock, the reader wakes the dispatcher.
//!
//! The dispatcher can also take the fan-out back. It does so when a thread wakes the dispatcher
//! (for a control entry, to stop a watcher, or to close the bus), or when a nap ends and the reader
//! has not taken all entries that were waiting when the nap began. A slow or stalled reader can
//! therefore delay queued entries by two naps. The dispatcher does not lend again until the reader
//! has received everything that had been sent to it by then. If a reader does not read, it
//! therefore causes such a delay at most twice. Responsibility for the entries changes only while
//! the lock is held.
//!
//! A publisher that lends the fan-out does not check whether the reader is asleep, and issues no
//! fence. It always wakes the dispatcher, which either lends the fan-out once more, with the fence
//! and the check that this takes, or takes the fan-out back. If the reader goes to sleep at the
//! same time and does not see that the fan-out is lent, the dispatcher therefore finds the reader
//! asleep, and offers the entries itself.
//!
//! A thread that adds a control entry while the fan-out is lent may fail to wake the dispatcher,
//! because that thread does not issue a fence. In that case, the control entry waits like an event,
//! for the reader or for two naps.

use std::mem::take;
use std::time::Duration;

use crate::bus::mailbox::Upstream;
use crate::bus::wait::{BusThread, full_fence};
use crate::clock::Clock;
use crate::sync::{Arc, BUSY_ROUNDS, MANY, TryMutexGuard, hint, pull_gather};

use super::direct::{Offered, SharedIntake, Sleepers, wake};
use super::dispatcher::Dispatcher;
use super::intake::Intake;

/// The length of a nap, measured by the system clock. In a loom model, a nap ends only when a
/// thread wakes the dispatcher.
const NAP: Duration = Duration::from_millis(1);

impl<T: Clone + Send + Sync> Upstream for Arc<SharedIntake<T>> {
    fn pull(&self, least: usize, spins: u32) -> u32 {
        // Each check of the queue fetches the cache lines to which the publishers write. If the
        // reader checks less often, it finds more entries per check, and all threads are faster.
        (0..spins).for_each(|_| hint::spin_loop());
        let Some(offered) = self.offer_lent(least) else { return 0 };
        if offered.taken > 0 {
            // The waker of a publishing task may be called here. If the waker publishes an event,
            // it must not wait for capacity that only this reader frees.
            let _mark = BusThread::enter(self.bus.id);
            self.bus.room.wake(offered.taken);
        }
        if offered.is_stuck {
            self.bus.dispatcher.wake();
        }
        if offered.is_all && offered.taken >= MANY { pull_gather() } else { 0 }
    }

    fn hand_back(&self) {
        if let Some(mut intake) = self.intake.try_lock() {
            if !self.bus.is_lent() {
                // Another thread has become responsible for the entries, and has checked the queue
                // since then.
                return;
            }
            self.bus.set_lent(false);
            intake.busy_rounds = 0;
            self.bus.gate.set_idle();
            let is_idle = intake.incoming.is_empty() && !intake.controls.is_waiting();
            if is_idle && !self.bus.room.is_waited_for() {
                return;
            }
        }
        // The thread that holds the lock may have checked the queue already.
        self.bus.dispatcher.wake();
    }
}

impl<T> SharedIntake<T> {
    /// Returns whether publishers and a pulling reader may deliver events.
    pub(crate) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Returns whether the reader is pulling.
    pub(crate) fn is_lent(&self) -> bool {
        self.is_direct && self.bus.is_lent()
    }
}

impl<T: Clone> SharedIntake<T> {
    /// Frees capacity for a publisher that has found the incoming queue full while the reader is
    /// pulling, because the reader's mailbox may still have capacity. Never waits.
    #[cold]
    pub(crate) fn relieve(&self) {
        let is_stuck = self.offer_lent(1).is_some_and(|offered| offered.is_stuck);
        // Waking a waiting publisher involves taking a lock, so the dispatcher wakes waiting
        // publishers.
        if is_stuck || self.bus.room.is_waited_for() {
            self.bus.dispatcher.wake();
        }
    }

    /// Offers the waiting entries if the fan-out is lent and at least `least` entries are waiting.
    fn offer_lent(&self, least: usize) -> Option<Offered> {
        let mut sleepers = Sleepers::default();
        let mut intake = self.intake.try_lock()?;
        let waiting = intake.incoming.len();
        if !self.bus.is_lent() || waiting < least {
            return None;
        }
        if intake.controls.is_waiting() {
            return Some(Offered { taken: 0, is_stuck: true, is_all: false });
        }
        // No more entries than were waiting are taken out, so that this thread does not access the
        // slot into which the next publisher writes.
        let offered = intake.offer_waiting(waiting, &mut sleepers);
        intake.pulled += offered.as_ref().map_or(0, |offered| offered.taken);
        drop(intake);
        wake(sleepers);
        offered
    }
}

impl<T> Intake<T> {
    /// Returns whether the reader may pull.
    fn is_lendable(&mut self) -> bool {
        let is_busy = self.busy_rounds >= BUSY_ROUNDS && self.is_clear();
        let [only] = &mut *self.fan_out.senders else { return false };
        // If events have to be completed, the dispatcher does that beside the reader.
        is_busy
            && self.fan_out.completion.is_none()
            && only.state.policy.waits()
            && only.keeps_up()
            && only.direct_room(1).is_some()
    }

    /// Lends the fan-out to the reader while the dispatcher is asleep, if the reader may pull, and
    /// wakes the dispatcher, which takes the fan-out back if it is needed. Returns `false` if the
    /// reader may not pull.
    pub(super) fn lend_early(&mut self) -> bool {
        let is_lendable = self.is_lendable();
        if is_lendable {
            self.bus.set_lent(true);
            self.bus.gate.clear_idle();
            self.is_lent_early = true;
            // The reader may be asleep, and no other publisher sees the idle bit. If this thread
            // were preempted between releasing the lock and this call, events would wait for it.
            self.bus.dispatcher.wake();
        }
        is_lendable
    }

    /// Returns whether the dispatcher has work to do, or whether the reader is asleep.
    fn is_needed(&self) -> bool {
        self.bus.is_closing()
            || self.bus.is_abandoned()
            || self.bus.registry.must_reap()
            || self.controls.is_waiting()
            || self.fan_out.senders.iter().any(|sender| sender.state.wake_cell.is_armed())
    }
}

impl<T: Clone> Dispatcher<T> {
    /// Lends the fan-out to the reader, if the bus has only one reader and that reader is busy.
    /// Otherwise, takes the fan-out back if a publisher has lent it. Returns once the dispatcher is
    /// again responsible for the entries.
    pub(super) fn lend_or_take_back<'d>(
        &'d self,
        mut intake: TryMutexGuard<'d, Intake<T>>,
    ) -> TryMutexGuard<'d, Intake<T>> {
        let is_lent = take(&mut intake.is_lent_early);
        if self.shared.is_direct && intake.is_lendable() {
            intake = self.lend(intake);
        } else if !is_lent {
            return intake;
        }
        let bus = &self.shared.bus;
        bus.set_lent(false);
        bus.gate.clear_idle();
        bus.dispatcher.disarm();
        // If a publisher has lent the fan-out during the nap, the reader is still busy.
        if !take(&mut intake.is_lent_early) {
            intake.busy_rounds = 0;
        }
        intake
    }

    /// Lends the fan-out to the reader, and naps until the dispatcher is needed again.
    fn lend<'d>(&'d self, mut intake: TryMutexGuard<'d, Intake<T>>) -> TryMutexGuard<'d, Intake<T>> {
        let (bus, clock) = (&self.shared.bus, Clock::system());
        bus.dispatcher.arm();
        bus.set_lent(true);
        // The reader arms its wake cell, issues a fence, and checks the flag. Either the reader
        // sees the flag and hands back the fan-out, or this thread sees that the wake cell is
        // armed.
        full_fence();

        while !intake.is_needed() {
            let waiting = intake.incoming.len();
            intake.pulled = 0;
            drop(intake);
            clock.park(&self.parker, clock.deadline(NAP));
            intake = self.shared.intake.lock();
            if !bus.is_lent() || !bus.dispatcher.is_armed() {
                break;
            }
            if intake.pulled < waiting.max(1) {
                intake.fan_out.senders.iter_mut().for_each(|sender| sender.note_slow());
                break;
            }
        }
        intake
    }
}
