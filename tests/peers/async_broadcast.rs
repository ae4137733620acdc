//! async-broadcast 0.7.2: `tests/test.rs`. A receiver is a watcher, and the sender is the bus. A
//! channel without its overflow mode is a bus with `Wait`, and the overflow mode is `DropOldest`.
//!
//! Some methods have no counterpart. `set_capacity` and `set_overflow` of a channel in use
//! (`channel_shrink`) have none, because a watcher keeps the queue and the policy that it was
//! registered with. `deactivate` with `set_await_active` (`open_channel`, `inactive_drop`) has
//! none, because a bus is open and accepts events without watchers. The tests assert how a bus
//! behaves in these cases. Two tests are elsewhere: `overflow` and `inactive_drop` are
//! `lag::only_a_receiver_beyond_the_capacity_lags` and
//! `crossbeam::ends::a_send_without_a_receiver_is_accepted_and_its_value_dropped`.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::thread;

use eventcast::bus::Start;
use eventcast::error::{RecvError, TryRecvError};
use eventcast::{Broadcaster, Delivery, EventWatcher, OverflowPolicy, Publisher};
use futures::executor::block_on;
use futures::{Stream, StreamExt};

use crate::kinds::{Kind, on_both_kinds};
use crate::support::{LONG, join};

/// Returns a bus whose publishers wait for a full watcher, with the shortest possible incoming
/// queue.
fn broadcast<T: Clone + Send + Sync + 'static>(
    kind: Kind,
    capacity: usize,
) -> (Broadcaster<T>, Publisher<T>, EventWatcher<T>) {
    let options = kind.options().incoming_capacity(1).max_batch(1).queue_capacity(capacity);
    let bus = Broadcaster::with_options(options.overflow(OverflowPolicy::Wait)).unwrap();
    let watcher = bus.watch().unwrap().into_events();
    bus.flush(LONG).unwrap();
    (bus.clone(), bus.publisher(), watcher)
}

/// `basic_sync`, `basic_blocking`, `basic_async`.
#[test]
fn each_receiver_gets_what_threads_and_tasks_send() {
    on_both_kinds(|kind| {
        block_on(async {
            let (bus, publisher, mut first) = broadcast(kind, 1);
            let mut second = bus.watch().unwrap().into_events();
            publisher.try_publish(6).unwrap();
            bus.flush(LONG).unwrap();
            assert_eq!([first.try_recv(), second.try_recv()], [Ok(6), Ok(6)]);
            publisher.publish(7).unwrap();
            assert_eq!([first.recv_async().await, second.recv_async().await], [Ok(7), Ok(7)]);
            // Difference: receivers cannot be cloned. A new receiver starts with the next event.
            let mut third = bus.watch().unwrap().into_events();
            publisher.publish_async(8).await.unwrap();
            assert_eq!([first.recv(), second.recv(), third.recv()], [Ok(8); 3]);
            publisher.publish_async(9).await.unwrap();
            assert_eq!([first.next().await, second.next().await, third.next().await], [Some(9); 3]);
            assert_eq!(first.try_recv(), Err(TryRecvError::Empty));
        });
    });
}

/// Publishes numbers from zero until the bus refuses one, and returns the number of accepted
/// events.
fn fill(kind: Kind, capacity: usize, publisher: &Publisher<usize>) -> usize {
    // Difference: a dispatcher holds one event, and another event waits in the incoming queue.
    let accepted = capacity + if kind == Kind::Inline { 0 } else { 2 };
    for event in 0..accepted {
        publisher.publish(event).unwrap();
    }
    assert!(publisher.try_publish(accepted).unwrap_err().is_full());
    accepted
}

