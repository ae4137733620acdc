//! Which entries the caches evict. Caches with 128 or more entries are divided into shards, except
//! those of a recording.

use std::thread;

use eventcast::{CorrelatorOptions, Event, EventBroadcaster, EventType, MemorySink};

use crate::support::{LONG, pod};

use super::{Rig, Seen, about, budget, event};

pub(super) fn on_another_thread<R: Send>(run: impl FnOnce() -> R + Send) -> R {
    thread::scope(|scope| scope.spawn(run).join().unwrap())
}

fn rig(capacity: usize) -> Rig {
    Rig::new(CorrelatorOptions::off().cache_size(capacity))
}

/// Returns an event about one fixed object, with the given number as its message.
fn with_message(number: u64) -> Event {
    event("r", &number.to_string())
}

/// Adds an entry for each of these events, and checks that the cache had no entries for these
/// events before.
#[track_caller]
fn add(rig: &Rig, events: impl Iterator<Item = Event>) {
    for event in events {
        assert_eq!(rig.seen(&event), Seen::Create(1), "{} {}", event.involved_object.name, event.message);
    }
}

#[test]
fn a_cache_evicts_nothing_before_it_is_full() {
    for of in [about, with_message] {
        let rig = rig(4096);
        add(&rig, (0..4096).map(of));
        for number in 0..4096 {
            assert_eq!(rig.seen(&of(number)), Seen::Update(2));
        }
        assert_eq!(rig.correlator.stats().evicted, 0);
    }
}

#[test]
fn each_shard_of_a_full_cache_evicts_its_least_recently_used_entry() {
    let rig = rig(128);
    // Each of the two shards has 64 entries, whichever objects it holds.
    add(&rig, (0..1000).map(about));
    assert_eq!(rig.correlator.stats().evicted, 872);
    // All messages about one object are in the same shard.
    add(&rig, (0..64).map(with_message));
    assert_eq!(rig.seen(&with_message(0)), Seen::Update(2), "63 entries were used after it");
    add(&rig, (64..128).map(with_message));
    assert_eq!(rig.seen(&with_message(0)), Seen::Create(1), "64 entries were used after it");
    assert_eq!(rig.correlator.stats().evicted, 872 + 129);
}

#[test]
fn one_object_that_has_filled_the_cache_leaves_the_others_their_share() {
    let rig = rig(4096);
    add(&rig, (0..4096).map(with_message));
    add(&rig, (0..1000).map(about));
    for object in 0..1000 {
        assert_eq!(rig.seen(&about(object)), Seen::Update(2), "{object}");
    }
    assert_eq!(rig.seen(&with_message(4095)), Seen::Update(2));
    assert_eq!(rig.correlator.stats().evicted, 1000);
}

#[test]
fn threads_that_take_turns_evict_one_entry_for_each_new_one() {
    for capacity in [1, 2, 5, 32, 200, 1000] {
        let rig = rig(capacity);
        for object in 0..1500 {
            let decide = || rig.seen(&about(object));
            let seen = if object % 2 == 0 { decide() } else { on_another_thread(decide) };
            assert_eq!(seen, Seen::Create(1));
        }
        assert_eq!(rig.correlator.stats().evicted, 1500 - capacity as u64);
    }
}

#[test]
fn a_recording_evicts_in_the_exact_order() {
    let options = CorrelatorOptions::off().cache_size(300);
    let events = EventBroadcaster::builder().correlator(options).build().unwrap();
    let recording = events.record_to(MemorySink::new()).unwrap();
    let recorder = events.recorder("tests");
    let record = |objects: &mut dyn Iterator<Item = u64>| {
        for object in objects {
            recorder.event(pod(&format!("pod-{object}")), EventType::Normal, "Started", "again");
        }
        events.flush(LONG).unwrap();
    };
    record(&mut (0..300));
    record(&mut (0..300).step_by(2));
    record(&mut (300..450));
    record(&mut (0..300).step_by(2));
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.evicted), (450, 300, 150));
    events.shutdown();
}

#[test]
fn each_cache_evicts_on_its_own() {
    let rig = Rig::new(budget(1).cache_size(2));
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
    assert_eq!(rig.seen(&of("a")), Seen::Create(1), "the count and the budget start over");
}

#[test]
fn an_entry_that_another_thread_used_last_stays() {
    let rig = Rig::new(CorrelatorOptions::off().cache_size(8));
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
