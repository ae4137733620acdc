//! Property tests of the correlator with random events, options and times.

use std::collections::{HashMap, VecDeque};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use eventcast::correlator::{Aggregation, Correlation, EventCorrelator, SpamFilter};
use eventcast::{CorrelatorOptions, Event};
use test_support::watched;

use proptest::prelude::*;

use super::{Rig, Seen, about};

/// One occurrence of an event: its object, reason, message and type, and the number of seconds
/// since the previous occurrence.
#[derive(Clone, Copy, Debug)]
struct Occurrence {
    object: u8,
    reason: u8,
    message: u8,
    is_warning: bool,
    after: u16,
}

impl Occurrence {
    fn event(self) -> Event {
        let mut event = about(self.object.into());
        event.reason = format!("Reason{}", self.reason).into();
        event.message = format!("message {} <&>", self.message).into();
        event.type_ = if self.is_warning { "Warning".into() } else { "Normal".into() };
        event
    }

    fn key(self) -> (u8, u8, u8, bool) {
        (self.object, self.reason, self.message, self.is_warning)
    }
}

fn occurrences() -> impl Strategy<Value = Vec<Occurrence>> {
    // Occurrences usually arrive in bursts, and sometimes after a long pause.
    let after = prop_oneof![4 => Just(0_u16), 4 => 1_u16..30, 1 => 300_u16..2000];
    let one = (0_u8..4, 0_u8..2, 0_u8..7, any::<bool>(), after).prop_map(
        |(object, reason, message, is_warning, after)| Occurrence {
            object,
            reason,
            message,
            is_warning,
            after,
        },
    );
    prop::collection::vec(one, 1..150)
}

fn options() -> impl Strategy<Value = CorrelatorOptions> {
    let filter = prop::option::of((1_u32..8, prop_oneof![Just(1.0_f32 / 300.0), Just(0.1), Just(2.0)]));
    let aggregation = prop::option::of((1_usize..6, 1_u64..600));
    (filter, aggregation).prop_map(|(filter, aggregation)| {
        let folding = aggregation.map(|(max_events, seconds)| {
            Aggregation::default().max_events(max_events).max_interval(Duration::from_secs(seconds))
        });
        let budget = filter.map(|(burst, qps)| SpamFilter::default().burst(burst).qps(qps));
        CorrelatorOptions::default().aggregation(folding).spam_filter(budget)
    })
}

