//! How a recording writes: in batches, in order for each key, again after failures, and by several
//! workers.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::sink::SinkOp;
use eventcast::stats::DropReason;
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, EventSink, MemorySink, OverflowPolicy,
    RetryPolicy, SinkError,
};

use crate::support::{
    Bomb, LONG, Scripted, assert_balanced, at_once, clock, event_of, gate, pod, record, short, until,
};

fn retry() -> SinkError {
    SinkError::retry("busy")
}

/// Returns the error of a store that is unreachable.
fn away() -> SinkError {
    SinkError::unreachable("connection refused")
}

/// Returns a policy with ten seconds between attempts, none of them shortened.
fn every_ten_seconds() -> RetryPolicy {
    RetryPolicy::default().jitter(eventcast::record::Jitter::Never)
}

fn broadcaster(clock: &FakeClock, policy: RetryPolicy) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).retry(policy).build().unwrap()
}

fn without_budget() -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(None)
}

fn reason_of(op: &SinkOp) -> String {
    event_of(op).reason.to_string()
}

// ── what waits ──

#[test]
fn an_event_that_waits_for_its_next_attempt_holds_up_nothing_else() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) = Scripted::new(&clock, move |_, op| {
        let fails = event_of(op).reason == "Bad" && !back.load(Ordering::SeqCst);
        if fails { Err(retry()) } else { Ok(()) }
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "web-0", "Bad");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for i in 0..20 {
        record(&events, "web-0", &format!("Good-{i}"));
    }
    until(|| recording.stats().created == 20);
    // The event still counts against the queue, and a flush waits for it.
    assert_eq!(recording.stats().watcher.queued, 1);
    assert!(events.flush(Duration::ZERO).is_err());

    is_back.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.retried, stats.watcher.queued), (21, 1, 0));
    assert_balanced(&stats);
}

#[test]
fn what_comes_for_a_key_that_waits_is_counted_and_written_in_one_go() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) =
        Scripted::new(&clock, move |_, _| if back.load(Ordering::SeqCst) { Ok(()) } else { Err(retry()) });
    let recording = events.recording().correlator(without_budget()).queue_len(8).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    // These are many more events than the queue has room for. Each is finished as soon as it is
    // counted.
    for i in 2..=100 {
        record(&events, "web-0", "Started");
        until(|| recording.stats().watcher.offered == i && recording.stats().watcher.queued <= 2);
    }
    is_back.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();

    let calls: Vec<String> = sink.calls().iter().map(short).collect();
    assert_eq!(calls, ["create Started x1", "create Started x1", "patch Started x100"]);
    assert_eq!(sink.store.events()[0].count, 100);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.watcher.dropped.total()), (1, 99, 0));
    assert_balanced(&stats);
}

#[test]
fn a_queue_of_events_that_all_wait_is_full() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(retry()));
    let recording = events.recording().queue_len(2).start(sink).unwrap();
    for name in ["a", "b"] {
        record(&events, name, "Started");
        calls.recv_timeout(LONG).unwrap();
    }
    record(&events, "c", "Started");
    until(|| recording.stats().watcher.dropped.by(DropReason::Incoming) == 1);
    assert_eq!(recording.stats().watcher.queued, 2);
    assert!(!events.shutdown().complete);
    assert_balanced(&recording.stats());
}

#[test]
fn a_repeat_follows_the_event_that_it_repeats() {
    // Whether in one batch or in several, the patch comes after the creation, with the name and
    // version that the creation gave the event.
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..300 {
        assert!(recorder.event(pod(&format!("web-{}", i % 30)), Normal, "Started", "message").is_accepted());
    }
    events.flush(LONG).unwrap();
    let mut seen: HashMap<String, Vec<i32>> = HashMap::new();
    let mut versions: HashMap<String, String> = HashMap::new();
    for op in sink.calls() {
        let event = event_of(&op);
        let counts = seen.entry(event.involved_object.name.to_string()).or_default();
        counts.push(event.count);
        assert_eq!(counts.len() == 1, matches!(op, SinkOp::Create(_)));
        let version = event.metadata.resource_version().to_string();
        let before = versions.insert(event.metadata.name.to_string(), version.clone());
        assert!(before.is_none() || before.as_ref() != Some(&version), "{before:?} again");
    }
    assert!(seen.values().all(|counts| *counts == (1..=10).collect::<Vec<_>>()), "{seen:?}");
    assert_eq!((recording.stats().created, recording.stats().updated), (30, 270));
}

