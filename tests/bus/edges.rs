//! Corners: events of no size, queues of one, thousands of watchers, publishers in a thread that is
//! being torn down, watchers dropped in the middle of a panic, two shutdowns at once.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::error::FlushError;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, ShutdownReport};

use crate::support::watched;

const FOREVER: Duration = Duration::MAX;

fn smallest() -> BusOptions {
    BusOptions::default().incoming_len(1).queue_len(1).max_batch(1)
}

#[test]
fn everything_of_length_one() {
    watched(|| {
        let bus = Broadcaster::with_options(smallest().overflow(OverflowPolicy::Wait)).unwrap();
        let mut one = bus.watch().unwrap();
        let mut other = bus.watch_builder().overflow(OverflowPolicy::WaitFor(FOREVER)).watch().unwrap();
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || publisher.publish_batch(0..500));
        let reading = thread::spawn(move || other.events().collect::<Vec<_>>());
        let mut seen = Vec::new();
        while seen.len() < 500 {
            seen.extend(one.recv_batch().unwrap().iter().copied());
        }
        publishing.join().unwrap().unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(seen, (0..500).collect::<Vec<_>>());
        assert_eq!(reading.join().unwrap(), seen);
    });
}

#[test]
fn events_of_no_size() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    #[derive(Clone)]
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    watched(|| {
        let bus = Broadcaster::with_options(BusOptions::default().max_batch(3)).unwrap();
        let mut all = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        let newest = bus.watch_builder().queue_len(2).overflow(OverflowPolicy::DropOldest).watch().unwrap();
        bus.publisher().publish_batch((0..10).map(|_| Nothing)).map_err(|e| e.to_string()).unwrap();
        assert!(bus.shutdown().complete);
        let mut count = 0;
        while let Ok(Delivery::Event(_)) = all.recv_ref() {
            count += 1;
        }
        assert_eq!(count, 10);
        assert_eq!((newest.stats().queued, newest.stats().dropped.oldest), (2, 8));
        // The copies of the queued part are dropped with it.
        drop((all, newest));
        assert!(DROPS.load(Ordering::SeqCst) >= 10);
    });
}

/// A batch can have as many events of no size as `usize` can count, so sums of their counts end at
/// the highest number.
#[test]
fn counts_of_refused_events_of_no_size_do_not_wrap() {
    let bus = Broadcaster::<()>::with_options(BusOptions::default()).unwrap();
    let publisher = bus.publisher();
    bus.publisher().publish(()).unwrap();
    bus.close();
    for _ in 0..2 {
        let refused = publisher.try_publish_batch(vec![(); usize::MAX]).unwrap_err();
        assert_eq!(refused.into_inner().len(), usize::MAX);
    }
    // A thread other than this one counts elsewhere.
    for _ in 0..2 {
        let publisher = publisher.clone();
        thread::spawn(move || publisher.publish_batch(vec![(); usize::MAX]).unwrap_err()).join().unwrap();
    }
    let stats = bus.shutdown().bus;
    assert_eq!((stats.rejected_closed, stats.published()), (u64::MAX, u64::MAX), "{stats}");
}

/// The size in bytes of an incoming queue, which is allocated at once, is bounded. A larger one is
/// an error, not an abort.
#[test]
fn an_incoming_queue_of_more_bytes_than_are_allowed_is_refused() {
    type Largest = [u8; 16 * 1024];
    let error =
        Broadcaster::<Largest>::with_options(BusOptions::default().incoming_len(1 << 24)).unwrap_err();
    assert_eq!(error.option(), "incoming_len");
    let text = error.to_string();
    assert!(text.starts_with("incoming_len must be up to 2618"), "{text}");
    assert!(text.ends_with(" bytes, which the queue takes at once, got 16777216"), "{text}");
    assert!(Broadcaster::<Largest>::with_options(BusOptions::default().incoming_len(1 << 4)).is_ok());
}

