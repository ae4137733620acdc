//! Tasks and threads on one bus, more of them than loom can take.
#![cfg(eventcast_shuttle)]

use std::sync::Arc;
use std::time::Duration;

use eventcast::{Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{Ident, schedules, small_bus};
use shuttle::future::block_on;
use shuttle::thread;

async fn read(mut watcher: Watcher<Ident>) -> (Vec<Ident>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    while let Ok(delivery) = watcher.recv_async().await {
        match delivery {
            Delivery::Event(event) => events.push(event),
            Delivery::Lagged(count) => lost += count,
        }
    }
    (events, lost)
}

/// Two tasks and a thread publish into one slot, a task of each policy reads, one flushes, one shuts down.
#[test]
fn tasks_and_threads_on_one_bus() {
    schedules(400, || {
        let bus = Arc::new(small_bus(1, 2, 2));
        let policies = [OverflowPolicy::Wait, OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest];
        let reading: Vec<_> = policies
            .into_iter()
            .map(|policy| {
                let bus = bus.clone();
                let watcher = block_on(bus.watch_builder().overflow(policy).watch_async()).expect("open");
                thread::spawn(move || block_on(read(watcher)))
            })
            .collect();
        let publishing: Vec<_> = (0..3)
            .map(|publisher| {
                let bus = bus.clone();
                thread::spawn(move || {
                    let events = (0..4).map(|number| Ident { publisher, number });
                    for event in events {
                        if publisher == 0 {
                            bus.publisher().publish(event).expect("open");
                        } else {
                            block_on(bus.publisher().publish_async(event)).expect("open");
                        }
                    }
                })
            })
            .collect();
        let flushing = bus.clone();
        let flushing =
            thread::spawn(move || assert_eq!(block_on(flushing.flush_async(Duration::MAX)), Ok(())));
        publishing.into_iter().for_each(|thread| thread.join().expect("no panic"));
        flushing.join().expect("no panic");
        assert!(block_on(bus.shutdown_async(Duration::MAX)).complete);
        let seen: Vec<_> = reading.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        assert_eq!((seen[0].0.len(), seen[0].1), (12, 0));
        for (events, lost) in &seen {
            assert_eq!(events.len() as u64 + lost, 12);
            let mut order = seen[0].0.iter();
            assert!(
                events.iter().all(|event| order.any(|other| other == event)),
                "{events:?} of {:?}",
                seen[0].0
            );
        }
    });
}

/// A task waits for room and is given up when it has been chosen already: its turn goes to the one behind it.
#[test]
fn a_task_that_gives_up_hands_its_turn_on() {
    schedules(400, || {
        let bus = Arc::new(small_bus(1, 1, 1));
        let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().expect("open");
        let publisher = |number| {
            let bus = bus.clone();
            thread::spawn(move || {
                block_on(bus.publisher().publish_async(Ident { publisher: 0, number })).is_ok()
            })
        };
        let waiting: Vec<_> = (0..4).map(publisher).collect();
        let giving_up = bus.clone();
        let giving_up = thread::spawn(move || {
            let mut ready = Box::pin(async move { giving_up.publisher().ready().await });
            // Polled once, which puts it into the list, and then dropped.
            block_on(async {
                std::future::poll_fn(|cx| {
                    let _ = ready.as_mut().poll(cx);
                    std::task::Poll::Ready(())
                })
                .await;
            });
            drop(ready);
        });
        for _ in 0..4 {
            assert!(watcher.recv().expect("open").event().is_some());
        }
        assert!(waiting.into_iter().all(|thread| thread.join().expect("no panic")));
        giving_up.join().expect("no panic");
    });
}
