//! crossbeam-channel 0.5.17: one thread sends and receives. Values, capacities and lengths.

use std::sync::Arc;
use std::time::Duration;

use eventcast::error::{PublishError, RecvTimeoutError, TryRecvError};

use super::bounded;
use crate::kinds::on_both_kinds;
use crate::support::LONG;

/// A timeout that a test waits for.
const SHORT: Duration = Duration::from_millis(1);

/// `smoke`. `mpsc.rs`: `smoke`, `oneshot_single_thread_send_then_recv`,
/// `oneshot_single_thread_peek_data` and `_peek_open`.
#[test]
fn a_value_is_received_once() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        tx.put(7);
        assert_eq!(rx.try_recv(), Ok(7));
        // A receive that waits needs no flush before it.
        tx.send(8).unwrap();
        assert_eq!(rx.recv(), Ok(8));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
    });
}

/// `mpsc.rs`: `oneshot_single_thread_try_send_open`, `oneshot_single_thread_try_recv_open`.
#[test]
fn a_value_that_does_not_wait_is_received() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        assert_eq!(tx.try_send(10), Ok(()));
        assert_eq!(rx.recv(), Ok(10));
    });
}

/// `mpsc.rs`: `recv_timeout`, `recv_timeout_upgrade`, `oneshot_single_thread_recv_timeout`.
#[test]
fn a_receive_after_one_that_timed_out_returns_the_value() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        for value in 0..3 {
            assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            tx.send(value).unwrap();
            assert_eq!(rx.recv_timeout(LONG), Ok(value));
        }
    });
}

/// `mpsc.rs`: `smoke_shared`. `ready.rs`: `preflight2`, the clone that is dropped first.
#[test]
fn the_clones_of_a_sender_send_to_one_receiver() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        drop(tx.clone());
        tx.send(1).unwrap();
        assert_eq!(rx.recv(), Ok(1));
        let clone = tx.clone();
        drop(tx);
        clone.send(2).unwrap();
        assert_eq!(rx.recv(), Ok(2));
    });
}

/// `capacity`. `mpsc.rs`: `try_send2`.
#[test]
fn a_queue_takes_its_capacity_and_refuses_the_next_value() {
    on_both_kinds(|kind| {
        for capacity in 1..10 {
            let (tx, rx) = bounded(kind, capacity);
            let accepted = tx.fill(capacity);
            assert_eq!(tx.try_send(accepted), Err(PublishError::Full(accepted)));
            // Difference: there is no getter of a capacity on the handles, and a dispatcher accepts
            // the values that it holds itself.
            assert_eq!((rx.watcher().len(), accepted), (capacity, capacity + tx.beyond()));
            drop(tx);
            assert!(rx.into_iter().eq(0..accepted));
        }
    });
}

/// `len_empty_full`.
#[test]
fn a_length_follows_sends_and_receives() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        assert!(rx.watcher().is_empty());
        for length in 1..=2 {
            tx.put(());
            assert_eq!((rx.watcher().len(), rx.watcher().is_empty()), (length, false));
        }
        rx.recv().unwrap();
        // Difference: only the receiver has a length. A sender learns that a queue is full when it
        // sends.
        assert_eq!((rx.watcher().len(), rx.watcher().is_empty()), (1, false));
    });
}

/// `len`, with one thread. The case with two is `threads::a_length_never_exceeds_the_capacity`.
#[test]
fn a_length_is_exact_each_time_round() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 10);
        for _ in 0..5 {
            for sent in 0..10 {
                tx.put(sent);
                assert_eq!(rx.watcher().len(), sent + 1);
            }
            for received in 0..10 {
                assert_eq!(rx.recv(), Ok(received));
                assert_eq!(rx.watcher().len(), 9 - received);
            }
        }
    });
}

/// `try_send`. `mpsc.rs`: `try_send2`.
#[test]
fn a_refused_value_is_returned_and_a_receive_makes_capacity() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let accepted = tx.fill(1);
        assert_eq!(tx.try_send(99), Err(PublishError::Full(99)));
        for value in 0..accepted {
            assert_eq!(rx.recv(), Ok(value));
        }
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(tx.try_send(accepted), Ok(()));
        assert_eq!(rx.recv(), Ok(accepted));
    });
}

/// `send_timeout_nonfull_expired`.
#[test]
fn a_send_whose_time_is_up_still_uses_free_capacity() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        assert_eq!(tx.send_timeout(0, Duration::ZERO), Ok(()));
        assert_eq!(rx.recv(), Ok(0));
        let accepted = tx.fill(1);
        assert_eq!(tx.send_timeout(9, Duration::ZERO), Err(PublishError::Full(9)));
        drop(tx);
        assert!(rx.into_iter().eq(0..accepted));
    });
}

/// `send_timeout`, without the receiver that is dropped.
#[test]
fn a_send_that_timed_out_returns_the_value_and_the_next_one_succeeds() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        let accepted = tx.fill(2);
        assert_eq!(tx.send_timeout(99, SHORT), Err(PublishError::Full(99)));
        assert_eq!(rx.recv(), Ok(0));
        assert_eq!(tx.send_timeout(accepted, LONG), Ok(()));
        drop(tx);
        assert!(rx.into_iter().eq(1..=accepted));
    });
}

/// `mpsc.rs`: `recv_a_lot`. `golang.rs`: `asynch_fifo`.
#[test]
fn many_values_arrive_in_order() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 200);
        for value in 0..200 {
            tx.send(value).unwrap();
        }
        tx.settle();
        assert_eq!(rx.watcher().len(), 200);
        assert!(rx.try_iter().eq(0..200));
    });
}

/// `golang.rs`: `zero_size_struct`, `zero_size_array`.
#[test]
fn values_without_a_size_are_counted() {
    #[derive(Clone, Debug, PartialEq)]
    struct Nothing;
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        tx.put(Nothing);
        tx.put(Nothing);
        assert_eq!([rx.try_recv(), rx.try_recv()], [Ok(Nothing), Ok(Nothing)]);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        let (tx, mut rx) = bounded::<[u8; 0]>(kind, 1);
        tx.put([]);
        assert_eq!(rx.try_recv(), Ok([]));
    });
}

/// `golang.rs`: `test_chan_send_interface`.
#[test]
fn a_value_may_own_memory_and_have_any_type() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded::<Arc<dyn std::any::Any + Send + Sync>>(kind, 1);
        tx.send(Arc::new("a string".to_owned())).unwrap();
        let value = rx.recv().unwrap().downcast::<String>().unwrap();
        assert_eq!(*value, "a string");
    });
}
