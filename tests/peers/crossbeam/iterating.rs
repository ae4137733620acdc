//! crossbeam-channel 0.5.17: loops over the values of a receiver. Names without a file refer to
//! `iter.rs`. `mpsc.rs` repeats those cases with the prefix `test_`.

use std::thread;

use super::bounded;
use crate::kinds::on_both_kinds;

/// `nested_recv_iter`, `recv_into_iter_borrowed`, `recv_into_iter_owned`.
#[test]
fn a_loop_over_a_receiver_ends_with_the_last_sender() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let receiver = thread::spawn(move || {
            assert!((&mut rx).into_iter().eq([3, 1, 2]));
            // After the loop, the receiver is at its end.
            assert!(rx.recv().is_err());
            assert_eq!(rx.into_iter().next(), None);
        });
        for value in [3, 1, 2] {
            tx.send(value).unwrap();
        }
        drop(tx);
        receiver.join().unwrap();
    });
}

/// `recv_iter_break`.
#[test]
fn a_loop_that_is_left_takes_no_further_value() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 5);
        for value in 1..=5 {
            tx.put(value);
        }
        let mut sum = 0;
        for value in &mut rx {
            sum += value;
            if sum >= 3 {
                break;
            }
        }
        assert_eq!((sum, rx.watcher().len()), (3, 3));
        drop(tx);
        assert!(rx.into_iter().eq(3..=5));
    });
}

/// `recv_try_iter`, `stress_iter` of `array.rs`.
#[test]
fn a_loop_that_does_not_wait_takes_what_has_arrived() {
    on_both_kinds(|kind| {
        let (request, mut requests) = bounded(kind, 1);
        let (response, mut responses) = bounded(kind, 1);
        let client = thread::spawn(move || {
            let mut sum = 0;
            while sum < 100 {
                sum += responses.try_iter().sum::<usize>();
                request.send(()).unwrap();
            }
            // Difference: sends continue to succeed after the receiver has ended, so the test ends
            // the requests.
            drop(responses);
        });
        while requests.recv().is_ok() {
            response.send(2).unwrap();
        }
        client.join().unwrap();
    });
}
