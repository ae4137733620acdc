//! Buffered publishers: when events are published, and what becomes of events that are refused.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::thread;

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::Wait;
use eventcast::error::PublishError::{Closed, Full};
use eventcast::{Broadcaster, BusOptions};

use crate::support::{LONG, available, bus, bus_with, hold, inline, on_both, watched};

#[test]
fn events_take_their_place_in_the_order_when_their_batch_is_published() {
    on_both(|options| {
        let bus = bus_with(options);
        let watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let (mut two, mut three) = (publisher.buffered(2), publisher.buffered(3));
        two.publish(1).unwrap();
        three.publish(11).unwrap();
        publisher.publish(100).unwrap();
        two.publish(2).unwrap();
        two.publish(3).unwrap();
        three.publish(12).unwrap();
        three.publish(13).unwrap();
        three.publish(14).unwrap();
        two.flush().unwrap();
        assert_eq!((two.buffer(), three.buffer()), (&[][..], &[14][..]));
        publisher.publish(101).unwrap();
        drop(three);
        two.flush().unwrap();
        bus.close();
        let seen: Vec<_> = watcher.into_iter().collect();
        assert_eq!(seen, [100, 1, 2, 11, 12, 13, 3, 101, 14].map(Event));
    });
}

#[test]
fn a_buffer_holds_at_least_one_event_and_at_most_a_batch() {
    let bus = Broadcaster::with_options(BusOptions::default().inline(true).max_batch(4)).unwrap();
    let mut watcher = bus.watch().unwrap();
    for (size, batch) in [(0, 1), (1, 1), (3, 3), (4, 4), (5, 4), (usize::MAX, 4)] {
        let mut buffered = bus.publisher().buffered(size);
        for event in 1..batch {
            buffered.publish(event).unwrap();
        }
        assert_eq!((buffered.buffer().len(), watcher.len()), (batch - 1, 0), "{size}");
        buffered.publish(batch).unwrap();
        assert!(buffered.buffer().is_empty());
        assert!(watcher.try_recv_batch().unwrap().iter().copied().eq(1..=batch), "{size}");
    }
}

#[test]
fn a_closed_bus_refuses_the_buffer_and_counts_it_once_for_each_attempt() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut buffered = bus.publisher().buffered(4);
        buffered.publish(1).unwrap();
        bus.close();
        buffered.publish(2).unwrap();
        assert_eq!(buffered.flush(), Err(Closed(())));
        assert_eq!(buffered.try_flush(), Err(Closed(())));
        buffered.publish(3).unwrap();
        assert_eq!(buffered.publish(4), Err(Closed(4)));
        assert_eq!(buffered.buffer(), [1, 2, 3]);
        assert_eq!(bus.stats().rejected_closed, 2 + 2 + 4);
        drop(buffered);
        let stats = bus.shutdown().bus;
        assert_eq!((stats.accepted, stats.rejected_closed, stats.rejected_full), (0, 8 + 3, 0));
    });
}

#[test]
fn events_taken_out_are_neither_published_nor_refused() {
    let bus = inline(8);
    let mut buffered = bus.publisher().buffered(4);
    buffered.publish(1).unwrap();
    buffered.publish(2).unwrap();
    assert_eq!(buffered.into_events(), [1, 2]);
    assert!(bus.publisher().buffered(4).into_events().is_empty());
    assert_eq!(bus.stats().published(), 0);
}

/// The incoming queue has capacity for two entries.
#[test]
fn a_drop_does_not_wait_for_capacity() {
    watched(|| {
        let bus = bus(2, 1);
        let held = hold(&bus);
        let [mut first, mut second, mut third] = [(); 3].map(|()| bus.publisher().buffered(4));
        for (event, buffered) in [&mut first, &mut second, &mut third].into_iter().enumerate() {
            buffered.publish(2 * event as u64).unwrap();
            buffered.publish(2 * event as u64 + 1).unwrap();
        }
        drop(first);
        drop(second);
        assert_eq!(third.try_flush(), Err(Full(())));
        assert_eq!(third.buffer(), [4, 5]);
        drop(third);
        let stats = bus.stats();
        assert_eq!((stats.pending, stats.rejected_full), (4, 2 + 2));
        drop(held);
        assert_eq!(bus.shutdown().bus.accepted, 2 + 4);
    });
}

