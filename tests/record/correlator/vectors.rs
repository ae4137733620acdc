//! Compares the correlator's answers with client-go's answers, event by event.
//! `tests/vectors/README.md` describes how client-go's answers were generated and how the answers
//! are compared.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, Text, Timestamp};
use serde_json::Value;

/// Totals over all vectors, which let the test detect changes to the set of files.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Total {
    pub(crate) files: usize,
    pub(crate) events: usize,
    pub(crate) creates: usize,
    pub(crate) updates: usize,
    pub(crate) skips: usize,
}

/// Replays the files in a folder that are selected by name.
pub(crate) fn run_folder(folder: &Path, wanted: impl Fn(&str) -> bool) -> Total {
    let mut total = Total::default();
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.strip_suffix(".jsonl").is_some() && wanted(name) {
            run_file(&path, &mut total);
            total.files += 1;
        }
    }
    total
}

fn run_file(path: &Path, total: &mut Total) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    let correlator =
        EventCorrelator::new_exact(options_of(&options["options"]).clock(clock.clock())).unwrap();
    let mut writes: HashMap<Text, u64> = HashMap::new();
    for (number, line) in lines.enumerate() {
        let vector: Value = serde_json::from_str(line).unwrap();
        let place = format!("{}:{}", path.display(), number + 2);
        clock.set(system_time(vector["at"].as_str().unwrap()));
        let event: Event = serde_json::from_value(vector["event"].clone()).unwrap();
        let expect = &vector["expect"];
        assert_eq!(expect["error"], Value::Null, "{place}");

        let (result, patch, key) = match correlator.correlate(&event) {
            Correlation::Create { event, key } => (event, Value::Null, key),
            Correlation::Update { event, key } => {
                let patch = serde_json::from_str(&event.to_patch_json()).unwrap();
                (event, patch, key)
            }
            Correlation::Skip => {
                assert_eq!(expect["skip"], true, "{place}");
                total.events += 1;
                total.skips += 1;
                continue;
            }
            _ => unreachable!("no other decision exists"),
        };
        assert_eq!(expect["skip"], false, "{place}");
        assert_eq!(patch, expect["patch"], "{place}");
        assert_same(&result, &serde_json::from_value(expect["event"].clone()).unwrap(), &place);
        total.events += 1;
        *(if patch.is_null() { &mut total.creates } else { &mut total.updates }) += 1;

        let server = &vector["server"];
        if server["fail"] == true {
            continue;
        }
        let mut stored = result;
        if let Some(name) = server["name"].as_str() {
            stored.metadata.name = name.to_owned().into();
        }
        let writes = writes.entry(stored.metadata.name.clone()).or_default();
        *writes += 1;
        let version =
            server["resourceVersion"].as_str().map_or_else(|| writes.to_string(), ToOwned::to_owned);
        stored.metadata.set_resource_version(version);
        correlator.confirm(key, &stored);
    }
}

/// Compares the events as JSON documents without the fields that client-go drops. The expected
/// times have been truncated to seconds.
fn assert_same(result: &Event, expected: &Event, place: &str) {
    let (mut result, mut expected) = (result.clone(), expected.clone());
    for event in [&mut result, &mut expected] {
        event.metadata.set_creation_timestamp(None);
        if event.message.starts_with("(combined from similar events)") {
            event.metadata.set_resource_version("");
        }
    }
    assert_eq!(result.to_json(), expected.to_json(), "{place}");
}

/// Converts client-go's options to the library's, treating zero as the default.
fn options_of(go: &Value) -> CorrelatorOptions {
    let mut options = CorrelatorOptions::default();
    let number = |name: &str| go[name].as_u64().filter(|n| *n > 0);
    if let Some(size) = number("lruCacheSize") {
        options = options.cache_size(size.try_into().unwrap());
    }
    let mut aggregation = Aggregation::default();
    if let Some(events) = number("maxEvents") {
        aggregation = aggregation.max_events(events.try_into().unwrap());
    }
    if let Some(seconds) = number("maxIntervalInSeconds") {
        aggregation = aggregation.max_interval(Duration::from_secs(seconds));
    }
    let mut filter = SpamFilter::default();
    if let Some(burst) = number("burstSize") {
        filter = filter.burst(burst.try_into().unwrap());
    }
    let qps: f32 = serde_json::from_value(go["qps"].clone()).unwrap();
    if qps > 0.0 {
        filter = filter.qps(qps);
    }
    options.aggregation(aggregation).spam_filter(filter)
}

fn system_time(text: &str) -> SystemTime {
    let at: Timestamp = text.parse().unwrap();
    SystemTime::UNIX_EPOCH + at.duration_since(Timestamp::UNIX_EPOCH)
}

#[test]
fn synthetic_vectors() {
    let total = run_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors"), |_| true);
    let expected = Total { files: 38, events: 10_308, creates: 4543, updates: 2228, skips: 3537 };
    assert_eq!(total, expected);
}
