//! A recording whose queue is full.

use eventcast::record::LossReason;
use eventcast::stats::DropReason;

use crate::support::{
    LONG, Scripted, assert_balanced, away, clock, clocked, every_ten_seconds, record, tried, until,
    with_losses,
};

use super::{PAUSE, broadcaster, without_budget};

#[test]
fn a_full_queue_loses_the_incoming_event_and_reports_it() {
    let clock = clock();
    let (events, losses) = with_losses(clocked(&clock), |loss| {
        (loss.reason, loss.place.to_owned(), loss.count, loss.events[0].involved_object.name.to_string())
    });
    let (gate, sink) = Scripted::gated(&clock, ..);
    let recording = events.recording().name("slow").queue_capacity(2).start(sink).unwrap();
    // This watcher receives each event after the recording does, because the recording was
    // registered first.
    let mut witness = events.watch_builder().watch().unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
        witness.recv_timeout(LONG).unwrap();
    }
    // The event that the sink is writing counts against the queue's capacity until the event has
    // been handled.
    gate.wait();
    let lost = (LossReason::Dropped(DropReason::Incoming), "slow".to_owned(), 1, "c".to_owned());
    assert_eq!(losses.recv_timeout(LONG).unwrap(), lost);
    drop(gate);
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.watcher.dropped.incoming), (2, 1));
    assert_balanced(&stats);
    assert!(losses.try_recv().is_err());
}

/// A full recording sleeps until its next attempt, even though losses of events that no longer fit
/// are waiting to be received.
#[test]
fn a_full_recording_sleeps_until_its_next_attempt() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) = Scripted::new(&clock, |_, _| Err(away()));
    let policy = every_ten_seconds();
    let builder = events.recording().correlator(without_budget()).queue_capacity(2).retry(policy);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    tried(&calls, &clock);
    for reason in ["B", "C", "D"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.dropped.incoming == 2);
    for attempts in 2..6 {
        // The attempt shows that the recording was awake while the loss was waiting to be received.
        clock.advance(PAUSE);
        calls.recv_timeout(LONG).unwrap();
        until(|| clock.waiters() == 1);
        assert_eq!(sink.calls().len(), attempts);
    }
    let stats = recording.stats();
    assert_eq!((stats.watcher.queued, stats.watcher.dropped.total()), (2, 2));
    events.shutdown();
    assert_balanced(&recording.stats());
}
