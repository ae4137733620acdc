//! Dropping a broadcaster.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::testing::FakeClock;
use eventcast::{EventBroadcaster, MemorySink, Recorded, SinkError};
use test_support::watched;

use crate::support::{
    LONG, Scripted, assert_balanced, clock, clocked, gate, modes, pod, record, until, with_losses,
};

use super::collect;

#[test]
fn dropping_waits_for_handlers_and_sinks() {
    for bus in modes() {
        let (events, losses) = with_losses(clocked(&clock()).bus(bus), |loss| loss.to_string());
        let store = MemorySink::new();
        events.record_to(store.clone()).unwrap();
        let (seen, handler) = collect();
        events.spawn(handler).unwrap();
        let (recorder, other) = (events.recorder("tester"), events.clone());
        drop(events);
        for i in 0..100 {
            assert!(recorder.normal(pod(&format!("web-{i}")), "Started", "up").is_accepted());
        }
        drop(other);
        assert_eq!((store.len(), seen.lock().unwrap().len()), (100, 100));
        assert_eq!(recorder.normal(pod("late"), "Started", "up"), Recorded::Closed);
        // A drop that finishes in time reports only the refused event.
        assert_eq!(
            losses.try_iter().collect::<Vec<_>>(),
            ["tester: 1 event lost (broadcaster closed): Pod/late Started"]
        );
    }
}

#[test]
fn dropping_waits_no_longer_than_it_may_and_loses_nothing() {
    let clock = clock();
    let events = clocked(&clock).drop_timeout(Duration::from_secs(3)).build().unwrap();
    let (gate, pass) = gate();
    let (sink, calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Ok(())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    gate.wait();
    let dropping = thread::spawn(move || drop(events));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(2_999));
    assert!(!dropping.is_finished());
    clock.advance(Duration::from_millis(1));
    dropping.join().unwrap();
    assert!(calls.try_recv().is_err(), "no event has been stored yet");

    drop(gate);
    assert!(recording.join(LONG));
    assert_eq!(sink.store.len(), 2);
    assert_balanced(&recording.stats());
}

/// The losses that a broadcaster's hook receives, each with its reason, place and count.
type Losses = mpsc::Receiver<(LossReason, String, u64)>;

/// Returns a broadcaster that waits for up to three seconds when it is dropped, and a channel that
/// receives its losses.
fn waiting_three_seconds(clock: &FakeClock) -> (EventBroadcaster, Losses) {
    with_losses(clocked(clock).drop_timeout(Duration::from_secs(3)), |loss| {
        assert!(loss.events.is_empty() || loss.reason != LossReason::LeftBehind);
        (loss.reason, loss.place.to_owned(), loss.count)
    })
}

/// Drops a broadcaster and advances the clock past the drop timeout.
fn drop_late(clock: &FakeClock, events: EventBroadcaster) {
    let dropping = thread::spawn(move || drop(events));
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_secs(3));
    dropping.join().unwrap();
}

#[test]
fn events_unfinished_at_a_drop_are_reported_and_still_written() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let (gate, sink) = Scripted::gated(&clock, ..);
    let slow = events.recording().name("slow").start(sink.clone()).unwrap();
    let quick = events.recording().name("quick").start(MemorySink::new()).unwrap();
    for pod in 0..10 {
        record(&events, &format!("web-{pod}"), "Started");
    }
    until(|| slow.stats().watcher.offered == 10 && quick.stats().created == 10);
    drop_late(&clock, events);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [(LossReason::LeftBehind, "slow".to_owned(), 10)]);

    drop(gate);
    assert!(slow.join(LONG));
    assert_eq!((sink.store.len(), slow.stats().created, slow.stats().lost()), (10, 10, 0));
    assert_eq!(losses.try_iter().count(), 0);
}

/// The report made when the broadcaster is dropped does not count as a loss report, so a later loss
/// is reported as usual.
#[test]
fn an_event_that_is_lost_after_a_drop_is_counted_once() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let (gate, pass) = gate();
    let (sink, _calls) = Scripted::new(&clock, move |_, _| {
        pass();
        Err(SinkError::rejected("full"))
    });
    let recording = events.record_to(sink).unwrap();
    record(&events, "web-0", "Started");
    until(|| recording.stats().watcher.offered == 1);
    drop_late(&clock, events);
    drop(gate);
    assert!(recording.join(LONG));
    let reasons: Vec<_> = losses.try_iter().map(|(reason, _, count)| (reason, count)).collect();
    assert_eq!(reasons, [(LossReason::LeftBehind, 1), (LossReason::Rejected, 1)]);
    assert_eq!((recording.stats().rejected, recording.stats().lost()), (1, 1));
}