#[test]
fn one_thread_writes_in_the_order_of_the_events() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number == 0 {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
    // All of these events come together, and some of them more than once.
    let reasons = ["A", "B", "A", "A", "C", "B", "D", "D", "E"];
    for reason in reasons {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 10);
    drop(gate);
    events.flush(LONG).unwrap();
    let written: Vec<_> = sink.calls()[1..].iter().map(reason_of).collect();
    assert_eq!(written, reasons);
    assert_balanced(&recording.stats());
}

// ── a store that is away ──

#[test]
fn a_store_that_does_not_answer_costs_no_events_their_attempts() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds().attempts(4));
    let is_back = Arc::new(AtomicBool::new(false));
    let back = is_back.clone();
    let (sink, calls) =
        Scripted::new(&clock, move |_, _| if back.load(Ordering::SeqCst) { Ok(()) } else { Err(away()) });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for reason in ["B", "C"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 3);
    assert_eq!(sink.calls().len(), 1, "the others are not even tried");
    // The recording makes one attempt after each pause, each time for another event.
    for round in 0..4 {
        for expected in ["B", "C", "A"] {
            clock.advance(Duration::from_millis(9_999));
            assert!(calls.try_recv().is_err(), "{round}");
            clock.advance(Duration::from_millis(1));
            calls.recv_timeout(LONG).unwrap();
            clock.wait_for_waiters(1);
            assert_eq!(reason_of(sink.calls().last().unwrap()), expected, "{round}");
        }
    }
    assert_eq!((recording.stats().exhausted, sink.calls().len()), (0, 13));

    is_back.store(true, Ordering::SeqCst);
    for i in 0..100 {
        record(&events, "web-0", &format!("Later-{i}"));
    }
    until(|| recording.stats().watcher.queued == 103);
    clock.advance(Duration::from_secs(10));
    until(|| recording.stats().created >= 100);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted), (103, 0));
    assert_balanced(&stats);
}

/// Any answer to the probe shows that the store is there.
#[test]
fn any_answer_ends_an_outage() {
    let answers: [fn() -> Result<(), SinkError>; 3] =
        [|| Ok(()), || Err(SinkError::retry("500")), || Err(SinkError::rejected("422"))];
    for answer in answers {
        let clock = clock();
        let events = broadcaster(&clock, every_ten_seconds());
        let (sink, calls) = Scripted::new(&clock, move |number, _| match number {
            0 => Err(away()),
            1 => answer(),
            _ => Ok(()),
        });
        let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
        record(&events, "web-0", "First");
        calls.recv_timeout(LONG).unwrap();
        clock.wait_for_waiters(1);
        for i in 0..10 {
            record(&events, "web-0", &format!("Later-{i}"));
        }
        until(|| recording.stats().watcher.queued == 11);
        clock.advance(Duration::from_secs(10));
        // The first event is due too, and one event may have been refused.
        until(|| recording.stats().created >= 10);
    }
}

/// A store that hangs up at one event is not unreachable: in each round, a probe with another event
/// shows this.
#[test]
fn an_event_at_which_the_store_hangs_up_has_its_attempts_and_no_more() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let (sink, calls) =
        Scripted::new(&clock, |_, op| if reason_of(op) == "Bad" { Err(away()) } else { Ok(()) });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Bad");
    calls.recv_timeout(LONG).unwrap();
    for round in 1..=11 {
        clock.wait_for_waiters(1);
        record(&events, "web-0", &format!("Good-{round}"));
        until(|| recording.stats().watcher.queued == 2);
        clock.advance(Duration::from_secs(10));
        until(|| recording.stats().created == round);
    }
    until(|| recording.stats().exhausted == 1);
    assert_eq!(sink.calls().iter().filter(|op| reason_of(op) == "Bad").count(), 12);
    // The event has been given up, so no other event waits any more.
    record(&events, "web-0", "Last");
    until(|| recording.stats().created == 12);
    assert_balanced(&recording.stats());
}

