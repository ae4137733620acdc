//! Statistics as metrics: names and labels match the documents, watchers without a name share one
//! series, and counters never decrease.

use std::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "recorder")]
use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use eventcast::stats::BusStats;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    with_local_recorder,
};

use crate::support::{LONG, available, bus, until};

/// A metric with its labels.
type Series = (String, Vec<(String, String)>);

/// A metrics recorder that keeps all values, and fails if a counter decreases.
#[derive(Default)]
struct Strict {
    counters: Mutex<BTreeMap<Series, Arc<Value>>>,
    gauges: Mutex<BTreeMap<Series, Arc<Value>>>,
    described: Mutex<BTreeSet<(String, &'static str)>>,
}

#[derive(Default)]
struct Value(AtomicU64);

impl CounterFn for Value {
    fn increment(&self, _: u64) {
        panic!("counters are set, not incremented");
    }

    fn absolute(&self, value: u64) {
        let before = self.0.swap(value, Ordering::SeqCst);
        assert!(value >= before, "a counter decreased from {before} to {value}");
    }
}

impl GaugeFn for Value {
    fn increment(&self, _: f64) {
        panic!("gauges are set, not incremented");
    }

    fn decrement(&self, _: f64) {
        panic!("gauges are set, not decremented");
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::SeqCst);
    }
}

fn series(key: &Key) -> Series {
    let labels = key.labels().map(|label| (label.key().to_owned(), label.value().to_owned()));
    (key.name().to_owned(), labels.collect())
}

impl Recorder for Strict {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
        assert!(text.ends_with('.'));
        self.described.lock().unwrap().insert((key.as_str().to_owned(), "counter"));
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, text: SharedString) {
        assert!(text.ends_with('.'));
        self.described.lock().unwrap().insert((key.as_str().to_owned(), "gauge"));
    }

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {
        panic!("unexpected histogram");
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counters.lock().unwrap().entry(series(key)).or_default().clone())
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.gauges.lock().unwrap().entry(series(key)).or_default().clone())
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        panic!("unexpected histogram");
    }
}

impl Strict {
    fn scrape(&self, stats: &BusStats) {
        with_local_recorder(self, || stats.emit_metrics("test"));
    }

    /// Returns the value of the counter with these labels, in this order, after the `bus` label.
    fn counter(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.counters.lock().unwrap()[&wanted(name, labels)].0.load(Ordering::SeqCst)
    }

    fn gauge(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        f64::from_bits(self.gauges.lock().unwrap()[&wanted(name, labels)].0.load(Ordering::SeqCst))
    }

    /// Returns the sum of a counter over all its series.
    fn sum(&self, name: &str) -> u64 {
        let counters = self.counters.lock().unwrap();
        counters
            .iter()
            .filter(|((own, _), _)| own == name)
            .map(|(_, value)| value.0.load(Ordering::SeqCst))
            .sum()
    }

    fn len(&self) -> usize {
        self.counters.lock().unwrap().len() + self.gauges.lock().unwrap().len()
    }

    /// Returns each metric with its kind and label names.
    #[cfg(feature = "recorder")]
    fn metrics(&self) -> BTreeSet<(String, &'static str, Vec<String>)> {
        let mut found = BTreeSet::new();
        for (kind, all) in [("counter", &self.counters), ("gauge", &self.gauges)] {
            for (name, labels) in all.lock().unwrap().keys() {
                found.insert((name.clone(), kind, labels.iter().map(|(key, _)| key.clone()).collect()));
            }
        }
        found
    }
}

fn wanted(name: &str, labels: &[(&str, &str)]) -> Series {
    let labels =
        [("bus", "test")].iter().chain(labels).map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    (name.to_owned(), labels.collect())
}

