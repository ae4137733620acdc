//! What else there is, each used as its documentation has it.

use std::thread;
use std::time::Duration;

use disruptor::wait_strategies::WaitStrategy;
use disruptor::{BusySpin, BusySpinWithSpinLoopHint, Producer, Sleep};

use crate::case::{Case, Check, Contender, Outcome, Payload, QUEUE, QUEUE_POWER, payload, run};

fn any(_: &Case) -> bool {
    true
}

fn one_publisher(case: &Case) -> bool {
    case.publishers == 1
}

fn one_to_one(case: &Case) -> bool {
    case.publishers == 1 && case.watchers == 1
}

pub(crate) const CONTENDERS: &[Contender] = &[
    Contender {
        name: "crossbeam channel, raw",
        manner: "lossless; parks; the ceiling of one queue",
        can: one_to_one,
        round: crossbeam,
    },
    Contender {
        name: "crossbeam channel per watcher",
        manner: "lossless; parks",
        can: |case| !one_to_one(case),
        round: crossbeam,
    },
    Contender { name: "flume channel per watcher", manner: "lossless; parks", can: any, round: flume },
    Contender { name: "kanal channel per watcher", manner: "lossless; parks", can: any, round: kanal },
    Contender { name: "bus", manner: "lossless; wakes by the clock", can: one_publisher, round: bus },
    Contender {
        name: "tokio broadcast",
        manner: "loses the oldest; parks",
        can: any,
        round: tokio_broadcast,
    },
    Contender { name: "async-broadcast", manner: "lossless; parks", can: any, round: async_broadcast },
    Contender {
        name: "disruptor, busy spin",
        manner: "lossless; burns a core each",
        can: any,
        round: |case, events| disruptor(case, events, BusySpin),
    },
    Contender {
        name: "disruptor, spin-loop hint",
        manner: "lossless; burns a core each",
        can: any,
        round: |case, events| disruptor(case, events, BusySpinWithSpinLoopHint),
    },
    Contender {
        name: "disruptor, sleep of 50 us",
        manner: "lossless; wakes by the clock",
        can: any,
        round: |case, events| disruptor(case, events, Sleep::new(Duration::from_micros(50))),
    },
    Contender {
        name: "photon-ring bounded, yielding",
        manner: "lossless; burns a core each; plain words only",
        can: one_publisher,
        round: photon_bounded,
    },
    Contender {
        name: "photon-ring event channel, yielding",
        manner: "lossless; burns a core each",
        can: one_publisher,
        round: photon_events,
    },
];

/// A channel for each watcher, one message per event and watcher: what one writes by hand.
macro_rules! channel_per_watcher {
    ($name:ident, $bounded:path, $read:expr) => {
        fn $name(case: &Case, events: u64) -> Outcome {
            let each = events / case.publishers as u64;
            let (senders, readers): (Vec<_>, Vec<_>) = (0..case.watchers)
                .map(|_| {
                    let (tx, rx) = $bounded(QUEUE);
                    let read = $read;
                    (tx, move |check: Check| read(rx, check))
                })
                .unzip();
            let publishers = (0..case.publishers)
                .map(|_| {
                    let senders = senders.clone();
                    move |id: usize| {
                        for number in 0..each {
                            for sender in &senders {
                                assert!(sender.send(payload(number, id)).is_ok());
                            }
                        }
                    }
                })
                .collect();
            run(case, each, publishers, readers, || drop(senders))
        }
    };
}

channel_per_watcher!(
    crossbeam,
    crossbeam_channel::bounded::<Payload>,
    |rx: crossbeam_channel::Receiver<Payload>, mut check: Check| {
        rx.iter().for_each(|payload| check.see(&payload));
        check
    }
);
channel_per_watcher!(flume, flume::bounded::<Payload>, |rx: flume::Receiver<Payload>, mut check: Check| {
    rx.iter().for_each(|payload| check.see(&payload));
    check
});
channel_per_watcher!(kanal, kanal::bounded::<Payload>, |rx: kanal::Receiver<Payload>, mut check: Check| {
    while let Ok(payload) = rx.recv() {
        check.see(&payload);
    }
    check
});

fn bus(case: &Case, events: u64) -> Outcome {
    let mut bus = bus::Bus::<Payload>::new(QUEUE);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut reader = bus.add_rx();
            move |mut check: Check| {
                reader.iter().for_each(|payload| check.see(&payload));
                check
            }
        })
        .collect();
    let publisher = move |id: usize| {
        for number in 0..events {
            bus.broadcast(payload(number, id));
        }
    };
    run(case, events, vec![publisher], readers, || ())
}

fn tokio_broadcast(case: &Case, events: u64) -> Outcome {
    use tokio::sync::broadcast::error::RecvError;
    let each = events / case.publishers as u64;
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut rx = tx.subscribe();
            move |mut check: Check| {
                loop {
                    match rx.blocking_recv() {
                        Ok(payload) => check.see(&payload),
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return check,
                    }
                }
            }
        })
        .collect();
    let publishers = (0..case.publishers)
        .map(|_| {
            let tx = tx.clone();
            move |id: usize| {
                for number in 0..each {
                    assert!(tx.send(payload(number, id)).is_ok());
                }
            }
        })
        .collect();
    run(case, each, publishers, readers, || drop(tx))
}

