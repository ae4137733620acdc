//! Wakers that do something of their own, and deadlines without a thread.
#![allow(unsafe_code, reason = "a waker that does something when it is cloned is unsafe to make")]

use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, SystemTime};

use eventcast::Delivery::Event;
use eventcast::error::FlushError;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery};

use crate::support::{LONG, bus, hold, until, watched};

use super::Ear;

/// A waker that runs a function when it is first cloned. A receive clones it between its two looks
/// at the queue.
struct Cloned(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Cloned {
    fn new(run: impl FnOnce() + Send + 'static) -> (Arc<Self>, Waker) {
        let this = Arc::new(Self(Mutex::new(Some(Box::new(run)))));
        // SAFETY: the table's functions take the pointer of an `Arc<Cloned>`, and count its owners
        // as their names say.
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
/// The pointer comes from [`Cloned::raw`], and the caller gives up the ownership that it stands
/// for.
unsafe fn owner(at: *const ()) -> Arc<Cloned> {
    // SAFETY: as the caller promises.
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
    // SAFETY: waking by value consumes the waker, and with it the ownership.
    |at| drop(unsafe { owner(at) }),
    |_| (),
    // SAFETY: the waker is dropped, and with it the ownership.
    |at| drop(unsafe { owner(at) }),
);

/// A receive that becomes ready between its two looks at the queue keeps no task alive.
#[test]
fn a_receive_that_is_ready_keeps_no_task() {
    let bus = Arc::new(bus::<u64>(16, 16));
    let mut watcher = bus.watch().unwrap();
    let comes = bus.clone();
    let (task, waker) = Cloned::new(move || {
        comes.publisher().publish(1).unwrap();
        comes.flush(LONG).unwrap();
    });
    {
        let receiving = pin!(watcher.recv_async());
        let received = receiving.poll(&mut Context::from_waker(&waker));
        assert_eq!(received, Poll::Ready(Ok(Event(1))));
    }
    assert!(task.0.lock().unwrap().is_none(), "the event came between the two looks");
    // Wait until the dispatcher has done its wake-ups.
    bus.flush(LONG).unwrap();
    drop(waker);
    assert_eq!(Arc::strong_count(&task), 1, "the watcher keeps the waker");
}

/// A task's waker that calls back into the bus.
struct CallsBack {
    bus: Arc<Broadcaster<u64>>,
    says: mpsc::Sender<Result<(), FlushError>>,
}

impl Wake for CallsBack {
    fn wake(self: Arc<Self>) {
        let _ = self.says.send(self.bus.flush(LONG));
    }
}

/// The timer's thread is a thread of the bus, too. A waker that calls back there does not wait for
/// itself, and so does not delay the deadlines of other tasks.
#[test]
fn a_waker_that_calls_back_holds_up_no_deadline() {
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let bus = Arc::new(Broadcaster::<u64>::with_clock(BusOptions::default(), clock.clock()).unwrap());
        let (go, gate) = mpsc::channel::<()>();
        // The handler waits with the first event until `go` is dropped.
        let held = move |_: Delivery<&u64>| {
            let _ = gate.recv();
        };
        bus.watch_builder().spawn(held).unwrap();
        let mut seen = bus.watch().unwrap();
        bus.publisher().publish(0).unwrap();
        assert_eq!(seen.recv(), Ok(Event(0)));
        let (says, said) = mpsc::channel();
        let waker = Waker::from(Arc::new(CallsBack { bus: bus.clone(), says }));
        let ear = Ear::new();
        let mut first = Box::pin(bus.flush_async(Duration::from_secs(1)));
        let mut second = Box::pin(bus.flush_async(Duration::from_secs(2)));
        // When an event behind a flush is seen, the dispatcher has answered that flush. After that
        // only the clock wakes a task.
        for (number, flush) in [(1, &mut first), (2, &mut second)] {
            assert!(ear.poll(flush.as_mut()).is_pending());
            bus.publisher().publish(number).unwrap();
            assert_eq!(seen.recv(), Ok(Event(number)));
        }
        assert!(ear.poll(second.as_mut()).is_pending());
        assert!(first.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        assert_eq!(said.recv(), Ok(Err(FlushError::WouldDeadlock)));
        let rings = ear.rings();
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        until(|| ear.rings() > rings);
        assert!(matches!(ear.poll(second.as_mut()), Poll::Ready(Err(FlushError::Timeout { .. }))));
        drop((first, second));
        drop(go);
        assert!(bus.shutdown().complete);
    });
}

/// If no thread can be started for a task's deadline, the task's own thread waits, and the task
/// keeps its place in the wait queue. A child process sets the system's memory limit to just above
/// what it uses.
#[cfg(target_os = "linux")]
#[test]
fn without_a_thread_for_deadlines_a_task_keeps_its_place() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    test_support::in_own_process!();
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    let options = BusOptions::default().incoming_len(1).queue_len(8);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    let held = hold(&bus);
    bus.publisher().publish(1).unwrap();
    let (done, is_done) = mpsc::channel::<()>();
    let (begins, has_begun) = mpsc::channel::<()>();
    // This thread makes room as soon as the task's thread waits. If the task's thread does not
    // wait, this thread ends the wait.
    let releasing = std::thread::spawn(move || {
        begins.send(()).unwrap();
        clock.wait_for_waiters(1);
        drop(held);
        if is_done.recv_timeout(Duration::from_secs(20)).is_err() {
            clock.advance(LONG);
        }
    });
    // A thread that starts under the limit may find no memory for its own start, which aborts the
    // process.
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

/// The dispatcher is inside a filter of another watcher, so it cannot wake the task.
#[test]
fn a_stop_wakes_a_task_while_a_filter_holds_the_dispatcher() {
    let bus = bus::<u64>(10, 10);
    let mut watcher = bus.watch_builder().filter(|_| false).watch().unwrap();
    let (entered, enters) = mpsc::channel();
    let (leave, leaves) = mpsc::channel::<()>();
    let holds = move |_: &u64| {
        entered.send(()).unwrap();
        leaves.recv().is_ok()
    };
    let _other = bus.watch_builder().filter(holds).watch().unwrap();
    let (ear, stop) = (Ear::new(), watcher.handle());
    let mut receiving = pin!(watcher.recv_async());
    assert!(ear.poll(receiving.as_mut()).is_pending());
    bus.publisher().publish(1).unwrap();
    enters.recv_timeout(LONG).unwrap();
    let before = ear.rings();
    stop.stop();
    assert_eq!(ear.rings(), before + 1, "the stop itself wakes the task");
    assert!(ear.poll(receiving.as_mut()).is_ready());
    leave.send(()).unwrap();
}
