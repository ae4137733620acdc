//! Measures the embedded stores when they contain many events.

#[cfg(feature = "sqlite")]
use std::ops::Range;
use std::time::Instant;

#[cfg(feature = "sqlite")]
use eventcast::Event;
use eventcast::MemorySink;
use eventcast::sink::{EventQuery, MemorySinkOptions};
#[cfg(feature = "sqlite")]
use eventcast_benches::recorded::pods_of;
use eventcast_benches::recorded::{create_in_batches, events_about, pods};
use eventcast_benches::table::median;

use crate::row::{Figure, Load};

/// The number of events that are generated and stored at a time, so that not all events have to be
/// in memory.
const PIECE: u64 = 10_000;

/// Measures how long a query by object takes. Each object has ten events.
pub(crate) fn find(load: &Load) -> Vec<Figure> {
    /// The number of events per object.
    const EACH: u64 = 10;
    const QUERIES: usize = 20;
    let objects = load.events(1_000_000) / EACH;
    let pods = pods(objects);
    let options = MemorySinkOptions::default().max_events((objects * EACH) as usize);
    let sink = MemorySink::with_options(options).expect("the number is in range");
    for number in 0..EACH {
        for piece in pods.chunks(PIECE as usize) {
            let mut events = events_about(piece);
            for event in &mut events {
                event.metadata.name = format!("{}{number}", event.metadata.name).into();
            }
            _ = create_in_batches(&sink, &events);
        }
    }
    assert_eq!(sink.len() as u64, objects * EACH);
    let query = |number: usize| {
        let query = EventQuery::default().object(&pods[number * pods.len() / QUERIES]);
        let start = Instant::now();
        let found = sink.find(&query);
        let elapsed = start.elapsed();
        assert_eq!(found.len() as u64, EACH);
        elapsed.as_secs_f64() * 1e3
    };
    let millis: Vec<f64> = (0..QUERIES).map(query).collect();
    vec![Figure::new(format!("MemorySink::find by object, {} events", objects * EACH), median(&millis), "ms")]
}

/// Measures a growing file-based store, with events that are each about a new object.
#[cfg(feature = "sqlite")]
pub(crate) fn sqlite(load: &Load) -> Vec<Figure> {
    let make = |numbers: Range<u64>| events_about(&pods_of(numbers));
    by_tenths("SqliteSink, all new", load.events(1_000_000), make)
}

/// Does the same as [`sqlite`], but with events that cycle through 10,000 objects.
#[cfg(feature = "sqlite")]
pub(crate) fn sqlite_in_turn(load: &Load) -> Vec<Figure> {
    let pods = pods(PIECE);
    let make = |numbers: Range<u64>| {
        let mut events = events_about(&pods[..(numbers.end - numbers.start) as usize]);
        for event in &mut events {
            event.metadata.name = format!("{}{:06x}", event.metadata.name, numbers.start).into();
        }
        events
    };
    by_tenths("SqliteSink, objects in turn", load.events(1_000_000), make)
}

/// Stores the given number of events and measures the first and the last tenth of the events.
/// `make` generates the events for a range of at most `PIECE` numbers.
#[cfg(feature = "sqlite")]
fn by_tenths(name: &str, events: u64, make: impl Fn(Range<u64>) -> Vec<Event>) -> Vec<Figure> {
    use std::time::Duration;

    use cpu_time::ThreadTime;
    use eventcast_sqlite::SqliteSinkOptions;

    const TENTHS: u64 = 10;
    let each = events / TENTHS;
    let file = TemporaryFile::new();
    let options = SqliteSinkOptions::default().max_events((each * TENTHS) as usize);
    let sink = eventcast_sqlite::SqliteSink::with_options(&file.0, options).expect("a file can be made");
    let mut tenths = Vec::new();
    for start in (0..TENTHS).map(|tenth| tenth * each) {
        let (mut next, mut elapsed, mut processor) = (start, Duration::ZERO, Duration::ZERO);
        while next < start + each {
            let end = (next + PIECE).min(start + each);
            let events = make(next..end);
            let before = ThreadTime::now();
            elapsed += create_in_batches(&sink, &events);
            processor += before.elapsed();
            next = end;
        }
        tenths.push((each as f64 / elapsed.as_secs_f64(), processor.as_secs_f64() * 1e6 / each as f64));
    }
    let stats = sink.stats().expect("it can be read");
    assert_eq!((stats.created, stats.evicted), (each * TENTHS, 0));
    let ((first, first_processor), (last, last_processor)) = (tenths[0], tenths[tenths.len() - 1]);
    vec![
        Figure::new(format!("{name}, the first tenth"), first, "events/s"),
        Figure::new(format!("{name}, the last tenth"), last, "events/s"),
        Figure::new(format!("{name}, last by first"), last / first, "times"),
        Figure::new(format!("{name}, processor in the first tenth"), first_processor, "us"),
        Figure::new(format!("{name}, processor in the last tenth"), last_processor, "us"),
    ]
}

/// A file for a store, which is removed when the value is dropped, even after a failure.
#[cfg(feature = "sqlite")]
struct TemporaryFile(std::path::PathBuf);

#[cfg(feature = "sqlite")]
impl TemporaryFile {
    fn new() -> Self {
        Self(std::env::temp_dir().join(format!("eventcast-recording-{}.db", std::process::id())))
    }
}

#[cfg(feature = "sqlite")]
impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // If the store was closed, it has already removed its two other files.
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.0.display()));
        }
    }
}
