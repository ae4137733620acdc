//! Pending writes. A later event with the same key replaces the content of the key's write,
//! whatever state the write is in.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::sink::SinkOp;
use eventcast::{EventType, SinkError};

use crate::support::{
    LONG, Scripted, assert_balanced, at_once, clock, clocked, every_ten_seconds, gate, pod, record, tried,
    until, with_losses,
};

use super::{PAUSE, broadcaster, counts, retry, with_policy, without_budget};

/// One key's write is in the sink, another key's write is waiting for its next attempt, and a third
/// key's write is waiting for its turn.
#[test]
fn a_write_is_replaced_wherever_it_is() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let failures = AtomicUsize::new(0);
    let (sink, calls) = Scripted::new(&clock, move |_, op| match &*op.event().reason {
        "Waits" if failures.fetch_add(1, Ordering::SeqCst) == 0 => Err(SinkError::retry("busy")),
        "AtTheSink" if op.event().count == 1 => {
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
    gate.wait();
    record(&events, "web-0", "Queued");
    for _ in 0..3 {
        for reason in ["AtTheSink", "Waits", "Queued"] {
            record(&events, "web-0", reason);
        }
    }
    // The event in the sink and one event for each of the three pending writes use capacity.
    until(|| recording.stats().watcher.offered == 12 && recording.stats().watcher.lag == 4);
    gate.let_one_pass();
    until(|| recording.stats().watcher.queued == 1);
    assert_eq!(
        sink.shorts(),
        ["create Waits x1", "create AtTheSink x1", "create Queued x4", "patch AtTheSink x4"],
        "the pending writes go out in the order in which they became pending"
    );
    clock.wait_for_waiters(1);
    clock.advance(PAUSE);
    events.flush(LONG).unwrap();
    assert_eq!(sink.shorts()[4..], ["create Waits x4"]);
    assert!(sink.store.events().iter().all(|event| event.count == 4));
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.retried), (3, 9, 1));
    assert_eq!((stats.written(), stats.coalesced), (4, 8));
}

/// For a group of similar events, the message and the last time change with each event, while the
/// first time and the name stay the same.
#[test]
fn a_replaced_write_has_the_newest_message_and_time() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
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
    // The tenth event is the first one in the group.
    (0..10).for_each(pull);
    gate.wait();
    for image in 10..15 {
        clock.advance(PAUSE);
        pull(image);
        until(|| recording.stats().aggregated == image - 8);
    }
    drop(gate);
    events.flush(LONG).unwrap();
    let calls = sink.calls();
    let group: Vec<_> = calls[9..].iter().map(SinkOp::event).collect();
    assert_eq!(group.iter().map(|event| event.count).collect::<Vec<_>>(), [1, 6], "{:?}", sink.shorts());
    assert_eq!(group[1].message, "(combined from similar events): image 14");
    assert_eq!((group[0].metadata.name.clone(), group[0].first_timestamp), {
        (group[1].metadata.name.clone(), group[1].first_timestamp)
    });
    let last = group[1].last_timestamp.unwrap().duration_since(group[0].last_timestamp.unwrap());
    assert_eq!(last, 5 * PAUSE);
    assert_balanced(&recording.stats());
}

/// The responses to the first create operations are lost, although the first create operation
/// succeeded. The last create operation has a higher count, which the store receives as a change.
/// The store may or may not return the event that it already has.
#[test]
fn a_creation_that_was_done_after_all_becomes_a_change() {
    for (lost, shows) in [(1, true), (1, false), (2, false)] {
        let clock = clock();
        let events = broadcaster(&clock);
        let (sink, calls) = Scripted::lossy(&clock, lost, shows);
        let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
        record(&events, "web-0", "Started");
        tried(&calls, &clock);
        (0..4).for_each(|_| record(&events, "web-0", "Started"));
        until(|| recording.stats().watcher.offered == 5 && recording.stats().watcher.lag == 1);
        for _ in 1..lost {
            clock.advance(PAUSE);
            tried(&calls, &clock);
        }
        clock.advance(PAUSE);
        events.flush(LONG).unwrap();
        let again = ["create Started x5", "create Started x5"];
        let expected = [&["create Started x1"], &again[..lost], &["patch Started x5"]].concat();
        assert_eq!(sink.shorts(), expected);
        assert_eq!(counts(&sink.store), [5]);
        let stats = recording.stats();
        assert_balanced(&stats);
        assert_eq!((stats.created, stats.updated, stats.written()), (1, 4, 1));
    }
}

/// If a write is refused, all events that it represents are lost, until a later write of the key
/// carries their count.
#[test]
fn events_that_share_a_write_are_refused_together() {
    let clock = clock();
    let (events, losses) =
        with_losses(clocked(&clock), |loss| (loss.reason, loss.count, loss.events[0].count));
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |number, _| {
        pass();
        if number == 1 { Err(SinkError::rejected("no")) } else { Ok(()) }
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    for call in 0..2 {
        gate.wait();
        (0..3).for_each(|_| record(&events, "web-0", "Started"));
        until(|| recording.stats().watcher.offered == 4 + 3 * call && recording.stats().watcher.lag == 2);
        gate.let_one_pass();
    }
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!(sink.shorts(), ["create Started x1", "patch Started x4", "patch Started x7"]);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::Rejected, 3, 4)]);
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.rejected, stats.coalesced), (1, 6, 0, 5));
}

