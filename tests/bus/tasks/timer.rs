//! The timer: a thread of the bus that keeps the deadlines of tasks, and runs only while a task is
//! waiting with a deadline. All of these tests use the system's clock.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::task::{Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::Broadcaster;
use eventcast::error::FlushError;

use crate::support::{AtDrop, LONG, Turnstile, bus, poll, stopping_handler};

type Run = Box<dyn FnMut()>;

thread_local! {
    /// Dropped when the timer's thread ends.
    static END: RefCell<Option<AtDrop<Run>>> = const { RefCell::new(None) };
}

/// A waker that reports when the timer calls it, and when the timer's thread ends after that call.
struct OfTheTimer {
    called: mpsc::Sender<Instant>,
    ended: mpsc::Sender<()>,
}

impl Wake for OfTheTimer {
    fn wake(self: Arc<Self>) {
        if thread::current().name() == Some("eventcast-timer") {
            let ended = self.ended.clone();
            let at_end = move || {
                let _ = ended.send(());
            };
            END.with(|end| end.replace(Some(AtDrop(Box::new(at_end)))));
            let _ = self.called.send(Instant::now());
        }
    }
}

/// A task that the timer wakes.
struct Alarm {
    of_the_timer: Arc<OfTheTimer>,
    waker: Waker,
    calls: mpsc::Receiver<Instant>,
    ends: mpsc::Receiver<()>,
}

impl Alarm {
    fn new() -> Self {
        let ((called, calls), (ended, ends)) = (mpsc::channel(), mpsc::channel());
        let of_the_timer = Arc::new(OfTheTimer { called, ended });
        Self { waker: Waker::from(of_the_timer.clone()), of_the_timer, calls, ends }
    }

    fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        poll(future, &self.waker)
    }

    /// Waits for the timer to call the waker, and returns the time of that call.
    fn wait(&self) -> Instant {
        self.calls.recv_timeout(LONG).expect("the timer did not wake the task at its deadline")
    }

    fn was_called(&self) -> bool {
        self.calls.try_recv().is_ok()
    }

    /// Waits until the thread that made the last call has ended.
    fn wait_for_the_end(&self) {
        self.ends.recv_timeout(LONG).expect("the timer's thread keeps running without a deadline");
    }

    /// Returns whether anything other than this value still holds the waker.
    fn is_held(&self) -> bool {
        Arc::strong_count(&self.of_the_timer) > 2
    }
}

/// Returns a bus whose handler is blocked in its first event until the turnstile is dropped, so
/// that every flush waits.
fn busy() -> (Broadcaster<u64>, Turnstile<Option<u64>>) {
    let bus = bus(100, 100);
    let (turnstile, _) = stopping_handler(bus.watch_builder());
    bus.publisher().publish(0).unwrap();
    (bus, turnstile)
}

/// The thread ends when no task is waiting with a deadline. The next deadline starts a new thread.
#[test]
fn deadlines_are_kept_after_the_timers_thread_has_ended() {
    let (bus, go) = busy();
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
            // The timeout expired before the system scheduled this thread.
            timeout *= 2;
        }
    }
    drop(go);
    assert!(bus.shutdown().complete);
}

/// The thread sleeps until the earliest deadline, and a new, earlier deadline wakes it.
#[test]
fn an_earlier_deadline_does_not_wait_for_a_later_one() {
    let (bus, go) = busy();
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

/// The deadlines of tasks share one thread. This thread wakes each task once, and not before the
/// task's deadline. The thread discards the deadline of a dropped future.
#[test]
fn deadlines_are_kept_one_by_one() {
    let (bus, go) = busy();
    let mut tasks = [400_000, 60, 120, 61].map(|milliseconds| {
        let timeout = Duration::from_millis(milliseconds);
        let (alarm, mut flush) = (Alarm::new(), Box::pin(bus.flush_async(timeout)));
        let earliest = Instant::now() + timeout;
        let waits = alarm.poll(flush.as_mut()).is_pending();
        (alarm, flush, earliest, waits)
    });
    let [(last, last_flush, ..), others @ ..] = &mut tasks;
    for (alarm, flush, earliest, waits) in others {
        // A task does not wait if its timeout expired before the system scheduled this thread.
        if *waits {
            assert!(alarm.wait() >= *earliest, "the task was woken before its deadline");
        }
        assert!(matches!(alarm.poll(flush.as_mut()), Poll::Ready(Err(_))));
    }
    assert!(!last.was_called() && last.poll(last_flush.as_mut()).is_pending());
    let alarms = tasks.map(|(alarm, ..)| alarm);
    assert!(!alarms[0].is_held(), "the timer still holds the deadline of a dropped future");
    assert!(alarms.iter().all(|alarm| !alarm.was_called()), "a task was woken twice");
    drop(go);
    assert!(bus.shutdown().complete);
}
