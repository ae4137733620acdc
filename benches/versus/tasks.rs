//! Contenders whose publisher and readers are tasks on a tokio runtime instead of threads. All
//! tasks wait asynchronously.

use std::time::Instant;

use eventcast::{BusOptions, Delivery};
use tokio::runtime::{Builder, Runtime};

use eventcast_benches::load::{
    Arrived, Check, Contender, Flood, Load, Payload, QUEUE, QUEUE_POWER, See, payload,
};
use eventcast_benches::ours::{bus_with, options};

pub(crate) fn contenders() -> Vec<Contender<Flood>> {
    let one = |name, manner, round| Contender { name, manner, can: |_| true, round };
    vec![
        one("eventcast", "lossless", |load| ours(load, options())),
        one("eventcast, inline", "lossless", |load| ours(load, options().inline(true))),
        one("tokio broadcast", "loses the oldest", tokio_broadcast),
        one("async-broadcast", "lossless", async_broadcast),
    ]
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).build().expect("the system gives threads")
}

/// Runs the publisher and the readers as tasks, and measures the time from the first event to the
/// last event.
fn round<R, P>(load: &Flood, readers: Vec<R>, publish: P) -> Arrived<Check>
where
    R: Future<Output = Check> + Send + 'static,
    P: Future<Output = ()> + Send + 'static,
{
    assert_eq!((load.publishers, load.watchers), (1, readers.len()));
    runtime().block_on(async {
        let start = Instant::now();
        let readers: Vec<_> = readers.into_iter().map(tokio::spawn).collect();
        tokio::spawn(publish).await.expect("the publisher panicked");
        let mut seen = Vec::with_capacity(readers.len());
        for reader in readers {
            seen.push(reader.await.expect("a reader panicked"));
        }
        Arrived { elapsed: start.elapsed(), publishing: None, switches: None, seen }
    })
}

fn ours(load: &Flood, options: BusOptions) -> Arrived<Check> {
    let events = load.each;
    let bus = bus_with::<Payload>(options);
    let readers = (0..load.watchers)
        .map(|_| {
            let mut watcher = bus.watch().expect("the bus is open");
            let mut seen = load.seen();
            async move {
                while let Ok(delivery) = watcher.recv_async().await {
                    if let Delivery::Event(payload) = delivery {
                        seen.see(&payload);
                    }
                }
                seen
            }
        })
        .collect();
    let publisher = bus.publisher();
    round(load, readers, async move {
        for number in 0..events {
            assert!(publisher.publish_async(payload(number, 0)).await.is_ok());
        }
        bus.close();
    })
}

fn tokio_broadcast(load: &Flood) -> Arrived<Check> {
    let events = load.each;
    use tokio::sync::broadcast::error::RecvError;
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let readers = (0..load.watchers)
        .map(|_| {
            let mut rx = tx.subscribe();
            let mut seen = load.seen();
            async move {
                loop {
                    match rx.recv().await {
                        Ok(payload) => seen.see(&payload),
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return seen,
                    }
                }
            }
        })
        .collect();
    round(load, readers, async move {
        for number in 0..events {
            assert!(tx.send(payload(number, 0)).is_ok());
        }
    })
}

fn async_broadcast(load: &Flood) -> Arrived<Check> {
    let events = load.each;
    let (tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
    let readers = (0..load.watchers)
        .map(|_| {
            let mut rx = rx.clone();
            let mut seen = load.seen();
            async move {
                while let Ok(payload) = rx.recv().await {
                    seen.see(&payload);
                }
                seen
            }
        })
        .collect();
    drop(rx);
    round(load, readers, async move {
        for number in 0..events {
            assert!(tx.broadcast(payload(number, 0)).await.is_ok());
        }
    })
}
