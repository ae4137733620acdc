//! What the documentation of a bus without a thread warns of, each as a case that shows it.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::error::TryRecvError;

use crate::support::{LONG, available, drain, reporting_waker, watched};

use super::support::{calling, inline, poll, waits};

thread_local! {
    static BORROWED: RefCell<u64> = const { RefCell::new(0) };
}

/// A filter that borrows what the publisher has borrowed panics, which ends its watcher. The
/// publish succeeds.
#[test]
fn a_filter_meets_the_borrows_of_the_publisher() {
    let bus = inline(10);
    let filter = |event: &u64| BORROWED.with_borrow_mut(|seen| std::mem::replace(seen, *event) < *event);
    let mut rising = bus.watch_builder().filter(filter).watch().unwrap();
    let mut other = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    BORROWED.with_borrow_mut(|_| bus.publisher().publish(2).unwrap());
    bus.publisher().publish(3).unwrap();
    assert_eq!(drain(&mut rising), [Event(1)]);
    assert_eq!(rising.stats().panics, 1);
    assert_eq!(available(&mut other), [1, 2, 3].map(Event));
}

/// A filter runs while the publisher holds its locks, so a filter that waited for one of them would
/// wait forever.
#[test]
fn a_filter_meets_the_locks_of_the_publisher() {
    let bus = inline(10);
    let mutex = Arc::new(Mutex::new(()));
    let (of_filter, (free_tx, free)) = (mutex.clone(), mpsc::channel());
    let _watcher = calling(&bus, move |_| free_tx.send(of_filter.try_lock().is_ok()).unwrap());
    bus.publisher().publish(1).unwrap();
    {
        let _guard = mutex.lock().unwrap();
        bus.publisher().publish(2).unwrap();
    }
    assert_eq!(free.try_iter().collect::<Vec<_>>(), [true, false]);
}

/// After `queue_len` events, a thread that is the only reader of a `Wait` watcher has to read
/// before it publishes: `publish` would wait for this thread itself. `try_publish` and
/// `publish_async` are right there.
#[test]
fn the_only_reader_of_a_full_watcher_uses_the_publishes_that_do_not_block() {
    let bus = inline(3);
    let mut watcher = waits(&bus, 3).watch().unwrap();
    let publisher = bus.publisher();
    (1..=3).for_each(|event| publisher.publish(event).unwrap());
    assert!(publisher.publish_timeout(4, Duration::ZERO).unwrap_err().is_full());
    assert!(publisher.try_publish(4).unwrap_err().is_full());
    let (waker, woken) = reporting_waker();
    let mut publishing = Box::pin(publisher.publish_async(4));
    assert!(poll(publishing.as_mut(), &waker).is_pending());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    woken.try_recv().expect("the task is not woken by its own thread's receive");
    assert_eq!(poll(publishing.as_mut(), &waker), Poll::Ready(Ok(())));
    assert_eq!(available(&mut watcher), [2, 3, 4].map(Event));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
}

/// Another thread's publish returns only after the filter that runs now, whatever its timeout, so a
/// filter must not wait for it. The time in which it waits for the filter does not count.
#[test]
fn a_publish_waits_for_the_filter_that_runs() {
    watched(|| {
        let bus = inline(10);
        let is_over = Arc::new(AtomicBool::new(false));
        let (of_filter, publisher) = (is_over.clone(), bus.publisher());
        let (thread_tx, threads) = mpsc::channel();
        let mut watcher = calling(&bus, move |event| {
            if event != 1 {
                return;
            }
            let (publisher, is_over) = (publisher.clone(), of_filter.clone());
            let ((begins_tx, begins), zero) = (mpsc::channel(), Duration::ZERO);
            let other = thread::spawn(move || {
                begins_tx.send(()).unwrap();
                let published = publisher.publish_timeout(2, zero);
                (published, is_over.load(Ordering::SeqCst))
            });
            begins.recv_timeout(LONG).unwrap();
            thread_tx.send(other).unwrap();
            // Usually enough for the other thread to reach the lock. If it is late, it finds the
            // filter finished anyway.
            (0..1000).for_each(|_| thread::yield_now());
            of_filter.store(true, Ordering::SeqCst);
        });
        bus.publisher().publish(1).unwrap();
        let other = threads.try_recv().unwrap();
        assert_eq!(other.join().unwrap(), (Ok(()), true));
        assert_eq!(available(&mut watcher), [Event(1), Event(2)]);
    });
}
