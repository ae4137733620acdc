//! What a shutdown by deadline abandons: events are counted for the right reason.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::Delivery;
use eventcast::OverflowPolicy::Wait;

use crate::support::{LONG, bus, turnstile, until};

/// A handler has given up while the dispatcher still holds events for which the handler's queue has
/// no room. They count as abandoned and not as stopped, because nobody has stopped the handler.
#[test]
fn events_that_wait_for_room_are_abandoned_with_their_handler() {
    let bus = bus::<u64>(100, 1);
    let (turnstile, mut pass) = turnstile();
    let handle = move |delivery: Delivery<&u64>| pass(delivery.event().copied());
    let handler = bus.watch_builder().overflow(Wait).spawn(handle).unwrap();
    // This filter holds the dispatcher after it has offered an event to the handler, and before it
    // waits for room.
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
    assert!(handler.join(LONG), "the handler gives up after its event");
    drop((go, other));
    // The dispatcher counts the events, and then ends the bus.
    until(|| handler.stats().lag == 0);
    let stats = handler.stats();
    assert_eq!((stats.offered, stats.delivered), (3, 1), "{stats}");
    assert_eq!((stats.dropped.abandoned, stats.dropped.stopped), (2, 0), "{stats}");
}
