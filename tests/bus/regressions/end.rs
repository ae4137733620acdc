//! The end of handlers, watchers and user code that panics.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::watched;

use super::{FOREVER, Loaded, fake_clock};

/// A handler has ended only when its closure has been dropped, so what the closure owns (a buffered
/// file) is complete by then.
#[test]
fn a_handler_has_ended_when_its_closure_is_gone() {
    struct Guard(mpsc::Sender<()>, Receiver<()>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.send(()).unwrap();
            self.1.recv().unwrap();
        }
    }
    watched(|| {
        let bus = Broadcaster::<u8>::new().unwrap();
        let (dropping_tx, dropping_rx) = mpsc::channel();
        let (release_tx, release_rx) = mpsc::channel();
        let guard = Guard(dropping_tx, release_rx);
        let handle = bus
            .watch_builder()
            .spawn(move |_| {
                let _ = &guard;
            })
            .unwrap();
        handle.stop();
        dropping_rx.recv().unwrap();
        let ended = handle.join(Duration::ZERO);
        release_tx.send(()).unwrap();
        assert!(!ended, "join says that the handler has ended while its closure is being dropped");
        assert!(handle.join(FOREVER));
    });
}

/// Dropping a watcher releases the waiting dispatcher first. Only then does it run destructors of
/// events, which may take long or need the bus to go on.
#[test]
fn a_dropped_watcher_lets_the_dispatcher_go_on_at_once() {
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let waited = bus.watch_builder().queue_len(1).overflow(OverflowPolicy::Wait).watch().unwrap();
        let mut other = bus.watch().unwrap();
        let publisher = bus.publisher();
        let (dropping_tx, dropping_rx) = mpsc::channel::<()>();
        let (release_tx, release_rx) = mpsc::channel::<()>();
        let slow = Loaded::with(1, move || {
            dropping_tx.send(()).unwrap();
            release_rx.recv().unwrap();
        });
        publisher.publish(slow).unwrap();
        assert!(matches!(other.recv(), Ok(Delivery::Event(event)) if event.number == 1));
        publisher.publish(Loaded::plain(2)).unwrap();
        assert!(matches!(other.recv(), Ok(Delivery::Event(event)) if event.number == 2));
        // The dispatcher waits with the second event for room at the first watcher.
        publisher.publish(Loaded::plain(3)).unwrap();
        let dropping = thread::spawn(move || drop(waited));
        dropping_rx.recv().unwrap();
        // If the dispatcher still waited for the watcher that is being dropped, this test would
        // hang.
        assert!(matches!(other.recv(), Ok(Delivery::Event(event)) if event.number == 3));
        release_tx.send(()).unwrap();
        dropping.join().unwrap();
    });
}

/// G9: the process does not abort if a `Clone` panics, and then the `Drop` of the copies made so
/// far panics too.
#[test]
fn a_clone_and_a_drop_that_panic_together() {
    struct Nasty {
        number: u32,
        is_copy: bool,
    }
    impl Clone for Nasty {
        fn clone(&self) -> Self {
            assert!(self.number != 2, "no copy of number 2");
            Self { number: self.number, is_copy: true }
        }
    }
    impl Drop for Nasty {
        fn drop(&mut self) {
            assert!(!self.is_copy, "a copy does not go quietly");
        }
    }
    // An abort would end the other tests too.
    test_support::in_own_process!();
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let watcher = bus.watch_builder().queue_len(3).watch().unwrap();
        let events = (0..4).map(|number| Nasty { number, is_copy: false });
        bus.publisher().publish_batch(events).map_err(|e| e.to_string()).unwrap();
        bus.flush(FOREVER).unwrap();
        assert_eq!(watcher.stats().queued, 3);
    });
}

