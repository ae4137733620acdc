//! Batches, and several workers.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkMode, SinkOp, Stored};
use eventcast::{Event, EventBroadcaster, EventSink, MemorySink, OverflowPolicy, SinkError};

use crate::support::{
    Bomb, LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, until,
};

use super::{broadcaster, retry, without_budget};

/// A sink that notes the size of each batch, and answers by a function.
struct Batches {
    store: MemorySink,
    sizes: Arc<Mutex<Vec<usize>>>,
    answer: Box<dyn Fn(&MemorySink, SinkBatch) + Send + Sync>,
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
        assert_eq!(names.len(), batch.ops().len(), "no event twice in a batch");
        (self.hold)();
        self.sizes.lock().unwrap().push(batch.ops().len());
        (self.answer)(&self.store, batch);
    }
}

/// Records one event, which holds up the sink, and then the given number of further events, which
/// reach the sink together. Returns the sizes of the batches, the statistics and the store.
fn in_batches(
    further: usize,
    answer: impl Fn(&MemorySink, SinkBatch) + Send + Sync + 'static,
) -> (Vec<usize>, eventcast::stats::RecordingStats, MemorySink) {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (gate, pass) = gate();
    let is_first = AtomicBool::new(true);
    let hold = Box::new(move || {
        if is_first.swap(false, Ordering::SeqCst) {
            pass();
        }
    });
    let store = MemorySink::with_clock(eventcast::sink::MemorySinkOptions::default(), clock.clock()).unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let sink = Batches { store: store.clone(), sizes: sizes.clone(), answer: Box::new(answer), hold };
    let recording = events.record_to(sink).unwrap();
    record(&events, "first", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
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
fn what_has_come_meanwhile_is_written_in_batches() {
    let (sizes, stats, store) = in_batches(600, EventSink::submit);
    // The first batch is small, and each one that the sink answers soon makes the next one larger.
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

/// The sink owns each event while it performs the operation. The error gives the event back, and a
/// panic loses one event only.
#[test]
fn an_event_that_the_sink_owns_comes_back_with_the_error() {
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
    // The first one comes again alone, and the second one together with it, under another name.
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
    // Five events had been stored already, so their names are taken by the events themselves.
    assert_eq!(sizes, [&[1, 10][..], &[1; 10][..]].concat());
    assert_eq!((stats.created, stats.rejected, stats.panics, store.len()), (11, 0, 1, 11));
}

/// Operations that the sink has answered before it panics are done.
#[test]
fn only_what_has_no_answer_is_done_again_after_a_panic() {
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

// ── workers ──

#[test]
fn workers_call_the_sink_at_the_same_time() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    // No call passes before all four workers are there.
    let barrier = Barrier::new(4);
    let met = AtomicUsize::new(0);
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        if met.fetch_add(1, Ordering::SeqCst) < 4 {
            barrier.wait();
        }
        Ok(())
    });
    let recording = events.recording().name("four").workers(4).start(sink.clone()).unwrap();
    // These are enough events for each worker to get some.
    for i in 0..200 {
        record(&events, &format!("web-{i}"), "Started");
    }
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().created, sink.store.len()), (200, 200));
    assert_balanced(&recording.stats());
    assert!(events.shutdown().complete);
}

/// A sink in which every fifth write fails and every seventh answer is lost. The sink notes which
/// thread wrote what.
struct Noting {
    store: MemorySink,
    dice: AtomicUsize,
    /// The objects whose events are being written.
    busy: Mutex<HashSet<String>>,
    written: Mutex<HashMap<String, (HashSet<ThreadId>, Vec<i32>)>>,
}

impl Noting {
    fn write(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let name = event_of(op).involved_object.name.to_string();
        assert!(self.busy.lock().unwrap().insert(name.clone()), "{name} is written by two at once");
        let answer = self.write_alone(op);
        self.busy.lock().unwrap().remove(&name);
        answer
    }

    fn write_alone(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let event = event_of(op);
        let number = self.dice.fetch_add(1, Ordering::SeqCst);
        if number % 5 == 0 {
            return Err(retry());
        }
        let stored = op.apply_to(&self.store)?;
        if number % 7 == 0 {
            return Err(SinkError::retry("done, but the answer is lost"));
        }
        let mut written = self.written.lock().unwrap();
        let (threads, counts) = written.entry(event.involved_object.name.to_string()).or_default();
        threads.insert(thread::current().id());
        counts.push(event.count);
        Ok(stored)
    }
}

