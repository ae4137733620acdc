//! Events whose `Clone` or `Drop` panics or is expensive, and zero-sized events.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::DropOldest;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, Watcher};

use crate::support::{
    Bomb, Bombs, Ear, LONG, Loaded, Panics, assert_balanced, assert_settled, bus, bus_with, on_both,
    turnstile, until, waits, watched,
};

/// If a `Clone` panics while part of a batch is copied, no watcher loses an event.
#[test]
fn a_clone_that_panics_on_the_dispatcher_loses_nothing() {
    on_both(|options| {
        let (bus, bombs) = (bus_with(options), Bombs::default());
        let mut short = bus.watch_builder().queue_capacity(2).watch().unwrap();
        let mut filtered = bus.watch_builder().filter(|event: &Bomb| event.number != 1).watch().unwrap();
        let mut whole = bus.watch().unwrap();
        bus.publisher().publish_batch((0..4).map(|n| bombs.event(n, Panics::InClone))).unwrap();
        bus.flush(LONG).unwrap();
        bus.publisher().publish(bombs.event(4, Panics::Never)).unwrap();
        bus.flush(LONG).unwrap();
        let numbers = |watcher: &mut Watcher<Bomb>| {
            let mut numbers = Vec::new();
            while let Ok(batch) = watcher.try_recv_batch() {
                numbers.extend(batch.iter().map(|event| event.number));
            }
            numbers
        };
        assert_eq!((numbers(&mut short), short.stats().panics), (vec![0, 1], 1));
        assert_eq!(numbers(&mut filtered), [0, 2, 3, 4]);
        assert_eq!(numbers(&mut whole), [0, 1, 2, 3, 4]);
        assert_settled(&bus.stats(), 5);
        assert!(bus.shutdown().complete);
    });
}

/// If a `Clone` panics in a receive, the panic reaches the caller, who can continue with the next
/// event.
#[test]
fn a_clone_that_panics_in_recv_is_not_met_again() {
    on_both(|options| {
        let (bus, bombs) = (bus_with(options), Bombs::default());
        // Two watchers share the event, so each gets a copy.
        let mut watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
        bus.publisher()
            .publish_batch([bombs.event(0, Panics::InClone), bombs.event(1, Panics::Never)])
            .unwrap();
        bus.flush(LONG).unwrap();
        let caught = catch_unwind(AssertUnwindSafe(|| watchers[0].try_recv().map(drop)));
        assert!(caught.is_err());
        assert!(matches!(watchers[0].try_recv(), Ok(Event(Bomb { number: 1, .. }))));
        assert_eq!((watchers[0].len(), watchers[1].len()), (0, 2));
        assert!(bus.shutdown().complete);
        assert_eq!(watchers[0].stats().delivered, 2);
    });
}

/// If an event's `Drop` panics, the panic happens on the thread that drops the batch last. The
/// panic does not affect any handler, reader or publisher.
#[test]
fn a_drop_that_panics_reaches_no_caller() {
    on_both(|options| {
        let (bus, bombs) = (bus_with(options.queue_capacity(100).history(2)), Bombs::default());
        let batch = |first| (first..first + 4).map(|n| bombs.event(n, Panics::InDrop)).collect::<Vec<_>>();
        let publisher = bus.publisher();
        // Publishes without a watcher.
        publisher.publish_batch(batch(0)).unwrap();
        bus.flush(LONG).unwrap();
        let handle = bus.watch_builder().spawn(|_| ()).unwrap();
        let mut read = bus.watch().unwrap();
        let unread = bus.watch_builder().queue_capacity(2).watch().unwrap();
        let mut newest = bus.watch_builder().queue_capacity(1).overflow(DropOldest).watch().unwrap();
        publisher.publish_batch(batch(4)).unwrap();
        bus.flush(LONG).unwrap();
        drop(unread);
        let mut seen = 0;
        while let Ok(batch) = read.try_recv_batch() {
            seen += batch.len();
        }
        assert_eq!(seen, 4);
        drop(read);
        publisher.publish(bombs.event(8, Panics::Never)).unwrap();
        bus.flush(LONG).unwrap();
        assert!(matches!(newest.recv(), Ok(Lagged(4))));
        assert!(matches!(newest.recv(), Ok(Event(Bomb { number: 8, .. }))));
        publisher.publish_batch(batch(9)).unwrap();
        let report = bus.shutdown();
        assert!(report.complete);
        assert_settled(&report.bus, 13);
        assert_eq!(handle.stats().delivered, 9);
    });
}

