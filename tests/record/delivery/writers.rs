//! Recordings with several workers.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::thread::ThreadId;

use eventcast::EventType::Normal;
use eventcast::sink::SinkOp;
use eventcast::{Event, EventSink, MemorySink, OverflowPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, gate, memory, pod, record, until};

use super::{broadcaster, retry, with_policy, without_budget};

#[test]
fn workers_call_the_sink_at_the_same_time() {
    let clock = clock();
    let events = with_policy(&clock, at_once());
    // No call continues until all four workers have arrived.
    let barrier = Barrier::new(4);
    let met = AtomicUsize::new(0);
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        if met.fetch_add(1, Ordering::SeqCst) < 4 {
            barrier.wait();
        }
        Ok(())
    });
    let recording = events.recording().name("four").workers(4).start(sink.clone()).unwrap();
    // This is enough events for each worker to receive some.
    for i in 0..200 {
        record(&events, &format!("web-{i}"), "Started");
    }
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().created, sink.store.len()), (200, 200));
    assert_balanced(&recording.stats());
    assert!(events.shutdown().complete);
}

/// A sink in which every fifth write fails and every seventh answer is lost. The sink records which
/// thread wrote what.
struct Noting {
    store: MemorySink,
    dice: AtomicUsize,
    /// The objects whose events are being written.
    busy: Mutex<HashSet<String>>,
    written: Mutex<HashMap<String, Vec<(ThreadId, i32)>>>,
}

impl Noting {
    fn write(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let name = op.event().involved_object.name.to_string();
        assert!(self.busy.lock().unwrap().insert(name.clone()), "two workers write {name} at the same time");
        let answer = self.write_alone(op);
        self.busy.lock().unwrap().remove(&name);
        answer
    }

    fn write_alone(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let event = op.event();
        let number = self.dice.fetch_add(1, Ordering::SeqCst);
        if number % 5 == 0 {
            return Err(retry());
        }
        let stored = op.apply_to(&self.store)?;
        if number % 7 == 0 {
            return Err(SinkError::retry("done, but the answer is lost"));
        }
        let mut written = self.written.lock().unwrap();
        let of_object = written.entry(event.involved_object.name.to_string()).or_default();
        of_object.push((thread::current().id(), event.count));
        Ok(stored)
    }
}

impl EventSink for Noting {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(&SinkOp::Create(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.write(&SinkOp::Patch(event.clone()))
    }
}

#[test]
fn events_of_one_key_are_written_sequentially_whatever_fails() {
    let clock = clock();
    let events = with_policy(&clock, at_once().attempts(1000));
    let store = memory(&clock);
    let sink = Noting {
        store: store.clone(),
        dice: AtomicUsize::new(1),
        busy: Mutex::default(),
        written: Mutex::default(),
    };
    let sink = Arc::new(sink);
    let builder = events.recording().correlator(without_budget()).overflow(OverflowPolicy::Wait);
    let recording = builder.queue_capacity(64).workers(3).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..6_000 {
        while !recorder.event(pod(&format!("web-{}", i % 40)), Normal, "Started", "message").is_accepted() {
            thread::yield_now();
        }
    }
    events.flush(LONG).unwrap();
    let written = sink.written.lock().unwrap();
    assert_eq!(written.len(), 40);
    for (name, writes) in written.iter() {
        assert!(writes.is_sorted_by(|(_, a), (_, b)| a < b), "{name}: {writes:?}");
    }
    let all: HashSet<ThreadId> = written.values().flatten().map(|(thread, _)| *thread).collect();
    assert_eq!(all.len(), 3);
    assert!(store.events().iter().all(|event| event.count == 150), "no event was lost");
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.panics), (40, 5_960, 0));
    assert_balanced(&stats);
}

/// One of two workers hangs. In the meantime, all events are written except the events with that
/// worker's key.
#[test]
fn a_worker_that_hangs_delays_only_its_own_key() {
    const OBJECTS: usize = 60;
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let is_hanging = AtomicBool::new(false);
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let event = op.event();
        let is_first = event.involved_object.name == "web-0" && event.count == 2;
        if is_first && !is_hanging.swap(true, Ordering::SeqCst) {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).workers(2).start(sink.clone()).unwrap();
    let all: Vec<String> = (0..OBJECTS).map(|number| format!("web-{number}")).collect();
    let record_all = || all.iter().for_each(|name| record(&events, name, "Started"));
    let count_of = |name: &String| {
        let stored = sink.store.events().into_iter().find(|event| event.involved_object.name == **name);
        stored.unwrap().count
    };
    record_all();
    events.flush(LONG).unwrap();
    record_all();
    gate.wait();
    for count in 3..6 {
        record_all();
        until(|| all[1..].iter().all(|name| count_of(name) == count));
        assert_eq!(count_of(&all[0]), 1);
    }
    // One event is in the sink, and one write is waiting after that event and carries all the other
    // events.
    until(|| recording.stats().watcher.queued == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    assert!(all.iter().all(|name| count_of(name) == 5));
    assert_balanced(&recording.stats());
}
