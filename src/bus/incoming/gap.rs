//! Gaps from outside: a publisher says that events are missing which the bus never had.

use crate::bus::dispatch::{Control, Entry, Refused};
use crate::bus::state::Refusal;
use crate::error::PublishError;

use super::publisher::Publisher;

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Publishes a gap: tells every watcher that this many events are missing here. Waits for room
    /// in the incoming queue as [`publish`](Self::publish) does.
    ///
    /// A bridge from another bus or from a broker uses this for events that it knows it has lost.
    /// The gap has a place in the one order of events. Every watcher that was registered before
    /// receives it there as [`Delivery::Lagged`](crate::Delivery::Lagged), together with what the
    /// watcher itself has lost at this place. No filter sees the gap. A gap of zero events does
    /// nothing.
    ///
    /// A gap needs no room in a watcher's queue, so no policy applies to it. It counts as
    /// [`missed`](crate::stats::BusStats::missed), and neither as accepted nor as offered. A gap
    /// ends at position 2<sup>62</sup> at most, and is cut there, so that no count overflows.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish). The error has no event to return.
    ///
    /// # Blocking
    ///
    /// Waits as [`publish`](Self::publish) does.
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
        let clock = &self.incoming.lifecycle.clock;
        self.incoming.push_control(&mut Some(Control::Gap(events)), clock, None).map_err(refused_gap)
    }

    /// Publishes a gap as [`publish_gap`](Self::publish_gap) does, without waiting for room.
    ///
    /// # Errors
    ///
    /// As [`try_publish`](Self::try_publish). The error has no event to return. Add the number to
    /// the next gap.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// bus.publisher().try_publish_gap(3)?;
    /// let stats = bus.shutdown().bus;
    /// assert_eq!((stats.missed, stats.accepted), (3, 0));
    /// assert!(bus.publisher().try_publish_gap(3).unwrap_err().is_stopped());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_publish_gap(&self, events: u64) -> Result<(), PublishError<()>> {
        if events == 0 {
            return Ok(());
        }
        self.incoming
            .try_push(Entry::Control(Control::Gap(events)))
            .map_err(|Refused(_, refusal)| refused_gap(refusal))
    }

    /// Publishes a gap as [`publish_gap`](Self::publish_gap) does, without blocking a thread. If
    /// the future is dropped before it is ready, it has published nothing.
    ///
    /// # Errors
    ///
    /// As [`publish_gap`](Self::publish_gap).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let mut watcher = bus.watch()?;
    /// futures::executor::block_on(bus.publisher().publish_gap_async(3))?;
    /// assert_eq!(watcher.recv()?, Delivery::Lagged(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_gap_async(
        &self,
        events: u64,
    ) -> impl Future<Output = Result<(), PublishError<()>>> + Send {
        async move {
            if events == 0 {
                return Ok(());
            }
            self.incoming.push_async(&mut Some(Control::Gap(events)), None).await.map_err(refused_gap)
        }
    }
}

fn refused_gap(refusal: Refusal) -> PublishError<()> {
    match refusal {
        Refusal::Full => PublishError::Full(()),
        Refusal::Stopped => PublishError::Stopped(()),
    }
}
