//! A watcher for code of the library's own that handles many events at once, and in another order than they came: it
//! says by itself what has been handled, and how far.
//!
//! What is taken counts against the queue until it is given back, so that no more than the queue's length is ever waiting
//! and in hand together (with `DropOldest`: in each of the two). A flush waits for the position that is reported.
#![cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "only the models see it from outside"))]
#![cfg_attr(eventcast_loom, allow(missing_debug_implementations, reason = "no part of the API"))]

use crate::bus::mailbox::{BatchSlice, MailboxReceiver, Next};
use crate::bus::state::{Lifecycle, WatcherState};
use crate::bus::wait::{full_fence, on_bus_thread, spin_for, spin_until};
use crate::clock::Deadline;
use crate::sync::Arc;

use super::handler::WatchHandle;

/// The reader's end. Flush and shutdown wait for it until it is dropped.
pub struct BulkReader<T> {
    receiver: MailboxReceiver<T>,
    outstanding: u64,
}

/// What [`BulkReader::take`] finds.
pub enum BulkNext<T> {
    /// These, in order.
    Events(BulkEvents<T>),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

/// How far the end of a feed has come. None is left again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndStage {
    /// It has not begun.
    Running,
    /// The feed was stopped, or the bus is closed.
    Ending,
    /// A shutdown by deadline has given up.
    Abandoned,
}

/// Some events, in order.
pub struct BulkEvents<T>(BatchSlice<T>);

impl<T> BulkEvents<T> {
    /// The events.
    pub fn events(&self) -> &[T] {
        self.0.events()
    }

    /// That of the first event; each further one has the next.
    pub fn position(&self) -> u64 {
        self.0.position()
    }
}

impl<T> BulkReader<T> {
    pub(crate) fn new(mut receiver: MailboxReceiver<T>) -> Self {
        receiver.announces = false;
        Self { receiver, outstanding: 0 }
    }

    /// Stops it, waits for it, and reads its counters.
    pub fn handle(&self) -> WatchHandle {
        WatchHandle::new(&self.receiver)
    }

    /// Wakes whoever waits for it.
    pub fn waker(&self) -> BulkWaker {
        BulkWaker { state: self.receiver.state.clone(), lifecycle: self.receiver.lifecycle.clone() }
    }

    /// The next events. Gaps are passed over. Never waits.
    pub fn take(&mut self) -> BulkNext<T> {
        loop {
            match self.receiver.next() {
                Next::Event => {
                    let Some(slice) = self.receiver.take_current() else { continue };
                    self.outstanding += slice.len() as u64;
                    return BulkNext::Events(BulkEvents(slice));
                }
                Next::Lagged(_) => {}
                Next::Empty => return BulkNext::Empty,
                Next::End => return BulkNext::End,
            }
        }
    }

    /// Whether as much is in hand as the queue may hold.
    pub fn is_full(&self) -> bool {
        self.outstanding >= self.receiver.state.capacity
    }

    /// So many of those taken are done with. They need not be the first ones.
    pub fn give_back(&mut self, events: u64) {
        debug_assert!(events <= self.outstanding);
        if events > 0 {
            self.outstanding -= events;
            self.receiver.give_back(events);
        }
    }

    /// Reports that everything before this position has been handled; `None`: everything that was taken.
    pub fn set_handled(&mut self, position: Option<u64>) {
        self.receiver.set_handled(position);
    }

    /// How far the end has come.
    pub fn stage(&self) -> EndStage {
        if self.receiver.lifecycle.is_abandoned() {
            EndStage::Abandoned
        } else if self.receiver.state.is_stopped() || self.receiver.lifecycle.is_closing() {
            EndStage::Ending
        } else {
            EndStage::Running
        }
    }

    /// Waits for the next events (unless `takes` is false), for `ready`, for the bell, for a stage beyond the one that
    /// the caller has acted on, or until the deadline. Also returns for no reason.
    pub fn wait(&mut self, deadline: Deadline, takes: bool, seen: EndStage, ready: impl Fn() -> bool) {
        let found = || ready() || takes && self.receiver.has_news() || self.stage() > seen;
        let lifecycle = &self.receiver.lifecycle;
        let over = || found() || lifecycle.clock.has_passed(deadline);
        if spin_until(|| found().then_some(())).is_some()
            || spin_for(lifecycle.spin, || over().then_some(())).is_some()
        {
            return;
        }
        self.receiver.state.wake_cell.arm();
        if !over() {
            self.receiver.park(deadline);
        }
        self.receiver.state.wake_cell.disarm();
    }
}

/// Ends a [`BulkReader::wait`] from another thread.
#[derive(Clone)]
pub struct BulkWaker {
    state: Arc<WatcherState>,
    lifecycle: Arc<Lifecycle>,
}

impl BulkWaker {
    /// After what `ready` looks at has become true.
    pub fn wake(&self) {
        full_fence();
        self.state.wake_cell.wake();
    }

    /// Runs something on a thread that so counts as the bus's own, until all that it owns has gone.
    pub fn on_bus_thread<R>(&self, run: impl FnOnce() -> R) -> R {
        on_bus_thread(self.lifecycle.id, run)
    }
}
