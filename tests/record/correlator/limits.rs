//! Clocks that jump, budgets, and entries that are forgotten.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::correlator::{Aggregation, Correlation, SpamFilter};
use eventcast::stats::CorrelatorStats;
use eventcast::{CorrelatorOptions, Event};
use test_support::Rng;

use super::{PREFIX, Rig, Seen, budget, decision, event, folding, start};

#[test]
fn a_clock_that_goes_back_neither_refills_nor_forgets() {
    let rig = Rig::new(budget(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(2));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
    // The grant in the past moved the bucket there, so the way back is a refill.
    rig.clock.set(start());
    assert_eq!(rig.seen(&event("r", "m")), Seen::Update(4));
}

/// client-go compares the time since the last event with the interval. A negative time is not
/// longer than the interval.
#[test]
fn a_clock_that_goes_back_forgets_no_group() {
    let rig = Rig::new(folding(3));
    assert_eq!(rig.seen(&event("r", "a")), Seen::Create(1));
    assert_eq!(rig.seen(&event("r", "b")), Seen::Create(1));
    rig.clock.set(SystemTime::UNIX_EPOCH);
    let Correlation::Create { event: folded, .. } = rig.correlator.correlate(&event("r", "c")) else {
        panic!("the first of its group")
    };
    assert!(folded.message.starts_with("(combined"), "{}", folded.message);
}

#[test]
fn what_is_refused_does_not_move_the_bucket_back() {
    let rig = Rig::new(budget(1));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Create(1));
    rig.clock.set(start() - Duration::from_secs(3600));
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
    rig.clock.set(start());
    assert_eq!(rig.seen(&event("r", "m")), Seen::Skip);
}

#[test]
fn a_budget_is_never_more_than_its_burst() {
    let rig = Rig::new(budget(2));
    for round in 0..3 {
        assert_ne!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        assert_ne!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        assert_eq!(rig.seen(&event("r", "m")), Seen::Skip, "{round}");
        rig.step(1_000_000);
    }
}

#[test]
fn less_than_a_nanosecond_short_is_enough() {
    // 0.7 is a little less as a 32-bit number: a token takes 1,428,571,452.9 nanoseconds.
    for (nanos, accepted) in [(1_428_571_451, false), (1_428_571_452, true)] {
        let filter = SpamFilter::default().burst(1).qps(0.7);
        let rig = Rig::new(CorrelatorOptions::default().spam_filter(filter));
        rig.run(&event("r", "m"));
        rig.clock.advance(Duration::from_nanos(nanos));
        assert_eq!(rig.seen(&event("r", "m")) != Seen::Skip, accepted, "{nanos}");
    }
}

#[test]
fn stages_that_are_off_do_nothing() {
    let rig = Rig::new(CorrelatorOptions::off());
    for i in 0..100 {
        assert_eq!(rig.seen(&event("r", &format!("m{i}"))), Seen::Create(1));
    }
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.aggregated, stats.filtered), (100, 0, 0));
}

/// Compared with a list that is searched from the front: the cache forgets exactly the least
/// recently used entry.
#[test]
fn the_least_recently_used_is_forgotten() {
    for capacity in [1, 2, 3, 7, 50] {
        let rig = Rig::new(CorrelatorOptions::off().lru_cache_size(capacity));
        let mut model: VecDeque<(u64, i32)> = VecDeque::new();
        let mut evicted = 0;
        let mut rng = Rng(1);
        for _ in 0..20_000 {
            let random = rng.next();
            // More keys than fit, and some of them are frequent.
            let number = (random % 101).min(random % 13 * 7);
            let found = model.iter().position(|(n, _)| *n == number).and_then(|at| model.remove(at));
            let count = found.map_or(1, |(_, count)| count + 1);
            model.push_back((number, count));
            if model.len() > capacity {
                model.pop_front();
                evicted += 1;
            }
            let expected = if count == 1 { Seen::Create(1) } else { Seen::Update(count) };
            // In half of the cases no answer confirms the decision, but the decision is a use too.
            let event = event("r", &number.to_string());
            if random & 1024 == 0 {
                assert_eq!(rig.seen(&event), expected);
            } else {
                assert_eq!(decision(rig.correlator.correlate(&event)).0.count, count);
            }
        }
        assert_eq!(rig.correlator.stats().evicted, evicted, "capacity {capacity}");
        assert!(evicted > 1000);
    }
}

/// client-go adds an entry for the message of each folded event, and would have forgotten the other
/// object by now.
#[test]
fn a_folded_event_takes_no_room() {
    let rig = Rig::new(folding(2).spam_filter(None).lru_cache_size(3));
    let mut other = event("r", "m");
    other.involved_object.name = "other".into();
    assert_eq!(rig.seen(&other), Seen::Create(1));
    assert_eq!(rig.seen(&event("r", "m0")), Seen::Create(1));
    for count in 1..50 {
        let (seen, event) = rig.run(&event("r", &format!("m{count}")));
        assert_eq!(seen, if count == 1 { Seen::Create(1) } else { Seen::Update(count) });
        assert!(event.unwrap().message.starts_with(PREFIX));
    }
    assert_eq!(rig.seen(&other), Seen::Update(2));
    assert_eq!(rig.correlator.stats().evicted, 0);
}

