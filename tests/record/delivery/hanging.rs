//! Events are taken in and folded while the sink hangs or is slow.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::record::LossReason;
use eventcast::sink::{SinkBatch, SinkMode, Stored};
use eventcast::{Event, EventBroadcaster, EventSink, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, gate, record, until};

use super::{broadcaster, calls_of, turnstile, without_budget};

/// Nothing is lost of many more events than the queue holds, because a repeat of an event that
/// waits takes no room.
#[test]
fn repeats_are_taken_in_while_the_sink_hangs() {
    const EVENTS: u64 = 2_398;
    const OBJECTS: u64 = 20;
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let is_first = AtomicBool::new(true);
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        if is_first.swap(false, Ordering::SeqCst) {
            pass();
        }
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).queue_len(1000).start(sink.clone());
    let recording = recording.unwrap();
    record(&events, "web-0", "BackOff");
    gate.entered.recv_timeout(LONG).unwrap();
    let are_folded = |offered: u64| {
        let watcher = recording.stats().watcher;
        watcher.offered == offered && watcher.lag <= OBJECTS + 1
    };
    for number in 1..EVENTS {
        record(&events, &format!("web-{}", number % OBJECTS), "BackOff");
        if number % 500 == 0 {
            // The dispatcher is not to be ahead of the recording by a whole queue.
            until(|| are_folded(number + 1));
        }
    }
    until(|| are_folded(EVENTS));
    // Two events of the first object take room: one that the sink has, and one that waits behind
    // it.
    assert_eq!(recording.stats().watcher.lag, OBJECTS + 1);
    assert_eq!(sink.calls().len(), 1, "the sink hangs");
    drop(gate);
    events.flush(LONG).unwrap();

    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.lost()), (OBJECTS, EVENTS - OBJECTS, 0));
    assert_eq!(sink.calls().len() as u64, OBJECTS + 1, "{:?}", calls_of(&sink));
    assert_eq!((stats.written(), stats.coalesced), (OBJECTS + 1, EVENTS - OBJECTS - 1));
    for event in sink.store.events() {
        let number: u64 = event.involved_object.name["web-".len()..].parse().unwrap();
        let expected = EVENTS / OBJECTS + u64::from(number < EVENTS % OBJECTS);
        assert_eq!(u64::try_from(event.count).unwrap(), expected, "web-{number}");
    }
}

/// The sink does one operation while twenty events of one key come.
#[test]
fn a_hot_key_behind_a_slow_sink_costs_a_write_for_each_call() {
    const CALLS: u64 = 50;
    const EACH: u64 = 20;
    let clock = clock();
    let events = broadcaster(&clock);
    let (turnstile, pass) = turnstile();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "BackOff");
    for call in 1..=CALLS {
        turnstile.wait();
        for _ in 0..EACH {
            record(&events, "web-0", "BackOff");
        }
        until(|| {
            let watcher = recording.stats().watcher;
            watcher.offered == 1 + EACH * call && watcher.lag == 2
        });
        turnstile.let_one_pass();
        calls.recv_timeout(LONG).unwrap();
    }
    drop(turnstile);
    events.flush(LONG).unwrap();

    let counts: Vec<u64> = sink.calls().iter().map(|op| u64::try_from(event_of(op).count).unwrap()).collect();
    assert_eq!(counts, (0..=CALLS).map(|call| 1 + EACH * call).collect::<Vec<_>>());
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated), (1, EACH * CALLS));
    assert_eq!((stats.written(), stats.coalesced), (CALLS + 1, (EACH - 1) * CALLS));
}

