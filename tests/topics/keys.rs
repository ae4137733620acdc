//! Tests of keys that panic when cloned, or that use the topics when dropped.

use std::sync::{Arc, mpsc};
use std::time::Duration;

use eventcast::topics::Topics;

use crate::support::*;

/// A watcher without a name is named by the line of the program that registers it.
#[test]
fn a_topics_watcher_has_the_name_of_its_place() {
    let topics = Topics::<String, u32>::new();
    let named = |name: String, line: u32| assert_eq!(name, format!("tests/topics/keys.rs:{line}"));
    named(topics.watch("a").unwrap().stats().name, line!());
    named(topics.watch_with("a", |builder| builder.queue_capacity(1).watch()).unwrap().stats().name, line!());
}

/// Cloning a key panics while a topic is being created.
#[test]
fn a_key_whose_clone_panics_does_not_use_up_the_limit() {
    let topics = limited::<Key, u32>(2);
    let _reader = topics.watch_matching("a").unwrap();
    for _ in 0..2 {
        // The key is cloned by `to_owned`, for the map's entry, and for the reader's arrival.
        CLONE_PANICS.set(Some(2));
        assert!(quiet(|| topics.watch(&Key("a"))).is_none());
    }
    assert_eq!(topics.watchers(&Key("b")), 0);
    let len = topics.len();
    let watched = topics.watch(&Key("b"));
    assert!(len == 0 && watched.is_ok(), "len {len}, {:?}", watched.err());
}

/// Cloning a key panics while a reader is being registered on the existing topics.
#[test]
fn a_key_whose_clone_panics_in_watch_matching_leaves_no_topic() {
    let topics = Topics::<Key, u32>::new();
    let watcher = topics.watch(&Key("a")).unwrap();
    CLONE_PANICS.set(Some(0));
    assert!(quiet(|| topics.watch_matching("a")).is_none());
    assert_eq!(CLONE_PANICS.get(), None);
    drop(watcher);
    assert_eq!((topics.len(), topics.watchers(&Key("a")), topics.publish(&Key("a"), 1)), (0, 0, Ok(0)));
}

/// Cloning a key panics in a receive call that also takes the watchers of other topics from the
/// inbox.
#[test]
fn a_key_whose_clone_panics_in_recv_loses_no_other_topic() {
    let topics = Topics::<Key, u32>::new();
    let mut reader = topics.watch_matching("*").unwrap();
    let _keeps = topics.watch(&Key("b")).unwrap();
    topics.publish(&Key("a"), 1).unwrap();
    topics.publish(&Key("b"), 2).unwrap();
    CLONE_PANICS.set(Some(0));
    assert!(quiet(|| reader.try_recv()).is_none());
    CLONE_PANICS.set(None);
    topics.publish(&Key("b"), 3).unwrap();
    let mut received = Vec::new();
    while let Ok((key, delivery)) = reader.try_recv() {
        received.push((key.0, delivery.event().unwrap()));
    }
    received.retain(|(key, _)| *key == "b");
    assert_eq!(received, [("b", 2), ("b", 3)]);
}

/// `watchers` creates a key from the borrowed form, and drops the key without holding a lock.
#[test]
fn a_keys_drop_may_use_the_topics() {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || {
        let topics = Arc::new(Topics::<Key, u32>::new());
        let _reader = topics.watch_matching("a").unwrap();
        let inside = topics.clone();
        let probe = Key("c");
        DROP_HOOK.set(Some(Box::new(move || {
            inside.watchers(&Key("d"));
        })));
        topics.watchers(&probe);
        tx.send(()).unwrap();
    });
    assert_eq!(rx.recv_timeout(Duration::from_secs(3)), Ok(()), "deadlock");
}
