//! Applies the rules of events.k8s.io/v1 to a file that was written by a process without these
//! rules.

use eventcast::EventSink;
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};

use crate::events_v1_rules::rows::{changed, good, label, repeated};

#[test]
fn an_invalid_event_that_stays_is_no_reason_to_refuse() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.db");
    let lenient = SqliteSink::open(&path).unwrap();
    let mut odd = changed(&good(), |event| event.set_series(repeated(1)));
    (odd.metadata.name, odd.type_) = ("Bad_Name".into(), "Debug".into());
    let stored = lenient.create(&odd).unwrap();
    let options = SqliteSinkOptions::default().events_v1_rules(true);
    let strict = SqliteSink::with_options(&path, options).unwrap();
    assert_eq!(strict.patch(&stored).unwrap(), stored);
    let labelled = changed(&stored, |event| label(event, "a", "b"));
    assert_eq!(strict.update(&labelled).unwrap().metadata.labels().len(), 1);
}