/// Returns the correlator's answer to an occurrence, after confirming the answer.
fn step(rig: &Rig, one: Occurrence) -> (Seen, Option<Event>) {
    rig.step(one.after.into());
    rig.run(&one.event())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// A count equals the number of times that this exact event has occurred, including skipped
    /// occurrences.
    #[test]
    fn a_count_is_the_number_of_occurrences(all in occurrences(), options in options()) {
        let rig = Rig::new(options.aggregation(None));
        let mut counts: HashMap<_, i32> = HashMap::new();
        for one in all {
            let count = counts.entry(one.key()).or_default();
            *count += 1;
            match step(&rig, one).0 {
                Seen::Create(created) => prop_assert_eq!((created, *count), (1, 1)),
                Seen::Update(updated) => prop_assert_eq!(updated, *count),
                Seen::Skip => {}
            }
        }
    }

    /// With folded events, the counts of a stored event never repeat a number and skip only the
    /// numbers of filtered events.
    #[test]
    fn counts_of_a_stored_event_grow(all in occurrences(), options in options()) {
        let rig = Rig::new(options.clone());
        let mut last: HashMap<_, (i32, bool)> = HashMap::new();
        let unlimited = serde_json::to_value(&options).unwrap()["spam_filter"].is_null();
        for one in all {
            let (answer, Some(event)) = step(&rig, one) else { continue };
            let is_new = matches!(answer, Seen::Create(_));
            let is_folded = event.message.starts_with("(combined");
            let member = if is_folded { None } else { Some(one.message) };
            let (before, seen) = last.entry((one.object, one.reason, one.is_warning, member)).or_default();
            prop_assert!(event.count > *before, "{} after {}", event.count, before);
            prop_assert!(!unlimited || event.count == *before + 1);
            prop_assert!(!(is_new && *seen), "created twice");
            (*before, *seen) = (event.count, true);
        }
    }

    /// As long as the caches are large enough, the objects do not affect each other.
    #[test]
    fn one_objects_answers_do_not_depend_on_anothers(all in occurrences(), options in options()) {
        let together = Rig::new(options.clone());
        let answers: Vec<_> = all.iter().map(|one| step(&together, *one)).collect();
        for object in 0..4 {
            let alone = Rig::new(options.clone());
            for (one, answer) in all.iter().zip(&answers) {
                if one.object == object {
                    prop_assert_eq!(&step(&alone, *one), answer);
                } else {
                    alone.step(one.after.into());
                }
            }
        }
    }

    /// A skipped event uses no budget. Further repeats at the same time are skipped too, and later
    /// decisions are the same as if the skipped events had not occurred, except for the counts.
    #[test]
    fn a_skip_changes_nothing_but_the_count(all in occurrences(), options in options(), more in 1_usize..4) {
        let (once, often) = (Rig::new(options.clone()), Rig::new(options.clone()));
        for one in all {
            let (first, second) = (step(&once, one), step(&often, one));
            prop_assert_eq!(first.0 == Seen::Skip, second.0 == Seen::Skip);
            if first.0 == Seen::Skip {
                for _ in 0..more {
                    prop_assert_eq!(step(&often, Occurrence { after: 0, ..one }).0, Seen::Skip);
                }
            }
        }
    }

    /// The statistics balance, whatever the caches evict.
    #[test]
    fn the_books_balance(all in occurrences(), options in options(), size in 1_usize..20) {
        let rig = Rig::new(options.cache_size(size));
        let (mut created, mut updated, mut filtered) = (0, 0, 0);
        for one in &all {
            match step(&rig, *one) {
                (Seen::Create(count), _) => {
                    prop_assert_eq!(count, 1);
                    created += 1;
                }
                (_, Some(event)) => {
                    prop_assert!(event.count > 1);
                    let patch: serde_json::Value = serde_json::from_str(&event.to_patch_json()).unwrap();
                    prop_assert_eq!(&patch["count"], event.count);
                    prop_assert_eq!(&patch["message"], event.message.as_str());
                    let at = event.last_timestamp.unwrap();
                    prop_assert_eq!(&patch["lastTimestamp"], &format!("{at:.0}"));
                    updated += 1;
                }
                (_, None) => filtered += 1,
            }
        }
        let stats = rig.correlator.stats();
        prop_assert_eq!((stats.created, stats.updated, stats.filtered), (created, updated, filtered));
        prop_assert_eq!(created + updated + filtered, all.len() as u64);
        prop_assert!(stats.aggregated <= all.len() as u64);
        // An event adds at most one new entry to each cache.
        prop_assert!(stats.evicted <= 3 * (all.len() as u64).saturating_sub(size as u64));
    }

    /// Compares the caches with a linearly searched list. Each of the three caches evicts exactly
    /// the least recently used entry across all objects, whichever shard holds it, and evicts
    /// nothing before it is full.
    #[test]
    fn the_least_recently_used_entry_of_all_objects_is_evicted(
        uses in prop::collection::vec((0_u16..120, any::<bool>()), 1..800),
        size in 1_usize..80,
        burst in 1_u32..6,
    ) {
        let budget = SpamFilter::default().burst(burst);
        let options = CorrelatorOptions::default().cache_size(size).spam_filter(budget);
        let rig = Rig::new(options.clone());
        let mut model: VecDeque<(u16, i32)> = VecDeque::new();
        let mut evicted = 0;
        for (number, often) in uses {
            // Some numbers occur much more often than others.
            let number = if often { number % 16 } else { number };
            let found = model.iter().position(|(n, _)| *n == number).and_then(|at| model.remove(at));
            let count = found.map_or(1, |(_, count)| count + 1);
            model.push_back((number, count));
            if model.len() > size {
                model.pop_front();
                evicted += 3;
            }
            let object = u8::try_from(number).unwrap();
            match step(&rig, Occurrence { object, reason: 0, message: 0, is_warning: false, after: 0 }).0 {
                Seen::Create(_) => prop_assert_eq!(count, 1),
                Seen::Update(updated) => prop_assert_eq!(updated, count),
                // The budget is evicted together with the count.
                Seen::Skip => prop_assert!(count > i32::try_from(burst).unwrap()),
            }
            prop_assert_eq!(rig.correlator.stats().evicted, evicted);
        }
    }
}

const THREADS: u32 = 4;

