//! Wakers: which task is woken and by which thread, and wakers that run custom code.
#![allow(unsafe_code, reason = "a waker that does something when it is cloned is unsafe to make")]

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::thread;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::Delivery::Event;
use eventcast::error::FlushError;
use futures::StreamExt;

use crate::support::{
    Ear, LONG, bus, bus_with, hold, on_both, poll, stopping_filter, stopping_handler, timed, until,
    waker_calling, watched,
};

/// A waker that runs a function when it is first cloned. A receive clones the waker between its two
/// checks of the queue.
struct Cloned(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Cloned {
    fn new(run: impl FnOnce() + Send + 'static) -> (Arc<Self>, Waker) {
        let this = Arc::new(Self(Mutex::new(Some(Box::new(run)))));
        // SAFETY: the vtable's functions receive the pointer of an `Arc<Cloned>`, and maintain its
        // reference count as a waker's vtable must.
        let waker = unsafe { Waker::from_raw(Self::raw(this.clone())) };
        (this, waker)
    }

    fn raw(this: Arc<Self>) -> RawWaker {
        RawWaker::new(Arc::into_raw(this).cast(), &TABLE)
    }
}

/// Takes over the `Arc` that a waker owns.
///
/// # Safety
///
/// The pointer must come from [`Cloned::raw`], and the caller must cede its ownership.
unsafe fn owner(at: *const ()) -> Arc<Cloned> {
    // SAFETY: guaranteed by the caller.
    unsafe { Arc::from_raw(at.cast()) }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |at| {
        // SAFETY: the waker keeps its ownership, because `ManuallyDrop` never drops this `Arc`.
        let this = std::mem::ManuallyDrop::new(unsafe { owner(at) });
        if let Some(run) = this.0.lock().unwrap().take() {
            run();
        }
        Cloned::raw(Arc::clone(&this))
    },
    // SAFETY: waking by value consumes the waker and its ownership.
    |at| drop(unsafe { owner(at) }),
    |_| (),
    // SAFETY: the waker is being dropped, so its ownership ends here.
    |at| drop(unsafe { owner(at) }),
);

/// If a receive becomes ready between its two checks of the queue, it does not keep its task alive.
#[test]
fn a_receive_that_is_ready_keeps_no_task() {
    let bus = bus::<u64>(16, 16);
    let mut watcher = bus.watch().unwrap();
    let own = bus.clone();
    let (task, waker) = Cloned::new(move || {
        own.publisher().publish(1).unwrap();
        own.flush(LONG).unwrap();
    });
    {
        let received = poll(pin!(watcher.recv_async()), &waker);
        assert_eq!(received, Poll::Ready(Ok(Event(1))));
    }
    assert!(task.0.lock().unwrap().is_none(), "the event was published between the two checks");
    // Wait until the dispatcher has finished waking readers.
    bus.flush(LONG).unwrap();
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1, "the watcher keeps the waker");
}

/// The timer's thread is also a thread of the bus. If a waker calls back into the bus on that
/// thread, the waker does not wait for itself, and so does not delay the deadlines of other tasks.
#[test]
fn a_waker_that_calls_back_delays_no_deadline() {
    watched(|| {
        let (clock, bus) = timed(BusOptions::default());
        let (turnstile, _) = stopping_handler(bus.watch_builder());
        let mut seen = bus.watch().unwrap();
        bus.publisher().publish(0).unwrap();
        assert_eq!(seen.recv(), Ok(Event(0)));
        let (says, said) = mpsc::channel();
        let own = bus.clone();
        let waker = waker_calling(move || says.send(own.flush(LONG)).unwrap());
        let ear = Ear::new();
        let mut first = Box::pin(bus.flush_async(Duration::from_secs(1)));
        let mut second = Box::pin(bus.flush_async(Duration::from_secs(2)));
        // Once an event published after a flush is received, the dispatcher has responded to that
        // flush. After that, only the clock wakes a task.
        for (number, flush) in [(1, &mut first), (2, &mut second)] {
            assert!(ear.poll(flush.as_mut()).is_pending());
            bus.publisher().publish(number).unwrap();
            assert_eq!(seen.recv(), Ok(Event(number)));
        }
        assert!(ear.poll(second.as_mut()).is_pending());
        assert!(poll(first.as_mut(), &waker).is_pending());
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(said.recv(), Ok(Err(FlushError::WouldDeadlock)));
        let rings = ear.rings();
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        until(|| ear.rings() > rings);
        assert!(matches!(ear.poll(second.as_mut()), Poll::Ready(Err(FlushError::Timeout { .. }))));
        drop((first, second));
        drop(turnstile);
        assert!(bus.shutdown().complete);
    });
}

