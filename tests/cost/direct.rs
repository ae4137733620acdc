//! Direct delivery: a publisher that finds the dispatcher asleep delivers its event itself. This
//! work is bounded, and no user code runs on the publisher's thread. The allocations on that thread
//! show that it has delivered the event, because delivering allocates the batch.

use std::pin::pin;
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, ThreadId};
use std::time::Instant;

use eventcast::Delivery::Event;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use test_support::LONG;

use crate::counting::allocations_here;

/// The highest number of allocations in a direct delivery to one watcher: the batch, the allocation
/// that shares it, and the growth of the watcher's queue.
pub(crate) const MOST: u64 = 3;

/// Lets the dispatcher fall asleep, which it does after a few unsuccessful checks.
pub(crate) fn settle() {
    (0..20).for_each(|_| thread::yield_now());
}

/// Publishes until this thread has delivered an event, and calls `received` for each published
/// event. Fails if this thread does not deliver an event within a long time.
fn deliver_here<T: Clone + Send + Sync + 'static>(
    bus: &Broadcaster<T>,
    mut event: impl FnMut() -> T,
    mut received: impl FnMut(bool),
) -> u64 {
    let (publisher, end) = (bus.publisher(), Instant::now() + LONG);
    loop {
        let next = event();
        let (allocated, result) = allocations_here(|| publisher.try_publish(next));
        assert!(result.is_ok(), "the queue must have capacity");
        received(allocated > 0);
        if allocated > 0 {
            return allocated;
        }
        assert!(Instant::now() < end, "no event was delivered by its publisher");
        settle();
    }
}

#[test]
fn a_publisher_delivers_a_lone_event_itself() {
    let bus = Broadcaster::new().unwrap();
    let mut watcher = bus.watch().unwrap();
    for round in 0..40_u64 {
        let allocated = deliver_here(
            &bus,
            || round,
            |here| {
                if here {
                    // No thread other than this one is needed.
                    assert_eq!(watcher.try_recv(), Ok(Event(round)));
                } else {
                    assert_eq!(watcher.recv(), Ok(Event(round)));
                }
            },
        );
        assert!(allocated <= MOST, "{allocated} allocations");
    }
    assert!(bus.shutdown().complete);
}

/// The dispatcher delivers if there are more than four watchers, a filter, or a `DropOldest`
/// watcher.
#[test]
fn a_publisher_leaves_to_the_dispatcher_what_is_not_its_own() {
    let publish_alone = |bus: &Broadcaster<u64>, mut watcher: Watcher<u64>| {
        let publisher = bus.publisher();
        for event in 0..10 {
            settle();
            let (allocated, result) = allocations_here(|| publisher.try_publish(event));
            assert!(result.is_ok() && allocated == 0, "event {event}: {allocated} allocations");
            assert_eq!(watcher.recv(), Ok(Event(event)));
        }
    };
    let bus = Broadcaster::new().unwrap();
    let others: Vec<_> = (0..4).map(|_| bus.watch_builder().queue_capacity(300).watch().unwrap()).collect();
    publish_alone(&bus, bus.watch().unwrap());
    drop(others);
    let bus = Broadcaster::new().unwrap();
    publish_alone(&bus, bus.watch_builder().filter(|_| true).watch().unwrap());
    let bus = Broadcaster::new().unwrap();
    publish_alone(&bus, bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap());
    let bus = Broadcaster::with_options(BusOptions::default().direct_delivery(false)).unwrap();
    publish_alone(&bus, bus.watch().unwrap());
}

/// An event that records the threads on which it is cloned or dropped.
struct Telltale(Arc<Mutex<Vec<ThreadId>>>);

impl Telltale {
    fn note(&self) {
        self.0.lock().unwrap().push(thread::current().id());
    }
}

impl Clone for Telltale {
    fn clone(&self) -> Self {
        self.note();
        Self(self.0.clone())
    }
}

impl Drop for Telltale {
    fn drop(&mut self) {
        self.note();
    }
}

/// Some events are read immediately, some are kept, and some are lost. The hook and the events'
/// `Drop` run on the dispatcher and on the readers' threads, never on the publisher's thread.
/// `Clone` is not called on the publisher's thread either.
#[test]
fn no_code_of_the_users_runs_on_a_publisher() {
    let bus = Broadcaster::new().unwrap();
    let (seen, lost) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let noted = lost.clone();
    let hook = move |_, _: &[Telltale]| noted.lock().unwrap().push(thread::current().id());
    let mut quick = bus.watch_builder().queue_capacity(200).watch().unwrap();
    let reading = thread::spawn(move || {
        let mut told = 0;
        while let Ok(batch) = quick.recv_batch() {
            told += batch.lagged + batch.len() as u64;
        }
        told
    });
    let publish_alone = |events| {
        for _ in 0..events {
            settle();
            assert!(bus.publisher().publish(Telltale(seen.clone())).is_ok());
        }
    };
    // The reader drops the events that were delivered to it.
    publish_alone(40);
    // This watcher is never read. The watcher keeps the first events, and the dispatcher loses the
    // others.
    let full = bus.watch_builder().queue_capacity(20).on_drop(hook).watch().unwrap();
    publish_alone(40);
    assert!(bus.shutdown().complete);
    assert_eq!(reading.join().unwrap(), 80);
    let full = thread::spawn(move || drop(full));
    full.join().unwrap();
    let here = thread::current().id();
    for threads in [seen, lost] {
        let threads = threads.lock().unwrap();
        assert!(!threads.is_empty() && threads.iter().all(|thread| *thread != here), "{threads:?}");
    }
}

/// A waker that reports the thread that calls it, and then blocks until it may continue.
struct Stays {
    entered: mpsc::Sender<ThreadId>,
    go_on: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Stays {
    fn wake(self: Arc<Self>) {
        self.entered.send(thread::current().id()).unwrap();
        self.go_on.lock().unwrap().recv_timeout(LONG).unwrap();
    }
}

/// If a publisher is blocked in a task's waker, it does not block other publishers, because it has
/// already released the fan-out.
#[test]
fn a_waker_that_blocks_delays_only_its_publisher() {
    let end = Instant::now() + LONG;
    loop {
        let bus = Broadcaster::new().unwrap();
        let (mut task, mut watcher) = (bus.watch().unwrap(), bus.watch().unwrap());
        bus.flush(LONG).unwrap();
        settle();
        let ((entered, entries), (go_on, stay)) = (mpsc::channel(), mpsc::channel());
        let waker = Waker::from(Arc::new(Stays { entered, go_on: Mutex::new(stay) }));
        let mut receiving = pin!(task.recv_async());
        assert_eq!(receiving.as_mut().poll(&mut Context::from_waker(&waker)), Poll::Pending);
        let held = bus.publisher();
        let publishing = thread::spawn(move || held.publish(1_u64).unwrap());
        let entered = entries.recv_timeout(LONG).unwrap();
        if entered == publishing.thread().id() {
            bus.publisher().publish(2).unwrap();
            assert_eq!((watcher.recv(), watcher.recv()), (Ok(Event(1)), Ok(Event(2))));
            go_on.send(()).unwrap();
            return publishing.join().unwrap();
        }
        // The dispatcher was awake and called the waker, so the dispatcher was the thread that
        // blocked. Try again.
        go_on.send(()).unwrap();
        publishing.join().unwrap();
        assert!(Instant::now() < end, "no waker was called by a publisher");
    }
}
