//! Publishers of a round that are tasks of tokio and smol.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use eventcast::Publisher;
use test_support::Rng;

use super::event::Payload;
use super::executors::{cancelled, rest};
use super::met::{self, Met};
use super::plan::Published;
use super::publish::{Round, flush_timeout, note_batch, note_flush, note_one, watch_in_between};

/// Publishes as a task. The task acts like a publisher on a thread, and cancels some of its waits.
pub(crate) async fn publisher(round: Arc<Round>, number: u32, mut rng: Rng) -> Published {
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

/// Publishes, but may drop the publish future before it is ready. A dropped future has not
/// published its event.
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
