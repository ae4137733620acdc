//! Gaps from outside: a publisher reports missing events that the bus never had.

use crate::bus::dispatch::Control;
use crate::error::PublishError;

use super::publisher::Publisher;

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Publishes a gap: this many events are missing here for every watcher. Needs no capacity.
    ///
    /// A bridge from another bus or from a broker uses this for events that it knows it has lost.
    /// The gap has its own point in the single order of events. Every watcher that was registered
    /// before receives it there as [`Delivery::Lagged`](crate::Delivery::Lagged), together with the
    /// events that the watcher itself has lost at this point. No filter sees the gap. A gap of zero
    /// events does nothing.
    ///
    /// A gap takes no capacity from events, neither in the incoming queue nor in a watcher's queue,
    /// so no policy applies to it. Gaps at the same point are received as one. A gap counts as
    /// [`missed`](crate::stats::BusStats::missed), and neither as accepted nor as offered. A gap
    /// ends at position 2<sup>62</sup> at most, and is truncated there, so that no count overflows.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Closed`] if the bus is closed.
    /// - [`PublishError::Full`] only from inside a call of an inline bus: of this bus, if the call
    ///   has already taken [`incoming_capacity`](crate::BusOptions::incoming_capacity) entries, or
    ///   of another bus, if this bus's lock is not free within 10 ms. Add the number to the next
    ///   gap.
    ///
    /// # Blocking
    ///
    /// Does not wait for capacity. On an inline bus it waits for the lock.
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
