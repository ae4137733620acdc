//! Checks that the code has the API that `docs/stability.md` lists: features, statistics fields and
//! option keys. The types can also be sent between threads. The document's table of metrics is
//! compared in `tests/bus/metrics.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Empty;
use std::path::Path;

use eventcast::correlator::{Aggregation, Correlation, CorrelationKey, EventCorrelator, SpamFilter};
use eventcast::error::PublishError;
use eventcast::event::{EventReadError, EventReader, ReadEvent};
use eventcast::record::{ObjectRecorder, RecordingHandle, SeriesOptions};
use eventcast::sink::{JsonLinesOptions, MemorySinkOptions};
use eventcast::stats::{
    BusStats, CorrelatorStats, DegradedGroup, DropCounts, EventBroadcasterReport, EventBroadcasterStats,
    JsonLinesStats, MemorySinkStats, RecorderStats, RecordingStats, ShutdownReport, SinkFailure,
    WatcherStats,
};
use eventcast::testing::FakeRecorder;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, MemorySink, OverflowPolicy, Recorded, Recorder,
    RetryPolicy, SinkError, Text, WatchOptions,
};
use serde::Serialize;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the rows of the table under a heading, mapping the name in the first cell to the names
/// in the second.
fn table(heading: &str) -> BTreeMap<String, BTreeSet<String>> {
    let text = read("docs/stability.md");
    let section =
        text.split("\n## ").find(|section| section.starts_with(heading)).expect("the section exists");
    let quoted = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        (quoted(cells[1]).remove(0), quoted(cells[2]).into_iter().collect())
    })
    .collect()
}

fn keys(value: &impl Serialize) -> BTreeSet<String> {
    let json = serde_json::to_value(value).unwrap();
    json.as_object().expect("an object").keys().cloned().collect()
}

type Keys = BTreeMap<String, BTreeSet<String>>;

/// Returns the rows for this crate's own types. The crate `eventcast-sqlite` checks its own rows.
fn of_this_crate(mut rows: Keys) -> Keys {
    rows.retain(|name, _| !name.starts_with("Sqlite"));
    rows
}

macro_rules! keys_of {
    ($($type:ident = $value:expr),* $(,)?) => {
        BTreeMap::from([$((stringify!($type).to_owned(), keys(&$value))),*])
    };
}

#[test]
fn features_match_the_document() {
    let manifest: toml::Table = toml::from_str(&read("Cargo.toml")).unwrap();
    let features: BTreeSet<&str> =
        manifest["features"].as_table().unwrap().keys().map(String::as_str).collect();
    let documented = table("Features");
    assert_eq!(documented.keys().map(String::as_str).collect::<BTreeSet<_>>(), features);
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(
        read("docs/stability.md").contains(&format!("`rust-version` in `Cargo.toml`, now {rust}.")),
        "{rust}"
    );
}

#[test]
fn fields_of_statistics_match_the_document() {
    let code = keys_of! {
        BusStats = BusStats::default(),
        WatcherStats = WatcherStats::default(),
        DropCounts = DropCounts::default(),
        ShutdownReport = ShutdownReport::default(),
        EventBroadcasterReport = EventBroadcasterReport::default(),
        EventBroadcasterStats = EventBroadcasterStats::default(),
        RecorderStats = RecorderStats::default(),
        RecordingStats = RecordingStats::default(),
        SinkFailure = SinkFailure::default(),
        DegradedGroup = DegradedGroup::default(),
        CorrelatorStats = CorrelatorStats::default(),
        MemorySinkStats = MemorySinkStats::default(),
        JsonLinesStats = JsonLinesStats::default(),
    };
    assert_eq!(of_this_crate(table("Statistics")), code);
}

#[test]
fn configuration_keys_match_the_document() {
    // Options that are not set are not serialised, so every option is set here.
    let watch = WatchOptions::default()
        .name("a")
        .queue_capacity(1)
        .overflow(OverflowPolicy::Wait)
        .stop_on_panic(true);
    let code = keys_of! {
        BusOptions = BusOptions::default(),
        WatchOptions = watch,
        CorrelatorOptions = CorrelatorOptions::default(),
        Aggregation = Aggregation::default(),
        SpamFilter = SpamFilter::default(),
        SeriesOptions = SeriesOptions::default(),
        RetryPolicy = RetryPolicy::default(),
        MemorySinkOptions = MemorySinkOptions::default(),
        JsonLinesOptions = JsonLinesOptions::default().max_bytes(1),
    };
    assert_eq!(of_this_crate(table("Configuration")), code);
    // Every key that can be read is also written. The error about an unknown key lists all existing
    // keys.
    let refusals: [(&str, String); 3] = [
        ("BusOptions", toml::from_str::<BusOptions>("no_such_key = 1").unwrap_err().to_string()),
        ("WatchOptions", toml::from_str::<WatchOptions>("no_such_key = 1").unwrap_err().to_string()),
        ("RetryPolicy", toml::from_str::<RetryPolicy>("no_such_key = 1").unwrap_err().to_string()),
    ];
    for (options, error) in refusals {
        let listed =
            error.split('`').skip(1).step_by(2).filter(|key| *key != "no_such_key").map(str::to_owned);
        assert_eq!(listed.collect::<BTreeSet<_>>(), code[options], "{error}");
    }
}

#[test]
fn types_cross_threads() {
    fn crosses<T: Send + Sync + Unpin + 'static>() {}
    crosses::<(Event, Text, ReadEvent, EventReadError, EventReader<Empty>)>();
    crosses::<(CorrelatorOptions, EventCorrelator, Correlation, CorrelationKey)>();
    crosses::<(Recorder, ObjectRecorder, FakeRecorder, Recorded)>();
    crosses::<(EventBroadcaster, RecordingHandle, MemorySink, SinkError, PublishError<Event>)>();
}