/// Of two workers one hangs. All events are written meanwhile except those of its key.
#[test]
fn a_worker_that_hangs_holds_up_its_own_key_only() {
    const OBJECTS: usize = 60;
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let is_hanging = AtomicBool::new(false);
    let (sink, _calls) = Scripted::new(&clock, move |_, op| {
        let event = event_of(op);
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
    gate.entered.recv_timeout(LONG).unwrap();
    for count in 3..6 {
        record_all();
        until(|| all[1..].iter().all(|name| count_of(name) == count));
        assert_eq!(count_of(&all[0]), 1);
    }
    // One that the sink has, and one that waits behind it and stands for all others.
    until(|| recording.stats().watcher.queued == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    assert!(all.iter().all(|name| count_of(name) == 5));
    assert_balanced(&recording.stats());
}

/// A sink that notes the size of each batch, and whose first calls take long.
struct SlowAtFirst {
    sizes: Arc<Mutex<Vec<usize>>>,
    slow: usize,
}

impl EventSink for SlowAtFirst {
    fn create(&self, _: &Event) -> Result<Event, SinkError> {
        unreachable!("a recording calls `submit`")
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }

    fn mode(&self) -> SinkMode {
        SinkMode::Batches
    }

    fn submit(&self, batch: SinkBatch) {
        let calls = {
            let mut sizes = self.sizes.lock().unwrap();
            sizes.push(batch.ops().len());
            sizes.len()
        };
        if calls <= self.slow {
            // Longer than a batch should take: what is measured here is real time.
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(260) {
                thread::yield_now();
            }
        }
        batch.answer_each(|op| Ok(Stored::from(op.event())));
    }
}

/// Returns the sizes of the batches in which a sink gets 60 events that wait already, if its first
/// calls are slow. The clock is the system's, because a call takes real time.
fn sizes(slow: usize) -> Vec<usize> {
    const EVENTS: usize = 60;
    let events = EventBroadcaster::new().unwrap();
    let (gate, pass) = gate();
    // This runs on the recording's thread, which has to find all events in its queue.
    let options = without_budget().aggregate_key(move |event| {
        pass();
        (event.involved_object.name.clone(), event.message.clone())
    });
    let sizes: Arc<Mutex<Vec<usize>>> = Arc::default();
    let sink = SlowAtFirst { sizes: sizes.clone(), slow };
    let recording = events.recording().correlator(options).start(sink).unwrap();
    // This watcher gets each event after the recording, which was registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    for number in 0..EVENTS {
        record(&events, &format!("web-{number}"), "Started");
    }
    gate.entered.recv_timeout(LONG).unwrap();
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
    // One slow answer says little about the sink.
    assert_eq!(sizes(1)[..2], [16, 16]);
    let slow = sizes(2);
    assert_eq!(slow[..3], [16, 16, 8], "{slow:?}");
}

/// A deadline passes while the sink hangs. The loss of a write is the loss of all events for which
/// it stands, and the hook gets the newest of them.
#[test]
fn events_that_share_a_write_are_given_up_together() {
    let clock = clock();
    let (losses_tx, losses) = mpsc::channel();
    let events = EventBroadcaster::builder()
        .clock(clock.clock())
        .on_loss(move |loss| {
            let event = &loss.events[0];
            losses_tx.send((loss.reason, loss.count, event.reason.to_string(), event.count)).unwrap();
        })
        .build()
        .unwrap();
    let events = Arc::new(events);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    gate.entered.recv_timeout(LONG).unwrap();
    for reason in ["A", "B", "B", "A", "B", "A"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.offered == 7 && recording.stats().watcher.lag == 3);
    let closing = events.clone();
    let shutdown = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(5)));
    clock.wait_for_waiters(1);
    until(|| {
        clock.advance(Duration::from_secs(1));
        shutdown.is_finished()
    });
    assert!(!shutdown.join().unwrap().complete);
    let told: Vec<_> = (0..2).map(|_| losses.recv_timeout(LONG).unwrap()).collect();
    let abandoned = |reason: &str, count, newest| (LossReason::Abandoned, count, reason.to_owned(), newest);
    assert_eq!(told, [abandoned("A", 3, 4), abandoned("B", 3, 3)]);
    drop(gate);
    assert!(recording.join(LONG));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.abandoned, stats.coalesced), (1, 6, 0));
    assert!(losses.try_recv().is_err());
    assert_eq!(calls_of(&sink), ["create A x1"]);
}
