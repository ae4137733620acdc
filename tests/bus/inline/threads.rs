//! An inline bus has no thread, and works on an executor whose clock is paused.

use std::time::Duration;

use eventcast::Broadcaster;
use eventcast::Delivery::{Event, Lagged};
use futures::{FutureExt, StreamExt};

use crate::support::{LONG, inline, waits};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the number of threads of this process.
#[cfg(target_os = "linux")]
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Creates a thousand buses. Each bus is watched, published to and ended, and the test counts the
/// threads of the process.
#[cfg(target_os = "linux")]
#[cfg_attr(miri, ignore = "Miri has no list of threads")]
#[test]
fn no_bus_starts_a_thread() {
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

/// A handler has its own thread, which ends with the bus.
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

/// If tokio's time is paused, the clock jumps to the next timeout as soon as no task can run.
/// Receiving a published event always completes before that.
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

/// Timeouts do not fire for a reader that waits while another task of its runtime publishes, or for
/// a publisher that waits while another task reads.
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