impl EventSink for Noting {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(&SinkOp::Create(event.clone()))
    }

    fn update(&self, _: &Event) -> Result<Event, SinkError> {
        unreachable!("there is a patch")
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(&SinkOp::Patch(event.clone()))
    }
}

#[test]
fn events_of_one_key_are_written_one_after_the_other_whatever_fails() {
    let clock = clock();
    let events = broadcaster(&clock, at_once().attempts(1000));
    let store = MemorySink::with_clock(eventcast::sink::MemorySinkOptions::default(), clock.clock()).unwrap();
    let sink = Noting {
        store: store.clone(),
        dice: AtomicUsize::new(1),
        busy: Mutex::default(),
        written: Mutex::default(),
    };
    let sink = Arc::new(sink);
    let recording = events
        .recording()
        .correlator(without_budget())
        .overflow(OverflowPolicy::Wait)
        .queue_len(64)
        .workers(3)
        .start(sink.clone())
        .unwrap();
    let recorder = events.recorder("tester");
    for i in 0..6_000 {
        while !recorder.event(pod(&format!("web-{}", i % 40)), Normal, "Started", "message").is_accepted() {
            thread::yield_now();
        }
    }
    events.flush(LONG).unwrap();
    let written = sink.written.lock().unwrap();
    assert_eq!(written.len(), 40);
    for (name, (_, counts)) in written.iter() {
        assert!(counts.is_sorted_by(|a, b| a < b), "{name}: {counts:?}");
    }
    let all: HashSet<ThreadId> = written.values().flat_map(|(threads, _)| threads.iter().copied()).collect();
    assert_eq!(all.len(), 3);
    assert!(store.events().iter().all(|event| event.count == 150), "nothing was lost");
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.panics), (40, 5_960, 0));
    assert_balanced(&stats);
}

#[test]
fn a_worker_that_hangs_holds_up_its_own_event_and_no_deadline() {
    let clock = clock();
    let events = Arc::new(broadcaster(&clock, at_once()));
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        if event_of(op).reason == "Hang" {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().workers(2).start(sink.clone()).unwrap();
    record(&events, "web-0", "Hang");
    gate.entered.recv_timeout(LONG).unwrap();
    for i in 0..100 {
        record(&events, &format!("web-{i}"), "Started");
    }
    record(&events, "web-0", "Hang");
    until(|| recording.stats().created == 100 && recording.stats().watcher.offered == 102);
    let closing = events.clone();
    let report = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(5)));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(5));
    assert!(!report.join().unwrap().complete);
    assert!(!recording.join(Duration::ZERO));
    drop(gate);
    assert!(recording.join(LONG));
    until(|| recording.stats().watcher.lag == 0);
    let stats = recording.stats();
    assert_balanced(&stats);
    // The second event of the key waited behind the first.
    assert_eq!((stats.created, stats.abandoned), (101, 1), "{stats}");
}

#[test]
fn a_sink_that_panics_in_a_worker_loses_that_event_only() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |_, op| {
        assert!(event_of(op).reason != "Bad", "a sink that panics");
        Ok(())
    });
    let recording = events.recording().workers(2).start(sink).unwrap();
    for i in 0..50 {
        record(&events, &format!("web-{i}"), if i % 10 == 0 { "Bad" } else { "Good" });
    }
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (45, 5, 5));
    assert_eq!(stats.last_refusal.as_deref(), Some("rejected: the sink panicked: a sink that panics"));
    assert_balanced(&stats);
}

/// A sink that reports when it is dropped.
struct Farewell(mpsc::Sender<()>);

impl EventSink for Farewell {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(event.clone())
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let _ = self.0.send(());
        panic!("a sink that panics when it goes");
    }
}

#[test]
fn who_waits_for_the_end_waits_until_the_sink_has_gone() {
    for workers in [1, 3] {
        let events = EventBroadcaster::new().unwrap();
        let (gone_tx, gone) = mpsc::channel();
        let recording = events.recording().workers(workers).start(Farewell(gone_tx)).unwrap();
        record(&events, "web-0", "Started");
        recording.stop();
        assert!(recording.join(LONG));
        assert_eq!(gone.try_recv(), Ok(()));
    }
}

#[test]
fn a_shutdown_waits_until_the_sink_has_gone() {
    for workers in [1, 3] {
        let events = EventBroadcaster::new().unwrap();
        let (gone_tx, gone) = mpsc::channel();
        events.recording().workers(workers).start(Farewell(gone_tx)).unwrap();
        record(&events, "web-0", "Started");
        assert!(events.shutdown().complete);
        assert_eq!(gone.try_recv(), Ok(()));
    }
}

// ── which errors are worth it ──
