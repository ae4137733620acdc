//! Tasks that read, publish, and wait for capacity.

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::{PublishError, RecvError};
use futures::StreamExt;
use futures::future::{join, join_all};

use crate::support::{LONG, assert_balanced, bus, bus_with, hold, waits};

use super::{Executor, both_options, collect};

on_every_executor! {
    /// A stream yields every event in order. After the last event, each poll returns the end of the
    /// stream.
    async fn a_stream_yields_everything_and_ends(executor) {
        for options in both_options() {
            let bus = bus_with::<u64>(options);
            let mut watcher = waits(&bus, 100).watch().unwrap();
            let publisher = bus.publisher();
            let publishing = executor.spawn(async move {
                for n in 0..5000 {
                    publisher.publish_async(n).await.unwrap();
                }
            });
            for n in 0..5000 {
                assert_eq!(watcher.next().await, Some(Event(n)));
            }
            publishing.await;
            bus.close();
            for _ in 0..3 {
                assert_eq!(watcher.next().await, None);
                assert_eq!(watcher.recv_async().await, Err(RecvError));
            }
            assert_balanced(&bus.shutdown_async(LONG).await.bus);
        }
    }

    /// A loss is an item at its position in the stream. The loss wakes a waiting task, even if no
    /// event follows.
    async fn a_gap_is_an_item(executor) {
        for options in both_options() {
            let bus = bus_with::<u64>(options.queue_capacity(2));
            let mut watcher = bus.watch().unwrap();
            bus.publisher().publish_batch(vec![0, 1, 2, 3]).unwrap();
            bus.flush_async(LONG).await.unwrap();
            assert_eq!(watcher.recv_async().await, Ok(Event(0)));
            assert_eq!(watcher.recv_async().await, Ok(Event(1)));
            assert_eq!(watcher.recv_async().await, Ok(Lagged(2)));
            bus.publisher().publish_batch(vec![4, 5]).unwrap();
            assert_eq!(watcher.next().await, Some(Event(4)));
            assert_eq!(watcher.next().await, Some(Event(5)));
            let stop = watcher.handle();
            let waiting = executor.spawn(async move { assert_eq!(watcher.next().await, None) });
            stop.stop();
            waiting.await;
        }
    }

    /// Two tasks wake each other thousands of times through queues of one event. A lost wake-up
    /// would hang the test.
    async fn ping_pong(executor) {
        for options in both_options() {
            let there = bus_with::<u64>(options.clone().incoming_capacity(1));
            let back = bus_with::<u64>(options.incoming_capacity(1));
            let mut pings = waits(&there, 1).watch().unwrap();
            let mut pongs = waits(&back, 1).watch().unwrap();
            let answer = back.publisher();
            let answering = executor.spawn(async move {
                while let Some(Event(n)) = pings.next().await {
                    answer.publish_async(n + 1).await.unwrap();
                }
            });
            let ask = there.publisher();
            for round in 0..2000 {
                ask.publish_async(round).await.unwrap();
                assert_eq!(pongs.next().await, Some(Event(round + 1)));
            }
            there.close();
            answering.await;
        }
    }

    /// Publishers that find no capacity wait as tasks, and each event is delivered once.
    async fn publishers_wait_for_capacity(executor) {
        for options in both_options() {
            let bus = bus_with(options.incoming_capacity(1));
            let watcher = waits(&bus, 1).watch().unwrap();
            let publishing: Vec<_> = (0..20)
                .map(|n| {
                    let publisher = bus.publisher();
                    executor.spawn(async move {
                        for i in 0..20 {
                            publisher.publish_async(100 * n + i).await.unwrap();
                        }
                    })
                })
                .collect();
            let closing = async {
                join_all(publishing).await;
                bus.close();
            };
            let ((mut events, lost), ()) = join(collect(watcher), closing).await;
            for n in 0..20 {
                let of_one: Vec<_> = events.iter().filter(|event| *event / 100 == n).copied().collect();
                assert_eq!(of_one, (100 * n..100 * n + 20).collect::<Vec<_>>());
            }
            events.sort_unstable();
            events.dedup();
            assert_eq!((events.len(), lost), (400, 0));
        }
    }

    /// `ready` and `try_publish` together publish all events, even if other publishers are waiting
    /// with their own events.
    async fn ready_loses_nothing(executor) {
        for options in both_options() {
            let bus = bus_with(options.incoming_capacity(1));
            let watcher = waits(&bus, 1).watch().unwrap();
            let publishing: Vec<_> = (0..8)
                .map(|n| {
                    let publisher = bus.publisher();
                    executor.spawn(async move {
                        for i in 0..50 {
                            if n % 2 == 0 {
                                publisher.publish_async(i).await.unwrap();
                                continue;
                            }
                            loop {
                                publisher.ready().await.unwrap();
                                if publisher.try_publish(i).is_ok() {
                                    break;
                                }
                            }
                        }
                    })
                })
                .collect();
            let closing = async {
                join_all(publishing).await;
                bus.close();
            };
            let ((events, lost), ()) = join(collect(watcher), closing).await;
            assert_eq!((events.len(), lost), (400, 0));
        }
    }

    /// The end of the bus wakes every waiting task, whatever the task is waiting for.
    async fn a_close_wakes_all_that_wait(executor) {
        let bus = bus::<u64>(1, 1);
        let held = hold(&bus);
        while bus.publisher().try_publish(9).is_ok() {}
        let (publisher, other) = (bus.publisher(), bus.publisher());
        let publishing = executor.spawn(async move {
            assert_eq!(publisher.publish_async(7).await, Err(PublishError::Closed(7)));
        });
        let getting_ready = executor.spawn(async move {
            assert_eq!(other.ready().await, Err(PublishError::Closed(())));
        });
        bus.close();
        publishing.await;
        getting_ready.await;
        drop(held);
        let report = bus.shutdown_async(LONG).await;
        assert!(report.complete);
        assert_balanced(&report.bus);
    }
}
