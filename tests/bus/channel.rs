//! `channel`: a bus with one publisher and one watcher.

use std::panic;
use std::sync::Barrier;
use std::thread;

use eventcast::bus::EndReason;
use eventcast::error::{PublishError, TryRecvError};
use eventcast::{Broadcaster, Publisher, channel};
use futures::StreamExt;
use futures::executor::block_on;

use crate::support::{buses, watched};

#[test]
fn a_channel_delivers_every_event_in_order_and_then_ends() {
    let (publisher, mut watcher) = channel(3);
    let publishing = thread::spawn(move || {
        for number in 0..10_000_u32 {
            publisher.publish(number).unwrap();
        }
    });
    assert!(watcher.events().eq(0..10_000));
    assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
    publishing.join().unwrap();
}

#[test]
fn a_channel_holds_exactly_its_capacity() {
    let (publisher, mut watcher) = channel(4);
    for number in 1..=4 {
        publisher.try_publish(number).unwrap();
        assert_eq!(watcher.len(), number);
    }
    assert_eq!(publisher.try_publish(5), Err(PublishError::Full(5)));
    assert_eq!(watcher.recv().unwrap().event(), Some(1));
    publisher.try_publish(6).unwrap();
    assert_eq!(publisher.try_publish(7), Err(PublishError::Full(7)));
    drop(publisher);
    assert_eq!(watcher.events().collect::<Vec<_>>(), [2, 3, 4, 6]);
    assert_eq!(watcher.stats().dropped.total(), 0);
}

#[test]
fn the_last_publisher_of_a_channel_closes_it() {
    watched(|| (0..200).for_each(|_| drop_two_publishers()));
}

/// Drops the two publishers of a channel on two threads at the same time.
fn drop_two_publishers() {
    let (publisher, mut watcher) = channel(10);
    let barrier = Barrier::new(2);
    thread::scope(|scope| {
        for publisher in [publisher.clone(), publisher] {
            let barrier = &barrier;
            scope.spawn(move || {
                barrier.wait();
                assert!(!publisher.is_closed());
                publisher.try_publish(1).unwrap();
            });
        }
    });
    assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 1]);
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
}

#[test]
fn a_publisher_of_another_bus_does_not_keep_it_open() {
    let bus = Broadcaster::<u8>::new_inline();
    let publishers = [bus.publisher(), bus.publisher().clone()];
    drop(bus);
    assert!(publishers.iter().all(Publisher::is_closed));
}

#[test]
fn a_channel_without_its_watcher_still_accepts_events() {
    let (publisher, watcher) = channel(1);
    publisher.try_publish(1).unwrap();
    drop(watcher);
    assert_eq!(publisher.try_publish(2), Ok(()));
    assert_eq!(publisher.publish(3), Ok(()));
}

#[test]
fn user_code_of_another_bus_can_build_a_channel() {
    for bus in buses(10) {
        let build = |&number: &u64| {
            let (publisher, mut watcher) = channel(1);
            publisher.try_publish(number).unwrap();
            watcher.recv().unwrap().event() == Some(number)
        };
        let mut watcher = bus.watch_builder().filter(build).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        bus.shutdown();
        assert_eq!(watcher.events().collect::<Vec<_>>(), [1]);
    }
}

#[test]
fn tasks_publish_and_read_a_channel() {
    let (publisher, watcher) = channel(2);
    let publishing = thread::spawn(move || {
        for number in 1..=1_000_u64 {
            block_on(publisher.publish_async(number)).unwrap();
        }
    });
    let read: Vec<_> = block_on(watcher.into_events().collect());
    assert!(read.into_iter().eq(1..=1_000));
    publishing.join().unwrap();
}

#[test]
fn a_capacity_out_of_range_panics_with_the_range() {
    for capacity in [0, 16_777_217] {
        let refused = panic::catch_unwind(|| channel::<u8>(capacity)).unwrap_err();
        let text = refused.downcast_ref::<String>().unwrap();
        let range = format!("queue_capacity must be 1 to 16777216 events, got {capacity}");
        assert_eq!(*text, format!("invalid capacity of a channel: {range}"));
    }
}
