//! Reports of losses to `on_loss`.

use std::sync::mpsc::Receiver;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::LossReason;
use eventcast::stats::DropReason;
use eventcast::{BusOptions, Delivery, Event, EventBroadcaster, OverflowPolicy, Recorded};

use crate::support::{LONG, clock, clocked, gate, pod, record, until, with_losses};

use super::Shared;

#[test]
fn on_loss_reports_every_refusal() {
    let builder = EventBroadcaster::builder()
        .bus(BusOptions::default().incoming_capacity(1).max_batch(1))
        .scrub(|event| assert!(event.reason != "Unscrubbable", "a scrub that panics"));
    let (events, losses) = with_losses(builder, |loss| (loss.reason, loss.to_string()));
    let recorder = events.recorder("tester");
    let secret = "not for the log";
    assert_eq!(recorder.event(pod("a"), Normal, "", secret), Recorded::EmptyReason);
    assert_eq!(recorder.event(pod("a"), Normal, "Unscrubbable", secret), Recorded::ScrubPanicked);
    // No thread reads from this watcher, so it blocks the dispatcher and the incoming queue fills
    // up.
    let held =
        events.watch_builder().name("held").queue_capacity(1).overflow(OverflowPolicy::Wait).watch().unwrap();
    until(|| recorder.event(pod("a\u{1b}"), Normal, "Full", secret) == Recorded::Full);
    drop(held);
    events.shutdown();
    assert_eq!(recorder.event(pod("a"), Normal, "Late", secret), Recorded::Closed);

    // The watcher may also have lost the event that the dispatcher was offering when the watcher
    // was dropped.
    let is_refusal = |loss: &(LossReason, String)| !matches!(loss.0, LossReason::Dropped(_));
    let losses: Vec<_> = losses.try_iter().filter(is_refusal).collect();
    let (first, last) = (&losses[..2], losses.last().unwrap());
    assert_eq!(first[0], (LossReason::EmptyReason, "tester: 1 event lost (empty reason): Pod/a".to_owned()));
    assert_eq!(first[1].0, LossReason::ScrubPanicked);
    assert_eq!(
        losses[2],
        (LossReason::QueueFull, r"tester: 1 event lost (queue full): Pod/a\u{1b} Full".to_owned())
    );
    assert_eq!(last.0, LossReason::Closed);
    assert!(losses.iter().all(|(_, text)| !text.contains(secret)));
    let stats = events.stats();
    assert_eq!(losses.len() as u64, stats.recorder.refused());
}

#[test]
fn on_loss_reports_watchers_without_a_hook() {
    let (events, losses) =
        with_losses(EventBroadcaster::builder(), |loss| (loss.reason, loss.place.to_owned(), loss.count));
    let own = Shared::default();
    let into = own.clone();
    let _small = events.watch_builder().name("small").queue_capacity(1).watch().unwrap();
    let newest = events.watch_builder().name("newest").queue_capacity(1).overflow(OverflowPolicy::DropOldest);
    let _newest = newest.watch().unwrap();
    // A newer event of the same reason replaces an event, which is not a loss.
    let newest_by_reason = events.watch_builder().conflate_by(|event| event.reason.clone());
    let newest_by_reason = newest_by_reason.watch().unwrap();
    let hook = move |reason, events: &[Event]| into.lock().unwrap().push((reason, events.len()));
    let _other = events.watch_builder().queue_capacity(1).on_drop(hook).watch().unwrap();
    for name in ["a", "b"] {
        record(&events, name, "Started");
        events.flush(LONG).unwrap();
    }
    let dropped = |reason, name: &str| (LossReason::Dropped(reason), name.to_owned(), 1);
    let expected = [dropped(DropReason::Incoming, "small"), dropped(DropReason::Oldest, "newest")];
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), expected);
    assert_eq!(*own.lock().unwrap(), [(DropReason::Incoming, 1)]);
    assert_eq!(newest_by_reason.stats().dropped.conflated, 1);
}

/// The reason for a loss, its place, and the reasons of the lost events.
type Lost = (LossReason, String, Vec<String>);

/// Returns a broadcaster whose queues hold one event each, and a channel that receives its losses.
fn with_short_queues() -> (EventBroadcaster, Receiver<Lost>) {
    with_losses(EventBroadcaster::builder().bus(BusOptions::default().queue_capacity(1)), |loss| {
        let reasons: Vec<_> = loss.events.iter().map(|event| event.reason.to_string()).collect();
        assert_eq!(loss.count, reasons.len() as u64);
        (loss.reason, loss.place.to_owned(), reasons)
    })
}

