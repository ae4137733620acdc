//! The timer: a thread of the bus that keeps the deadlines of tasks, and runs only while a task
//! waits with a deadline. All of this uses the system's clock.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::error::FlushError;
use eventcast::{Broadcaster, Delivery};

use crate::support::{LONG, bus};

/// A value that reports when it is dropped.
struct Ends(mpsc::Sender<()>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

thread_local! {
    /// Dropped when the thread ends.
    static END: RefCell<Option<Ends>> = const { RefCell::new(None) };
}

/// A waker that reports when the timer calls it, and when the timer's thread ends after that.
struct OfTheTimer {
    called: mpsc::Sender<Instant>,
    ended: mpsc::Sender<()>,
}

impl Wake for OfTheTimer {
    fn wake(self: Arc<Self>) {
        if thread::current().name() == Some("eventcast-timer") {
            END.with(|end| end.replace(Some(Ends(self.ended.clone()))));
            let _ = self.called.send(Instant::now());
        }
    }
}

/// A task that the timer wakes.
pub(super) struct Alarm {
    of_the_timer: Arc<OfTheTimer>,
    waker: Waker,
    calls: mpsc::Receiver<Instant>,
    ends: mpsc::Receiver<()>,
}

impl Alarm {
    pub(super) fn new() -> Self {
        let ((called, calls), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        let of_the_timer = Arc::new(OfTheTimer { called, ended });
        Self { waker: Waker::from(of_the_timer.clone()), of_the_timer, calls, ends }
    }

    pub(super) fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        future.poll(&mut Context::from_waker(&self.waker))
    }

    /// Waits for a call of the timer, and returns the time of the call.
    pub(super) fn wait(&self) -> Instant {
        self.calls.recv_timeout(LONG).expect("a deadline was not kept")
    }

    pub(super) fn was_called(&self) -> bool {
        self.calls.try_recv().is_ok()
    }

    /// Waits until the thread that made the last call has ended.
    fn wait_for_the_end(&self) {
        self.ends.recv_timeout(LONG).expect("the timer's thread goes on without a deadline");
    }

    /// Returns whether something besides this value still holds the waker.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.of_the_timer) > 2
    }
}

/// Returns a bus with a handler that handles its first event until the sender is dropped, so that
/// every flush waits.
pub(super) fn bus_with_a_busy_handler() -> (Broadcaster<u64>, mpsc::Sender<()>) {
    let bus = bus(100, 100);
    let (go, gate) = mpsc::channel::<()>();
    let handle = move |_: Delivery<&u64>| {
        let _ = gate.recv();
    };
    bus.watch_builder().spawn(handle).unwrap();
    bus.publisher().publish(0).unwrap();
    (bus, go)
}

/// The thread ends when no task waits with a deadline. The next deadline starts another one.
#[test]
fn deadlines_are_kept_after_the_timers_thread_has_ended() {
    let (bus, go) = bus_with_a_busy_handler();
    let (mut kept, mut timeout) = (0, Duration::from_millis(5));
    while kept < 3 {
        let (alarm, mut flush) = (Alarm::new(), Box::pin(bus.flush_async(timeout)));
        if alarm.poll(flush.as_mut()).is_pending() {
            alarm.wait();
            let flushed = alarm.poll(flush.as_mut());
            assert!(matches!(flushed, Poll::Ready(Err(FlushError::Timeout { .. }))), "{flushed:?}");
            drop(flush);
            alarm.wait_for_the_end();
            kept += 1;
        } else {
            // The system did not run this thread for as long as the timeout.
            timeout *= 2;
        }
    }
    drop(go);
    assert!(bus.shutdown().complete);
}

/// The thread sleeps until the earliest deadline. A deadline that is earlier still wakes it.
#[test]
fn an_earlier_deadline_does_not_wait_for_a_later_one() {
    let (bus, go) = bus_with_a_busy_handler();
    let (late, mut later) = (Alarm::new(), Box::pin(bus.flush_async(2 * LONG)));
    assert!(late.poll(later.as_mut()).is_pending());
    let (mut kept, mut timeout) = (0, Duration::from_millis(5));
    while kept < 10 {
        let (alarm, mut flush) = (Alarm::new(), Box::pin(bus.flush_async(timeout)));
        if alarm.poll(flush.as_mut()).is_pending() {
            alarm.wait();
            kept += 1;
        } else {
            timeout *= 2;
        }
    }
    assert!(!late.was_called() && late.poll(later.as_mut()).is_pending());
    drop((later, go));
    assert!(bus.shutdown().complete);
}
