//! The async side: the same suite on plain threads, smol, and both flavours of tokio.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::{FlushError, PublishError, RecvError, Stopped};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};
use futures::future::{join, join_all};
use futures::{Stream, StreamExt};

use crate::support::{LONG, assert_balanced, bus, hold, watched};

/// An executor that runs a test's tasks.
#[derive(Clone, Copy, Debug)]
enum Executor {
    /// A new thread for each task, with `futures::executor::block_on`.
    Threads,
    Smol,
    TokioCurrentThread,
    TokioMultiThread,
}

type Joined = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Executor {
    fn run<F: Future>(self, main: F) -> F::Output {
        match self {
            Self::Threads => futures::executor::block_on(main),
            Self::Smol => smol::block_on(main),
            Self::TokioCurrentThread => {
                tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(main)
            }
            Self::TokioMultiThread => {
                let builder = &mut tokio::runtime::Builder::new_multi_thread();
                builder.worker_threads(2).build().unwrap().block_on(main)
            }
        }
    }

    /// Starts a task. The returned future waits for the task's end, and panics if the task
    /// panicked.
    fn spawn(self, task: impl Future<Output = ()> + Send + 'static) -> Joined {
        match self {
            Self::Threads => {
                let (tx, rx) = futures::channel::oneshot::channel();
                std::thread::spawn(move || {
                    futures::executor::block_on(task);
                    let _ = tx.send(());
                });
                Box::pin(async move { rx.await.expect("the task panicked") })
            }
            Self::Smol => Box::pin(smol::spawn(task)),
            Self::TokioCurrentThread | Self::TokioMultiThread => {
                let task = tokio::spawn(task);
                Box::pin(async move { task.await.unwrap() })
            }
        }
    }
}