#[test]
fn thousands_of_watchers_that_come_and_go() {
    watched(|| {
        let bus = Broadcaster::with_options(BusOptions::default().incoming_len(7)).unwrap();
        let mut watchers: Vec<_> =
            (0..3000).map(|_| bus.watch_builder().queue_len(1).watch().unwrap()).collect();
        bus.publisher().publish(1).unwrap();
        bus.flush(FOREVER).unwrap();
        watchers.retain_mut(|watcher| {
            assert_eq!(watcher.try_recv(), Ok(Delivery::Event(1)));
            // About a third of the watchers are dropped here, not in the order of their
            // registration.
            std::ptr::from_ref(watcher).addr() % 3 == 0
        });
        watchers.iter().for_each(eventcast::Watcher::stop);
        let last = bus.watch().unwrap();
        bus.publisher().publish(2).unwrap();
        bus.flush(FOREVER).unwrap();
        assert!(watchers.iter_mut().all(|watcher| watcher.recv().is_err()));
        drop(watchers);
        assert!(bus.shutdown().complete);
        let stats = bus.stats();
        assert_eq!((stats.watchers.len(), last.stats().offered), (1, 1));
        assert_eq!((stats.departed.offered, stats.departed.delivered), (3000, 3000));
    });
}

/// A publisher lives in a thread-local and publishes when the thread is torn down, even into a full
/// queue, where it waits.
#[test]
fn publishing_while_the_thread_is_torn_down() {
    struct Last(Publisher<u32>);
    impl Drop for Last {
        fn drop(&mut self) {
            (0..20).for_each(|n| self.0.publish(n).unwrap());
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    watched(|| {
        let bus = Broadcaster::with_options(smallest().overflow(OverflowPolicy::Wait)).unwrap();
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let thread = thread::spawn(move || LAST.with(|last| *last.borrow_mut() = Some(Last(publisher))));
        for n in 0..20 {
            assert_eq!(watcher.recv(), Ok(Delivery::Event(n)));
        }
        thread.join().unwrap();
    });
}

/// A thread panics with a watcher on its stack whose queued events panic when they are dropped.
#[test]
fn a_watcher_that_goes_in_a_panic_with_events_that_panic() {
    #[derive(Clone)]
    struct Bomb(Arc<AtomicUsize>);
    impl Drop for Bomb {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("an event does not go quietly");
        }
    }
    watched(|| {
        let went = Arc::new(AtomicUsize::new(0));
        let bus = Broadcaster::new().unwrap();
        let watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        let batch = (0..5).map(|_| Bomb(went.clone()));
        bus.publisher().publish_batch(batch).map_err(|e| e.to_string()).unwrap();
        bus.flush(FOREVER).unwrap();
        let result = catch_unwind(AssertUnwindSafe(move || {
            let _watcher = watcher;
            panic!("the reader fails");
        }));
        let payload = result.unwrap_err();
        assert_eq!(payload.downcast_ref::<&str>(), Some(&"the reader fails"));
        assert_eq!(went.load(Ordering::SeqCst), 5);
        assert!(bus.shutdown().complete);
        assert_eq!(bus.stats().departed.dropped.stopped, 5);
    });
}

/// A filter that passes nothing causes no wait, although the queue is full and the policy is to
/// wait.
#[test]
fn a_full_queue_that_nothing_is_meant_for() {
    watched(|| {
        let bus = Broadcaster::with_options(smallest()).unwrap();
        let watcher =
            bus.watch_builder().overflow(OverflowPolicy::Wait).filter(|n: &u32| *n == 0).watch().unwrap();
        bus.publisher().publish_batch(0..100).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!((watcher.stats().queued, watcher.stats().filtered), (1, 99));
    });
}

/// Two shutdowns, the later with the earlier deadline, wait for a handler that does not return. The
/// later one gives up and returns a snapshot, and a flush learns of it. The other waits on, and its
/// report has the end.
#[test]
fn two_shutdowns_and_a_flush_against_a_handler_that_does_not_return() {
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let bus = Arc::new(Broadcaster::with_clock(smallest(), clock.clock()).unwrap());
        let (entered_tx, entered_rx) = mpsc::channel();
        let (release_tx, release_rx) = mpsc::channel::<()>();
        let handle = bus
            .watch_builder()
            .queue_len(10)
            .spawn(move |_| {
                entered_tx.send(()).unwrap();
                release_rx.recv().unwrap();
            })
            .unwrap();
        bus.publisher().publish(1).unwrap();
        bus.publisher().publish(2).unwrap();
        entered_rx.recv().unwrap();
        let spawn = |run: fn(&Broadcaster<u32>) -> Option<ShutdownReport>| {
            let bus = bus.clone();
            thread::spawn(move || run(&bus))
        };
        let flush = spawn(|bus| {
            let result = bus.flush(Duration::from_secs(1000));
            assert_eq!(result, Err(FlushError::Abandoned));
            None
        });
        clock.wait_for_waiters(1);
        let long = spawn(|bus| Some(bus.shutdown_timeout(Duration::from_secs(100))));
        clock.wait_for_waiters(2);
        let short = spawn(|bus| Some(bus.shutdown_timeout(Duration::from_secs(1))));
        clock.wait_for_waiters(3);
        clock.advance(Duration::from_secs(1));
        let snapshot = short.join().unwrap().unwrap();
        assert!(!snapshot.complete && !snapshot.threads_ended);
        flush.join().unwrap();
        assert!(!long.is_finished(), "the deadline of the other shutdown has not come");
        // The handler finishes its current event and abandons the other one.
        release_tx.send(()).unwrap();
        assert!(handle.join(FOREVER));
        let report = long.join().unwrap().unwrap();
        assert!(!report.complete && report.threads_ended && !report.is_clean());
        assert_eq!(bus.shutdown(), report);
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.abandoned, stats.queued), (1, 1, 0));
    });
}

