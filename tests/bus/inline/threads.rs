//! A bus without a thread has none, works on an executor whose time stands still, and crosses
//! threads like any other bus.

use std::cell::RefCell;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::{Broadcaster, Publisher};
use futures::StreamExt;
use futures::executor::block_on;

use crate::support::{available, events, watched};

use super::support::{assert_settled, inline, waits};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the number of threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// A thousand buses, each with a watcher, an event and an end, in a process whose threads are
/// counted.
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri has no list of threads")]
#[test]
fn no_bus_starts_a_thread() {
    use futures::FutureExt;

    use crate::support::LONG;

    test_support::in_own_process!();
    let before = threads();
    let mut buses: Vec<Broadcaster<u64>> = (0..500).map(|_| Broadcaster::new_inline()).collect();
    buses.extend((0..500).map(|_| inline(10)));
    assert_eq!(threads(), before);
    let mut watchers: Vec<_> = buses.iter().map(|bus| waits(bus, 2).watch().unwrap()).collect();
    for (bus, watcher) in buses.iter().zip(&mut watchers) {
        bus.publisher().publish(1).unwrap();
        bus.publisher().publish_gap(2).unwrap();
        assert_eq!(bus.publisher().publish_async(3).now_or_never(), Some(Ok(())));
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
    }
    assert_eq!(threads(), before);
    for bus in &buses {
        assert!(bus.shutdown().complete);
    }
    for watcher in &mut watchers {
        assert_eq!([watcher.recv(), watcher.recv()], [Ok(Lagged(2)), Ok(Event(3))]);
        assert!(watcher.recv().is_err());
    }
    drop((buses, watchers));
    assert_eq!(threads(), before);
}

/// A handler has a separate thread, which ends with the bus.
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri has no list of threads")]
#[test]
fn a_handler_has_the_only_thread() {
    test_support::in_own_process!();
    let before = threads();
    let bus = inline::<u64>(10);
    let handle = bus.watch_builder().spawn(|_| ()).unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(threads(), before + 1);
    let report = bus.shutdown();
    assert!(report.complete && report.threads_ended);
    assert_eq!((threads(), handle.stats().delivered), (before, 1));
}

fn on_tokio_without_time<F: Future>(test: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap()
        .block_on(test)
}

/// With tokio's paused time, the clock jumps to the next timeout as soon as no task can run. A
/// receive of what has been published is always earlier.
#[test]
fn a_timeout_does_not_fire_for_a_published_event() {
    on_tokio_without_time(async {
        let bus = inline(100);
        let mut watcher = bus.watch().unwrap();
        for event in 0..500 {
            bus.publisher().publish(event).unwrap();
            let received = tokio::time::timeout(HOUR, watcher.recv_async()).await;
            assert_eq!(received.expect("the timeout has fired"), Ok(Event(event)));
        }
        let started = tokio::time::Instant::now();
        let nothing = tokio::time::timeout(HOUR, watcher.recv_async()).await;
        assert!(nothing.is_err(), "nothing was published");
        assert_eq!(started.elapsed(), HOUR);
    });
}

/// The same for a reader that waits while another task of its runtime publishes, and for a
/// publisher that waits while another task reads.
#[test]
fn a_timeout_does_not_fire_between_tasks_of_one_runtime() {
    on_tokio_without_time(async {
        let bus = inline::<u64>(1);
        let mut watcher = waits(&bus, 1).watch().unwrap();
        let publisher = bus.publisher();
        let publishing = tokio::spawn(async move {
            for event in 0..500 {
                let published = tokio::time::timeout(HOUR, publisher.publish_async(event)).await;
                published.expect("the timeout of the publisher has fired").unwrap();
            }
        });
        for event in 0..500 {
            let received = tokio::time::timeout(HOUR, watcher.next()).await;
            assert_eq!(received.expect("the timeout of the reader has fired"), Some(Event(event)));
            tokio::task::yield_now().await;
        }
        publishing.await.unwrap();
        let flushed = tokio::time::timeout(HOUR, bus.flush_async(HOUR)).await;
        assert_eq!(flushed.expect("the timeout of the flush has fired"), Ok(()));
        let report = tokio::time::timeout(HOUR, bus.shutdown_async(HOUR)).await;
        assert!(report.expect("the timeout of the shutdown has fired").complete);
    });
}

