//! Direct delivery, in which a publisher offers its event itself if it finds the dispatcher asleep.
//! With direct delivery, an event is passed from one thread to another only once.
//!
//! At any time, at least one thread is responsible for each entry in the incoming queue:
//!
//! - While the dispatcher is awake or blocked, it is responsible for every entry. After the
//!   dispatcher has set the gate's idle bits, it checks the queue once more before it sleeps. A
//!   blocked dispatcher does not set the idle bits. If a publisher saw an idle bit earlier, it
//!   finds that events are pending, and leaves its own entry to the dispatcher.
//! - If a publisher sees an idle bit as it leaves the gate, it is responsible for the entry that it
//!   has pushed. The publisher tries to acquire the intake's lock. If it succeeds, it takes all
//!   waiting entries out of the queue and offers them. If the publisher does not acquire the lock,
//!   or if work remains that it must not do, it wakes the dispatcher.
//! - While the fan-out is lent to a reader, the reader is responsible for the entries (`pull.rs`).
//!   If the reader has not slept during a number of direct deliveries, the next publisher lends the
//!   fan-out to the reader if it can, and wakes the dispatcher in any case.
//!
//! A publisher that delivers directly never waits. It tries to acquire the lock once, and takes at
//! most one batch. Everything that could cost more or run user code is left to the dispatcher:
//!
//! - A filter is user code, and an event that does not fit into a mailbox may cause a call to
//!   `Clone`, `Drop` or a hook.
//! - A function may have to complete the events, for example recorded events. In that case, the
//!   publisher delivers only a lone event, and only to a single watcher whose reader is asleep.
//! - A mailbox with the policy `DropOldest` has a lock in its queue, and the publisher would have
//!   to wait for this lock.
//! - If there are more watchers than [`MOST_WATCHERS`], waking the readers would cost one system
//!   call for each reader, whereas waking the dispatcher costs a single system call, whatever the
//!   number of watchers.
//! - Waking a publisher that is waiting for capacity involves taking a lock.
//!
//! Only the dispatcher waits for the intake's lock. Other threads do a bounded amount of work while
//! they hold the lock, and wake the readers after they have released the lock.

use crate::bus::mailbox::{Entry, MailboxSender};
use crate::bus::options::BusOptions;
use crate::bus::state::{BusState, WatcherState};
use crate::sync::{Arc, MOST_BUSY_ROUNDS, Receiver, TryMutex};

use super::controls::Controls;
use super::fan_out::Completion;
use super::intake::Intake;

/// The maximum number of watchers to which a publisher delivers events directly.
const MOST_WATCHERS: usize = 4;

/// A bus's intake and fan-out, which are shared by the dispatcher, the publishers, and a pulling
/// reader.
pub(crate) struct SharedIntake<T> {
    pub(super) bus: Arc<BusState>,
    pub(super) intake: TryMutex<Intake<T>>,
    pub(crate) controls: Arc<Controls<T>>,
    pub(super) is_direct: bool,
}

/// The readers that a publisher wakes after it has released the intake's lock.
pub(super) type Sleepers = [Option<Arc<WatcherState>>; MOST_WATCHERS];

impl<T> SharedIntake<T> {
    pub(crate) fn new(
        bus: Arc<BusState>,
        incoming: Receiver<Entry<T>>,
        controls: Arc<Controls<T>>,
        completion: Option<Completion<T>>,
        options: &BusOptions,
    ) -> Self {
        // A history drops its oldest events when new events arrive, and an event's `Drop` is user
        // code.
        let is_direct = options.direct_delivery && options.history == 0;
        let intake = Intake::new(bus.clone(), incoming, controls.clone(), completion, options);
        Self { bus, intake: TryMutex::new(intake), controls, is_direct }
    }

    /// Delivers the waiting entries, or wakes the dispatcher to deliver them. The caller must have
    /// pushed an event and seen the gate's idle bit. Never waits.
    #[cold]
    pub(crate) fn deliver(&self)
    where
        T: Clone,
    {
        let mut sleepers = Sleepers::default();
        let is_done =
            self.is_direct && self.intake.try_lock().is_some_and(|mut intake| intake.deliver(&mut sleepers));
        wake(sleepers);
        if !is_done {
            self.bus.dispatcher.wake();
        }
    }
}

