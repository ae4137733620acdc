//! Flushes, shutdowns and runners as tasks, and how they end.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::Wait;
use eventcast::error::{FlushError, RecvError};
use futures::future::join_all;

use crate::support::{LONG, assert_balanced, bus, hold, timed};

use super::{Executor, collect, until};

on_every_executor! {
    /// A flush waits for handlers. If the flush reaches its deadline, it names the handlers that
    /// are late. Otherwise the flush succeeds.
    async fn flush_waits_for_handlers_up_to_its_deadline(executor) {
        let (clock, bus) = timed(BusOptions::default());
                let (go, waits) = mpsc::channel::<()>();
        let handle = bus.watch_builder().name("slow").spawn(move |_| waits.recv().unwrap()).unwrap();
        bus.publisher().publish(1).unwrap();
        let flushing = executor.spawn({
            let bus = bus.clone();
            async move {
                match bus.flush_async(Duration::from_secs(5)).await.unwrap_err() {
                    FlushError::Timeout { waiting_for, .. } => assert_eq!(waiting_for, ["slow"]),
                    error => panic!("{error}"),
                }
            }
        });
        // The only waiter on the clock is the bus's timer, which waits for the deadline.
        until(|| clock.waiters() == 1).await;
        // This event is published after the flush. Once the dispatcher has taken it, the dispatcher
        // has reached the flush.
        bus.publisher().publish(2).unwrap();
        until(|| bus.stats().accepted == 2).await;
        clock.advance(Duration::from_secs(5));
        flushing.await;
        go.send(()).unwrap();
        go.send(()).unwrap();
        bus.flush_async(LONG).await.unwrap();
        assert_eq!(handle.stats().delivered, 2);
        bus.shutdown_async(LONG).await;
        bus.flush_async(LONG).await.unwrap();
    }

    /// A shutdown with a deadline returns at the deadline and reports what it abandoned.
    async fn a_shutdown_returns_at_its_deadline(executor) {
        let (clock, bus) = timed(BusOptions::default().queue_capacity(1).overflow(Wait));
                let mut stuck = bus.watch().unwrap();
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        let ending = executor.spawn({
            let bus = bus.clone();
            async move {
                let report = bus.shutdown_async(Duration::from_secs(1)).await;
                assert!(!report.complete);
                assert_eq!(report.bus.watchers[0].dropped.abandoned, 2);
                assert_eq!(bus.shutdown(), report);
            }
        });
        until(|| clock.waiters() == 1).await;
        clock.advance(Duration::from_millis(950));
        ending.await;
        // The timer has nothing left to wait for.
        until(|| clock.waiters() == 0).await;
        assert_eq!(stuck.recv_async().await, Ok(Event(1)));
        assert_eq!(stuck.recv_async().await, Ok(Lagged(2)));
        assert_eq!(stuck.recv_async().await, Err(RecvError));
    }

    /// All shutdowns, called by tasks and by threads, wait for the same end and return the same
    /// report.
    async fn shutdowns_agree(executor) {
        let bus = bus::<u64>(64, 64);
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        bus.watch_builder()
            .overflow(Wait)
            .spawn(move |_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
        bus.publisher().publish_batch(0..1000).unwrap();
        let ending: Vec<_> = (0..4)
            .map(|_| {
                let (bus, seen) = (bus.clone(), seen.clone());
                executor.spawn(async move {
                    assert!(bus.shutdown_async(LONG).await.complete);
                    assert_eq!(seen.load(Ordering::Relaxed), 1000);
                })
            })
            .collect();
        let thread = thread::spawn({
            let bus = bus.clone();
            move || bus.shutdown()
        });
        join_all(ending).await;
        assert_eq!(thread.join().unwrap(), bus.shutdown_async(LONG).await);
    }

    /// If a runner is awaited, it handles all events, survives its own panics, lets other tasks
    /// run, and ends with the bus.
    async fn a_runner_is_a_task(executor) {
        let bus = bus::<u64>(1 << 12, 1 << 12);
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        let runner = bus
            .watch_builder()
            .name("runner")
            .runner(move |delivery| {
                count.fetch_add(1, Ordering::Relaxed);
                assert_ne!(delivery, Event(&1), "the one panic of this test");
            })
            .unwrap();
        let handle = runner.handle();
        bus.publisher().publish_batch(0..4000).unwrap();
        let running = executor.spawn(runner);
        // This check is meaningful only on a single-threaded executor: the runner has not finished
        // when it lets this task run.
        if matches!(executor, Executor::TokioCurrentThread) {
            let seen = seen.clone();
            let other = executor.spawn(async move {
                until(|| seen.load(Ordering::Relaxed) > 0).await;
                assert!(seen.load(Ordering::Relaxed) < 4000, "other tasks had no chance to run");
            });
            other.await;
        }
        bus.flush_async(LONG).await.unwrap();
        assert_eq!((handle.stats().delivered, handle.stats().panics), (4000, 1));
        let report = bus.shutdown_async(LONG).await;
        assert!(report.complete);
        running.await;
        assert!(handle.join(Duration::ZERO));
    }

    /// If a runner is stopped, it handles its queued events. If a runner is dropped before it has
    /// finished, its queued events count as lost.
    async fn runners_end(executor) {
        let bus = bus::<u64>(16, 16);
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        let runner = bus.watch_builder().runner(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        let runner = runner.unwrap();
        let dropped = bus.watch_builder().runner(|_| ()).unwrap();
        let (stopped, gone) = (runner.handle(), dropped.handle());
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        until(|| gone.stats().queued == 3 && stopped.stats().queued == 3).await;
        stopped.stop();
        executor.spawn(runner).await;
        assert_eq!(seen.load(Ordering::Relaxed), 3);
        drop(dropped);
        assert_eq!(gone.stats().dropped.stopped, 3);
        assert!(bus.shutdown_async(LONG).await.complete);
    }

    /// Threads and tasks publish and watch on one bus. All watchers see all events, in the same
    /// order.
    async fn one_bus_serves_threads_and_tasks(executor) {
        let bus = bus::<u64>(8, 8);
        let build = || bus.watch_builder().overflow(Wait);
        let (mut threads, mut tasks) = (Vec::new(), Vec::new());
        let orders = Arc::new(Mutex::new(Vec::new()));
        for _ in 0..3 {
            let (mut watcher, orders) = (build().watch().unwrap(), orders.clone());
            threads.push(thread::spawn(move || {
                let events: Vec<_> = watcher.events().collect();
                orders.lock().unwrap().push(events);
            }));
        }
        for _ in 0..3 {
            let (watcher, orders) = (build().watch().unwrap(), orders.clone());
            tasks.push(executor.spawn(async move {
                let (events, lost) = collect(watcher).await;
                assert_eq!(lost, 0);
                orders.lock().unwrap().push(events);
            }));
        }
        let publishing = thread::spawn({
            let publisher = bus.publisher();
            move || (0..1000).for_each(|n| publisher.publish(n).unwrap())
        });
        let publisher = bus.publisher();
        let also = executor.spawn(async move {
            for n in 1000..2000 {
                publisher.publish_async(n).await.unwrap();
            }
        });
        also.await;
        until(|| publishing.is_finished()).await;
        let report = bus.shutdown_async(LONG).await;
        assert!(report.complete);
        join_all(tasks).await;
        for thread in threads {
            thread.join().unwrap();
        }
        let orders = orders.lock().unwrap();
        assert_eq!(orders.len(), 6);
        assert_eq!(orders[0].len(), 2000);
        assert!(orders.iter().all(|order| *order == orders[0]));
        assert_balanced(&bus.stats());
    }

    /// Dropping a task's watchers, futures and handles never waits for the bus, even if the bus is
    /// stuck.
    async fn a_drop_never_waits(_executor) {
        let bus = bus::<u64>(1, 1);
        let held = hold(&bus);
        while bus.publisher().try_publish(9).is_ok() {}
        let (publisher, watcher) = (bus.publisher(), held.watcher);
        {
            let mut publishing = pin!(publisher.publish_async(1));
            let mut flushing = pin!(bus.flush_async(LONG));
            let mut ending = pin!(bus.shutdown_async(LONG));
            assert!(futures::poll!(publishing.as_mut()).is_pending());
            assert!(futures::poll!(flushing.as_mut()).is_pending());
            assert!(futures::poll!(ending.as_mut()).is_pending());
        }
        drop(publisher);
        drop(bus);
        drop(watcher);
    }
}