/// G9: the same for a filter's copies.
#[test]
fn a_clone_and_a_drop_that_panic_together_behind_a_filter() {
    struct Nasty(u32, bool);
    impl Clone for Nasty {
        fn clone(&self) -> Self {
            assert!(self.0 != 2, "no copy of number 2");
            Self(self.0, true)
        }
    }
    impl Drop for Nasty {
        fn drop(&mut self) {
            assert!(!self.1, "a copy does not go quietly");
        }
    }
    // An abort would end the other tests too.
    test_support::in_own_process!();
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let watcher = bus.watch_builder().filter(|event: &Nasty| event.0 < 3).watch().unwrap();
        let events = (0..4).map(|number| Nasty(number, false));
        bus.publisher().publish_batch(events).map_err(|e| e.to_string()).unwrap();
        bus.flush(FOREVER).unwrap();
        assert_eq!(watcher.stats().queued, 3);
    });
}

/// G9: the same for a filter and a hook, each with a destructor that panics.
#[test]
fn a_filter_and_a_hook_that_both_panic_when_they_go() {
    struct Bomb(&'static str);
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("{}", self.0);
        }
    }
    // An abort would end the other tests too.
    test_support::in_own_process!();
    watched(|| {
        let bus = Broadcaster::<u32>::new().unwrap();
        let (filter, hook) = (Bomb("filter"), Bomb("hook"));
        let watcher = bus
            .watch_builder()
            .filter(move |_| {
                let _ = &filter;
                true
            })
            .on_drop(move |_, _| {
                let _ = &hook;
            })
            .watch()
            .unwrap();
        drop(watcher);
        assert!(bus.shutdown().complete);
    });
}

/// A fake clock stops at the end of time instead of overflowing.
#[test]
fn a_fake_clock_does_not_run_over() {
    let clock = fake_clock();
    clock.advance(Duration::MAX);
    clock.advance(Duration::MAX);
}

/// G3, G6: an accepted event is offered, or the shutdown reports it as abandoned. This holds even
/// if a handler has already abandoned its queue when the dispatcher comes to it.
#[test]
fn what_a_handler_gave_up_is_counted() {
    watched(|| {
        let clock = fake_clock();
        let bus = Arc::new(Broadcaster::with_clock(BusOptions::default(), clock.clock()).unwrap());
        let (entered_tx, entered_rx) = mpsc::channel();
        let (release_tx, release_rx) = mpsc::channel::<()>();
        let handle = bus
            .watch_builder()
            .spawn(move |_| {
                entered_tx.send(()).unwrap();
                release_rx.recv().unwrap();
            })
            .unwrap();
        // This watcher holds the dispatcher, first in its wait and then in the hook.
        let (hooked_tx, hooked_rx) = mpsc::channel::<()>();
        let (go_tx, go_rx) = mpsc::channel::<()>();
        let mut hooked = false;
        let stuck = bus
            .watch_builder()
            .queue_len(1)
            .overflow(OverflowPolicy::WaitFor(Duration::from_secs(3600)))
            .on_drop(move |_, _| {
                if !hooked {
                    hooked = true;
                    hooked_tx.send(()).unwrap();
                    go_rx.recv().unwrap();
                }
            })
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch(vec![1, 2]).unwrap();
        entered_rx.recv().unwrap();
        clock.wait_for_waiters(1);
        publisher.publish_batch(vec![3, 4]).unwrap();
        let closing = bus.clone();
        let shutdown = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(1)));
        clock.wait_for_waiters(2);
        clock.advance(Duration::from_millis(950));
        hooked_rx.recv().unwrap();
        release_tx.send(()).unwrap();
        assert!(handle.join(FOREVER));
        go_tx.send(()).unwrap();
        let report = shutdown.join().unwrap();
        assert!(!report.complete);
        assert_eq!(report.bus.accepted, 4);
        let stats = handle.stats();
        assert_eq!(stats.delivered, 1);
        assert_eq!(stats.dropped.total(), 3, "two events of four are in no count: {stats}");
        drop(stuck);
    });
}
