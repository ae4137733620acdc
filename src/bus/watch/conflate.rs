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
    /// event of each key, in the order in which the keys got their first unread event. A key with
    /// many events neither delays other keys nor is delayed by them. A replaced event is not a
    /// loss, so the watcher delivers no [`Lagged`](crate::Delivery::Lagged) for it. The
    /// [`on_drop`](Self::on_drop) hook receives each replaced event. If other events were lost, the
    /// reader receives their number, and then holds the event that follows, which is no longer
    /// replaced.
    ///
    /// [`queue_capacity`](Self::queue_capacity) limits the number of keys with unread events. If
    /// there are already as many keys, an event with another key is subject to the overflow policy:
    /// `DropIncoming` drops this event, `DropOldest` drops the event at the front of the queue, and
    /// `Evict` ends the watcher. For every key's last event to arrive, choose a capacity of at
    /// least the number of keys. The bus never waits for a watcher that conflates events, so the
    /// policies `Wait` and `WaitFor` are not allowed.
    ///
    /// The dispatcher calls `key` for each event that the [`filter`](Self::filter) keeps, and
    /// clones each of these events. On an [inline](crate::Broadcaster::new_inline) bus, this
    /// happens inside the publish call. `key` must therefore be fast and must not block. If `key`,
    /// or the key's `Hash`, `Eq` or `Drop`, or the event's `Clone` panics, the panic is counted,
    /// this watcher ends as if it had been stopped, and nothing else is affected.
    ///
    /// The watcher's [`position`](crate::Watcher::position), and the
    /// [`position`](crate::bus::Batch::position) of an event in a batch, is the position up to
    /// which each event has been received or replaced. A watcher that [starts](Self::start) after
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
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut prices = bus.watch_builder().conflate_by(|(symbol, _): &(&str, u32)| *symbol).watch()?;
    /// bus.publisher().publish_batch([("A", 1), ("B", 5), ("A", 2), ("A", 3)])?;
    /// bus.shutdown();
    /// assert_eq!(prices.events().collect::<Vec<_>>(), [("A", 3), ("B", 5)]);
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
