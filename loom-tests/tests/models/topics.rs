//! Models of topics, which are created by their first watcher and removed with their last. In the
//! models, creating and removing a topic race with each other, with publishers, and with pattern
//! readers.
//!
//! In the models, one lock protects the whole map, so the models explore all orders of calls, but
//! not accesses to two shards at the same time. No call locks two shards at the same time.

use eventcast::error::{PublishError, TryRecvError, WatchError};
use eventcast::testing::{Exploration, Payload, begin};
use eventcast::topics::{Topics, TopicsOptions, TopicsReader};
use eventcast::{Delivery, Watcher};
use eventcast_loom_tests::{explore, spawn};
use loom::sync::Arc;

type Key = &'static str;

fn topics(most: usize) -> Arc<Topics<Key, Payload>> {
    let options = TopicsOptions::default().max_topics(most);
    Arc::new(Topics::with_options(options).unwrap())
}

/// Receives the numbers of the queued events. No event may have been lost.
fn queued(watcher: &mut Watcher<Payload>) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Ok(delivery) = watcher.try_recv() {
        numbers.push(delivery.event().expect("nothing is lost").number());
    }
    numbers
}

/// Receives the queued events of a reader, which must all have this key.
fn read(reader: &mut TopicsReader<Key, Payload>, of: Key) -> Vec<u32> {
    let mut numbers = Vec::new();
    while let Ok((key, delivery)) = reader.try_recv() {
        assert_eq!(key, of);
        numbers.push(delivery.event().expect("nothing is lost").number());
    }
    numbers
}

/// The topic's only watcher is dropped while another thread registers a new watcher. The new
/// watcher receives every event that is published after its registration.
fn a_watch_against_the_last_drop() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let last = topics.watch(&"a").unwrap();
        begin();
        let dropping = spawn(move || drop(last));
        let mut next = topics.watch(&"a").unwrap();
        assert!(topics.publish(&"a", Payload::new(1)).unwrap() >= 1);
        assert_eq!(queued(&mut next), [1]);
        dropping.join().unwrap();
        assert_eq!((topics.len(), topics.watchers(&"a")), (1, 1));
        drop(next);
        let stats = topics.stats();
        assert_eq!((stats.topics, stats.accepted, stats.watchers.delivered), (0, 1, 1));
        assert_eq!(stats.watchers.offered, 1 + stats.watchers.dropped.stopped);
    });
}

/// An event is published while the topic's watcher is dropped and a new watcher is registered. The
/// event is offered to as many watchers as the publish call returns, or to the new watcher.
fn a_publish_against_the_last_drop_and_a_watch() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let last = topics.watch(&"a").unwrap();
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(1)).unwrap());
        drop(last);
        let mut next = topics.watch(&"a").unwrap();
        let offered = publishing.join().unwrap();
        let received = queued(&mut next);
        assert!(received.is_empty() || received == [1] && offered > 0, "{offered}: {received:?}");
        drop(next);
        let stats = topics.stats();
        assert_eq!((stats.accepted, stats.unheard), if offered > 0 { (1, 0) } else { (0, 1) });
        assert_eq!((stats.topics, stats.rejected_closed), (0, 0));
        assert_eq!(stats.watchers.offered, stats.watchers.delivered + stats.watchers.dropped.stopped);
    });
}

/// Both watchers of a topic are dropped at the same time, and the topic is removed once.
fn two_drops() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let (one, other) = (topics.watch(&"a").unwrap(), topics.watch(&"a").unwrap());
        begin();
        let dropping = spawn(move || drop(one));
        drop(other);
        dropping.join().unwrap();
        assert_eq!((topics.len(), topics.publish(&"a", Payload::new(1)).unwrap()), (0, 0));
    });
}

/// A pattern reader is registered while a thread publishes and thereby creates the topic. After the
/// first event that the reader receives, the reader misses no event.
fn a_reader_against_a_publish_that_creates_its_topic() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || {
            publisher.publish(&"a", Payload::new(1)).unwrap();
            publisher.publish(&"a", Payload::new(2)).unwrap();
        });
        let mut reader = topics.watch_matching("*").unwrap();
        publishing.join().unwrap();
        assert_eq!(topics.publish(&"a", Payload::new(3)).unwrap(), 1);
        let received = read(&mut reader, "a");
        assert!([&[3][..], &[2, 3], &[1, 2, 3]].contains(&&received[..]), "{received:?}");
        drop(reader);
        assert_eq!(topics.len(), 0);
    });
}

