//! Tests of when topics are created and removed, of the limit on topics, and of `close`.

use std::time::Duration;

use eventcast::error::{RecvError, WatchError};
use eventcast::topics::{Topics, TopicsOptions, TopicsReader};
use eventcast::{BusOptions, Delivery, OverflowPolicy, Start};
use test_support::{LONG, until};

fn topics(most: usize) -> Topics<String, u32> {
    Topics::with_options(TopicsOptions::default().max_topics(most)).unwrap()
}

#[test]
fn topics_and_their_readers_can_be_sent_and_shared() {
    fn send<T: Send + Unpin>() {}
    fn share<T: Sync>() {}
    send::<Topics<String, u32>>();
    share::<Topics<String, u32>>();
    // Like a watcher, a reader belongs to one thread or task at a time.
    send::<TopicsReader<String, u32>>();
}

#[test]
fn a_topic_exists_from_its_first_watcher_to_its_last() {
    let topics = topics(10);
    let (one, other) = (topics.watch("a").unwrap(), topics.watch("a").unwrap());
    assert_eq!((topics.len(), topics.watchers("a"), topics.watchers("b")), (1, 2, 0));
    drop(one);
    assert_eq!((topics.len(), topics.watchers("a")), (1, 1));
    // As on any bus, a stopped watcher is counted until it is dropped.
    other.stop();
    assert_eq!(topics.len(), 1);
    drop(other);
    assert_eq!((topics.len(), topics.watchers("a"), topics.stats().created), (0, 0, 1));
    assert!(topics.stats_of("a").is_none());
}

#[test]
fn a_handler_keeps_its_topic_until_it_has_ended() {
    let topics = topics(10);
    let spawned = topics.watch_with("a", |watcher| watcher.spawn(|_| ())).unwrap();
    let runner = topics.watch_with("b", |watcher| watcher.runner(|_| ())).unwrap();
    assert_eq!(topics.len(), 2);
    spawned.stop();
    assert!(spawned.join(LONG));
    until(|| topics.watchers("a") == 0);
    drop(runner);
    assert_eq!(topics.len(), 0);
}

#[test]
fn a_watcher_that_is_not_registered_leaves_no_topic() {
    let topics = topics(10);
    let error = topics.watch_with("a", |watcher| watcher.queue_capacity(0).watch()).unwrap_err();
    assert!(error.to_string().starts_with("queue_capacity must be"), "{error}");
    assert!(topics.watch_with("a", |_| Err::<(), _>(WatchError::Closed)).is_err());
    topics.watch_with("a", |_| Ok(())).unwrap();
    assert_eq!((topics.len(), topics.publish("a", 1).unwrap()), (0, 0));
}

#[test]
fn an_evicted_watcher_counts_until_it_is_dropped() {
    let topics = topics(10);
    let watch =
        |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Evict).watch();
    let evicted = topics.watch_with("a", watch).unwrap();
    topics.publish_batch("a", [1, 2]).unwrap();
    assert_eq!(topics.watchers("a"), 1);
    drop(evicted);
    assert_eq!((topics.len(), topics.stats().watchers.evictions), (0, 1));
}

#[test]
fn history_and_positions_belong_to_one_life_of_a_topic() {
    let options = TopicsOptions::default().bus(BusOptions::default().history(10));
    let topics = Topics::<String, u32>::with_options(options).unwrap();
    let from_the_oldest = || topics.watch_with("a", |watcher| watcher.start(Start::Oldest).watch()).unwrap();
    let first = topics.watch("a").unwrap();
    topics.publish("a", 1).unwrap();
    let mut second = from_the_oldest();
    assert_eq!(second.try_recv(), Ok(Delivery::Event(1)));
    assert_eq!(second.position(), Some(1));
    drop((first, second));
    let mut third = from_the_oldest();
    topics.publish("a", 2).unwrap();
    assert_eq!(third.try_recv(), Ok(Delivery::Event(2)));
    assert_eq!(third.position(), Some(1));
}

