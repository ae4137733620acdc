//! Event streams for the correlator, and functions that run one round with a stream. Every round
//! checks that its sums are correct.

#![allow(clippy::print_stderr, reason = "a benchmark says what it measures")]

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::correlator::{Correlation, EventCorrelator};
use eventcast::stats::CorrelatorStats;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, ObjectReference, Timestamp};

/// The cache size that was used to measure client-go.
pub const LRU_CACHE_SIZE: usize = 65_536;

/// Events in the order in which they are correlated, each with its timestamp.
pub type Stream = Vec<(SystemTime, Event)>;

/// The sums over a round, which are compared with the expected values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// The correlator's own counters.
    pub stats: CorrelatorStats,
    /// The sum of the counts of all events that are to be stored.
    pub counts: i64,
}

/// Returns a real cluster's events and a name for the source of the events. If there is no file
/// with real events, the same number of events is generated. The file is searched for in the
/// directory named by the environment variable `EVENTCAST_DATA`, or in `shared/data` next to the
/// checkout.
#[must_use]
pub fn cluster() -> (&'static str, Stream) {
    let folder = std::env::var_os("EVENTCAST_DATA")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data"), PathBuf::from);
    let file = folder.join("openshift-must-gather-clean-metal.jsonl");
    match std::fs::read_to_string(&file) {
        Ok(text) => {
            ("must-gather", text.lines().map(|line| timed(Event::from_json(line).unwrap())).collect())
        }
        Err(error) => {
            eprintln!("{}: {error}: measuring events that are made instead", file.display());
            ("made", made(5169))
        }
    }
}

/// Converts a stored event to the form that the correlator receives, with its count reset to 1.
/// Also returns the time at which the event was last seen or, if that time is unknown, the time at
/// which the event was created.
fn timed(mut event: Event) -> (SystemTime, Event) {
    event.count = 1;
    let at = event.last_seen().or(event.metadata.creation_timestamp());
    let at = at.unwrap_or(Timestamp::UNIX_EPOCH).duration_since(Timestamp::UNIX_EPOCH);
    (SystemTime::UNIX_EPOCH + at, event)
}

/// Generates events for 500 objects, most of which report the same few things repeatedly. The
/// events are about as varied as the real events.
fn made(events: u32) -> Stream {
    let one = |i: u32| {
        let number = i.wrapping_mul(2_654_435_761) >> 16;
        let (object, reason) = (number % 500, number / 500 % 3);
        let name = format!("controller-manager-6d4cf56db6-{object:05x}");
        let mut event = Event::default();
        event.metadata.namespace = "openshift-monitoring".into();
        event.metadata.name = format!("{name}.16a4b5571ec1{i:04x}").into();
        event.metadata.set_uid(format!("f5ba02d9-cdc8-4790-904f-{i:012x}"));
        event.involved_object =
            ObjectReference::new("Pod", name.clone()).in_namespace("openshift-monitoring");
        event.involved_object.uid = format!("a93e8ff4-70df-47f1-81fa-{object:012x}").into();
        event.involved_object.api_version = "v1".into();
        event.source.component = "kubelet".into();
        event.source.host = format!("worker-{}.example.internal", object % 3).into();
        event.reason = format!("Reason{reason}").into();
        event.message = format!("container {reason} of pod {name} is not ready: attempt {}", i % 2).into();
        event.type_ = if reason == 0 { "Warning".into() } else { "Normal".into() };
        event.count = 1;
        event.last_timestamp = Timestamp::new(1_631_628_350 + i64::from(i / 2), 0);
        event.first_timestamp = event.last_timestamp;
        timed(event)
    };
    (0..events).map(one).collect()
}