/// A pattern reader is registered while a thread creates a topic by watching it, and publishes to
/// the topic.
fn a_reader_against_a_watch_that_creates_its_topic() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let other = topics.clone();
        begin();
        let watching = spawn(move || {
            let watcher = other.watch(&"a").unwrap();
            other.publish(&"a", Payload::new(1)).unwrap();
            watcher
        });
        let mut reader = topics.watch_matching("a").unwrap();
        let mut watcher = watching.join().unwrap();
        assert_eq!(topics.publish(&"a", Payload::new(2)).unwrap(), 2);
        assert_eq!(queued(&mut watcher), [1, 2]);
        let received = read(&mut reader, "a");
        assert!(received == [2] || received == [1, 2], "{received:?}");
    });
}

/// A reader sleeps while a thread creates a topic that it must read.
fn a_reader_that_sleeps_against_a_new_topic() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let mut reader = topics.watch_matching("*").unwrap();
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(1)).unwrap());
        let (key, delivery) = reader.recv().unwrap();
        assert_eq!((key, delivery.event().unwrap().number()), ("a", 1));
        assert_eq!(publishing.join().unwrap(), 1);
    });
}

/// A reader sleeps while a thread publishes to a topic that it has read before.
fn a_reader_that_sleeps_against_an_event() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let mut reader = topics.watch_matching("*").unwrap();
        topics.publish(&"a", Payload::new(1)).unwrap();
        assert_eq!(read(&mut reader, "a"), [1]);
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(2)).unwrap());
        assert!(matches!(reader.recv(), Ok(("a", Delivery::Event(event))) if event.number() == 2));
        assert_eq!(publishing.join().unwrap(), 1);
    });
}

/// A reader sleeps while the topics are closed.
fn a_reader_that_sleeps_against_a_close() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let mut reader = topics.watch_matching("*").unwrap();
        topics.publish(&"a", Payload::new(1)).unwrap();
        assert_eq!(read(&mut reader, "a"), [1]);
        let closing = topics.clone();
        begin();
        let closing = spawn(move || closing.close());
        assert!(reader.recv().is_err());
        closing.join().unwrap();
    });
}

/// The topics are closed while a reader and a watcher are registered. Each of them either ends or
/// is refused.
fn a_close_against_registrations() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let closing = topics.clone();
        begin();
        let closing = spawn(move || closing.close());
        let reader = topics.watch_matching("*");
        let watcher = topics.watch(&"a");
        closing.join().unwrap();
        match reader {
            Ok(mut reader) => assert!(matches!(reader.try_recv(), Err(TryRecvError::Ended))),
            Err(error) => assert!(matches!(error, WatchError::Closed)),
        }
        match watcher {
            Ok(mut watcher) => assert!(matches!(watcher.try_recv(), Err(TryRecvError::Ended))),
            Err(error) => assert!(matches!(error, WatchError::Closed)),
        }
        assert!(topics.publish(&"a", Payload::new(1)).unwrap_err().is_closed());
        assert_eq!(topics.len(), 0);
    });
}

/// The topics are closed while an event is published. Either the reader receives the event, or the
/// publish call returns the event.
fn a_close_against_a_publish() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let mut reader = topics.watch_matching("*").unwrap();
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(1)));
        topics.close();
        let is_accepted = match publishing.join().unwrap() {
            Ok(offered) => offered == 1,
            Err(PublishError::Closed(event)) => event.number() != 1,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(read(&mut reader, "a"), if is_accepted { vec![1] } else { vec![] });
        assert!(matches!(reader.try_recv(), Err(TryRecvError::Ended)));
        let stats = topics.stats();
        assert_eq!(stats.accepted + stats.rejected_closed, 1);
    });
}

/// A reader is dropped while a thread publishes, and no topic is left.
fn a_readers_drop_against_a_publish() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let reader = topics.watch_matching("*").unwrap();
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(1)).unwrap());
        drop(reader);
        let offered = publishing.join().unwrap();
        let stats = topics.stats();
        assert_eq!((stats.topics, stats.accepted + stats.unheard), (0, 1));
        assert!(offered <= 1 && stats.watchers.offered == stats.watchers.dropped.stopped);
    });
}

/// A reader is dropped while two threads publish to its key. Each event counts as unheard if its
/// publish call has found no watchers.
fn a_readers_drop_against_two_publishes() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let reader = topics.watch_matching("*").unwrap();
        let publishers = [topics.clone(), topics.clone()];
        begin();
        let publishing =
            publishers.map(|publisher| spawn(move || publisher.publish(&"a", Payload::new(1)).unwrap()));
        drop(reader);
        let offered = publishing.map(|publishing| publishing.join().unwrap());
        let unheard = offered.iter().filter(|offered| **offered == 0).count() as u64;
        let stats = topics.stats();
        assert_eq!((stats.topics, stats.unheard, stats.accepted), (0, unheard, 2 - unheard));
    });
}

