//! An API server's rules for events sent through events.k8s.io/v1, tested row by row against the
//! stores that implement them. A kube-apiserver 1.36.2 gave the same responses.

pub(crate) mod rows;

use eventcast::event::EventSeries;
use eventcast::sink::SinkErrorKind;
use eventcast::{Event, EventSink, MemorySink, SinkError, Timestamp};

use crate::stores::for_each_strict_store;

use rows::{ACCEPTED, ALWAYS, FIXED, NEW, annotation, at, changed, good, label, repeated, untimed};

fn assert_refused(answer: Result<Event, SinkError>, words: &str) {
    let error = answer.expect_err(words);
    assert_eq!(error.kind(), SinkErrorKind::Rejected, "{error}");
    assert!(error.to_string().contains(words), "{error}: {words}");
}

#[test]
fn a_new_event_is_refused_for_each_rule() {
    for_each_strict_store(|store| {
        for (change, words) in ALWAYS {
            assert_refused(store.create(&changed(&good(), change)), words);
            assert_refused(store.update(&changed(&good(), change)), words);
        }
        for (change, words) in NEW {
            let words = format!(" is invalid: for events.k8s.io/v1 {words}");
            assert_refused(store.create(&changed(&good(), change)), &words);
        }
    });
}

#[test]
fn without_the_option_only_the_rules_of_both_apis_apply() {
    for (change, words) in ALWAYS {
        assert_refused(MemorySink::new().create(&changed(&good(), change)), words);
    }
    for (change, words) in NEW {
        assert!(MemorySink::new().create(&changed(&good(), change)).is_ok(), "{words}");
    }
}

#[test]
fn valid_events_are_accepted() {
    for (row, change) in ACCEPTED.into_iter().enumerate() {
        let event = changed(&good(), change);
        MemorySink::new().create(&event).unwrap_or_else(|error| panic!("row {row}: {error}"));
    }
    for_each_strict_store(|store| {
        for (row, change) in ACCEPTED.into_iter().enumerate() {
            let mut event = changed(&good(), change);
            if !event.metadata.name.is_empty() {
                event.metadata.name = format!("web-{row}").into();
            }
            store.create(&event).unwrap_or_else(|error| panic!("row {row}: {error}"));
        }
    });
}

#[test]
fn an_event_without_an_event_time_has_the_rules_of_core_v1() {
    for_each_strict_store(|store| {
        let mut event = Event::default();
        event.metadata.name = "Old_Name".into();
        event.type_ = "Debug".into();
        event.count = 1;
        event.source.component = "probe".into();
        event.last_timestamp = Some(at(1));
        let stored = store.create(&event).unwrap();
        event.count = 2;
        event.message = "m".repeat(2000).into();
        assert_eq!(store.patch(&event).unwrap().count, 2);
        assert_eq!(store.update(&stored).unwrap_err().kind(), SinkErrorKind::Rejected, "another version");
        event.metadata.set_resource_version("");
        event.type_ = "Other".into();
        assert_eq!(store.update(&event).unwrap().type_, "Other");
        // Go's zero time does not count as an event time.
        event.metadata.name = "Old_Name.2".into();
        event.set_event_time("0001-01-01T00:00:00Z".parse::<Timestamp>().unwrap());
        assert!(store.create(&event).is_ok());
    });
}

#[test]
fn an_update_changes_series_labels_and_annotations_only() {
    for_each_strict_store(|store| {
        let stored = store.create(&good()).unwrap();
        for (change, field) in FIXED {
            let words = format!("is invalid: for events.k8s.io/v1 the {field} must not change");
            assert_refused(store.update(&changed(&stored, change)), &words);
        }
        let found = store.update(&stored).unwrap();
        assert_eq!(found, stored, "a refused update has changed something");
        let words = "for events.k8s.io/v1 a label must be";
        assert_refused(store.update(&changed(&stored, |e| label(e, "a b", ""))), words);
        let words = "the count of the series must be at least 2, got 1";
        assert_refused(store.update(&changed(&stored, |e| e.set_series(repeated(1)))), words);
        let new = changed(&stored, |e| {
            label(e, "a", "b");
            annotation(e, "c", "d".into());
            e.set_series(repeated(3));
        });
        let found = store.update(&new).unwrap();
        assert_eq!((found.metadata.labels().len(), found.series().unwrap().count), (1, 3));
    });
}

/// A patch to an event with an event time and no count sets its series and keeps everything else.
#[test]
fn a_patch_changes_the_series_alone() {
    for_each_strict_store(|store| {
        let mut expected = store.create(&good()).unwrap();
        let series = |time: &str| Some(EventSeries::new(2, time.parse().unwrap()));
        let mut again = changed(&good(), |event| event.message = "is not patched".into());
        again.set_series(series("2024-01-02T03:04:06.7891239Z"));
        expected.set_series(series("2024-01-02T03:04:06.789123Z"));
        expected.metadata.set_resource_version("2");
        // Applying the same patch again does not count as a write.
        for _ in 0..2 {
            assert_eq!(store.patch(&again).unwrap(), expected);
        }
    });
}

#[test]
fn a_patch_of_a_series_is_checked_if_it_changes() {
    for_each_strict_store(|store| {
        let event = changed(&good(), |e| e.set_series(repeated(2)));
        let stored = store.create(&event).unwrap();
        let patch = |series| {
            let mut event = event.clone();
            event.set_series(series);
            store.patch(&event)
        };
        assert_refused(patch(repeated(1)), "the count of the series must be at least 2, got 1");
        assert_refused(patch(untimed(3)), "the last observed time of the series must be set");
        assert_eq!(patch(repeated(2)).unwrap(), stored, "a refused patch has changed something");
        assert_eq!(patch(repeated(7)).unwrap().series(), Some(repeated(7)));
        // A series may go back to a lower count, and a core/v1 event may get a series.
        assert_eq!(patch(repeated(3)).unwrap().series(), Some(repeated(3)));
        let mut old = Event::default();
        old.metadata.name = "web-0.2".into();
        old.metadata.namespace = "blue".into();
        old.involved_object.namespace = "blue".into();
        old.count = 2;
        store.create(&old).unwrap();
        let mut patch = event.clone();
        patch.metadata.name = "web-0.2".into();
        let found = store.patch(&patch).unwrap();
        assert_eq!((found.count, found.series()), (2, Some(repeated(2))));
        // A core/v1 patch changes the count and the message of an event with an event time.
        let mut patch = event.clone();
        (patch.count, patch.message) = (2, "m".into());
        let found = store.patch(&patch).unwrap();
        assert_eq!((found.count, found.message.as_str()), (2, "m"));
    });
}

#[test]
fn an_invalid_series_that_stays_is_no_reason_to_refuse() {
    let store = MemorySink::new();
    let stored = store.create(&changed(&good(), |e| e.set_series(repeated(1)))).unwrap();
    assert_eq!(store.patch(&stored).unwrap(), stored);
}
