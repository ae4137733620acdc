//! Tests of user code that calls methods of `Topics` from inside other calls to the same topics.

use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use eventcast::topics::Topics;
use eventcast::{Delivery, OverflowPolicy, Watcher};
use test_support::{LONG, until};

/// A filter runs inside the publish call of its topic.
#[test]
fn a_filter_may_use_every_method() {
    let topics = Arc::new(Topics::<u32, u32>::new());
    let (mut others, kept) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
    let inside = topics.clone();
    let keep = kept.clone();
    let filter = move |event: &u32| {
        // With a thousand keys, some keys share a shard with the topic that is being published to.
        let key = 1 + event % 1000;
        keep.lock().unwrap().push(inside.watch(&key).unwrap());
        assert_eq!(inside.publish(&key, *event).unwrap(), 1);
        assert_eq!((inside.watchers(&key), inside.watchers(&0)), (1, 1));
        assert!(inside.stats_of(&key).is_some() && inside.stats().topics > 0);
        true
    };
    others
        .push(topics.watch_with(&0, |watcher| watcher.queue_capacity(2000).filter(filter).watch()).unwrap());
    topics.publish_batch(&0, 0..1000).unwrap();
    assert_eq!((others[0].len(), topics.len()), (1000, 1001));
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    for (number, mut watcher) in (0..1000).zip(kept) {
        assert_eq!(watcher.try_recv(), Ok(Delivery::Event(number)));
    }
    assert_eq!(topics.len(), 1);
    // The filter owns the topics. Dropping the filter's watcher breaks the reference cycle.
    drop(others);
    assert_eq!((topics.len(), Arc::strong_count(&topics)), (0, 1));
}

#[test]
fn a_filter_may_close_the_topics() {
    let topics = Arc::new(Topics::<u32, u32>::new());
    let inside = topics.clone();
    let filter = move |_: &u32| {
        inside.close();
        true
    };
    let mut watcher = topics.watch_with(&0, |watcher| watcher.filter(filter).watch()).unwrap();
    assert_eq!(topics.publish(&0, 1), Ok(1));
    assert!(topics.publish(&0, 2).unwrap_err().is_closed());
    assert_eq!(watcher.recv(), Ok(Delivery::Event(1)));
    assert!(watcher.recv().is_err());
}

/// The filter drops its own watcher, which removes the topic during the publish call.
#[test]
fn a_filter_may_drop_the_last_watcher() {
    let topics = Arc::new(Topics::<u32, u32>::new());
    let slot = Arc::new(Mutex::new(None::<Watcher<u32>>));
    let inside = slot.clone();
    let filter = move |_: &u32| {
        drop(inside.lock().unwrap().take());
        true
    };
    let watcher = topics.watch_with(&0, |watcher| watcher.filter(filter).watch()).unwrap();
    *slot.lock().unwrap() = Some(watcher);
    assert_eq!(topics.publish(&0, 1), Ok(1));
    assert_eq!((topics.len(), topics.publish(&0, 2)), (0, Ok(0)));
    let stats = topics.stats();
    assert_eq!((stats.accepted, stats.unheard), (1, 1));
    assert_eq!((stats.watchers.offered, stats.watchers.dropped.stopped), (1, 1));
    assert_eq!(Arc::strong_count(&slot), 1, "the filter was dropped");
}

#[test]
fn a_filter_that_panics_ends_its_own_watcher_alone() {
    let topics = Topics::<u32, u32>::new();
    let mut other = topics.watch(&0).unwrap();
    let mut wrong = topics.watch_with(&0, |watcher| watcher.filter(|_| panic!("injected")).watch()).unwrap();
    assert_eq!(topics.publish(&0, 1), Ok(2));
    assert_eq!(other.try_recv(), Ok(Delivery::Event(1)));
    assert!(wrong.recv().is_err());
    assert_eq!(topics.watchers(&0), 2);
    drop(wrong);
    assert_eq!((topics.watchers(&0), topics.stats().watchers.panics), (1, 1));
}

#[test]
fn a_handler_may_publish_and_drop_watchers_of_its_own_topic() {
    let topics = Arc::new(Topics::<String, u32>::new());
    let (tx, rx) = mpsc::channel();
    let inside = Arc::downgrade(&topics);
    let mut other = Some(topics.watch("a").unwrap());
    let handler = topics
        .watch_with("a", |watcher| {
            watcher.overflow(OverflowPolicy::Wait).spawn(move |delivery| {
                drop(other.take());
                if let (Delivery::Event(number), Some(topics)) = (delivery, inside.upgrade()) {
                    if *number < 3 {
                        topics.publish("a", number + 1).unwrap();
                    }
                    tx.send(*number).unwrap();
                }
            })
        })
        .unwrap();
    topics.publish("a", 1).unwrap();
    assert_eq!([(); 3].map(|()| rx.recv_timeout(LONG).unwrap()), [1, 2, 3]);
    assert_eq!(topics.watchers("a"), 1);
    topics.close();
    assert!(handler.join(LONG));
    until(|| topics.is_empty());
}
