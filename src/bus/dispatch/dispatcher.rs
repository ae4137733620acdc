//! The dispatcher: the thread that works with the intake while there is something to do, and
//! sleeps while there is nothing.
//!
//! One round of the dispatcher:
//!
//! 1. Take the waiting entries, up to a batch or a control entry.
//! 2. Offer the batch to every watcher, without waiting.
//! 3. Fence once.
//! 4. Wake the readers that sleep, and the publishers that wait for room.
//! 5. Wait for those watchers that must be waited for. Each deadline counts from the offer.
//! 6. Carry out the control entry.
//!
//! Control entries therefore stand in the same order as events. A slow watcher for which the
//! dispatcher waits does not delay the events of the same batch for the other watchers.
//!
//! The dispatcher holds the lock of the intake while it is awake, and lets it go before it
//! sleeps for want of entries, or naps while the reader pulls. It never blocks in a channel. It
//! waits for the intake while a publisher delivers directly or a reader pulls, and then for
//! the locks that it takes under the intake's, each of which other threads hold for a few
//! instructions. Lock order: `Dispatch::intake` before `WaitQueue::waiters`,
//! `SliceQueue::Ring`, `FlushTicket::handlers`, `Registry::entries`, `Registry::reapable` and
//! `Fake::state`.
//!
//! If user code that runs here (filters, hooks, `Clone`, `Drop`) panics, the dispatcher catches the
//! panic.

use crate::bus::mailbox::MailboxSender;
use crate::bus::wait::{full_fence, on_bus_thread, spin_for, spin_until};
use crate::sync::{Arc, Parker, TryMutexGuard, thread};

use super::direct::Dispatch;
use super::distributor::wake_or_drain;
use super::entry::Entry;
use super::intake::Intake;

pub(crate) struct Dispatcher<T> {
    pub(super) dispatch: Arc<Dispatch<T>>,
    pub(super) parker: Parker,
}

impl<T: Clone> Dispatcher<T> {
    pub(crate) fn new(dispatch: Arc<Dispatch<T>>, parker: Parker) -> Self {
        Self { dispatch, parker }
    }

    /// Runs until the bus is closed and the incoming queue is empty, and until all destructors have
    /// run.
    pub(crate) fn run(self) {
        on_bus_thread(self.dispatch.lifecycle.id, move || self.work());
    }

    /// Works until the bus is closed and the incoming queue is empty.
    fn work(&self) {
        let mut intake = self.dispatch.intake.lock();
        loop {
            while let Some(first) = self.look(&mut intake) {
                self.round(&mut intake, first);
                intake = self.lend(intake);
            }
            if self.dispatch.lifecycle.is_quiet() {
                // All pushes happened before the gate became quiet, so this is the last look that
                // is needed.
                let Some(last) = intake.take() else { return };
                self.round(&mut intake, last);
            } else if self.dispatch.lifecycle.registry.must_reap() {
                intake.reap();
            } else if !self.pass_turn_on(&intake) {
                intake = self.sleep(intake);
            }
        }
    }

    /// Offers one batch that begins with this entry, and carries out the control entry behind it.
    fn round(&self, intake: &mut Intake<T>, first: Entry<T>) {
        let mut taken = 1;
        let (batch, control) = intake.gather(first, intake.max_batch, &mut taken);
        intake.distribute(batch, taken);
        if !intake.pending.is_empty() {
            self.wait_for_room(intake);
        }
        // Before the control entry, so that a flush finds the watchers reaped that were dropped
        // before it.
        if self.dispatch.lifecycle.registry.must_reap() {
            intake.reap();
        }
        if let Some(entry) = control {
            intake.carry_out(entry);
        }
    }

    /// Looks for the next entry, a few times or for as long as the options say. Returns `None` if
    /// no entry came.
    fn look(&self, intake: &mut Intake<T>) -> Option<Entry<T>> {
        spin_until(|| intake.take()).or_else(|| self.spin(intake))
    }

    /// Sleeps until there may be something to do, unless there is already. Meanwhile the publishers
    /// may deliver directly.
    fn sleep<'d>(&'d self, mut intake: TryMutexGuard<'d, Intake<T>>) -> TryMutexGuard<'d, Intake<T>> {
        let lifecycle = &self.dispatch.lifecycle;
        intake.unheard = 0;
        lifecycle.dispatcher.arm();
        lifecycle.gate.set_idle();
        intake.carried = intake.take();
        if intake.carried.is_none() && !lifecycle.is_quiet() && !lifecycle.registry.must_reap() {
            drop(intake);
            lifecycle.clock.park(&self.parker, None);
            intake = self.dispatch.intake.lock();
        }
        lifecycle.gate.clear_idle();
        lifecycle.dispatcher.disarm();
        intake
    }

