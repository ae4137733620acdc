//! Tests of readers of all topics that match a pattern.

use std::collections::HashMap;

use eventcast::error::{PublishError, TryRecvError, WatchError};
use eventcast::topics::{Topics, TopicsOptions, TopicsReader};
use eventcast::{Delivery, OverflowPolicy, WatchOptions};

type Item = (String, Delivery<u32>);

fn event(key: &str, number: u32) -> Item {
    (key.to_owned(), Delivery::Event(number))
}

fn queued(reader: &mut TopicsReader<String, u32>) -> Vec<Item> {
    std::iter::from_fn(|| reader.try_recv().ok()).collect()
}

#[test]
fn topics_that_exist_and_topics_that_come_later_are_read() {
    let topics = Topics::<String, u32>::new();
    let _a = topics.watch("a.1").unwrap();
    topics.publish("a.1", 1).unwrap();
    let mut reader = topics.watch_matching("a.*").unwrap();
    assert_eq!((topics.watchers("a.1"), topics.watchers("a.2"), topics.watchers("b.1")), (2, 1, 0));
    assert_eq!(topics.publish("a.1", 2), Ok(2));
    assert_eq!(topics.publish("a.2", 3), Ok(1));
    assert_eq!(topics.publish("b.1", 4), Ok(0));
    let mut a3 = topics.watch("a.3").unwrap();
    assert_eq!(topics.publish("a.3", 5), Ok(2));
    assert_eq!(queued(&mut reader), [event("a.1", 2), event("a.2", 3), event("a.3", 5)]);
    assert_eq!(a3.try_recv(), Ok(Delivery::Event(5)));
    assert_eq!(topics.len(), 3);
}

#[test]
fn topics_take_turns_and_each_is_in_order() {
    let topics = Topics::<String, u32>::new();
    let mut reader = topics.watch_matching(">").unwrap();
    topics.publish_batch("a", [1, 2, 3]).unwrap();
    topics.publish_batch("b", [4, 5]).unwrap();
    let expected = [("a", 1), ("b", 4), ("a", 2), ("b", 5), ("a", 3)];
    assert_eq!(queued(&mut reader), expected.map(|(key, number)| event(key, number)));
}

#[test]
fn each_topic_has_its_own_queue_and_its_own_gaps() {
    let topics = Topics::<String, u32>::new();
    let options = WatchOptions::default().queue_capacity(2);
    let mut reader = topics.watch_matching_with(">", options).unwrap();
    topics.publish_batch("a", 0..100).unwrap();
    topics.publish("b", 7).unwrap();
    let items = queued(&mut reader);
    let gap = ("a".to_owned(), Delivery::Lagged(98));
    assert_eq!(items, [event("a", 0), event("b", 7), event("a", 1), gap]);
    let sums = topics.stats().watchers;
    assert_eq!((sums.offered, sums.delivered, sums.dropped.incoming), (101, 3, 98));
}

#[test]
fn a_reader_with_the_policy_wait_holds_up_the_full_topic_alone() {
    let topics = Topics::<String, u32>::new();
    let options = WatchOptions::default().queue_capacity(1).overflow(OverflowPolicy::Wait);
    let mut reader = topics.watch_matching_with(">", options).unwrap();
    topics.publish("a", 1).unwrap();
    assert!(topics.try_publish("a", 2).unwrap_err().is_full());
    assert_eq!(topics.try_publish("b", 3), Ok(1));
    assert_eq!(queued(&mut reader), [event("a", 1), event("b", 3)]);
    assert_eq!(topics.try_publish("a", 2), Ok(1));
}

#[test]
fn readers_of_several_patterns_all_receive_an_event() {
    let topics = Topics::<String, u32>::new();
    let patterns = ["orders.*.created", "orders.>", "*.7.*", "orders.8.>"];
    let mut readers = patterns.map(|pattern| topics.watch_matching(pattern).unwrap());
    assert_eq!(topics.publish("orders.7.created", 1), Ok(3));
    let received = readers.each_mut().map(queued);
    let one = vec![event("orders.7.created", 1)];
    assert_eq!(received, [one.clone(), one.clone(), one, vec![]]);
}

#[test]
fn a_reader_that_is_dropped_takes_its_topics_with_it() {
    let topics = Topics::<String, u32>::new();
    let (reader, other) = (topics.watch_matching("a").unwrap(), topics.watch_matching(">").unwrap());
    let watcher = topics.watch("b").unwrap();
    topics.publish("a", 1).unwrap();
    assert_eq!((topics.len(), topics.watchers("a"), topics.watchers("b")), (2, 2, 2));
    drop(other);
    assert_eq!((topics.len(), topics.watchers("a"), topics.watchers("b")), (2, 1, 1));
    drop(reader);
    assert_eq!((topics.len(), topics.watchers("a"), topics.publish("a", 2)), (1, 0, Ok(0)));
    drop(watcher);
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.watchers.offered, stats.watchers.dropped.stopped), (0, 2, 2));
}