/// G9: the process does not abort if a `Clone` panics and then the `Drop` of the copies made so far
/// panics too, whether part of a batch is copied or the events that a filter accepted.
#[test]
fn a_clone_and_a_drop_that_panic_together() {
    struct Nasty(u32, bool);
    impl Clone for Nasty {
        fn clone(&self) -> Self {
            assert!(self.0 != 2, "no copy of number 2");
            Self(self.0, true)
        }
    }
    impl Drop for Nasty {
        fn drop(&mut self) {
            assert!(!self.1, "the drop of a copy");
        }
    }
    // An abort would also end the other tests.
    test_support::in_own_process!();
    on_both(|options| {
        let bus = bus_with(options);
        let short = bus.watch_builder().queue_capacity(3).watch().unwrap();
        let filtered = bus.watch_builder().filter(|event: &Nasty| event.0 < 3).watch().unwrap();
        let events = (0..4).map(|number| Nasty(number, false));
        bus.publisher().publish_batch(events).map_err(drop).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!((short.stats().queued, filtered.stats().queued), (3, 3));
    });
}

/// A thread panics while it has a watcher on its stack, and the watcher's queued events panic when
/// they are dropped.
#[test]
fn a_watcher_that_is_dropped_by_a_panic_with_events_that_panic() {
    on_both(|options| {
        let (bus, dropped) = (bus_with(options), Arc::new(AtomicU64::new(0)));
        let watcher = bus.watch().unwrap();
        bus.publisher()
            .publish_batch((0..5).map(|number| {
                let dropped = dropped.clone();
                Loaded::with(number, move || {
                    dropped.fetch_add(1, Ordering::SeqCst);
                    panic!("the drop of an event");
                })
            }))
            .unwrap();
        bus.flush(LONG).unwrap();
        let result = catch_unwind(AssertUnwindSafe(move || {
            let _watcher = watcher;
            panic!("the reader fails");
        }));
        assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"the reader fails"));
        assert_eq!(dropped.load(Ordering::SeqCst), 5);
        assert!(bus.shutdown().complete);
        assert_eq!(bus.stats().departed.dropped.stopped, 5);
    });
}

/// If a publish is refused, the returned event may panic when it is dropped. By then the publisher
/// has left the gate, so neither the shutdown nor another publisher waits for this publisher.
#[test]
fn a_refused_event_whose_drop_panics_leaves_the_gate_open() {
    watched(|| {
        let (bus, bombs) = (bus::<Bomb>(1, 10), Bombs::default());
        let bomb = |number| bombs.event(number, Panics::Always);
        let (turnstile, mut pass) = turnstile();
        // The filter holds the dispatcher so that the incoming queue fills up.
        let filter = move |event: &Bomb| {
            pass(event.number);
            true
        };
        let watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish(bomb(0)).unwrap();
        turnstile.wait_for(0);
        publisher.try_publish(bomb(1)).unwrap();
        let refused = [
            catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish(bomb(2))))),
            catch_unwind(AssertUnwindSafe(|| drop(publisher.publish_timeout(bomb(3), Duration::ZERO)))),
            catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish_batch(vec![bomb(4)])))),
        ];
        assert!(refused.iter().all(Result::is_err), "the drops must panic in the caller");
        assert_eq!(bombs.dropped(), 3);
        drop(turnstile);
        assert!(bus.shutdown().complete);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish(bomb(5))))).is_err());
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.rejected_full, stats.rejected_closed), (2, 3, 1));
        // The panicking drops of the events in the watcher's queue affect no thread.
        drop(watcher);
        assert_eq!(bombs.dropped(), 6);
    });
}

