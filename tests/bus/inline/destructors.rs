//! Publishing from destructors, and from all other user code that runs inside a call.

use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::WaitFor;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, Delivery, Watcher};

use crate::support::{
    At, AtDrop, Caller, assert_settled, available, inline, inline_options, keeping, timed, waits, watched,
};

/// The results of several publish calls.
type Results<const N: usize> = [Result<(), PublishError<u64>>; N];

/// Registers a watcher whose filter, when it is dropped, publishes these events and reports the
/// results.
fn publishing_at_drop<const N: usize>(
    bus: &Broadcaster<u64>,
    events: [u64; N],
) -> (Watcher<u64>, Receiver<Results<N>>) {
    let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
    let publish = AtDrop(move || said_tx.send(events.map(|event| publisher.try_publish(event))).unwrap());
    (bus.watch_builder().filter(keeping(publish)).watch().unwrap(), said)
}

/// A filter's destructor runs inside the call that removes the watcher, and the events that the
/// destructor publishes need capacity.
#[test]
fn a_destructor_that_publishes_needs_capacity() {
    watched(|| {
        let bus = inline(100);
        let [first, second, last] = [(); 3].map(|()| publishing_at_drop(&bus, [2, 3]));
        bus.publisher().publish(1).unwrap();
        let mut full = waits(&bus, 1).watch().unwrap();
        drop(first.0);
        assert_eq!(first.1.try_recv(), Ok([Ok(()), Err(PublishError::Full(3))]));
        drop(second.0);
        assert_eq!(second.1.try_recv(), Ok([2, 3].map(|event| Err(PublishError::Full(event)))));
        assert_eq!(available(&mut full), [Event(2)]);
        assert_eq!(full.stats().dropped.total(), 0);
        // After the bus has ended, no event is accepted.
        assert!(bus.shutdown().complete);
        assert_eq!(last.1.try_recv(), Ok([2, 3].map(|event| Err(PublishError::Closed(event)))));
        drop(last.0);
        assert_settled(&bus.stats(), 2);
    });
}

/// If a watcher with a limit has capacity, an event published by a destructor takes that capacity,
/// and the limit starts again. If the watcher has been full for its whole limit, it loses such an
/// event like any other event.
#[test]
fn a_nested_event_and_the_limit_of_a_watcher() {
    const LIMIT: Duration = Duration::from_secs(10);
    for frees in [true, false] {
        watched(move || {
            let (clock, bus) = timed(inline_options(1));
            let mut slow = bus.watch_builder().overflow(WaitFor(LIMIT)).watch().unwrap();
            let publisher = bus.publisher();
            publisher.try_publish(1).unwrap();
            assert_eq!(publisher.try_publish(2), Err(PublishError::Full(2)));
            clock.advance(if frees { LIMIT / 2 } else { LIMIT });
            if frees {
                assert_eq!(slow.try_recv(), Ok(Event(1)));
            }
            let (watcher, said) = publishing_at_drop(&bus, [3]);
            drop(watcher);
            assert_eq!(said.try_recv(), Ok([Ok(())]));
            if frees {
                clock.advance(LIMIT / 2);
                assert_eq!(
                    publisher.try_publish(4),
                    Err(PublishError::Full(4)),
                    "the watcher has been full for half its limit"
                );
                assert_eq!(available(&mut slow), [Event(3)]);
            } else {
                assert_eq!(publisher.try_publish(4), Ok(()));
                assert_eq!(slow.stats().dropped.timed_out, 2);
            }
        });
    }
}

#[test]
fn the_destructor_of_a_filter_may_join_a_thread_that_publishes() {
    for closes in [false, true] {
        watched(move || {
            let bus = inline::<u64>(10);
            let publisher = bus.publisher();
            let joins = AtDrop(move || {
                let publisher = publisher.clone();
                let publishing = thread::spawn(move || publisher.publish(1).is_ok());
                assert_eq!(publishing.join().unwrap(), !closes);
            });
            let watcher = bus.watch_builder().filter(keeping(joins)).watch().unwrap();
            if closes {
                bus.close();
            }
            drop(watcher);
        });
    }
}

/// If a filter, a hook, a `Clone` or a `Drop` publishes inside a publish call, the nested event is
/// available when the outer call returns, and it follows the outer events.
#[test]
fn user_code_may_publish_wherever_it_runs() {
    for at in [At::Filter, At::Hook, At::Clone, At::Drop] {
        watched(move || {
            let bus = inline::<Caller>(100);
            let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
            let _short = Caller::watch(&bus);
            let mut seen = bus.watch_builder().filter(|event: &Caller| event.number >= 10).watch().unwrap();
            let call = move || said_tx.send(publisher.publish(Caller::silent(10)).map_err(drop)).unwrap();
            bus.publisher().publish_batch(Caller::three(at, call)).map_err(drop).unwrap();
            assert_eq!(said.try_recv(), Ok(Ok(())), "{at:?}: nothing was published");
            assert_eq!(seen.try_recv().ok().and_then(Delivery::event).map(|e| e.number), Some(10));
            assert_eq!(seen.position(), Some(4), "{at:?}");
            assert_settled(&bus.stats(), 4);
        });
    }
}
