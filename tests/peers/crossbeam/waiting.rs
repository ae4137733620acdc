//! crossbeam-channel 0.5.17: sends and receives that wait for another thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::error::{RecvError, RecvTimeoutError, TryRecvError};

use super::bounded;
use crate::kinds::on_both_kinds;
use crate::support::{LONG, join, until};

/// A timeout short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(1);

/// `recv`, `disconnect_wakes_receiver`. `mpsc.rs`: `oneshot_multi_task_recv_then_send` and
/// `_recv_then_close`, `smoke_threads`, `send1`. `golang.rs`: `test_chan`, the receive from an
/// empty channel, and the close that ends a receive.
#[test]
fn a_receive_waits_for_a_later_send_and_for_the_end() {
    on_both_kinds(|kind| {
        for count in 0..3 {
            let (tx, mut rx) = bounded(kind, 1);
            let (waits, waiting) = mpsc::channel();
            let receiver = thread::spawn(move || {
                assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
                waits.send(()).unwrap();
                for value in 0..count {
                    assert_eq!(rx.recv(), Ok(Box::new(value)));
                }
                assert_eq!(rx.recv(), Err(RecvError));
            });
            waiting.recv().unwrap();
            for value in 0..count {
                tx.send(Box::new(value)).unwrap();
            }
            drop(tx);
            receiver.join().unwrap();
        }
    });
}

/// `try_recv`, `recv_timeout`. `mpsc.rs`: `try_recv_states`.
#[test]
fn a_receive_that_does_not_wait_long_sees_nothing_then_the_value_then_the_end() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 100);
        let (step, steps) = mpsc::channel();
        let (done, dones) = mpsc::channel();
        let sender = thread::spawn(move || {
            steps.recv().unwrap();
            tx.put(7);
            done.send(()).unwrap();
            steps.recv().unwrap();
            tx.send(8).unwrap();
            steps.recv().unwrap();
            tx.disconnect();
            done.send(()).unwrap();
        });
        let next = || step.send(()).unwrap();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Empty));
        next();
        dones.recv().unwrap();
        assert_eq!([rx.try_recv(), rx.try_recv()], [Ok(7), Err(TryRecvError::Empty)]);
        assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        next();
        assert_eq!(rx.recv_timeout(LONG), Ok(8));
        next();
        assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
        dones.recv().unwrap();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Ended));
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

/// `disconnect_wakes_sender`, `send_timeout`. `mpsc.rs`: `send3`, and `send4` with a queue that is
/// full.
#[test]
fn a_receive_and_the_drop_of_a_full_receiver_wake_the_senders() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let accepted = tx.fill(1);
        // Difference: these sends are accepted, because the bus keeps working without the receiver.
        let first = thread::spawn({
            let tx = tx.clone();
            move || tx.send_timeout(accepted, LONG).unwrap()
        });
        let second = thread::spawn({
            let tx = tx.clone();
            move || tx.send(accepted).unwrap()
        });
        assert_eq!(rx.recv(), Ok(0));
        // One of the senders continues now, and the other sender continues after the drop.
        until(|| first.is_finished() || second.is_finished());
        drop(rx);
        join([first, second]);
        tx.settle();
        assert_eq!(tx.bus.stats().accepted, accepted as u64 + 2);
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