/// Publishes until all of the following hold, and returns the number of accepted events:
/// * One event is in the queue, of length one, of a watcher that is not read.
/// * The dispatcher holds one event or more, because it may take two together.
/// * Exactly `waiting` events are in the incoming queue, which is its full capacity.
fn block(bus: &Broadcaster<Bomb>, bombs: &Bombs, waiting: u64) -> u64 {
    let publisher = bus.publisher();
    let mut accepted = 0;
    while accepted < waiting + 2 || bus.stats().accepted + waiting != accepted {
        match publisher.try_publish(bombs.event(accepted, Panics::Always)).map_err(std::mem::forget) {
            Ok(()) => accepted += 1,
            Err(()) => thread::yield_now(),
        }
    }
    accepted
}

/// A shutdown with a deadline may leave events whose drop panics in the queue of an unread watcher,
/// in the dispatcher, in the incoming queue, or with a waiting publisher. Each of these events
/// panics once, and no panic stops a thread.
#[test]
fn events_whose_drop_panics_are_abandoned_one_by_one() {
    watched(|| {
        let (bus, bombs) = (bus::<Bomb>(2, 1), Bombs::default());
        let unread = waits(&bus, 1).watch().unwrap();
        let accepted = block(&bus, &bombs, 2);
        let waiting = {
            let (publisher, bomb) = (bus.publisher(), bombs.event(99, Panics::Always));
            thread::spawn(move || {
                publisher.publish(bomb).map_err(PublishError::into_inner).map_err(std::mem::forget)
            })
        };
        let report = bus.shutdown_timeout(Duration::ZERO);
        assert!(!report.complete);
        let taken = u64::from(waiting.join().unwrap().is_ok());
        drop(unread);
        // The dispatcher abandons the remaining events on its own thread, and counts each of them
        // after it has been dropped.
        let counted = || {
            let stats = bus.stats();
            stats.watchers.iter().chain([&stats.departed]).all(|watcher| watcher.lag == 0)
        };
        until(|| bombs.dropped() >= accepted + taken && counted());
        assert!(!bus.shutdown().complete, "events were abandoned");
        assert_balanced(&bus.stats());
        assert_eq!(bus.stats().accepted, accepted + taken);
        assert_eq!(bombs.dropped(), accepted + taken);
    });
}

/// A task that waits for capacity cancels its publish, and the drop of the task's event panics. The
/// turn passes to the next publisher.
#[test]
fn a_waiting_publish_whose_drop_panics_keeps_no_turn() {
    watched(|| {
        let (bus, bombs) = (bus::<Bomb>(1, 1), Bombs::default());
        let mut watcher = waits(&bus, 1).watch().unwrap();
        let publisher = bus.publisher();
        let accepted = block(&bus, &bombs, 1);
        let mut cancelled = Box::pin(publisher.publish_async(bombs.event(77, Panics::Always)));
        assert!(Ear::new().poll(cancelled.as_mut()).is_pending());
        let next = {
            let (publisher, bomb) = (publisher.clone(), bombs.event(88, Panics::Always));
            thread::spawn(move || publisher.publish(bomb).is_ok())
        };
        assert!(catch_unwind(AssertUnwindSafe(move || drop(cancelled))).is_err());
        assert_eq!(bombs.dropped(), 1);
        let mut numbers = Vec::new();
        while numbers.last() != Some(&88) {
            let Ok(Event(event)) = watcher.recv_ref() else { panic!("unexpected loss or end") };
            numbers.push(event.number);
        }
        assert!(next.join().unwrap());
        assert_eq!(numbers[..numbers.len() - 1], (0..accepted).collect::<Vec<_>>());
        assert!(bus.shutdown().complete);
    });
}

