//! G9: user code that panics stops neither the dispatcher nor another watcher. D27: user code that
//! calls back never waits for itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::FlushError;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{LONG, assert_balanced, available, bus, drain, events, hold, watched};

#[test]
fn a_handler_that_panics_goes_on_with_the_next_event() {
    let bus = bus(100, 100);
    let mut other = bus.watch().unwrap();
    let (tx, rx) = mpsc::channel();
    let handle = bus
        .watch_builder()
        .spawn(move |delivery: Delivery<&u64>| {
            let n = *delivery.event().unwrap();
            assert!(n % 2 == 0, "odd");
            tx.send(n).unwrap();
        })
        .unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4]).unwrap();
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!(rx.into_iter().collect::<Vec<_>>(), [2, 4]);
    assert_eq!((handle.stats().panics, handle.stats().delivered), (2, 4));
    assert_eq!(events(&drain(&mut other)), [1, 2, 3, 4]);
}

#[test]
fn a_filter_that_panics_ends_its_own_watcher() {
    let bus = bus(100, 100);
    let mut broken = bus
        .watch_builder()
        .filter(|n: &u64| {
            assert!(*n < 3, "three");
            true
        })
        .watch()
        .unwrap();
    let mut other = bus.watch().unwrap();
    let publisher = bus.publisher();
    for n in 1..=4 {
        publisher.publish(n).unwrap();
        bus.flush(LONG).unwrap();
    }
    assert_eq!(drain(&mut broken), [Event(1), Event(2)]);
    assert_eq!(broken.stats().panics, 1);
    assert!(bus.shutdown().complete);
    assert_eq!(events(&drain(&mut other)), [1, 2, 3, 4]);
}

#[test]
fn a_hook_that_panics_is_counted_and_called_again() {
    let bus = bus(100, 1);
    let calls = Arc::new(AtomicU64::new(0));
    let counter = calls.clone();
    let watcher = bus
        .watch_builder()
        .on_drop(move |_, _| {
            counter.fetch_add(1, Ordering::SeqCst);
            panic!("hook");
        })
        .watch()
        .unwrap();
    for n in 0..3_u64 {
        bus.publisher().publish(n).unwrap();
        bus.flush(LONG).unwrap();
    }
    bus.shutdown();
    assert_eq!((calls.load(Ordering::SeqCst), watcher.stats().panics), (2, 2));
    assert_eq!(watcher.stats().dropped.incoming, 2);
}

/// An event that panics in `Clone` or `Drop` if its fields say so.
#[derive(Debug)]
struct Grumpy {
    number: u64,
    clones: bool,
    drops: bool,
}

impl Grumpy {
    fn new(number: u64) -> Self {
        Self { number, clones: false, drops: false }
    }
}

impl Clone for Grumpy {
    fn clone(&self) -> Self {
        assert!(!self.clones, "clone");
        Self { ..*self }
    }
}

impl Drop for Grumpy {
    fn drop(&mut self) {
        // A second panic during unwinding would abort the process, whichever code panicked.
        assert!(!self.drops || std::thread::panicking(), "drop");
    }
}

/// A `Clone` that panics on the dispatcher, which copies a part of a batch, costs no watcher an
/// event.
#[test]
fn a_clone_that_panics_on_the_dispatcher_loses_nothing() {
    let bus = bus(100, 2);
    let mut short = bus.watch().unwrap();
    let mut filtered = bus.watch_builder().queue_len(10).filter(|g: &Grumpy| g.number != 1).watch().unwrap();
    let batch = (0..4).map(|n| Grumpy { clones: true, ..Grumpy::new(n) }).collect::<Vec<_>>();
    bus.publisher().publish_batch(batch).unwrap();
    bus.flush(LONG).unwrap();
    let mut numbers = Vec::new();
    while let Ok(Delivery::Event(event)) = short.recv_ref() {
        numbers.push(event.number);
    }
    assert_eq!(numbers, [0, 1]);
    assert_eq!(short.stats().panics, 1);
    let batches: Vec<Vec<u64>> = std::iter::from_fn(|| {
        Some(filtered.try_recv_batch().ok()?.iter().map(|event| event.number).collect())
    })
    .collect();
    assert_eq!(batches.concat(), [0, 2, 3]);
    assert!(bus.shutdown().complete);
}

