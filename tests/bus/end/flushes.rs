//! Flushes, and handlers that end while a flush waits for them.

use std::pin::pin;
use std::task::{Context, Poll};

use eventcast::Delivery::{self, Event};

use crate::support::{LONG, bus, reporting_waker, turnstile};

/// A flush that waits for a handler ends when the handler does, although events are left that the
/// handler has never seen: it panicked, or was stopped.
#[test]
fn a_flush_ends_with_a_handler_that_leaves_events() {
    for panics in [true, false] {
        let bus = bus::<u64>(100, 100);
        let mut seen = bus.watch().unwrap();
        let (turnstile, mut pass) = turnstile();
        let handle = move |delivery: Delivery<&u64>| {
            pass(delivery.event().copied());
            assert!(!panics, "the handler ends here");
        };
        let handler = bus.watch_builder().stop_on_panic(true).spawn(handle).unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        // The test fails before this deadline.
        let mut flush = pin!(bus.flush_async(10 * LONG));
        let (waker, woken) = reporting_waker();
        let mut poll = || flush.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(poll(), Poll::Pending);
        // Once an event published after the flush arrives, the dispatcher has reached the flush.
        bus.publisher().publish(4).unwrap();
        for number in 1..=4 {
            assert_eq!(seen.recv_timeout(LONG), Ok(Event(number)));
        }
        assert_eq!(poll(), Poll::Pending, "the handler is still in its first event");
        if !panics {
            handler.stop();
        }
        drop(turnstile);
        let mut flushed = poll();
        while flushed.is_pending() {
            woken.recv_timeout(LONG).expect("the flush is not woken by the handler's end");
            flushed = poll();
        }
        assert_eq!(flushed, Poll::Ready(Ok(())));
        assert!(handler.join(LONG));
        let stats = handler.stats();
        assert_eq!((stats.delivered, stats.panics), if panics { (1, 1) } else { (4, 0) }, "{stats}");
        assert_eq!(bus.flush(LONG), Ok(()));
    }
}
