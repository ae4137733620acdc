//! Batches.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, SinkError};

use crate::support::{
    Bomb, LONG, Submitting, assert_balanced, at_once, clock, clocked, gate, memory, pod, record, until,
};

use super::{with_policy, without_budget};

type Answer = dyn Fn(&MemorySink, SinkBatch) + Send + Sync;

/// A sink that records the size of each batch and leaves the response to a function.
struct Batches {
    store: MemorySink,
    sizes: Arc<Mutex<Vec<usize>>>,
    answer: Box<Answer>,
    hold: Box<dyn Fn() + Send + Sync>,
}

impl EventSink for Batches {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.sizes.lock().unwrap().push(1);
        self.store.create(event)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.store.update(event)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        let names: HashSet<_> = batch.ops().iter().map(|op| op.event().metadata.name.clone()).collect();
        assert_eq!(names.len(), batch.ops().len(), "no event occurs twice in a batch");
        (self.hold)();
        self.sizes.lock().unwrap().push(batch.ops().len());
        (self.answer)(&self.store, batch);
    }
}

/// Records one event, at which the sink blocks, and then records the given number of further
/// events, which reach the sink together. Returns the batch sizes, the statistics and the store.
fn in_batches(
    further: usize,
    answer: impl Fn(&MemorySink, SinkBatch) + Send + Sync + 'static,
) -> (Vec<usize>, eventcast::stats::RecordingStats, MemorySink) {
    let clock = clock();
    let events = with_policy(&clock, at_once());
    let (gate, pass) = gate();
    let is_first = AtomicBool::new(true);
    let hold = Box::new(move || {
        if is_first.swap(false, Ordering::SeqCst) {
            pass();
        }
    });
    let store = memory(&clock);
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let sink = Batches { store: store.clone(), sizes: sizes.clone(), answer: Box::new(answer), hold };
    let recording = events.record_to(sink).unwrap();
    record(&events, "first", "Started");
    gate.wait();
    for i in 0..further {
        record(&events, &format!("web-{i}"), &format!("Reason-{i}"));
    }
    until(|| recording.stats().watcher.queued == further as u64 + 1);
    drop(gate);
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_balanced(&stats);
    let sizes = sizes.lock().unwrap().clone();
    (sizes, stats, store)
}

#[test]
fn events_that_wait_are_written_in_batches() {
    let (sizes, stats, store) = in_batches(600, EventSink::submit);
    // The first batch is small, and each fast response from the sink makes the next batch larger.
    assert_eq!(sizes, [1, 16, 32, 64, 128, 256, 104]);
    assert_eq!((stats.created, store.len()), (601, 601));
}

/// Performs operations one by one, and returns the answers.
fn answers_of(store: &MemorySink, ops: &[SinkOp]) -> Vec<Result<Stored, SinkError>> {
    ops.iter().map(|op| op.apply_to(store).map(Stored::from)).collect()
}

#[test]
fn an_answer_that_is_missing_is_a_refusal_and_one_too_many_is_nothing() {
    let (_, stats, store) = in_batches(10, |store, batch| {
        let mut answers = answers_of(store, batch.ops());
        answers.truncate(7);
        batch.answer(answers);
    });
    assert_eq!((stats.created, stats.rejected, store.len()), (8, 3, 11));
    assert_eq!(stats.last_refusal.unwrap(), "rejected: the sink gave 7 answers to 10 operations");
    let (_, stats, _) = in_batches(10, |store, batch| {
        let mut answers = answers_of(store, batch.ops());
        answers.push(Err(SinkError::rejected(Bomb)));
        answers.push(Err(SinkError::rejected(Bomb)));
        batch.answer(answers);
    });
    assert_eq!((stats.created, stats.rejected), (11, 0));
}

/// The sink owns each event while it performs the operation. An error returns the event, and a
/// panic loses only one event.
#[test]
fn an_event_that_the_sink_owns_returns_with_the_error() {
    let (sizes, stats, store) = in_batches(10, |store, batch| {
        if batch.ops().len() < 10 {
            return store.submit(batch);
        }
        let mut number = 0;
        batch.answer_each(|op| {
            number += 1;
            match number {
                1 => Err(op.failed(SinkError::retry("the connection broke"))),
                2 => Err(op.failed(SinkError::new(SinkErrorKind::AlreadyExists, Bomb))),
                3 => panic!("with the event"),
                _ => op.apply_to(store).map(Stored::from).map_err(|error| op.failed(error)),
            }
        });
    });
    // The first event is retried together with the second, which gets another name.
    assert_eq!(sizes, [1, 10, 2]);
    assert_eq!((stats.created, stats.rejected, stats.panics, store.len()), (10, 1, 2, 10));
    assert_eq!(stats.last_refusal.unwrap(), "rejected: the sink panicked: with the event");
}

