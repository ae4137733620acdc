//! A watcher for code of the library's own that handles many events at once, and in another order than they came: it
//! says by itself what has been handled, and how far.
//!
//! What is taken counts against the queue until it is given back, so that no more than the queue's length is ever waiting
//! and in hand together (with `DropOldest`: in each of the two). A flush waits for the position that is reported.
#![cfg_attr(not(eventcast_loom), allow(unreachable_pub, reason = "only the models see it from outside"))]
#![cfg_attr(eventcast_loom, allow(missing_debug_implementations, reason = "no part of the API"))]

use crate::clock::Deadline;
use crate::sync::Arc;

use super::batch::Slice;
use super::core::Core;
use super::current::on_bus;
use super::handler::WatchHandle;
use super::hub::Hub;
use super::inbox::{Inbox, Next};
use super::sleeper::{full_fence, look, spin};

/// The reader's end. Flush and shutdown wait for it until it is dropped.
pub struct Feed<T> {
    inbox: Inbox<T>,
    in_hand: u64,
}

/// What [`Feed::take`] finds.
pub enum Fed<T> {
    /// These, in order.
    Events(Portion<T>),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

/// How far the end of a feed has come. None is left again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// It has not begun.
    Running,
    /// The feed was stopped, or the bus is closed.
    Ending,
    /// A shutdown by deadline has given up.
    Abandoned,
}

/// Some events, in order.
pub struct Portion<T>(Slice<T>);

impl<T> Portion<T> {
    /// The events.
    pub fn events(&self) -> &[T] {
        self.0.events()
    }

    /// That of the first event; each further one has the next.
    pub fn position(&self) -> u64 {
        self.0.position()
    }
}

impl<T> Feed<T> {
    pub(super) fn new(mut inbox: Inbox<T>) -> Self {
        inbox.announces = false;
        Self { inbox, in_hand: 0 }
    }

    /// Stops it, waits for it, and reads its counters.
    pub fn handle(&self) -> WatchHandle {
        WatchHandle::new(&self.inbox)
    }

    /// Wakes whoever waits for it.
    pub fn bell(&self) -> Bell {
        Bell { core: self.inbox.core.clone(), hub: self.inbox.hub.clone() }
    }

    /// The next events. Gaps are passed over. Never waits.
    pub fn take(&mut self) -> Fed<T> {
        loop {
            match self.inbox.next() {
                Next::Event => {
                    let Some(slice) = self.inbox.take_hand() else { continue };
                    self.in_hand += slice.len() as u64;
                    return Fed::Events(Portion(slice));
                }
                Next::Lagged(_) => {}
                Next::Empty => return Fed::Empty,
                Next::End => return Fed::End,
            }
        }
    }

    /// Whether as much is in hand as the queue may hold.
    pub fn is_full(&self) -> bool {
        self.in_hand >= self.inbox.core.capacity
    }

    /// So many of those taken are done with. They need not be the first ones.
    pub fn give_back(&mut self, events: u64) {
        debug_assert!(events <= self.in_hand);
        if events > 0 {
            self.in_hand -= events;
            self.inbox.give_back(events);
        }
    }

    /// Reports that everything before this position has been handled; `None`: everything that was taken.
    pub fn set_handled(&mut self, position: Option<u64>) {
        self.inbox.set_handled(position);
    }

    /// How far the end has come.
    pub fn stage(&self) -> Stage {
        if self.inbox.hub.is_abandoned() {
            Stage::Abandoned
        } else if self.inbox.core.is_stopped() || self.inbox.hub.is_closing() {
            Stage::Ending
        } else {
            Stage::Running
        }
    }

    /// Waits for the next events (unless `takes` is false), for `ready`, for the bell, for a stage beyond the one that
    /// the caller has acted on, or until the deadline. Also returns for no reason.
    pub fn wait(&mut self, deadline: Deadline, takes: bool, seen: Stage, ready: impl Fn() -> bool) {
        let found = || ready() || takes && self.inbox.has_news() || self.stage() > seen;
        let hub = &self.inbox.hub;
        let over = || found() || hub.clock.has_passed(deadline);
        if look(|| found().then_some(())).is_some() || spin(hub.spin, || over().then_some(())).is_some() {
            return;
        }
        self.inbox.core.sleeper.arm();
        if !over() {
            self.inbox.park(deadline);
        }
        self.inbox.core.sleeper.disarm();
    }
}

/// Ends a [`Feed::wait`] from another thread.
#[derive(Clone)]
pub struct Bell {
    core: Arc<Core>,
    hub: Arc<Hub>,
}

impl Bell {
    /// After what `ready` looks at has become true.
    pub fn ring(&self) {
        full_fence();
        self.core.sleeper.wake();
    }

    /// Runs something on a thread that so counts as the bus's own, until all that it owns has gone.
    pub fn on_bus<R>(&self, run: impl FnOnce() -> R) -> R {
        on_bus(self.hub.id, run)
    }
}
