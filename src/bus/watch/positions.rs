//! Positions of received events, and watchers that start in the past.

use crate::bus::options::Start;

use super::builder::WatchBuilder;
use super::watcher::Watcher;

impl<T> WatchBuilder<'_, T> {
    /// Sets the point in the order of events at which the watcher starts. Defaults to
    /// [`Start::Next`].
    ///
    /// With any other start, the watcher first receives the past events from that point on, as far
    /// as the bus's [history](crate::BusOptions::history) still holds them, and then the events
    /// that follow. Each event is received once, and no event is lost in the transition from past
    /// to new events, because the registration itself takes effect at a single point in the order.
    /// Events that the history no longer holds are reported as a gap of exactly that many events.
    /// If the watcher has a filter, the gap also counts events that the filter would have refused.
    ///
    /// Events from the history count as offered. The watcher's filter applies to events from the
    /// history too, and runs on the dispatcher over all of them in a single pass. Events from the
    /// history do not take up capacity in the queue, so the overflow policy does not apply to them.
    /// [`DropOldest`](crate::OverflowPolicy::DropOldest) is the exception, because its queue holds
    /// only the newest of these events, up to its capacity. A [prefix](Self::prefix) is delivered
    /// before the events from the history. The dispatcher does nothing else while it offers the
    /// history, so a long history combined with a slow filter delays the other watchers.
    ///
    /// # Examples
    ///
    /// A client that reconnects and continues where it left off:
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
    ///
    /// A second reader at the position of a first reader, which has unread events:
    ///
    /// ```
    /// use eventcast::bus::Start;
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().history(100))?;
    /// let mut first = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// assert_eq!(first.events().next(), Some(1));
    ///
    /// let position = first.position().expect("the watcher has received an event");
    /// let mut second = bus.watch_builder().start(Start::After(position)).watch()?;
    /// bus.publisher().publish(4)?;
    /// bus.shutdown();
    /// assert_eq!(first.events().collect::<Vec<_>>(), [2, 3, 4]);
    /// assert_eq!(second.events().collect::<Vec<_>>(), [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// Each reader has its own settings, so the second reader needs the same filter to receive the
    /// same events. The history must hold all events that the first reader has not received yet.
    /// If the first reader's policy has dropped some of these events, the second reader receives
    /// them from the history.
    #[doc(alias = "last event id")]
    #[doc(alias = "Last-Event-ID")]
    #[doc(alias("fork", "clone"))]
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
    /// [after](Start::After) this position continues where this watcher left off. The position is
    /// usually lower if the watcher [conflates](crate::WatchBuilder::conflate_by) events.
    ///
    /// Accepted events have consecutive positions, starting with 1. A gap that was
    /// [published](crate::Publisher::publish_gap) takes up one position for each missing event.
    /// After a [`Lagged`](crate::Delivery::Lagged), the watcher's position is one less than the
    /// position of the next event. If the watcher has no filter, the next event's position is
    /// therefore the watcher's position before the gap, plus the number of events lost, plus one.
    /// If the watcher has a filter, the filter may also have refused events in between. After a
    /// gap, the watcher's position may then be lower than the position of the last lost event, but
    /// not lower than the position of any received event.
    ///
    /// Before the first receive, and while the watcher delivers a [prefix](WatchBuilder::prefix),
    /// the result is the position after which the watcher starts. Returns `None` if the dispatcher
    /// has not registered the watcher yet. A [flush](crate::Broadcaster::flush) waits for the
    /// registration.
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
