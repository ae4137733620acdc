//! Tests the correlator with extremely unlikely options, events, times and store responses. The
//! correlator must never panic, must count every event, must never lower a count, and must not use
//! more memory than its options allow.
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
#![allow(clippy::cast_possible_wrap, reason = "sizes of what is in memory")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, CorrelationKey, EventCorrelator, SpamFilter};
use eventcast::stats::CorrelatorStats;
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, ObjectReference};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::{cases, wild};

/// An allocator that counts this thread's live bytes, which is the number of bytes it has allocated
/// minus the number it has freed.
struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

// SAFETY: every call is forwarded unchanged to the system allocator. The counting neither allocates
// nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LIVE.try_with(|live| live.set(live.get() + layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = LIVE.try_with(|live| live.set(live.get() - layout.size() as i64));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[derive(Clone, Copy, Debug)]
struct Options {
    cache_size: usize,
    aggregation: Option<(usize, Duration)>,
    spam_filter: Option<(u32, f32)>,
}

impl Options {
    fn build(self, clock: &FakeClock) -> CorrelatorOptions {
        let aggregation = self.aggregation.map(|(max_events, max_interval)| {
            Aggregation::default().max_events(max_events).max_interval(max_interval)
        });
        let filter = self.spam_filter.map(|(burst, qps)| SpamFilter::default().burst(burst).qps(qps));
        CorrelatorOptions::default()
            .clock(clock.clock())
            .cache_size(self.cache_size)
            .aggregation(aggregation)
            .spam_filter(filter)
    }
}

fn options() -> impl Strategy<Value = Options> {
    let size = prop_oneof![6 => 1..6_usize, 2 => Just(4096), 1 => any::<usize>()];
    let interval = prop_oneof![
        4 => (1..1000_u64).prop_map(Duration::from_secs),
        1 => prop::sample::select(vec![Duration::ZERO, Duration::from_nanos(1), Duration::MAX]),
    ];
    let events = prop_oneof![4 => 1..5_usize, 1 => prop::sample::select(vec![0, 10, usize::MAX])];
    let burst = prop_oneof![3 => 1..5_u32, 1 => prop::sample::select(vec![0, 25, u32::MAX])];
    let qps = prop_oneof![
        3 => prop::sample::select(vec![1.0 / 300.0, 1.0, 1e3]),
        1 => any::<f32>(),
        1 => prop::sample::select(vec![0.0, -0.0, -1.0, f32::MIN_POSITIVE, 1e-45, f32::MAX, f32::INFINITY, f32::NAN]),
    ];
    (size, prop::option::of((events, interval)), prop::option::of((burst, qps)))
        .prop_map(|(cache_size, aggregation, spam_filter)| Options { cache_size, aggregation, spam_filter })
}

#[derive(Clone, Debug)]
enum Step {
    /// One of a few events that are recorded repeatedly, specified by object, reason and message,
    /// together with the event's count.
    Known(u8, u8, u8, i32),
    Any(Box<Event>),
    Advance(Duration),
    /// Sets the system time to this number of seconds since 1970.
    Set(u64),
    /// The store responds to one of the decisions with a different name, version and count.
    Confirm(prop::sample::Index, u8, i32),
}

fn step() -> impl Strategy<Value = Step> {
    let count = prop_oneof![6 => Just(1), 1 => any::<i32>(), 1 => Just(i32::MAX - 1)];
    prop_oneof![
        20 => (0..3_u8, 0..3_u8, 0..6_u8, count.clone())
            .prop_map(|(object, reason, message, count)| Step::Known(object, reason, message, count)),
        2 => wild::event().prop_map(|event| Step::Any(Box::new(event))),
        3 => (0..400_000_u64).prop_map(|ms| Step::Advance(Duration::from_millis(ms))),
        1 => prop::sample::select(vec![0, 1_600_000_000, 4_000_000_000, 253_402_300_799, u64::MAX >> 30])
            .prop_map(Step::Set),
        5 => (any::<prop::sample::Index>(), 0..4_u8, count).prop_map(|(of, version, count)| Step::Confirm(of, version, count)),
    ]
}

fn known(object: u8, reason: u8, message: u8, count: i32) -> Event {
    let mut event = Event::default();
    event.metadata.name = format!("web-{object}.{reason}{message}").into();
    event.metadata.namespace = "default".into();
    event.involved_object = ObjectReference::new("Pod", format!("web-{object}")).in_namespace("default");
    event.source.component = "fuzz".into();
    event.reason = format!("Reason{reason}").into();
    event.message = format!("message {message}").into();
    event.type_ = "Warning".into();
    event.count = count;
    event
}

