//! The rival crates, each used as its documentation recommends.

pub mod rings;

use std::thread;
use std::time::Duration;

use disruptor::{BusySpin, BusySpinWithSpinLoopHint, Sleep};

use crate::load::{Arrived, Contender, Flood, Load, Payload, QUEUE, QUEUE_POWER, See, run};
use rings::{FLOWS, codas_flow, codas_stage, disruptor, photon_bounded, photon_events, rtrb};

/// Returns all rivals, in the order in which `versus` shows them.
#[must_use]
pub fn contenders() -> Vec<Contender<Flood>> {
    fn any(_: &Flood) -> bool {
        true
    }
    fn one_publisher(load: &Flood) -> bool {
        load.publishers == 1
    }
    fn one_to_one(load: &Flood) -> bool {
        load.publishers == 1 && load.watchers == 1
    }
    // With more publishers than cores, a publisher spins until its predecessor is scheduled again:
    // on two cores, a round of `4 to 1` had not ended after 14 minutes.
    fn of_a_flow(load: &Flood) -> bool {
        load.publishers == 1 && FLOWS.contains(&load.watchers)
    }
    let one = |name, manner, can, round| Contender { name, manner, can, round };
    vec![
        one("crossbeam channel, raw", "lossless; parks; the ceiling of one queue", one_to_one, crossbeam),
        one("crossbeam channel per watcher", "lossless; parks", |load| !one_to_one(load), crossbeam),
        one("flume channel per watcher", "lossless; parks", any, flume),
        one("kanal channel per watcher", "lossless; parks", any, kanal),
        one("crossfire channel per watcher", "lossless; parks", any, crossfire),
        one("rtrb ring per watcher, yielding", "lossless; burns a core each", one_publisher, rtrb),
        one("bus", "lossless; wakes by the clock", one_publisher, bus),
        one("tokio broadcast", "loses the oldest; parks", any, tokio_broadcast),
        one("async-broadcast", "lossless; parks", any, async_broadcast),
        one("postage broadcast", "lossless; parks", any, postage_broadcast),
        one("disruptor, busy spin", "lossless; burns a core each", any, |load| disruptor(load, BusySpin)),
        one("disruptor, spin-loop hint", "lossless; burns a core each", any, |load| {
            disruptor(load, BusySpinWithSpinLoopHint)
        }),
        one("disruptor, sleep of 50 us", "lossless; wakes by the clock", any, |load| {
            disruptor(load, Sleep::new(Duration::from_micros(50)))
        }),
        one(
            "photon-ring bounded, yielding",
            "lossless; burns a core each; plain words only",
            one_publisher,
            photon_bounded,
        ),
        one(
            "photon-ring event channel, yielding",
            "lossless; burns a core each",
            one_publisher,
            photon_events,
        ),
        one("codas-flow, yielding", "lossless; burns a core each", of_a_flow, codas_flow),
        one("codas-flow stage, yielding", "lossless; burns a core each", of_a_flow, codas_stage),
    ]
}

/// Defines a contender with one channel per watcher and one message per event and watcher. A
/// program without a bus would use such channels.
macro_rules! channel_per_watcher {
    ($name:ident, $bounded:path, $read:expr) => {
        #[doc = concat!("A channel of `", stringify!($name), "` for each watcher, one message per event and watcher.")]
        pub fn $name<L: Load>(load: &L) -> Arrived<L::Seen> {
            let (senders, readers): (Vec<_>, Vec<_>) = (0..load.watchers())
                .map(|_| {
                    let (tx, rx) = $bounded(QUEUE);
                    let read = $read;
                    (tx, move |seen: L::Seen| read(rx, seen))
                })
                .unzip();
            let publishers = (0..load.publishers())
                .map(|_| {
                    let senders = senders.clone();
                    move |id: usize| {
                        load.publish(id, |payload| {
                            for sender in &senders {
                                assert!(sender.send(payload).is_ok());
                            }
                        });
                    }
                })
                .collect();
            run(load, publishers, readers, || drop(senders))
        }
    };
}

channel_per_watcher!(
    crossbeam,
    crossbeam_channel::bounded::<Payload>,
    |rx: crossbeam_channel::Receiver<Payload>, mut seen: L::Seen| {
        rx.iter().for_each(|payload| seen.see(&payload));
        seen
    }
);
channel_per_watcher!(flume, flume::bounded::<Payload>, |rx: flume::Receiver<Payload>, mut seen: L::Seen| {
    rx.iter().for_each(|payload| seen.see(&payload));
    seen
});
channel_per_watcher!(kanal, kanal::bounded::<Payload>, |rx: kanal::Receiver<Payload>, mut seen: L::Seen| {
    while let Ok(payload) = rx.recv() {
        seen.see(&payload);
    }
    seen
});

