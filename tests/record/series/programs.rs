//! Random programs, which must not lose a count whatever happens.

use std::sync::Mutex;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::{SeriesOptions, SeriesUpdate};
use eventcast::sink::{MemorySinkOptions, SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventSource, MemorySink, SinkError};
use test_support::Rng;

use crate::support::{LONG, assert_balanced, at_once, clock, pod};

/// A store that fails at random, before or after performing the operation.
struct Flaky {
    store: MemorySink,
    dice: Mutex<Rng>,
}

impl Flaky {
    fn ask(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let roll = self.dice.lock().unwrap().below(10);
        if roll == 0 {
            return Err(SinkError::retry("busy"));
        }
        if roll == 2 && matches!(op, SinkOp::Patch(_)) {
            return Err(SinkError::new(SinkErrorKind::NotFound, "it is said to be gone"));
        }
        let answer = op.apply_to(&self.store);
        if roll == 1 { Err(SinkError::retry("the connection was closed")) } else { answer }
    }
}

impl EventSink for Flaky {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Create(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Patch(event.clone()))
    }
}

/// Runs a random program that records events in a few series, lets time pass, and flushes, with a
/// store that sometimes fails. At the end the store must have the counts of all events.
fn run(seed: u64) {
    let mut dice = Rng(seed);
    let clock = clock();
    let builder = EventBroadcaster::builder().clock(clock.clock()).event_time(true);
    let events = builder.retry(at_once().attempts(u32::MAX)).build().unwrap();
    let options = MemorySinkOptions::default().ttl(Duration::from_secs(1_000_000));
    let store = MemorySink::with_clock(options, clock.clock()).unwrap();
    let update = match dice.below(3) {
        0 => SeriesUpdate::AsClientGo,
        1 => SeriesUpdate::Every(Duration::from_secs(1 + dice.below(100))),
        _ => SeriesUpdate::Always,
    };
    let options = SeriesOptions::default()
        .update(update)
        .cache_size(1 + dice.below(4) as usize)
        .finish_after(Duration::from_secs(1 + dice.below(1000)))
        .refresh_every(Duration::from_secs(1 + dice.below(1000)));
    let sink = Flaky { store: store.clone(), dice: Mutex::new(Rng(!seed)) };
    let workers = 1 + dice.below(2) as usize;
    let recording = events.recording().series(options).workers(workers).start(sink).unwrap();
    let recorder = events.recorder(EventSource::from("web").on_host("web-7"));
    let mut recorded = 0;
    for _ in 0..dice.below(150) {
        match dice.below(20) {
            0 => events.flush(LONG).unwrap(),
            1..4 => clock.advance(Duration::from_secs(dice.below(400))),
            _ => {
                let name = format!("p{}", dice.below(6));
                assert!(recorder.event(pod(&name), Normal, "Started", "up").is_accepted());
                recorded += 1;
            }
        }
    }
    // After a flush no count is held, and no write is waiting for another attempt.
    events.flush(LONG).unwrap();
    let seen = |event: Event| u64::try_from(event.series().map_or(1, |series| series.count)).unwrap();
    let counted: u64 = store.events().into_iter().map(seen).sum();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((counted, stats.watcher.delivered), (recorded, recorded), "seed {seed}: {options:?}, {stats}");
    assert!(events.shutdown().complete);
}

#[test]
fn no_count_is_lost_in_any_program() {
    (0..200).for_each(run);
}
