//! The work that the owner of an inline bus does after it has let the lock go: it wakes readers and
//! publishers, and runs destructors.

use crate::bus::mailbox::{MailboxSender, discard};
use crate::bus::state::{Lifecycle, WatcherState};
use crate::bus::wait::BusThread;
use crate::sync::Arc;

use super::distributor::{Distributor, Rest};

pub(super) struct Later<T> {
    readers: Vec<Arc<WatcherState>>,
    publishers: Publishers,
    rest: Rest<T>,
    events: Vec<T>,
    has_ended: bool,
    was_due: bool,
}

/// The publishers that wait for capacity, and that are to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Publishers {
    None,
    Next,
    All,
}

impl<T> Default for Later<T> {
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
    /// Notes a reader if it sleeps. The caller has fenced since it changed what the reader sees.
    #[inline]
    pub(super) fn note(&mut self, state: &Arc<WatcherState>) {
        if state.wake_cell.is_armed() {
            self.readers.push(state.clone());
        }
    }

    /// Closes the mailbox of a sender that was removed. Its closures are dropped later.
    pub(super) fn close(&mut self, sender: Box<MailboxSender<T>>, lifecycle: &Lifecycle) {
        let state = sender.state.clone();
        self.rest.close(sender, lifecycle);
        self.note(&state);
    }

    /// Ends the bus.
    pub(super) fn end(&mut self, distributor: &mut Distributor<T>, lifecycle: &Lifecycle) {
        let Self { rest, readers, .. } = self;
        distributor.end(lifecycle, rest, |state| readers.push(state.clone()));
        self.has_ended = true;
    }

    /// Notes that something was due. The thread that noted it has left the wake-ups to the owner.
    pub(super) fn note_due(&mut self) {
        (self.publishers, self.was_due) = (Publishers::All, true);
    }

    /// Notes that there is capacity.
    pub(super) fn note_room(&mut self) {
        if self.publishers == Publishers::None {
            self.publishers = Publishers::Next;
        }
    }

    /// Keeps events whose destructors are to run last.
    pub(super) fn keep(&mut self, events: Vec<T>) {
        self.events = events;
    }

    /// Does all of it. The caller has let the lock go.
    #[inline]
    pub(super) fn carry_out(self, lifecycle: &Lifecycle) {
        let is_nothing = self.readers.is_empty() && self.publishers == Publishers::None;
        if !is_nothing || !self.rest.is_empty() {
            self.carry_out_now(lifecycle);
        }
    }

    #[cold]
    fn carry_out_now(self, lifecycle: &Lifecycle) {
        // A waker or destructor must not wait for this bus: the thread may be the one for which it
        // would wait.
        let _mark = BusThread::enter(lifecycle.id);
        for state in &self.readers {
            state.wake_cell.wake();
        }
        match self.publishers {
            Publishers::None => {}
            // No fence: a publisher that waits has looked under the lock that was let go.
            Publishers::Next => lifecycle.room.pass_on(),
            Publishers::All => lifecycle.room.wake_all(),
        }
        let history = self.rest.release();
        discard(self.events);
        if self.has_ended {
            lifecycle.set_ended();
        }
        if self.was_due {
            // No fence: the owner has seen by an exchange what was due.
            lifecycle.done.wake_all();
        }
        drop(history);
    }
}
