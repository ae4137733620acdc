//! Checks an inline bus on a single thread, as a program for WebAssembly. `.ci/wasm` builds the
//! program for `wasm32-unknown-unknown` and runs it in Node.js. The program makes the same checks
//! on every other target.
//!
//! On `wasm32-unknown-unknown`, the standard library does not support threads, clocks or output.
//! The host provides one function, `put`, which prints a byte.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::bus::{EndReason, Start};
use eventcast::error::{FlushError, PublishError, RecvTimeoutError, TryRecvError, WatchError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Clock, Delivery, OverflowPolicy, Watcher};

/// Whether the target has threads and a clock. Without these, every timeout expires immediately.
const HAS_SYSTEM: bool = cfg!(not(all(target_family = "wasm", target_os = "unknown")));
/// A timeout that expires quickly on targets with a clock.
const SHORT: Duration = Duration::from_millis(1);
/// A timeout that is never reached on targets with a clock.
const LONG: Duration = Duration::from_secs(3600);

fn main() {
    print::panics();
    let checks: &[(&str, fn())] = &[
        ("each policy does at a full queue what it does elsewhere", policies),
        ("batches, filters, the history and positions", batches),
        ("a gap is delivered at its place", gaps),
        ("stop, drop, close, flush and shutdown", ends),
        ("calls from inside a call", nested),
        ("tasks that are polled by hand", tasks),
        ("handlers that are polled by hand", handlers),
        ("the statistics add up", statistics),
        ("a thread is refused with an error", threads),
        ("timeouts", timeouts),
        ("a clock that the program moves", moved_clock),
    ];
    for (what, check) in checks {
        check();
        print::line(what);
    }
    print::line(&format!("passed {} checks", checks.len()));
}

#[test]
fn every_check_passes_on_this_target() {
    main();
}

fn bus(queue_capacity: usize) -> Broadcaster<u64> {
    Broadcaster::with_options(BusOptions::default().inline(true).queue_capacity(queue_capacity)).unwrap()
}

fn watcher(bus: &Broadcaster<u64>, policy: OverflowPolicy) -> Watcher<u64> {
    bus.watch_builder().overflow(policy).watch().unwrap()
}

/// Receives all queued events.
fn received(watcher: &mut Watcher<u64>) -> Vec<Delivery<u64>> {
    std::iter::from_fn(|| watcher.try_recv().ok()).collect()
}

fn policies() {
    let lossy = bus(2);
    let publisher = lossy.publisher();
    let mut newest = watcher(&lossy, DropOldest);
    let mut oldest = watcher(&lossy, DropIncoming);
    let mut evicted = watcher(&lossy, Evict);
    for event in 1..=4 {
        publisher.publish(event).unwrap();
    }
    assert_eq!(received(&mut newest), [Lagged(2), Event(3), Event(4)]);
    assert_eq!(received(&mut oldest), [Event(1), Event(2), Lagged(2)]);
    assert_eq!(received(&mut evicted), [Event(1), Event(2)]);
    assert_eq!(evicted.end_reason(), Some(EndReason::Evicted));

    let lossless = bus(2);
    let publisher = lossless.publisher();
    let mut waited_for = watcher(&lossless, Wait);
    publisher.publish_batch([1, 2]).unwrap();
    assert_eq!(publisher.try_publish(3), Err(PublishError::Full(3)));
    assert_eq!(waited_for.try_recv(), Ok(Event(1)));
    publisher.publish(3).unwrap();
    assert_eq!(received(&mut waited_for), [Event(2), Event(3)]);
}

fn batches() {
    let options = BusOptions::default().inline(true).max_batch(4).history(3);
    let bus = Broadcaster::<u64>::with_options(options).unwrap();
    let mut all = bus.watch().unwrap();
    let mut even = bus.watch_builder().filter(|event| event % 2 == 0).watch().unwrap();
    bus.publisher().publish_batch(1..=10).unwrap();
    let mut pieces = Vec::new();
    while let Ok(batch) = all.try_recv_batch() {
        pieces.push(batch.iter().copied().collect::<Vec<_>>());
    }
    assert_eq!(pieces, [vec![1, 2, 3, 4], vec![5, 6, 7, 8], vec![9, 10]]);
    assert_eq!(received(&mut even), [2, 4, 6, 8, 10].map(Event));
    let mut late = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    assert_eq!(received(&mut late).last(), Some(&Event(10)));
}