/// At the limit, a topic whose events have been received is removed to make space for another topic
/// while a thread publishes to the first topic. The reader receives every accepted event of the
/// first topic in order.
fn a_sweep_against_a_publish() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(1);
        let mut reader = topics.watch_matching("*").unwrap();
        topics.publish(&"a", Payload::new(1)).unwrap();
        assert_eq!(read(&mut reader, "a"), [1]);
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(2)).is_ok());
        let is_other_accepted = topics.publish(&"b", Payload::new(3)).is_ok();
        let mut expected = Vec::new();
        if publishing.join().unwrap() {
            expected.push(("a", 2));
        }
        if is_other_accepted {
            expected.push(("b", 3));
        }
        let mut received = Vec::new();
        while let Ok((key, delivery)) = reader.try_recv() {
            received.push((key, delivery.event().unwrap().number()));
        }
        received.sort_unstable();
        assert_eq!(received, expected);
        assert!(!expected.is_empty() && topics.len() == 1);
    });
}

/// A topic is removed by a sweep, and its key gets a new topic, while the reader finds that the old
/// topic has ended. The new topic keeps its reader.
fn a_late_end_against_a_new_topic() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(2);
        let mut reader = topics.watch_matching("*").unwrap();
        for key in ["a", "b"] {
            topics.publish(&key, Payload::new(1)).unwrap();
            assert_eq!(read(&mut reader, key), [1]);
        }
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || {
            assert_eq!(publisher.publish(&"c", Payload::new(2)).unwrap(), 1);
            assert_eq!(publisher.publish(&"a", Payload::new(3)).unwrap(), 1);
        });
        let mut received = Vec::new();
        let mut receive = |reader: &mut TopicsReader<Key, Payload>| {
            while let Ok((key, delivery)) = reader.try_recv() {
                received.push((key, delivery.event().unwrap().number()));
            }
        };
        receive(&mut reader);
        publishing.join().unwrap();
        receive(&mut reader);
        received.sort_unstable();
        assert_eq!(received, [("a", 3), ("c", 2)]);
        assert_eq!(topics.publish(&"a", Payload::new(4)).unwrap(), 1);
        assert_eq!(read(&mut reader, "a"), [4]);
        assert_eq!(topics.stats().created, 4);
    });
}

/// At the limit, a topic is removed while a thread publishes to it, and before the reader has seen
/// the topic. The reader receives every accepted event.
fn a_sweep_against_a_publish_to_an_unseen_topic() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(1);
        let mut reader = topics.watch_matching("a").unwrap();
        drop(topics.watch(&"a").unwrap());
        assert_eq!(topics.len(), 1);
        let publisher = topics.clone();
        begin();
        let publishing = spawn(move || publisher.publish(&"a", Payload::new(1)).is_ok());
        let other = topics.watch(&"b");
        let is_accepted = publishing.join().unwrap();
        assert!(is_accepted || other.is_ok());
        assert_eq!(read(&mut reader, "a"), if is_accepted { vec![1] } else { vec![] });
    });
}

/// At the limit, a topic whose events have been received is removed while a thread watches the
/// topic. The watcher receives every event that is published after its registration. Both calls may
/// succeed, because the other topic is idle until its event has been accepted, and can itself be
/// removed.
fn a_sweep_against_a_watch() {
    explore(Exploration::default().after_set_up(), || {
        let topics = topics(1);
        let mut reader = topics.watch_matching("*").unwrap();
        topics.publish(&"a", Payload::new(1)).unwrap();
        assert_eq!(read(&mut reader, "a"), [1]);
        let other = topics.clone();
        begin();
        let publishing = spawn(move || other.publish(&"b", Payload::new(2)).is_ok());
        let watcher = topics.watch(&"a");
        let is_other_accepted = publishing.join().unwrap();
        match watcher {
            Ok(mut watcher) => {
                assert_eq!(topics.publish(&"a", Payload::new(3)).unwrap(), 2);
                assert_eq!(queued(&mut watcher), [3]);
            }
            Err(error) => assert!(is_other_accepted && matches!(error, WatchError::TooManyTopics(1))),
        }
    });
}

models![
    a_watch_against_the_last_drop,
    a_publish_against_the_last_drop_and_a_watch,
    two_drops,
    a_reader_against_a_publish_that_creates_its_topic,
    a_reader_against_a_watch_that_creates_its_topic,
    a_reader_that_sleeps_against_a_new_topic,
    a_reader_that_sleeps_against_an_event,
    a_reader_that_sleeps_against_a_close,
    a_close_against_registrations,
    a_close_against_a_publish,
    a_readers_drop_against_a_publish,
    a_readers_drop_against_two_publishes,
    a_sweep_against_a_publish,
    a_sweep_against_a_publish_to_an_unseen_topic,
    a_sweep_against_a_watch,
    a_late_end_against_a_new_topic,
];