    /// Keeps looking for the next entry, for as long as the options say. Returns `None` if no entry
    /// came, or if the dispatcher has something else to do.
    fn spin(&self, intake: &mut Intake<T>) -> Option<Entry<T>> {
        let lifecycle = &self.dispatch.lifecycle;
        if lifecycle.spin.is_zero() || lifecycle.room.is_waited_for() {
            return None;
        }
        let found = || match intake.take() {
            None => (lifecycle.is_closing() || lifecycle.registry.must_reap()).then_some(None),
            entry => Some(entry),
        };
        spin_for(lifecycle.spin, found).flatten()
    }

    /// Gives the next waiting publisher a turn if there is room. The dispatcher calls this before
    /// it sleeps. The publisher that got the last turn may be a task that is not polled. While
    /// there is still room, the next publisher therefore gets a turn as well. Returns whether there
    /// was room and a publisher waited for it. The dispatcher then looks again.
    fn pass_turn_on(&self, intake: &Intake<T>) -> bool {
        let lifecycle = &self.dispatch.lifecycle;
        let is_wanted = lifecycle.room.is_waited_for() && !intake.incoming.is_full();
        if is_wanted {
            // No fence: a publisher that waits had found the queue full before the last round's
            // fence.
            lifecycle.room.wake(1);
        }
        is_wanted
    }

    /// Waits until every pending event has found room or was given up.
    fn wait_for_room(&self, intake: &mut Intake<T>) {
        let lifecycle = &self.dispatch.lifecycle;
        let mut pending = std::mem::take(&mut intake.pending);
        loop {
            let abandoned = lifecycle.is_abandoned();
            for &i in &pending {
                let sender = &mut intake.distributor.senders[i];
                // An event that fits is not lost, even at the last moment. A stopped watcher is
                // offered nothing more.
                if !sender.state.is_stopped() {
                    sender.push_pending();
                }
                if sender.is_pending() {
                    sender.give_up_pending(&lifecycle.clock, abandoned);
                }
            }
            full_fence();
            for &i in &pending {
                wake_or_drain(&mut intake.distributor.senders[i], abandoned);
            }
            pending.retain(|&i| intake.distributor.senders[i].is_pending());
            if pending.is_empty() {
                break;
            }
            if self.pass_turn_on(intake) {
                // Time for the woken publisher to use its turn.
                let _ = spin_until(|| intake.incoming.is_full().then_some(()));
            } else {
                self.park_for_room(intake, &pending);
            }
        }
        intake.pending = pending;
    }

    fn park_for_room(&self, intake: &Intake<T>, pending: &[usize]) {
        let lifecycle = &self.dispatch.lifecycle;
        let pending = || pending.iter().map(|&i| &*intake.distributor.senders[i]);
        pending().for_each(MailboxSender::want_room);
        lifecycle.dispatcher.arm();
        // The second look, behind the fence in `arm`, at everything that can end the wait.
        let ready = |sender: &MailboxSender<T>| sender.found_room() || sender.state.is_stopped();
        let deadline = pending().filter_map(MailboxSender::deadline).min();
        if !lifecycle.is_abandoned() && !pending().any(ready) && !lifecycle.clock.has_passed(deadline) {
            lifecycle.clock.park(&self.parker, deadline);
        }
        lifecycle.dispatcher.disarm();
        pending().for_each(|sender| sender.state.has_room());
    }
}

impl<T> Drop for Dispatcher<T> {
    /// Ends the bus, even if something unforeseen unwinds this thread, because nobody may be left
    /// waiting for the end.
    fn drop(&mut self) {
        let lifecycle = &self.dispatch.lifecycle;
        lifecycle.close();
        // A publisher inside the gate waits for nobody, so it leaves. When `work` has returned, all
        // have left.
        while !lifecycle.is_quiet() {
            thread::yield_now();
        }
        let history = self.dispatch.intake.lock().end(thread::panicking());
        lifecycle.set_ended();
        // Everything has been handled, so nobody waits for the events that were only kept.
        drop(history);
    }
}