/// A `Clone` that panics in `recv` reaches the caller, who continues with the next event.
#[test]
fn a_clone_that_panics_in_recv_is_not_met_again() {
    let bus = bus(100, 10);
    let mut watcher = bus.watch().unwrap();
    let batch = vec![Grumpy { clones: true, ..Grumpy::new(0) }, Grumpy::new(1)];
    bus.publisher().publish_batch(batch).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| watcher.recv())).is_err());
    assert!(matches!(watcher.recv(), Ok(Event(Grumpy { number: 1, .. }))));
    bus.shutdown();
    assert_eq!(watcher.stats().delivered, 2);
}

/// A `Drop` that panics does so on the thread that drops the batch last. No thread may be affected.
#[test]
fn a_drop_that_panics_reaches_nobody() {
    let bus = Broadcaster::with_options(BusOptions::default().queue_len(2)).unwrap();
    let handle = bus.watch_builder().queue_len(100).spawn(|_| ()).unwrap();
    let mut read = bus.watch_builder().queue_len(100).watch().unwrap();
    let unread = bus.watch().unwrap();
    let publisher = bus.publisher();
    let batch = || (0..4).map(|n| Grumpy { drops: true, ..Grumpy::new(n) });
    publisher.publish_batch(batch()).unwrap();
    bus.flush(LONG).unwrap();
    drop(unread);
    let mut seen = 0;
    while let Ok(batch) = read.try_recv_batch() {
        seen += batch.len();
    }
    assert_eq!(seen, 4);
    drop(read);
    publisher.publish_batch(batch()).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!(handle.stats().delivered, 8);
}

/// The destructor of a filter is user code, too.
#[test]
fn a_closure_whose_destructor_panics_stops_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "bomb");
        }
    }
    let bus = bus(100, 10);
    let bomb = Bomb;
    let watcher = bus
        .watch_builder()
        .filter(move |_: &u64| {
            let _ = &bomb;
            true
        })
        .watch()
        .unwrap();
    let mut other = bus.watch().unwrap();
    drop(watcher);
    bus.publisher().publish(1).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!(events(&drain(&mut other)), [1]);
}

/// A panic is caught even if its payload panics when it is dropped.
#[test]
fn a_payload_that_panics_stops_nothing() {
    struct Payload;
    impl Drop for Payload {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "payload");
        }
    }
    let bus = bus(100, 10);
    let handle = bus.watch_builder().spawn(|_: Delivery<&u64>| std::panic::panic_any(Payload)).unwrap();
    bus.publisher().publish_batch(vec![1, 2]).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!(handle.stats().panics, 2);
}

/// D27, in a handler: a call that would wait for itself returns an error instead.
#[test]
fn a_handler_that_calls_back_is_not_left_waiting_for_itself() {
    let bus = Arc::new(bus::<u64>(1, 1));
    let (tx, rx) = mpsc::channel();
    let (go_tx, go) = mpsc::channel::<()>();
    let inner = bus.clone();
    let handle = bus
        .watch_builder()
        .name("caller")
        .overflow(OverflowPolicy::Wait)
        .queue_len(1)
        .spawn(move |delivery| {
            if delivery != Event(&0) {
                return;
            }
            go.recv().unwrap();
            let publisher = inner.publisher();
            // The dispatcher waits for this handler, and the incoming queue is full.
            let full = [
                publisher.publish(7).unwrap_err().is_full(),
                publisher.publish_timeout(7, LONG).unwrap_err().is_full(),
                publisher.publish_batch(vec![7, 8]).unwrap_err().is_full(),
                inner.watch().is_ok(),
                inner.flush(LONG) == Err(FlushError::WouldDeadlock),
            ];
            let report = inner.shutdown();
            tx.send((full, report.complete)).unwrap();
        })
        .unwrap();
    let publisher = bus.publisher();
    publisher.publish(0).unwrap();
    // Publish until the dispatcher waits: one event is with the handler, the dispatcher holds at
    // least one, and one that it has not taken fills the incoming queue.
    let mut accepted = 1;
    while accepted < 3 || bus.stats().accepted != accepted - 1 {
        match publisher.try_publish(1) {
            Ok(()) => accepted += 1,
            Err(_) => std::thread::yield_now(),
        }
    }
    go_tx.send(()).unwrap();
    let (full, complete) = rx.recv_timeout(LONG).unwrap();
    assert_eq!(full, [true; 5]);
    assert!(!complete, "a handler cannot wait for its own end");
    assert!(bus.shutdown().complete);
    assert!(handle.join(LONG));
    assert_eq!(handle.stats().delivered, accepted);
}