#[test]
fn an_unfinished_log_and_handler_are_reported_at_a_drop() {
    let clock = clock();
    let (events, losses) = waiting_three_seconds(&clock);
    let [(log_gate, log_pass), (handler_gate, handler_pass)] = [gate(), gate()];
    let log = events.log_to(move |_| log_pass()).unwrap();
    let handler = events.spawn(move |_| handler_pass()).unwrap();
    for pod in 0..3 {
        record(&events, &format!("web-{pod}"), "Started");
    }
    for gate in [&log_gate, &handler_gate] {
        gate.wait();
    }
    until(|| [&log, &handler].iter().all(|handle| handle.stats().offered == 3));
    let name = handler.stats().name;
    drop_late(&clock, events);
    let told: Vec<_> = losses.try_iter().collect();
    let told: Vec<_> = told.iter().map(|(_, place, count)| (place.as_str(), *count)).collect();
    assert_eq!(told, [("logging", 3), (name.as_str(), 3)], "the event being handled is included");
    drop((log_gate, handler_gate));
    assert!(log.join(LONG) && handler.join(LONG));
}

#[test]
fn dropping_does_not_wait_with_a_timeout_of_zero() {
    let clock = clock();
    let events = clocked(&clock).drop_timeout(Duration::ZERO).build().unwrap();
    let (gate, pass) = gate();
    let handler = events.spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    // The clock is not advanced, so any wait would last forever.
    drop(events);
    assert!(!handler.join(Duration::ZERO));
    drop(gate);
    assert!(handler.join(LONG));
}

#[test]
fn dropping_in_a_handler_does_not_wait() {
    let clock = clock();
    let events = Arc::new(clocked(&clock).build().unwrap());
    let last = Arc::new(Mutex::new(None::<Arc<EventBroadcaster>>));
    let taken = last.clone();
    let (tx, dropped) = mpsc::channel();
    let handler = events
        .spawn(move |_| {
            drop(taken.lock().unwrap().take());
            tx.send(()).unwrap();
        })
        .unwrap();
    record(&events, "a", "Started");
    let recorder = events.recorder("tester");
    // The handler may already be waiting for the broadcaster, or may find it here later.
    *last.lock().unwrap() = Some(events);
    dropped.recv_timeout(LONG).unwrap();
    // If the handler looked too early, the second event makes it drop the last owner.
    if last.lock().unwrap().is_some() {
        recorder.event(pod("b"), Normal, "Started", "");
    }
    assert!(handler.join(LONG));
    assert_eq!(recorder.event(pod("c"), Normal, "Started", ""), Recorded::Closed);
}

/// The last owner of a broadcaster may be any of the broadcaster's own threads.
#[test]
fn a_broadcaster_may_be_dropped_by_the_dispatcher() {
    watched(|| {
        let (tx, rx) = mpsc::channel();
        let events = Arc::new(EventBroadcaster::new().unwrap());
        let recorder = events.recorder("tester");
        let slot = Arc::new(Mutex::new(None));
        let own = slot.clone();
        let mut watcher = events
            .watch_builder()
            .filter(move |_| {
                let last: Option<Arc<EventBroadcaster>> = own.lock().unwrap().take();
                drop(last);
                tx.send(()).unwrap();
                true
            })
            .watch()
            .unwrap();
        *slot.lock().unwrap() = Some(events);
        assert!(recorder.event(pod("a"), Normal, "R", "").is_accepted());
        rx.recv_timeout(LONG).unwrap();
        assert_eq!(watcher.events().count(), 1);
    });
}

#[test]
fn a_test_that_fails_with_a_broadcaster_in_hand_does_not_hang() {
    let clock = clock();
    let events = clocked(&clock).build().unwrap();
    let (gate, pass) = gate();
    events.spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    let failed = thread::spawn(move || {
        let _held = events;
        panic!("a test that fails");
    });
    assert!(failed.join().is_err());
    drop(gate);
}