/// Returns the subject of an event's count: the event without its metadata, count and times.
fn subject(event: &Event, is_group: bool) -> String {
    let mut event = event.clone();
    event.metadata = Event::default().metadata;
    event.count = 0;
    (event.first_timestamp, event.last_timestamp) = (None, None);
    if is_group {
        event.message = "".into();
    }
    event.to_json()
}

/// Returns the event as stored if the store has another writer.
fn stored(mut event: Event, version: u8, count: i32) -> Event {
    event.metadata.set_resource_version(version.to_string());
    event.metadata.name = format!("stored-{version}").into();
    event.count = count.min(event.count);
    event
}

fn assert_grown(before: &CorrelatorStats, stats: &CorrelatorStats) -> Result<(), TestCaseError> {
    for (was, is) in [
        (before.created, stats.created),
        (before.updated, stats.updated),
        (before.filtered, stats.filtered),
        (before.aggregated, stats.aggregated),
        (before.evicted, stats.evicted),
    ] {
        prop_assert!(was <= is, "{:?} after {:?}", stats, before);
    }
    Ok(())
}

fn run(options: Options, steps: Vec<Step>) -> Result<(), TestCaseError> {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let Ok(correlator) = EventCorrelator::new(options.build(&clock)) else {
        return Ok(());
    };
    let (mut calls, mut before) = (0, correlator.stats());
    let mut counts: HashMap<String, i32> = HashMap::new();
    let mut open: Vec<(CorrelationKey, Event)> = Vec::new();
    for step in steps {
        let event = match step {
            Step::Known(object, reason, message, count) => known(object, reason, message, count),
            Step::Any(event) => *event,
            Step::Advance(by) => {
                clock.advance(by);
                continue;
            }
            Step::Set(seconds) => {
                clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
                continue;
            }
            Step::Confirm(of, version, count) => {
                if !open.is_empty() {
                    let (key, event) = open.swap_remove(of.index(open.len()));
                    correlator.confirm(key, stored(event, version, count));
                }
                continue;
            }
        };
        calls += 1;
        let correlation = correlator.correlate(&event);
        let stats = correlator.stats();
        prop_assert_eq!(stats.created + stats.updated + stats.filtered, calls);
        assert_grown(&before, &stats)?;
        if stats.evicted > before.evicted {
            // Counting starts over for an evicted event.
            counts.clear();
        }
        let is_group = stats.aggregated > before.aggregated;
        before = stats;
        let (result, key, is_update) = match correlation {
            Correlation::Create { event, key } => (event, key, false),
            Correlation::Update { event, key } => {
                let patch = event.to_patch_json();
                let is_json = serde_json::from_str::<serde_json::Value>(patch.as_str()).is_ok();
                prop_assert!(is_json, "{}", patch.as_str());
                (event, key, true)
            }
            _ => continue,
        };
        let last = counts.insert(subject(&event, is_group), result.count);
        if is_update {
            prop_assert!(last.is_none_or(|last| result.count >= last), "{} after {:?}", result.count, last);
            prop_assert!(result.count > 0, "an update to {}", result.count);
        }
        open.push((key, result));
    }
    Ok(())
}

#[test]
fn every_event_is_counted_and_no_count_decreases() {
    let strategy = || (options(), prop::collection::vec(step(), 0..120));
    cases::check(150, strategy, |(options, steps)| run(options, steps));
}

/// Five times as many different events use hardly more memory.
#[test]
fn the_memory_of_a_correlator_is_bounded() {
    cases::check(6, options, |options| {
        let options = Options { cache_size: options.cache_size.clamp(1, 64), ..options };
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        let Ok(correlator) = EventCorrelator::new(options.build(&clock)) else {
            return Ok(());
        };
        let feed = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let mut event = known((number % 250) as u8, 0, 0, 1);
                event.message = format!("{number} {}", "x".repeat(number as usize % 200)).into();
                event.involved_object.name = format!("web-{}", number / 3).into();
                if let Correlation::Create { event, key } | Correlation::Update { event, key, .. } =
                    correlator.correlate(&event)
                {
                    correlator.confirm(key, &event);
                }
            }
            LIVE.with(Cell::get)
        };
        let few = feed(0..2000);
        let many = feed(2000..12_000);
        prop_assert!(many - few < 200 * 1024, "{} bytes more", many - few);
        Ok(())
    });
}