/// `parallel`.
#[test]
fn two_senders_are_refused_until_both_receivers_have_read() {
    on_both_kinds(|kind| {
        let (bus, publisher, first) = broadcast(kind, 2);
        let second = bus.watch().unwrap().into_events();
        let (full, is_full) = mpsc::channel();
        let sender = thread::spawn(move || {
            let other = publisher.clone();
            let accepted = fill(kind, 2, &publisher);
            assert!(other.try_publish(99).unwrap_err().is_full());
            full.send(accepted).unwrap();
            // Difference: a publisher does not keep the bus open.
            bus.close();
        });
        let accepted = is_full.recv().unwrap();
        // Difference: with a dispatcher, an event that does not fit into one receiver's queue also
        // reaches the other receiver later.
        let readers = [first, second].map(|mut watcher| {
            thread::spawn(move || {
                assert!((&mut watcher).into_iter().eq(0..accepted));
                assert_eq!(watcher.recv(), Err(RecvError));
                assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
            })
        });
        join(readers);
        sender.join().unwrap();
    });
}

/// `parallel_async`.
#[test]
fn a_task_that_sends_waits_for_the_slowest_receiver() {
    on_both_kinds(|kind| {
        let (bus, publisher, mut first) = broadcast(kind, 2);
        let second = bus.watch().unwrap().into_events();
        let accepted = fill(kind, 2, &publisher);
        let mut waits = pin!(publisher.publish_async(accepted));
        let mut poll = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        assert_eq!([first.recv(), first.recv()], [Ok(0), Ok(1)]);
        // The second receiver has read nothing yet.
        assert!(poll().is_pending());
        let reader = thread::spawn(move || second.into_iter().collect::<Vec<_>>());
        let closing = thread::spawn(move || {
            assert!((&mut first).into_iter().take(accepted - 1).eq(2..=accepted));
            first.recv()
        });
        block_on(waits).unwrap();
        bus.close();
        assert!(reader.join().unwrap().into_iter().eq(0..=accepted));
        assert_eq!(closing.join().unwrap(), Err(RecvError));
    });
}

/// `channel_shrink`.
#[test]
fn each_receiver_has_the_capacity_of_its_registration() {
    on_both_kinds(|kind| {
        let bus = Broadcaster::with_options(kind.options().overflow(OverflowPolicy::DropOldest)).unwrap();
        // Difference: the length of a queue does not change. A receiver may have a shorter queue
        // than other receivers.
        let mut long = bus.watch_builder().queue_capacity(4).watch().unwrap();
        let mut short = bus.watch_builder().queue_capacity(2).watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3, 4]).unwrap();
        bus.flush(LONG).unwrap();
        assert!(long.try_iter().eq([1, 2, 3, 4].map(Delivery::Event)));
        assert!(short.try_iter().eq([Delivery::Lagged(2), Delivery::Event(3), Delivery::Event(4)]));
    });
}

/// `open_channel`.
#[test]
fn a_send_without_receivers_does_not_wait_and_a_history_keeps_the_event() {
    on_both_kinds(|kind| {
        let bus = Broadcaster::with_options(kind.options().history(2)).unwrap();
        let publisher = bus.publisher();
        // Difference: a send does not wait for a receiver to be activated, and is not refused if
        // there is no receiver. A receiver that starts later reads the history.
        for events in [[7, 8], [9, 10]] {
            for event in events {
                publisher.try_publish(event).unwrap();
            }
            let mut late = bus.watch_builder().start(Start::Oldest).watch().unwrap().into_events();
            bus.flush(LONG).unwrap();
            assert!(late.try_iter().eq(events));
        }
    });
}

/// `poll_recv`.
#[test]
fn a_stream_reports_the_gap_then_the_events_then_the_end() {
    on_both_kinds(|kind| {
        let options = kind.options().queue_capacity(2).overflow(OverflowPolicy::DropOldest);
        let bus = Broadcaster::with_options(options).unwrap();
        let mut watcher = bus.watch().unwrap();
        for event in 1..=4 {
            bus.publisher().publish(event).unwrap();
        }
        bus.flush(LONG).unwrap();
        let mut next = || pin!(&mut watcher).poll_next(&mut Context::from_waker(Waker::noop()));
        for delivery in [Delivery::Lagged(2), Delivery::Event(3), Delivery::Event(4)] {
            assert_eq!(next(), Poll::Ready(Some(delivery)));
        }
        assert_eq!(next(), Poll::Pending);
        assert!(bus.shutdown().complete);
        assert_eq!(next(), Poll::Ready(None));
    });
}