/// A blocking `watch()` and `flush()` in a task of a current-thread runtime return, although a
/// watcher that the same thread reads is full.
#[test]
fn blocking_calls_return_in_a_task() {
    watched(|| {
        on_tokio_without_time(async {
            let bus = inline(1);
            let mut full = waits(&bus, 1).watch().unwrap();
            bus.publisher().publish(1).unwrap();
            let _other = bus.watch().unwrap();
            assert_eq!(bus.flush(HOUR), Ok(()));
            assert_eq!(full.recv_async().await, Ok(Event(1)));
            bus.publisher().publish(2).unwrap();
            assert!(bus.shutdown().complete);
            assert_eq!(full.next().await, Some(Event(2)));
            assert_eq!(full.next().await, None);
        });
    });
}

/// A stream yields what is published on another thread, and then the end.
#[test]
fn a_stream_gives_everything_and_ends() {
    const EVENTS: u64 = if cfg!(miri) { 50 } else { 5_000 };
    watched(|| {
        let bus = inline(100);
        let watcher = waits(&bus, 3).watch().unwrap();
        let publisher = bus.publisher();
        let publishing = std::thread::spawn(move || {
            (0..EVENTS).for_each(|event| publisher.publish(event).unwrap());
            drop(bus);
        });
        let seen: Vec<_> = block_on(watcher.collect());
        assert!(seen.into_iter().eq((0..EVENTS).map(Event)));
        publishing.join().unwrap();
    });
}

/// Two tasks on two threads wake each other through queues of one event. A lost wake-up would hang
/// the test.
#[test]
fn ping_pong_loses_no_wake_up() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 2_000 };
    watched(|| {
        let (there, back) = (inline(1), inline(1));
        let (mut pings, mut pongs) = (waits(&there, 1).watch().unwrap(), waits(&back, 1).watch().unwrap());
        let answer = back.publisher();
        let answering = std::thread::spawn(move || {
            block_on(async {
                while let Some(Event(event)) = pings.next().await {
                    answer.publish_async(event + 1).await.unwrap();
                }
            });
        });
        for round in 0..ROUNDS {
            there.publisher().publish(round).unwrap();
            assert_eq!(pongs.recv(), Ok(Event(round + 1)));
        }
        there.close();
        answering.join().unwrap();
    });
}

/// The handles cross threads, and so do their futures.
#[test]
fn handles_cross_threads() {
    fn crosses<T: Send + Sync>() {}
    fn moves<T: Send>(_: &T) {}
    crosses::<Broadcaster<u64>>();
    crosses::<Publisher<u64>>();
    let bus: Broadcaster<u64> = Broadcaster::new_inline();
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    moves(&runner);
    moves(&watcher);
    moves(&publisher.publish_async(1));
    moves(&publisher.ready());
    moves(&watcher.recv_async());
    moves(&bus.flush_async(HOUR));
    moves(&bus.shutdown_async(HOUR));
}

thread_local! {
    /// Dropped when the thread ends.
    static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
}

/// Publishes when it is dropped.
struct Last(Publisher<u64>, u64);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.publish(self.1);
    }
}

/// Destructors of thread-local values may publish while their threads end, several at the same
/// time.
#[test]
fn a_thread_may_publish_while_it_ends() {
    watched(|| {
        let bus = inline(100);
        let publisher = bus.publisher();
        let nested = move |event: &u64| {
            if *event < 10 {
                publisher.publish(event + 10).unwrap();
            }
            true
        };
        let mut watcher = bus.watch_builder().filter(nested).watch().unwrap();
        let threads: Vec<_> = (0..8)
            .map(|event| {
                let last = Last(bus.publisher(), event);
                std::thread::spawn(move || LAST.with(|slot| drop(slot.replace(Some(last)))))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let seen = events(&available(&mut watcher));
        for event in 0..8 {
            let place = |event| seen.iter().position(|seen| *seen == event);
            let (outer, nested) = (place(event), place(event + 10));
            assert!(outer.is_some() && outer < nested, "{event} in {seen:?}");
        }
        assert_settled(&bus.stats(), 16);
    });
}

/// A watcher is ready in crossbeam's `Select` as soon as the publish has returned.
#[cfg(feature = "select")]
#[test]
fn a_watcher_is_ready_to_be_selected() {
    use crossbeam_channel::Select;

    let is_ready = |watcher: &eventcast::Watcher<u64>| {
        let mut select = Select::new();
        watcher.add_to(&mut select);
        select.try_ready().is_ok()
    };
    let bus = inline(10);
    let mut watcher = bus.watch().unwrap();
    for event in 0..100 {
        assert!(!is_ready(&watcher));
        bus.publisher().publish(event).unwrap();
        assert!(is_ready(&watcher));
        assert_eq!(watcher.try_recv(), Ok(Event(event)));
    }
    bus.publisher().publish_gap(1).unwrap();
    assert!(is_ready(&watcher));
    assert_eq!(watcher.try_recv(), Ok(Lagged(1)));
    bus.close();
    assert!(is_ready(&watcher));
}
