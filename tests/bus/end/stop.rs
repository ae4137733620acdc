//! Watchers that are stopped or dropped.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Delivery;
use eventcast::Delivery::Event;
use eventcast::error::RecvError;

use crate::support::{LONG, Live, Tracked, assert_balanced, bus, drain, hold};

/// G11: after `stop` the queued events stay readable, then the end comes.
#[test]
fn a_stopped_watcher_keeps_its_queue_and_then_ends() {
    let bus = bus(100, 100);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2]).unwrap();
    bus.flush(LONG).unwrap();
    watcher.stop();
    watcher.handle().stop();
    bus.publisher().publish(3).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
    assert_eq!(watcher.stats().offered, 2);
    assert!(bus.shutdown().complete);
}

/// G11: a stop from another thread wakes a reader that waits.
#[test]
fn stop_wakes_a_waiting_reader() {
    let bus = bus::<u64>(10, 10);
    let mut watcher = bus.watch().unwrap();
    let stop = watcher.handle();
    let reader = thread::spawn(move || watcher.recv());
    stop.stop();
    assert_eq!(reader.join().unwrap(), Err(RecvError));
}

/// A watcher that the program reads itself ends for its handle when it is dropped, not when it is
/// stopped.
#[test]
fn a_join_on_a_watcher_waits_until_the_watcher_is_dropped() {
    let bus = bus::<u64>(10, 10);
    let watcher = bus.watch().unwrap();
    let handle = watcher.handle();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    handle.stop();
    assert!(!handle.join(Duration::ZERO));
    thread::scope(|scope| {
        let joining = scope.spawn(|| handle.join(LONG));
        drop(watcher);
        assert!(joining.join().unwrap());
    });
    assert_eq!((handle.stats().offered, handle.stats().dropped.stopped), (1, 1));
}

/// G11: stop and drop release a dispatcher that waits for exactly that watcher, and the events that
/// it loses are counted.
#[test]
fn stop_and_drop_release_a_dispatcher_that_waits_for_them() {
    for drops in [false, true] {
        let bus = bus(100, 1);
        let held = hold(&bus);
        let mut other = bus.watch_builder().queue_len(10).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        if drops {
            drop(held);
        } else {
            held.watcher.stop();
        }
        assert_eq!(other.recv(), Ok(Event(1)));
        let report = bus.shutdown();
        assert!(report.complete);
        assert_balanced(&report.bus);
        if drops {
            let departed = &report.bus.departed;
            assert_eq!((departed.offered, departed.dropped.stopped), (2, 2));
        } else {
            let stats = &report.bus.watchers[0];
            assert_eq!((stats.offered, stats.dropped.stopped, stats.queued), (2, 1, 1));
        }
    }
}

/// G11: on an idle bus a dropped watcher and its events are freed without waiting for the next
/// event.
#[test]
fn watchers_that_come_and_go_on_an_idle_bus_leave_nothing() {
    /// Reports when the dispatcher has dropped a watcher's filter.
    struct Says(mpsc::Sender<()>);
    impl Drop for Says {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let live = Live::default();
    let bus = bus(100, 100);
    let (gone_tx, gone) = mpsc::channel();
    // Miri takes long for each watcher.
    let watchers = if cfg!(miri) { 200 } else { 2_000_u64 };
    for n in 0..watchers {
        let says = Says(gone_tx.clone());
        let watcher = bus
            .watch_builder()
            .filter(move |_: &Tracked| {
                let _ = &says;
                true
            })
            .watch()
            .unwrap();
        if n % 100 == 0 {
            bus.publisher().publish(live.event(n)).unwrap();
            bus.flush(LONG).unwrap();
        }
        drop(watcher);
        gone.recv_timeout(LONG).expect("the dispatcher must let go without another event");
    }
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 0);
    assert!(bus.stats().watchers.is_empty());
    assert_eq!(bus.stats().departed.dropped.stopped, watchers / 100);
}

/// A handle that is dropped leaves its handler running. `stop` and `join` end the handler.
#[test]
fn a_dropped_handle_leaves_the_handler_running() {
    let seen = Arc::new(AtomicU64::new(0));
    let bus = bus::<u64>(100, 100);
    let count = |to: &Arc<AtomicU64>| {
        let to = to.clone();
        move |delivery: Delivery<&u64>| {
            if let Event(n) = delivery {
                to.fetch_add(*n, Ordering::SeqCst);
            }
        }
    };
    drop(bus.watch_builder().spawn(count(&seen)).unwrap());
    let stopped = bus.watch_builder().name("stopped").spawn(count(&seen)).unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    stopped.stop();
    assert!(stopped.join(LONG));
    bus.publisher().publish(10).unwrap();
    bus.shutdown();
    assert_eq!(seen.load(Ordering::SeqCst), 12);
    assert_eq!(stopped.stats().delivered, 1);
}
