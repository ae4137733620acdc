//! A recording that can take in no more events before something has been written.

use eventcast::sink::SinkErrorKind;
use eventcast::{RetryPolicy, SinkError};

use crate::support::{LONG, Scripted, assert_balanced, clock, record, until};

use super::{PAUSE, broadcaster, without_budget};

/// A full recording sleeps until its next attempt, although there is something to receive: the loss
/// of the events that no longer fit.
#[test]
fn a_full_recording_sleeps_until_its_next_attempt() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, calls) =
        Scripted::new(&clock, |_, _| Err(SinkError::new(SinkErrorKind::Unavailable, "no connection")));
    let policy = RetryPolicy::default().jitter(eventcast::record::Jitter::Never);
    let builder = events.recording().correlator(without_budget()).queue_len(2).retry(policy);
    let recording = builder.start(sink.clone()).unwrap();
    record(&events, "web-0", "A");
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
    for reason in ["B", "C", "D"] {
        record(&events, "web-0", reason);
    }
    until(|| recording.stats().watcher.dropped.incoming == 2);
    for attempts in 2..6 {
        // An attempt shows that the recording was awake with the loss to receive.
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
