//! Reports of what a handler or a watcher loses.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::record::LossReason;
use eventcast::stats::DropReason;
use eventcast::{BusOptions, Delivery, Event, EventBroadcaster, OverflowPolicy};

use crate::support::{LONG, gate, record, until};

use super::Shared;

/// Returns a broadcaster, and the list of all that its `on_loss` learns: the reason, the place, and
/// the events.
fn told() -> (Shared<(LossReason, String, Vec<String>)>, EventBroadcaster) {
    let told = Shared::default();
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .bus(BusOptions::default().queue_len(1))
        .on_loss(move |loss| {
            let reasons: Vec<_> = loss.events.iter().map(|event| event.reason.to_string()).collect();
            assert_eq!(loss.count, reasons.len() as u64);
            into.lock().unwrap().push((loss.reason, loss.place.to_owned(), reasons));
        })
        .build()
        .unwrap();
    (told, events)
}

#[test]
fn an_event_at_which_a_handler_panics_is_told_with_the_handlers_name() {
    let (told, events) = told();
    let is = |wanted: &'static str| move |event: &Event| assert!(event.reason != wanted, "{wanted}");
    let watcher = events.spawn(is("Watcher")).unwrap();
    events.log_to(|line| assert!(!line.contains("  Logging  "), "log")).unwrap();
    let panics = |wanted| {
        let check = is(wanted);
        move |delivery: Delivery<&Event>| check(delivery.event().unwrap())
    };
    let spawned = events.watch_builder().name("spawned").spawn(panics("Spawned")).unwrap();
    // The runner's own hook for the losses of its queue makes no difference.
    let own =
        events.watch_builder().name("own").on_drop(|_, _| ()).stop_on_panic(true).runner(panics("Runner"));
    let own = own.unwrap();
    let (ran_tx, ran) = mpsc::channel();
    thread::spawn(move || {
        own.run();
        ran_tx.send(()).unwrap();
    });
    for reason in ["Watcher", "Logging", "Spawned", "Runner", "Fine"] {
        record(&events, "web-0", reason);
        events.flush(LONG).unwrap();
    }
    ran.recv_timeout(LONG).expect("it was to stop");
    let places = [watcher.stats().name, "logging".to_owned(), "spawned".to_owned(), "own".to_owned()];
    let expected: Vec<_> = ["Watcher", "Logging", "Spawned", "Runner"]
        .into_iter()
        .zip(places)
        .map(|(reason, place)| (LossReason::HandlerPanicked, place, vec![reason.to_owned()]))
        .collect();
    assert_eq!(*told.lock().unwrap(), expected);
    assert_eq!((spawned.stats().delivered, spawned.stats().panics), (5, 1), "it went on");
    assert_eq!(LossReason::HandlerPanicked.to_string(), "handler panicked");
    assert!(events.shutdown().complete);
}

/// The events of a gap were reported when they were lost.
#[test]
fn a_panic_at_a_gap_is_counted_and_not_told() {
    let (told, events) = told();
    let (gate, pass) = gate();
    let handler = events.watch_builder().name("gaps").spawn(move |delivery: Delivery<&Event>| {
        assert!(delivery.event().is_some(), "a gap");
        pass();
    });
    let handler = handler.unwrap();
    record(&events, "web-0", "First");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "web-0", "Second");
    until(|| handler.stats().offered == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!((handler.stats().delivered, handler.stats().panics), (1, 1));
    let incoming = LossReason::Dropped(DropReason::Incoming);
    assert_eq!(*told.lock().unwrap(), [(incoming, "gaps".to_owned(), vec!["Second".to_owned()])]);
}

/// `on_loss` learns of the events that a handler discards at a deadline, although nobody asks
/// again.
#[test]
fn what_a_handler_gives_up_at_a_deadline_is_told() {
    let told = Shared::default();
    let into = told.clone();
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            into.lock().unwrap().push((loss.reason, loss.place.to_owned(), loss.count));
        })
        .build()
        .unwrap();
    let (gate, pass) = gate();
    let handler = events.watch_builder().name("slow").spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.entered.recv_timeout(LONG).unwrap();
    record(&events, "b", "Started");
    record(&events, "c", "Started");
    until(|| handler.stats().queued == 3);
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    drop(gate);
    assert!(handler.join(LONG));
    let count = |told: &Shared<(LossReason, String, u64)>| -> u64 {
        told.lock().unwrap().iter().map(|(_, _, count)| count).sum()
    };
    until(|| handler.stats().lag == 0 && count(&told) >= handler.stats().dropped.abandoned);
    assert_eq!((handler.stats().dropped.abandoned, count(&told)), (2, 2));
    let abandoned = LossReason::Dropped(DropReason::Abandoned);
    assert!(told.lock().unwrap().iter().all(|(reason, place, _)| (*reason, &**place) == (abandoned, "slow")));
}

/// Each loss is reported once: to the watcher's own hook if there is one, and otherwise to the
/// broadcaster's.
#[test]
fn what_a_hook_of_the_watchers_own_learns_is_told_to_nobody_else() {
    let (told, events) = told();
    let own = Shared::default();
    let into = own.clone();
    let watcher = events
        .watch_builder()
        .overflow(OverflowPolicy::Wait)
        .on_drop(move |reason, events| into.lock().unwrap().extend(events.iter().map(|_| reason)))
        .watch()
        .unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    assert!(!events.shutdown_timeout(Duration::ZERO).complete);
    until(|| watcher.stats().dropped.abandoned == 2);
    events.shutdown();
    assert_eq!(*own.lock().unwrap(), [DropReason::Abandoned; 2]);
    assert_eq!(*told.lock().unwrap(), []);
}