fn gaps() {
    let bus = bus(10);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.publisher().publish_gap(7).unwrap();
    bus.publisher().publish(2).unwrap();
    assert_eq!(received(&mut watcher), [Event(1), Lagged(7), Event(2)]);
}

fn ends() {
    let bus = bus(10);
    let publisher = bus.publisher();
    let (mut stopped, dropped, mut kept) = (bus.watch().unwrap(), bus.watch().unwrap(), bus.watch().unwrap());
    publisher.publish(1).unwrap();
    stopped.stop();
    drop(dropped);
    assert_eq!(bus.watcher_count(), 2, "the stopped one is still there");
    assert_eq!(received(&mut stopped), [Event(1)]);
    assert_eq!(stopped.end_reason(), Some(EndReason::Stopped));
    assert_eq!(bus.flush(SHORT), Ok(()));
    bus.close();
    assert_eq!(publisher.publish(2), Err(PublishError::Closed(2)));
    assert!(matches!(bus.watch(), Err(WatchError::Closed)));
    assert_eq!(received(&mut kept), [Event(1)]);
    assert_eq!(kept.try_recv(), Err(TryRecvError::Ended));
    assert_eq!(kept.recv(), Err(eventcast::error::RecvError), "no wait at the end");
    let report = bus.shutdown();
    assert!(report.complete && report.threads_ended, "{report}");
    assert_eq!(report.bus.accepted, 1);

    let timed = self::bus(10);
    assert!(timed.shutdown_timeout(SHORT).complete);
    let last = self::bus(10);
    let mut orphan = last.watch().unwrap();
    drop(last);
    assert_eq!(orphan.try_recv(), Err(TryRecvError::Ended));
}

fn nested() {
    let bus = bus(10);
    let publisher = bus.publisher();
    let twice = move |event: &u64| {
        if *event < 3 {
            publisher.publish(event + 1).unwrap();
        }
        true
    };
    let mut watcher = bus.watch_builder().filter(twice).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(received(&mut watcher), [1, 2, 3].map(Event));
}

