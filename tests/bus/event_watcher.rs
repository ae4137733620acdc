//! What a reader without patience gets (`try_iter`), and a watcher that returns events alone.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::bus::{EndReason, EventWatcher};
use eventcast::error::{RecvError, RecvTimeoutError, TryRecvError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use futures::executor::block_on;
use futures::{Stream, StreamExt};

use crate::support::{LONG, watched};

/// Returns a bus with a dispatcher, and one without. The queues of their watchers have this length.
fn buses(queue_len: usize) -> [Broadcaster<u64>; 2] {
    [false, true].map(|inline| {
        Broadcaster::with_options(BusOptions::default().inline(inline).queue_len(queue_len)).unwrap()
    })
}

// ── try_iter ──

#[test]
fn try_iter_returns_what_is_queued_now() {
    for bus in buses(2) {
        let mut watcher = bus.watch().unwrap();
        assert_eq!(watcher.try_iter().next(), None);
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.try_iter().collect::<Vec<_>>(), [Event(1), Event(2), Lagged(1)]);
        assert_eq!(watcher.end_reason(), None);

        // It continues after a `None`.
        let mut arrived = watcher.try_iter();
        assert_eq!(arrived.next(), None);
        bus.publisher().publish_batch([4, 5]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(arrived.next(), Some(Event(4)));
        drop(arrived);
        bus.shutdown();
        assert_eq!(watcher.try_iter().collect::<Vec<_>>(), [Event(5)], "the rest is still there");
        assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
        assert_eq!(watcher.try_iter().next(), None);
    }
}