#[test]
fn one_event_that_fails_for_ever_is_no_reason_to_think_that_the_store_is_away() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) =
        Scripted::new(&clock, |_, op| if event_of(op).reason == "Bad" { Err(retry()) } else { Ok(()) });
    let recording = events.recording().correlator(without_budget()).start(sink).unwrap();
    for i in 0..50 {
        record(&events, "web-0", "Bad");
        record(&events, "web-0", &format!("Good-{i}"));
        events.flush(LONG).unwrap();
    }
    let stats = recording.stats();
    assert_eq!(stats.created, 50);
    assert_balanced(&stats);
}

/// One of ten namespaces refuses its events, because its admission webhook fails. The events of the
/// other namespaces are written in the round in which they come, while the clock stands still.
#[test]
fn a_namespace_that_fails_holds_up_no_other() {
    const ROUNDS: u64 = 150;
    let clock = clock();
    let events = broadcaster(&clock, RetryPolicy::default());
    let tried = Arc::new(Mutex::new(HashSet::new()));
    let into = tried.clone();
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let object = &event_of(op).involved_object;
        if object.namespace != "ns-0" {
            return Ok(());
        }
        into.lock().unwrap().insert(object.name.clone());
        Err(SinkError::retry("500 InternalError: failed calling webhook"))
    });
    let recording =
        events.recording().correlator(without_budget()).queue_len(10_000).start(sink.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    let record = |namespace: u64, name: String| {
        let object = pod(&name).in_namespace(format!("ns-{namespace}"));
        assert!(recorder.event(&object, Normal, "Started", "message").is_accepted());
    };
    for round in 1..=ROUNDS {
        // Three events of the failing namespace fail one after the other, with nothing between
        // them.
        for number in 0..3 {
            record(0, format!("web-{round}-{number}"));
        }
        until(|| tried.lock().unwrap().len() as u64 == 3 * round);
        for namespace in 1..10 {
            record(namespace, format!("web-{round}"));
        }
        until(|| recording.stats().created == 9 * round);
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(sink.store.len() as u64, 9 * ROUNDS);
    assert_eq!(recording.stats().unreachable_since, None);
    events.shutdown();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted + stats.abandoned), (9 * ROUNDS, 3 * ROUNDS));
    assert!(stats.exhausted > 0, "{stats}");
    assert_balanced(&stats);
}

/// An event that is not tried again, by the policy or because its error is not worth it, delays no
/// other event.
#[test]
fn who_tries_once_does_not_wait_for_a_store_that_is_away() {
    type Make = fn() -> SinkError;
    let cases: [(Make, u32, bool); 3] = [(retry, 1, true), (away, 1, true), (away, 12, false)];
    for (error, attempts, is_worth_it) in cases {
        let clock = clock();
        let events = broadcaster(&clock, every_ten_seconds().attempts(attempts));
        let (sink, _calls) = Scripted::new(&clock, move |_, _| Err(error()));
        let recording = events.recording().correlator(without_budget()).retry_if(move |_| is_worth_it);
        let recording = recording.start(sink.clone()).unwrap();
        for i in 1..=20 {
            record(&events, "web-0", &format!("Reason-{i}"));
            // The clock stands still.
            until(|| recording.stats().exhausted == i);
        }
        assert_eq!(sink.calls().len(), 20);
        assert!(events.shutdown().complete);
        assert_balanced(&recording.stats());
    }
}

/// The time of a write does not depend on how many events wait for their next attempt.
#[test]
fn a_write_takes_no_longer_when_many_events_wait() {
    fn quickest(waiting: usize) -> Duration {
        let clock = clock();
        let events = EventBroadcaster::builder()
            .clock(clock.clock())
            .bus(BusOptions::default().incoming_len(100_000))
            .retry(every_ten_seconds())
            .build()
            .unwrap();
        let (sink, _calls) =
            Scripted::new(&clock, |_, op| if reason_of(op) == "Bad" { Err(retry()) } else { Ok(()) });
        let recording = events.recording().correlator(without_budget()).queue_len(100_000);
        let recording = recording.start(sink).unwrap();
        for i in 0..waiting {
            record(&events, &format!("web-{i}"), "Bad");
        }
        // All events are in the queue, and an attempt has failed.
        until(|| {
            recording.stats().last_failure.is_some() && recording.stats().watcher.queued == waiting as u64
        });
        let one = |number: u64| {
            let start = Instant::now();
            record(&events, "good", &format!("Good-{number}"));
            until(|| recording.stats().created == number);
            start.elapsed()
        };
        one(1);
        let quickest = (2..200).map(one).min().unwrap();
        assert_eq!(recording.stats().watcher.queued, waiting as u64);
        quickest
    }
    let (few, many) = (quickest(100), quickest(50_000));
    println!("one write takes {few:?} while 100 events wait, {many:?} while 50,000 do");
    assert!(many < few * 20, "{few:?} {many:?}");
}

