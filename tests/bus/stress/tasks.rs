//! The part of a round that runs as tasks of tokio and smol, and the futures that are dropped
//! before they are ready.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;
use std::task::Poll;

use eventcast::error::TryRecvError;
use eventcast::{Delivery, Publisher, Watcher};
use futures::{FutureExt, StreamExt};
use test_support::Rng;
use tokio::runtime::{Builder, Runtime};

use super::event::{Item, Payload};
use super::met::{self, Met};
use super::plan::{Made, Published, Read};
use super::publish::{Round, flush_timeout, note_batch, note_flush, note_one, watch_in_between};
use super::read::{item, leave, patience, received};

fn tokio() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Builder::new_multi_thread().worker_threads(2).build().unwrap())
}

/// Starts a task on one of the two runtimes.
pub(crate) fn spawn(rng: &mut Rng, task: impl Future<Output = ()> + Send + 'static) {
    if rng.once_in(2) {
        met::add(Met::TokioTasks, 1);
        drop(tokio().spawn(task));
    } else {
        met::add(Met::SmolTasks, 1);
        smol::spawn(task).detach();
    }
}

/// Waits for a future on this thread, with one of the three executors.
pub(crate) fn block_on<F: Future>(rng: &mut Rng, future: F) -> F::Output {
    match rng.below(3) {
        0 => futures::executor::block_on(future),
        1 => smol::block_on(future),
        _ => tokio().block_on(future),
    }
}

/// Lets other tasks run.
async fn rest() {
    let mut rested = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut rested, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Polls a future up to `polls` times and then drops it. Returns `None` if the future was not
/// ready.
pub(crate) async fn cancelled<F: Future>(future: F, polls: u64) -> Option<F::Output> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let Poll::Ready(output) = futures::poll!(future.as_mut()) {
            return Some(output);
        }
        rest().await;
    }
    None
}

/// Notes a delivery. `None` stands for a receive that was cancelled.
fn note(log: &mut Vec<Item>, delivery: Option<Delivery<&Payload>>) -> bool {
    match delivery {
        Some(delivery) => log.push(item(delivery)),
        None => met::add(Met::CancelledReceives, 1),
    }
    true
}

/// Receives once as a task, in a random form. Returns `false` at the end.
pub(crate) async fn receive(watcher: &mut Watcher<Payload>, rng: &mut Rng, log: &mut Vec<Item>) -> bool {
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

pub(crate) async fn read(mut watcher: Watcher<Payload>, made: Made, mut rng: Rng, stays: bool) -> Read {
    let leaves_after = patience(&mut rng, stays);
    let mut log = Vec::new();
    let mut more = true;
    while more && (log.len() as u64) < leaves_after {
        more = receive(&mut watcher, &mut rng, &mut log).await;
        if rng.once_in(8) {
            rest().await;
        }
    }
    if more {
        if rng.once_in(3) {
            watcher.stop();
            while receive(&mut watcher, &mut rng, &mut log).await {}
        }
        leave(watcher, rng.once_in(2));
        return Read { made, log, kept: None };
    }
    assert!(watcher.recv_async().await.is_err(), "the end is for ever");
    let kept = (!made.ends_itself).then_some(watcher);
    Read { made, log, kept }
}

/// Publishes as a task. It does what a publisher on a thread does, and cancels some of its waits.
pub(crate) async fn publisher(round: std::sync::Arc<Round>, number: u32, mut rng: Rng) -> Published {
    let publisher = round.bus.publisher();
    let mut told = Published::default();
    let mut next = 0;
    let mut after_the_end = 0;
    let events = rng.below(60);
    while next < events as u32 && after_the_end < 5 {
        let mut make = |rng: &mut Rng| round.event(number, &mut next, rng);
        let before = told.stopped;
        match rng.below(12) {
            0 | 1 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.try_publish(event));
            }
            2..=4 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.publish_async(event).await);
            }
            5 | 6 => {
                let event = make(&mut rng);
                give_up(&publisher, &mut told, event, rng.below(4)).await;
            }
            7 => {
                let is_open = if rng.once_in(3) {
                    cancelled(publisher.ready(), rng.below(3)).await.is_none_or(|ready| ready.is_ok())
                } else {
                    publisher.ready().await.is_ok()
                };
                after_the_end += u32::from(!is_open);
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.try_publish(event));
            }
            8 | 9 => {
                let batch: Vec<_> = (0..rng.below(12)).map(|_| make(&mut rng)).collect();
                let idents: Vec<_> = batch.iter().map(|event| event.ident).collect();
                note_batch(&mut told, &idents, publisher.try_publish_batch(batch));
            }
            10 => watch_in_between(&round, &mut told, number, &mut rng),
            _ => flush_in_between(&round, &mut told, &mut rng).await,
        }
        round.progress.fetch_add(1, Ordering::SeqCst);
        after_the_end += u32::from(told.stopped > before);
        if rng.once_in(8) {
            rest().await;
        }
    }
    told
}

/// Publishes, and may drop the publish before it is ready. A dropped publish has not published.
async fn give_up(publisher: &Publisher<Payload>, told: &mut Published, event: Payload, polls: u64) {
    let ident = event.ident;
    match cancelled(publisher.publish_async(event), polls).await {
        Some(result) => note_one(told, ident, result),
        None => met::add(Met::CancelledPublishes, 1),
    }
}

async fn flush_in_between(round: &Round, told: &mut Published, rng: &mut Rng) {
    let timeout = flush_timeout(round, rng);
    let accepted = told.accepted.len();
    let flush = round.bus.flush_async(timeout);
    let result = if rng.once_in(3) { cancelled(flush, rng.below(4)).await } else { Some(flush.await) };
    match result {
        Some(result) => note_flush(round, told, accepted, timeout, result),
        None => met::add(Met::CancelledFlushes, 1),
    }
}