fn async_broadcast(case: &Case, events: u64) -> Outcome {
    let each = events / case.publishers as u64;
    let (tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut rx = rx.clone();
            move |mut check: Check| {
                while let Ok(payload) = rx.recv_blocking() {
                    check.see(&payload);
                }
                check
            }
        })
        .collect();
    drop(rx);
    let publishers = (0..case.publishers)
        .map(|_| {
            let tx = tx.clone();
            move |id: usize| {
                for number in 0..each {
                    assert!(tx.broadcast_blocking(payload(number, id)).is_ok());
                }
            }
        })
        .collect();
    run(case, each, publishers, readers, || drop(tx))
}

/// Its consumers are threads of its own, so the readers here only wait for what those have seen.
fn disruptor<W: WaitStrategy + 'static>(case: &Case, events: u64, wait: W) -> Outcome {
    let each = events / case.publishers as u64;
    let total = each * case.publishers as u64;
    let (handlers, readers): (Vec<_>, Vec<_>) = (0..case.watchers)
        .map(|_| {
            let (tx, rx) = std::sync::mpsc::channel();
            let mut seen = Some((Check::new(case.publishers), tx));
            let mut left = total;
            let handler = move |payload: &Payload, _: disruptor::Sequence, _: bool| {
                left -= 1;
                if let Some((check, _)) = &mut seen {
                    check.see(payload);
                }
                if left == 0 {
                    if let Some((check, tx)) = seen.take() {
                        tx.send(check).expect("the reader waits for it");
                    }
                }
            };
            (handler, move |_: Check| rx.recv().expect("every event was handled"))
        })
        .unzip();
    let mut handlers = handlers.into_iter();
    let mut next = || handlers.next().expect("one for each watcher");
    /// The builder's type changes with the first and with the second handler.
    macro_rules! with_handlers {
        ($builder:expr, $use_producer:expr) => {{
            let builder = $builder.handle_events_with(next());
            if case.watchers == 1 {
                $use_producer(Box::new(builder.build()))
            } else {
                let mut builder = builder.handle_events_with(next());
                for _ in 2..case.watchers {
                    builder = builder.handle_events_with(next());
                }
                $use_producer(Box::new(builder.build()))
            }
        }};
    }
    if case.publishers == 1 {
        let builder = disruptor::build_single_producer(QUEUE_POWER, || [0; 8], wait);
        return with_handlers!(builder, |producer| one_producer(case, each, producer, readers));
    }
    let builder = disruptor::build_multi_producer(QUEUE_POWER, || [0; 8], wait);
    with_handlers!(builder, |producer| many_producers(case, each, producer, readers))
}

fn one_producer<R: FnOnce(Check) -> Check + Send>(
    case: &Case,
    each: u64,
    mut producer: Box<impl Producer<Payload> + Send>,
    readers: Vec<R>,
) -> Outcome {
    let publisher = move |id: usize| {
        for number in 0..each {
            producer.publish(|slot| *slot = payload(number, id));
        }
    };
    run(case, each, vec![publisher], readers, || ())
}

fn many_producers<P: Producer<Payload> + Clone + Send, R: FnOnce(Check) -> Check + Send>(
    case: &Case,
    each: u64,
    producer: Box<P>,
    readers: Vec<R>,
) -> Outcome {
    let publishers = (0..case.publishers)
        .map(|_| {
            let mut producer = producer.clone();
            move |id: usize| {
                for number in 0..each {
                    producer.publish(|slot| *slot = payload(number, id));
                }
            }
        })
        .collect();
    run(case, each, publishers, readers, || drop(producer))
}

/// Its readers never end by themselves: each stops after as many as there are. They yield when there is nothing, because
/// its own waits spin, which starves everybody where there are fewer cores than threads.
fn photon_bounded(case: &Case, events: u64) -> Outcome {
    let (mut publisher, subscribable) = photon_ring::channel_bounded::<Payload>(QUEUE_POWER, 0);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut subscriber = subscribable.subscribe();
            move |mut check: Check| {
                let mut left = events;
                while left > 0 {
                    match subscriber.try_recv() {
                        Ok(payload) => {
                            check.see(&payload);
                            left -= 1;
                        }
                        Err(_) => thread::yield_now(),
                    }
                }
                check
            }
        })
        .collect();
    let publish = move |id: usize| {
        for number in 0..events {
            let payload = payload(number, id);
            while publisher.try_publish(payload).is_err() {
                thread::yield_now();
            }
        }
    };
    run(case, events, vec![publish], readers, || ())
}

fn photon_events(case: &Case, events: u64) -> Outcome {
    let (mut publisher, subscribable) = photon_ring::event_channel::<Payload>(QUEUE_POWER, || [0; 8]);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut subscriber = subscribable.subscribe();
            move |mut check: Check| {
                let mut left = events;
                while left > 0 {
                    match subscriber.process(|payload| check.see(payload)) {
                        Some(()) => left -= 1,
                        None => thread::yield_now(),
                    }
                }
                check
            }
        })
        .collect();
    let publish = move |id: usize| {
        for number in 0..events {
            while !publisher.try_publish(|slot| *slot = payload(number, id)) {
                thread::yield_now();
            }
        }
    };
    run(case, events, vec![publish], readers, || ())
}
