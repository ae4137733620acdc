//! Measures a single thread that publishes each event and then receives it from every watcher
//! without waiting.
//!
//! A bus with a dispatcher is not among the contenders, because an event may not be in the queues
//! yet when the publish call returns.

use std::time::Instant;

use cpu_time::ThreadTime;
use eventcast::Delivery;

use eventcast_benches::load::{Arrived, Check, Contender, Flood, Load, Payload, QUEUE, QUEUE_POWER, See};
use eventcast_benches::ours;

pub(crate) fn contenders() -> Vec<Contender<Flood>> {
    let one = |name, manner, round| Contender { name, manner, can: |_| true, round };
    vec![
        one("eventcast, inline", "lossless", inline),
        one("crossbeam channel per watcher", "lossless", crossbeam),
        one("tokio broadcast", "loses the oldest", tokio_broadcast),
    ]
}

/// Publishes each event with `send` and then receives it from each of the readers with `receive`.
fn round<R>(
    load: &Flood,
    mut readers: Vec<R>,
    mut send: impl FnMut(Payload),
    mut receive: impl FnMut(&mut R) -> Option<Payload>,
) -> Arrived<Check> {
    assert_eq!((load.publishers, load.watchers), (1, readers.len()));
    let mut seen: Vec<_> = readers.iter().map(|_| load.seen()).collect();
    let (start, before) = (Instant::now(), ThreadTime::now());
    load.publish(0, |payload| {
        send(payload);
        for (reader, seen) in readers.iter_mut().zip(&mut seen) {
            if let Some(payload) = receive(reader) {
                seen.see(&payload);
            }
        }
    });
    Arrived { elapsed: start.elapsed(), publishing: Some(before.elapsed()), switches: None, seen }
}

fn inline(load: &Flood) -> Arrived<Check> {
    let bus = ours::bus_with(ours::options().inline(true));
    let publisher = bus.publisher();
    let watchers = (0..load.watchers).map(|_| bus.watch().expect("the bus is open")).collect();
    round(
        load,
        watchers,
        |payload| assert!(publisher.try_publish(payload).is_ok()),
        |watcher| watcher.try_recv().ok().and_then(Delivery::event),
    )
}

fn crossbeam(load: &Flood) -> Arrived<Check> {
    let (senders, readers): (Vec<_>, Vec<_>) =
        (0..load.watchers).map(|_| crossbeam_channel::bounded::<Payload>(QUEUE)).unzip();
    let send = |payload| assert!(senders.iter().all(|sender| sender.try_send(payload).is_ok()));
    round(load, readers, send, |rx| rx.try_recv().ok())
}

fn tokio_broadcast(load: &Flood) -> Arrived<Check> {
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let readers = (0..load.watchers).map(|_| tx.subscribe()).collect();
    round(load, readers, |payload| assert!(tx.send(payload).is_ok()), |rx| rx.try_recv().ok())
}