/// Turns each function into a module with one test for each executor.
macro_rules! on_every_executor {
    ($($(#[doc = $doc:literal])* async fn $name:ident($executor:ident) $body:block)*) => {$(
        $(#[doc = $doc])*
        mod $name {
            use super::*;

            async fn run($executor: Executor) {
                let _ = $executor;
                $body
            }

            #[test]
            fn threads() {
                watched(|| Executor::Threads.run(run(Executor::Threads)));
            }

            #[test]
            fn smol() {
                watched(|| Executor::Smol.run(run(Executor::Smol)));
            }

            #[test]
            fn tokio_current_thread() {
                watched(|| Executor::TokioCurrentThread.run(run(Executor::TokioCurrentThread)));
            }

            #[test]
            fn tokio_multi_thread() {
                watched(|| Executor::TokioMultiThread.run(run(Executor::TokioMultiThread)));
            }
        }
    )*};
}

/// Lets every other task run. On plain threads: lets the other threads run.
async fn rest() {
    let mut rested = false;
    std::future::poll_fn(|cx| {
        if std::mem::replace(&mut rested, true) {
            return std::task::Poll::Ready(());
        }
        std::thread::yield_now();
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}

async fn until(mut condition: impl FnMut() -> bool) {
    while !condition() {
        rest().await;
    }
}

async fn collect(watcher: impl Stream<Item = Delivery<u64>>) -> (Vec<u64>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    let mut watcher = std::pin::pin!(watcher);
    while let Some(delivery) = watcher.next().await {
        match delivery {
            Event(event) => events.push(event),
            Lagged(count) => lost += count,
        }
    }
    (events, lost)
}

/// Returns a fake clock and a bus that runs on it.
fn timed(incoming_len: usize, queue_len: usize, policy: OverflowPolicy) -> (FakeClock, Broadcaster<u64>) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options = BusOptions::default().incoming_len(incoming_len).queue_len(queue_len).overflow(policy);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    (clock, bus)
}

on_every_executor! {
    /// A stream yields every event in order, and then the end, again and again.
    async fn a_stream_gives_everything_and_ends(executor) {
        let bus = Broadcaster::<u64>::new().unwrap();
        let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch_async().await.unwrap();
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

    /// A loss is an item at its place. It wakes a task that waits, even if no event follows.
    async fn a_gap_is_an_item(executor) {
        let bus = bus::<u64>(16, 2);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch(vec![0, 1, 2, 3]).unwrap();
        bus.flush_async(LONG).await.unwrap();
        assert_eq!(watcher.recv_async().await, Ok(Event(0)));
        assert_eq!(watcher.recv_async().await, Ok(Event(1)));
        assert_eq!(watcher.recv_async().await, Ok(Lagged(2)));
        bus.publisher().publish_batch(vec![4, 5]).unwrap();
        assert_eq!(watcher.next().await, Some(Event(4)));
        assert_eq!(watcher.next().await, Some(Event(5)));
        let stop = watcher.stop_handle();
        let waiting = executor.spawn(async move { assert_eq!(watcher.next().await, None) });
        stop.stop();
        waiting.await;
    }

    /// Two tasks wake each other thousands of times through queues of one. A lost wake-up would
    /// hang the test.
    async fn ping_pong(executor) {
        let there = Arc::new(bus::<u64>(1, 1));
        let back = bus::<u64>(1, 1);
        let mut pings = there.watch_async_with_wait().await;
        let mut pongs = back.watch_async_with_wait().await;
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

    /// Publishers that find no room wait as tasks, and each event is delivered once.
    async fn publishers_wait_for_room(executor) {
        let bus = bus::<u64>(1, 1);
        let watcher = bus.watch_async_with_wait().await;
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

    /// `ready` and `try_publish` together publish everything, beside other publishers that wait
    /// with their events.
    async fn ready_loses_nothing(executor) {
        let bus = bus::<u64>(1, 1);
        let watcher = bus.watch_async_with_wait().await;
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

    /// The end of the bus reaches every task that waits for something else.
    async fn closing_wakes_all_who_wait(executor) {
        let bus = Arc::new(bus::<u64>(1, 1));
        let held = hold(&bus);
        while bus.publisher().try_publish(9).is_ok() {}
        let (publisher, other) = (bus.publisher(), bus.publisher());
        let publishing = executor.spawn(async move {
            assert_eq!(publisher.publish_async(7).await, Err(PublishError::Stopped(7)));
        });
        let getting_ready = executor.spawn(async move { assert_eq!(other.ready().await, Err(Stopped)) });
        let registering = executor.spawn({
            let bus = bus.clone();
            async move { assert!(bus.watch_builder().watch_async().await.is_err()) }
        });
        bus.close();
        publishing.await;
        getting_ready.await;
        registering.await;
        drop(held);
        let report = bus.shutdown_async(LONG).await;
        assert!(report.complete);
        assert_balanced(&report.bus);
    }

    /// A registration that waits for room takes its place in the order when it gets the room.
    async fn watching_waits_for_room(executor) {
        let bus = Arc::new(bus::<u64>(1, 4));
        let held = hold(&bus);
        while bus.publisher().try_publish(9).is_ok() {}
        let waiting = Arc::new(AtomicBool::new(false));
        let registering = executor.spawn({
            let (bus, waiting) = (bus.clone(), waiting.clone());
            async move {
                let mut watching = std::pin::pin!(bus.watch_builder().queue_len(4).watch_async());
                assert!(futures::poll!(watching.as_mut()).is_pending());
                waiting.store(true, Ordering::Release);
                let mut watcher = watching.await.unwrap();
                bus.publisher().publish_async(42).await.unwrap();
                assert_eq!(watcher.next().await, Some(Event(42)));
            }
        });
        until(|| waiting.load(Ordering::Acquire)).await;
        drop(held);
        registering.await;
    }

    /// A flush waits for handlers, names those that are late at the deadline, and otherwise
    /// succeeds.
    async fn flush_waits_for_handlers_and_gives_up_in_time(executor) {
        let (clock, bus) = timed(16, 16, OverflowPolicy::DropIncoming);
        let bus = Arc::new(bus);
        let (go, waits) = std::sync::mpsc::channel::<()>();
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
        // The bus's timer is the one waiter: it waits for the deadline.
        until(|| clock.waiters() == 1).await;
        // This event is behind the flush. When the dispatcher has taken it, the dispatcher has come
        // to the flush.
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

    /// A shutdown by deadline returns at the deadline and reports what it abandoned.
    async fn shutdown_gives_up_in_time(executor) {
        let (clock, bus) = timed(16, 1, OverflowPolicy::Wait);
        let bus = Arc::new(bus);
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

    /// All shutdowns, by tasks and by threads, wait for the same end and get the same report.
    async fn shutdowns_agree(executor) {
        let bus = Arc::new(bus::<u64>(64, 64));
        let seen = Arc::new(AtomicU64::new(0));
        let count = seen.clone();
        bus.watch_builder()
            .overflow(OverflowPolicy::Wait)
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
        let thread = std::thread::spawn({
            let bus = bus.clone();
            move || bus.shutdown()
        });
        join_all(ending).await;
        assert_eq!(thread.join().unwrap(), bus.shutdown_async(LONG).await);
    }

    /// A runner that is awaited handles everything, survives its panics, lets other tasks run, and
    /// ends with the bus.
    async fn a_runner_is_a_task(executor) {
        let bus = Arc::new(bus::<u64>(1 << 12, 1 << 12));
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
        // This shows something only on an executor of one thread: the runner is not finished when
        // it lets this task run.
        if matches!(executor, Executor::TokioCurrentThread) {
            let seen = seen.clone();
            let other = executor.spawn(async move {
                until(|| seen.load(Ordering::Relaxed) > 0).await;
                assert!(seen.load(Ordering::Relaxed) < 4000, "other tasks had no turn");
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

    /// A runner that is stopped handles what is queued. A runner that is dropped unfinished counts
    /// its queue as lost.
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

    /// Threads and tasks publish and watch on one bus: all see all events, in one order.
    async fn one_bus_serves_threads_and_tasks(executor) {
        let bus = bus::<u64>(8, 8);
        let build = || bus.watch_builder().overflow(OverflowPolicy::Wait);
        let (mut threads, mut tasks) = (Vec::new(), Vec::new());
        let orders = Arc::new(std::sync::Mutex::new(Vec::new()));
        for _ in 0..3 {
            let (mut watcher, orders) = (build().watch().unwrap(), orders.clone());
            threads.push(std::thread::spawn(move || {
                let events: Vec<_> = watcher.events().collect();
                orders.lock().unwrap().push(events);
            }));
        }
        for _ in 0..3 {
            let (watcher, orders) = (build().watch_async().await.unwrap(), orders.clone());
            tasks.push(executor.spawn(async move {
                let (events, lost) = collect(watcher).await;
                assert_eq!(lost, 0);
                orders.lock().unwrap().push(events);
            }));
        }
        let publishing = std::thread::spawn({
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

    /// Nothing that a task drops waits for the bus, however stuck the bus is.
    async fn dropping_never_waits(_executor) {
        let bus = bus::<u64>(1, 1);
        let held = hold(&bus);
        while bus.publisher().try_publish(9).is_ok() {}
        let (publisher, watcher) = (bus.publisher(), held.watcher);
        {
            let mut publishing = std::pin::pin!(publisher.publish_async(1));
            let mut registering = std::pin::pin!(bus.watch_builder().watch_async());
            let mut flushing = std::pin::pin!(bus.flush_async(LONG));
            let mut ending = std::pin::pin!(bus.shutdown_async(LONG));
            assert!(futures::poll!(publishing.as_mut()).is_pending());
            assert!(futures::poll!(registering.as_mut()).is_pending());
            assert!(futures::poll!(flushing.as_mut()).is_pending());
            assert!(futures::poll!(ending.as_mut()).is_pending());
        }
        drop(publisher);
        drop(bus);
        drop(watcher);
    }
}

/// Registers a watcher that loses nothing.
trait WatchWithWait {
    fn watch_async_with_wait(&self) -> impl Future<Output = Watcher<u64>>;
}

impl WatchWithWait for Broadcaster<u64> {
    async fn watch_async_with_wait(&self) -> Watcher<u64> {
        self.watch_builder().overflow(OverflowPolicy::Wait).watch_async().await.unwrap()
    }
}
