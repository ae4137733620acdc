//! Tests with threads that watch, publish and drop watchers at the same time.

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

use eventcast::error::TryRecvError;
use eventcast::topics::Topics;
use eventcast::{Delivery, OverflowPolicy};
use test_support::{Rng, env_number};

/// Each thread watches a random key, and then publishes to this key. Because the thread registers
/// its watcher before it publishes, the thread must receive every event that it publishes,
/// regardless of what other threads do to the key's topic.
#[test]
fn a_watcher_receives_what_is_published_after_it_was_registered() {
    const THREADS: u32 = 4;
    let rounds = env_number("EVENTCAST_ROUNDS", 3000) as u32;
    let topics = Topics::<u32, (u32, u32)>::new();
    let (barrier, published) = (Barrier::new(THREADS as usize), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (topics, barrier, published) = (&topics, &barrier, &published);
            scope.spawn(move || {
                let mut rng = Rng(u64::from(thread));
                barrier.wait();
                for round in 0..rounds {
                    let key = rng.below(2) as u32;
                    let mut watcher = topics.watch(&key).unwrap();
                    assert!(topics.publish(&key, (thread, round)).unwrap() >= 1);
                    published.fetch_add(1, Ordering::Relaxed);
                    let own = |delivery| delivery == Delivery::Event((thread, round));
                    assert!(watcher.try_iter().any(own), "the thread's own event is missing");
                }
            });
        }
    });
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.unheard, stats.rejected_closed), (0, 0, 0));
    assert_eq!(stats.accepted, published.load(Ordering::Relaxed));
    let sums = stats.watchers;
    assert_eq!(sums.offered, sums.delivered + sums.dropped.total() + sums.queued);
    assert_eq!((sums.queued, sums.dropped.total()), (0, sums.dropped.stopped));
}

/// Publishers publish to a few keys while watchers of these keys are registered and dropped. A
/// reader of all keys, which exists throughout the test, must receive every event once and in
/// order.
#[test]
fn a_reader_of_all_topics_misses_nothing_while_others_come_and_go() {
    const KEYS: u32 = 3;
    let rounds = env_number("EVENTCAST_ROUNDS", 3000) as u32;
    let topics = Topics::<String, u32>::new();
    let mut reader = topics
        .watch_matching_with("k.*", eventcast::WatchOptions::default().overflow(OverflowPolicy::Wait))
        .unwrap();
    std::thread::scope(|scope| {
        let publishers = [0, 1, 2].map(|key| {
            let topics = &topics;
            scope.spawn(move || {
                let key = format!("k.{key}");
                for number in 0..rounds {
                    assert!(topics.publish(&key, number).unwrap() >= 1);
                }
            })
        });
        let churn = scope.spawn(|| {
            let mut rng = Rng(7);
            for _ in 0..rounds {
                let key = format!("k.{}", rng.below(u64::from(KEYS)));
                let mut watcher = topics.watch(&key).unwrap();
                let _ = watcher.try_recv();
            }
        });
        scope.spawn(|| {
            for publisher in publishers {
                publisher.join().unwrap();
            }
            churn.join().unwrap();
            topics.close();
        });
        let mut next = [0; KEYS as usize];
        while let Ok((key, delivery)) = reader.recv() {
            let next = &mut next[usize::from(key.as_bytes()[2] - b'0')];
            assert_eq!(delivery, Delivery::Event(*next));
            *next += 1;
        }
        assert_eq!(next, [rounds; KEYS as usize]);
        assert_eq!(reader.try_recv(), Err(TryRecvError::Ended));
    });
    drop(reader);
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.accepted), (0, u64::from(KEYS * rounds)));
}

/// A pattern reader is registered while topics that match its pattern are created. For each key,
/// the events that the reader receives are a suffix of the published events, without gaps.
#[test]
fn a_reader_that_is_registered_during_publishing_sees_no_hole() {
    let rounds = env_number("EVENTCAST_ROUNDS", 3000) / 10;
    for _ in 0..rounds {
        let topics = Topics::<String, u32>::new();
        let barrier = Barrier::new(2);
        let mut reader = std::thread::scope(|scope| {
            scope.spawn(|| {
                let _watcher = topics.watch("b").unwrap();
                barrier.wait();
                for number in 0..8 {
                    topics.publish(if number % 2 == 0 { "a" } else { "b" }, number).unwrap();
                }
            });
            barrier.wait();
            topics.watch_matching("*").unwrap()
        });
        topics.close();
        let received: Vec<_> = std::iter::from_fn(|| reader.recv().ok()).collect();
        for (key, last) in [("a", 6), ("b", 7)] {
            let of_key = received.iter().filter(|(other, _)| other == key);
            let numbers: Vec<u32> = of_key.map(|(_, delivery)| delivery.event().unwrap()).collect();
            let first = last + 2 - 2 * numbers.len() as u32;
            assert_eq!(numbers, (first..=last).step_by(2).collect::<Vec<_>>(), "{key}");
        }
    }
}

/// Two threads publish to one key. All watchers of the topic, including the reader of a pattern,
/// receive the events in the same order.
#[test]
fn all_watchers_of_a_topic_see_the_same_order() {
    const EVENTS: u32 = 1000;
    let topics = Topics::<String, u32>::new();
    let wait = |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(2 * EVENTS as usize).watch();
    let (one, other) = (topics.watch_with("k", wait).unwrap(), topics.watch_with("k", wait).unwrap());
    let options = eventcast::WatchOptions::default().queue_capacity(2 * EVENTS as usize);
    let mut reader = topics.watch_matching_with("*", options).unwrap();
    std::thread::scope(|scope| {
        for first in [0, EVENTS] {
            let topics = &topics;
            scope.spawn(move || {
                for event in first..first + EVENTS {
                    assert_eq!(topics.publish("k", event), Ok(3));
                }
            });
        }
    });
    topics.close();
    let [one, other] = [one, other].map(|mut watcher| watcher.events().collect::<Vec<_>>());
    let read: Vec<u32> =
        std::iter::from_fn(|| reader.recv().ok()).map(|(_, delivery)| delivery.event().unwrap()).collect();
    assert_eq!(one.len(), 2 * EVENTS as usize);
    assert!(one == other && one == read);
}