/// Returns each event twelve times within one second, six times unchanged and six times with a
/// different message each time. The correlator then counts nearly all events and folds many of
/// them, and most objects exhaust their budget.
#[must_use]
pub fn flooded(stream: &Stream) -> Stream {
    let mut flood = Vec::with_capacity(stream.len() * 12);
    for (at, event) in stream {
        for i in 0..12 {
            let mut event = event.clone();
            // Use a separate copy of the message, as if it had been formatted again.
            event.message = match i % 2 {
                0 => event.message.to_string().into(),
                _ => format!("{} (attempt {i})", event.message).into(),
            };
            flood.push((*at, event));
        }
    }
    flood
}

/// Returns the events about one half of the objects, for use by one of two threads. The two halves
/// do not share keys in any cache.
#[must_use]
pub fn half(stream: &Stream, thread: usize) -> Stream {
    let sum =
        |text: &str| text.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    let mine = |event: &Event| sum(&event.involved_object.name) / 7 % 2 == thread;
    stream.iter().filter(|(_, event)| mine(event)).cloned().collect()
}

/// Creates a correlator with client-go's options, except for the cache size. Uses the given clock,
/// or the default clock if `clock` is `None`.
#[must_use]
pub fn correlator(clock: Option<&FakeClock>) -> EventCorrelator {
    let mut options = CorrelatorOptions::default().cache_size(LRU_CACHE_SIZE);
    if let Some(clock) = clock {
        options = options.clock(clock.clock());
    }
    EventCorrelator::new(options).unwrap()
}

/// Correlates every event, and confirms the state of each event that is not skipped. Returns the
/// sums without the correlator's own counters.
#[inline(never)]
#[must_use]
pub fn correlate_all(correlator: &EventCorrelator, stream: &Stream, clock: Option<&FakeClock>) -> Sums {
    let mut sums = Sums::default();
    let mut now = None;
    for (at, event) in stream {
        if let Some(clock) = clock.filter(|_| now != Some(at)) {
            clock.set(*at);
            now = Some(at);
        }
        match correlator.correlate(event) {
            Correlation::Create { event, key } | Correlation::Update { event, key } => {
                sums.counts += i64::from(event.count);
                correlator.confirm(key, &event);
            }
            _ => {}
        }
    }
    sums
}

/// Runs one round on one thread, with a clock that is set to each event's own time. Each round
/// creates a new correlator, because the events would not be new to a correlator that was used in
/// an earlier round.
#[must_use]
pub fn round(stream: &Stream) -> (Duration, Sums) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let correlator = correlator(Some(&clock));
    let started = Instant::now();
    let mut sums = correlate_all(&correlator, stream, Some(&clock));
    let elapsed = started.elapsed();
    sums.stats = correlator.stats();
    (elapsed, sums)
}

/// Runs one round with one thread per stream. All threads share one correlator or, for comparison,
/// each thread has its own correlator. Returns the time of the slowest thread. The threads cannot
/// share a clock that is set manually, so they use the system clock.
#[must_use]
pub fn round_of_threads(streams: &[Stream], is_shared: bool) -> (Duration, CorrelatorStats) {
    let count = if is_shared { 1 } else { streams.len() };
    let correlators: Vec<EventCorrelator> = (0..count).map(|_| correlator(None)).collect();
    let barrier = std::sync::Barrier::new(streams.len());
    let elapsed = thread::scope(|scope| {
        let run = |(i, stream)| {
            let (barrier, correlator) = (&barrier, &correlators[i % count]);
            scope.spawn(move || {
                barrier.wait();
                let started = Instant::now();
                let sums = correlate_all(correlator, stream, None);
                assert!(sums.counts > 0);
                started.elapsed()
            })
        };
        let threads: Vec<_> = streams.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap_or_default()
    });
    let mut sum = CorrelatorStats::default();
    for stats in correlators.iter().map(EventCorrelator::stats) {
        sum.created += stats.created;
        sum.updated += stats.updated;
        sum.aggregated += stats.aggregated;
        sum.filtered += stats.filtered;
        sum.evicted += stats.evicted;
    }
    let events: usize = streams.iter().map(Vec::len).sum();
    assert_eq!(sum.created + sum.updated + sum.filtered, events as u64);
    (elapsed, sum)
}
