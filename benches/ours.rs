//! The eventcast contenders, one for each way in which a reader can receive events.

use std::sync::{Arc, mpsc};

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, WatchBuilder, Watcher};

use crate::load::{Arrived, Check, Contender, Flood, Load, Payload, QUEUE, See, payload, run};

/// Returns all eventcast contenders. The first contender represents eventcast in comparisons.
#[must_use]
pub fn contenders() -> Vec<Contender<Flood>> {
    fn any(_: &Flood) -> bool {
        true
    }
    let one = |name, manner, round| Contender { name, manner, can: any, round };
    vec![
        one("eventcast", "lossless; parks; recv_batch", batches),
        one("eventcast, publish_batch of 64", "lossless; parks; recv_batch", |load| {
            published_in_batches(load, options(), 64)
        }),
        one("eventcast, inline", "lossless; parks; recv_batch", |load| {
            batches_with(load, options().inline(true))
        }),
        one("eventcast, inline, publish_batch of 64", "lossless; parks; recv_batch", |load| {
            published_in_batches(load, options().inline(true), 64)
        }),
        one("eventcast, recv_ref", "lossless; parks", references),
        one("eventcast, recv (64-byte clone)", "lossless; parks", clones),
        one("eventcast, recv of Arc", "lossless; parks", counted),
        one("eventcast, handler", "lossless; parks", handlers),
    ]
}

/// Returns lossless options with the same queue length as all other contenders.
pub fn options() -> BusOptions {
    BusOptions::default().incoming_capacity(QUEUE).queue_capacity(QUEUE).overflow(OverflowPolicy::Wait)
}

/// Creates a bus with [`options`].
#[must_use]
pub fn bus<T: Clone + Send + Sync + 'static>() -> Broadcaster<T> {
    bus_with(options())
}

/// Creates a bus with the given options.
#[must_use]
pub fn bus_with<T: Clone + Send + Sync + 'static>(options: BusOptions) -> Broadcaster<T> {
    Broadcaster::with_options(options).expect("the options are in range")
}

/// Returns a function that publishes one event at a time.
fn publish<T, L>(
    load: &L,
    publisher: Publisher<T>,
    event: impl Fn(Payload) -> T + Send,
) -> impl FnOnce(usize) + Send
where
    T: Clone + Send + Sync + 'static,
    L: Load,
{
    move |id| load.publish(id, |payload| assert!(publisher.publish(event(payload)).is_ok()))
}