/// No event is lost even if there are many more than the queue can hold, because a repeat of a
/// waiting event does not use any capacity.
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
    let recording = events.recording().correlator(without_budget()).queue_capacity(1000).start(sink.clone());
    let recording = recording.unwrap();
    record(&events, "web-0", "BackOff");
    gate.wait();
    let are_folded = |offered: u64| {
        let watcher = recording.stats().watcher;
        watcher.offered == offered && watcher.lag <= OBJECTS + 1
    };
    for number in 1..EVENTS {
        record(&events, &format!("web-{}", number % OBJECTS), "BackOff");
        if number % 500 == 0 {
            // Keeps the dispatcher from getting ahead of the recording by a whole queue.
            until(|| are_folded(number + 1));
        }
    }
    until(|| are_folded(EVENTS));
    // Two events about the first object use capacity: one is in the sink, and one is waiting for
    // it.
    assert_eq!(recording.stats().watcher.lag, OBJECTS + 1);
    assert_eq!(sink.calls().len(), 1, "the sink is hanging");
    drop(gate);
    events.flush(LONG).unwrap();

    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated, stats.lost()), (OBJECTS, EVENTS - OBJECTS, 0));
    assert_eq!(sink.calls().len() as u64, OBJECTS + 1, "{:?}", sink.shorts());
    assert_eq!((stats.written(), stats.coalesced), (OBJECTS + 1, EVENTS - OBJECTS - 1));
    for event in sink.store.events() {
        let number: u64 = event.involved_object.name["web-".len()..].parse().unwrap();
        let expected = EVENTS / OBJECTS + u64::from(number < EVENTS % OBJECTS);
        assert_eq!(u64::try_from(event.count).unwrap(), expected, "web-{number}");
    }
}

/// The sink performs one operation while twenty events with one key are recorded.
#[test]
fn a_hot_key_and_a_slow_sink_cost_a_write_for_each_call() {
    const CALLS: u64 = 50;
    const EACH: u64 = 20;
    let clock = clock();
    let events = broadcaster(&clock);
    let (gate, pass) = gate();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    record(&events, "web-0", "BackOff");
    for call in 1..=CALLS {
        gate.wait();
        for _ in 0..EACH {
            record(&events, "web-0", "BackOff");
        }
        until(|| {
            let watcher = recording.stats().watcher;
            watcher.offered == 1 + EACH * call && watcher.lag == 2
        });
        gate.let_one_pass();
        calls.recv_timeout(LONG).unwrap();
    }
    drop(gate);
    events.flush(LONG).unwrap();

    let counts: Vec<u64> = sink.calls().iter().map(|op| u64::try_from(op.event().count).unwrap()).collect();
    assert_eq!(counts, (0..=CALLS).map(|call| 1 + EACH * call).collect::<Vec<_>>());
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.updated), (1, EACH * CALLS));
    assert_eq!((stats.written(), stats.coalesced), (CALLS + 1, (EACH - 1) * CALLS));
}

#[test]
fn events_for_a_key_that_waits_are_counted_and_written_together() {
    let clock = clock();
    let events = with_policy(&clock, every_ten_seconds());
    let (sink, calls, is_back) = Scripted::failing(&clock, retry);
    let recording =
        events.recording().correlator(without_budget()).queue_capacity(8).start(sink.clone()).unwrap();
    record(&events, "web-0", "Started");
    tried(&calls, &clock);
    // These are many more events than the queue can hold. Each event leaves the queue as soon as it
    // is counted.
    for i in 2..=100 {
        record(&events, "web-0", "Started");
        until(|| recording.stats().watcher.offered == i && recording.stats().watcher.lag <= 2);
    }
    is_back.store(true, Ordering::SeqCst);
    clock.advance(Duration::from_secs(10));
    events.flush(LONG).unwrap();

    assert_eq!(sink.shorts(), ["create Started x1", "create Started x100"]);
    assert_eq!(sink.store.events()[0].count, 100);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.coalesced), (1, 99, 99));
    assert_eq!(stats.watcher.dropped.total(), 0);
    assert_balanced(&stats);
}

#[test]
fn a_repeat_follows_the_event_that_it_repeats() {
    // Whether in the same batch or in a later one, the patch follows the creation and uses the name
    // and version that the creation gave the event.
    let clock = clock();
    let events = with_policy(&clock, at_once());
    let sink = Scripted::obedient(&clock);
    let recording = events.recording().correlator(without_budget()).start(sink.clone()).unwrap();
    let recorder = events.recorder("tester");
    for i in 0..300 {
        assert!(recorder.event(pod(&format!("web-{}", i % 30)), Normal, "Started", "message").is_accepted());
    }
    events.flush(LONG).unwrap();
    let mut seen: HashMap<String, Vec<i32>> = HashMap::new();
    let mut versions: HashMap<String, String> = HashMap::new();
    for op in sink.calls() {
        let event = op.event();
        let counts = seen.entry(event.involved_object.name.to_string()).or_default();
        counts.push(event.count);
        assert_eq!(counts.len() == 1, matches!(op, SinkOp::Create(_)));
        let version = event.metadata.resource_version().to_string();
        let before = versions.insert(event.metadata.name.to_string(), version.clone());
        assert!(before.is_none() || before.as_ref() != Some(&version), "{before:?} again");
    }
    // The number of repeats that share a write depends on how fast the sink is.
    for counts in seen.values() {
        assert!(counts.is_sorted_by(|a, b| a < b) && counts.last() == Some(&10), "{seen:?}");
    }
    let writes: usize = seen.values().map(Vec::len).sum();
    assert_eq!(recording.stats().written(), writes as u64);
    assert_eq!((recording.stats().created, recording.stats().updated), (30, 270));
}
