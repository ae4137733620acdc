//! Tests of threads that race with the removal of topics, and of the counts afterwards.

use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use eventcast::error::TryRecvError;
use eventcast::topics::Topics;
use eventcast::{Delivery, OverflowPolicy, WatchOptions};

use crate::support::*;

/// Topics are watched and removed while a reader with a matching pattern receives nothing.
#[test]
fn a_reader_that_does_not_read_keeps_no_removed_topics() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    #[derive(PartialEq, Eq, Hash)]
    struct Counted(String);
    impl Counted {
        fn new(text: String) -> Self {
            ALIVE.fetch_add(1, Ordering::Relaxed);
            Self(text)
        }
    }
    impl Clone for Counted {
        fn clone(&self) -> Self {
            Self::new(self.0.clone())
        }
    }
    impl Drop for Counted {
        fn drop(&mut self) {
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    impl AsRef<str> for Counted {
        fn as_ref(&self) -> &str {
            &self.0
        }
    }
    let topics = limited::<Counted, u32>(100);
    let reader = topics.watch_matching(">").unwrap();
    for key in 0..20_000 {
        drop(topics.watch(&Counted::new(key.to_string())).unwrap());
    }
    let alive = ALIVE.load(Ordering::Relaxed);
    let most = topics.len();
    drop(reader);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
    assert!(alive <= 1000, "{alive} keys are alive with {most} topics of at most 100");
}

/// An event is accepted after the sweep has found its topic idle, and before the topic is removed.
/// A hook in the key's `Hash` simulates a thread switch at that point.
#[test]
fn an_event_that_is_accepted_during_a_sweep_is_counted() {
    let topics = Arc::new(limited::<Key, u32>(1));
    let mut reader = topics.watch_matching("*").unwrap();
    topics.publish(&Key("hot"), 1).unwrap();
    reader.try_recv().unwrap();
    let inside = topics.clone();
    let publish = move || {
        let run = move || assert_eq!(inside.publish(&Key("hot"), 2), Ok(1));
        std::thread::spawn(run).join().unwrap();
    };
    HASH_HOOK.set(Some((1, Box::new(publish))));
    let _other = topics.watch(&Key("x")).unwrap();
    assert!(HASH_HOOK.with_borrow(Option::is_none));
    assert_eq!(reader.try_recv(), Ok((Key("hot"), Delivery::Event(2))));
    assert_eq!(reader.try_recv(), Err(TryRecvError::Empty));
    let sums = topics.stats().watchers;
    assert_eq!((sums.offered, sums.delivered, sums.queued, sums.lag), (2, 2, 0, 0));
}

/// A reader is dropped after a publish call has found that the reader's pattern matches. The call
/// creates a topic without watchers, and another thread publishes to that topic before it is
/// removed. Hooks in the key's `Hash` simulate the two thread switches.
#[test]
fn an_event_for_a_topic_that_has_lost_its_reader_is_unheard() {
    let topics = Arc::new(limited::<Key, u32>(2));
    let reader = topics.watch_matching("*").unwrap();
    let inside = topics.clone();
    let publish = move || {
        let run = move || assert_eq!(inside.publish(&Key("a"), 2), Ok(0));
        std::thread::spawn(run).join().unwrap();
    };
    let lose_reader = move || {
        drop(reader);
        HASH_HOOK.set(Some((0, Box::new(publish))));
    };
    HASH_HOOK.set(Some((1, Box::new(lose_reader))));
    assert_eq!(topics.publish(&Key("a"), 1), Ok(0));
    assert!(HASH_HOOK.with_borrow(Option::is_none), "both hooks must have been called");
    let stats = topics.stats();
    assert_eq!((stats.created, stats.topics), (1, 0));
    assert_eq!((stats.accepted, stats.unheard), (0, 2));
}

/// Threads publish to more keys than the limit allows topics, so topics are constantly being
/// removed.
#[test]
fn counts_are_exact_after_sweeps_under_load() {
    const ROUNDS: u32 = 2000;
    const KEYS: u32 = 6;
    let topics = limited::<String, u32>(3);
    let options = WatchOptions::default().overflow(OverflowPolicy::Wait);
    let mut reader = topics.watch_matching_with(">", options).unwrap();
    let is_done = AtomicBool::new(false);
    let mut next = [0; KEYS as usize];
    let mut received = 0;
    std::thread::scope(|scope| {
        let publishers: Vec<_> = (0..KEYS)
            .map(|key| {
                let topics = &topics;
                scope.spawn(move || {
                    let key = key.to_string();
                    for number in 0..ROUNDS {
                        while let Err(error) = topics.publish(&key, number) {
                            if error.is_closed() {
                                return;
                            }
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            for publisher in publishers {
                publisher.join().unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        loop {
            let done = is_done.load(Ordering::Acquire);
            match reader.recv_timeout(Duration::from_millis(1)) {
                Ok((key, Delivery::Event(number))) => {
                    let next = &mut next[key.parse::<usize>().unwrap()];
                    if number != *next {
                        topics.close();
                        panic!("order: {key} {number}, expected {next}");
                    }
                    *next += 1;
                    received += 1;
                }
                Ok(gap) => {
                    topics.close();
                    panic!("{gap:?}")
                }
                Err(_) if done => break,
                Err(_) => {}
            }
        }
    });
    let stats = topics.stats();
    assert_eq!(received, KEYS * ROUNDS);
    assert_eq!(stats.accepted, u64::from(received));
    assert_eq!((stats.watchers.delivered, stats.watchers.queued), (u64::from(received), 0), "{stats}");
}

/// Other threads create topics at the limit, which removes the topic that the test publishes to.
#[test]
fn counts_are_exact_after_sweeps_by_others() {
    let rounds = test_support::env_number("EVENTCAST_ROUNDS", 40_000) as u32;
    let topics = limited::<String, u32>(2);
    let mut reader = topics.watch_matching("hot").unwrap();
    let is_done = AtomicBool::new(false);
    let mut received = 0;
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (topics, is_done) = (&topics, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Acquire) {
                    let _ = topics.watch(&format!("x{thread}"));
                }
            });
        }
        for _ in 0..rounds {
            while topics.publish("hot", 1).is_err() {
                while reader.try_recv().is_ok() {
                    received += 1;
                }
            }
            while let Ok((_, delivery)) = reader.try_recv() {
                received += match delivery {
                    Delivery::Event(_) => 1,
                    Delivery::Lagged(lost) => lost,
                };
            }
        }
        is_done.store(true, Ordering::Release);
    });
    while reader.try_recv().is_ok() {
        received += 1;
    }
    let stats = topics.stats();
    assert_eq!((received, stats.accepted), (u64::from(rounds), u64::from(rounds)));
    let sums = &stats.watchers;
    assert_eq!((sums.delivered + sums.dropped.total(), sums.queued), (received, 0), "{stats}");
}

/// The reader receives everything after each publish call while other threads remove the topic. If
/// a thread is preempted between removing the topic and closing its bus, the reader must not wait
/// for that thread before it reads the key's next topic, whose queue would overflow.
#[test]
fn a_reader_that_keeps_up_does_not_lag_because_of_a_sweep() {
    let topics = limited::<String, u32>(2);
    let mut reader = topics.watch_matching("hot").unwrap();
    let is_done = AtomicBool::new(false);
    let (mut gaps, mut hidden) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (topics, is_done) = (&topics, &is_done);
            scope.spawn(move || {
                while !is_done.load(Ordering::Acquire) {
                    let _ = topics.watch(&format!("x{thread}"));
                }
            });
        }
        for _ in 0..60_000 {
            while topics.publish("hot", 1).is_err() {}
            let mut is_hidden = true;
            while let Ok((_, delivery)) = reader.try_recv() {
                is_hidden = false;
                if let Delivery::Lagged(lost) = delivery {
                    gaps.push(lost);
                }
            }
            hidden += u32::from(is_hidden);
        }
        is_done.store(true, Ordering::Release);
    });
    assert!(gaps.is_empty(), "gaps {gaps:?}, {hidden} calls of try_recv found nothing after a publish");
}

/// The topic is removed after a watcher has been offered part of the batch.
#[test]
fn a_batch_that_was_offered_in_part_does_not_return_0() {
    let topics = Topics::<String, u32>::new();
    let watch =
        |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    let mut watcher = topics.watch_with("a", watch).unwrap();
    std::thread::scope(|scope| {
        let publishing = scope.spawn(|| topics.publish_batch("a", [1, 2, 3]));
        assert_eq!(watcher.recv(), Ok(Delivery::Event(1)));
        drop(watcher);
        let result = publishing.join().unwrap();
        assert_ne!(result, Ok(0), "event 1 was received");
    });
}
