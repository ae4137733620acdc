//! Series with a store that has lost an event or loses an answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::record::{SeriesOptions, SeriesUpdate};
use eventcast::sink::{MemorySinkOptions, SinkErrorKind};
use eventcast::{EventSink, MemorySink, SinkError};

use crate::support::{LONG, assert_balanced, pod, until};

use super::{answering, on};

/// The store evicted the event to make space for another event. The evicted event is created again
/// with its count, its name and the time of its first occurrence.
#[test]
fn an_event_that_is_gone_is_created_again() {
    let options = SeriesOptions::default().update(SeriesUpdate::Always);
    let mut line = on(MemorySinkOptions::default().max_events(1), options, |_| Ok(()));
    line.record(0, 1, "a");
    line.record(0, 2, "a");
    let first = line.sink.store.events().remove(0);
    line.record(0, 3, "b");
    line.record(0, 4, "a");
    let again = line.sink.store.events().remove(0);
    assert_eq!((&again.metadata.name, again.event_time()), (&first.metadata.name, first.event_time()));
    assert_eq!(again.series().unwrap().count, 3);
    assert_eq!(line.calls()[3..], ["0:04 patch a x3 0:04", "0:04 create a x3 0:04"]);
    assert_eq!(line.recording.stats().recreated, 1);
    assert_balanced(&line.events.shutdown().recordings[0]);
}

/// Another writer created the event after the patch failed to find it and before the create
/// operation. The store may or may not return the event that has the name.
#[test]
fn an_event_that_exists_again_is_patched() {
    for says_which in [true, false] {
        let mut answers =
            vec![Ok(()), Ok(()), Err(SinkError::new(SinkErrorKind::NotFound, "it is gone")), Ok(())];
        if !says_which {
            answers[1] = Err(SinkError::new(SinkErrorKind::AlreadyExists, "the name is taken"));
        }
        let answers = Mutex::new(answers);
        let mut line = answering(SeriesOptions::default(), move |_| answers.lock().unwrap().pop().unwrap());
        line.record(0, 1, "a");
        line.record(0, 2, "a");
        let expected =
            ["0:01 create a", "0:02 patch a x2 0:02", "0:02 create a x2 0:02", "0:02 patch a x2 0:02"];
        assert_eq!(line.end(), expected);
    }
}

/// The response to the create operation is lost, and a repeat is recorded before the next attempt.
#[test]
fn a_creation_that_was_done_after_all_becomes_a_patch() {
    let failed = Mutex::new(false);
    let store = Arc::new(Mutex::new(None::<MemorySink>));
    let into = store.clone();
    let mut line = answering(SeriesOptions::default(), move |event| {
        if std::mem::replace(&mut *failed.lock().unwrap(), true) {
            return Ok(());
        }
        let store = into.lock().unwrap();
        store.as_ref().unwrap().create(event).unwrap();
        Err(SinkError::retry("the connection was closed").with_retry_after(Duration::from_secs(1)))
    });
    *store.lock().unwrap() = Some(line.sink.store.clone());
    assert!(line.recorder.event(pod("a"), Normal, "Started", "message").is_accepted());
    line.recorded += 1;
    line.clock.wait_for_waiters(1);
    for _ in 0..3 {
        assert!(line.recorder.event(pod("a"), Normal, "Started", "message").is_accepted());
        line.recorded += 1;
    }
    until(|| line.recording.stats().watcher.delivered == 3);
    line.clock.wait_for_waiters(1);
    line.clock.advance(Duration::from_secs(1));
    line.events.flush(LONG).unwrap();
    assert_eq!(line.sink.store.events()[0].series().unwrap().count, 4);
    assert_balanced(&line.recording.stats());
    line.end();
}