#[test]
fn a_batch_in_which_the_sink_panics_is_done_again_one_by_one() {
    let (sizes, stats, store) = in_batches(10, |store, batch| {
        if batch.ops().len() < 10 {
            return store.submit(batch);
        }
        drop(answers_of(store, &batch.ops()[..5]));
        panic!("in the middle");
    });
    // Five events had already been stored, so creating them again finds their names taken.
    assert_eq!(sizes, [&[1, 10][..], &[1; 10][..]].concat());
    assert_eq!((stats.created, stats.rejected, stats.panics, store.len()), (11, 0, 1, 11));
}

/// Operations that the sink answered before panicking are not repeated.
#[test]
fn only_operations_without_an_answer_are_done_again_after_a_panic() {
    let (sizes, stats, store) = in_batches(10, |store, batch| {
        if batch.ops().len() < 10 {
            return store.submit(batch);
        }
        for (number, call) in batch.into_iter().enumerate() {
            assert!(number < 5, "in the middle");
            let answer = call.op().apply_to(store).map(Stored::from);
            call.answer(answer);
        }
    });
    assert_eq!(sizes, [&[1, 10][..], &[1; 5][..]].concat());
    assert_eq!((stats.created, stats.rejected, stats.panics, store.len()), (11, 0, 1, 11));
}

/// Returns the sizes of the batches in which a sink whose first calls are slow receives 60 events
/// that are already waiting. Uses the system clock, because the calls take real time.
fn sizes(slow: usize) -> Vec<usize> {
    const EVENTS: usize = 60;
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    // The key function runs on the recording's thread and waits until all events are in the queue.
    let options = without_budget().aggregate_key(move |event| {
        pass();
        (event.involved_object.name.clone(), event.message.clone())
    });
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let into = sizes.clone();
    let sink = Submitting(SinkMode::Batches, move |batch: SinkBatch| {
        let calls = {
            let mut sizes = into.lock().unwrap();
            sizes.push(batch.ops().len());
            sizes.len()
        };
        // In real time, this loop takes longer than a batch should take.
        let began = Instant::now();
        while calls <= slow && began.elapsed() < Duration::from_millis(260) {
            thread::yield_now();
        }
        batch.answer_each(|op| Ok(Stored::from(op.event())));
    });
    let recording = events.recording().correlator(options).start(sink).unwrap();
    // This watcher receives each event after the recording does, because the recording was
    // registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    for number in 0..EVENTS {
        record(&events, &format!("web-{number}"), "Started");
    }
    gate.wait();
    for _ in 0..EVENTS {
        witness.recv_timeout(LONG).unwrap();
    }
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(recording.stats().created, EVENTS as u64);
    sizes.lock().unwrap().clone()
}

#[test]
fn a_batch_after_two_slow_ones_has_half_as_many_operations() {
    // A single slow response does not mean that the sink is slow.
    assert_eq!(sizes(1)[..2], [16, 16]);
    let slow = sizes(2);
    assert_eq!(slow[..3], [16, 16, 8], "{slow:?}");
}

/// Batches for a store with two groups grow in the same way as with one group.
#[test]
fn batches_grow_although_there_are_groups() {
    let events = clocked(&clock()).build().unwrap();
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let into = sizes.clone();
    let (gate, pass) = gate();
    let sink = Submitting(SinkMode::Batches, move |batch: SinkBatch| {
        pass();
        into.lock().unwrap().push(batch.ops().len());
        batch.answer_each(|op| Ok(Stored::from(op.event())));
    });
    let builder = events.recording().queue_capacity(16_384).group_queue_capacity(16_384);
    let recording = builder.correlator(without_budget()).start(sink).unwrap();
    let recorder = events.recorder("tester");
    for number in 0..4000_u64 {
        let object = pod(&number.to_string()).in_namespace(["a", "b"][number as usize % 2]);
        assert!(recorder.normal(object, "Run", "it runs").is_accepted());
        until(|| recording.stats().watcher.offered == number + 1);
    }
    drop(gate);
    events.flush(LONG).unwrap();
    let sizes = sizes.lock().unwrap();
    assert!(sizes.len() < 100, "{} batches, the largest of {:?}", sizes.len(), sizes.iter().max());
}