#[test]
fn a_shutdown_waits_for_no_store_that_is_away() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason(), loss.count())).unwrap())
        .build()
        .unwrap();
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(away()));
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for reason in ["B", "C", "D"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 4);
    // The clock stands still.
    let report = events.shutdown();
    assert!(!report.complete);
    assert_balanced(&recording.stats());
    assert_eq!(recording.stats().abandoned, 4);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Abandoned, 1); 4]);
    let mut last: Vec<_> = sink.calls()[1..].iter().map(reason_of).collect();
    last.sort();
    assert_eq!(last, ["A", "B", "C", "D"], "each has had one more");
}

#[test]
fn a_store_that_is_found_away_at_the_very_end_holds_nothing_up() {
    let clock = clock();
    let events = broadcaster(&clock, every_ten_seconds());
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        if number == 0 {
            pass();
            return Ok(());
        }
        Err(away())
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    // This watcher learns of the end after the recording, which was registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
    // The events come together. Before it handles a repeat, the recording writes the earlier event
    // of the same key.
    for reason in ["A", "A", "B", "B", "C", "C", "D", "D"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.queued == 9);
    events.close();
    assert_eq!(witness.events().count(), 9);
    drop(gate);
    // The clock stands still.
    assert!(!events.shutdown().complete);
    assert_eq!((recording.stats().created, recording.stats().abandoned), (1, 8));
    assert_eq!(sink.calls().len(), 9, "each was tried once");
    assert_balanced(&recording.stats());
}

// ── names that are taken ──

/// A sink that stores, but whose first answers get lost.
struct Forgetful {
    store: MemorySink,
    lost: AtomicUsize,
    says_which: bool,
}

impl EventSink for Forgetful {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        let answer = self.store.create(event);
        if self.lost.fetch_sub(1, Ordering::SeqCst) > 0 {
            return Err(SinkError::retry("the connection was closed"));
        }
        self.lost.store(0, Ordering::SeqCst);
        answer.map_err(|error| {
            if self.says_which { error } else { SinkError::already_exists("somebody has this name") }
        })
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.store.update(event)
    }
}

#[test]
fn a_creation_whose_answer_was_lost_is_a_success() {
    for says_which in [true, false] {
        let clock = clock();
        let events = broadcaster(&clock, at_once());
        let store =
            MemorySink::with_clock(eventcast::sink::MemorySinkOptions::default(), clock.clock()).unwrap();
        let sink = Forgetful { store: store.clone(), lost: AtomicUsize::new(1), says_which };
        let recording = events.start_recording_to_sink(sink).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        let stats = recording.stats();
        assert_eq!((stats.created, stats.updated, stats.already_existed, stats.retried), (1, 1, 0, 1));
        assert_eq!(store.events().iter().map(|event| event.count).collect::<Vec<_>>(), [2]);
        assert_balanced(&stats);
    }
}

#[test]
fn an_event_whose_name_another_one_has_gets_a_new_name_and_keeps_it() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let taken = Arc::new(Mutex::new(None::<Event>));
    let other = taken.clone();
    let (sink, _calls) = Scripted::new(&clock, move |number, op| {
        if number > 0 {
            return Ok(());
        }
        // Another writer was quicker with the very same name.
        let mut foreign = event_of(op).clone();
        foreign.reason = "Foreign".into();
        foreign.involved_object.uid = "another".into();
        *other.lock().unwrap() = Some(foreign.clone());
        Err(SinkError::already_exists("taken").with_stored(foreign))
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    for _ in 0..3 {
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
    }
    let first = taken.lock().unwrap().clone().unwrap().metadata.name;
    let names: Vec<_> = sink.calls().iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!(names[0], first);
    assert!(names[1] != first && names[1].starts_with("web-0."), "{names:?}");
    assert_eq!(names[2..], [names[1].clone(), names[1].clone()]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.retried), (1, 2, 1));
    assert_eq!(sink.store.events()[0].count, 3);
}