/// A cancelled publish already has the turn for the free capacity, and the drop of its event
/// panics. The next publisher is woken.
#[test]
fn a_chosen_publish_whose_drop_panics_passes_its_turn_on() {
    watched(|| {
        let (bus, bombs) = (bus::<Bomb>(1, 1), Bombs::default());
        let unread = waits(&bus, 1).watch().unwrap();
        let publisher = bus.publisher();
        let accepted = block(&bus, &bombs, 1);
        let (first, second) = (Ear::new(), Ear::new());
        let mut cancelled = Box::pin(publisher.publish_async(bombs.event(77, Panics::Always)));
        assert!(first.poll(cancelled.as_mut()).is_pending());
        let mut next = Box::pin(publisher.publish_async(bombs.event(88, Panics::Always)));
        assert!(second.poll(next.as_mut()).is_pending());
        drop(unread);
        first.wait();
        assert!(catch_unwind(AssertUnwindSafe(move || drop(cancelled))).is_err());
        // The turn may be for capacity that the last event has already taken. In that case the next
        // publisher finds no capacity the first time, and is woken again.
        second.wait();
        assert!(second.finish(next.as_mut()).is_ok());
        drop(next);
        assert!(bus.shutdown().complete);
        assert_eq!((bus.stats().accepted, bombs.dropped()), (accepted + 1, accepted + 2));
    });
}

/// An event whose clone allocates 4 MiB on the heap and reports the thread that made it.
struct Heavy {
    number: u64,
    ballast: Vec<u8>,
    copied_on: Sender<ThreadId>,
}

impl Clone for Heavy {
    fn clone(&self) -> Self {
        self.copied_on.send(thread::current().id()).unwrap();
        Self { number: self.number, ballast: self.ballast.clone(), copied_on: self.copied_on.clone() }
    }
}

/// If a `Clone` allocates a lot, it affects only the reader that requests a copy. Publishing and
/// distributing whole batches do not make copies, regardless of the number of watchers.
#[test]
fn a_heavy_clone_costs_only_the_reader_that_asks_for_a_copy() {
    on_both(|options| {
        let bus = bus_with::<Heavy>(options);
        let (copied_on, copies) = mpsc::channel();
        let [mut by_value, mut by_reference, mut by_batch] = [(); 3].map(|()| bus.watch().unwrap());
        let _others: Vec<_> = (0..5).map(|_| bus.watch().unwrap()).collect();
        for number in 0..4 {
            let event = Heavy { number, ballast: vec![1; 4 << 20], copied_on: copied_on.clone() };
            bus.publisher().publish(event).map_err(drop).unwrap();
        }
        assert!(bus.shutdown().complete);
        let mut batched = 0;
        while let Ok(batch) = by_batch.recv_batch() {
            batched += batch.iter().filter(|event| event.ballast.len() == 4 << 20).count();
        }
        let mut lent = Vec::new();
        while let Ok(Event(event)) = by_reference.recv_ref() {
            lent.push(event.number);
        }
        assert_eq!((batched, lent), (4, vec![0, 1, 2, 3]));
        assert_eq!(copies.try_iter().count(), 0, "no reader has asked for a copy yet");
        assert_eq!(by_value.events().map(|event| event.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert!(copies.try_iter().eq([thread::current().id(); 4]));
    });
}

/// Zero-sized events are counted, queued and dropped like other events.
#[test]
fn events_of_no_size() {
    static DROPS: AtomicU64 = AtomicU64::new(0);
    #[derive(Clone)]
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, Ordering::SeqCst);
        }
    }
    on_both(|options| {
        let bus = bus_with(options.max_batch(3));
        let mut all = waits(&bus, 100).watch().unwrap();
        let newest = bus.watch_builder().queue_capacity(2).overflow(DropOldest).watch().unwrap();
        let before = DROPS.load(Ordering::SeqCst);
        bus.publisher().publish_batch((0..10).map(|_| Nothing)).map_err(drop).unwrap();
        assert!(bus.shutdown().complete);
        let mut count = 0;
        while let Ok(Event(_)) = all.recv_ref() {
            count += 1;
        }
        assert_eq!(count, 10);
        assert_eq!((newest.stats().queued, newest.stats().dropped.oldest), (2, 8));
        // The copies of the queued part are dropped together with the watchers.
        drop((all, newest));
        assert!(DROPS.load(Ordering::SeqCst) >= before + 10);
    });
}
