//! tokio: `tokio/tests/sync_broadcast.rs`, the cases that involve neither lag nor tasks. A receiver
//! is a watcher, and the sender is the bus.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use eventcast::error::TryRecvError;
use eventcast::{Broadcaster, Delivery};

use crate::kinds::on_both_kinds;
use crate::support::{Channel, channel};

/// `send_try_recv_bounded`, `single_capacity_recvs`, `send_two_recv`.
#[test]
fn each_receiver_receives_a_value_once() {
    on_both_kinds(|kind| {
        for capacity in [1, 16] {
            let (tx, mut rx1) = channel(kind, capacity);
            let mut rx2 = tx.subscribe();
            assert_eq!(rx1.try_recv(), Err(TryRecvError::Empty));
            tx.send("hello");
            for rx in [&mut rx1, &mut rx2] {
                assert_eq!(rx.try_recv(), Ok(Delivery::Event("hello")));
                assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
            }
        }
    });
}

/// `drop_rx_while_values_remain`.
#[test]
fn receivers_that_are_dropped_with_values_do_no_harm() {
    on_both_kinds(|kind| {
        let (tx, mut rx1) = channel(kind, 16);
        let mut rx2 = tx.subscribe();
        tx.send("one");
        tx.send("two");
        for rx in [&mut rx1, &mut rx2] {
            assert_eq!(rx.try_recv(), Ok(Delivery::Event("one")));
        }
        drop((rx2, rx1));
        tx.send("three");
        assert!(tx.bus.shutdown().complete);
    });
}

/// `send_no_rx`, `receiver_same_position_as_cloned`.
#[test]
fn a_value_without_a_receiver_is_accepted_and_a_receiver_begins_where_it_subscribes() {
    on_both_kinds(|kind| {
        let tx = Channel::new(kind, 16);
        // Difference: tokio returns an error. Here, as in Go, publishers do not depend on watchers.
        tx.send(0);
        let mut rx = tx.subscribe();
        tx.send(1);
        // Difference: a clone in tokio starts at the position of the original. A `Watcher` cannot
        // be cloned, and `Start` sets the position in the history at which a new watcher starts.
        let mut other = tx.subscribe();
        assert_eq!(other.try_recv(), Err(TryRecvError::Empty));
        tx.send(2);
        assert!(rx.try_iter().eq([1, 2].map(Delivery::Event)));
        assert!(other.try_iter().eq([Delivery::Event(2)]));
    });
}

/// `zero_capacity`, `capacity_too_big`, and a queue length of zero, which most of apimachinery's
/// tests use.
#[test]
fn an_impossible_capacity_is_an_error() {
    on_both_kinds(|kind| {
        for capacity in [0, 1 + (usize::MAX >> 1)] {
            // Difference: tokio panics. Here the length may be read from a file, so an invalid
            // length is an error.
            let error = Broadcaster::<()>::with_options(kind.options().queue_capacity(capacity)).unwrap_err();
            assert_eq!(error.option(), "queue_capacity");
        }
    });
}

/// `panic_in_clone`.
#[test]
fn a_value_whose_clone_panics_is_skipped() {
    on_both_kinds(|kind| {
        #[derive(Debug, PartialEq)]
        struct Value(usize);
        impl Clone for Value {
            fn clone(&self) -> Self {
                assert_ne!(self.0, 0);
                Self(self.0)
            }
        }
        let (tx, mut rx) = channel(kind, 16);
        tx.send(Value(0));
        tx.send(Value(1));
        assert!(catch_unwind(AssertUnwindSafe(|| rx.try_recv())).is_err());
        assert_eq!(rx.try_recv(), Ok(Delivery::Event(Value(1))));
    });
}

/// `unconsumed_messages_are_dropped`.
#[test]
fn unreceived_values_are_dropped_with_the_receiver() {
    on_both_kinds(|kind| {
        let (tx, rx) = channel(kind, 16);
        let value = Arc::new(());
        tx.send(value.clone());
        assert_eq!(Arc::strong_count(&value), 2);
        drop(rx);
        tx.settle();
        assert_eq!(Arc::strong_count(&value), 1);
    });
}

/// `single_capacity_recvs_after_drop_1`, `dropping_sender_does_not_overwrite`.
#[test]
fn queued_values_outlive_the_sender() {
    on_both_kinds(|kind| {
        for capacity in [1, 2] {
            let (tx, mut rx) = channel(kind, capacity);
            for value in 1..=capacity {
                tx.send(value);
            }
            drop(tx);
            assert!(rx.events().eq(1..=capacity));
            assert_eq!(rx.try_recv(), Err(TryRecvError::Ended));
        }
    });
}