/// A waker that counts its calls.
#[derive(Default)]
struct Counter(AtomicUsize);

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counter {
    fn poll<F: Future>(self: &Arc<Self>, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(self.clone())))
    }

    fn take(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

fn tasks() {
    let bus = bus(1);
    let publisher = bus.publisher();
    let mut watcher = watcher(&bus, Wait);
    let (reader, writer) = (Arc::new(Counter::default()), Arc::new(Counter::default()));
    {
        let mut receiving = pin!(watcher.recv_async());
        assert!(reader.poll(receiving.as_mut()).is_pending());
        publisher.publish(1).unwrap();
        assert_eq!(reader.take(), 1, "the publish wakes the reader");
        assert_eq!(reader.poll(receiving), Poll::Ready(Ok(Event(1))));
    }
    publisher.publish(2).unwrap();
    {
        let mut publishing = pin!(publisher.publish_async(3));
        assert!(writer.poll(publishing.as_mut()).is_pending());
        assert_eq!(watcher.try_recv(), Ok(Event(2)));
        assert_eq!(writer.take(), 1, "the receive wakes the publisher");
        assert_eq!(writer.poll(publishing), Poll::Ready(Ok(())));
    }
    assert_eq!(received(&mut watcher), [Event(3)]);
    assert_eq!(reader.poll(pin!(bus.flush_async(LONG))), Poll::Ready(Ok(())));
    let report = reader.poll(pin!(bus.shutdown_async(LONG)));
    assert!(matches!(report, Poll::Ready(report) if report.complete));
}

fn handlers() {
    let bus = bus(10);
    let handled = Arc::new(Mutex::new(Vec::new()));
    let list = handled.clone();
    let handler = move |delivery: Delivery<&u64>| list.lock().unwrap().extend(delivery.event().copied());
    let mut runner = pin!(bus.watch_builder().runner(handler).unwrap().into_future());
    let task = Arc::new(Counter::default());
    assert!(task.poll(runner.as_mut()).is_pending());
    bus.publisher().publish_batch([1, 2]).unwrap();
    assert!(matches!(bus.flush(Duration::ZERO), Err(FlushError::Timeout { .. })));
    assert_eq!(task.take(), 1);
    assert!(task.poll(runner.as_mut()).is_pending());
    assert_eq!(bus.flush(Duration::ZERO), Ok(()));
    bus.close();
    assert!(task.poll(runner).is_ready());
    assert!(bus.shutdown().complete);
    assert_eq!(*handled.lock().unwrap(), [1, 2]);
}

fn statistics() {
    let bus = bus(2);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(1..=5).unwrap();
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    let (bus, watcher) = (bus.stats(), watcher.stats());
    assert_eq!((bus.accepted, bus.pending), (5, 0));
    assert_eq!((watcher.offered, watcher.delivered, watcher.queued, watcher.dropped.total()), (5, 1, 1, 3));
}

/// Only the bus, its handlers and its timer start threads.
fn threads() {
    let started = Broadcaster::<u64>::new();
    assert_eq!(started.is_ok(), HAS_SYSTEM, "{started:?}");
    let bus = bus(10);
    let spawned = bus.watch_builder().spawn(|_| ());
    assert_eq!(spawned.is_ok(), HAS_SYSTEM, "{spawned:?}");
    bus.publisher().publish(1).unwrap();
    assert!(bus.shutdown_timeout(LONG).complete);
}

fn timeouts() {
    let bus = bus(1);
    let publisher = bus.publisher();
    let mut full = watcher(&bus, Wait);
    assert_eq!(full.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
    assert!(full.recv_batch_timeout(SHORT).is_err());
    publisher.publish_timeout(1, SHORT).unwrap();
    assert_eq!(publisher.publish_timeout(2, SHORT), Err(PublishError::Full(2)));
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    assert_eq!(full.recv_timeout(LONG), Ok(Event(1)));
    publisher.publish(3).unwrap();
    assert!(matches!(bus.flush(SHORT), Err(FlushError::Timeout { .. })), "the handler has not run");
    assert!(!runner.handle().join(SHORT));
    assert!(!bus.shutdown_timeout(SHORT).complete);
    assert_eq!(Clock::system().now() > SystemTime::UNIX_EPOCH, HAS_SYSTEM);

    let bus = self::bus(1);
    let limited = watcher(&bus, WaitFor(SHORT));
    bus.publisher().publish_batch([1, 2]).unwrap();
    bus.publisher().publish(3).unwrap();
    assert_eq!(limited.stats().dropped.timed_out, 2);
    if !HAS_SYSTEM {
        let task = Arc::new(Counter::default());
        let _runner = bus.watch_builder().runner(|_| ()).unwrap();
        bus.publisher().publish(4).unwrap();
        // The timer does not have a thread here, and the poll does not wait either.
        let flushed = task.poll(pin!(bus.flush_async(LONG)));
        assert!(matches!(flushed, Poll::Ready(Err(FlushError::Timeout { .. }))), "{flushed:?}");
        assert_eq!(limited.stats().dropped.timed_out, 3);
        let bus = self::bus(1);
        let limited = watcher(&bus, WaitFor(LONG));
        bus.publisher().publish(1).unwrap();
        assert_eq!(task.poll(pin!(bus.publisher().publish_async(2))), Poll::Ready(Ok(())));
        assert_eq!(limited.stats().dropped.timed_out, 1);
    }
}

/// A `FakeClock` measures the limit of `WaitFor`, regardless of where the clock is advanced from.
fn moved_clock() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + LONG);
    let options = BusOptions::default().inline(true).queue_capacity(1);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    let mut limited = watcher(&bus, WaitFor(LONG));
    bus.publisher().publish(1).unwrap();
    assert_eq!(bus.publisher().try_publish(2), Err(PublishError::Full(2)));
    clock.advance(LONG);
    bus.publisher().try_publish(3).unwrap();
    assert_eq!(received(&mut limited), [Event(1), Lagged(1)]);
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod print {
    #![allow(unsafe_code, reason = "the host's function is declared here")]

    #[link(wasm_import_module = "host")]
    unsafe extern "C" {
        /// Prints a byte.
        safe fn put(byte: u32);
    }

    pub(super) fn line(text: &str) {
        text.bytes().chain([b'\n']).for_each(|byte| put(u32::from(byte)));
    }

    /// Prints the message of a panic, which then terminates the program.
    pub(super) fn panics() {
        std::panic::set_hook(Box::new(|panic| line(&panic.to_string())));
    }
}

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod print {
    pub(super) fn line(text: &str) {
        println!("{text}");
    }

    pub(super) fn panics() {}
}