/// D27, on the dispatcher's own thread: in a filter and in a hook.
#[test]
fn a_filter_and_a_hook_that_call_back_are_not_left_waiting() {
    let bus = Arc::new(bus::<u64>(1, 1));
    let (tx, rx) = mpsc::channel();
    let call = |what: &'static str| {
        let (bus, tx) = (bus.clone(), tx.clone());
        move || {
            let flush = bus.flush(LONG);
            let mut waited = Ok(());
            while waited.is_ok() {
                waited = bus.publisher().publish(1);
            }
            let _ = tx.send((what, flush, waited.unwrap_err().is_full()));
        }
    };
    let (in_filter, in_hook) = (call("filter"), call("hook"));
    let watcher = bus
        .watch_builder()
        .filter(move |n| {
            if *n == 0 {
                in_filter();
            }
            true
        })
        .on_drop(move |_, lost| {
            if lost.contains(&2) {
                in_hook();
            }
        })
        .watch()
        .unwrap();
    bus.publisher().publish(0).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(("filter", Err(FlushError::WouldDeadlock), true)));
    bus.publisher().publish(2).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(("hook", Err(FlushError::WouldDeadlock), true)));
    assert!(bus.shutdown().complete);
    assert_balanced(&bus.stats());
    drop(watcher);
}

/// The report of a loss is itself an event that the full watcher loses, and so on. This hook stops
/// after a thousand reports, all of one loss.
#[test]
fn a_hook_that_publishes_on_its_own_bus_feeds_itself() {
    const REPORTS: u64 = 1_000;
    let bus = bus(100, 1);
    let (tx, rx) = mpsc::channel();
    let (publisher, mut reports) = (bus.publisher(), 0);
    let hook = move |_, _: &[u64]| {
        if reports < REPORTS {
            reports += 1;
            publisher.publish(reports).unwrap();
        } else {
            tx.send(()).unwrap();
        }
    };
    let watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
    bus.publisher().publish_batch(vec![0, 0]).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(()));
    assert!(bus.shutdown().complete);
    assert_eq!((bus.stats().published(), watcher.stats().dropped.incoming), (2 + REPORTS, 1 + REPORTS));
}

/// The cure that `WatchBuilder::on_drop` names: the watcher's own filter stops the reports.
#[test]
fn a_hook_whose_reports_the_filter_stops_feeds_nothing() {
    const REPORT: u64 = 1_000;
    let bus = bus(100, 1);
    let mut reports = bus.watch_builder().queue_len(100).filter(|n| *n >= REPORT).watch().unwrap();
    let publisher = bus.publisher();
    let watcher = bus
        .watch_builder()
        .filter(|n| *n < REPORT)
        .on_drop(move |_, lost| publisher.publish(REPORT + lost.len() as u64).unwrap())
        .watch()
        .unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4, 5]).unwrap();
    // The first flush waits for the losses, and the second one for their reports.
    bus.flush(LONG).unwrap();
    bus.flush(LONG).unwrap();
    let told: Vec<_> = events(&available(&mut reports)).iter().map(|report| report - REPORT).collect();
    assert_eq!((told.iter().sum::<u64>(), watcher.stats().dropped.incoming), (4, 4));
    assert_eq!(bus.stats().published(), 5 + told.len() as u64);
}

/// A handler of one bus may use another bus as any thread may.
#[test]
fn a_handler_may_wait_for_another_bus() {
    let outer = bus::<u64>(10, 10);
    let inner = Arc::new(bus::<u64>(1, 1));
    let mut seen = inner.watch_builder().queue_len(10).watch().unwrap();
    let to = inner.clone();
    outer
        .watch_builder()
        .spawn(move |delivery| {
            if let Event(n) = delivery {
                to.publisher().publish(*n).unwrap();
                to.flush(LONG).unwrap();
            }
        })
        .unwrap();
    outer.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    assert!(outer.shutdown().complete);
    assert_eq!(events(&available(&mut seen)), [1, 2, 3]);
}