#[test]
fn a_group_whose_name_is_taken_goes_by_its_new_name_from_then_on() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |number, op| match op {
        SinkOp::Create(event) if event.message.starts_with("(combined") && number < 10 => {
            Err(SinkError::already_exists("taken"))
        }
        _ => Ok(()),
    });
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..12 {
        recorder.eventf(pod("web-0"), Normal, "Pulled", format_args!("image {i}"));
        events.flush(LONG).unwrap();
    }
    let calls = sink.calls();
    let names: Vec<_> = calls[9..].iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!(
        calls[9..].iter().map(short).collect::<Vec<_>>()[1..],
        ["create Pulled x1", "patch Pulled x2", "patch Pulled x3"]
    );
    assert!(names[0] != names[1] && names[1] == names[2] && names[1] == names[3], "{names:?}");
    assert_eq!((recording.stats().created, recording.stats().updated), (10, 2));
}

#[test]
fn a_name_is_changed_once_only() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send((loss.reason(), loss.to_string())).unwrap())
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, _| Err(SinkError::already_exists("taken")));
    let recording = events.start_recording_to_sink(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let names: HashSet<_> = sink.calls().iter().map(|op| event_of(op).metadata.name.clone()).collect();
    assert_eq!((sink.calls().len(), names.len()), (2, 2));
    assert_eq!(recording.stats().already_existed, 1);
    let text = "recording: 1 event lost (already exists): Pod/web-0 Started: already exists: taken";
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::AlreadyExists, text.to_owned())]);
}

// ── batches ──

/// A sink that notes the size of each batch, and answers by a function.
struct Batches {
    store: MemorySink,
    sizes: Arc<Mutex<Vec<usize>>>,
    answer: Box<dyn Fn(&MemorySink, &[SinkOp]) -> Vec<Result<Event, SinkError>> + Send + Sync>,
    hold: Box<dyn Fn() + Send + Sync>,
}

impl EventSink for Batches {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        (self.hold)();
        self.sizes.lock().unwrap().push(1);
        self.store.create(event)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.store.update(event)
    }

    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let keys: HashSet<_> = batch.iter().map(|op| event_of(op).metadata.name.clone()).collect();
        assert_eq!(keys.len(), batch.len(), "no event twice in a batch");
        self.sizes.lock().unwrap().push(batch.len());
        (self.answer)(&self.store, batch)
    }
}

/// Records one event, which holds up the sink, and then the given number of further events, which
/// reach the sink together. Returns the sizes of the batches, the statistics and the store.
fn in_batches(
    further: usize,
    answer: impl Fn(&MemorySink, &[SinkOp]) -> Vec<Result<Event, SinkError>> + Send + Sync + 'static,
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
    let recording = events.start_recording_to_sink(sink).unwrap();
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
    let (sizes, stats, store) = in_batches(600, EventSink::apply);
    assert_eq!(sizes, [1, 256, 256, 88]);
    assert_eq!((stats.created, store.len()), (601, 601));
}

#[test]
fn an_answer_that_is_missing_is_a_refusal_and_one_too_many_is_nothing() {
    let (_, stats, store) = in_batches(10, |store, batch| {
        let mut answers = store.apply(batch);
        answers.truncate(7);
        answers
    });
    assert_eq!((stats.created, stats.rejected, store.len()), (8, 3, 11));
    assert_eq!(stats.last_refusal.unwrap(), "rejected: the sink gave 7 answers to 10 operations");
    let (_, stats, _) = in_batches(10, |store, batch| {
        let mut answers = store.apply(batch);
        answers.push(Err(SinkError::rejected(Bomb)));
        answers.push(Err(SinkError::rejected(Bomb)));
        answers
    });
    assert_eq!((stats.created, stats.rejected), (11, 0));
}

#[test]
fn a_batch_in_which_the_sink_panics_is_done_again_one_by_one() {
    let (sizes, stats, store) = in_batches(10, |store, batch| {
        store.apply(&batch[..5]);
        panic!("in the middle");
    });
    // Five events had been stored already, so their names are taken by the events themselves.
    assert_eq!(sizes, [&[1, 10][..], &[1; 10][..]].concat());
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
    written: Mutex<HashMap<String, (HashSet<ThreadId>, Vec<i32>)>>,
}

