//! eventcast, in each form in which it is received.

use std::sync::Arc;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, Watcher};

use crate::case::{Case, Check, Contender, Outcome, Payload, QUEUE, payload, run};

pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { name: "eventcast", manner: "lossless; parks; recv_batch", can: |_| true, round: batches },
    Contender {
        name: "eventcast, publish_batch of 64",
        manner: "lossless; parks; recv_batch",
        can: |_| true,
        round: published_in_batches,
    },
    Contender { name: "eventcast, recv_ref", manner: "lossless; parks", can: |_| true, round: references },
    Contender {
        name: "eventcast, recv (64-byte clone)",
        manner: "lossless; parks",
        can: |_| true,
        round: clones,
    },
    Contender { name: "eventcast, recv of Arc", manner: "lossless; parks", can: |_| true, round: counted },
    Contender { name: "eventcast, handler", manner: "lossless; parks", can: |_| true, round: handlers },
];

fn bus<T: Clone + Send + Sync + 'static>() -> Broadcaster<T> {
    let options = BusOptions::default().incoming_len(QUEUE).queue_len(QUEUE).overflow(OverflowPolicy::Wait);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// One event at a time.
fn publish<T: Clone + Send + Sync + 'static>(
    publisher: Publisher<T>,
    each: u64,
    event: impl Fn(Payload) -> T + Send,
) -> impl FnOnce(usize) + Send {
    move |id| {
        for number in 0..each {
            assert!(publisher.publish(event(payload(number, id))).is_ok());
        }
    }
}

fn round<R: FnOnce(Check) -> Check + Send>(
    case: &Case,
    events: u64,
    read: impl Fn(Watcher<Payload>) -> R,
) -> Outcome {
    let bus = bus();
    let each = events / case.publishers as u64;
    let readers = (0..case.watchers).map(|_| read(bus.watch().expect("the bus is open"))).collect();
    let publishers =
        (0..case.publishers).map(|_| publish(bus.publisher(), each, |payload| payload)).collect();
    run(case, each, publishers, readers, || bus.close())
}

fn read_batches(mut watcher: Watcher<Payload>) -> impl FnOnce(Check) -> Check + Send {
    move |mut check| {
        while let Ok(batch) = watcher.recv_batch() {
            batch.iter().for_each(|payload| check.see(payload));
        }
        check
    }
}

fn batches(case: &Case, events: u64) -> Outcome {
    round(case, events, read_batches)
}

fn published_in_batches(case: &Case, events: u64) -> Outcome {
    let bus = bus();
    let each = events / case.publishers as u64;
    let readers = (0..case.watchers).map(|_| read_batches(bus.watch().expect("the bus is open"))).collect();
    let publishers = (0..case.publishers)
        .map(|_| {
            let publisher = bus.publisher();
            move |id| {
                let mut number = 0;
                while number < each {
                    let end = each.min(number + 64);
                    let batch = (number..end).map(|number| payload(number, id)).collect();
                    assert!(publisher.publish_batch(batch).is_ok());
                    number = end;
                }
            }
        })
        .collect();
    run(case, each, publishers, readers, || bus.close())
}

fn references(case: &Case, events: u64) -> Outcome {
    round(case, events, |mut watcher| {
        move |mut check: Check| {
            while let Ok(delivery) = watcher.recv_ref() {
                if let Delivery::Event(payload) = delivery {
                    check.see(payload);
                }
            }
            check
        }
    })
}

fn clones(case: &Case, events: u64) -> Outcome {
    round(case, events, |mut watcher| {
        move |mut check: Check| {
            watcher.events().for_each(|payload| check.see(&payload));
            check
        }
    })
}

fn counted(case: &Case, events: u64) -> Outcome {
    let bus = bus::<Arc<Payload>>();
    let each = events / case.publishers as u64;
    let readers = (0..case.watchers)
        .map(|_| {
            let mut watcher = bus.watch().expect("the bus is open");
            move |mut check: Check| {
                watcher.events().for_each(|payload| check.see(&payload));
                check
            }
        })
        .collect();
    let publishers = (0..case.publishers).map(|_| publish(bus.publisher(), each, Arc::new)).collect();
    run(case, each, publishers, readers, || bus.close())
}

/// The handler runs where the other forms read, so that the number of threads is the same.
fn handlers(case: &Case, events: u64) -> Outcome {
    let bus = bus();
    let each = events / case.publishers as u64;
    let readers = (0..case.watchers)
        .map(|_| {
            let (tx, rx) = std::sync::mpsc::channel();
            let mut check = Some(tx);
            let mut seen = Check::new(case.publishers);
            let total = each * case.publishers as u64;
            let mut left = total;
            let runner = bus.watch_builder().runner(move |delivery: Delivery<&Payload>| {
                if let Delivery::Event(payload) = delivery {
                    seen.see(payload);
                    left -= 1;
                }
                if left == 0 {
                    if let Some(tx) = check.take() {
                        let seen = std::mem::replace(&mut seen, Check::new(0));
                        tx.send(seen).expect("the reader waits for it");
                    }
                }
            });
            let runner = runner.expect("the bus is open");
            move |_: Check| {
                runner.run();
                rx.recv().expect("every event was handled")
            }
        })
        .collect();
    let publishers =
        (0..case.publishers).map(|_| publish(bus.publisher(), each, |payload| payload)).collect();
    run(case, each, publishers, readers, || bus.close())
}
