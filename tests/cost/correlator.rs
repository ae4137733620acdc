//! Costs that the correlator avoids. The correlator allocates nothing except the answer itself, and
//! keeps no more entries than configured.

use std::fmt::Write as _;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, Event, EventSource, ObjectReference, Text};
use test_support::in_own_process;

use crate::counting::{self, MARKED, alive, allocations_here};

fn event(object: u32, message: impl Into<Text>) -> Event {
    let mut event = Event::default();
    event.metadata.namespace = "kube-system".into();
    event.metadata.name = format!("controller-manager-{object:08}.16a4b5571ec10e94").into();
    event.involved_object =
        ObjectReference::new("Pod", format!("controller-manager-{object:08}")).in_namespace("kube-system");
    event.involved_object.uid = format!("a93e8ff4-70df-47f1-81fa-8a4f{object:08}").into();
    event.source = EventSource::from("kubelet").on_host("worker-1.example.internal");
    event.reason = "BackOff".into();
    event.message = message.into();
    event.type_ = "Warning".into();
    event.count = 1;
    event
}

/// Creates a correlator with a clock that does not advance.
fn correlator(options: CorrelatorOptions) -> EventCorrelator {
    EventCorrelator::new(options.clock(FakeClock::new(SystemTime::UNIX_EPOCH).clock())).unwrap()
}

#[derive(Debug, PartialEq)]
enum Answer {
    Create,
    Update,
    Skip,
}

/// Correlates an event and confirms it with the version that a store would assign. Returns the
/// number of allocations of each of these two calls, and the kind of the answer.
fn cost(correlator: &EventCorrelator, event: &Event) -> (u64, u64, Answer) {
    let (correlate, answer) = allocations_here(|| correlator.correlate(event));
    let (mut stored, key, kind) = match answer {
        Correlation::Create { event, key, .. } => (event, key, Answer::Create),
        Correlation::Update { event, key, .. } => (event, key, Answer::Update),
        _ => return (correlate, 0, Answer::Skip),
    };
    stored.metadata.set_resource_version("981372");
    let (confirm, ()) = allocations_here(|| correlator.confirm(key, &stored));
    (correlate, confirm, kind)
}

const LONG: &str = "Back-off restarting failed container manager in pod controller-manager-6d4cf56db6-xk2lp";

#[test]
fn a_repeat_allocates_nothing() {
    let correlator = correlator(CorrelatorOptions::default().spam_filter(None));
    cost(&correlator, &event(1, LONG));
    for _ in 0..100 {
        assert_eq!(cost(&correlator, &event(1, LONG.to_owned())), (0, 0, Answer::Update));
    }
    // Without an answer from a store, there is no version.
    let correlator = self::correlator(CorrelatorOptions::default().spam_filter(None));
    correlator.correlate(&event(1, LONG));
    let again = event(1, LONG);
    for _ in 0..100 {
        assert_eq!(allocations_here(|| correlator.correlate(&again)).0, 0);
    }
}

#[test]
fn skipped_events_allocate_nothing() {
    let budget = SpamFilter::default().burst(1);
    let correlator = correlator(CorrelatorOptions::default().spam_filter(budget));
    cost(&correlator, &event(1, LONG));
    for _ in 0..100 {
        assert_eq!(cost(&correlator, &event(1, LONG.to_owned())), (0, 0, Answer::Skip));
    }
    // Building the message of a folded event does not allocate either.
    for i in 0..20 {
        cost(&correlator, &event(1, format!("{LONG}: attempt {i}")));
    }
    let before = correlator.stats().aggregated;
    for i in 20..120 {
        assert_eq!(cost(&correlator, &event(1, format!("{LONG}: attempt {i}"))), (0, 0, Answer::Skip));
    }
    assert_eq!(correlator.stats().aggregated, before + 100);
}

#[test]
fn folded_events_also_allocate_their_message() {
    let correlator = correlator(CorrelatorOptions::default().spam_filter(None));
    for i in 0..20 {
        cost(&correlator, &event(1, format!("{LONG}: attempt {i}")));
    }
    for i in 20..120 {
        assert_eq!(cost(&correlator, &event(1, format!("{LONG}: attempt {i}"))), (1, 0, Answer::Update));
    }
}

