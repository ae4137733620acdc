//! Positions of received events, and the start of a watcher in the past.

use crate::bus::options::Start;

use super::builder::WatchBuilder;
use super::watcher::Watcher;

impl<T> WatchBuilder<'_, T> {
    /// Sets the point in the order of events at which the watcher starts. The default is
    /// [`Start::Next`].
    ///
    /// With any other start, the watcher first receives the events from that point on that the
    /// bus's [history](crate::BusOptions::history) still holds, then the events that follow. The
    /// watcher receives each of them once, and none is missing between the two, because the
    /// registration itself has a point in the order. Events that the history no longer holds are
    /// reported as a gap of exactly their number. With a filter, the gap also counts events that
    /// the filter would have refused.
    ///
    /// The kept events count as offered. They are filtered too: the filter runs on the dispatcher,
    /// over all of them in a single pass. They take no capacity in the queue, so no policy applies
    /// to them, except [`DropOldest`](crate::OverflowPolicy::DropOldest): such a queue holds only
    /// the newest of them, up to its capacity. A [prefix](Self::prefix) is delivered before them.
    /// The dispatcher does nothing else while it offers them, so a long history with a slow filter
    /// delays the other watchers.
    ///
    /// # Examples
    ///
    /// A client that reconnects:
    ///
    /// ```
    /// use eventcast::bus::Start;
    /// use eventcast::{Broadcaster, BusOptions, Delivery};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().history(2))?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch(["a", "b", "c", "d"])?;
    /// assert_eq!(watcher.recv()?, Delivery::Event("a"));
    /// let position = watcher.position().unwrap();
    /// drop(watcher);
    ///
    /// let watcher = bus.watch_builder().start(Start::After(position)).watch()?;
    /// bus.publisher().publish("e")?;
    /// bus.shutdown();
    /// let rest: Vec<_> = watcher.into_iter().collect();
    /// let [c, d, e] = ["c", "d", "e"].map(Delivery::Event);
    /// assert_eq!(rest, [Delivery::Lagged(1), c, d, e]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "last event id")]
    #[doc(alias = "Last-Event-ID")]
    #[doc(alias = "replay")]
    #[doc(alias = "resourceVersion")]
    #[doc(alias = "resume")]
    pub fn start(mut self, start: Start) -> Self {
        self.start = start;
        self
    }
}

impl<T> Watcher<T> {
    /// Returns the position of the last event that the watcher has received. A watcher that starts
    /// [after](Start::After) this position continues where this one left off.
    ///
    /// Accepted events have consecutive positions, starting with 1. A gap that was
    /// [published](crate::Publisher::publish_gap) takes one position for each missing event. After
    /// a [`Lagged`](crate::Delivery::Lagged), the position is one less than the position of the
    /// next event. Without a filter, the position of the next event is therefore one more than the
    /// position before it, plus the number of events lost in between. With a filter, there may also
    /// be refused events in between. After a gap, the position may then be lower than the position
    /// of the last lost event, but not lower than the position of any event received.
    ///
    /// Before the first receive, and in a [prefix](WatchBuilder::prefix), this is the position
    /// after which the watcher starts. Returns `None` if the dispatcher has not registered the
    /// watcher yet, which a [flush](crate::Broadcaster::flush) waits for.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([3, 4])?;
    /// watcher.recv()?;
    /// assert_eq!(watcher.position(), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// A stream of deliveries with their positions:
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery, Watcher};
    /// use futures::{Stream, StreamExt, stream};
    ///
    /// fn with_positions(watcher: Watcher<u8>) -> impl Stream<Item = (Delivery<u8>, Option<u64>)> {
    ///     stream::unfold(watcher, async |mut watcher| {
    ///         let delivery = watcher.recv_async().await.ok()?;
    ///         Some(((delivery, watcher.position()), watcher))
    ///     })
    /// }
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch()?;
    /// bus.publisher().publish_batch([5, 6])?;
    /// bus.close();
    /// let seen: Vec<_> = futures::executor::block_on(with_positions(watcher).collect());
    /// assert_eq!(seen, [(Delivery::Event(5), Some(1)), (Delivery::Event(6), Some(2))]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("with_positions", "offset", "sequence"))]
    pub fn position(&self) -> Option<u64> {
        self.receiver.position()
    }
}
