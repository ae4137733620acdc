//! G9: user code that panics inside a publish does not reach the publisher, nor another watcher,
//! and leaves the bus usable.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use eventcast::Delivery::{self, Event, Lagged};
use eventcast::bus::EndReason;
use eventcast::error::TryRecvError;
use eventcast::{Broadcaster, OverflowPolicy};

use crate::support::{LONG, assert_balanced, available, drain, watched};

use super::support::{assert_settled, inline, options, waits};

/// A filter that panics ends its own watcher. The publish succeeds, and the next one too.
#[test]
fn a_filter_that_panics_ends_its_own_watcher() {
    watched(|| {
        let bus = inline(100);
        let filter = |event: &u64| {
            assert!(*event != 3, "three");
            true
        };
        let mut broken = bus.watch_builder().filter(filter).watch().unwrap();
        let mut other = bus.watch().unwrap();
        (1..=5).for_each(|event| bus.publisher().publish(event).unwrap());
        assert_eq!(available(&mut broken), [Event(1), Event(2)]);
        assert_eq!(broken.try_recv(), Err(TryRecvError::Ended));
        assert_eq!((broken.stats().panics, broken.end_reason()), (1, Some(EndReason::Stopped)));
        assert_eq!(available(&mut other), (1..=5).map(Event).collect::<Vec<_>>());
        assert_settled(&bus.stats(), 5);
        assert!(bus.shutdown().complete);
    });
}

/// The filter of a full `Wait` watcher, which is asked before the event is accepted.
#[test]
fn a_filter_of_a_full_watcher_that_panics_ends_its_own_watcher() {
    watched(|| {
        let bus = inline(100);
        let filter = |event: &u64| {
            assert!(*event != 2, "two");
            true
        };
        let mut broken = waits(&bus, 1).filter(filter).watch().unwrap();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        // The watcher is full. It ends with this event, so nothing waits for it.
        bus.publisher().publish(2).unwrap();
        bus.publisher().try_publish(3).unwrap();
        assert_eq!(available(&mut other), [1, 2, 3].map(Event));
        assert_eq!(drain(&mut broken), [Event(1)]);
        assert_eq!(broken.stats().panics, 1);
    });
}

/// A hook that panics is counted, and called again.
#[test]
fn a_hook_that_panics_is_called_again() {
    let bus = inline(1);
    let calls = Arc::new(AtomicU64::new(0));
    let count = calls.clone();
    let hook = move |_, _: &[u64]| {
        count.fetch_add(1, Ordering::SeqCst);
        panic!("hook");
    };
    let mut watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
    (1..=3).for_each(|event| bus.publisher().publish(event).unwrap());
    assert_eq!((calls.load(Ordering::SeqCst), watcher.stats().panics), (2, 2));
    assert_eq!(available(&mut watcher), [Event(1), Lagged(2)]);
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
        // A second panic during unwinding would abort the process.
        assert!(!self.drops || thread::panicking(), "drop");
    }
}

/// A `Clone` that panics where a part of a batch is copied costs no watcher an event.
#[test]
fn a_clone_that_panics_inside_a_publish_loses_nothing() {
    let bus = inline(100);
    let mut short = bus.watch_builder().queue_len(2).watch().unwrap();
    let mut filtered = bus.watch_builder().filter(|event: &Grumpy| event.number != 1).watch().unwrap();
    let mut whole = bus.watch().unwrap();
    let batch = (0..4).map(|number| Grumpy { clones: true, ..Grumpy::new(number) }).collect::<Vec<_>>();
    bus.publisher().publish_batch(batch).unwrap();
    bus.publisher().publish(Grumpy::new(4)).unwrap();
    let numbers = |watcher: &mut eventcast::Watcher<Grumpy>| {
        let mut numbers = Vec::new();
        while let Ok(batch) = watcher.try_recv_batch() {
            numbers.extend(batch.iter().map(|event| event.number));
        }
        numbers
    };
    assert_eq!(numbers(&mut short), [0, 1]);
    assert_eq!(numbers(&mut filtered), [0, 2, 3, 4]);
    assert_eq!(numbers(&mut whole), [0, 1, 2, 3, 4]);
    assert_settled(&bus.stats(), 5);
    assert!(bus.shutdown().complete);
}

