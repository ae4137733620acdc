//! Tests of the turns and the wakers of readers.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Waker};

use eventcast::topics::{Topics, TopicsOptions};
use eventcast::{BusOptions, OverflowPolicy};
use futures::Stream;

use crate::support::*;

/// A future that is dropped before its first poll leaves the stream's waker registered.
#[test]
fn a_receive_that_was_never_polled_must_not_take_the_streams_waker() {
    let flags = [(); 2].map(|()| Arc::new(Flag(AtomicBool::new(false))));
    let topics = Topics::<String, u32>::new();
    let mut single = topics.watch("a").unwrap();
    let mut reader = topics.watch_matching("a").unwrap();
    let wakers = flags.clone().map(Waker::from);
    assert!(Pin::new(&mut single).poll_next(&mut Context::from_waker(&wakers[0])).is_pending());
    assert!(Pin::new(&mut reader).poll_next(&mut Context::from_waker(&wakers[1])).is_pending());
    drop(single.recv_async());
    drop(reader.recv_async());
    topics.publish("a", 1).unwrap();
    assert_eq!(flags.map(|flag| flag.0.load(Ordering::SeqCst)), [true, true]);
}

/// A key that has had many topics gets no more turns than other keys.
#[test]
fn topics_take_turns_after_many_lives() {
    let topics = limited::<String, u32>(2);
    let mut reader = topics.watch_matching(">").unwrap();
    topics.publish("hot", 0).unwrap();
    assert!(reader.try_recv().is_ok());
    for round in 0..40 {
        // Everything has been received, so the two new topics replace the old topics.
        topics.publish(&format!("x{round}"), 0).unwrap();
        topics.publish(&format!("y{round}"), 0).unwrap();
        topics.publish("hot", 0).unwrap_err();
        let mut left = 2;
        while left > 0 {
            left -= u32::from(reader.try_recv().is_ok());
        }
        topics.publish("hot", 0).unwrap();
        assert!(reader.try_recv().is_ok());
    }
    topics.publish_batch("hot", 0..400).unwrap();
    topics.publish_batch("cold", 0..400).unwrap();
    let order: Vec<_> = (0..100).map(|_| reader.try_recv().unwrap().0).collect();
    let cold = order.iter().filter(|key| *key == "cold").count();
    assert!(cold >= 45, "{cold} of 100 turns");
}

/// Like the previous test, but each topic of the key follows the previous topic without a pause.
#[test]
fn topics_take_turns_after_many_lives_of_one_key() {
    let topics = limited::<String, u32>(2);
    let mut reader = topics.watch_matching(">").unwrap();
    topics.publish("hot", 0).unwrap();
    topics.publish("z", 0).unwrap();
    for _ in 0..2 {
        assert!(reader.try_recv().is_ok());
    }
    for round in 0..60 {
        // Creating a new topic sweeps both old topics. The hot key then gets a new topic, which the
        // reader finds in the same batch of news.
        topics.publish(&format!("x{round}"), 0).unwrap();
        topics.publish("hot", 0).unwrap();
        for _ in 0..2 {
            assert!(reader.try_recv().is_ok());
        }
    }
    let mut sweeper = topics.watch("w").unwrap();
    topics.publish_batch("hot", 0..400).unwrap();
    topics.publish_batch("w", 0..400).unwrap();
    let order: Vec<_> = (0..100).map(|_| reader.try_recv().unwrap().0).collect();
    let cold = order.iter().filter(|key| *key == "w").count();
    assert!(sweeper.try_recv().is_ok());
    assert!(cold >= 45, "{cold} of 100 turns");
}

/// Each topic's queue holds one event, and loses one before the reader reaches the topic's turn. An
/// event directly follows its gap, so the reader of busy topics receives events.
#[test]
fn a_reader_of_busy_topics_receives_an_event_after_each_gap() {
    let bus = BusOptions::default().inline(true).queue_capacity(1).overflow(OverflowPolicy::DropOldest);
    let topics = Topics::<String, u32>::with_options(TopicsOptions::default().bus(bus)).unwrap();
    let mut reader = topics.watch_matching(">").unwrap();
    let mut received = 0;
    for round in 0..20 {
        for key in ["a", "b", "c"] {
            topics.publish_batch(key, [2 * round, 2 * round + 1]).unwrap();
        }
        for _ in 0..2 {
            received += u32::from(reader.try_recv().unwrap().1.event().is_some());
        }
    }
    assert_eq!(received, 20);
}
