//! A task's waker is called on the thread that makes the task's condition true, after that thread
//! has left the bus.

use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;

use eventcast::Delivery::Event;
use eventcast::error::{FlushError, PublishError};
use eventcast::{Broadcaster, Watcher};
use futures::StreamExt;

use crate::support::{
    LONG, assert_settled, available, drain, inline, inline_options, inside, poll, reporting_waker, timed,
    waits, waker_calling, watched,
};

/// Makes a task wait for the next event of a watcher.
fn wait_with(watcher: &mut Watcher<u64>, waker: &Waker) {
    assert!(watcher.poll_next_unpin(&mut Context::from_waker(waker)).is_pending());
}

/// A waker takes a mutex that another thread holds while publishing. If the waker were called
/// inside the bus, the two threads would deadlock.
#[test]
fn a_waker_may_take_a_mutex_that_a_publisher_holds() {
    watched(|| {
        let bus = inline(100);
        let mut watcher = bus.watch().unwrap();
        let mutex = Arc::new(Mutex::new(()));
        let ((entered_tx, entered), (locked_tx, locked)) = (mpsc::channel(), mpsc::channel());
        let of_waker = mutex.clone();
        wait_with(
            &mut watcher,
            &waker_calling(move || {
                entered_tx.send(()).unwrap();
                drop(of_waker.lock().unwrap());
            }),
        );
        let publisher = bus.publisher();
        let other = thread::spawn(move || {
            let guard = mutex.lock().unwrap();
            locked_tx.send(()).unwrap();
            entered.recv_timeout(LONG).unwrap();
            // The other thread is running the waker, and waits for the mutex.
            publisher.publish(2).unwrap();
            drop(guard);
        });
        locked.recv_timeout(LONG).unwrap();
        bus.publisher().publish(1).unwrap();
        other.join().unwrap();
        assert_eq!(available(&mut watcher), [Event(1), Event(2)]);
    });
}

/// A waker may use the bus, and the calls that a waker makes are not nested. Like any code that the
/// bus calls, a waker does not wait for the bus.
#[test]
fn a_waker_may_use_the_bus() {
    watched(|| {
        let bus = inline(100);
        let mut watcher = bus.watch().unwrap();
        let (inner, (said_tx, said)) = (bus.clone(), mpsc::channel());
        wait_with(
            &mut watcher,
            &waker_calling(move || {
                inner.publisher().publish(2).unwrap();
                let mut late = inner.watch().unwrap();
                inner.publisher().publish(3).unwrap();
                // The new watcher already has its event, so the publish was not deferred.
                said_tx.send((late.try_recv(), inner.flush(LONG), inner.stats().pending)).unwrap();
            }),
        );
        bus.publisher().publish(1).unwrap();
        assert_eq!(said.try_recv(), Ok((Ok(Event(3)), Err(FlushError::WouldDeadlock), 0)));
        assert_eq!(available(&mut watcher), [1, 2, 3].map(Event));
        assert_settled(&bus.stats(), 3);
    });
}

/// The wakers called by a gap, a close or a stop also run outside the bus.
#[test]
fn every_call_wakes_outside_the_bus() {
    type Act = fn(&Broadcaster<u64>, &Watcher<u64>);
    let acts: [(Act, bool); 5] = [
        (|bus, _| bus.publisher().publish_gap(5).unwrap(), false),
        (|bus, _| bus.publisher().publish_batch([6, 7]).unwrap(), false),
        (|_, watcher| watcher.stop(), false),
        (|bus, _| bus.close(), true),
        (|bus, _| assert!(bus.shutdown().complete), true),
    ];
    for (act, closes) in acts {
        watched(move || {
            let bus = inline(100);
            let mut watcher = bus.watch().unwrap();
            let mut other = bus.watch().unwrap();
            let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
            wait_with(
                &mut watcher,
                &waker_calling(move || {
                    // Another thread publishes, and would wait if this thread were inside the bus.
                    let publishing = thread::spawn(move || publisher.publish(100).is_ok());
                    said_tx.send(publishing.join().unwrap()).unwrap();
                }),
            );
            act(&bus, &watcher);
            assert_eq!(said.try_recv(), Ok(!closes));
            assert_eq!(available(&mut other).contains(&Event(100)), !closes);
        });
    }
}

/// A receive that frees capacity wakes the task that waits for this capacity, and the task's waker
/// may then publish.
#[test]
fn the_waker_of_a_waiting_publisher_may_publish() {
    watched(|| {
        let bus = inline(100);
        let mut full = waits(&bus, 2).watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
        let waker = waker_calling(move || said_tx.send(publisher.try_publish(3)).unwrap());
        let publisher = bus.publisher();
        let mut publishing = Box::pin(publisher.publish_async(4));
        assert!(poll(publishing.as_mut(), &waker).is_pending());
        assert_eq!(full.try_recv(), Ok(Event(1)));
        assert_eq!(said.try_recv(), Ok(Ok(())), "the reader wakes the task");
        assert!(poll(publishing.as_mut(), Waker::noop()).is_pending(), "the waker has taken the capacity");
        assert_eq!(full.try_recv(), Ok(Event(2)));
        assert_eq!(poll(publishing.as_mut(), Waker::noop()), Poll::Ready(Ok(())));
        assert_eq!(available(&mut full), [Event(3), Event(4)]);
    });
}

