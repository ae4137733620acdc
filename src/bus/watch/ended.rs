//! A watcher without a bus.

use crate::bus::mailbox::{MailboxReceiver, SliceQueue};
use crate::bus::policy::OverflowPolicy;
use crate::bus::state::{BusState, Drive, Name, WatcherState};
use crate::clock::Clock;
use crate::sync::{Arc, Parker};

use super::watcher::Watcher;

/// Drives a bus that has ended, for which no work is ever due.
struct Ended;

impl Drive for Ended {
    fn drive(&self, _: &BusState) {}
}

impl<T> Watcher<T> {
    /// Returns a watcher that belongs to no bus and has already ended, so every receive returns the
    /// end.
    ///
    /// Use this function where a watcher is expected and a closed bus is not an error, for example
    /// in an infallible `subscribe` method. As with any other watcher,
    /// [`end_reason`](Self::end_reason) returns `None` until a receive has returned the end. After
    /// that, the reason is [`Closed`](crate::bus::EndReason::Closed), or `Stopped` if you stopped
    /// the watcher first. The watcher's [`position`](Self::position) is `None`, and its name is
    /// `ended`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Watcher};
    ///
    /// struct Server {
    ///     changes: Broadcaster<u32>,
    /// }
    ///
    /// impl Server {
    ///     /// Returns a watcher that ends with the server. On a server that has ended, it is at its
    ///     /// end.
    ///     fn subscribe(&self) -> Watcher<u32> {
    ///         self.changes.watch().unwrap_or_else(|_| Watcher::ended())
    ///     }
    /// }
    ///
    /// let server = Server { changes: Broadcaster::new()? };
    /// let mut first = server.subscribe();
    /// server.changes.publisher().publish(1)?;
    /// server.changes.close();
    /// assert_eq!(first.events().collect::<Vec<_>>(), [1]);
    /// assert!(server.subscribe().recv().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "empty")]
    pub fn ended() -> Self {
        let bus = Arc::new(BusState::inline(Clock::system(), Box::new(Ended)));
        bus.set_ended();
        let (parker, policy) = (Parker::new(), OverflowPolicy::default());
        let state = Arc::new(WatcherState::new(0, Name::Given("ended".into()), 1, policy, false, &parker));
        state.set_closed();
        let queue = SliceQueue::new(1, 0, policy, false);
        Self::new(MailboxReceiver::new(state, bus, queue, parker, Vec::new(), None, None))
    }
}
