//! A watcher's iterators, either over all deliveries or only over events.

use std::fmt;
use std::iter::FusedIterator;

use super::delivery::Delivery;
use super::watcher::Watcher;

impl<T> Watcher<T> {
    /// Returns an iterator over only the events. The iterator blocks and ends like
    /// [`recv`](Self::recv). Losses are skipped, but [`stats`](Self::stats) still counts them. If
    /// the reader owns its watcher, see also [`into_events`](Self::into_events).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch_builder().queue_capacity(2).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.close();
    /// assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 2]);
    /// assert_eq!(watcher.stats().dropped.incoming, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn events(&mut self) -> Events<'_, T> {
        Events { watcher: self }
    }

    /// Returns an iterator over the deliveries that are in the queue now, including losses. The
    /// iterator never waits. The iterator returns `None` both if there is nothing to receive now
    /// and at the end of the stream. [`end_reason`](Self::end_reason) distinguishes the two cases.
    ///
    /// The iterator also returns deliveries that arrive while it is running. If publishers may be
    /// faster than the caller, limit the iterator with [`take`](Iterator::take).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut watcher = bus.watch_builder().queue_capacity(2).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// let queued: Vec<_> = watcher.try_iter().collect();
    /// assert_eq!(queued, [Delivery::Event(1), Delivery::Event(2), Delivery::Lagged(1)]);
    /// assert_eq!(watcher.try_iter().next(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "drain")]
    pub fn try_iter(&mut self) -> TryIter<'_, T> {
        TryIter { watcher: self }
    }
}

/// An iterator over the deliveries in a watcher's queue, which never waits. See
/// [`Watcher::try_iter`].
///
/// `TryIter` is not a [`FusedIterator`]. After returning `None`, it continues with deliveries that
/// have arrived since then, unless the watcher has reached its end.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new_inline();
/// let mut watcher = bus.watch()?;
/// let mut arrived = watcher.try_iter();
/// assert_eq!(arrived.next(), None);
/// bus.publisher().publish(1)?;
/// assert_eq!(arrived.next(), Some(Delivery::Event(1)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TryIter<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone> Iterator for TryIter<'_, T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.try_recv().ok()
    }
}

impl<T> fmt::Debug for TryIter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TryIter").field("watcher", &self.watcher).finish()
    }
}

/// An iterator over a watcher's events, which skips losses. See [`Watcher::events`].
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// assert_eq!(watcher.events().find(|n| n % 2 == 0), Some(2));
/// assert_eq!(watcher.events().next(), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Events<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone> Iterator for Events<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Delivery::Event(event) = self.watcher.recv().ok()? {
                return Some(event);
            }
        }
    }
}

impl<T> fmt::Debug for Events<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("watcher", &self.watcher).finish()
    }
}

/// An iterator that owns a watcher and returns its deliveries. The iterator blocks and ends like
/// [`Watcher::recv`].
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let watcher = bus.watch_builder().queue_capacity(1).watch()?;
/// bus.publisher().publish_batch([1, 2])?;
/// bus.close();
/// let deliveries: Vec<_> = watcher.into_iter().collect();
/// assert_eq!(deliveries, [Delivery::Event(1), Delivery::Lagged(1)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct IntoIter<T> {
    watcher: Watcher<T>,
}

impl<T: Clone> Iterator for IntoIter<T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

impl<T> fmt::Debug for IntoIter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IntoIter").field("watcher", &self.watcher).finish()
    }
}

// After the end, every further receive returns the end again.
impl<T: Clone> FusedIterator for Events<'_, T> {}
impl<T: Clone> FusedIterator for IntoIter<T> {}
impl<T: Clone> FusedIterator for Iter<'_, T> {}

impl<T: Clone> IntoIterator for Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { watcher: self }
    }
}

/// An iterator that borrows a watcher and returns its deliveries. The iterator blocks and ends like
/// [`Watcher::recv`].
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch()?;
/// bus.publisher().publish_batch([1, 2])?;
/// for delivery in &mut watcher {
///     assert_eq!(delivery, Delivery::Event(1));
///     break;
/// }
/// assert_eq!(watcher.recv()?, Delivery::Event(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Iter<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone> Iterator for Iter<'_, T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

impl<T> fmt::Debug for Iter<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("watcher", &self.watcher).finish()
    }
}

#[allow(clippy::into_iter_without_iter, reason = "`iter_mut` would say nothing that `&mut watcher` does not")]
impl<'w, T: Clone> IntoIterator for &'w mut Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = Iter<'w, T>;

    fn into_iter(self) -> Iter<'w, T> {
        Iter { watcher: self }
    }
}
