//! All receive methods, on threads and in tasks.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;
use std::time::Duration;

use eventcast::error::{RecvTimeoutError, TryRecvError};
use eventcast::{Delivery, Watcher};
use futures::{FutureExt, StreamExt};
use test_support::Rng;

use super::event::{Ident, Item, Payload};
use super::executors::{block_on, cancelled, rest};
use super::met::{self, Met};

fn item(delivery: Delivery<&Payload>) -> Item {
    match delivery {
        Delivery::Event(event) => Item::Event(event.ident),
        Delivery::Lagged(count) => Item::Lagged(count),
    }
}

/// Logs the event whose `Clone` panicked in a receive, because that event counts as delivered.
/// Returns whether the watcher has more to receive.
fn received(result: thread::Result<bool>, log: &mut Vec<Item>) -> bool {
    match result {
        Ok(more) => more,
        Err(payload) => match payload.downcast::<Ident>() {
            Ok(ident) => {
                log.push(Item::Event(*ident));
                true
            }
            Err(payload) => resume_unwind(payload),
        },
    }
}

/// Receives once, with a random method. Returns `false` at the end.
pub(crate) fn receive(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
    let form = rng.below(8);
    let result = catch_unwind(AssertUnwindSafe(|| match form {
        0 => watcher.recv().map(|d| log.push(item(d.as_ref()))).is_ok(),
        1 => match watcher.try_recv() {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => {
                thread::yield_now();
                error == TryRecvError::Empty
            }
        },
        2 => match watcher.recv_timeout(Duration::from_micros(20)) {
            Ok(d) => {
                log.push(item(d.as_ref()));
                true
            }
            Err(error) => error == RecvTimeoutError::Timeout,
        },
        3 => watcher.recv_ref().map(|d| log.push(item(d))).is_ok(),
        4 => {
            let mut own = rng.fork();
            block_on(rng, receive_async(watcher, &mut own, log))
        }
        #[cfg(feature = "select")]
        5 => select(watcher, rng, log),
        _ => watcher
            .recv_batch()
            .map(|batch| {
                if batch.lagged > 0 {
                    log.push(Item::Lagged(batch.lagged));
                }
                log.extend(batch.iter().map(|event| Item::Event(event.ident)));
            })
            .is_ok(),
    }));
    received(result, log)
}

/// Waits for the watcher together with another channel, and then takes everything that is
/// available.
#[cfg(feature = "select")]
fn select(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
    let never = crossbeam_channel::never::<()>();
    let mut select = crossbeam_channel::Select::new();
    select.recv(&never);
    let index = watcher.add_to(&mut select);
    let ready = if rng.once_in(2) {
        Ok(select.ready())
    } else {
        select.ready_timeout(Duration::from_micros(rng.below(100)))
    };
    assert!(ready.is_err() || ready == Ok(index));
    met::add(Met::Selects, u64::from(ready.is_ok()));
    loop {
        match watcher.try_recv() {
            Ok(delivery) => log.push(item(delivery.as_ref())),
            Err(error) => return error == TryRecvError::Empty,
        }
    }
}

/// Logs a delivery. `None` represents a receive that was cancelled.
fn note(log: &mut Vec<Item>, delivery: Option<Delivery<&Payload>>) -> bool {
    match delivery {
        Some(delivery) => log.push(item(delivery)),
        None => met::add(Met::CancelledReceives, 1),
    }
    true
}

/// Receives once as a task, with a random method. Returns `false` at the end.
pub(crate) async fn receive_async(
    watcher: &mut Watcher<Payload>,
    rng: &mut Rng,
    log: &mut Vec<Item>,
) -> bool {
    let polls = rng.below(4);
    let form = rng.below(6);
    let receive = async {
        match form {
            0 | 1 => watcher.recv_async().await.is_ok_and(|d| note(log, Some(d.as_ref()))),
            2 => watcher.next().await.is_some_and(|d| note(log, Some(d.as_ref()))),
            3 => match cancelled(watcher.recv_async(), polls).await {
                Some(received) => received.is_ok_and(|d| note(log, Some(d.as_ref()))),
                None => note(log, None),
            },
            4 => match cancelled(watcher.next(), polls).await {
                Some(next) => next.is_some_and(|d| note(log, Some(d.as_ref()))),
                None => note(log, None),
            },
            _ => match watcher.try_recv() {
                Ok(d) => note(log, Some(d.as_ref())),
                Err(error) => {
                    rest().await;
                    error == TryRecvError::Empty
                }
            },
        }
    };
    let result = AssertUnwindSafe(receive).catch_unwind().await;
    received(result, log)
}
