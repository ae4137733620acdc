//! Watchers together with other channels in crossbeam's `Select`.

use std::time::Duration;

use crossbeam_channel::{Select, unbounded};
use eventcast::Delivery::{Event, Lagged};
use eventcast::error::TryRecvError;
use eventcast::{OverflowPolicy, Watcher};

use crate::support::{LONG, bus, bus_with, on_both, watched};

/// Waits until the watcher, the only operation in the `Select`, is ready.
fn wait(watcher: &Watcher<u64>) {
    let mut select = Select::new();
    let index = watcher.add_to(&mut select);
    assert_eq!(select.ready_timeout(LONG), Ok(index));
}

fn is_ready(watcher: &Watcher<u64>) -> bool {
    let mut select = Select::new();
    watcher.add_to(&mut select);
    select.try_ready().is_ok()
}

/// A watcher is ready in each of these cases: an event was already queued, an event is published
/// during the wait, only a gap is pending, or the watcher has ended.
#[test]
fn everything_that_can_be_received_is_ready() {
    on_both(|options| {
        for policy in [OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait] {
            let bus = bus_with::<u64>(options.clone().queue_capacity(2));
            let mut watcher = bus.watch_builder().overflow(policy).prefix([0]).watch().unwrap();
            wait(&watcher);
            assert_eq!(watcher.try_recv(), Ok(Event(0)));
            assert!(!is_ready(&watcher), "nothing can be received");
            let publisher = bus.publisher();
            let publishing = std::thread::spawn(move || publisher.publish(1).unwrap());
            wait(&watcher);
            assert_eq!(watcher.try_recv(), Ok(Event(1)));
            publishing.join().unwrap();
            // An event can be received before the dispatcher has finished with it and woken the
            // readers.
            bus.flush(LONG).unwrap();
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
            assert!(!is_ready(&watcher));
            bus.publisher().publish_batch(vec![2, 3]).unwrap();
            bus.flush(LONG).unwrap();
            wait(&watcher);
            // The events that are left after a receive also make the watcher ready.
            assert_eq!(watcher.try_recv(), Ok(Event(2)));
            wait(&watcher);
            assert_eq!(watcher.try_recv(), Ok(Event(3)));
            bus.close();
            wait(&watcher);
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
            wait(&watcher);
        }
    });
}

/// If a loss is not followed by an event, the loss makes the watcher ready.
#[test]
fn a_gap_alone_is_ready() {
    on_both(|options| {
        let bus = bus_with::<u64>(options.queue_capacity(1));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch(vec![1, 2]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        wait(&watcher);
        assert_eq!(watcher.try_recv(), Ok(Lagged(1)));
        assert!(!is_ready(&watcher));
    });
}

/// A stop from another thread wakes a blocked reader.
#[test]
fn a_stop_is_ready() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let mut watcher = bus.watch().unwrap();
        let stop = watcher.handle();
        let stopping = std::thread::spawn(move || stop.stop());
        wait(&watcher);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
        stopping.join().unwrap();
    });
}

/// Two watchers and a channel under load, with many thousands of wake-ups. A lost wake-up would
/// make the test hang.
#[test]
fn no_wake_up_is_lost() {
    watched(|| {
        const EVENTS: u64 = 5000;
        let (one, two) = (bus::<u64>(4, 4), bus::<u64>(4, 4));
        let mut first = one.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        let mut second = two.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
        let (tx, rx) = unbounded();
        let publishers = [one.publisher(), two.publisher()];
        let threads: Vec<_> = publishers
            .into_iter()
            .map(|publisher| {
                std::thread::spawn(move || (0..EVENTS).for_each(|n| publisher.publish(n).unwrap()))
            })
            .collect();
        let sending = std::thread::spawn(move || (0..EVENTS).for_each(|n| tx.send(n).unwrap()));
        let mut seen = [0; 3];
        while seen != [EVENTS; 3] {
            let mut select = Select::new();
            let (a, b) = (first.add_to(&mut select), second.add_to(&mut select));
            let c = if seen[2] < EVENTS { select.recv(&rx) } else { usize::MAX };
            let ready = select.ready_timeout(LONG).expect("a wake-up was lost");
            if ready == c {
                seen[2] += rx.try_iter().count() as u64;
                continue;
            }
            let (watcher, seen) =
                if ready == a { (&mut first, &mut seen[0]) } else { (&mut second, &mut seen[1]) };
            assert!(ready == a || ready == b);
            while let Ok(delivery) = watcher.try_recv() {
                assert_eq!(delivery, Event(*seen));
                *seen += 1;
            }
        }
        for thread in threads {
            thread.join().unwrap();
        }
        sending.join().unwrap();
    });
}

/// A borrowed event occupies its slot until the next receive begins, so the watcher must stay ready
/// for that receive. Otherwise a dispatcher waiting for the slot and a `Select` waiting for an
/// event would deadlock, for example after a `Clone` that panicked in a receive.
#[test]
fn a_watcher_with_a_borrowed_event_is_ready() {
    let bus = bus::<u64>(10, 1);
    let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2]).unwrap();
    for expected in [1, 2] {
        assert_eq!(watcher.recv_ref(), Ok(Event(&expected)));
        assert!(is_ready(&watcher), "the watcher has lent {expected}");
    }
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
    // The dispatcher may not have sent the wake-up for the second event yet.
    bus.flush(LONG).unwrap();
    assert!(!is_ready(&watcher), "all events have been received and returned");
    assert!(bus.shutdown().complete);
}

/// Once all events have been received, by any of the methods, a `Select` blocks on the watcher. If
/// the `Select` also has a channel, the channel is the ready operation.
#[test]
fn a_watcher_without_events_is_not_ready() {
    type Receive = fn(&mut Watcher<u64>) -> Result<usize, TryRecvError>;
    let ways: [(&str, Receive); 3] = [
        ("try_recv", |watcher| watcher.try_recv().map(|_| 1)),
        ("try_recv_batch", |watcher| watcher.try_recv_batch().map(|batch| batch.len())),
        ("recv_ref", |watcher| {
            if watcher.is_empty() {
                return watcher.try_recv().map(|_| 1);
            }
            watcher.recv_ref().unwrap();
            Ok(1)
        }),
    ];
    for policy in [OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait] {
        for (way, receive) in ways {
            let bus = bus::<u64>(16, 16);
            let mut watcher = bus.watch_builder().overflow(policy).prefix([1, 2]).watch().unwrap();
            let (tx, rx) = unbounded();
            for round in 0..3 {
                bus.publisher().publish_batch([3, 4, 5]).unwrap();
                bus.publisher().publish(6).unwrap();
                bus.flush(LONG).unwrap();
                wait(&watcher);
                let mut received = 0;
                while let Ok(events) = receive(&mut watcher) {
                    received += events;
                }
                assert_eq!(received, if round == 0 { 6 } else { 4 }, "{way}");
                let mut select = Select::new();
                watcher.add_to(&mut select);
                let channel = select.recv(&rx);
                assert!(select.ready_timeout(Duration::from_millis(1)).is_err(), "{policy:?}, {way}");
                tx.send(round).unwrap();
                assert_eq!(select.ready_timeout(LONG), Ok(channel));
                assert_eq!(rx.try_recv(), Ok(round));
            }
        }
    }
}
