//! crossbeam-channel 0.5.17: sends and receives that wait for another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::error::{PublishError, RecvError, RecvTimeoutError, TryRecvError};

use super::bounded;
use crate::kinds::on_both_kinds;
use crate::support::{LONG, join};

/// A timeout that a test waits for.
const SHORT: Duration = Duration::from_millis(1);

/// `recv`.
#[test]
fn a_receive_waits_for_a_later_send_and_for_the_end() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 100);
        let (begin, begun) = mpsc::channel();
        let sender = thread::spawn(move || {
            begun.recv().unwrap();
            for value in 7..10 {
                tx.send(value).unwrap();
            }
        });
        begin.send(()).unwrap();
        for value in 7..10 {
            assert_eq!(rx.recv(), Ok(value));
        }
        assert_eq!(rx.recv(), Err(RecvError));
        sender.join().unwrap();
    });
}

/// `try_recv`. `mpsc.rs`: `try_recv_states`.
#[test]
fn a_receive_that_does_not_wait_sees_nothing_then_the_value_then_the_end() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 100);
        let (step, steps) = mpsc::channel();
        let (done, dones) = mpsc::channel();
        let sender = thread::spawn(move || {
            steps.recv().unwrap();
            tx.put(7);
            done.send(()).unwrap();
            steps.recv().unwrap();
            tx.disconnect();
            done.send(()).unwrap();
        });
        let next = || {
            step.send(()).unwrap();
            dones.recv().unwrap();
        };
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        next();
        assert_eq!([rx.try_recv(), rx.try_recv()], [Ok(7), Err(TryRecvError::Empty)]);
        next();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Ended));
        sender.join().unwrap();
    });
}

/// `recv_timeout`.
#[test]
fn a_receive_with_a_timeout_ends_by_time_then_by_a_value_then_by_the_end() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 100);
        let (step, steps) = mpsc::channel();
        let sender = thread::spawn(move || {
            steps.recv().unwrap();
            tx.send(7).unwrap();
            steps.recv().unwrap();
        });
        assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        step.send(()).unwrap();
        assert_eq!(rx.recv_timeout(LONG), Ok(7));
        step.send(()).unwrap();
        assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
        sender.join().unwrap();
    });
}

/// `send`. `golang.rs`: `test_chan`, the send to a full channel.
#[test]
fn a_send_waits_until_the_receiver_has_made_capacity() {
    on_both_kinds(|kind| {
        for capacity in [1, 2, 9] {
            let (tx, mut rx) = bounded(kind, capacity);
            let beyond = tx.beyond();
            let sent = Arc::new(AtomicUsize::new(0));
            let sender = thread::spawn({
                let sent = sent.clone();
                move || {
                    for value in 0..50 {
                        tx.send(value).unwrap();
                        sent.fetch_add(1, Ordering::SeqCst);
                    }
                }
            });
            for received in 0..50 {
                assert_eq!(rx.recv(), Ok(received));
                let most = received + 1 + capacity + beyond;
                assert!(sent.load(Ordering::SeqCst) <= most, "a send did not wait");
            }
            assert_eq!(rx.recv(), Err(RecvError));
            sender.join().unwrap();
        }
    });
}

/// `send_timeout`.
#[test]
fn a_send_with_a_timeout_succeeds_once_another_thread_has_received() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        let (step, steps) = mpsc::channel();
        let accepted = tx.fill(2);
        assert_eq!(tx.send_timeout(99, SHORT), Err(PublishError::Full(99)));
        let receiver = thread::spawn(move || {
            steps.recv().unwrap();
            assert_eq!(rx.recv(), Ok(0));
            rx
        });
        step.send(()).unwrap();
        assert_eq!(tx.send_timeout(accepted, LONG), Ok(()));
        // Difference: without a receiver, a send is still accepted.
        drop(receiver.join().unwrap());
        assert_eq!(tx.send(accepted + 1), Ok(()));
    });
}

/// `disconnect_wakes_sender`. `mpsc.rs`: `send3`.
#[test]
fn the_drop_of_a_full_receiver_wakes_the_sender() {
    on_both_kinds(|kind| {
        let (tx, rx) = bounded(kind, 1);
        let accepted = tx.fill(1);
        let sender = thread::spawn(move || {
            // Difference: this send is accepted, because the bus continues without the receiver.
            assert_eq!(tx.send(accepted), Ok(()));
            tx.settle();
            assert_eq!(tx.bus.stats().accepted, accepted as u64 + 1);
        });
        drop(rx);
        sender.join().unwrap();
    });
}

/// `mpsc.rs`: `send4`, with a queue that is full.
#[test]
fn the_drop_of_a_full_receiver_wakes_all_senders() {
    on_both_kinds(|kind| {
        let (tx, rx) = bounded(kind, 1);
        tx.fill(1);
        let senders = [1, 2].map(|value| {
            let tx = tx.clone();
            thread::spawn(move || tx.send(value).unwrap())
        });
        drop(rx);
        join(senders);
    });
}

/// The other end of `disconnect_wakes_sender`, which a channel does not have.
#[test]
fn the_close_of_the_bus_wakes_a_sender_with_its_value() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let accepted = tx.fill(1);
        let sender = thread::spawn({
            let publisher = tx.publisher.clone();
            move || publisher.publish(99)
        });
        tx.bus.close();
        assert_eq!(sender.join().unwrap(), Err(PublishError::Closed(99)));
        // The values that were accepted before are received.
        assert!((&mut rx).into_iter().eq(0..accepted));
    });
}

/// `disconnect_wakes_receiver`. `mpsc.rs`: `oneshot_multi_task_recv_then_close`. `golang.rs`:
/// `test_chan`, the close that ends a receive.
#[test]
fn the_drop_of_the_last_sender_wakes_the_receiver() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded::<()>(kind, 1);
        let receiver = thread::spawn(move || rx.recv());
        drop(tx);
        assert_eq!(receiver.join().unwrap(), Err(RecvError));
    });
}

/// `mpsc.rs`: `oneshot_multi_task_recv_then_send`, `smoke_threads`, `send1`. `golang.rs`:
/// `test_chan`, the receive from an empty channel.
#[test]
fn a_thread_that_waits_receives_the_value() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let (waits, waiting) = mpsc::channel();
        let receiver = thread::spawn(move || {
            assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
            waits.send(()).unwrap();
            rx.recv()
        });
        waiting.recv().unwrap();
        tx.send(Box::new(10)).unwrap();
        assert_eq!(receiver.join().unwrap(), Ok(Box::new(10)));
    });
}

/// `mpsc.rs`: `no_runtime`, `issue_15761`.
#[test]
fn two_threads_answer_each_other() {
    on_both_kinds(|kind| {
        for _ in 0..10 {
            let (ask, mut asked) = bounded(kind, 3);
            let (answer, mut answers) = bounded(kind, 3);
            let other = thread::spawn(move || {
                assert_eq!(asked.recv(), Ok(1));
                answer.try_send(2).unwrap();
            });
            ask.try_send(1).unwrap();
            assert_eq!(answers.recv(), Ok(2));
            other.join().unwrap();
        }
    });
}
