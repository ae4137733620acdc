//! Tests that no event is stored twice and that no count decreases when a program that records
//! series is killed. The program is killed at each of its writes, before or after the store
//! performs the write, and is then restarted.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use eventcast::{Event, EventBroadcaster, EventSink, EventSource, EventType, ObjectReference, SinkError};
use eventcast_sqlite::SqliteSink;
use tempfile::tempdir;
use test_support::{child, test_name};

/// The objects about which each run of the program records events, in this order.
const RECORDED: [&str; 7] = ["a", "a", "b", "a", "b", "c", "a"];

/// A store that blocks forever at one of its writes.
struct Stops {
    store: SqliteSink,
    writes: AtomicU32,
    stop_at: u32,
    before: bool,
}

impl Stops {
    fn around(&self, write: impl FnOnce() -> Result<Event, SinkError>) -> Result<Event, SinkError> {
        // Only the recording's thread calls the store.
        let is_last = self.writes.fetch_add(1, Ordering::Relaxed) == self.stop_at;
        if is_last && self.before {
            stopped();
        }
        let answer = write();
        if is_last {
            stopped();
        }
        answer
    }
}

impl EventSink for Stops {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.around(|| self.store.create(event))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.around(|| self.store.update(event))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.around(|| self.store.patch(event))
    }
}

fn stopped() {
    child::say("stopped");
    loop {
        thread::park();
    }
}

/// Records the events, waiting until each event is stored before recording the next event.
fn record(sink: impl EventSink) {
    let events = EventBroadcaster::builder().event_time(true).build().unwrap();
    events.record_to(sink).unwrap();
    let recorder = events.recorder(EventSource::from("example.com/web").on_host("web-7"));
    for object in RECORDED {
        let object = ObjectReference::new("Pod", object);
        assert!(recorder.event(object, EventType::Normal, "Started", "message").is_accepted());
        events.flush(Duration::from_secs(60)).unwrap();
    }
    assert!(events.shutdown().complete);
}

/// Returns the stored events in the order in which they were created, each with its object and
/// count.
fn stored(path: &Path) -> Vec<(String, i32, Event)> {
    let store = SqliteSink::open(path).unwrap();
    let mut found = store.events().unwrap();
    found.sort_by_key(Event::event_time);
    let count = |event: &Event| event.series().map_or(1, |series| series.count);
    found.into_iter().map(|event| (event.involved_object.name.to_string(), count(&event), event)).collect()
}

/// Returns the expected counts after the first `writes` events.
fn counts_after(writes: usize) -> Vec<(String, i32)> {
    let mut counts: Vec<(String, i32)> = Vec::new();
    for object in &RECORDED[..writes] {
        match counts.iter_mut().find(|(known, _)| known == object) {
            Some((_, count)) => *count += 1,
            None => counts.push(((*object).to_owned(), 1)),
        }
    }
    counts
}

#[test]
fn killed_between_two_writes_of_a_series_nothing_is_doubled_and_no_count_goes_back() {
    if let Some(orders) = child::orders() {
        let stop_at = orders[1].parse().unwrap();
        let store = SqliteSink::open(&orders[0]).unwrap();
        return record(Stops { store, writes: AtomicU32::new(0), stop_at, before: orders[2] == "before" });
    }
    for stop_at in 0..RECORDED.len() {
        for moment in ["before", "after"] {
            let folder = tempdir().unwrap();
            let path = folder.path().join("events.db");
            let orders = [path.to_str().unwrap(), &stop_at.to_string(), moment];
            let mut child = child::Running::start(test_name!(), &orders);
            assert_eq!(child.hear().as_deref(), Some("stopped"));
            child.kill();

            let first = stored(&path);
            let is_done = usize::from(moment == "after");
            let plain = |found: &[(String, i32, Event)]| {
                found.iter().map(|(object, count, _)| (object.clone(), *count)).collect::<Vec<_>>()
            };
            assert_eq!(plain(&first), counts_after(stop_at + is_done), "{moment} write {stop_at}");

            record(SqliteSink::open(&path).unwrap());
            let both = stored(&path);
            assert_eq!(both[..first.len()], first, "the second life changed an event of the first one");
            assert_eq!(plain(&both[first.len()..]), counts_after(RECORDED.len()));
        }
    }
}
