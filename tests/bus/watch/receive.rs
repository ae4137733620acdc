//! The receive methods, prefixes, and the number of events that can be received.

use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait};
use eventcast::error::{RecvTimeoutError, TryRecvError};
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, Delivery, Watcher};
use futures::StreamExt;
use futures::executor::block_on;
use futures::stream::FusedStream;

use crate::support::{LONG, bus, bus_with, drain, events, on_both, timed, turnstile, watched};

#[test]
fn every_form_of_receiving_sees_the_same() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watchers: Vec<_> = (0..5).map(|_| bus.watch().unwrap()).collect();
        bus.publisher().publish_batch(0..10_u64).unwrap();
        bus.shutdown();
        let wanted: Vec<u64> = (0..10).collect();
        let [by_recv, by_ref, by_batch, by_timeout, by_events] = &mut watchers[..] else { unreachable!() };
        assert_eq!(std::iter::from_fn(|| by_recv.recv().ok()?.event()).collect::<Vec<_>>(), wanted);
        let mut seen = Vec::new();
        while let Ok(Delivery::Event(event)) = by_ref.recv_ref() {
            seen.push(*event);
        }
        assert_eq!(seen, wanted);
        let mut seen: Vec<u64> = Vec::new();
        while let Ok(batch) = by_batch.try_recv_batch() {
            seen.extend(batch);
        }
        assert_eq!(seen, wanted);
        assert_eq!(
            std::iter::from_fn(|| by_timeout.recv_timeout(LONG).ok()?.event()).collect::<Vec<_>>(),
            wanted
        );
        assert_eq!(by_events.events().collect::<Vec<_>>(), wanted);
        for watcher in &watchers {
            assert_eq!(watcher.stats().delivered, 10);
        }
    });
}

/// A prefix is received first, does not use queue capacity, and is not counted in the statistics.
#[test]
fn a_prefix_is_first_and_takes_no_capacity() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(1));
        let mut watcher = bus.watch_builder().prefix(0..100).watch().unwrap();
        bus.publisher().publish(100).unwrap();
        bus.shutdown();
        assert_eq!(events(&drain(&mut watcher)), (0..=100).collect::<Vec<u64>>());
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.total(), stats.queued), (1, 1, 0, 0));
    });
}

/// Prefix events that were not received before the reader was dropped do not count as lost.
#[test]
fn an_unread_prefix_is_not_lost() {
    on_both(|options| {
        for reads in [0, 1, 3] {
            let bus = bus_with(options.clone());
            let mut watcher = bus.watch_builder().prefix(0..3).watch().unwrap();
            bus.publisher().publish_batch([3, 4]).unwrap();
            bus.flush(LONG).unwrap();
            for event in 0..reads {
                assert_eq!(watcher.recv(), Ok(Delivery::Event(event)));
            }
            drop(watcher);
            let report = bus.shutdown();
            let departed = &report.bus.departed;
            assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (2, 0, 2));
        }
    });
}

#[test]
fn len_is_what_can_be_received_now() {
    on_both(|options| {
        for policy in [DropIncoming, DropOldest, Wait] {
            let bus = bus_with::<u64>(options.clone());
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
    });
}

/// `len` includes the events that the reader holds, even if the dispatcher has not counted them yet
/// because it is still running a hook for an event that did not fit.
#[test]
fn len_counts_what_the_reader_holds() {
    let bus = bus::<u64>(100, 3);
    let (hook, mut hooked) = turnstile();
    let mut watcher = bus.watch_builder().on_drop(move |_, _| hooked(())).watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3, 4]).unwrap();
    hook.wait_for(());
    for left in [2, 1, 0] {
        assert!(watcher.recv_timeout(LONG).is_ok());
        assert_eq!((watcher.len(), watcher.is_empty()), (left, left == 0));
    }
    drop(hook);
    assert!(bus.shutdown().complete);
}

/// If a loop reads while the watcher is not empty, it must not block waiting for an event that it
/// has already received.
#[test]
fn a_borrowed_event_is_no_longer_in_len() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let mut watcher = bus.watch_builder().prefix([10, 11]).watch().unwrap();
        assert_eq!(watcher.len(), 2, "a prefix counts towards `len`");
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
    });
}

#[test]
fn an_empty_watcher_may_have_a_gap_or_the_end() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
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
    });
}

/// The deadline of a receive is measured on the bus's clock.
#[test]
fn recv_timeout_runs_on_the_clock() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let mut watcher = bus.watch().unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| watcher.recv_timeout(Duration::from_secs(3600)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(3600));
            assert_eq!(reader.join().unwrap(), Err(RecvTimeoutError::Timeout));
        });
        assert!(watcher.recv_batch_timeout(Duration::ZERO).is_err());
    });
}

