//! A watcher for code of the library's own that handles many events at once, and in another order than they came: it
//! says by itself what has been handled, and how far.
//!
//! What is taken counts against the queue until it is given back, so that no more than the queue's length is ever waiting
//! and in hand together (with `DropOldest`: in each of the two). A flush waits for the position that is reported.

use crate::clock::Deadline;
use crate::guard::guarded;
use crate::sync::Arc;

use super::batch::Slice;
use super::core::Core;
use super::current::OnBus;
use super::handler::WatchHandle;
use super::hub::Hub;
use super::inbox::{Inbox, Next};
use super::sleeper::{full_fence, look};

/// The reader's end. Flush and shutdown wait for it until it is dropped.
pub(crate) struct Feed<T> {
    inbox: Inbox<T>,
    in_hand: u64,
}

/// What [`Feed::take`] finds.
pub(crate) enum Fed<T> {
    Events(Portion<T>),
    /// Nothing now.
    Empty,
    /// Nothing ever again.
    End,
}

/// Some events, in order.
pub(crate) struct Portion<T>(Slice<T>);

impl<T> Portion<T> {
    pub(crate) fn events(&self) -> &[T] {
        self.0.events()
    }

    /// That of the first event; each further one has the next.
    pub(crate) fn position(&self) -> u64 {
        self.0.position()
    }
}

impl<T> Feed<T> {
    pub(super) fn new(mut inbox: Inbox<T>) -> Self {
        inbox.announces = false;
        Self { inbox, in_hand: 0 }
    }

    pub(crate) fn handle(&self) -> WatchHandle {
        WatchHandle::new(&self.inbox)
    }

    pub(crate) fn bell(&self) -> Bell {
        Bell { core: self.inbox.core.clone(), hub: self.inbox.hub.clone() }
    }

    /// The next events. Gaps are passed over. Never waits.
    pub(crate) fn take(&mut self) -> Fed<T> {
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
    pub(crate) fn is_full(&self) -> bool {
        self.in_hand >= self.inbox.core.capacity
    }

    /// So many of those taken are done with. They need not be the first ones.
    pub(crate) fn give_back(&mut self, events: u64) {
        debug_assert!(events <= self.in_hand);
        if events > 0 {
            self.in_hand -= events;
            self.inbox.give_back(events);
        }
    }

    /// Reports that everything before this position has been handled; `None`: everything that was taken.
    pub(crate) fn set_handled(&mut self, position: Option<u64>) {
        self.inbox.set_handled(position);
    }

    /// Whether all should come to its end: it was stopped, or the bus is closed.
    pub(crate) fn is_ending(&self) -> bool {
        self.inbox.core.is_stopped() || self.inbox.hub.is_closing()
    }

    /// Whether a shutdown by deadline has given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.inbox.hub.is_abandoned()
    }

    /// Waits for the next events (unless `takes` is false), for `ready`, for the bell, for the beginning of the end if it
    /// has not begun, or until the deadline. Also returns for no reason.
    pub(crate) fn wait(&mut self, deadline: Deadline, takes: bool, ready: impl Fn() -> bool) {
        let was_ending = self.is_ending();
        let inbox = &self.inbox;
        let ending = || inbox.core.is_stopped() || inbox.hub.is_closing();
        let found = || ready() || takes && inbox.has_news() || !was_ending && ending();
        if look(inbox.hub.spin, || found().then_some(())).is_some() {
            return;
        }
        inbox.core.sleeper.arm();
        if !found() && !inbox.hub.clock.has_passed(deadline) {
            inbox.park(deadline);
        }
        inbox.core.sleeper.disarm();
    }
}

/// Ends a [`Feed::wait`] from another thread.
#[derive(Clone)]
pub(crate) struct Bell {
    core: Arc<Core>,
    hub: Arc<Hub>,
}

impl Bell {
    /// After what `ready` looks at has become true.
    pub(crate) fn ring(&self) {
        full_fence();
        self.core.sleeper.wake();
    }

    /// Runs something on a thread that so counts as the bus's own, and catches its panic.
    pub(crate) fn on_bus(&self, run: impl FnOnce()) {
        let _on_bus = OnBus::enter(self.hub.id);
        guarded(run);
    }
}