#[test]
fn an_event_at_which_a_handler_panics_is_reported_with_the_handlers_name() {
    let (events, losses) = with_short_queues();
    let is = |wanted: &'static str| move |event: &Event| assert!(event.reason != wanted, "{wanted}");
    let watcher = events.spawn(is("Watcher")).unwrap();
    events.log_to(|line| assert!(!line.contains("  Logging  "), "log")).unwrap();
    let panics = |wanted| {
        let check = is(wanted);
        move |delivery: Delivery<&Event>| check(delivery.event().unwrap())
    };
    let spawned = events.watch_builder().name("spawned").spawn(panics("Spawned")).unwrap();
    // The result is the same although the runner has its own hook for losses from its queue.
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
    ran.recv_timeout(LONG).expect("the runner should have stopped");
    let places = [watcher.stats().name, "logging".to_owned(), "spawned".to_owned(), "own".to_owned()];
    let expected: Vec<_> = ["Watcher", "Logging", "Spawned", "Runner"]
        .into_iter()
        .zip(places)
        .map(|(reason, place)| (LossReason::HandlerPanicked, place, vec![reason.to_owned()]))
        .collect();
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), expected);
    assert_eq!((spawned.stats().delivered, spawned.stats().panics), (5, 1), "it continued");
    assert_eq!(LossReason::HandlerPanicked.to_string(), "handler panicked");
    assert!(events.shutdown().complete);
}

/// The events in a gap were already reported when they were lost.
#[test]
fn a_panic_at_a_gap_is_counted_and_not_reported() {
    let (events, losses) = with_short_queues();
    let (gate, pass) = gate();
    let handler = events.watch_builder().name("gaps").spawn(move |delivery: Delivery<&Event>| {
        assert!(delivery.event().is_some(), "a gap");
        pass();
    });
    let handler = handler.unwrap();
    record(&events, "web-0", "First");
    gate.wait();
    record(&events, "web-0", "Second");
    until(|| handler.stats().offered == 2);
    drop(gate);
    events.flush(LONG).unwrap();
    assert_eq!((handler.stats().delivered, handler.stats().panics), (1, 1));
    let incoming = LossReason::Dropped(DropReason::Incoming);
    let lost = (incoming, "gaps".to_owned(), vec!["Second".to_owned()]);
    assert_eq!(losses.try_iter().collect::<Vec<_>>(), [lost]);
}

/// Events that a handler abandons at a deadline are reported exactly once, whether no further
/// caller requests a report or many callers do.
#[test]
fn abandoned_events_of_a_handler_are_reported_once() {
    const THREADS: usize = 4;
    for round in 0..200 {
        let (events, losses) = with_losses(clocked(&clock()), |loss| {
            assert_eq!((loss.reason, loss.place), (LossReason::Dropped(DropReason::Abandoned), "slow"));
            loss.count
        });
        let (gate, pass) = gate();
        let handler = events.watch_builder().name("slow").spawn(move |_| pass()).unwrap();
        for name in ["a", "b", "c"] {
            record(&events, name, "Started");
        }
        gate.wait();
        assert!(!events.shutdown_timeout(Duration::ZERO).complete);
        drop(gate);
        // The dispatcher may only now reach the last events, in which case it abandons them itself.
        until(|| handler.stats().dropped.abandoned == 2);
        let mut reported = 0;
        if round % 2 == 0 {
            until(|| {
                reported += losses.try_iter().sum::<u64>();
                reported >= 2
            });
        }
        let barrier = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    barrier.wait();
                    events.shutdown();
                });
            }
        });
        assert_eq!(reported + losses.try_iter().sum::<u64>(), 2, "round {round}");
    }
}

/// Each event that a watcher loses is reported once. It is reported to the watcher's hook if the
/// watcher has one, and otherwise to the broadcaster's hook. A shutdown does not report the event
/// again.
#[test]
fn abandoned_events_of_a_watcher_are_reported_once_and_to_one_hook() {
    for has_hook in [false, true] {
        let (events, losses) = with_losses(EventBroadcaster::builder(), |loss| {
            assert_eq!((loss.reason, loss.place), (LossReason::Dropped(DropReason::Abandoned), "unread"));
            loss.count
        });
        let own = Shared::default();
        let into = own.clone();
        let hook = move |reason, events: &[Event]| into.lock().unwrap().extend(events.iter().map(|_| reason));
        let builder = events.watch_builder().name("unread").queue_capacity(1).overflow(OverflowPolicy::Wait);
        let watcher = if has_hook { builder.on_drop(hook).watch() } else { builder.watch() }.unwrap();
        for name in ["a", "b", "c"] {
            record(&events, name, "Started");
        }
        assert!(!events.shutdown_timeout(Duration::ZERO).complete);
        until(|| watcher.stats().dropped.abandoned == 2);
        events.shutdown();
        assert_eq!(*own.lock().unwrap(), [DropReason::Abandoned; 2][..if has_hook { 2 } else { 0 }]);
        assert_eq!(losses.try_iter().sum::<u64>(), if has_hook { 0 } else { 2 });
    }
}