#[test]
fn the_limit_of_topics_is_exact() {
    let topics = topics(2);
    let (a, b) = (topics.watch("a").unwrap(), topics.watch("b").unwrap());
    let error = topics.watch("c").unwrap_err();
    assert!(matches!(error, WatchError::TooManyTopics(2)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the limit of 2 topics is reached: raise max_topics, drop watchers, or read what is queued for a pattern"
    );
    // Existing topics accept more watchers.
    let again = topics.watch("a").unwrap();
    drop(b);
    let c = topics.watch("c").unwrap();
    assert!(topics.watch("b").is_err());
    drop((a, again, c));
    assert_eq!(topics.len(), 0);
}

#[test]
fn options_out_of_range_are_named() {
    let error = |options| Topics::<u32, u32>::with_options(options).unwrap_err().to_string();
    let bus = |options| TopicsOptions::default().bus(options);
    assert_eq!(error(TopicsOptions::default().max_topics(0)), "max_topics must be at least 1, got 0");
    assert!(error(bus(BusOptions::default().queue_capacity(0))).starts_with("queue_capacity must be 1 to"));
    assert!(
        error(bus(BusOptions::default().thread_name("x"))).starts_with("thread_name must be the default")
    );
}

#[test]
fn closed_topics_deliver_what_is_queued_and_accept_nothing() {
    let topics = topics(10);
    let (mut a, mut all) = (topics.watch("a").unwrap(), topics.watch_matching(">").unwrap());
    topics.publish("a", 1).unwrap();
    topics.publish("b", 2).unwrap();
    topics.close();
    topics.close();
    assert!(topics.is_closed());
    for key in ["a", "b", "c"] {
        let error = topics.publish(key, 3).unwrap_err();
        assert!(error.is_closed() && error.into_inner() == 3, "{key}");
        assert!(matches!(topics.watch(key), Err(WatchError::Closed)), "{key}");
    }
    assert!(matches!(topics.watch_matching("a"), Err(WatchError::Closed)));
    assert_eq!(a.recv(), Ok(Delivery::Event(1)));
    assert_eq!(a.recv(), Err(RecvError));
    let mut received = [all.recv().unwrap(), all.recv().unwrap()];
    received.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(received, [("a".into(), Delivery::Event(1)), ("b".into(), Delivery::Event(2))]);
    assert_eq!(all.recv(), Err(RecvError));
    assert_eq!(topics.stats().rejected_closed, 3);
    drop((a, all));
    assert_eq!(topics.len(), 0);
}

#[test]
fn dropping_the_topics_closes_them() {
    let topics = topics(10);
    let (mut a, mut all) = (topics.watch("a").unwrap(), topics.watch_matching("a").unwrap());
    topics.publish("a", 1).unwrap();
    drop(topics);
    assert_eq!(a.recv(), Ok(Delivery::Event(1)));
    assert_eq!(a.recv(), Err(RecvError));
    assert_eq!(all.recv(), Ok(("a".into(), Delivery::Event(1))));
    assert_eq!(all.recv(), Err(RecvError));
}

#[test]
fn sums_include_topics_that_are_gone() {
    let topics = topics(10);
    let (mut a, b) = (topics.watch("a").unwrap(), topics.watch("b").unwrap());
    topics.publish_batch("a", [1, 2, 3]).unwrap();
    topics.publish_batch("b", [4, 5]).unwrap();
    topics.publish_batch("c", [6]).unwrap();
    a.recv().unwrap();
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.created, stats.accepted, stats.unheard), (2, 2, 5, 1));
    assert_eq!((stats.watchers.delivered, stats.watchers.queued), (1, 4));
    drop((a, b));
    let stats = topics.stats();
    assert_eq!((stats.topics, stats.created, stats.accepted, stats.unheard), (0, 2, 5, 1));
    assert_eq!((stats.watchers.offered, stats.watchers.delivered, stats.watchers.dropped.stopped), (5, 1, 4));
    let text = stats.to_string();
    assert!(text.starts_with("topics 0 (created 2), accepted 5, unheard 1, rejected 0"), "{text}");
}

#[test]
fn a_hundred_thousand_topics_exist_at_the_same_time() {
    const MANY: u32 = 100_000;
    let topics = Topics::<u32, u32>::new();
    let mut watchers: Vec<_> = (0..MANY).map(|key| topics.watch(&key).unwrap()).collect();
    assert!(topics.watch(&MANY).is_err());
    for key in 0..MANY {
        assert_eq!(topics.publish(&key, key).unwrap(), 1);
    }
    for (key, watcher) in (0..MANY).zip(&mut watchers) {
        assert_eq!(watcher.try_recv(), Ok(Delivery::Event(key)));
    }
    drop(watchers);
    assert_eq!((topics.len(), topics.stats().accepted), (0, u64::from(MANY)));
}

#[test]
fn a_fake_clock_times_a_wait_for_a_topic() {
    use eventcast::testing::FakeClock;
    use std::time::SystemTime;

    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let topics = Topics::<u32, u32>::with_clock(TopicsOptions::default(), clock.clock()).unwrap();
    let limit = Duration::from_secs(5);
    let watch = |w: eventcast::WatchBuilder<'_, u32>| {
        w.queue_capacity(1).overflow(OverflowPolicy::WaitFor(limit)).watch()
    };
    let watcher = topics.watch_with(&1, watch).unwrap();
    topics.publish(&1, 1).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| topics.publish(&1, 2));
        clock.wait_for_waiters(1);
        clock.advance(limit);
        assert_eq!(waiting.join().unwrap(), Ok(1));
    });
    assert_eq!(watcher.stats().dropped.timed_out, 1);
}
