//! The events of real clusters, which are too large for the repository. Each set of events is in a
//! folder named by an environment variable. If the variable is not set, the events are in a folder
//! next to the checkout.

use std::path::{Path, PathBuf};
use std::{env, fs};

use eventcast::{Event, Timestamp};
use serde_json::Value;

use crate::correlator_vectors::{Total, run_folder};
use crate::event_json::through_the_other_api;

fn folder(variable: &str, otherwise: &str) -> PathBuf {
    env::var_os(variable).map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").join(otherwise),
        PathBuf::from,
    )
}

fn recorded() -> PathBuf {
    folder("EVENTCAST_DATA", "data")
}

fn replayed() -> PathBuf {
    folder("EVENTCAST_VECTORS", "vectors")
}

/// Returns why the test with the recorded events cannot run.
pub(crate) fn missing_recorded() -> Option<String> {
    (!recorded().is_dir()).then(|| format!("there are no recorded events in {}", recorded().display()))
}

/// Returns why the test with the replayed events cannot run.
pub(crate) fn missing_replayed() -> Option<String> {
    (!replayed().is_dir()).then(|| format!("there are no replayed events in {}", replayed().display()))
}

/// client-go has already processed these events, and the correlator must make the same decisions.
pub(crate) fn replayed_clusters() {
    let total = run_folder(&replayed(), |name| name.starts_with("replay-"));
    let expected = Total { files: 2, events: 7871, creates: 2348, updates: 1952, skips: 3571 };
    assert_eq!(total, expected);
}

pub(crate) fn real_events_survive_reading_and_writing() {
    let folder = recorded();
    let mut seen = 0;
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let mut event =
                Event::from_json(line).unwrap_or_else(|e| panic!("{}: {e}: {line}", path.display()));
            let json = event.to_json();
            through_the_other_api(&event);
            event.first_timestamp = event.first_timestamp.map(Timestamp::trunc_to_second);
            event.last_timestamp = event.last_timestamp.map(Timestamp::trunc_to_second);
            assert_eq!(Event::from_json(&json).unwrap(), event);
            let mut original: Value = serde_json::from_str(line).unwrap();
            original["metadata"].as_object_mut().unwrap().remove("managedFields");
            // A script spread some of the events over time and wrote fractional seconds, which
            // Kubernetes does not.
            for name in ["firstTimestamp", "lastTimestamp"] {
                if let Some((seconds, _)) = original[name].as_str().and_then(|text| text.split_once('.')) {
                    original[name] = format!("{seconds}Z").into();
                }
            }
            assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), original);
            seen += 1;
        }
    }
    assert!(seen > 10_000, "only {seen} events in {}", folder.display());
}
