//! crossbeam-channel 0.5.17: many values and many threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::EventWatcher;
use eventcast::error::{RecvError, RecvTimeoutError, TryRecvError};

use super::bounded;
use crate::kinds::{Kind, on_both_kinds};
use crate::support::{LONG, join};

/// A timeout short enough for a test to wait for.
const SHORT: Duration = Duration::from_millis(1);

const THREADS: usize = 4;

/// `spsc`, and `len` with two threads. `mpsc.rs`: `stress`, `recv_a_lot`, `chan_gone_concurrent`,
/// `send_from_outside_runtime`, `recv_from_outside_runtime`. `golang.rs`: `asynch_fifo`, and
/// `test_chan`, the order of many values.
#[test]
fn one_thread_receives_what_another_sends_in_order() {
    on_both_kinds(|kind| {
        for capacity in [1, 3, 200] {
            let (tx, mut rx) = bounded(kind, capacity);
            let sender = thread::spawn(move || (0..200).for_each(|value| tx.send(value).unwrap()));
            let receiver = thread::spawn(move || {
                for value in 0..200 {
                    assert_eq!(rx.recv(), Ok(value));
                    assert!(rx.watcher().len() <= capacity);
                }
                assert_eq!((rx.recv(), rx.watcher().len()), (Err(RecvError), 0));
            });
            join([sender, receiver]);
        }
    });
}

/// `mpmc`.
#[test]
fn each_of_several_receivers_gets_every_value_of_every_sender() {
    on_both_kinds(|kind| {
        const COUNT: usize = 50;
        let (tx, rx) = bounded(kind, 3);
        // Difference: a channel's receivers share the values. Here each receiver gets all values.
        let mut receivers = vec![rx];
        receivers.extend((1..THREADS).map(|_| tx.bus.watch().unwrap().into_events()));
        let receivers: Vec<_> = receivers
            .into_iter()
            .map(|rx| {
                thread::spawn(move || {
                    let mut seen = vec![0; COUNT];
                    rx.into_iter().for_each(|value: usize| seen[value] += 1);
                    assert!(seen.iter().all(|times| *times == THREADS));
                })
            })
            .collect();
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| (0..COUNT).for_each(|value| tx.send(value).unwrap()));
            }
        });
        drop(tx);
        join(receivers);
    });
}

/// `mpsc.rs`: `stress_shared`, `shared_chan_stress`, `shared_recv_timeout`.
#[test]
fn the_values_of_many_senders_all_arrive() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 1);
        let senders: Vec<_> = (0..8)
            .map(|_| {
                let tx = tx.clone();
                thread::spawn(move || (0..20).for_each(|_| tx.send(1).unwrap()))
            })
            .collect();
        for _ in 0..8 * 20 {
            assert_eq!(rx.recv(), Ok(1));
        }
        assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
        tx.send(2).unwrap();
        assert_eq!(rx.recv_timeout(LONG), Ok(2));
        join(senders);
        tx.disconnect();
        assert_eq!(rx.try_recv(), Err(TryRecvError::Ended));
    });
}

/// `stress_timeout_two_threads`. `mpsc.rs`: the case of this name with `recv` in it, and
/// `stress_recv_timeout_shared`.
#[test]
fn sends_and_receives_that_time_out_lose_and_repeat_nothing() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = bounded(kind, 2);
        // In alternate rounds, either the receiver or the sender waits until it times out.
        let (turn, turns) = mpsc::channel();
        let sender = thread::spawn(move || {
            for value in 0..20 {
                if value % 10 == 0 {
                    turns.recv().unwrap();
                }
                let mut value = value;
                while let Err(error) = tx.send_timeout(value, SHORT) {
                    assert!(error.is_full());
                    value = error.into_inner();
                }
            }
        });
        for expected in 0..20 {
            if expected % 10 == 0 {
                assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
                turn.send(()).unwrap();
            }
            let received = loop {
                match rx.recv_timeout(SHORT) {
                    Err(RecvTimeoutError::Timeout) => {}
                    received => break received,
                }
            };
            assert_eq!(received, Ok(expected));
        }
        assert_eq!(rx.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
        sender.join().unwrap();
    });
}

