//! Tests of publishing by key.

use std::sync::mpsc;

use eventcast::error::TryRecvError;
use eventcast::topics::Topics;
use eventcast::{Delivery, OverflowPolicy, WatchBuilder, Watcher};
use test_support::LONG;

fn waiting(topics: &Topics<String, u32>, key: &str) -> Watcher<u32> {
    let watch = |w: WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    topics.watch_with(key, watch).unwrap()
}

#[test]
fn an_event_reaches_the_watchers_of_its_key_alone() {
    let topics = Topics::<String, u32>::new();
    let (mut a, mut b) = (topics.watch("a").unwrap(), topics.watch("b").unwrap());
    assert_eq!(topics.publish("a", 1), Ok(1));
    assert_eq!(topics.publish_batch("a", [2, 3]), Ok(1));
    assert_eq!(a.try_iter().collect::<Vec<_>>(), [1, 2, 3].map(Delivery::Event));
    assert_eq!(b.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn an_event_that_nobody_hears_makes_no_topic() {
    let topics = Topics::<String, u32>::new();
    assert_eq!(topics.publish("a", 1), Ok(0));
    assert_eq!(topics.try_publish("a", 2), Ok(0));
    assert_eq!(topics.publish_batch("a", [3, 4, 5]), Ok(0));
    let stats = topics.stats();
    assert_eq!((stats.unheard, stats.created, stats.accepted), (5, 0, 0));
}

#[test]
fn keys_can_be_numbers_and_borrowed() {
    let numbers = Topics::<u64, u32>::new();
    let _watcher = numbers.watch(&7).unwrap();
    assert_eq!((numbers.publish(&7, 1), numbers.publish(&8, 1)), (Ok(1), Ok(0)));
    let texts = Topics::<&'static str, u32>::new();
    let _watcher = texts.watch(&"a").unwrap();
    assert_eq!(texts.publish(&"a", 1), Ok(1));
    let owned = Topics::<String, u32>::new();
    let _watcher = owned.watch(&"a".to_owned()).unwrap();
    assert_eq!(owned.publish("a", 1), Ok(1));
}

#[test]
fn a_full_watcher_holds_up_its_own_topic_alone() {
    let topics = Topics::<String, u32>::new();
    let (mut a, _b) = (waiting(&topics, "a"), waiting(&topics, "b"));
    assert_eq!(topics.publish("a", 1), Ok(1));
    let refused = topics.try_publish("a", 2).unwrap_err();
    assert!(refused.is_full() && refused.into_inner() == 2);
    assert_eq!(topics.publish("b", 3), Ok(1));
    assert_eq!(topics.stats().rejected_full, 1);
    a.recv().unwrap();
    assert_eq!(topics.try_publish("a", 2), Ok(1));
}

#[test]
fn a_publisher_that_waits_for_a_watcher_is_freed_when_the_watcher_is_dropped() {
    let topics = Topics::<String, u32>::new();
    let a = waiting(&topics, "a");
    topics.publish("a", 1).unwrap();
    let (tx, rx) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| tx.send(topics.publish_batch("a", [2, 3])).unwrap());
        drop(a);
        // Either the topic that was about to be removed accepted the batch, or the publisher found
        // no topic.
        let offered = rx.recv_timeout(LONG).unwrap();
        assert!(matches!(offered, Ok(0 | 1)), "{offered:?}");
    });
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.accepted + stats.unheard), (0, 3));
    assert_eq!((stats.rejected_full, stats.rejected_closed), (0, 0));
}

#[test]
fn a_publisher_that_waits_is_freed_by_close_and_gets_its_events_back() {
    let topics = Topics::<String, u32>::new();
    let _a = waiting(&topics, "a");
    topics.publish("a", 1).unwrap();
    let (tx, rx) = mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| tx.send(topics.publish_batch("a", [2, 3])).unwrap());
        topics.close();
        let refused = rx.recv_timeout(LONG).unwrap().unwrap_err();
        assert!(refused.is_closed());
        assert_eq!(refused.into_inner(), [2, 3]);
    });
    let stats = topics.stats();
    assert_eq!((stats.accepted, stats.rejected_closed), (1, 2));
}
