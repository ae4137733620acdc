//! A later event of a key replaces what the key's pending write carries, wherever the write is.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex};

use eventcast::record::LossReason;
use eventcast::sink::{MemorySinkOptions, SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventType, MemorySink, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, pod, record, short, until};

use super::{PAUSE, broadcaster, calls_of, turnstile, without_budget};

/// One key is at the sink, one waits for its next attempt, and one for its turn.
#[test]
fn a_write_is_replaced_wherever_it_is() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let failures = AtomicUsize::new(0);
    let (sink, calls) = Scripted::new(&clock, move |_, op| match &*event_of(op).reason {
        "Waits" if failures.fetch_add(1, Ordering::SeqCst) == 0 => Err(SinkError::retry("busy")),
        "AtTheSink" if event_of(op).count == 1 => {
            pass();
            Ok(())
        }
        _ => Ok(()),
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Waits");
    calls.recv_timeout(LONG).unwrap();
    until(|| recording.stats().last_failure.is_some());
    record(&events, "web-0", "AtTheSink");
    turnstile.wait();
    record(&events, "web-0", "Queued");
    for _ in 0..3 {
        for reason in ["AtTheSink", "Waits", "Queued"] {
            record(&events, "web-0", reason);
        }
    }
    // The event at the sink and one for each of the three pending writes take room.
    until(|| recording.stats().watcher.offered == 12 && recording.stats().watcher.lag == 4);
    turnstile.let_one_pass();
    until(|| recording.stats().watcher.queued == 1);
    assert_eq!(
        calls_of(&sink),
        ["create Waits x1", "create AtTheSink x1", "create Queued x4", "patch AtTheSink x4"],
        "the pending writes go out in the order in which they became pending"
    );
    clock.wait_for_waiters(1);
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    assert_eq!(calls_of(&sink)[4..], ["create Waits x4"]);
    assert!(sink.store.events().iter().all(|event| event.count == 4));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.retried), (3, 9, 1));
    assert_eq!((stats.written(), stats.coalesced), (4, 8));
}

/// The message and the last time of a group of similar events change with each event. The first
/// time and the name stay.
#[test]
fn a_replaced_write_has_the_newest_message_and_time() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number == 9 {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    let pull = |image: u64| {
        assert!(
            recorder
                .event(pod("web-0"), EventType::Normal, "Pulled", format_args!("image {image}"))
                .is_accepted()
        );
    };
    // The tenth event is the first one of the group.
    (0..10).for_each(pull);
    turnstile.wait();
    for image in 10..15 {
        clock.advance(PAUSE);
        pull(image);
        until(|| recording.stats().aggregated == image - 8);
    }
    drop(turnstile);
    events.flush(LONG).unwrap();
    let calls = sink.calls();
    let group: Vec<_> = calls[9..].iter().map(event_of).collect();
    assert_eq!(group.iter().map(|event| event.count).collect::<Vec<_>>(), [1, 6], "{:?}", calls_of(&sink));
    assert_eq!(group[1].message, "(combined from similar events): image 14");
    assert_eq!((group[0].metadata.name.clone(), group[0].first_timestamp), {
        (group[1].metadata.name.clone(), group[1].first_timestamp)
    });
    let last = group[1].last_timestamp.unwrap().duration_since(group[0].last_timestamp.unwrap());
    assert_eq!(last, 5 * PAUSE);
    assert_balanced(&recording.stats());
}

/// A sink that stores, but whose first answers get lost.
struct Lossy {
    store: MemorySink,
    lost: usize,
    says_which: bool,
    calls: Mutex<Vec<String>>,
    called: Sender<()>,
}

impl Lossy {
    /// Notes a call, and returns the number of calls so far.
    fn note(&self, op: &SinkOp) -> usize {
        let mut calls = self.calls.lock().unwrap();
        calls.push(short(op));
        calls.len()
    }
}

impl EventSink for Lossy {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let answer = self.store.create(event);
        if self.note(&SinkOp::Create(event.clone())) <= self.lost {
            self.called.send(()).unwrap();
            return Err(SinkError::retry("the connection was closed"));
        }
        answer.map_err(|error| {
            if self.says_which { error } else { SinkError::new(SinkErrorKind::AlreadyExists, "taken") }
        })
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.note(&SinkOp::Update(event.clone()));
        self.store.update(event)
    }
}

/// A creation whose answer was lost waits for its next attempt. Meanwhile other events of its key
/// come. The store has the event already, and gets the newest state as a change.
#[test]
fn a_creation_that_was_done_after_all_becomes_a_change() {
    for says_which in [true, false] {
        let clock = clock();
        let events = broadcaster(&clock);
        let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap();
        let (called, calls) = mpsc::channel();
        let sink =
            Arc::new(Lossy { store: store.clone(), lost: 1, says_which, calls: Mutex::default(), called });
        let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
        record(&events, "web-0", "Started");
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        (0..4).for_each(|_| record(&events, "web-0", "Started"));
        until(|| recording.stats().watcher.offered == 5 && recording.stats().watcher.lag == 1);
        clock.advance(PAUSE);
        events.flush(LONG).unwrap();
        let calls = sink.calls.lock().unwrap().clone();
        assert_eq!(calls, ["create Started x1", "create Started x5", "update Started x5"]);
        assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [5]);
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!((stats.created, stats.updated, stats.written()), (1, 4, 1));
    }
}

/// The answers of two attempts were lost, and only the first attempt was done. The second one had a
/// later count, which the store gets as a change.
#[test]
fn the_first_of_two_attempts_without_an_answer_counts() {
    let clock = clock();
    let events = broadcaster(&clock);
    let store = MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap();
    let (called, calls) = mpsc::channel();
    let sink = Lossy { store: store.clone(), lost: 2, says_which: false, calls: Mutex::default(), called };
    let sink = Arc::new(sink);
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    (0..2).for_each(|_| record(&events, "web-0", "Started"));
    until(|| recording.stats().watcher.offered == 3 && recording.stats().watcher.lag == 1);
    clock.advance(PAUSE);
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    let calls = sink.calls.lock().unwrap().clone();
    let expected = ["create Started x1", "create Started x3", "create Started x3", "update Started x3"];
    assert_eq!(calls, expected);
    assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [3]);
    assert_balanced(&recording.stats());
}

/// The refusal of a write is the loss of all events for which it stands, until a later write of the
/// key carries their count.
#[test]
fn events_that_share_a_write_are_refused_together() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason, loss.count, loss.events[0].count)).unwrap())
        .build()
        .unwrap();
    let (turnstile, pass) = turnstile();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        pass();
        if number == 1 { Err(SinkError::rejected("no")) } else { Ok(()) }
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    for call in 0..2 {
        turnstile.wait();
        (0..3).for_each(|_| record(&events, "web-0", "Started"));
        until(|| recording.stats().watcher.offered == 4 + 3 * call && recording.stats().watcher.lag == 2);
        turnstile.let_one_pass();
    }
    drop(turnstile);
    events.flush(LONG).unwrap();
    assert_eq!(calls_of(&sink), ["create Started x1", "patch Started x4", "patch Started x7"]);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Rejected, 3, 4)]);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.rejected, stats.coalesced), (1, 6, 0, 5));
}
