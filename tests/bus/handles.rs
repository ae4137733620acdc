//! The handles of a bus: clones of a broadcaster, how many watchers there are, how many events a
//! watcher has, the end of a handler, and batches from any iterator.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::{PublishError, TryRecvError};
use eventcast::{Broadcaster, OverflowPolicy};

use crate::support::{LONG, bus, hold, turnstile, until, watched};

// ── clones ──

#[test]
fn the_last_clone_closes_the_bus_on_whichever_thread() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let clones: Vec<_> = (0..8).map(|_| bus.clone()).collect();
        drop(bus);
        let threads = clones.into_iter().map(|clone| thread::spawn(move || drop(clone)));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert!(publisher.is_closed());
        assert!(publisher.try_publish(1).unwrap_err().is_closed());
        assert!(watcher.recv().is_err());
    });
}

#[test]
fn a_clone_that_is_dropped_early_does_not_close_the_bus() {
    let bus = bus(10, 10);
    let mut watcher = bus.watch().unwrap();
    for _ in 0..3 {
        drop(bus.clone());
        let clone = bus.clone();
        thread::spawn(move || drop(clone)).join().unwrap();
    }
    let publisher = bus.publisher();
    assert!(!publisher.is_closed());
    publisher.publish(1).unwrap();
    assert_eq!(watcher.recv(), Ok(Event(1)));
}

#[test]
fn every_clone_is_the_same_bus() {
    let bus = bus(10, 10);
    let other = bus.clone();
    let mut watcher = other.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    other.flush(LONG).unwrap();
    assert_eq!((bus.stats().accepted, bus.watcher_count()), (1, 1));
    // A shutdown on one handle ends the bus for all of them, with one report.
    let report = other.shutdown();
    assert_eq!(bus.shutdown(), report);
    assert!(bus.publisher().is_closed());
    assert_eq!(watcher.events().collect::<Vec<_>>(), [1]);
}

// ── the number of watchers ──

#[test]
fn watchers_count_until_they_are_dropped_or_their_handlers_end() {
    let bus = bus::<u64>(10, 10);
    assert_eq!(bus.watcher_count(), 0);
    let (watcher, stopped) = (bus.watch().unwrap(), bus.watch().unwrap());
    let handler = bus.watch_builder().spawn(|_| ()).unwrap();
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    assert_eq!(bus.watcher_count(), 4);
    stopped.stop();
    assert_eq!(bus.watcher_count(), 4, "its events can still be read");
    drop(stopped);
    assert_eq!(bus.watcher_count(), 3);
    handler.stop();
    assert!(handler.join(LONG));
    assert_eq!(bus.watcher_count(), 2);
    drop(runner);
    assert_eq!(bus.watcher_count(), 1);
    assert!(bus.shutdown().complete);
    assert_eq!(bus.watcher_count(), 1, "what is queued can still be read");
    drop(watcher);
    assert_eq!(bus.watcher_count(), 0);
    // A registration that came too late does not count.
    assert!(bus.watch().is_err());
    assert_eq!(bus.watcher_count(), 0);
}

/// The statistics keep a handler that has ended with the bus. The number of watchers does not.
#[test]
fn a_handler_that_ended_with_the_bus_does_not_count() {
    let bus = bus::<u64>(10, 10);
    bus.watch_builder().spawn(|_| ()).unwrap();
    let report = bus.shutdown();
    assert_eq!((report.bus.watchers.len(), bus.watcher_count()), (1, 0));
}

// ── the number of events ──

#[test]
fn len_is_what_can_be_received_now() {
    for policy in [OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait] {
        let bus = bus::<u64>(10, 10);
        let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
        assert!(watcher.is_empty());
        bus.publisher().publish_batch(1..=5).unwrap();
        bus.flush(LONG).unwrap();
        for left in (0..5).rev() {
            assert_eq!((watcher.len(), watcher.is_empty()), (left + 1, false), "{policy}");
            assert_eq!(watcher.stats().queued, left as u64 + 1, "{policy}");
            watcher.recv().unwrap();
        }
        assert_eq!((watcher.len(), watcher.is_empty()), (0, true), "{policy}");
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty), "{policy}");
    }
}

/// The events that the reader holds count, although the dispatcher has not counted them yet: it is
/// still in a hook, with an event that did not fit.
#[test]
fn len_counts_what_the_reader_holds() {
    let bus = bus::<u64>(100, 3);
    let ((entered_tx, entered), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let hook = move |_, _: &[u64]| {
        let _ = entered_tx.send(());
        let _ = gate.recv();
    };
    let mut watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3, 4]).unwrap();
    entered.recv_timeout(LONG).unwrap();
    for left in [2, 1, 0] {
        assert!(watcher.recv_timeout(LONG).is_ok());
        assert_eq!((watcher.len(), watcher.is_empty()), (left, left == 0));
    }
    drop(go);
    assert!(bus.shutdown().complete);
}

/// A loop that reads while the watcher is not empty must not come to wait for an event that it has
/// already seen.
#[test]
fn a_borrowed_event_is_no_longer_in_len() {
    let bus = bus::<u64>(10, 10);
    let mut watcher = bus.watch_builder().prefix([10, 11]).watch().unwrap();
    assert_eq!(watcher.len(), 2, "a prefix can be received");
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(watcher.len(), 5);
    assert_eq!(watcher.recv_ref(), Ok(Event(&10)));
    assert_eq!(watcher.len(), 4);
    assert_eq!(&*watcher.recv_batch().unwrap(), [11]);
    assert_eq!((watcher.len(), watcher.stats().queued), (3, 3));
    assert_eq!(watcher.recv_ref(), Ok(Event(&1)));
    assert_eq!((watcher.len(), watcher.stats().queued), (2, 3), "borrowed");
    assert_eq!(&*watcher.recv_batch().unwrap(), [2, 3]);
    assert_eq!((watcher.len(), watcher.is_empty()), (0, true));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
}