#[test]
fn a_new_event_allocates_its_keys() {
    let correlator = correlator(CorrelatorOptions::default().aggregation(None).cache_size(64));
    // Fill the caches until nothing grows any further.
    for i in 0..4096 {
        cost(&correlator, &event(i, LONG));
    }
    // Each event takes three allocations: for the key, for the key's prefix, and for the entries of
    // all three caches under that prefix.
    let mut sum = 0;
    for i in 4096..5096 {
        let (correlate, confirm, answer) = cost(&correlator, &event(i, LONG));
        assert_eq!(answer, Answer::Create);
        sum += correlate + confirm;
    }
    // The table is rebuilt whenever it is full of removed entries.
    assert!((3000..3300).contains(&sum), "{sum}");
}

const THREADS: u32 = 4;
const EACH: u32 = 1500;
const SIZE: u32 = 50;

/// Runs threads that insert only new messages, each of which is held by a thread or a cache.
/// Returns the highest number of messages alive at the same time.
fn most_alive(correlator: &EventCorrelator) -> i64 {
    let barrier = Barrier::new(THREADS as usize);
    let insert = |t| {
        let mut buffer = String::with_capacity(2 * MARKED);
        barrier.wait();
        for i in 0..EACH {
            let number = t * EACH + i;
            buffer.clear();
            write!(buffer, "{number:0MARKED$}").unwrap();
            correlator.correlate(&event(number % 97, Arc::<str>::from(buffer.as_str())));
        }
    };
    counting::most_alive(|| {
        thread::scope(|scope| {
            for t in 0..THREADS {
                let insert = &insert;
                scope.spawn(move || insert(t));
            }
        });
    })
}

#[test]
fn never_more_entries_than_the_size_and_the_number_of_threads() {
    in_own_process!();
    let before = alive();
    let counting = correlator(CorrelatorOptions::off().cache_size(SIZE as usize));
    let most = most_alive(&counting);
    // Each thread may have one extra entry in the cache and hold one message itself, and another
    // thread may evict the entry that a thread has just inserted.
    let bound = i64::from(SIZE) + 2 * i64::from(THREADS);
    assert!((i64::from(SIZE)..=bound).contains(&most), "{most} of {bound}");
    // When all threads have finished, there are exactly as many entries as allowed.
    assert_eq!(alive() - before, i64::from(SIZE));
    assert_eq!(counting.stats().evicted, u64::from(THREADS * EACH - SIZE));
    drop(counting);
    assert_eq!(alive(), before);
}

/// An object floods the cache, and one of its events stays in use while the next object floods the
/// cache.
#[test]
fn an_object_whose_flood_is_over_keeps_little_memory() {
    in_own_process!();
    const OBJECTS: u32 = 50;
    let options = CorrelatorOptions::off().cache_size(2048);
    let correlator = EventCorrelator::new_exact(options).unwrap();
    let add = |object, message: u32| drop(correlator.correlate(&event(object, format!("{message}"))));
    let flood = |object| {
        for message in 0..2000 {
            add(object, message);
            // The second message of each object stays in use.
            (0..=object).filter(|_| message % 200 == 1).for_each(|used| add(used, 1));
        }
    };
    flood(0);
    let after_one = counting::live();
    (1..OBJECTS).for_each(flood);
    // The table for one flood takes about 100,000 bytes.
    let each = (counting::live() - after_one) / i64::from(OBJECTS - 1);
    assert!(each < 5_000, "{each} bytes for each object");
    let kept = (0..OBJECTS).map(|object| cost(&correlator, &event(object, "1")).2);
    assert!(kept.into_iter().all(|answer| answer == Answer::Update), "each event must still be in use");
}

/// The groups also hold messages: up to two in each group if three messages make an aggregate.
#[test]
fn groups_free_their_messages() {
    in_own_process!();
    let before = alive();
    let groups = Aggregation::default().max_events(3).max_interval(Duration::from_secs(1));
    let folding = correlator(CorrelatorOptions::default().aggregation(groups).cache_size(SIZE as usize));
    let most = most_alive(&folding);
    let bound = 3 * (i64::from(SIZE) + i64::from(THREADS));
    assert!((1..=bound).contains(&most), "{most} of {bound}");
    drop(folding);
    assert_eq!(alive(), before);
}