/// Returns the number of entries that adding these objects evicts from the three caches in total.
fn evicted_by(correlator: &EventCorrelator, from: u32, objects: u32) -> u64 {
    let before = correlator.stats().evicted;
    (from..from + objects).for_each(|number| drop(correlator.correlate(&about(number.into()))));
    correlator.stats().evicted - before
}

/// In every round, each thread uses its own few objects and then adds new objects. The new objects
/// of all threads together are fewer than the cache can hold in addition to the threads' own
/// objects. However the threads interleave, their own objects stay cached and old objects are
/// evicted.
#[test]
fn entries_that_several_threads_use_again_stay() {
    const SIZE: u32 = 1000;
    const OWN: u32 = 5;
    const NEW: u32 = 50;
    const ROUNDS: u32 = 100;
    let budget = SpamFilter::default().burst(ROUNDS);
    let options = CorrelatorOptions::default().cache_size(SIZE as usize).spam_filter(budget);
    let correlator = EventCorrelator::new(options).unwrap();
    let barrier = Barrier::new(THREADS as usize);
    // Evicted objects are returned as strings instead of causing a panic, because a panicking
    // thread would leave the other threads waiting at the barrier.
    let run = |thread: u32| {
        let mut forgotten = Vec::new();
        for round in 1..=ROUNDS {
            barrier.wait();
            for own in 0..OWN {
                let count = match correlator.correlate(&about((thread * OWN + own).into())) {
                    Correlation::Create { event, .. } | Correlation::Update { event, .. } => event.count,
                    _ => 0,
                };
                if u32::try_from(count) != Ok(round) {
                    forgotten.push(format!("round {round}: object {own} of {thread} has {count}"));
                }
            }
            barrier.wait();
            for new in 0..NEW {
                let number = 1_000_000 + (round * THREADS + thread) * NEW + new;
                drop(correlator.correlate(&about(number.into())));
            }
        }
        forgotten
    };
    let forgotten: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || run(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(forgotten, [""; 0]);
    let made = u64::from(THREADS * (OWN + ROUNDS * NEW));
    assert_eq!(correlator.stats().evicted, 3 * (made - u64::from(SIZE)), "each cache is exactly full");
}

/// With user-supplied keys one decision locks three shards, and with a small cache it locks the
/// shards of other objects too. Threads that process the same objects in opposite directions never
/// deadlock.
#[test]
fn keys_of_all_kinds_and_threads_in_all_directions_never_deadlock() {
    const OBJECTS: u32 = 97;
    const EACH: u32 = 3000;
    for size in [1, 40] {
        watched(move || {
            let options = CorrelatorOptions::default()
                .cache_size(size as usize)
                .aggregation(Aggregation::default().max_events(2))
                .spam_filter(SpamFilter::default().burst(2).qps(1_000.0));
            let own_keys = options
                .clone()
                .aggregate_key(|event| (event.reason.clone(), event.message.clone()))
                .spam_key(|event| event.message.clone());
            let correlators = [options, own_keys].map(|options| EventCorrelator::new(options).unwrap());
            let barrier = Barrier::new(THREADS as usize);
            let run = |thread: u32| {
                barrier.wait();
                for i in 0..EACH {
                    let number = if thread % 2 == 0 { i % OBJECTS } else { OBJECTS - i % OBJECTS };
                    for correlator in &correlators {
                        let mut event = about(number.into());
                        event.reason = format!("reason {}", number * 7 % 31).into();
                        match correlator.correlate(&event) {
                            Correlation::Create { event, key, .. }
                            | Correlation::Update { event, key, .. } => correlator.confirm(key, &event),
                            _ => {}
                        }
                    }
                }
            };
            thread::scope(|scope| (0..THREADS).for_each(|thread| drop(scope.spawn(move || run(thread)))));
            for correlator in &correlators {
                let stats = correlator.stats();
                assert_eq!(stats.created + stats.updated + stats.filtered, u64::from(THREADS * EACH));
            }
            // However the threads interleaved, each cache is exactly full.
            let [plain, _] = &correlators;
            // The latest hundred uses of the other threads may count as later than this thread's
            // uses.
            evicted_by(plain, 3_000_000, 500);
            evicted_by(plain, 1_000_000, size);
            assert_eq!(evicted_by(plain, 1_000_000, size), 0);
            assert_eq!(evicted_by(plain, 2_000_000, 1), 3);
            let answer = plain.correlate(&about(1_000_000));
            assert!(matches!(answer, Correlation::Create { .. }), "{answer:?}: the oldest is still cached");
        });
    }
}
