//! The work that an inline bus's owner does after releasing the lock. This work consists of waking
//! readers and publishers, and running destructors.

use crate::bus::mailbox::{MailboxSender, discard};
use crate::bus::state::{BusState, WatcherState};
use crate::bus::wait::BusThread;
use crate::sync::Arc;

use super::fan_out::{FanOut, Rest};

/// The work left over by one call. Most calls leave no work or only one reader to wake, and do not
/// allocate memory here.
pub(super) struct Later<T> {
    reader: Option<Arc<WatcherState>>,
    more: Option<Box<Work<T>>>,
}

struct Work<T> {
    /// The readers to wake in addition to the first reader.
    readers: Vec<Arc<WatcherState>>,
    publishers: Publishers,
    rest: Rest<T>,
    events: Vec<T>,
    has_ended: bool,
    was_due: bool,
}

/// Specifies which of the publishers waiting for capacity must be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publishers {
    None,
    Next,
    All,
}

impl<T> Default for Later<T> {
    fn default() -> Self {
        Self { reader: None, more: None }
    }
}

impl<T> Default for Work<T> {
    fn default() -> Self {
        Self {
            readers: Vec::new(),
            publishers: Publishers::None,
            rest: Rest::default(),
            events: Vec::new(),
            has_ended: false,
            was_due: false,
        }
    }
}

impl<T> Later<T> {
    fn work(&mut self) -> &mut Work<T> {
        self.more.get_or_insert_default()
    }

    /// Records a reader if it is asleep. The caller must have issued a fence after making the
    /// changes that the reader must see.
    #[inline]
    pub(super) fn note(&mut self, state: &Arc<WatcherState>) {
        if state.wake_cell.is_armed() {
            self.note_sleeping(state.clone());
        }
    }

    #[cold]
    fn note_sleeping(&mut self, state: Arc<WatcherState>) {
        if self.reader.is_none() {
            self.reader = Some(state);
        } else {
            self.work().readers.push(state);
        }
    }

    /// Closes the mailbox of a removed sender. The sender's closures are dropped later.
    pub(super) fn close(&mut self, sender: Box<MailboxSender<T>>, bus: &BusState) {
        let state = sender.state.clone();
        self.work().rest.close(sender, bus);
        self.note(&state);
    }

    /// Ends the bus.
    pub(super) fn end(&mut self, fan_out: &mut FanOut<T>, bus: &BusState) {
        let Work { rest, readers, has_ended, .. } = self.work();
        fan_out.end(bus, rest, |state| readers.push(state.clone()));
        *has_ended = true;
    }

    /// Records that work was due. The thread that requested the work has left the wake-ups to the
    /// owner.
    pub(super) fn note_due(&mut self) {
        let work = self.work();
        (work.publishers, work.was_due) = (Publishers::All, true);
    }

    /// Records that there is capacity, so that the next publisher is woken.
    pub(super) fn note_room(&mut self) {
        let work = self.work();
        if work.publishers == Publishers::None {
            work.publishers = Publishers::Next;
        }
    }

    /// Keeps events whose destructors must run last.
    pub(super) fn keep(&mut self, events: Vec<T>) {
        self.work().events = events;
    }

    /// Does all of the recorded work. The caller must have released the lock.
    #[inline]
    pub(super) fn carry_out(&mut self, bus: &BusState) {
        if self.reader.is_some() || self.more.is_some() {
            self.carry_out_now(bus);
        }
    }

    #[cold]
    fn carry_out_now(&mut self, bus: &BusState) {
        // A waker or destructor must not wait for this bus, because the bus might be waiting for
        // this very thread.
        let _mark = BusThread::enter(bus.id);
        if let Some(state) = self.reader.take() {
            state.wake_cell.wake();
        }
        let Some(work) = self.more.take() else { return };
        for state in &work.readers {
            state.wake_cell.wake();
        }
        match work.publishers {
            Publishers::None => {}
            // No fence is needed, because a waiting publisher has checked for capacity while
            // holding the lock that has since been released.
            Publishers::Next => bus.room.pass_on(),
            Publishers::All => bus.room.wake_all(),
        }
        let history = work.rest.release();
        discard(work.events);
        if work.has_ended {
            bus.set_ended();
        }
        if work.was_due {
            // No fence is needed, because the owner has seen the due work in an atomic exchange.
            bus.done.wake_all();
            bus.presence.wake_all();
        }
        drop(history);
    }
}
