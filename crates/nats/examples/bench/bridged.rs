//! Measures the bridge.

use std::time::{Duration, Instant};

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use eventcast_nats::{NatsPublisher, NatsSubscriber, Start, Storage, StreamOptions};

use crate::bare::event;

pub(crate) const LONG: Duration = Duration::from_secs(120);

fn bus() -> Broadcaster<String> {
    Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait)).unwrap()
}

pub(crate) fn delete(url: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
        let _ = context.delete_stream("EVENTS").await;
    });
}

pub(crate) fn out(
    url: &str,
    bus: &Broadcaster<String>,
    storage: Storage,
    batch: usize,
    linger: Duration,
) -> NatsPublisher {
    let mut stream = StreamOptions::default();
    stream.storage = storage;
    let builder = NatsPublisher::builder(url).ensure_stream("EVENTS", stream).configure(|options| {
        options.overflow = OverflowPolicy::Wait;
        options.max_batch = batch;
        options.linger = linger;
    });
    let out = builder.attach(bus).unwrap();
    bus.publisher().publish(event(62)).unwrap();
    settle(bus, &out);
    out
}

pub(crate) fn settle(bus: &Broadcaster<String>, out: &NatsPublisher) {
    bus.flush(LONG).unwrap();
    assert!(out.flush(LONG), "{}", out.stats());
}

/// Publishes events on a bus. Returns the number of acknowledged events per second.
pub(crate) fn publish(
    url: &str,
    storage: &str,
    (batch, linger): (usize, Duration),
    events: u64,
    size: usize,
) -> f64 {
    delete(url);
    let bus = bus();
    let storage = if storage == "memory" { Storage::Memory } else { Storage::File };
    let out = out(url, &bus, storage, batch, linger);
    let publisher = bus.publisher();
    let event = event(size);
    let begin = Instant::now();
    for _ in 0..events {
        publisher.publish(event.clone()).unwrap();
    }
    settle(&bus, &out);
    let took = begin.elapsed();
    assert_eq!(out.stats().acknowledged, events + 1, "{}", out.stats());
    events as f64 / took.as_secs_f64()
}

/// Fills the stream with events.
pub(crate) fn fill(url: &str, batch: usize, events: u64, size: usize) {
    publish(url, "memory", (batch, Duration::from_millis(1)), events, size);
}

/// Reads the stream into a bus. Returns the number of events that each watcher received per second.
pub(crate) fn read(url: &str, events: u64, watchers: usize) -> f64 {
    let bus = bus();
    let begin = Instant::now();
    let readers: Vec<_> = (0..watchers)
        .map(|_| {
            let mut watcher = bus.watch_builder().queue_capacity(16_384).watch().unwrap();
            std::thread::spawn(move || {
                let mut seen = 0;
                while seen < events {
                    seen += watcher.recv_batch().unwrap().len() as u64;
                }
            })
        })
        .collect();
    let _reader = NatsSubscriber::builder(url).start(Start::All).attach(&bus.publisher()).unwrap();
    for reader in readers {
        reader.join().unwrap();
    }
    events as f64 / begin.elapsed().as_secs_f64()
}

/// Returns a function that publishes an event on one bus and returns the time until the event is
/// received on another bus.
pub(crate) fn lone(url: &str) -> impl FnMut() -> Duration {
    delete(url);
    let (here, there) = (bus(), bus());
    let out = out(url, &here, Storage::Memory, 256, Duration::ZERO);
    let reader = NatsSubscriber::builder(url).attach(&there.publisher()).unwrap();
    assert!(reader.ready(LONG));
    let mut watcher = there.watch().unwrap();
    let publisher = here.publisher();
    move || {
        let _running = (&here, &there, &out, &reader);
        let begin = Instant::now();
        publisher.try_publish(event(62)).unwrap();
        watcher.recv().unwrap();
        begin.elapsed()
    }
}
