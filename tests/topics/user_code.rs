//! Tests of user-defined events and wakers, and a test that nothing leaks when everything has been
//! dropped.

use std::pin::Pin;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use eventcast::topics::{SubjectPattern, Topics, TopicsOptions};
use eventcast::{BusOptions, Delivery, OverflowPolicy, WatchOptions};
use futures::Stream;

use crate::support::*;

/// An event's `Drop` panics inside a publish call.
#[test]
fn a_panicking_drop_of_an_event_leaves_the_topic_usable() {
    #[derive(Debug)]
    struct Bomb(bool);
    impl Clone for Bomb {
        fn clone(&self) -> Self {
            assert!(!self.0, "injected clone");
            Self(self.0)
        }
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.0 || std::thread::panicking(), "injected drop");
        }
    }
    for policy in [OverflowPolicy::DropOldest, OverflowPolicy::DropIncoming] {
        for count in [1, 2] {
            let options = TopicsOptions::default().bus(BusOptions::default().history(1));
            let topics = Topics::<u32, Bomb>::with_options(options).unwrap();
            let watchers: Vec<_> = (0..count)
                .map(|_| topics.watch_with(&1, |w| w.queue_capacity(2).overflow(policy).watch()).unwrap())
                .collect();
            for round in 0..6 {
                let bombs = vec![Bomb(round % 2 == 0), Bomb(true), Bomb(false)];
                let _ = quiet(|| topics.publish_batch(&1, bombs).is_ok());
            }
            assert!(topics.publish(&1, Bomb(false)).is_ok(), "{policy} {count}");
            std::mem::forget(watchers);
        }
    }
}

/// A waker that uses the topics, and counts its calls.
struct Nosy(Mutex<Option<Used>>);

type Used = (Arc<Topics<String, u32>>, usize);

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        let Some((topics, depth)) = self.0.lock().unwrap().take() else { return };
        assert!(topics.watchers("a") > 0);
        topics.stats();
        let other = topics.watch("other").unwrap();
        topics.publish("other", 1).unwrap();
        drop(topics.watch_matching(">").unwrap());
        drop(other);
        topics.publish("a", 2).unwrap();
        *self.0.lock().unwrap() = Some((topics, depth + 1));
    }
}

/// A reader's waker calls methods of the topics.
#[test]
fn a_waker_may_use_every_method() {
    test_support::watched(|| {
        let topics = Arc::new(limited::<String, u32>(4));
        let mut reader = topics.watch_matching("a").unwrap();
        let nosy = Arc::new(Nosy(Mutex::new(Some((topics.clone(), 0)))));
        let waker = Waker::from(nosy.clone());
        let mut received = 0;
        for _ in 0..20 {
            while let Poll::Ready(item) = Pin::new(&mut reader).poll_next(&mut Context::from_waker(&waker)) {
                received += u32::from(item.is_some());
            }
            topics.publish("a", 1).unwrap();
        }
        assert!(received > 20, "{received}");
        let woken = nosy.0.lock().unwrap().take().unwrap().1;
        assert!(woken >= 20);
        drop(reader);
        drop(waker);
        assert_eq!((Arc::strong_count(&nosy), topics.len()), (1, 0));
        assert_eq!(Arc::strong_count(&topics), 1);
    });
}

/// No key, event, filter or waker is leaked, even if the topics are dropped first, or if filters
/// remove topics.
#[test]
fn nothing_leaks() {
    let token = Arc::new(());
    let event = Arc::new(7);
    let flag = Arc::new(Flag(AtomicBool::new(false)));
    for order in 0..3 {
        let options = TopicsOptions::default().max_topics(8).bus(BusOptions::default().history(4));
        let topics = Topics::<Arc<str>, Arc<i32>>::with_options(options).unwrap();
        let key: Arc<str> = "a".into();
        let mut reader = topics.watch_matching(">").unwrap();
        let unread = topics.watch_matching("*").unwrap();
        let slot = Arc::new(Mutex::new(None));
        let (inside, held) = (slot.clone(), token.clone());
        let watcher = topics
            .watch_with(&key, |w| {
                w.filter(move |_| {
                    let _ = &held;
                    drop(inside.lock().unwrap().take());
                    true
                })
                .watch()
            })
            .unwrap();
        *slot.lock().unwrap() = Some(watcher);
        for number in 0..40 {
            let _ = topics.publish(&Arc::<str>::from(format!("k{number}")), event.clone());
        }
        let waker = Waker::from(flag.clone());
        while Pin::new(&mut reader).poll_next(&mut Context::from_waker(&waker)).is_ready() {}
        topics.publish(&key, event.clone()).unwrap();
        match order {
            0 => drop((topics, reader, unread)),
            1 => drop((reader, topics, unread)),
            _ => drop((unread, reader, topics)),
        }
        drop(slot);
        assert_eq!((Arc::strong_count(&key), Arc::strong_count(&token)), (1, 1));
        drop(waker);
        assert_eq!((Arc::strong_count(&event), Arc::strong_count(&flag)), (1, 1), "{order}");
    }
}

/// Patterns with unusual characters and lengths do not cause a panic.
#[test]
fn odd_patterns_do_not_panic() {
    let long = "ä..".repeat(100);
    for pattern in [long.as_str(), "\u{0}", "🦀 🦀", "a.🦀>", ".>", "*.", "..", "\u{200b}", "a\u{85}b"]
    {
        let _ = SubjectPattern::new(pattern).map_err(|error| error.to_string());
    }
    let star = SubjectPattern::new("a.*.b").unwrap();
    assert!(!star.matches("a.b") && star.matches("a.ä.b"));
}

/// Receive futures are polled once and dropped while threads publish.
#[test]
fn no_wake_up_is_lost_with_cancelled_receives() {
    test_support::watched(|| {
        const EVENTS: u32 = 3000;
        let topics = limited::<String, u32>(3);
        let options = WatchOptions::default().overflow(OverflowPolicy::Wait).queue_capacity(2);
        let mut reader = topics.watch_matching_with("*", options).unwrap();
        let mut next = [0; 3];
        std::thread::scope(|scope| {
            for key in 0..3 {
                let topics = &topics;
                scope.spawn(move || {
                    let key = key.to_string();
                    for number in 0..EVENTS {
                        while let Err(error) = topics.publish(&key, number) {
                            if error.is_closed() {
                                return;
                            }
                            std::thread::yield_now();
                        }
                    }
                });
            }
            futures::executor::block_on(async {
                for round in 0.. {
                    if next == [EVENTS; 3] {
                        break;
                    }
                    if round % 3 == 0 {
                        let mut receiving = std::pin::pin!(reader.recv_async());
                        let polled = futures::poll!(receiving.as_mut());
                        if let Poll::Ready(Ok((key, delivery))) = polled {
                            let next = &mut next[key.parse::<usize>().unwrap()];
                            assert_eq!(delivery, Delivery::Event(*next));
                            *next += 1;
                        }
                        continue;
                    }
                    let (key, delivery) = reader.recv_async().await.unwrap();
                    let next = &mut next[key.parse::<usize>().unwrap()];
                    assert_eq!(delivery, Delivery::Event(*next));
                    *next += 1;
                }
            });
        });
    });
}