#[test]
fn a_bus_is_published_with_its_watchers() {
    let recorder = Strict::default();
    let bus =
        Broadcaster::with_options(BusOptions::default().incoming_capacity(64).queue_capacity(3)).unwrap();
    let mut view = bus.watch_builder().name("view").overflow(OverflowPolicy::DropOldest).watch().unwrap();
    let _odd = bus.watch_builder().name("odd").filter(|n: &u64| n % 2 == 1).watch().unwrap();
    let unnamed = [3, 2].map(|events| bus.watch_builder().queue_capacity(events).watch().unwrap());
    bus.publisher().publish_batch(0..5_u64).unwrap();
    bus.flush(LONG).unwrap();
    view.recv().unwrap();
    view.recv().unwrap();
    bus.shutdown();
    assert!(bus.publisher().try_publish(9).is_err());
    recorder.scrape(&bus.stats());

    assert_eq!(recorder.counter("eventcast_published_total", &[]), 6);
    assert_eq!(recorder.counter("eventcast_accepted_total", &[]), 5);
    assert_eq!(recorder.counter("eventcast_rejected_total", &[("reason", "closed")]), 1);
    assert_eq!(recorder.counter("eventcast_rejected_total", &[("reason", "full")]), 0);
    let is = |value: f64, wanted: u32| assert!((value - f64::from(wanted)).abs() < f64::EPSILON, "{value}");
    is(recorder.gauge("eventcast_watchers", &[]), 4);
    let view = ("watcher", "view");
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[view]), 5);
    assert_eq!(recorder.counter("eventcast_watcher_delivered_total", &[view]), 1);
    assert_eq!(recorder.counter("eventcast_watcher_dropped_total", &[view, ("reason", "oldest")]), 2);
    is(recorder.gauge("eventcast_watcher_queued", &[view]), 2);
    is(recorder.gauge("eventcast_watcher_lag", &[view]), 2);
    is(recorder.gauge("eventcast_watcher_high_water", &[view]), 3);
    assert_eq!(recorder.counter("eventcast_watcher_filtered_total", &[("watcher", "odd")]), 3);
    // The two watchers without a name were registered at one place, so they share one series.
    let place = unnamed[0].stats().name;
    let unnamed = ("watcher", place.as_str());
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[unnamed]), 10);
    assert_eq!(recorder.counter("eventcast_watcher_dropped_total", &[unnamed, ("reason", "incoming")]), 5);
    is(recorder.gauge("eventcast_watcher_queued", &[unnamed]), 5);
    is(recorder.gauge("eventcast_watcher_high_water", &[unnamed]), 3);
    assert_eq!(recorder.counter("eventcast_watcher_panics_total", &[unnamed]), 0);
    // A second scrape changes nothing.
    let before = recorder.len();
    recorder.scrape(&bus.stats());
    assert_eq!((recorder.len(), recorder.counter("eventcast_published_total", &[])), (before, 6));
}

/// While watchers are registered and dropped, the counters only grow, the watchers that one place
/// registers share a series, and the sum over all series matches the totals of the bus.
#[test]
fn the_metrics_keep_the_counts_of_dropped_watchers() {
    let recorder = Strict::default();
    let bus = bus(100, 2);
    let offered = |stats: &BusStats| {
        stats.watchers.iter().map(|watcher| watcher.offered).sum::<u64>() + stats.departed.offered
    };
    let _stays = bus.watch_builder().name("stays").queue_capacity(1).watch().unwrap();
    let (mut series, mut place) = (0, String::new());
    for round in 0..200_u64 {
        let mut named = bus.watch_builder().name("comes and goes").watch().unwrap();
        let mut unnamed: Vec<_> = (0..3).map(|_| bus.watch().unwrap()).collect();
        bus.publisher().publish_batch(vec![round; 3]).unwrap();
        bus.flush(LONG).unwrap();
        recorder.scrape(&bus.stats());
        assert_eq!(available(&mut named).len(), 3);
        assert_eq!(available(&mut unnamed[0]).len(), 3);
        place = unnamed[0].stats().name;
        recorder.scrape(&bus.stats());
        drop((named, unnamed));
        until(|| bus.stats().watchers.len() == 1);
        let stats = bus.stats();
        recorder.scrape(&stats);
        assert_eq!(recorder.sum("eventcast_watcher_offered_total"), offered(&stats));
        assert_eq!(
            recorder.sum("eventcast_watcher_dropped_total"),
            stats.departed.dropped.total() + 2 + 3 * round
        );
        if round == 0 {
            series = recorder.len();
        }
        assert_eq!(recorder.len(), series);
    }
    let goes = ("watcher", "comes and goes");
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[goes]), 600);
    assert_eq!(recorder.counter("eventcast_watcher_delivered_total", &[goes]), 400);
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[("watcher", &place)]), 1800);
    assert!(
        recorder.gauge("eventcast_watcher_queued", &[goes]) < 0.5,
        "a dropped watcher has no queued events"
    );
    let by_name = bus.stats().departed_by_name;
    let by_name: Vec<_> = by_name.iter().map(|sum| (sum.name.as_str(), sum.offered)).collect();
    assert_eq!(by_name, [("comes and goes", 600), (place.as_str(), 1800)]);
}