/// Tests that step a clock in a loop rely on this: a thread that the clock has woken does not count
/// as one that waits again.
#[test]
fn a_thread_that_the_clock_has_woken_does_not_count_as_waiting() {
    watched(|| {
        for _ in 0..100 {
            let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
            let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), clock.clock()).unwrap();
            let mut watcher = bus.watch().unwrap();
            let reader = thread::spawn(move || {
                for _ in 0..2 {
                    watcher.recv_timeout(Duration::from_secs(1)).unwrap_err();
                }
            });
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_millis(999));
            assert_eq!(clock.waiters(), 1);
            clock.advance(Duration::from_millis(1));
            // The second wait counts anew, so this step comes after it has begun.
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1));
            assert_eq!(clock.waiters(), 0);
            reader.join().unwrap();
        }
    });
}

/// One watcher is stopped and another is dropped before the dispatcher has come to their
/// registration.
#[test]
fn gone_before_they_were_registered() {
    watched(|| {
        let bus = Broadcaster::with_options(BusOptions::default().incoming_len(8)).unwrap();
        let (entered_tx, entered_rx) = mpsc::channel();
        let (release_tx, release_rx) = mpsc::channel::<()>();
        let release_rx = Mutex::new(release_rx);
        let mut holding = bus
            .watch_builder()
            .filter(move |n: &u32| {
                if *n == 0 {
                    entered_tx.send(()).unwrap();
                    release_rx.lock().unwrap().recv().unwrap();
                }
                true
            })
            .watch()
            .unwrap();
        bus.publisher().publish(0).unwrap();
        entered_rx.recv().unwrap();
        let mut stopped = bus.watch_builder().prefix([7]).overflow(OverflowPolicy::Wait).watch().unwrap();
        let dropped =
            bus.watch_builder().prefix([7]).queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
        stopped.stop();
        drop(dropped);
        assert_eq!(stopped.recv(), Ok(Delivery::Event(7)));
        assert!(stopped.recv().is_err());
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        release_tx.send(()).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(holding.events().collect::<Vec<_>>(), [0, 1, 2, 3]);
        let stats = bus.stats();
        assert_eq!((stats.departed.offered, stats.watchers.len()), (0, 2));
    });
}