fn round<L: Load, R: FnOnce(L::Seen) -> L::Seen + Send>(
    load: &L,
    bus: &Broadcaster<Payload>,
    watch: impl Fn(WatchBuilder<'_, Payload>) -> WatchBuilder<'_, Payload>,
    read: impl Fn(Watcher<Payload>) -> R,
) -> Arrived<L::Seen> {
    let watcher = || watch(bus.watch_builder()).watch().expect("the bus is open");
    let readers = (0..load.watchers()).map(|_| read(watcher())).collect();
    let publishers =
        (0..load.publishers()).map(|_| publish(load, bus.publisher(), |payload| payload)).collect();
    run(load, publishers, readers, || bus.close())
}

fn read_batches<S: See>(mut watcher: Watcher<Payload>) -> impl FnOnce(S) -> S + Send {
    move |mut seen| {
        while let Ok(batch) = watcher.recv_batch() {
            batch.iter().for_each(|payload| seen.see(payload));
        }
        seen
    }
}

/// Runs a round in which each reader uses `recv_batch`.
pub fn batches<L: Load>(load: &L) -> Arrived<L::Seen> {
    batches_with(load, options())
}

/// Runs the same round as [`batches`], but on a bus with the given options.
pub fn batches_with<L: Load>(load: &L, options: BusOptions) -> Arrived<L::Seen> {
    round(load, &bus_with(options), |builder| builder, read_batches)
}

/// Runs a round on a bus with the given options, in which each publisher uses `publish_batch` with
/// `size` events at a time, and each reader uses `recv_batch`.
#[must_use]
pub fn published_in_batches(load: &Flood, options: BusOptions, size: u64) -> Arrived<Check> {
    let bus = bus_with(options);
    let readers = (0..load.watchers).map(|_| read_batches(bus.watch().expect("the bus is open"))).collect();
    let publishers = (0..load.publishers)
        .map(|_| {
            let (publisher, each) = (bus.publisher(), load.each);
            move |id| {
                let mut number = 0;
                while number < each {
                    let end = each.min(number + size);
                    let batch = (number..end).map(|number| payload(number, id)).collect::<Vec<_>>();
                    assert!(publisher.publish_batch(batch).is_ok());
                    number = end;
                }
            }
        })
        .collect();
    run(load, publishers, readers, || bus.close())
}

/// Runs a round in which each reader uses `recv_ref`.
pub fn references<L: Load>(load: &L) -> Arrived<L::Seen> {
    references_with(load, options(), |builder| builder)
}

/// Runs the same round as [`references`], but on a bus with the given options and with watchers
/// that `watch` configures.
pub fn references_with<L: Load>(
    load: &L,
    options: BusOptions,
    watch: impl Fn(WatchBuilder<'_, Payload>) -> WatchBuilder<'_, Payload>,
) -> Arrived<L::Seen> {
    round(load, &bus_with(options), watch, |mut watcher| {
        move |mut seen: L::Seen| {
            while let Ok(delivery) = watcher.recv_ref() {
                if let Delivery::Event(payload) = delivery {
                    seen.see(payload);
                }
            }
            seen
        }
    })
}

/// Runs a round in which each reader uses `recv`, which clones each event.
pub fn clones<L: Load>(load: &L) -> Arrived<L::Seen> {
    round(
        load,
        &bus(),
        |builder| builder,
        |mut watcher| {
            move |mut seen: L::Seen| {
                watcher.events().for_each(|payload| seen.see(&payload));
                seen
            }
        },
    )
}

/// Runs a round in which each event is wrapped in an `Arc`, and each reader uses `recv`.
pub fn counted<L: Load>(load: &L) -> Arrived<L::Seen> {
    let bus = bus::<Arc<Payload>>();
    let readers = (0..load.watchers())
        .map(|_| {
            let mut watcher = bus.watch().expect("the bus is open");
            move |mut seen: L::Seen| {
                watcher.events().for_each(|payload| seen.see(&payload));
                seen
            }
        })
        .collect();
    let publishers = (0..load.publishers()).map(|_| publish(load, bus.publisher(), Arc::new)).collect();
    run(load, publishers, readers, || bus.close())
}

/// Runs a round with handlers. Each handler runs on the thread that the other contenders use for
/// reading, so the number of threads is the same.
pub fn handlers<L: Load>(load: &L) -> Arrived<L::Seen> {
    let bus = bus();
    let readers = (0..load.watchers())
        .map(|_| {
            let (mut handler, seen) = until_all_came(load);
            let runner = bus.watch_builder().runner(move |delivery: Delivery<&Payload>| {
                if let Delivery::Event(payload) = delivery {
                    handler(payload);
                }
            });
            let runner = runner.expect("the bus is open");
            move |_: L::Seen| {
                runner.run();
                seen.recv().expect("every event was handled")
            }
        })
        .collect();
    let publishers =
        (0..load.publishers()).map(|_| publish(load, bus.publisher(), |payload| payload)).collect();
    run(load, publishers, readers, || bus.close())
}

/// Returns a function that inspects each event, for contenders that call a handler. Also returns a
/// channel that receives the function's result after the last event.
pub(crate) fn until_all_came<L: Load>(
    load: &L,
) -> (impl FnMut(&Payload) + Send + 'static, mpsc::Receiver<L::Seen>) {
    let (tx, rx) = mpsc::channel();
    let mut left = load.total();
    let mut seen = Some((load.seen(), tx));
    let see = move |payload: &Payload| {
        if let Some((seen, _)) = &mut seen {
            seen.see(payload);
        }
        left -= 1;
        if left == 0 {
            if let Some((seen, tx)) = seen.take() {
                tx.send(seen).expect("the reader waits for it");
            }
        }
    };
    (see, rx)
}
