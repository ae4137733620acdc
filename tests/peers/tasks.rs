//! tokio: `tokio/tests/sync_broadcast.rs`, the cases with waiting tasks.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use eventcast::Delivery;

use crate::kinds::on_both_kinds;
use crate::support::{Channel, channel, until};

/// A waker that records whether it was called.
#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A manually polled task.
#[derive(Default)]
struct Task(Arc<Flag>);

impl Task {
    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&Waker::from(self.0.clone())))
    }

    /// Waits until the task is woken, because the dispatcher wakes it from its own thread.
    #[track_caller]
    fn wait_until_woken(&self) {
        until(|| self.0.0.load(Ordering::SeqCst));
    }
}

/// `send_recv_bounded`, `send_two_recv_bounded`.
#[test]
fn a_value_wakes_each_receiver_that_waits() {
    on_both_kinds(|kind| {
        let (tx, mut rx1) = channel(kind, 16);
        let mut rx2 = tx.subscribe();
        {
            let tasks = [Task::default(), Task::default()];
            let (mut recv1, mut recv2) = (pin!(rx1.recv_async()), pin!(rx2.recv_async()));
            assert!(tasks[0].poll(recv1.as_mut()).is_pending() && tasks[1].poll(recv2.as_mut()).is_pending());
            tx.send("hello");
            tasks.iter().for_each(Task::wait_until_woken);
            assert_eq!(tasks[0].poll(recv1), Poll::Ready(Ok(Delivery::Event("hello"))));
            assert_eq!(tasks[1].poll(recv2), Poll::Ready(Ok(Delivery::Event("hello"))));
        }
        let (waits, later) = (Task::default(), Task::default());
        let (mut recv1, recv2) = (pin!(rx1.recv_async()), pin!(rx2.recv_async()));
        assert!(waits.poll(recv1.as_mut()).is_pending());
        tx.send("world");
        waits.wait_until_woken();
        // The second receiver was not waiting, so nothing woke it.
        assert!(!later.0.0.load(Ordering::SeqCst));
        assert_eq!(waits.poll(recv1), Poll::Ready(Ok(Delivery::Event("world"))));
        assert_eq!(later.poll(recv2), Poll::Ready(Ok(Delivery::Event("world"))));
    });
}

/// `change_tasks`.
#[test]
fn the_task_that_polled_last_is_woken() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = channel(kind, 1);
        let (first, last) = (Task::default(), Task::default());
        let mut recv = pin!(rx.recv_async());
        assert!(first.poll(recv.as_mut()).is_pending() && last.poll(recv).is_pending());
        tx.send("hello");
        last.wait_until_woken();
    });
}

/// `send_slow_rx`.
#[test]
fn a_slow_task_does_not_delay_a_fast_one() {
    on_both_kinds(|kind| {
        let (tx, mut rx1) = channel(kind, 16);
        let mut rx2 = tx.subscribe();
        let (fast, slow) = (Task::default(), Task::default());
        {
            let mut recv2 = pin!(rx2.recv_async());
            assert!(slow.poll(recv2.as_mut()).is_pending());
            for value in ["one", "two", "three"] {
                tx.send(value);
                assert_eq!(fast.poll(pin!(rx1.recv_async())), Poll::Ready(Ok(Delivery::Event(value))));
            }
            slow.wait_until_woken();
            assert_eq!(slow.poll(recv2), Poll::Ready(Ok(Delivery::Event("one"))));
        }
        assert_eq!(
            [rx2.try_recv(), rx2.try_recv()],
            [Ok(Delivery::Event("two")), Ok(Delivery::Event("three"))]
        );
    });
}

/// `dropping_tx_notifies_rx`.
#[test]
fn the_drop_of_the_last_sender_wakes_the_receivers() {
    on_both_kinds(|kind| {
        let (tx, mut rx1) = channel::<()>(kind, 16);
        let mut rx2 = tx.subscribe();
        let Channel { bus, publisher } = tx;
        let clone = bus.clone();
        let tasks = [Task::default(), Task::default()];
        let (mut recv1, mut recv2) = (pin!(rx1.recv_async()), pin!(rx2.recv_async()));
        assert!(tasks[0].poll(recv1.as_mut()).is_pending() && tasks[1].poll(recv2.as_mut()).is_pending());
        drop(bus);
        assert!(tasks[0].poll(recv1.as_mut()).is_pending() && tasks[1].poll(recv2.as_mut()).is_pending());
        // Difference: the sender is the `Broadcaster`. A `Publisher` does not keep the bus
        // open, so a leaked publisher cannot prevent the shutdown.
        drop(clone);
        tasks.iter().for_each(Task::wait_until_woken);
        assert!(matches!(tasks[0].poll(recv1), Poll::Ready(Err(_))));
        assert!(matches!(tasks[1].poll(recv2), Poll::Ready(Err(_))));
        assert!(publisher.is_closed());
    });
}

/// tokio #8239: `async_recv_lagged_then_resumes`.
#[test]
fn a_task_receives_the_gap_before_the_values_after_it() {
    on_both_kinds(|kind| {
        let (tx, mut rx) = channel(kind, 2);
        for value in [10, 20, 30] {
            tx.send(value);
        }
        let task = Task::default();
        for delivery in [Delivery::Lagged(1), Delivery::Event(20), Delivery::Event(30)] {
            assert_eq!(task.poll(pin!(rx.recv_async())), Poll::Ready(Ok(delivery)));
        }
    });
}
