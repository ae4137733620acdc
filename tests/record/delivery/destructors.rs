//! When a recording ends, it drops its sink and its functions, whose destructors may call back into
//! the library and panic.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use eventcast::error::FlushError;
use eventcast::sink::{SinkBatch, SinkMode, Stored};
use eventcast::stats::RecordingStats;
use eventcast::{CorrelatorOptions, EventBroadcaster, EventSink, MemorySink};
use test_support::watched;

use crate::support::{LONG, Submitting, assert_balanced, at_once, clock, pod, record};

use super::with_policy;

/// Calls a function when dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Returns a sink that accepts everything and owns the given value.
fn sink_with(held: impl Send + Sync + 'static) -> impl EventSink {
    Submitting(SinkMode::Batches, move |batch: SinkBatch| {
        let _ = &held;
        batch.answer_each(|op| Ok(Stored::from(op.event())));
    })
}

/// Returns options with a function that owns the given value.
fn options_with(held: impl Send + Sync + 'static) -> CorrelatorOptions {
    CorrelatorOptions::default().spam_key(move |event| {
        let _ = &held;
        event.reason.clone()
    })
}

/// One of the recording's threads drops the sink, and every caller waiting for the recording to end
/// waits for this thread. If there are several workers, the last worker to exit drops the sink.
#[test]
fn a_sink_whose_destructor_calls_back_is_not_left_waiting() {
    // A call that timed out after this long would return a different result.
    const SHORT: Duration = Duration::from_secs(1);
    for workers in [1, 3] {
        let events = EventBroadcaster::new().unwrap();
        let (answers_tx, answers) = mpsc::channel();
        let own = events.clone();
        let sink = sink_with(OnDrop(move || {
            let _ = answers_tx.send((own.flush(SHORT), own.shutdown_timeout(SHORT).complete));
        }));
        let recording = events.recording().workers(workers).start(sink).unwrap();
        record(&events, "web-0", "Started");
        events.flush(LONG).unwrap();
        recording.stop();
        let answer = answers.recv_timeout(LONG);
        assert_eq!(answer, Ok((Err(FlushError::WouldDeadlock), false)), "{workers} workers");
        assert!(recording.join(LONG));
        assert!(events.shutdown().complete);
        assert_eq!(recording.stats().created, 1);
    }
}

#[test]
fn a_join_and_a_shutdown_wait_for_the_destructor_of_the_sink() {
    for (workers, stops) in [(1, true), (3, true), (1, false), (3, false)] {
        let events = EventBroadcaster::new().unwrap();
        let (gone_tx, gone) = mpsc::channel();
        let sink = sink_with(OnDrop(move || {
            let _ = gone_tx.send(());
            panic!("a sink that panics when it is dropped");
        }));
        let recording = events.recording().workers(workers).start(sink).unwrap();
        record(&events, "web-0", "Started");
        if stops {
            recording.stop();
            assert!(recording.join(LONG));
        } else {
            assert!(events.shutdown().complete);
        }
        assert_eq!(gone.try_recv(), Ok(()), "{workers} workers, stopped: {stops}");
    }
}

/// A second panic during the first would abort the process.
#[test]
fn the_sink_and_a_function_are_dropped_sequentially() {
    let events = with_policy(&clock(), at_once());
    let (tx, gone) = mpsc::channel();
    let panics = |tx: mpsc::Sender<()>| {
        OnDrop(move || {
            let _ = tx.send(());
            panic!("a destructor that panics");
        })
    };
    let builder = events.recording().correlator(options_with(panics(tx.clone())));
    let recording = builder.start(sink_with(panics(tx))).unwrap();
    record(&events, "web-0", "Started");
    assert!(events.shutdown().complete);
    assert!(recording.join(LONG));
    assert_eq!(gone.iter().count(), 2);
    assert_balanced(&recording.stats());
}

/// A function's destructor may call any method of the broadcaster, and may panic.
#[test]
fn the_destructor_of_a_function_may_call_back_and_panic() {
    watched(|| {
        let events = with_policy(&clock(), at_once());
        for _ in 0..70 {
            let own = events.clone();
            let last = OnDrop(move || {
                let _ = own.stats();
                panic!("a function that panics when it is dropped");
            });
            let recording = events.recording().correlator(options_with(last)).start(MemorySink::new());
            let recording = recording.unwrap();
            record(&events, "web-0", "Started");
            events.flush(LONG).unwrap();
            recording.stop();
            assert!(recording.join(LONG));
        }
        // More recordings have ended than the statistics list individually.
        let all = events.stats().recordings;
        assert!(all.len() <= 70, "{}", all.len());
        assert_eq!(all.iter().map(RecordingStats::handled).sum::<u64>(), 70);
    });
}

/// The correlator's caches hold thousands of strings, and its functions belong to the caller, so
/// both are dropped when the recording ends.
#[test]
fn a_recording_that_has_ended_keeps_nothing_of_its_correlator() {
    let events = with_policy(&clock(), at_once());
    let token = Arc::new(());
    let options = options_with(token.clone());
    let store = MemorySink::new();
    let recording = events.recording().correlator(options).start(store.clone()).unwrap();
    for i in 0..12 {
        events.recorder("tester").normal(pod("web-0"), "Pulled", format_args!("image {i}"));
    }
    events.flush(LONG).unwrap();
    assert_eq!((recording.stats().aggregated, recording.stats().evicted), (3, 0));
    recording.stop();
    assert!(recording.join(LONG));
    assert_eq!(Arc::strong_count(&token), 1);
    let stats = recording.stats();
    // Nine events are created separately, and one further event represents three.
    assert_eq!((stats.aggregated, stats.created, stats.updated), (3, 10, 2));
    assert_eq!(events.stats().recordings, [stats]);
    let last = store.events().pop().unwrap();
    assert_eq!((&*last.message, last.count), ("(combined from similar events): image 11", 3));
}
