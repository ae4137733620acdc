//! crossbeam-channel 0.5.17: values, capacities and lengths, with one thread that both sends and
//! receives.

use std::sync::Arc;
use std::time::Duration;

use eventcast::error::{PublishError, RecvTimeoutError, TryRecvError};

use super::bounded;
use crate::kinds::on_both_kinds;
use crate::support::LONG;

/// A timeout short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(1);

/// `smoke`. `mpsc.rs`: `smoke`, `smoke_shared`, `recv_timeout`, `recv_timeout_upgrade`, and of
/// `oneshot_single_thread`: `_send_then_recv`, `_peek_data`, `_peek_open`, `_try_send_open`,
/// `_try_recv_open` and `_recv_timeout`. `ready.rs`: `preflight2`, the clone that is dropped first.
#[test]
fn a_value_is_received_once() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        drop(tx.clone());
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        tx.put(6);
        assert_eq!(rx.try_recv(), Ok(6));
        // A blocking receive does not need a flush before it.
        tx.send(7).unwrap();
        assert_eq!(rx.recv(), Ok(7));
        let clone = tx.clone();
        drop(tx);
        assert_eq!(clone.try_send(8), Ok(()));
        assert_eq!(rx.recv(), Ok(8));
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        for value in 9..12 {
            assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            clone.send(value).unwrap();
            assert_eq!(rx.recv_timeout(LONG), Ok(value));
        }
    });
}

/// `capacity`, `try_send`, `send_timeout_nonfull_expired`, and `send_timeout` without the receiver
/// that is dropped. `mpsc.rs`: `try_send2`.
#[test]
fn a_queue_takes_its_capacity_and_returns_the_next_value_until_a_receive() {
    on_both_kinds(|kind| {
        for capacity in 1..10 {
            let (tx, mut rx) = bounded(kind, capacity);
            assert_eq!(tx.send_timeout(0, Duration::ZERO), Ok(()));
            assert_eq!(rx.recv(), Ok(0));
            let accepted = tx.fill(capacity);
            // Difference: the handles have no method that returns the capacity, and a dispatcher
            // accepts further values that it holds itself.
            assert_eq!((rx.watcher().len(), accepted), (capacity, capacity + tx.beyond()));
            let refused = Err(PublishError::Full(99));
            assert_eq!(tx.try_send(99), refused);
            assert_eq!([Duration::ZERO, SHORT].map(|timeout| tx.send_timeout(99, timeout)), [refused; 2]);
            assert_eq!(rx.recv(), Ok(0));
            assert_eq!(tx.send_timeout(accepted, LONG), Ok(()));
            drop(tx);
            assert!(rx.into_iter().eq(1..=accepted));
        }
    });
}

/// `len_empty_full`, and `len` with one thread. The case with two threads is
/// `threads::one_thread_receives_what_another_sends_in_order`.
///
/// Difference: only the receiver has a length. A sender finds out that a queue is full when it
/// sends.
#[test]
fn a_length_is_exact_each_time_round() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 10);
        for _ in 0..5 {
            assert!(rx.watcher().is_empty());
            for sent in 0..10 {
                tx.put(sent);
                assert_eq!((rx.watcher().len(), rx.watcher().is_empty()), (sent + 1, false));
            }
            for received in 0..10 {
                assert_eq!(rx.recv(), Ok(received));
                assert_eq!(rx.watcher().len(), 9 - received);
            }
        }
    });
}

/// `golang.rs`: `test_chan_send_interface`, `zero_size_struct`, `zero_size_array`.
#[test]
fn a_value_may_own_memory_and_have_any_type_and_no_size() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded::<Arc<dyn std::any::Any + Send + Sync>>(kind, 1);
        tx.send(Arc::new("a string".to_owned())).unwrap();
        let value = rx.recv().unwrap().downcast::<String>().unwrap();
        assert_eq!(*value, "a string");

        let (tx, mut rx) = bounded::<[u8; 0]>(kind, 2);
        tx.put([]);
        tx.put([]);
        assert_eq!([rx.try_recv(), rx.try_recv()], [Ok([]), Ok([])]);
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
    });
}
