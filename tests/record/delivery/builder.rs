//! Options and names.

use std::collections::BTreeSet;
use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::error::WatchError;
use eventcast::{CorrelatorOptions, EventBroadcaster, RetryPolicy};

use crate::support::{Scripted, clock, record};

use super::broadcaster;

#[test]
fn options_out_of_range_are_named() {
    let events = EventBroadcaster::new().unwrap();
    let sink = || Scripted::obedient(&clock());
    let option = |result: Result<eventcast::record::RecordingHandle, WatchError>| match result.unwrap_err() {
        WatchError::Invalid(error) => error.option().to_owned(),
        other => panic!("{other}"),
    };
    let policy = RetryPolicy::default().attempts(0);
    assert_eq!(option(events.recording().retry(policy).start(sink())), "attempts");
    let without_factor = RetryPolicy::default().factor(0);
    assert_eq!(option(events.recording().retry(without_factor).start(sink())), "factor");
    for workers in [0, 257] {
        assert_eq!(option(events.recording().workers(workers).start(sink())), "workers");
    }
    let correlator = CorrelatorOptions::default().cache_size(0);
    assert_eq!(option(events.recording().correlator(correlator.clone()).start(sink())), "cache_size");
    assert_eq!(option(events.recording().queue_capacity(0).start(sink())), "queue_capacity");
    assert_eq!(option(events.recording().name("a\0b").start(sink())), "name");

    let error = EventBroadcaster::builder().retry(policy).build().unwrap_err();
    assert_eq!(error.to_string(), "attempts must be 1 or more, got 0");
    assert_eq!(
        EventBroadcaster::builder().correlator(correlator).build().unwrap_err().option(),
        "cache_size"
    );
    assert!(events.stats().recordings.is_empty());
}

#[test]
fn a_policy_is_plain_data() {
    let policy: RetryPolicy = serde_json::from_str(r#"{"delay": "1m 30s"}"#).unwrap();
    assert_eq!(policy, RetryPolicy::default().delay(Duration::from_secs(90)));
    let text = serde_json::to_string(&policy).unwrap();
    assert_eq!(text, r#"{"attempts":12,"delay":"1m30s","factor":1,"jitter":"first","max_delay":"1m"}"#);
    assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), policy);
    assert!(serde_json::from_str::<RetryPolicy>(r#"{"attemps": 1}"#).is_err());
}

/// The second recording's thread could be given the same name as the first recording's second
/// worker.
#[test]
fn the_threads_of_two_recordings_have_different_names() {
    let clock = clock();
    let events = broadcaster(&clock);
    let (tx, names) = mpsc::channel();
    for _ in 0..2 {
        let note = |tx: &mpsc::Sender<_>| tx.send(thread::current().name().unwrap().to_owned()).unwrap();
        let (deciding, writing) = (tx.clone(), tx.clone());
        let options = CorrelatorOptions::default().aggregate_key(move |event| {
            note(&deciding);
            (event.reason.clone(), event.message.clone())
        });
        let both = Barrier::new(2);
        let (sink, _calls) = Scripted::new(&clock, move |number, _| {
            // The first call waits for a call from the other worker thread.
            if number < 2 {
                both.wait();
            }
            note(&writing);
            Ok(())
        });
        events.recording().correlator(options).workers(2).start(sink).unwrap();
    }
    for number in 0..60 {
        record(&events, &format!("web-{number}"), "Started");
    }
    assert!(events.shutdown().complete);
    let names: BTreeSet<String> = names.try_iter().collect();
    let expected =
        ["1/recording", "1/recording-2", "2/recording", "2/recording-2", "recording", "recording-2"];
    assert!(names.iter().eq(&expected), "{names:?}");
}