channel_per_watcher!(
    crossfire_mpsc,
    crossfire::mpsc::bounded_blocking::<Payload>,
    |rx: crossfire::Rx<crossfire::mpsc::Array<Payload>>, mut seen: L::Seen| {
        while let Ok(payload) = rx.recv() {
            seen.see(&payload);
        }
        seen
    }
);

/// Runs a round with a `crossfire` channel for each watcher. With one publisher, the channels are
/// single-producer channels.
pub fn crossfire<L: Load>(load: &L) -> Arrived<L::Seen> {
    if load.publishers() > 1 {
        return crossfire_mpsc(load);
    }
    let (senders, readers): (Vec<_>, Vec<_>) = (0..load.watchers())
        .map(|_| {
            let (tx, rx) = crossfire::spsc::bounded_blocking::<Payload>(QUEUE);
            let reader = move |mut seen: L::Seen| {
                while let Ok(payload) = rx.recv() {
                    seen.see(&payload);
                }
                seen
            };
            (tx, reader)
        })
        .unzip();
    let publisher = move |id: usize| {
        load.publish(id, |payload| {
            for sender in &senders {
                assert!(sender.send(payload).is_ok());
            }
        });
    };
    run(load, vec![publisher], readers, || ())
}

/// Runs a round with two raw crossbeam channels, and a thread between them that only forwards
/// events. Any bus with a dispatcher has to do at least this much work.
pub fn two_hops<L: Load>(load: &L) -> Arrived<L::Seen> {
    assert_eq!((load.publishers(), load.watchers()), (1, 1));
    let (first, between) = crossbeam_channel::bounded::<Payload>(QUEUE);
    let (second, rx) = crossbeam_channel::bounded::<Payload>(QUEUE);
    let hop = thread::spawn(move || between.iter().all(|payload| second.send(payload).is_ok()));
    let reader = move |mut seen: L::Seen| {
        rx.iter().for_each(|payload| seen.see(&payload));
        seen
    };
    let publisher = move |id: usize| load.publish(id, |payload| assert!(first.send(payload).is_ok()));
    let arrived = run(load, vec![publisher], vec![reader], || ());
    assert!(hop.join().expect("it only passes events on"), "the reader reads to the end");
    arrived
}

/// Runs a round with the `bus` crate, which supports one publisher.
pub fn bus<L: Load>(load: &L) -> Arrived<L::Seen> {
    let mut bus = bus::Bus::<Payload>::new(QUEUE);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut reader = bus.add_rx();
            move |mut seen: L::Seen| {
                reader.iter().for_each(|payload| seen.see(&payload));
                seen
            }
        })
        .collect();
    let publisher = move |id: usize| load.publish(id, |payload| bus.broadcast(payload));
    run(load, vec![publisher], readers, || ())
}

/// Runs a round with `tokio::sync::broadcast` between threads, read by `blocking_recv`.
pub fn tokio_broadcast<L: Load>(load: &L) -> Arrived<L::Seen> {
    use tokio::sync::broadcast::error::RecvError;
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut rx = tx.subscribe();
            move |mut seen: L::Seen| {
                loop {
                    match rx.blocking_recv() {
                        Ok(payload) => seen.see(&payload),
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return seen,
                    }
                }
            }
        })
        .collect();
    let publishers = (0..load.publishers())
        .map(|_| {
            let tx = tx.clone();
            move |id: usize| load.publish(id, |payload| assert!(tx.send(payload).is_ok()))
        })
        .collect();
    run(load, publishers, readers, || drop(tx))
}

/// Runs a round with `async-broadcast` between threads, using its blocking calls.
pub fn async_broadcast<L: Load>(load: &L) -> Arrived<L::Seen> {
    let (tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut rx = rx.clone();
            move |mut seen: L::Seen| {
                while let Ok(payload) = rx.recv_blocking() {
                    seen.see(&payload);
                }
                seen
            }
        })
        .collect();
    drop(rx);
    let publishers = (0..load.publishers())
        .map(|_| {
            let tx = tx.clone();
            move |id: usize| load.publish(id, |payload| assert!(tx.broadcast_blocking(payload).is_ok()))
        })
        .collect();
    run(load, publishers, readers, || drop(tx))
}

/// Runs a round with `postage::broadcast` between threads, using its blocking calls.
pub fn postage_broadcast<L: Load>(load: &L) -> Arrived<L::Seen> {
    use postage::prelude::{Sink, Stream};
    let (tx, rx) = postage::broadcast::channel::<Payload>(QUEUE);
    let readers = (0..load.watchers())
        .map(|_| {
            let mut rx = tx.subscribe();
            move |mut seen: L::Seen| {
                while let Some(payload) = rx.blocking_recv() {
                    seen.see(&payload);
                }
                seen
            }
        })
        .collect();
    drop(rx);
    let publishers = (0..load.publishers())
        .map(|_| {
            let mut tx = tx.clone();
            move |id: usize| load.publish(id, |payload| assert!(tx.blocking_send(payload).is_ok()))
        })
        .collect();
    run(load, publishers, readers, || drop(tx))
}
