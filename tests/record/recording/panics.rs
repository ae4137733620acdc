//! User code that panics loses one event.

use std::sync::{Arc, Mutex};

use eventcast::record::LossReason;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, EventBroadcaster, SinkError};

use crate::support::{Bomb, LONG, Scripted, assert_balanced, clock, record};

use super::broadcaster;

/// Returns a broadcaster whose hook notes the cause of each rejection, and checks the type of the
/// cause.
fn telling_why(clock: &FakeClock) -> (EventBroadcaster, Arc<Mutex<Vec<String>>>) {
    let causes = Arc::new(Mutex::new(Vec::new()));
    let into = causes.clone();
    let events = EventBroadcaster::builder().clock(clock.clock()).on_loss(move |loss| {
        assert_eq!(loss.reason, LossReason::Rejected);
        let cause = loss.cause.unwrap().downcast_ref::<SinkError>().unwrap();
        into.lock().unwrap().push(cause.to_string());
    });
    (events.build().unwrap(), causes)
}

#[test]
fn a_sink_that_panics_loses_that_event_only() {
    let clock = clock();
    let (events, causes) = telling_why(&clock);
    let (sink, _calls) = Scripted::new(&clock, |number, _| {
        assert!(number != 1, "a sink that panics");
        Ok(())
    });
    let recording = events.record_to(sink.clone()).unwrap();
    for name in ["a", "b", "c"] {
        record(&events, name, "Started");
    }
    let report = events.shutdown();
    assert!(report.complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 1, 1));
    assert_balanced(&stats);
    assert_eq!(*causes.lock().unwrap(), ["rejected: the sink panicked: a sink that panics"]);
}

#[test]
fn a_key_function_that_panics_loses_that_event_only() {
    let clock = clock();
    let (events, causes) = telling_why(&clock);
    let sink = Scripted::obedient(&clock);
    let options = CorrelatorOptions::default().spam_key(|event| {
        assert!(event.reason != "Bad", "a key function that panics");
        event.reason.clone()
    });
    let recording = events.recording().correlator(options).start(sink.clone()).unwrap();
    for reason in ["Good", "Bad", "Fine"] {
        record(&events, "web-0", reason);
    }
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics), (2, 1, 1));
    assert_balanced(&stats);
    let cause = "rejected: a function of the correlator's options panicked: a key function that panics";
    assert_eq!(*causes.lock().unwrap(), [cause]);
}

#[test]
fn an_answer_whose_destructor_panics_loses_nothing_else() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (sink, _calls) =
        Scripted::new(&clock, |number, _| if number == 0 { Err(SinkError::rejected(Bomb)) } else { Ok(()) });
    let recording = events.record_to(sink.clone()).unwrap();
    record(&events, "a", "Started");
    record(&events, "b", "Started");
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.panics, stats.watcher.panics), (1, 1, 1, 0));
    assert_balanced(&stats);
}

// ── options, names, statistics ──