#[test]
fn a_reader_that_is_dropped_unread_leaves_no_topic() {
    let topics = Topics::<String, u32>::new();
    let reader = topics.watch_matching(">").unwrap();
    for key in 0..100 {
        topics.publish(&key.to_string(), key).unwrap();
    }
    drop(reader);
    assert_eq!((topics.len(), topics.stats().watchers.dropped.stopped), (0, 100));
}

#[test]
fn a_policy_that_would_end_single_watchers_is_refused() {
    let topics = Topics::<String, u32>::new();
    let options = WatchOptions::default().overflow(OverflowPolicy::Evict);
    let error = topics.watch_matching_with("a", options).unwrap_err();
    let expected = "overflow must be a policy that does not end the watchers of single topics, got evict";
    assert_eq!(error.to_string(), expected);
    let error = topics.watch_matching_with("a", WatchOptions::default().queue_capacity(0)).unwrap_err();
    assert!(error.to_string().starts_with("queue_capacity must be"), "{error}");
    assert_eq!((topics.publish("a", 1), topics.len()), (Ok(0), 0));
}

#[test]
fn topics_that_only_patterns_watch_do_not_accumulate() {
    let topics = Topics::<String, u32>::new();
    let mut reader = topics.watch_matching("session.*").unwrap();
    let _kept = topics.watch("session.kept").unwrap();
    let mut most = 0;
    for number in 0..10_000 {
        let key = format!("session.{number}");
        assert_eq!(topics.publish(&key, number), Ok(1));
        assert_eq!(reader.try_recv(), Ok(event(&key, number)));
        most = most.max(topics.len());
    }
    assert!(most <= 70, "there were {most} topics at the same time");
    assert_eq!(topics.publish("session.kept", 1), Ok(2));
    assert_eq!(queued(&mut reader), [event("session.kept", 1)]);
    let stats = topics.stats();
    assert_eq!((stats.created, stats.watchers.dropped.total()), (10_001, 0));
}

#[test]
fn at_the_limit_topics_that_have_been_read_make_space() {
    let topics = Topics::<String, u32>::with_options(TopicsOptions::default().max_topics(3)).unwrap();
    let mut reader = topics.watch_matching(">").unwrap();
    for (key, number) in [("a", 1), ("b", 2), ("c", 3)] {
        topics.publish(key, number).unwrap();
    }
    let refused = topics.publish("d", 4).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the limit of topics is reached: raise max_topics, or read what is queued"
    );
    assert!(matches!(refused, PublishError::TooManyTopics(4)));
    assert!(matches!(topics.watch("e"), Err(WatchError::TooManyTopics(3))));
    assert_eq!(reader.try_recv(), Ok(event("a", 1)));
    assert_eq!(topics.publish("d", 4), Ok(1));
    assert_eq!(queued(&mut reader), [event("b", 2), event("c", 3), event("d", 4)]);
    assert_eq!((topics.stats().rejected_full, topics.len()), (1, 3));
}

/// Each publisher publishes to three keys in turn, but the limit is two topics. Each round
/// therefore removes topics and creates them again.
#[test]
fn a_key_is_read_in_order_over_the_lives_of_its_topic() {
    const ROUNDS: u32 = 100;
    let topics = Topics::<String, u32>::with_options(TopicsOptions::default().max_topics(2)).unwrap();
    let mut reader = topics.watch_matching(">").unwrap();
    let publish = |keys: [&str; 3]| {
        for number in 0..ROUNDS {
            for key in keys {
                while let Err(error) = topics.publish(key, number) {
                    assert!(matches!(error, PublishError::TooManyTopics(_)), "{error}");
                    std::thread::yield_now();
                }
            }
        }
    };
    let mut next = HashMap::<String, u32>::new();
    std::thread::scope(|scope| {
        let publishers = [["a", "b", "c"], ["d", "e", "f"]].map(|keys| scope.spawn(move || publish(keys)));
        scope.spawn(|| {
            for publisher in publishers {
                publisher.join().unwrap();
            }
            topics.close();
        });
        while let Ok((key, delivery)) = reader.recv() {
            let next = next.entry(key).or_default();
            assert_eq!(delivery, Delivery::Event(*next));
            *next += 1;
        }
    });
    assert_eq!(next.into_values().collect::<Vec<_>>(), [ROUNDS; 6]);
    let created = topics.stats().created;
    assert!(created > u64::from(ROUNDS), "only {created} topics were created");
}

#[test]
fn nothing_is_received_from_topics_that_do_not_match() {
    let topics = Topics::<String, u32>::new();
    let mut reader = topics.watch_matching("a.b").unwrap();
    let _others = ["a", "a.b.c", "a.c"].map(|key| topics.watch(key).unwrap());
    for key in ["a", "a.b.c", "a.c"] {
        topics.publish(key, 1).unwrap();
    }
    assert_eq!(reader.try_recv(), Err(TryRecvError::Empty));
}