#[test]
fn an_empty_watcher_may_have_a_gap_or_the_end() {
    let bus = bus::<u64>(10, 2);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(1..=5).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(watcher.len(), 2);
    assert_eq!((watcher.recv(), watcher.recv()), (Ok(Event(1)), Ok(Event(2))));
    assert!(watcher.is_empty());
    assert_eq!(watcher.try_recv(), Ok(Lagged(3)));
    assert!(watcher.is_empty());
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
    bus.shutdown();
    assert!(watcher.is_empty());
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    assert_eq!(watcher.len(), 0);
}

/// The dispatcher holds an event for which there is no room. This event is not in the queue.
#[test]
fn an_event_that_waits_for_room_is_not_in_len() {
    let bus = bus(100, 10);
    let held = hold(&bus);
    until(|| held.watcher.len() == 1 && held.watcher.stats().lag == 2);
}

// ── the end of a handler ──

#[test]
fn join_waits_for_the_handler_and_does_not_stop_it() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let (turnstile, mut pass) = turnstile();
        let handle = bus.watch_builder().spawn(move |delivery| {
            if let Event(number) = delivery {
                pass(*number);
            }
        });
        let handle = handle.unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(1));
        assert!(!handle.join(Duration::ZERO), "it is in the midst of an event");
        turnstile.go.send(()).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(2), "nobody has stopped it");
        handle.stop();
        assert!(!handle.join(Duration::ZERO));
        turnstile.go.send(()).unwrap();
        assert!(handle.join(Duration::MAX));
        assert!(handle.clone().join(Duration::ZERO), "it has ended");
        assert_eq!(handle.stats().delivered, 2);
    });
}

/// A handler that joins itself, or another one of its bus, goes on at once.
#[test]
fn join_does_not_wait_on_a_thread_of_the_bus() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let (give, take) = mpsc::channel::<eventcast::WatchHandle>();
        let (tx, joined) = mpsc::channel();
        let other = bus.watch_builder().spawn(|_| ()).unwrap();
        let own = bus.watch_builder().spawn(move |_| {
            tx.send(take.iter().map(|handle| handle.join(LONG)).collect::<Vec<_>>()).unwrap();
        });
        give.send(own.unwrap()).unwrap();
        give.send(other.clone()).unwrap();
        drop(give);
        bus.publisher().publish(1).unwrap();
        assert_eq!(joined.recv_timeout(LONG / 2), Ok(vec![false, false]));
        assert!(bus.shutdown().complete);
        assert!(other.join(Duration::ZERO));
    });
}

// ── batches from iterators ──

#[test]
fn a_batch_comes_from_any_iterator() {
    let bus = bus::<u64>(10, 1000);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish_batch([1, 2]).unwrap();
    publisher.publish_batch(vec![3]).unwrap();
    publisher.try_publish_batch(4..6).unwrap();
    publisher.try_publish_batch(Some(6)).unwrap();
    publisher.publish_batch((7..1000).filter(|n| n % 2 == 1)).unwrap();
    publisher.publish_batch(None).unwrap();
    bus.close();
    let expected: Vec<u64> = (1..7).chain((7..1000).filter(|n| n % 2 == 1)).collect();
    assert_eq!(watcher.events().collect::<Vec<_>>(), expected);
}

/// The refused rest comes back as a list, whatever the batch came from.
#[test]
fn the_rest_of_an_iterator_comes_back() {
    let options = eventcast::BusOptions::default().incoming_len(1).queue_len(1).max_batch(2);
    let bus = Broadcaster::with_options(options.overflow(OverflowPolicy::Wait)).unwrap();
    let mut watcher = bus.watch().unwrap();
    let Err(PublishError::Full(rest)) = bus.publisher().try_publish_batch(0..100_u64) else {
        panic!("there is room for a few pieces only")
    };
    assert_eq!(rest, ((100 - rest.len() as u64)..100).collect::<Vec<_>>());
    bus.close();
    let Err(PublishError::Closed(stopped)) = bus.publisher().publish_batch(rest.iter().copied()) else {
        panic!("the bus is closed")
    };
    assert_eq!(stopped, rest);
    assert_eq!(watcher.events().count(), 100 - rest.len());
}

/// An iterator that panics has published nothing, and harms nobody.
#[test]
fn an_iterator_that_panics_publishes_nothing() {
    let bus = bus::<u64>(10, 10);
    let publisher = bus.publisher();
    let events = (0..5).inspect(|n| assert!(*n != 3, "on purpose"));
    let panicking = thread::spawn(move || publisher.publish_batch(events));
    assert!(panicking.join().is_err());
    bus.publisher().publish(7).unwrap();
    let report = bus.shutdown();
    assert_eq!((report.complete, report.bus.published()), (true, 1));
}

/// A `Vec` is taken as it is. Its events keep their place in memory.
#[test]
fn a_vec_is_not_copied() {
    let bus = bus::<u64>(10, 10);
    bus.close();
    for waits in [false, true] {
        let events = vec![1, 2, 3];
        let place = events.as_ptr();
        let publisher = bus.publisher();
        let refused =
            if waits { publisher.publish_batch(events) } else { publisher.try_publish_batch(events) };
        let returned = refused.unwrap_err().into_inner();
        assert_eq!(returned.as_ptr(), place);
    }
}
