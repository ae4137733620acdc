//! Watchers that receive only the newest event for each key.

use std::hash::Hash;

use crate::bus::mailbox::KeyMap;

use super::builder::WatchBuilder;

impl<T> WatchBuilder<'_, T> {
    /// Keeps only the newest unread event for each key.
    ///
    /// If the watcher's queue already has an event with the same key as a new event, the new event
    /// takes that event's place in the queue, and the older event counts as
    /// [conflated](crate::stats::DropCounts::conflated). The reader therefore receives the newest
    /// event of each key, in the order in which the keys got their first unread event. A busy key
    /// keeps its place in the queue, so it does not delay the other keys. A replaced event is not a
    /// loss, so the watcher delivers no [`Lagged`](crate::Delivery::Lagged) for it. The
    /// [`on_drop`](Self::on_drop) hook receives each replaced event. After a `Lagged`, the next
    /// event is fixed, so a newer event of its key no longer replaces it.
    ///
    /// [`queue_capacity`](Self::queue_capacity) limits the number of keys with unread events. If
    /// there are already as many keys, an event with another key is subject to the overflow policy:
    /// `DropIncoming` drops this event, `DropOldest` drops the event at the front of the queue, and
    /// `Evict` ends the watcher. For every key's last event to arrive, choose a capacity of at
    /// least the number of keys. The bus never waits for a watcher that conflates events, so the
    /// policies `Wait` and `WaitFor` are not allowed, not even as the bus's default.
    ///
    /// A key cannot borrow from the event. Use a number, or a string that is cheap to clone, such
    /// as an `Arc<str>`. Events from the history conflate like all others. The
    /// [prefix](Self::prefix) does not conflate.
    ///
    /// The dispatcher calls `key` for each event that the [`filter`](Self::filter) keeps, and
    /// clones each of these events. On an [inline](crate::Broadcaster::new_inline) bus, this
    /// happens inside the publish call. `key` must therefore be fast and must not block. If `key`,
    /// or the key's `Hash`, `Eq` or `Drop`, or the event's `Clone` panics, the panic is counted,
    /// this watcher ends as if it had been stopped, and nothing else is affected.
    ///
    /// The watcher's [`position`](crate::Watcher::position), and the
    /// [`position`](crate::bus::Batch::position) of an event in a batch, is the position of
    /// the key's first event that was unread. Up to this position, each event has been received,
    /// replaced or reported as lost. A watcher that [starts](Self::start) after
    /// this position misses no key's newest event, but may receive an event again.
    ///
    /// # Errors
    ///
    /// Building the watcher returns [`WatchError::Invalid`](crate::error::WatchError::Invalid) if
    /// the overflow policy is `Wait` or `WaitFor`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::sync::Arc;
    ///
    /// type Price = (Arc<str>, u32);
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut prices = bus.watch_builder().conflate_by(|(symbol, _): &Price| symbol.clone()).watch()?;
    /// let prices_of_today = [("A", 1), ("B", 5), ("A", 2), ("A", 3)];
    /// bus.publisher().publish_batch(prices_of_today.map(|(symbol, price)| (symbol.into(), price)))?;
    /// bus.shutdown();
    /// let received: Vec<Price> = prices.events().collect();
    /// assert_eq!(received, [("A".into(), 3), ("B".into(), 5)]);
    /// assert_eq!(prices.stats().dropped.conflated, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("conflate", "conflation", "coalesce", "latest", "last value cache"))]
    pub fn conflate_by<K: Hash + Eq + Send + 'static>(
        mut self,
        key: impl FnMut(&T) -> K + Send + 'static,
    ) -> Self {
        self.keys = Some(Box::new(KeyMap::new(key)));
        self
    }
}
