//! Tasks on a tokio runtime instead of threads: everybody waits by `await`.

use std::time::Instant;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};
use tokio::runtime::{Builder, Runtime};

use crate::case::{Case, Check, Contender, Outcome, Payload, QUEUE, QUEUE_POWER, payload};

pub(crate) const CASES: &[Case] = &[
    Case { name: "1 to 1, tasks", publishers: 1, watchers: 1 },
    Case { name: "1 to 16, tasks", publishers: 1, watchers: 16 },
];

pub(crate) const CONTENDERS: &[Contender] = &[
    Contender { name: "eventcast", manner: "lossless", can: |_| true, round: ours },
    Contender { name: "tokio broadcast", manner: "loses the oldest", can: |_| true, round: tokio_broadcast },
    Contender { name: "async-broadcast", manner: "lossless", can: |_| true, round: async_broadcast },
];

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).build().expect("the system gives threads")
}

/// Publishing and reading, all as tasks, from the first event to the last.
fn round<R, P>(case: &Case, events: u64, readers: Vec<R>, publish: P) -> Outcome
where
    R: Future<Output = Check> + Send + 'static,
    P: Future<Output = ()> + Send + 'static,
{
    assert_eq!((case.publishers, case.watchers), (1, readers.len()));
    runtime().block_on(async {
        let start = Instant::now();
        let readers: Vec<_> = readers.into_iter().map(tokio::spawn).collect();
        tokio::spawn(publish).await.expect("the publisher panicked");
        let mut outcome = Outcome::default();
        for reader in readers {
            let (delivered, lost) = reader.await.expect("a reader panicked").finish(events);
            assert_eq!(delivered + lost, events);
            outcome.delivered += delivered;
            outcome.lost += lost;
        }
        outcome.elapsed = start.elapsed();
        outcome
    })
}

fn ours(case: &Case, events: u64) -> Outcome {
    let options = BusOptions::default().incoming_len(QUEUE).queue_len(QUEUE).overflow(OverflowPolicy::Wait);
    let bus = Broadcaster::<Payload>::with_options(options).expect("the options are in range");
    let readers = (0..case.watchers)
        .map(|_| {
            let mut watcher = bus.watch().expect("the bus is open");
            async move {
                let mut check = Check::new(1);
                while let Ok(delivery) = watcher.recv_async().await {
                    if let Delivery::Event(payload) = delivery {
                        check.see(&payload);
                    }
                }
                check
            }
        })
        .collect();
    let publisher = bus.publisher();
    round(case, events, readers, async move {
        for number in 0..events {
            assert!(publisher.publish_async(payload(number, 0)).await.is_ok());
        }
        bus.close();
    })
}

fn tokio_broadcast(case: &Case, events: u64) -> Outcome {
    use tokio::sync::broadcast::error::RecvError;
    let (tx, _) = tokio::sync::broadcast::channel::<Payload>(QUEUE_POWER);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut rx = tx.subscribe();
            async move {
                let mut check = Check::new(1);
                loop {
                    match rx.recv().await {
                        Ok(payload) => check.see(&payload),
                        Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => return check,
                    }
                }
            }
        })
        .collect();
    round(case, events, readers, async move {
        for number in 0..events {
            assert!(tx.send(payload(number, 0)).is_ok());
        }
    })
}

fn async_broadcast(case: &Case, events: u64) -> Outcome {
    let (tx, rx) = async_broadcast::broadcast::<Payload>(QUEUE);
    let readers = (0..case.watchers)
        .map(|_| {
            let mut rx = rx.clone();
            async move {
                let mut check = Check::new(1);
                while let Ok(payload) = rx.recv().await {
                    check.see(&payload);
                }
                check
            }
        })
        .collect();
    drop(rx);
    round(case, events, readers, async move {
        for number in 0..events {
            assert!(tx.broadcast(payload(number, 0)).await.is_ok());
        }
    })
}