#[test]
fn a_bus_has_a_series_of_others_only_if_it_does_not_keep_all_names() {
    let recorder = Strict::default();
    let bus = bus(100, 2);
    let named = bus.watch_builder().name("journal").watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    recorder.scrape(&bus.stats());
    drop(named);
    until(|| bus.stats().watchers.is_empty());
    recorder.scrape(&bus.stats());
    let series = recorder.len();
    assert_eq!(recorder.sum("eventcast_watcher_offered_total"), 1);
    // A watcher without a name adds a series, which remains when that watcher is dropped.
    let unnamed = bus.watch().unwrap();
    let place = unnamed.stats().name;
    bus.publisher().publish(2).unwrap();
    bus.flush(LONG).unwrap();
    recorder.scrape(&bus.stats());
    assert!(recorder.len() > series);
    let series = recorder.len();
    assert!(recorder.gauge("eventcast_watcher_queued", &[("watcher", &place)]) > 0.5);
    drop(unnamed);
    until(|| bus.stats().watchers.is_empty());
    recorder.scrape(&bus.stats());
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[("watcher", &place)]), 1);
    assert!(recorder.gauge("eventcast_watcher_queued", &[("watcher", &place)]) < 0.5);
    assert_eq!(recorder.len(), series);
}

/// If there are thousands of different names, only a limited number of them get a separate series,
/// and the sums stay complete.
#[test]
fn the_number_of_named_series_is_limited() {
    let recorder = Strict::default();
    let bus = bus::<u64>(100, 2);
    for number in 0..1000 {
        let _watcher = bus.watch_builder().name(&format!("client-{number}")).watch().unwrap();
        bus.publisher().publish(number).unwrap();
        bus.flush(LONG).unwrap();
    }
    until(|| bus.stats().watchers.is_empty());
    let stats = bus.stats();
    assert_eq!((stats.departed.offered, stats.departed_by_name.len()), (1000, 256));
    recorder.scrape(&stats);
    assert_eq!(recorder.sum("eventcast_watcher_offered_total"), 1000);
    assert_eq!(recorder.counter("eventcast_watcher_offered_total", &[("watcher", "(other)")]), 1000 - 256);
}

#[cfg(feature = "recorder")]
mod recorder {
    use std::time::Duration;

    use eventcast::EventType::Normal;
    use eventcast::correlator::{Correlation, EventCorrelator};
    use eventcast::stats::{EventBroadcasterStats, RecordingStats};
    use eventcast::{CorrelatorOptions, Event, EventBroadcaster, MemorySink, ObjectReference, Timestamp};

    use super::{LONG, Strict, wanted};

    #[test]
    fn a_broadcaster_is_published_with_its_recorders_and_recordings() {
        let recorder = Strict::default();
        let events = EventBroadcaster::builder().max_message_len(4).build().unwrap();
        let recording = |name: &str| events.recording().name(name).start(MemorySink::new()).unwrap();
        let (first, _store) = (recording("store"), recording("other"));
        let source = events.recorder("test");
        let disk = ObjectReference::new("Disk", "sda");
        for _ in 0..3 {
            source.event(&disk, Normal, "Mounted", "mounted");
        }
        source.event(&disk, Normal, "", "refused");
        events.flush(LONG).unwrap();
        first.stop();
        assert!(first.join(Duration::MAX));
        // Another recording with the same name continues the series of the previous recording.
        let again = recording("store");
        source.event(&disk, Normal, "Mounted", "mounted");
        events.flush(LONG).unwrap();
        metrics::with_local_recorder(&recorder, || events.stats().emit_metrics("test"));

        assert_eq!(recorder.counter("eventcast_accepted_total", &[]), 4);
        let outcome = |name, outcome| {
            recorder.counter("eventcast_recording_events_total", &[("recording", name), ("outcome", outcome)])
        };
        assert_eq!((outcome("store", "created"), outcome("store", "updated")), (2, 2));
        assert_eq!((outcome("other", "created"), outcome("other", "updated")), (1, 3));
        assert_eq!(recorder.counter("eventcast_recorder_refused_total", &[("reason", "empty_reason")]), 1);
        assert_eq!(recorder.counter("eventcast_recorder_truncated_total", &[]), 4);
        assert_eq!(recorder.counter("eventcast_watcher_delivered_total", &[("watcher", "store")]), 4);
        assert_eq!(again.stats().created, 1);
    }

