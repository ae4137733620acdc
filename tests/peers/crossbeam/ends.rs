//! crossbeam-channel 0.5.17: the end of a channel, caused by either side, and what happens to the
//! values.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use eventcast::error::{RecvError, TryRecvError};

use super::{Sender, bounded};
use crate::kinds::on_both_kinds;
use crate::support::{LONG, until};

/// `send_after_disconnect`, whose end-of-bus part is in `bus::end::shutdown`. `mpsc.rs`:
/// `smoke_port_gone`, `smoke_shared_port_gone`, `smoke_shared_port_gone2`, `send2`,
/// `oneshot_single_thread_try_send_closed`, `oneshot_single_thread_send_port_close`, `try_send3`,
/// `issue_32114`.
#[test]
fn a_send_without_a_receiver_is_accepted_and_its_value_dropped() {
    on_both_kinds(|kind| {
        for queued in 0..3 {
            let (tx, rx) = bounded(kind, 100);
            let value = Arc::new(());
            for _ in 0..queued {
                tx.send(value.clone()).unwrap();
            }
            drop(rx);
            let clone = tx.clone();
            drop(tx);
            // Difference: a channel returns the value. Publishers do not depend on watchers.
            let sends =
                [Sender::send, Sender::try_send, |tx: &Sender<_>, value| tx.send_timeout(value, LONG)];
            for send in sends {
                assert!(send(&clone, value.clone()).is_ok());
                clone.settle();
            }
            assert_eq!((clone.bus.watcher_count(), Arc::strong_count(&value)), (0, 1));
        }
    });
}

/// `recv_after_disconnect`. `mpsc.rs`: `smoke_chan_gone`, `smoke_chan_gone_shared`, and of
/// `oneshot_single_thread`: `_recv_chan_close`, `_try_recv_closed`, `_try_recv_closed_with_data`
/// and `_peek_close`. `golang.rs`: `test_chan`, the receive from a closed channel. `ready.rs`:
/// `preflight2`.
#[test]
fn queued_values_are_received_before_the_end_which_is_returned_each_time() {
    on_both_kinds(|kind| {
        for count in 0..10 {
            let (tx, mut rx) = bounded(kind, 10);
            for value in 0..count {
                tx.send(value).unwrap();
            }
            tx.disconnect();
            for value in 0..count {
                assert_eq!(rx.recv(), Ok(value));
            }
            for _ in 0..2 {
                assert_eq!(rx.try_recv(), Err(TryRecvError::Ended));
                assert_eq!(rx.recv(), Err(RecvError));
            }
        }
    });
}

/// `mpsc.rs`: `port_gone_concurrent`, `port_gone_concurrent_shared`,
/// `destroy_upgraded_shared_port_when_sender_still_active`.
#[test]
fn senders_outlive_a_receiver_that_takes_one_value() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let clone = tx.clone();
        let receiver = thread::spawn(move || rx.recv().unwrap());
        // Difference: the sends are accepted, so the senders check for themselves whether there is
        // a watcher.
        while tx.bus.watcher_count() > 0 {
            assert!(tx.send(1).is_ok() && clone.send(1).is_ok());
        }
        assert_eq!(receiver.join().unwrap(), 1);
    });
}

/// `mpsc.rs`: `oneshot_single_thread_close_port_first`, `oneshot_single_thread_close_chan_first`,
/// `drop_full`, `drop_full_shared`.
#[test]
fn either_side_may_be_dropped_first() {
    on_both_kinds(|kind| {
        for sent in 0..2 {
            let value = Arc::new(());
            let (tx, rx) = bounded(kind, 1);
            for _ in 0..sent {
                tx.put(value.clone());
            }
            drop((rx, tx));
            let (tx, rx) = bounded(kind, 1);
            for _ in 0..sent {
                tx.put(value.clone());
            }
            drop((tx, rx));
            // The dispatcher may still hold a value.
            until(|| Arc::strong_count(&value) == 1);
        }
    });
}

/// `mpsc.rs`: `oneshot_multi_thread_close_stress`, `oneshot_multi_thread_send_close_stress`,
/// `oneshot_multi_thread_recv_close_stress`.
#[test]
fn a_drop_may_run_beside_a_drop_a_send_and_a_receive() {
    on_both_kinds(|kind| {
        for _ in 0..10 {
            let (tx, rx) = bounded::<u8>(kind, 1);
            let dropping = thread::spawn(move || drop(rx));
            drop(tx);
            dropping.join().unwrap();

            let (tx, rx) = bounded(kind, 1);
            let dropping = thread::spawn(move || drop(rx));
            assert_eq!(tx.send(1), Ok(()));
            dropping.join().unwrap();

            let (tx, mut rx) = bounded::<u8>(kind, 1);
            let dropping = thread::spawn(move || drop(tx));
            assert_eq!(rx.recv(), Err(RecvError));
            dropping.join().unwrap();
        }
    });
}

/// `golang.rs`: `test_nonblock_recv_race`.
#[test]
fn a_queued_value_is_seen_beside_a_close() {
    on_both_kinds(|kind| {
        for _ in 0..20 {
            let (tx, mut rx) = bounded(kind, 1);
            tx.put(1);
            let receiver = thread::spawn(move || rx.try_recv());
            tx.bus.close();
            assert_eq!(receiver.join().unwrap(), Ok(1));
        }
    });
}

/// A value that is counted while it is alive.
#[derive(Debug)]
struct Counted {
    alive: Arc<AtomicUsize>,
    panics: bool,
}

impl Counted {
    fn new(alive: &Arc<AtomicUsize>, panics: bool) -> Self {
        alive.fetch_add(1, Ordering::SeqCst);
        Self { alive: alive.clone(), panics }
    }
}

impl Clone for Counted {
    fn clone(&self) -> Self {
        Self::new(&self.alive, self.panics)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
        assert!(!self.panics || thread::panicking(), "a value panics in its drop");
    }
}

/// `drops`.
#[test]
fn each_value_is_dropped_once() {
    on_both_kinds(|kind| {
        for (received, queued) in [(0, 20), (1, 0), (7, 13), (60, 19)] {
            let alive = Arc::new(AtomicUsize::new(0));
            let (tx, mut rx) = bounded(kind, 50);
            thread::scope(|scope| {
                scope.spawn(|| (0..received).for_each(|_| drop(rx.recv().unwrap())));
                scope.spawn(|| (0..received).for_each(|_| tx.send(Counted::new(&alive, false)).unwrap()));
            });
            tx.settle();
            // Difference: a receiver may hold the last event until its next call.
            assert!(rx.try_recv().is_err());
            assert_eq!(alive.load(Ordering::SeqCst), 0);
            (0..queued).for_each(|_| tx.put(Counted::new(&alive, false)));
            assert_eq!(alive.load(Ordering::SeqCst), queued);
            tx.disconnect();
            drop(rx);
            assert_eq!(alive.load(Ordering::SeqCst), 0);
        }
    });
}

/// `panic_on_drop`.
#[test]
fn a_value_that_panics_in_its_drop_leaks_no_other() {
    on_both_kinds(|kind| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (tx, rx) = bounded(kind, 3);
        for panics in [false, true, false] {
            tx.put(Counted::new(&alive, panics));
        }
        tx.disconnect();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(rx)));
        // Difference: crossbeam propagates the panic and leaks the values after the panicking
        // value.
        assert!(dropped.is_ok());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}