/// If no thread can be started for a task's deadline, the task's own thread waits, and the task
/// keeps its place in the wait queue. A child process sets its memory limit to just above its
/// current usage.
#[cfg(target_os = "linux")]
#[test]
fn without_a_thread_for_deadlines_a_task_keeps_its_place() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    test_support::in_own_process!();
    let (clock, bus) = timed(BusOptions::default().incoming_capacity(1).queue_capacity(8));
    let held = hold(&bus);
    bus.publisher().publish(1).unwrap();
    let (done, is_done) = mpsc::channel::<()>();
    let (begins, has_begun) = mpsc::channel::<()>();
    // This thread frees capacity once the task's thread is waiting. If the task's thread does not
    // wait, this thread ends the wait.
    let releasing = thread::spawn(move || {
        begins.send(()).unwrap();
        clock.wait_for_waiters(1);
        drop(held);
        if is_done.recv_timeout(Duration::from_secs(20)).is_err() {
            clock.advance(LONG);
        }
    });
    // A thread that starts under the limit may not get the memory that it needs to start, which
    // aborts the process.
    has_begun.recv().unwrap();
    let before = getrlimit(Resource::As);
    let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = sizes.split(' ').next().unwrap().parse().unwrap();
    let used = pages * rustix::param::page_size() as u64;
    setrlimit(Resource::As, Rlimit { current: Some(used + (1 << 20)), ..before }).unwrap();
    let ear = Ear::new();
    let flushed = ear.poll(pin!(bus.flush_async(LONG)));
    setrlimit(Resource::As, before).unwrap();
    done.send(()).unwrap();
    releasing.join().unwrap();
    // No thread could have woken the task, so it was polled only once.
    assert_eq!(flushed, Poll::Ready(Ok(())));
}

/// The dispatcher is running another watcher's filter, so it cannot wake the task.
#[test]
fn a_stop_wakes_a_task_while_a_filter_holds_the_dispatcher() {
    let bus = bus::<u64>(10, 10);
    let mut watcher = bus.watch_builder().filter(|_| false).watch().unwrap();
    let (turnstile, _other) = stopping_filter(bus.watch_builder());
    let (ear, stop) = (Ear::new(), watcher.handle());
    let mut receiving = pin!(watcher.recv_async());
    assert!(ear.poll(receiving.as_mut()).is_pending());
    bus.publisher().publish(1).unwrap();
    turnstile.wait_for(1);
    let before = ear.rings();
    stop.stop();
    assert_eq!(ear.rings(), before + 1, "the stop itself wakes the task");
    assert!(ear.poll(receiving.as_mut()).is_ready());
    turnstile.let_one_pass();
}

/// One event causes one wake-up, and only the waiting task is woken. A task that has stopped
/// waiting is not woken.
#[test]
fn a_task_is_woken_once_and_only_while_it_waits() {
    on_both(|options| {
        let is_inline = options == BusOptions::default().inline(true);
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        let (first, second) = (Ear::new(), Ear::new());
        assert_eq!(first.poll_next(&mut watcher), Poll::Pending);
        // Another task now waits on the watcher, and only the most recent waker counts.
        assert_eq!(second.poll_next(&mut watcher), Poll::Pending);
        assert!(!first.is_held(), "a waker that was replaced is freed");
        bus.publisher().publish(1).unwrap();
        let waking = second.wait();
        assert!(!is_inline || waking == thread::current().id(), "the publisher wakes the task");
        assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(1))));
        // No task is waiting now, so further events do not wake any task.
        bus.publisher().publish_batch(vec![2, 3]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!((first.rings(), second.rings()), (0, 1));
        assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(2))));
        assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(3))));
        assert_eq!(second.poll_next(&mut watcher), Poll::Pending);
        // A flush does not wake a task either.
        bus.flush(LONG).unwrap();
        assert_eq!(second.rings(), 1);
        bus.close();
        second.wait();
        assert_eq!(second.poll_next(&mut watcher), Poll::Ready(None));
    });
}

/// A waker that panics does not affect the dispatcher, other watchers, or a task that is later in
/// the queue.
#[test]
fn a_waker_that_panics_stops_nothing() {
    #[derive(Default)]
    struct Bomb(AtomicU64);
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("panic in the waker");
        }
    }
    let gone_off = Arc::new(Bomb::default());
    let bomb = Waker::from(gone_off.clone());
    let mut cx = Context::from_waker(&bomb);
    let bus = bus::<u64>(1, 1);
    let mut fragile = bus.watch().unwrap();
    let mut other = bus.watch().unwrap();
    assert!(fragile.poll_next_unpin(&mut cx).is_pending());
    let ear = Ear::new();
    assert!(ear.poll_next(&mut other).is_pending());
    bus.publisher().publish(1).unwrap();
    ear.wait();
    assert_eq!(other.recv(), Ok(Event(1)));
    assert_eq!(fragile.recv(), Ok(Event(1)));
    assert_eq!(gone_off.0.load(Ordering::SeqCst), 1, "on the dispatcher's thread");

    let held = hold(&bus);
    let publisher = bus.publisher();
    while publisher.try_publish(0).is_ok() {}
    let mut waiting = Box::pin(publisher.publish_async(2));
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let mut flushing = Box::pin(bus.flush_async(LONG));
    assert!(flushing.as_mut().poll(&mut cx).is_pending());
    let mut behind = Box::pin(publisher.publish_async(3));
    assert!(ear.poll(behind.as_mut()).is_pending());
    drop(held);
    // The panicking waker is first in the wait queue. Dropping its future passes the turn on.
    until(|| gone_off.0.load(Ordering::SeqCst) > 1);
    drop((waiting, flushing));
    assert_eq!(ear.finish(behind.as_mut()), Ok(()), "the dispatcher must still be running");
    assert!(bus.shutdown().complete);
}
