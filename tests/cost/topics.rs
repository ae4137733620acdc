//! Tests of the allocations and memory use of topics, and tests that topics leak no memory.
#![allow(clippy::cast_possible_wrap, reason = "sizes of what is in memory")]

use eventcast::topics::Topics;
use eventcast::{BusOptions, Delivery};
use test_support::in_own_process;

use crate::counting::{allocations_here, live};
use crate::many_watchers::OF_THE_HARNESS;

fn topics() -> Topics<u64, u64> {
    let bus = BusOptions::default().queue_capacity(16);
    Topics::with_options(eventcast::topics::TopicsOptions::default().bus(bus)).unwrap()
}

/// Publishing by key allocates no more than publishing on the topic's bus.
#[test]
fn a_publish_by_key_does_not_allocate() {
    let topics = topics();
    let mut watcher = topics.watch(&1).unwrap();
    for number in 0..2 {
        topics.publish(&1, number).unwrap();
        watcher.try_recv().unwrap();
    }
    let (allocated, ()) = allocations_here(|| {
        for number in 0..100 {
            assert_eq!(topics.publish(&1, number), Ok(1));
            assert_eq!(watcher.try_recv(), Ok(Delivery::Event(number)));
            assert_eq!(topics.publish(&2, number), Ok(0));
        }
    });
    assert_eq!(allocated, 0);
}

#[test]
fn an_event_that_a_pattern_refuses_allocates_its_key_alone() {
    let topics = Topics::<String, u64>::new();
    let _reader = topics.watch_matching("a.*").unwrap();
    let (allocated, offered) = allocations_here(|| topics.publish("b.1", 1));
    assert_eq!((allocated, offered), (1, Ok(0)));
}

/// Checks the documented memory use of a topic with one watcher before its first event.
#[test]
fn a_topic_with_a_watcher_takes_little_memory() {
    const TOPICS: u64 = 10_000;
    const EACH: i64 = 2560;
    in_own_process!();
    let topics = topics();
    drop(topics.watch(&0).unwrap());
    let before = live();
    let watchers: Vec<_> = (0..TOPICS).map(|key| topics.watch(&key).unwrap()).collect();
    let each = (live() - before) / TOPICS as i64;
    println!("a topic with a watcher: {each}");
    assert!(each <= EACH, "a topic with a watcher takes {each} bytes");
    drop(watchers);
}

#[test]
fn topics_that_come_and_go_leak_no_memory() {
    const TOPICS: u64 = 20_000;
    in_own_process!();
    let topics = Topics::<String, u64>::new();
    let mut reader = topics.watch_matching("read.*").unwrap();
    let mut go = |number: u64| {
        let (watched, read) = (format!("watched.{}", number % 100), format!("read.{number}"));
        let mut watcher = topics.watch(&watched).unwrap();
        assert_eq!(topics.publish(&watched, number), Ok(1));
        assert_eq!(watcher.try_recv(), Ok(Delivery::Event(number)));
        // Unread events are dropped together with the topic.
        topics.publish(&watched, number).unwrap();
        assert_eq!(topics.publish(&read, number), Ok(1));
        assert_eq!(reader.try_recv(), Ok((read, Delivery::Event(number))));
    };
    // The map and the reader keep memory for the largest number of topics that have existed at the
    // same time.
    (0..1000).for_each(&mut go);
    let before = live();
    (1000..TOPICS).for_each(&mut go);
    // Once 64 topics are watched only by the reader, a sweep removes these topics.
    let left = live() - before;
    assert!(left.abs() < 64 * 2560 + OF_THE_HARNESS, "{left} bytes are left");
    drop(reader);
    assert_eq!((topics.len(), topics.stats().created), (0, 2 * TOPICS));
}