/// client-go writes the number with a sign for these times, or lets it wrap.
#[test]
fn names_of_far_times_are_those_of_1970_and_2200() {
    let rig = Rig::new(folding(1));
    let start_of_2200 = Duration::from_secs(7_258_118_400);
    for (object, at, number) in [
        ("long-ago", SystemTime::UNIX_EPOCH - Duration::from_secs(86_400), 0),
        ("ago", SystemTime::UNIX_EPOCH - Duration::from_nanos(5), 999_999_995),
        ("far", SystemTime::UNIX_EPOCH + start_of_2200 * 2, start_of_2200.as_nanos()),
    ] {
        rig.clock.set(at);
        let mut event = event("r", "m");
        event.involved_object.name = object.into();
        assert_eq!(rig.run(&event).1.unwrap().metadata.name, format!("{object}.{number:x}").as_str());
    }
}

#[test]
fn each_cache_forgets_for_itself() {
    let rig = Rig::new(budget(1).lru_cache_size(2));
    let of = |host: &str| {
        let mut event = event("r", "m");
        event.source.host = host.to_owned().into();
        event
    };
    assert_eq!(rig.seen(&of("a")), Seen::Create(1));
    assert_eq!(rig.seen(&of("a")), Seen::Skip);
    assert_eq!(rig.seen(&of("b")), Seen::Create(1));
    assert_eq!(rig.seen(&of("c")), Seen::Create(1));
    assert_eq!(rig.correlator.stats().evicted, 3);
    assert_eq!(rig.seen(&of("a")), Seen::Create(1), "count and budget start again");
}

#[test]
fn threads_count_one_event_without_losing_any() {
    const THREADS: usize = 4;
    const EACH: usize = 500;
    let rig = Rig::new(CorrelatorOptions::off());
    let barrier = Barrier::new(THREADS);
    let counts: Vec<i32> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    barrier.wait();
                    let one = |_| {
                        let (event, key) = decision(rig.correlator.correlate(&event("r", "m")));
                        rig.correlator.confirm(key, &event);
                        event.count
                    };
                    (0..EACH).map(one).collect::<Vec<i32>>()
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    let distinct: BTreeSet<i32> = counts.iter().copied().collect();
    assert_eq!(distinct, (1..=2000).collect());
    assert_eq!(counts.len(), distinct.len(), "a number was given out twice");
    let stats = rig.correlator.stats();
    assert_eq!((stats.created, stats.updated), (1, 1999));
}

#[test]
fn threads_that_insert_and_evict_keep_the_books() {
    const THREADS: u64 = 4;
    const EACH: u64 = 2000;
    let rig = Rig::new(budget(3).aggregation(Aggregation::default().max_events(4)).lru_cache_size(8));
    let barrier = Barrier::new(4);
    thread::scope(|scope| {
        for t in 0..THREADS {
            let (rig, barrier) = (&rig, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for i in 0..EACH {
                    let mut event = event("r", &format!("m{}", i % 7));
                    event.involved_object.name = format!("pod-{}", (i * (t + 1)) % 31).into();
                    rig.seen(&event);
                }
            });
        }
    });
    let CorrelatorStats { created, updated, filtered, evicted, .. } = rig.correlator.stats();
    assert_eq!(created + updated + filtered, THREADS * EACH);
    assert!(evicted > 0);
    // Whatever the threads did to each other, on one thread the cache now keeps eight entries, and
    // the ninth evicts one.
    let fill = |from: u64| {
        let before = rig.correlator.stats().evicted;
        for i in from..from + 8 {
            let mut event = event("fill", "m");
            event.involved_object.name = format!("fill-{i}").into();
            rig.seen(&event);
        }
        rig.correlator.stats().evicted - before
    };
    fill(0);
    assert_eq!(fill(100), 24, "eight in each of three caches");
}

/// An event about the object with this number.
pub(super) fn about(object: u64) -> Event {
    let mut event = event("r", "m");
    event.involved_object.name = format!("pod-{object}").into();
    event
}

pub(super) fn on_another_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

#[test]
fn threads_that_come_and_go_leave_a_cache_full_and_in_order() {
    let rig = Rig::new(CorrelatorOptions::off().lru_cache_size(8));
    for i in 0..100 {
        assert_eq!(on_another_thread(|| rig.seen(&about(i))), Seen::Create(1));
    }
    assert_eq!(rig.correlator.stats().evicted, 92);
    for i in 92..100 {
        assert_eq!(on_another_thread(|| rig.seen(&about(i))), Seen::Update(2));
    }
    assert_eq!(rig.correlator.stats().evicted, 92);
}

#[test]
fn what_another_thread_used_last_stays() {
    let rig = Rig::new(CorrelatorOptions::off().lru_cache_size(8));
    for i in 0..8 {
        assert_eq!(rig.seen(&about(i)), Seen::Create(1));
    }
    on_another_thread(|| {
        assert_eq!(rig.seen(&about(0)), Seen::Update(2));
        assert_eq!(rig.seen(&about(8)), Seen::Create(1), "1 is forgotten");
    });
    assert_eq!(rig.seen(&about(0)), Seen::Update(3));
    assert_eq!(rig.seen(&about(2)), Seen::Update(2));
    assert_eq!(rig.seen(&about(1)), Seen::Create(1), "3 is forgotten");
    assert_eq!(rig.seen(&about(8)), Seen::Update(2));
    assert_eq!(rig.correlator.stats().evicted, 2);
}