/// A `Clone` that panics in a receive reaches the reader, who continues with the next event.
#[test]
fn a_clone_that_panics_in_a_receive_reaches_the_reader() {
    let bus = inline(100);
    // Two watchers share the event, so that each gets a copy.
    let mut watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
    bus.publisher().publish(Grumpy { clones: true, ..Grumpy::new(0) }).unwrap();
    bus.publisher().publish(Grumpy::new(1)).unwrap();
    let caught = catch_unwind(AssertUnwindSafe(|| watchers[0].try_recv().map(drop)));
    assert!(caught.is_err());
    assert!(matches!(watchers[0].try_recv(), Ok(Event(Grumpy { number: 1, .. }))));
    bus.publisher().publish(Grumpy::new(2)).unwrap();
    assert_eq!((watchers[0].len(), watchers[1].len()), (1, 3));
}

/// A `Drop` that panics inside a publish does not reach the publisher.
#[test]
fn a_drop_that_panics_does_not_reach_the_publisher() {
    watched(|| {
        let bomb = |number| Grumpy { drops: true, ..Grumpy::new(number) };
        let bus = inline(100);
        // Without a watcher the event is dropped inside its publish.
        bus.publisher().publish(bomb(0)).unwrap();
        bus.publisher().publish_batch([bomb(1), bomb(2)]).unwrap();
        // A queue that loses its oldest event drops it there.
        let mut gauge =
            bus.watch_builder().queue_len(1).overflow(OverflowPolicy::DropOldest).watch().unwrap();
        (3..6).for_each(|number| bus.publisher().publish(bomb(number)).unwrap());
        bus.publisher().publish(Grumpy::new(6)).unwrap();
        assert!(matches!(gauge.try_recv(), Ok(Lagged(3))));
        assert!(matches!(gauge.try_recv(), Ok(Event(Grumpy { number: 6, .. }))));
        assert_settled(&bus.stats(), 7);
        assert!(bus.shutdown().complete);
    });
}

/// The same for events that the history lets go of, and that it has at the end.
#[test]
fn a_drop_that_panics_in_the_history_reaches_no_caller() {
    watched(|| {
        let bus = Broadcaster::with_options(options(10).history(2)).unwrap();
        for number in 0..5 {
            bus.publisher().publish(Grumpy { drops: true, ..Grumpy::new(number) }).unwrap();
        }
        let report = bus.shutdown();
        assert!(report.complete);
        assert_settled(&report.bus, 5);
    });
}

/// A closure whose destructor panics, where its watcher is removed and at the end of the bus.
#[test]
fn a_filter_whose_destructor_panics_stops_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(thread::panicking(), "bomb");
        }
    }
    watched(|| {
        let bus = inline(10);
        let watch = || {
            let bomb = Bomb;
            let filter = move |_: &u64| {
                let _ = &bomb;
                true
            };
            bus.watch_builder().filter(filter).watch().unwrap()
        };
        let (dropped, mut kept) = (watch(), watch());
        drop(dropped);
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(drain(&mut kept), [Event(1)]);
        assert_balanced(&bus.stats());
    });
}

/// A handler that panics continues, and a publisher that waits for it too.
#[test]
fn a_handler_that_panics_frees_its_capacity() {
    watched(|| {
        let bus = inline(1);
        let handler = |delivery: Delivery<&u64>| assert!(delivery.event().unwrap() % 2 == 0, "odd");
        let handle = waits(&bus, 1).spawn(handler).unwrap();
        (0..100).for_each(|event| bus.publisher().publish(event).unwrap());
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!((handle.stats().delivered, handle.stats().panics), (100, 50));
        assert!(bus.shutdown().complete);
    });
}

/// The last handle is often dropped while the user's own panic unwinds. The bus ends as usual.
#[test]
fn a_bus_that_is_dropped_by_a_panic_ends() {
    watched(|| {
        let bus = Broadcaster::with_options(options(10).history(2)).unwrap();
        let (publisher, mut watcher) = (bus.publisher(), bus.watch().unwrap());
        let panicked = thread::spawn(move || {
            bus.publisher().publish(1).unwrap();
            panic!("as a failed assertion would");
        });
        assert!(panicked.join().is_err());
        assert!(publisher.try_publish(2).unwrap_err().is_closed());
        assert_eq!(available(&mut watcher), [Event(1)]);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    });
}

/// A publish while the user's own panic unwinds works too: in the destructor of a guard.
#[test]
fn a_publish_works_while_a_panic_unwinds() {
    struct Guard(eventcast::Publisher<u64>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.publish(7).unwrap();
        }
    }
    watched(|| {
        let bus = inline(10);
        let mut watcher = bus.watch().unwrap();
        let guard = Guard(bus.publisher());
        let panicked = thread::spawn(move || {
            let _guard = guard;
            panic!("as a failed assertion would");
        });
        assert!(panicked.join().is_err());
        bus.publisher().publish(8).unwrap();
        assert_eq!(available(&mut watcher), [Event(7), Event(8)]);
        assert!(bus.shutdown().complete);
    });
}
