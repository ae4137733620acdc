//! Provides both sides of a bridge with timeouts that are suitable for tests, and a reader that
//! checks the events that it receives.

use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};
use eventcast_nats::{
    NatsPublisher, NatsPublisherBuilder, NatsPublisherStats, NatsSubscriber, NatsSubscriberBuilder,
    NatsSubscriberStats, Start, StreamOptions, Subject,
};
use test_support::{LONG, until};

/// Returns a bus on which nothing is lost as long as every watcher reads.
pub(crate) fn lossless() -> Broadcaster<u64> {
    Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait)).unwrap()
}

/// Returns an outgoing side with short timeouts that creates the stream `EVENTS` and loses nothing.
pub(crate) fn out(url: &str) -> NatsPublisherBuilder<u64> {
    NatsPublisher::builder(url).ensure_stream("EVENTS", StreamOptions::default()).configure(|options| {
        options.overflow = OverflowPolicy::Wait;
        options.ack_timeout = Duration::from_secs(2);
        options.retry.min = Duration::from_millis(10);
        options.retry.max = Duration::from_millis(300);
        options.gap_after = Duration::from_millis(50);
    })
}

/// Returns an incoming side with short timeouts for the whole stream `EVENTS`.
pub(crate) fn reader(url: &str) -> NatsSubscriberBuilder<u64> {
    NatsSubscriber::builder(url)
        .start(Start::All)
        .configure(|options| options.heartbeat = Duration::from_millis(500))
}

/// Returns one of three subjects, so that ten consecutive events share a subject.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the bridge passes a reference")]
pub(crate) fn by_tens(event: &u64) -> Subject {
    by_three(&(event / 10))
}

/// Returns one of three subjects, a different one for each consecutive event.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "the bridge passes a reference")]
pub(crate) fn by_three(event: &u64) -> Subject {
    Subject::new("events").token(["a", "b", "c"][usize::try_from(event % 3).unwrap()])
}

/// A bus on which a reader publishes a stream's events, and a watcher that loses nothing.
pub(crate) struct Remote {
    pub(crate) bus: Broadcaster<u64>,
    pub(crate) watcher: Watcher<u64>,
    pub(crate) subscriber: NatsSubscriber,
}

impl Remote {
    pub(crate) fn new(builder: NatsSubscriberBuilder<u64>) -> Self {
        let bus = lossless();
        let watcher = bus.watch_builder().queue_capacity(4096).watch().unwrap();
        let subscriber = builder.attach(&bus.publisher()).unwrap();
        Self { bus, watcher, subscriber }
    }

    /// Receives until the number of events and gaps reaches `total`.
    pub(crate) fn receive(&mut self, total: u64) -> Vec<Delivery<u64>> {
        let (mut seen, mut all) = (0, Vec::new());
        while seen < total {
            let Ok(delivery) = self.watcher.recv_timeout(LONG) else {
                panic!("{seen} of {total}: {}", self.subscriber.stats())
            };
            seen += match delivery {
                Delivery::Event(_) => 1,
                Delivery::Lagged(missing) => missing,
            };
            all.push(delivery);
        }
        assert_eq!(seen, total, "{}", self.subscriber.stats());
        all
    }

    /// Receives exactly these events in order, and receives no gap.
    pub(crate) fn receive_exactly(&mut self, events: std::ops::Range<u64>) {
        for (received, expected) in self.receive(events.end - events.start).into_iter().zip(events) {
            assert_eq!(received, Delivery::Event(expected), "{}", self.subscriber.stats());
        }
    }

    /// Checks that no more deliveries arrive. Returns the final statistics of the reader. While the
    /// reader is running, an event may be received before it is counted.
    pub(crate) fn ends_here(self) -> NatsSubscriberStats {
        let stats = ended(&self.subscriber);
        self.bus.flush(LONG).unwrap();
        let mut watcher = self.watcher;
        assert!(watcher.try_recv().is_err(), "{stats}");
        stats
    }
}

/// Shuts a reader down, and returns the reader's final statistics.
pub(crate) fn ended(subscriber: &NatsSubscriber) -> NatsSubscriberStats {
    assert!(subscriber.shutdown_timeout(LONG));
    subscriber.stats()
}

/// Publishes numbers, and waits until the bridge has sent them.
pub(crate) fn publish(bus: &Broadcaster<u64>, out: &NatsPublisher, events: std::ops::Range<u64>) {
    bus.publisher().publish_batch(events).unwrap();
    settle(bus, out);
}

/// Waits until the bridge has sent all events, and returns the bridge's statistics.
pub(crate) fn settle(bus: &Broadcaster<u64>, out: &NatsPublisher) -> NatsPublisherStats {
    bus.flush(LONG).unwrap();
    assert!(out.flush(LONG), "{}", out.stats());
    let stats = out.stats();
    assert_eq!(stats.offered, stats.total(), "{stats:?}");
    assert_eq!(stats.in_flight + stats.queued, 0, "{stats}");
    stats
}

/// Waits until a condition holds, and leaves the CPU to the server while waiting.
#[track_caller]
pub(crate) fn eventually(mut done: impl FnMut() -> bool) {
    until(|| {
        let is_done = done();
        if !is_done {
            std::thread::sleep(Duration::from_millis(5));
        }
        is_done
    });
}