/// `stress_oneshot`. `mpsc.rs`: `stream_send_recv_stress`,
/// `oneshot_multi_thread_send_recv_stress`.
#[test]
fn a_sender_and_a_receiver_may_move_from_thread_to_thread() {
    on_both_kinds(|kind| {
        let (mut tx, mut rx) = bounded(kind, 1);
        for value in 0..20 {
            let sending = thread::spawn(move || {
                tx.send(Box::new(value)).unwrap();
                tx
            });
            let receiving = thread::spawn(move || {
                assert_eq!(rx.recv(), Ok(Box::new(value)));
                rx
            });
            (tx, rx) = (sending.join().unwrap(), receiving.join().unwrap());
        }
    });
}

/// `linearizable`.
#[test]
fn a_thread_that_has_sent_finds_a_value() {
    on_both_kinds(|kind| {
        let (tx, rx) = bounded(kind, THREADS);
        // Difference: a receiver has one owner, so the threads share it in a `Mutex`.
        let rx = Mutex::new(rx);
        let begin = Barrier::new(THREADS);
        thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    begin.wait();
                    for _ in 0..30 {
                        // Difference: with a dispatcher, a value is certain to be in the queue only
                        // after a flush.
                        tx.put(0);
                        assert_eq!(rx.lock().unwrap().try_recv(), Ok(0));
                    }
                });
            }
        });
    });
}

/// A value that carries the receiver of the next channel.
#[derive(Clone)]
struct Next(Arc<Mutex<Option<EventWatcher<Next>>>>);

/// `channel_through_channel`.
#[test]
fn a_channel_may_carry_the_receiver_of_another() {
    on_both_kinds(|kind| {
        const LINKS: usize = 20;
        let (mut tx, mut rx) = bounded::<Next>(kind, 1);
        let sender = thread::spawn(move || {
            for _ in 0..LINKS {
                let (next, receiver) = bounded(kind, 1);
                // Difference: events are cloned, but receivers cannot be cloned.
                tx.send(Next(Arc::new(Mutex::new(Some(receiver))))).unwrap();
                tx = next;
            }
        });
        for _ in 0..LINKS {
            let next = rx.recv().unwrap().0.lock().unwrap().take().unwrap();
            rx = next;
        }
        sender.join().unwrap();
        assert_eq!(rx.recv().err(), Some(RecvError));
    });
}

/// `golang.rs`: `sieve1`, and `goroutines` with a queue in each link.
#[test]
fn a_chain_of_channels_passes_every_value_on() {
    on_both_kinds(|kind| {
        const LINKS: usize = 5;
        let (first, mut last) = bounded(kind, 1);
        let links: Vec<_> = (0..LINKS)
            .map(|_| {
                let (tx, mut rx) = bounded(kind, 1);
                std::mem::swap(&mut last, &mut rx);
                thread::spawn(move || rx.into_iter().for_each(|value| tx.send(value + 1).unwrap()))
            })
            .collect();
        let sender = thread::spawn(move || (0..50).for_each(|value| first.send(value).unwrap()));
        assert!(last.into_iter().eq(LINKS..50 + LINKS));
        join(links);
        sender.join().unwrap();
    });
}

/// `thread_locals.rs`: `use_while_exiting`.
#[test]
fn a_thread_that_exits_may_still_send_and_wait() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);

    struct UseAtExit(Kind);

    impl Drop for UseAtExit {
        fn drop(&mut self) {
            let (tx, mut rx) = bounded(self.0, 1);
            assert_eq!(rx.recv_timeout(SHORT), Err(RecvTimeoutError::Timeout));
            tx.send(1).unwrap();
            SEEN.fetch_add(rx.recv().unwrap(), Ordering::SeqCst);
        }
    }

    thread_local! {
        static AT_EXIT: std::cell::Cell<Option<UseAtExit>> = const { std::cell::Cell::new(None) };
    }

    on_both_kinds(|kind| {
        let before = SEEN.load(Ordering::SeqCst);
        let (tx, mut rx) = bounded(kind, 1);
        let receiver = thread::spawn(move || {
            // This thread-local is initialised first, so it is dropped after the library's own
            // thread-locals.
            AT_EXIT.set(Some(UseAtExit(kind)));
            assert_eq!(rx.recv(), Ok(()));
        });
        tx.send(()).unwrap();
        receiver.join().unwrap();
        assert_eq!(SEEN.load(Ordering::SeqCst), before + 1);
    });
}
