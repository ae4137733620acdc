//! The publishers of a round, and their actions between two events.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use eventcast::error::{FlushError, PublishError, WatchError};
use eventcast::{Broadcaster, Publisher, Watcher};
use test_support::Rng;

use super::event::{Ident, Origin, Payload};
use super::plan::{FOREVER, Made, Published, random_watcher};
use super::read::spawn_reader;

const HAMMER_EVENTS: u32 = 1000;

pub(crate) struct Round {
    pub(crate) bus: Arc<Broadcaster<Payload>>,
    pub(crate) origin: Origin,
    /// The number of publishes that have returned.
    pub(crate) progress: AtomicU64,
    /// Whether a watcher is not read before the end. In that case, a long flush would wait forever.
    pub(crate) is_stuck: bool,
    pub(crate) poison: bool,
    pub(crate) positions: Vec<Arc<AtomicU64>>,
}

impl Round {
    /// Creates a publisher's next event.
    pub(crate) fn event(&self, publisher: u32, next: &mut u32, rng: &mut Rng) -> Payload {
        let ident = Ident { publisher, number: *next };
        *next += 1;
        self.origin.event(ident, self.poison && rng.once_in(6))
    }
}

pub(crate) fn publisher(round: &Round, number: u32, mut rng: Rng) -> Published {
    let publisher = round.bus.publisher();
    let mut told = Published::default();
    let mut next = 0;
    let mut after_the_end = 0;
    let events = rng.below(60);
    while next < events as u32 && after_the_end < 5 {
        let mut make = |rng: &mut Rng| round.event(number, &mut next, rng);
        let before = told.stopped;
        match rng.below(12) {
            0..=2 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.try_publish(event));
            }
            3..=4 => {
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.publish(event));
            }
            5 => {
                let timeout = Duration::from_micros(rng.pick(&[0, 1, 30]));
                let event = make(&mut rng);
                note_one(&mut told, event.ident, publisher.publish_timeout(event, timeout));
            }
            form @ 6..=9 => {
                let count = rng.below(12);
                let batch: Vec<_> = (0..count).map(|_| make(&mut rng)).collect();
                let idents: Vec<_> = batch.iter().map(|event| event.ident).collect();
                note_batch(&mut told, &idents, publish_batch(&publisher, batch, form < 8));
            }
            10 => watch_in_between(round, &mut told, number, &mut rng),
            _ => flush_in_between(round, &mut told, &mut rng),
        }
        round.progress.fetch_add(1, Ordering::SeqCst);
        after_the_end += u32::from(told.stopped > before);
    }
    told
}

/// Publishes events one by one as fast as it can, so that the bus ends in the middle of a publish.
pub(crate) fn hammer(round: &Round, number: u32) -> Published {
    let publisher = round.bus.publisher();
    let mut told = Published::default();
    for next in 0..HAMMER_EVENTS {
        let ident = Ident { publisher: number, number: next };
        let event = round.origin.event(ident, false);
        note_one(&mut told, ident, publisher.try_publish(event));
        round.progress.fetch_add(1, Ordering::Relaxed);
        if told.stopped > 0 {
            break;
        }
    }
    told
}

fn publish_batch(
    publisher: &Publisher<Payload>,
    batch: Vec<Payload>,
    waits: bool,
) -> Result<(), PublishError<Vec<Payload>>> {
    if waits { publisher.publish_batch(batch) } else { publisher.try_publish_batch(batch) }
}

pub(crate) fn note_one(told: &mut Published, ident: Ident, result: Result<(), PublishError<Payload>>) {
    match result {
        Ok(()) => told.accepted.push(ident),
        Err(error) => {
            told.refused(error.is_full(), 1);
            assert_eq!(error.into_inner().ident, ident, "the refused event must be returned");
        }
    }
}

pub(crate) fn note_batch(
    told: &mut Published,
    idents: &[Ident],
    result: Result<(), PublishError<Vec<Payload>>>,
) {
    match result {
        Ok(()) => told.accepted.extend(idents),
        Err(error) => {
            let is_full = error.is_full();
            let back: Vec<_> = error.into_inner().iter().map(|event| event.ident).collect();
            let (accepted, refused) = idents.split_at(idents.len() - back.len());
            assert_eq!(refused, back, "refused events must be returned in order");
            assert!(!back.is_empty());
            told.accepted.extend(accepted);
            told.refused(is_full, back.len() as u64);
        }
    }
}

/// Registers a watcher between two of this publisher's events, so that the watcher's place in the
/// order is known.
pub(crate) fn watch_in_between(round: &Round, told: &mut Published, number: u32, rng: &mut Rng) {
    let by = Some((number, told.accepted.len()));
    let (builder, made) = random_watcher(&round.bus, rng, by, false);
    note_watcher(told, builder.watch(), made, rng);
}

pub(crate) fn note_watcher(
    told: &mut Published,
    registered: Result<Watcher<Payload>, WatchError>,
    made: Made,
    rng: &mut Rng,
) {
    match registered {
        Ok(watcher) if rng.once_in(6) => {
            // The watcher may be dropped before the dispatcher has registered it.
            drop(watcher);
        }
        Ok(watcher) => {
            let stop = rng.once_in(6).then(|| watcher.handle());
            told.readers.push(spawn_reader(
                watcher,
                Made { ends_itself: made.ends_itself || stop.is_some(), ..made },
                rng.fork(),
                false,
            ));
            if let Some(stop) = stop {
                stop.stop();
                stop.stop();
            }
        }
        Err(error) => assert!(matches!(error, WatchError::Closed), "{error}"),
    }
}

pub(crate) fn flush_timeout(round: &Round, rng: &mut Rng) -> Duration {
    if round.is_stuck || rng.once_in(2) { Duration::from_micros(rng.below(300)) } else { FOREVER }
}

fn flush_in_between(round: &Round, told: &mut Published, rng: &mut Rng) {
    let timeout = flush_timeout(round, rng);
    let accepted = told.accepted.len();
    note_flush(round, told, accepted, timeout, round.bus.flush(timeout));
}

/// Records a flush that began when this number of the publisher's events had been accepted.
pub(crate) fn note_flush(
    round: &Round,
    told: &mut Published,
    accepted: usize,
    timeout: Duration,
    result: Result<(), FlushError>,
) {
    match result {
        Ok(()) => {
            let positions = round.positions.iter().map(|p| p.load(Ordering::SeqCst)).collect();
            told.flushes.push((accepted, positions));
        }
        Err(FlushError::Timeout { .. }) => assert!(timeout < FOREVER),
        Err(FlushError::Abandoned) => {}
        Err(error) => panic!("{error}"),
    }
}
