//! crossbeam-channel 0.5.17: `ready.rs`, where a thread waits for several receivers simultaneously,
//! using `Watcher::add_to` and crossbeam's `Select`. This library's own cases are in
//! `tests/bus/watch/select.rs`.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crossbeam_channel::Select;
use eventcast::error::TryRecvError;
use eventcast::{Broadcaster, EventWatcher, OverflowPolicy};

use super::bounded;
use crate::kinds::{Kind, on_both_kinds};
use crate::support::LONG;

/// Waits for at most the given time, and returns the index of a receiver that is ready.
fn ready<T: Send + Sync + 'static>(receivers: &[&EventWatcher<T>], timeout: Duration) -> Option<usize> {
    let mut select = Select::new();
    for receiver in receivers {
        receiver.watcher().add_to(&mut select);
    }
    select.ready_timeout(timeout).ok()
}

/// `smoke1`, `smoke2`, `preflight1`.
#[test]
fn the_receiver_with_a_value_is_ready() {
    on_both_kinds(|kind| {
        let mut channels = [0; 5].map(|_| bounded(kind, 1));
        for place in [1, 0, 4] {
            channels[place].0.send(place).unwrap();
            let receivers = channels.each_ref().map(|(_, rx)| rx);
            assert_eq!(ready(&receivers, LONG), Some(place));
            assert_eq!(channels[place].1.recv(), Ok(place));
            // If a receiver has been read to its end, it is no longer ready.
            channels[place].0.settle();
            let receivers = channels.each_ref().map(|(_, rx)| rx);
            assert_eq!(ready(&receivers, Duration::ZERO), None);
        }
    });
}

/// `disconnected`, `default_when_disconnected`, `preflight3`.
#[test]
fn a_receiver_at_its_end_is_ready() {
    on_both_kinds(|kind| {
        let (ended, mut at_end) = bounded::<u8>(kind, 1);
        let (tx, rx) = bounded(kind, 1);
        let ending = thread::spawn(move || drop(ended));
        assert_eq!(ready(&[&at_end, &rx], LONG), Some(0));
        ending.join().unwrap();
        // With a dispatcher, the end may wake a waiting thread before the thread can receive the
        // end.
        assert!(at_end.recv().is_err());
        assert_eq!(at_end.try_recv(), Err(TryRecvError::Ended));
        for timeout in [LONG, Duration::ZERO] {
            assert_eq!(ready(&[&at_end], timeout), Some(0));
        }
        let sending = thread::spawn(move || tx.send(5).unwrap());
        assert_eq!(ready(&[&rx], LONG), Some(0));
        sending.join().unwrap();
    });
}

/// `default`, `default_only`.
#[test]
fn nothing_is_ready_without_a_value_and_an_end() {
    on_both_kinds(|kind| {
        let (ended, at_end) = bounded(kind, 1);
        let (tx, mut rx) = bounded(kind, 1);
        assert_eq!(ready(&[&at_end, &rx], Duration::ZERO), None);
        ended.disconnect();
        assert_eq!(ready(&[&at_end, &rx], Duration::ZERO), Some(0));
        tx.put(2);
        assert_eq!(ready(&[&rx], Duration::ZERO), Some(0));
        assert_eq!(rx.try_recv(), Ok(2));
        assert_eq!(ready(&[&rx], Duration::ZERO), None);
        assert_eq!(ready::<u8>(&[], Duration::ZERO), None);
    });
}

/// `cloning1`, `cloning2`.
#[test]
fn the_drop_of_a_clone_of_the_sender_makes_no_receiver_ready() {
    on_both_kinds(|kind| {
        let (tx1, rx1) = bounded::<u8>(kind, 1);
        let (tx2, mut rx2) = bounded(kind, 1);
        drop(tx1.clone());
        assert_eq!(ready(&[&rx1, &rx2], Duration::ZERO), None);
        tx2.send(1).unwrap();
        assert_eq!(ready(&[&rx1, &rx2], LONG), Some(1));
        assert_eq!(rx2.try_recv(), Ok(1));
    });
}

