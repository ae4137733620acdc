//! The types that a reader receives, which are single deliveries and batches that are read in
//! place.

use std::fmt;
use std::ops::Deref;

use crate::bus::mailbox::BatchSlice;

/// An item that a watcher receives, which is either an event or the number of events that are
/// missing at this point in the sequence.
///
/// A loss is an item in the stream, not an error. The watcher receives the loss even if no event
/// follows.
///
/// With the `serde` feature, an event is serialized as `{"event": ..}` and a loss as
/// `{"lagged": 3}`.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let watcher = bus.watch_builder().queue_capacity(2).watch()?;
/// bus.publisher().publish_batch(["a", "b", "c"])?;
/// bus.close();
/// let shown = watcher.into_iter().map(|delivery| match delivery {
///     Delivery::Event(event) => event.to_owned(),
///     Delivery::Lagged(count) => format!("{count} missing"),
/// });
/// assert_eq!(shown.collect::<Vec<_>>(), ["a", "b", "1 missing"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Delivery<T> {
    /// The next event.
    Event(T),
    /// The number of events that are missing between the previous event and the next one.
    #[doc(alias = "lag")]
    #[doc(alias = "Overflow")]
    Lagged(u64),
}

impl<T> Delivery<T> {
    /// Returns the event, or `None` if the delivery is a loss.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    ///
    /// assert_eq!(Delivery::Event("a").event(), Some("a"));
    /// assert_eq!(Delivery::<&str>::Lagged(3).event(), None);
    /// ```
    pub fn event(self) -> Option<T> {
        match self {
            Self::Event(event) => Some(event),
            Self::Lagged(_) => None,
        }
    }

    /// Converts from `&Delivery<T>` to `Delivery<&T>`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    ///
    /// let delivery = Delivery::Event("long text".to_owned());
    /// assert_eq!(delivery.as_ref().event().map(String::len), Some(9));
    /// assert_eq!(delivery.event().as_deref(), Some("long text"));
    /// ```
    pub fn as_ref(&self) -> Delivery<&T> {
        match self {
            Self::Event(event) => Delivery::Event(event),
            Self::Lagged(count) => Delivery::Lagged(*count),
        }
    }
}

/// Events that are received together, and the number of events that are missing just before them.
/// All watchers share the memory that holds the events.
///
/// A batch dereferences to a slice, which is empty if the batch reports only a loss. The events'
/// capacity is returned to the queue when the next receive begins.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch_builder().queue_capacity(2).watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.shutdown();
/// let batch = watcher.recv_batch()?;
/// assert_eq!((batch.lagged, batch.iter().sum::<i32>()), (0, 3));
/// let batch = watcher.recv_batch()?;
/// assert_eq!((batch.lagged, batch.len()), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "the events of a batch are received, and the next receive passes over them"]
pub struct Batch<'w, T> {
    /// The number of events that are missing just before the batch's first event.
    pub lagged: u64,
    events: &'w [T],
    /// The slice that contains the events, if there are any.
    slice: Option<&'w BatchSlice<T>>,
}

impl<'w, T> Batch<'w, T> {
    pub(crate) fn new(lagged: u64, events: &'w [T], slice: Option<&'w BatchSlice<T>>) -> Self {
        Self { lagged, events, slice }
    }

    /// Returns the position of the event at `index` in the bus's order of events. Returns `None` if
    /// the batch has no event at `index`, or if the events are a
    /// [prefix](crate::WatchBuilder::prefix). The positions in a batch are consecutive, except
    /// where the watcher's filter has refused events in between. For a watcher with
    /// [`conflate_by`](crate::WatchBuilder::conflate_by), the position is usually lower.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut even = bus.watch_builder().filter(|n: &u32| n % 2 == 0).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3, 4])?;
    /// let batch = even.recv_batch()?;
    /// assert_eq!([batch.position(0), batch.position(1)], [Some(2), Some(4)]);
    /// assert_eq!(batch.position(2), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn position(&self, index: usize) -> Option<u64> {
        let slice = self.slice.filter(|slice| index < slice.len())?;
        Some(slice.position(index)).filter(|position| *position > 0)
    }
}

impl<T> Deref for Batch<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.events
    }
}

impl<'w, T> IntoIterator for Batch<'w, T> {
    type Item = &'w T;
    type IntoIter = std::slice::Iter<'w, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("lagged", &self.lagged).field("events", &self.events).finish()
    }
}