/// A handler learns of a loss as an item.
#[test]
fn a_handler_learns_of_its_gaps() {
    let bus = bus(100, 2);
    let (tx, rx) = mpsc::channel();
    let runner = bus.watch_builder().runner(move |delivery| tx.send(delivery.map_copied()).unwrap()).unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    bus.close();
    runner.run();
    assert_eq!(rx.into_iter().collect::<Vec<_>>(), [Event(1), Event(2), Lagged(1)]);
    assert!(bus.shutdown().complete);
}

trait MapCopied<T> {
    fn map_copied(self) -> Delivery<T>;
}

impl<T: Copy> MapCopied<T> for Delivery<&T> {
    fn map_copied(self) -> Delivery<T> {
        match self {
            Event(event) => Event(*event),
            Lagged(count) => Lagged(count),
        }
    }
}

/// A runner that is never run must be dropped. Then nobody waits for it.
#[test]
fn a_runner_that_is_dropped_is_not_waited_for() {
    let bus = bus(100, 2);
    let runner = bus.watch_builder().runner(|_: Delivery<&u64>| ()).unwrap();
    bus.publisher().publish(1).unwrap();
    drop(runner);
    assert_eq!(bus.flush(LONG), Ok(()));
    assert!(bus.shutdown().complete);
    assert_balanced(&bus.stats());
    assert_eq!(bus.stats().departed.delivered, 0);
}

/// A dispatcher that waits for a watcher continues as soon as the watcher is dropped.
#[test]
fn a_hold_does_not_outlive_its_watcher() {
    let bus = bus(10, 1);
    drop(hold(&bus));
    assert_eq!(bus.flush(LONG), Ok(()));
}

/// Calls back into the bus when it is dropped, and reports the answers.
struct Farewell {
    bus: Arc<Broadcaster<u64>>,
    says: mpsc::Sender<(&'static str, Result<(), FlushError>, bool)>,
    of: &'static str,
}

impl Farewell {
    /// Returns whether this is the one called `of`. A closure that calls this method owns the whole
    /// value.
    fn is_of(&self, of: &str) -> bool {
        self.of == of
    }
}

impl Drop for Farewell {
    fn drop(&mut self) {
        let flush = self.bus.flush(LONG);
        let reports = [self.bus.shutdown(), self.bus.shutdown_timeout(LONG)];
        let _ = self.says.send((self.of, flush, reports.iter().any(|report| report.complete)));
    }
}

/// The end of the bus drops filters and hooks on the dispatcher's thread, and a handler on its own
/// thread. Their destructors call back and do not wait for themselves, and nobody else waits for
/// ever either.
#[test]
fn destructors_that_call_back_are_not_left_waiting() {
    watched(|| {
        let bus = Arc::new(bus::<u64>(4, 4));
        let (says, said) = mpsc::channel();
        let farewell = |of| Farewell { bus: bus.clone(), says: says.clone(), of };
        let (in_filter, in_hook, in_handler) = (farewell("filter"), farewell("hook"), farewell("handler"));
        let watcher = bus
            .watch_builder()
            .filter(move |_| in_filter.is_of("filter"))
            .on_drop(move |_, _| assert!(in_hook.is_of("hook")))
            .watch()
            .unwrap();
        bus.watch_builder().spawn(move |_| assert!(in_handler.is_of("handler"))).unwrap();
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        let mut answers: Vec<_> = said.try_iter().collect();
        answers.sort_by_key(|(of, ..)| *of);
        let answer = |of| (of, Err(FlushError::WouldDeadlock), false);
        assert_eq!(answers, ["filter", "handler", "hook"].map(answer));
        drop(watcher);
    });
}

/// All calls that end the bus wait for a handler that is dropped where it is kept, without having
/// come to its end. A destructor of what the handler owns must not wait with them.
#[test]
fn a_runner_that_is_dropped_and_calls_back_is_not_left_waiting() {
    watched(|| {
        let bus = Arc::new(bus::<u64>(4, 4));
        let (says, said) = mpsc::channel();
        let farewell = Farewell { bus: bus.clone(), says, of: "runner" };
        let runner = bus.watch_builder().runner(move |_| assert!(farewell.is_of("runner"))).unwrap();
        drop(runner);
        assert_eq!(said.recv(), Ok(("runner", Err(FlushError::WouldDeadlock), false)));
        assert!(bus.shutdown().complete);
    });
}