impl Noting {
    fn write(&self, op: &SinkOp) -> Result<Event, SinkError> {
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

    fn patch(&self, event: &Event, patch: &eventcast::event::EventPatch) -> Result<Event, SinkError> {
        self.write(&SinkOp::Patch(event.clone(), patch.clone()))
    }
}

#[test]
fn events_of_one_key_are_written_in_order_by_one_worker_whatever_fails() {
    let clock = clock();
    let events = broadcaster(&clock, at_once().attempts(1000));
    let store = MemorySink::with_clock(eventcast::sink::MemorySinkOptions::default(), clock.clock()).unwrap();
    let sink =
        Arc::new(Noting { store: store.clone(), dice: AtomicUsize::new(1), written: Mutex::default() });
    let recording = events
        .recording()
        .correlator(without_budget())
        .overflow(OverflowPolicy::Wait)
        .queue_len(64)
        .workers(3)
        .start(sink.clone())
        .unwrap();
    let recorder = events.new_recorder("tester");
    for i in 0..6_000 {
        while !recorder.event(pod(&format!("web-{}", i % 40)), Normal, "Started", "message").is_accepted() {
            thread::yield_now();
        }
    }
    events.flush(LONG).unwrap();
    let written = sink.written.lock().unwrap();
    assert_eq!(written.len(), 40);
    for (name, (threads, counts)) in written.iter() {
        assert_eq!(threads.len(), 1, "{name}");
        assert!(counts.is_sorted_by(|a, b| a < b), "{name}: {counts:?}");
    }
    let all: HashSet<ThreadId> = written.values().flat_map(|(threads, _)| threads.iter().copied()).collect();
    assert_eq!(all.len(), 3);
    assert!(store.events().iter().all(|event| event.count == 150), "nothing was lost");
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated), (40, 5_960));
    assert_balanced(&stats);
}

#[test]
fn a_worker_that_hangs_holds_up_its_own_events_and_no_deadline() {
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
    // About half of these events belong to the other worker.
    until(|| recording.stats().created >= 20);
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
    assert_eq!(stats.created + stats.abandoned + stats.watcher.dropped.total(), 101);
    assert!(stats.created >= 21 && stats.abandoned > 0, "{stats}");
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

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
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

// ── which errors are worth it ──

#[test]
fn errors_that_are_not_worth_another_attempt_get_none() {
    let clock = clock();
    let events = broadcaster(&clock, at_once());
    let (sink, _calls) = Scripted::new(&clock, |number, op| match &*event_of(op).reason {
        "Asked" if number < 2 => Err(SinkError::retry_after("busy", Duration::ZERO)),
        "Asked" => Ok(()),
        "Panics" => Err(SinkError::retry("panic")),
        _ => Err(SinkError::retry("503")),
    });
    let recording = events
        .recording()
        .retry_if(|error| {
            assert!(!error.to_string().contains("panic"), "a function that panics");
            error.wait().is_some()
        })
        .start(sink.clone())
        .unwrap();
    for reason in ["Asked", "Plain", "Panics"] {
        record(&events, "web-0", reason);
        events.flush(LONG).unwrap();
    }
    let stats = recording.stats();
    assert_eq!((stats.created, stats.exhausted), (1, 2));
    let tries = |reason: &str| sink.calls().iter().filter(|op| reason_of(op) == reason).count();
    assert_eq!((tries("Asked"), tries("Plain"), tries("Panics")), (3, 1, 12));
    assert_eq!(stats.panics, 12);
    assert_balanced(&stats);
}

#[test]
fn a_refusal_is_told_with_the_stores_words_escaped_and_cut() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| losses_tx.send(loss.to_string()).unwrap())
        .build()
        .unwrap();
    let (sink, _calls) = Scripted::new(&clock, |_, _| {
        Err(SinkError::rejected(format!("\u{1b}[2J\r\n{}", "no ".repeat(1000))))
    });
    let recording = events.start_recording_to_sink(sink).unwrap();
    record(&events, "web-0", "Started");
    events.flush(LONG).unwrap();
    let told = losses.try_recv().unwrap();
    let refusal = recording.stats().last_refusal.unwrap();
    assert!(told.ends_with(&refusal) && refusal.starts_with(r"rejected: \u{1b}[2J\r\nno no"), "{told}");
    assert_eq!(refusal.chars().count(), "rejected: ".len() + 1000);
    assert!(recording.stats().to_string().ends_with(&format!(", last refusal: {refusal}")));
}