/// A deadline is converted into the time that remains, which the bus's clock then measures.
#[test]
fn recv_deadline_waits_for_the_remaining_time_on_the_clock() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let (mut watcher, mut events) = (bus.watch().unwrap(), bus.watch().unwrap().into_events());
        let deadline = Instant::now() + Duration::from_secs(3600);
        thread::scope(|scope| {
            let reader = scope.spawn(|| watcher.recv_deadline(deadline));
            let reader_of_events = scope.spawn(|| events.recv_deadline(deadline));
            clock.wait_for_waiters(2);
            clock.advance(Duration::from_secs(3000));
            assert_eq!(clock.waiters(), 2);
            clock.advance(Duration::from_secs(600));
            assert_eq!(reader.join().unwrap(), Err(RecvTimeoutError::Timeout));
            assert_eq!(reader_of_events.join().unwrap(), Err(RecvTimeoutError::Timeout));
        });
        // A loss that is skipped does not extend the wait.
        thread::scope(|scope| {
            let reader_of_events = scope.spawn(|| events.recv_deadline(deadline));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1800));
            bus.publisher().publish_gap(1).unwrap();
            bus.flush(LONG).unwrap();
            clock.advance(Duration::from_secs(1800));
            assert_eq!(reader_of_events.join().unwrap(), Err(RecvTimeoutError::Timeout));
        });
    });
}

/// A receive whose deadline has passed returns what is in the queue, and never waits.
#[test]
fn recv_deadline_does_not_wait_after_the_deadline() {
    on_both(|options| {
        let (_, bus) = timed::<u64>(options);
        let (mut watcher, mut events) = (bus.watch().unwrap(), bus.watch().unwrap().into_events());
        let past = Instant::now();
        assert_eq!(watcher.recv_deadline(past), Err(RecvTimeoutError::Timeout));
        assert_eq!(events.recv_deadline(past), Err(RecvTimeoutError::Timeout));
        bus.publisher().publish(7).unwrap();
        bus.shutdown();
        assert_eq!(watcher.recv_deadline(past), Ok(Event(7)));
        assert_eq!(watcher.recv_deadline(past), Err(RecvTimeoutError::Ended));
        assert_eq!(events.recv_deadline(past), Ok(7));
        assert_eq!(events.recv_deadline(past), Err(RecvTimeoutError::Ended));
    });
}

/// A stream is terminated once any receive has returned the end, but not earlier.
#[test]
fn a_stream_is_terminated_after_its_end() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let (mut watcher, mut events) = (bus.watch().unwrap(), bus.watch().unwrap().into_events());
        bus.publisher().publish(1).unwrap();
        bus.shutdown();
        assert_eq!(block_on(watcher.next()), Some(Event(1)));
        assert_eq!(events.try_recv(), Ok(1));
        assert_eq!((watcher.is_terminated(), events.is_terminated()), (false, false));
        assert_eq!((block_on(watcher.next()), events.try_recv().ok()), (None, None));
        assert_eq!((watcher.is_terminated(), events.is_terminated()), (true, true));
        assert_eq!((block_on(watcher.next()), block_on(events.next())), (None, None));
        assert!(!Watcher::<u64>::ended().is_terminated());
    });
}

/// `select!` skips a stream that has ended, and continues with the other.
#[test]
fn select_skips_a_watcher_that_has_ended() {
    on_both(|options| {
        let (first, second) = (bus_with::<u64>(options.clone()), bus_with::<u64>(options));
        let (mut ended, mut watcher) = (first.watch().unwrap(), second.watch().unwrap());
        first.shutdown();
        let mut seen = Vec::new();
        block_on(async {
            let mut ends = 0;
            loop {
                futures::select! {
                    delivery = ended.next() => {
                        assert_eq!((delivery, ends), (None, 0));
                        ends += 1;
                        second.publisher().publish(1).unwrap();
                        second.close();
                    }
                    delivery = watcher.next() => seen.extend(delivery),
                    complete => break,
                }
            }
        });
        assert_eq!(seen, [Event(1)]);
    });
}

/// Tests that advance a clock in a loop rely on this: a thread that the clock has woken no longer
/// counts as a waiter.
#[test]
fn a_thread_that_the_clock_has_woken_does_not_count_as_waiting() {
    watched(|| {
        for _ in 0..100 {
            let (clock, bus) = timed::<u8>(BusOptions::default());
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
            // The second wait counts as a new waiter, so the clock is advanced only after that wait
            // has begun.
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1));
            assert_eq!(clock.waiters(), 0);
            reader.join().unwrap();
        }
    });
}

#[test]
fn a_fake_clock_stops_at_the_end_of_time() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    clock.advance(Duration::MAX);
    clock.advance(Duration::MAX);
}