    #[test]
    fn what_a_recording_counts_beside_the_outcomes_is_published() {
        let recorder = Strict::default();
        let mut stats = RecordingStats::default();
        stats.watcher.name = "store".to_owned();
        (stats.recreated, stats.coalesced, stats.aggregated) = (1, 2, 3);
        (stats.retried, stats.panics, stats.evicted) = (4, 5, 6);
        let mut all = EventBroadcasterStats::default();
        all.recordings.push(stats);
        metrics::with_local_recorder(&recorder, || all.emit_metrics("test"));
        let names = ["recreated", "coalesced", "aggregated", "retried", "panics", "evicted"];
        for (name, count) in names.iter().zip(1..) {
            let metric = format!("eventcast_recording_{name}_total");
            assert_eq!(recorder.counter(&metric, &[("recording", "store")]), count, "{name}");
        }
    }

    #[test]
    fn an_unavailable_store_is_reported() {
        let recorder = Strict::default();
        let mut stats = RecordingStats::default();
        stats.watcher.name = "store".to_owned();
        for (since, shown) in [(None, 0.0), (Some(Timestamp::UNIX_EPOCH), 1.0), (None, 0.0)] {
            stats.unavailable_since = since;
            let mut all = EventBroadcasterStats::default();
            all.recordings.push(stats.clone());
            metrics::with_local_recorder(&recorder, || all.emit_metrics("test"));
            let gauge = recorder.gauge("eventcast_recording_unavailable", &[("recording", "store")]);
            assert!((gauge - shown).abs() < f64::EPSILON, "{gauge}");
        }
    }

    #[test]
    fn a_correlator_is_published() {
        let recorder = Strict::default();
        let correlator = EventCorrelator::new(CorrelatorOptions::default()).unwrap();
        let mut event = Event::default();
        event.count = 1;
        for _ in 0..30 {
            let skipped = matches!(correlator.correlate(&event), Correlation::Skip);
            assert_eq!(skipped, correlator.stats().filtered > 0);
        }
        metrics::with_local_recorder(&recorder, || correlator.stats().emit_metrics("own"));
        let counters = recorder.counters.lock().unwrap();
        let decided = |decision: &str| {
            let (name, mut labels) = wanted("eventcast_correlator_events_total", &[("decision", decision)]);
            labels[0] = ("correlator".to_owned(), "own".to_owned());
            counters[&(name, labels)].0.load(std::sync::atomic::Ordering::SeqCst)
        };
        assert_eq!((decided("created"), decided("updated"), decided("filtered")), (1, 24, 5));
    }

    /// `docs/stability.md` lists each metric with its kind and labels, and each metric has a
    /// description.
    #[test]
    fn the_document_lists_what_is_published() {
        let recorder = Strict::default();
        let events = EventBroadcaster::new().unwrap();
        events.record_to(MemorySink::new()).unwrap();
        metrics::with_local_recorder(&recorder, || {
            eventcast::metrics::describe_metrics();
            events.stats().emit_metrics("test");
            EventCorrelator::new(CorrelatorOptions::default()).unwrap().stats().emit_metrics("test");
        });
        let published = recorder.metrics();
        assert_eq!(super::documented(), published);
        let described = recorder.described.lock().unwrap();
        assert_eq!(*described, published.into_iter().map(|(name, kind, _)| (name, kind)).collect());
    }
}

/// Returns the metrics in the document's table, as `name`, kind, `label`, `label`.
#[cfg(feature = "recorder")]
fn documented() -> BTreeSet<(String, &'static str, Vec<String>)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/stability.md");
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `eventcast_"));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let kind = if cells[2] == "gauge" { "gauge" } else { "counter" };
        assert_eq!(cells[2], kind, "{row}");
        let labels = cells[3].split('`').skip(1).step_by(2).map(str::to_owned).collect();
        (cells[1].trim_matches('`').to_owned(), kind, labels)
    })
    .collect()
}