/// The outcome of an offer by a thread other than the dispatcher.
pub(super) struct Offered {
    /// The number of entries that were taken out of the incoming queue.
    pub(super) taken: usize,
    /// Whether one of the entries taken out of the queue is left for the dispatcher.
    pub(super) is_stuck: bool,
    /// Whether all entries that were to be taken out were taken out, so that neither the capacity
    /// was used up nor an entry is left for the dispatcher.
    pub(super) is_all: bool,
}

/// Wakes the given readers. The caller must have released the intake's lock.
pub(super) fn wake(sleepers: Sleepers) {
    for sleeper in sleepers.into_iter().flatten() {
        sleeper.wake_cell.wake();
    }
}

impl<T: Clone> Intake<T> {
    /// Offers the waiting entries, up to one batch. Adds the readers that must be woken to
    /// `sleepers`. Returns `false` if the caller must wake the dispatcher.
    fn deliver(&mut self, sleepers: &mut Sleepers) -> bool {
        let is_completed = self.fan_out.completion.is_some();
        if is_completed && !self.is_awaited() {
            return false;
        }
        if self.busy_rounds >= MOST_BUSY_ROUNDS {
            // The readers were busy at the last deliveries, so direct delivery has no benefit, and
            // a pulling reader or the dispatcher delivers many events at a lower cost.
            return self.lend_early();
        }
        if self.bus.room.is_waited_for() {
            return false;
        }
        let most = if is_completed { 1 } else { usize::MAX };
        let is_all = self.offer_waiting(most, sleepers).is_some_and(|offered| offered.is_all);
        is_all && (!is_completed || self.incoming.is_empty()) && !self.bus.room.is_waited_for()
    }

    /// Returns whether a lone event is waiting, and a single reader is asleep. A publisher
    /// completes only such an event, because completing events takes time.
    fn is_awaited(&self) -> bool {
        // Only a hint: the reader may be waking, and another event may be on its way.
        let sleeps = |sender: &MailboxSender<T>| sender.state.wake_cell.is_armed();
        matches!(&self.fan_out.senders[..], [only] if sleeps(only)) && self.incoming.len() <= 1
    }

    /// Offers the waiting entries, up to one batch, and at most `entries` entries. Adds the readers
    /// that must be woken to `sleepers`. Returns `None` if the dispatcher has to offer the entries.
    pub(super) fn offer_waiting(&mut self, entries: usize, sleepers: &mut Sleepers) -> Option<Offered> {
        let (room, before) = (self.direct_room()?, self.received);
        let Some(first) = self.receive() else {
            return Some(Offered { taken: 0, is_stuck: false, is_all: true });
        };
        // The closure does not read the list of control entries itself, because this thread must
        // not wait for the list's lock.
        let events = self.gather(first, room, entries, |controls, _| controls.is_waiting());
        let is_stuck = self.carried.is_some();
        let is_all = !is_stuck && events.as_ref().is_some_and(|events| events.len() < room);
        if let Some(events) = events {
            let mut free = sleepers.iter_mut();
            let note = |sender: &mut MailboxSender<T>, _: &_| {
                let slept = sender.state.wake_cell.is_armed();
                if let Some(sleeper) = free.next().filter(|_| slept) {
                    *sleeper = Some(sender.state.clone());
                }
                slept
            };
            self.offer(events, true, note, |_| ());
        }
        Some(Offered { taken: (self.received - before) as usize, is_stuck, is_all })
    }

    /// Returns the number of events that fit into every mailbox, up to the maximum size of a batch.
    /// Returns `None` if only the dispatcher may offer events now.
    fn direct_room(&mut self) -> Option<usize> {
        if !self.is_clear() || !(1..=MOST_WATCHERS).contains(&self.fan_out.senders.len()) {
            return None;
        }
        let most = self.max_batch;
        let mut senders = self.fan_out.senders.iter_mut();
        let room = senders.try_fold(most, |room, sender| Some(room.min(sender.direct_room(room)?)))?;
        (room > 0).then_some(room)
    }
}
