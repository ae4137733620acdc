//! Published gaps, with which a publisher reports missing events that the bus never received.

use crate::bus::dispatch::Control;
use crate::error::PublishError;

use super::publisher::Publisher;

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Publishes a gap, which reports to every watcher that the given number of events is missing
    /// at this point. Publishing a gap does not need any capacity.
    ///
    /// A bridge from another bus or from a broker publishes a gap to report events that it knows it
    /// has lost. The gap has its own place in the bus's single order of events. At this place,
    /// every watcher registered before the gap receives
    /// [`Delivery::Lagged`](crate::Delivery::Lagged), which also counts the events that the watcher
    /// itself has lost there. A gap is not passed to filters. Publishing a gap of zero events has
    /// no effect.
    ///
    /// A gap takes up no capacity in the incoming queue or in a watcher's queue, so no policy
    /// applies to the gap. If several gaps are published at the same point, watchers receive them
    /// as a single gap. The missing events count as [`missed`](crate::stats::BusStats::missed), but
    /// not as accepted or offered. A gap is truncated at position 2<sup>62</sup>, so that no count
    /// overflows.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Closed`] if the bus is closed.
    /// - [`PublishError::Full`] only from inside a call to an inline bus. From inside a call to
    ///   this bus, `Full` is returned if that call has already added
    ///   [`incoming_capacity`](crate::BusOptions::incoming_capacity) entries. From inside a call to
    ///   another inline bus, `Full` is returned if this bus's lock does not become free within 10
    ///   ms. After this error, add the number of events to the next gap.
    ///
    /// # Blocking
    ///
    /// Does not wait for capacity. On an inline bus, waits for the bus's lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch()?;
    /// bus.publisher().publish(1)?;
    /// bus.publisher().publish_gap(2)?;
    /// bus.publisher().publish(4)?;
    /// bus.close();
    /// let seen: Vec<_> = watcher.into_iter().collect();
    /// assert_eq!(seen, [Delivery::Event(1), Delivery::Lagged(2), Delivery::Event(4)]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_gap(&self, events: u64) -> Result<(), PublishError<()>> {
        if events == 0 {
            return Ok(());
        }
        self.incoming.control(Control::Gap(events)).map_err(|(_, refusal)| refusal.error(()))
    }
}
