//! A shutdown by deadline abandons events: they count for the right reason, and no flush claims
//! that they were handled.

use std::pin::pin;
use std::sync::mpsc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use eventcast::Delivery::{self, Event};
use eventcast::OverflowPolicy::Wait;
use eventcast::error::FlushError;

use crate::support::{LONG, bus, turnstile, until};

/// A handler has ended at the deadline while the dispatcher still holds events that do not fit into
/// the handler's queue. They count as abandoned and not as stopped, because no thread has stopped
/// the handler.
#[test]
fn events_that_wait_for_room_are_abandoned_with_their_handler() {
    let bus = bus::<u64>(100, 1);
    let (turnstile, mut pass) = turnstile();
    let handle = move |delivery: Delivery<&u64>| pass(delivery.event().copied());
    let handler = bus.watch_builder().overflow(Wait).spawn(handle).unwrap();
    // This filter holds the dispatcher after it has offered an event to the handler, and before it
    // waits for the handler.
    let ((entered_tx, entered), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
    let hold = move |event: &u64| {
        let _ = entered_tx.send(*event);
        *event == 1 || gate.recv().is_ok()
    };
    let other = bus.watch_builder().queue_len(10).filter(hold).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
    assert_eq!(entered.recv_timeout(LONG), Ok(1));
    bus.publisher().publish_batch([2, 3]).unwrap();
    assert_eq!(entered.recv_timeout(LONG), Ok(2));
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    drop(turnstile);
    assert!(handler.join(LONG), "the handler ends after its event");
    drop((go, other));
    // The dispatcher counts the events, and then ends the bus.
    until(|| handler.stats().lag == 0);
    let stats = handler.stats();
    assert_eq!((stats.offered, stats.delivered), (3, 1), "{stats}");
    assert_eq!((stats.dropped.abandoned, stats.dropped.stopped), (2, 0), "{stats}");
}

/// A flush that waited for a handler which ended at the deadline reports this, although there is no
/// handler left to wait for.
#[test]
fn a_flush_whose_handler_gave_up_is_abandoned() {
    let bus = bus::<u64>(100, 100);
    let mut seen = bus.watch().unwrap();
    let (turnstile, mut pass) = turnstile();
    let handle = move |delivery: Delivery<&u64>| pass(delivery.event().copied());
    let handler = bus.watch_builder().spawn(handle).unwrap();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
    let mut flush = pin!(bus.flush_async(10 * LONG));
    let mut poll = || flush.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    // Once an event published after the flush arrives, the dispatcher has reached the flush.
    bus.publisher().publish(4).unwrap();
    for number in 1..=4 {
        assert_eq!(seen.recv_timeout(LONG), Ok(Event(number)));
    }
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    drop(turnstile);
    assert!(handler.join(LONG));
    assert_eq!(handler.stats().delivered, 1);
    assert_eq!(poll(), Poll::Ready(Err(FlushError::Abandoned)));
}
