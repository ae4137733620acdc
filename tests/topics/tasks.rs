//! Tests of topics used by asynchronous tasks.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use eventcast::topics::Topics;
use eventcast::{Delivery, OverflowPolicy};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FusedStream;

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[tokio::test]
async fn tasks_watch_and_publish() {
    const EVENTS: u32 = 1000;
    let topics = std::sync::Arc::new(Topics::<String, u32>::new());
    let mut reader = topics.watch_matching("n.*").unwrap();
    let publishers = [1, 2].map(|publisher| {
        let topics = topics.clone();
        tokio::spawn(async move {
            let key = format!("n.{publisher}");
            for number in 0..EVENTS {
                topics.publish_async(&key, number).await.unwrap();
                if number % 10 == 0 {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    let closing = tokio::spawn(async move {
        for publisher in publishers {
            publisher.await.unwrap();
        }
        topics.close();
    });
    let mut next = [0, 0];
    while let Some((key, delivery)) = reader.next().await {
        assert!(!reader.is_terminated());
        let next = &mut next[usize::from(key == "n.2")];
        assert_eq!(delivery, Delivery::Event(*next));
        *next += 1;
    }
    closing.await.unwrap();
    assert_eq!(next, [EVENTS; 2]);
    assert!(reader.is_terminated());
    assert!(reader.recv_async().await.is_err());
}

#[test]
fn an_awaited_publish_waits_for_its_own_topic() {
    let topics = Topics::<u32, u32>::new();
    let watch =
        |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    let mut watcher = topics.watch_with(&1, watch).unwrap();
    block_on(topics.publish_async(&1, 1)).unwrap();
    let mut waiting = pin!(topics.publish_async(&1, 2));
    assert!(poll(waiting.as_mut()).is_pending());
    assert_eq!(block_on(topics.publish_async(&2, 3)), Ok(0));
    watcher.recv().unwrap();
    assert_eq!(poll(waiting.as_mut()), Poll::Ready(Ok(1)));
}

#[test]
fn an_awaited_publish_that_is_dropped_publishes_nothing() {
    let topics = Topics::<u32, u32>::new();
    let watch =
        |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    let watcher = topics.watch_with(&1, watch).unwrap();
    topics.publish(&1, 1).unwrap();
    {
        let mut waiting = pin!(topics.publish_async(&1, 2));
        assert!(poll(waiting.as_mut()).is_pending());
    }
    drop(watcher);
    let stats = topics.stats();
    assert_eq!((stats.accepted, stats.watchers.offered, stats.topics), (1, 1, 0));
}

#[test]
fn an_awaited_publish_finds_the_next_topic_when_its_own_has_gone() {
    let topics = Topics::<u32, u32>::new();
    let watch =
        |w: eventcast::WatchBuilder<'_, u32>| w.queue_capacity(1).overflow(OverflowPolicy::Wait).watch();
    let watcher = topics.watch_with(&1, watch).unwrap();
    topics.publish(&1, 1).unwrap();
    let mut waiting = pin!(topics.publish_async(&1, 2));
    assert!(poll(waiting.as_mut()).is_pending());
    drop(watcher);
    let mut next = topics.watch(&1).unwrap();
    assert_eq!(poll(waiting.as_mut()), Poll::Ready(Ok(1)));
    assert_eq!(next.try_recv(), Ok(Delivery::Event(2)));
    assert_eq!((topics.stats().created, topics.stats().rejected_closed), (2, 0));
}

#[test]
fn a_receive_that_is_dropped_has_received_nothing() {
    let topics = Topics::<String, u32>::new();
    let mut reader = topics.watch_matching(">").unwrap();
    {
        let mut waiting = pin!(reader.recv_async());
        assert!(poll(waiting.as_mut()).is_pending());
        topics.publish("a", 1).unwrap();
    }
    assert_eq!(block_on(reader.recv_async()), Ok(("a".into(), Delivery::Event(1))));
}
