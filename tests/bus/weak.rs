//! Weak handles: they can watch and publish, but do not keep the bus open.

use std::sync::Barrier;
use std::thread;

use eventcast::Delivery;
use eventcast::Delivery::Event;
use eventcast::bus::{EndReason, WeakBroadcaster};
use eventcast::error::WatchError;

use crate::support::{LONG, bus_with, buses, on_both, watched};

#[track_caller]
fn assert_gone(weak: &WeakBroadcaster<u64>) {
    assert!(weak.is_closed());
    assert!(weak.upgrade().is_none());
    assert!(matches!(weak.watch(), Err(WatchError::Closed)));
    assert!(matches!(weak.watch_builder().spawn(|_| ()), Err(WatchError::Closed)));
    assert!(weak.publisher().try_publish(0).unwrap_err().is_closed());
}

#[test]
fn a_weak_handle_does_not_keep_the_bus_open() {
    for bus in buses(1_000) {
        let weak = bus.downgrade();
        let (other, mut watcher) = (weak.clone(), weak.watch().unwrap());
        weak.publisher().publish(1).unwrap();
        assert!(!weak.is_closed() && !other.is_closed());
        drop(bus);
        assert_gone(&weak);
        assert_gone(&other);
        assert_eq!(watcher.events().collect::<Vec<_>>(), [1]);
        assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
        drop(weak);
        assert_gone(&other);
    }
}

#[test]
fn a_weak_handle_is_a_handle_of_the_same_bus() {
    for bus in buses(1_000) {
        let weak = bus.downgrade();
        let mut watcher = weak.watch_builder().name("client").watch().unwrap();
        bus.publisher().publish(1).unwrap();
        weak.publisher().publish(2).unwrap();
        bus.flush(LONG).unwrap();
        let stats = bus.stats();
        assert_eq!((bus.watcher_count(), stats.accepted, stats.watchers[0].name.as_str()), (1, 2, "client"));
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        assert_eq!(format!("{weak:?}"), "WeakBroadcaster { closed: false, .. }");
    }
}

#[test]
fn a_watcher_of_a_weak_handle_has_the_defaults_of_the_bus() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let watcher = bus.downgrade().watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.shutdown();
        assert_eq!(watcher.len(), 2);
    });
}

#[test]
fn an_upgraded_handle_keeps_the_bus_open() {
    for bus in buses(1_000) {
        let weak = bus.downgrade();
        let mut watcher = weak.watch().unwrap();
        let upgraded = weak.upgrade().unwrap();
        drop(bus);
        assert!(!weak.is_closed() && !upgraded.is_closed());
        upgraded.publisher().publish(1).unwrap();
        assert_eq!(watcher.recv(), Ok(Event(1)));
        let again = weak.upgrade().unwrap();
        drop(upgraded);
        again.publisher().publish(2).unwrap();
        assert_eq!(watcher.recv(), Ok(Event(2)));
        drop(again);
        assert_gone(&weak);
        assert!(watcher.recv().is_err());
    }
}

/// After an explicit close, an upgrade still succeeds while another handle exists, but the bus
/// stays closed.
#[test]
fn a_closed_bus_can_be_upgraded_while_a_handle_is_left() {
    for bus in buses(1_000) {
        let weak = bus.downgrade();
        weak.publisher().publish(1).unwrap();
        bus.close();
        let upgraded = weak.upgrade().unwrap();
        assert!(upgraded.is_closed() && upgraded.watch().is_err());
        assert_eq!(upgraded.shutdown(), bus.shutdown());
        assert_eq!(upgraded.stats().accepted, 1);
        drop((bus, upgraded));
        assert_gone(&weak);
    }
}

/// If the handler owned a `Broadcaster`, it would keep the bus open, and would therefore never end.
#[test]
fn a_handler_with_a_weak_handle_does_not_keep_its_bus_open() {
    watched(|| {
        for bus in buses(1_000) {
            let weak = bus.downgrade();
            let registers = move |delivery: Delivery<&u64>| {
                let _ = (delivery, weak.watch());
            };
            let handle = bus.watch_builder().spawn(registers).unwrap();
            bus.publisher().publish(1).unwrap();
            drop(bus);
            assert!(handle.join(LONG));
            assert_eq!((handle.stats().delivered, handle.stats().panics), (1, 0));
        }
    });
}

/// If an upgrade succeeds, the bus is open. If it fails, the bus is closed.
#[test]
fn threads_upgrade_while_the_last_handle_is_dropped() {
    const THREADS: usize = 3;
    watched(|| {
        for _ in 0..100 {
            for bus in buses(1_000) {
                let (weak, start) = (bus.downgrade(), Barrier::new(THREADS + 1));
                let upgrading = || {
                    start.wait();
                    for _ in 0..10 {
                        let Some(bus) = weak.upgrade() else {
                            return assert!(weak.publisher().try_publish(0).unwrap_err().is_closed());
                        };
                        assert!(bus.publisher().publish(0).is_ok());
                    }
                };
                thread::scope(|scope| {
                    (0..THREADS).for_each(|_| drop(scope.spawn(upgrading)));
                    start.wait();
                    drop(bus);
                });
                assert_gone(&weak);
            }
        }
    });
}