#[test]
fn a_full_buffer_waits_for_capacity() {
    watched(|| {
        let bus = bus(1, 1);
        let held = hold(&bus);
        bus.publisher().publish(0).unwrap();
        let mut buffered = bus.publisher().buffered(2);
        buffered.publish(1).unwrap();
        let publishing = thread::spawn(move || buffered.publish(2));
        drop(held);
        assert_eq!(publishing.join().unwrap(), Ok(()));
        assert_eq!(bus.shutdown().bus.accepted, 2 + 3);
    });
}

/// The thread of a handler must not wait for its own bus.
#[test]
fn a_handler_gets_back_the_event_that_does_not_fit_and_can_publish_it_later() {
    watched(|| {
        let bus = bus::<u64>(1, 8);
        let (go, wait) = mpsc::channel::<()>();
        let (results_tx, results) = mpsc::channel();
        let publisher = bus.publisher();
        let handle = bus.watch_builder().spawn(move |_| {
            if wait.recv().is_ok() {
                let mut buffered = publisher.buffered(2);
                let results = [buffered.publish(1), buffered.publish(2), buffered.publish(2)];
                results_tx.send((results, buffered)).unwrap();
            }
        });
        let handle = handle.unwrap();
        let held = hold(&bus);
        bus.publisher().publish(0).unwrap();
        go.send(()).unwrap();
        let (published, mut buffered) = results.recv_timeout(LONG).unwrap();
        drop(go);
        assert_eq!(published, [Ok(()), Err(Full(2)), Err(Full(2))]);
        assert_eq!((buffered.buffer(), bus.stats().rejected_full), (&[1][..], 4));
        drop(held);
        assert_eq!(buffered.publish(2), Ok(()));
        assert_eq!((bus.shutdown().bus.accepted, handle.stats().delivered), (2 + 3, 2 + 3));
    });
}

/// On an inline bus, a piece ends where it exhausts the capacity of a watcher.
#[test]
fn the_rest_of_a_batch_that_fits_only_partly_stays_in_the_buffer() {
    let bus = inline(3);
    let mut watcher = bus.watch_builder().overflow(Wait).watch().unwrap();
    let mut buffered = bus.publisher().buffered(8);
    (1..=5).for_each(|event| buffered.publish(event).unwrap());
    assert_eq!(buffered.try_flush(), Err(Full(())));
    assert_eq!(buffered.buffer(), [4, 5]);
    assert_eq!(available(&mut watcher), [1, 2, 3].map(Event));
    buffered.publish(6).unwrap();
    drop(buffered);
    assert_eq!(available(&mut watcher), [4, 5, 6].map(Event));
    assert_eq!(bus.stats().rejected_full, 2);
}

#[test]
fn a_panic_publishes_what_the_buffer_holds() {
    let bus = inline(8);
    let mut watcher = bus.watch().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let mut buffered = bus.publisher().buffered(4);
        buffered.publish(1).unwrap();
        panic!("the publisher panics on purpose");
    }));
    assert!(panicked.is_err());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
}

#[test]
fn a_channel_stays_open_until_the_buffer_is_published() {
    let (publisher, mut watcher) = eventcast::channel(8);
    let mut buffered = publisher.buffered(4);
    drop(publisher);
    buffered.publish(1).unwrap();
    drop(buffered);
    assert_eq!((watcher.recv(), watcher.recv().is_err()), (Ok(Event(1)), true));
}

/// A filter runs inside the publish call.
#[test]
fn a_filter_of_an_inline_bus_publishes_a_buffer_after_the_event() {
    let bus = inline(8);
    let publisher = bus.publisher();
    let filter = move |event: &u64| {
        if *event == 0 {
            let mut buffered = publisher.buffered(4);
            buffered.publish(1).unwrap();
            buffered.publish(2).unwrap();
        }
        true
    };
    let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(0).unwrap();
    assert_eq!(available(&mut watcher), [0, 1, 2].map(Event));
}