/// A nested event also wakes its reader, but only after the outer call has left the bus.
#[test]
fn a_nested_event_wakes_its_reader() {
    watched(|| {
        let bus = inline(100);
        let publisher = bus.publisher();
        let outer = move |event: &u64| {
            if *event == 1 {
                publisher.publish(2).unwrap();
            }
            true
        };
        let _outer = bus.watch_builder().filter(outer).watch().unwrap();
        let mut even = bus.watch_builder().filter(|event: &u64| event % 2 == 0).watch().unwrap();
        let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
        wait_with(
            &mut even,
            &waker_calling(move || {
                let publishing = thread::spawn(move || publisher.publish(4));
                said_tx.send(publishing.join().unwrap()).unwrap();
            }),
        );
        bus.publisher().publish(1).unwrap();
        assert_eq!(said.try_recv(), Ok(Ok(())));
        assert_eq!(available(&mut even), [Event(2), Event(4)]);
    });
}

/// A panic in a waker does not reach the publisher, and the other wakers are still called.
#[test]
fn a_waker_that_panics_stops_nothing() {
    watched(|| {
        let bus = inline(100);
        let mut watchers = [(); 3].map(|()| bus.watch().unwrap());
        let (waker, woken) = reporting_waker();
        wait_with(&mut watchers[0], &waker);
        wait_with(&mut watchers[1], &waker_calling(|| panic!("panic in the waker")));
        wait_with(&mut watchers[2], &waker);
        bus.publisher().publish(1).unwrap();
        assert_eq!(woken.try_iter().count(), 2);
        bus.publisher().publish(2).unwrap();
        assert!(bus.shutdown().complete);
        for watcher in &mut watchers {
            assert_eq!(drain(watcher), [Event(1), Event(2)]);
        }
    });
}

/// A waker may wait only for the capacity of another bus, because the thread that runs the waker
/// may be needed to free capacity in the waker's own bus.
#[test]
fn a_waker_waits_for_the_capacity_of_another_bus_only() {
    for other in [false, true] {
        watched(move || {
            let (clock, full_bus) = timed(inline_options(10));
            let bus = if other { inline(10) } else { full_bus.clone() };
            let mut full = waits(&full_bus, 1).filter(|event: &u64| *event > 1).watch().unwrap();
            full_bus.publisher().publish(2).unwrap();
            let mut watcher = bus.watch().unwrap();
            let (publisher, (said_tx, said)) = (full_bus.publisher(), mpsc::channel());
            wait_with(
                &mut watcher,
                &waker_calling(move || said_tx.send(publisher.publish_timeout(3, LONG)).unwrap()),
            );
            let reader = if other {
                Some(thread::spawn(move || {
                    clock.wait_for_waiters(1);
                    [full.recv(), full.recv()]
                }))
            } else {
                None
            };
            bus.publisher().publish(1).unwrap();
            let expected = if other { Ok(()) } else { Err(PublishError::Full(3)) };
            assert_eq!(said.try_recv(), Ok(expected));
            if let Some(reader) = reader {
                assert_eq!(reader.join().unwrap(), [Ok(Event(2)), Ok(Event(3))]);
            }
        });
    }
}

/// If a filter stops or reads another watcher, or closes the bus, the waiting task is woken only
/// after the outermost call has left the bus.
#[test]
fn calls_inside_a_filter_wake_outside_the_bus() {
    type Act = fn(&Broadcaster<u64>, &mut Watcher<u64>);
    let acts: [Act; 3] =
        [|_, watcher| watcher.stop(), |bus, _| bus.close(), |_, watcher| assert!(watcher.try_recv().is_ok())];
    for (index, act) in acts.into_iter().enumerate() {
        watched(move || {
            let bus = inline(100);
            // For the last action a publisher waits for capacity, and for the other actions a
            // reader waits for an event.
            let is_full = index == 2;
            let mut acted = waits(&bus, 1).filter(|event: &u64| *event >= 10).watch().unwrap();
            let publisher = bus.publisher();
            let (other, (said_tx, said)) = (bus.publisher(), mpsc::channel());
            let waker = waker_calling(move || {
                // Another thread uses the bus, and would wait if this thread were inside it.
                let using = thread::spawn(move || other.try_publish(2).is_ok());
                said_tx.send(using.join().unwrap()).unwrap();
            });
            let mut publishing = Box::pin(publisher.publish_async(11));
            if is_full {
                bus.publisher().publish(10).unwrap();
                assert!(poll(publishing.as_mut(), &waker).is_pending());
            } else {
                wait_with(&mut acted, &waker);
            }
            let inner = bus.clone();
            let _acted = inside(&bus, move || {
                act(&inner, &mut acted);
                acted
            });
            assert_eq!(said.try_recv(), Ok(index != 1), "act {index}");
        });
    }
}

/// If a task is waiting to publish, its waker runs on the reader's thread. The waker must not wait
/// for capacity that only this reader frees.
#[test]
fn a_waker_on_the_thread_of_a_reader_does_not_wait_for_that_reader() {
    watched(|| {
        let bus = inline(1);
        let mut watcher = waits(&bus, 1).watch().unwrap();
        bus.publisher().try_publish(1).unwrap();
        let publisher = bus.publisher();
        let mut publishing = Box::pin(publisher.publish_async(2));
        let own = bus.publisher();
        let waker = waker_calling(move || {
            own.publish(3).unwrap();
            assert!(own.publish(4).unwrap_err().is_full());
        });
        assert!(poll(publishing.as_mut(), &waker).is_pending());
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        assert_eq!(watcher.recv_timeout(LONG), Ok(Event(3)));
        drop(publishing);
        assert_eq!(bus.stats().rejected_full, 1);
    });
}
