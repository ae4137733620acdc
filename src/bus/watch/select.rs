//! Lets a crossbeam `Select` wait for a watcher.

use crate::sync::{Select, Signal};

use super::watcher::Watcher;

impl<T> Watcher<T> {
    /// Adds the watcher to a crossbeam [`Select`], and returns the operation's index. The operation
    /// is ready when there is something to receive, or when the watcher has reached its end.
    ///
    /// Use the operation with the readiness methods of `Select` ([`Select::ready`] and similar).
    /// When the `Select` returns the index, call [`try_recv`](Self::try_recv) until the watcher is
    /// empty. The `Select` may also return the index spuriously. While events from the last receive
    /// are borrowed, the operation is always ready, because only the next receive returns their
    /// capacity to the queue. Create a new `Select` for each wait, because a `Select` borrows the
    /// watcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use crossbeam_channel::{Select, unbounded};
    /// use eventcast::error::TryRecvError;
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// let (orders, incoming) = unbounded();
    /// bus.publisher().publish("event")?;
    /// orders.send("order")?;
    /// drop(orders);
    /// bus.close();
    ///
    /// let mut seen = Vec::new();
    /// let (mut watching, mut listening) = (true, true);
    /// while watching || listening {
    ///     let mut select = Select::new();
    ///     let event = if watching { Some(watcher.add_to(&mut select)) } else { None };
    ///     let order = if listening { Some(select.recv(&incoming)) } else { None };
    ///     let ready = Some(select.ready());
    ///     if ready == event {
    ///         loop {
    ///             match watcher.try_recv() {
    ///                 Ok(Delivery::Event(event)) => seen.push(event),
    ///                 Ok(Delivery::Lagged(_)) => {}
    ///                 Err(TryRecvError::Empty) => break,
    ///                 Err(TryRecvError::Ended) => {
    ///                     watching = false;
    ///                     break;
    ///                 }
    ///             }
    ///         }
    ///     } else if ready == order {
    ///         match incoming.recv() {
    ///             Ok(order) => seen.push(order),
    ///             Err(_) => listening = false,
    ///         }
    ///     }
    /// }
    /// seen.sort_unstable();
    /// assert_eq!(seen, ["event", "order"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_to<'a>(&'a self, select: &mut Select<'a>) -> usize {
        let signal = self.signal.get_or_init(Signal::new);
        // Discards the token of the previous call, because the caller may already have received the
        // event that the token announced. If there is still something to receive, `notify` calls
        // the waker immediately.
        signal.clear();
        self.receiver.notify(signal.waker());
        signal.add_to(select)
    }
}