/// `timeout`, `unblocks`.
#[test]
fn a_wait_that_timed_out_is_repeated_and_ends_with_a_value() {
    on_both_kinds(|kind| {
        let (_tx, rx1) = bounded(kind, 1);
        let (tx, mut rx2) = bounded(kind, 1);
        assert_eq!(ready(&[&rx1, &rx2], Duration::from_millis(1)), None);
        let (begin, begun) = mpsc::channel();
        let sending = thread::spawn(move || {
            begun.recv().unwrap();
            tx.send(2).unwrap();
        });
        begin.send(()).unwrap();
        assert_eq!(ready(&[&rx1, &rx2], LONG), Some(1));
        assert_eq!(rx2.try_recv(), Ok(2));
        sending.join().unwrap();
    });
}

/// Returns a bus and a receiver with this number of values in its queue.
fn filled(kind: Kind, values: usize) -> (Broadcaster<()>, EventWatcher<()>) {
    let options = kind.options().queue_capacity(values).overflow(OverflowPolicy::Wait);
    let bus = Broadcaster::with_options(options).unwrap();
    let receiver = bus.watch().unwrap().into_events();
    bus.publisher().publish_batch(vec![(); values]).unwrap();
    bus.flush(LONG).unwrap();
    (bus, receiver)
}

/// `duplicate_operations`, and the receivers of `fairness1` and `fairness2`. `array.rs`:
/// `fairness`, `fairness_duplicates`.
#[test]
fn each_of_two_receivers_and_each_place_of_one_has_its_turn() {
    on_both_kinds(|kind| {
        let mut channels = [0; 2].map(|_| filled(kind, 1_000));
        let mut turns = [0; 4];
        for _ in 0..1_000 {
            let [(_, first), (_, second)] = &channels;
            let place = ready(&[first, second, first, second], LONG).unwrap();
            channels[place % 2].1.try_recv().unwrap();
            turns[place] += 1;
        }
        // Each place gets at least half of its fair share.
        assert!(turns.iter().all(|turns| *turns >= 125), "{turns:?}");
    });
}

/// `both_ready`, `nesting`, `stress_recv`, `stress_mixed`.
#[test]
fn values_of_two_channels_arrive_by_turns() {
    on_both_kinds(|kind| {
        let (tx1, mut rx1) = bounded(kind, 1);
        let (tx2, mut rx2) = bounded(kind, 5);
        let (next, turns) = mpsc::channel();
        let sender = thread::spawn(move || {
            for value in 0..50 {
                tx1.send(value).unwrap();
                turns.recv().unwrap();
                tx2.send(value).unwrap();
                turns.recv().unwrap();
            }
        });
        for value in 0..50 {
            for place in 0..2 {
                // As in crossbeam, a receiver may be reported as ready although its value has
                // already been taken.
                let received = loop {
                    let rx = [&mut rx1, &mut rx2];
                    let ready = ready(&[&*rx[0], &*rx[1]], LONG).unwrap();
                    match rx.into_iter().nth(ready).unwrap().try_recv() {
                        Err(TryRecvError::Empty) => {}
                        received => break (ready, received),
                    }
                };
                assert_eq!(received, (place, Ok(value)));
                next.send(()).unwrap();
            }
        }
        sender.join().unwrap();
    });
}

/// `stress_timeout_two_threads`.
#[test]
fn waits_that_time_out_lose_and_repeat_nothing() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        let sender = thread::spawn(move || (0..50).for_each(|value| tx.send(value).unwrap()));
        let mut expected = 0;
        while expected < 50 {
            if ready(&[&rx], Duration::from_micros(100)).is_some() {
                assert_eq!(rx.recv(), Ok(expected));
                expected += 1;
            }
        }
        assert!(rx.recv().is_err());
        sender.join().unwrap();
    });
}
