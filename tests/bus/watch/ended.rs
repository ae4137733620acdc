//! `Watcher::ended`: a watcher that belongs to no bus and has already ended.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use eventcast::Watcher;
use eventcast::bus::EndReason;
use eventcast::error::{RecvError, RecvTimeoutError, TryRecvError};
use futures::Stream;

use crate::support::{LONG, bus_with, on_both, watched};

/// An event type that no bus accepts, because it is not `Clone`, `Send` or `Sync`.
struct Local(#[allow(dead_code, reason = "it makes the type local")] *const u8);

#[test]
fn every_receive_returns_the_end() {
    watched(|| {
        let mut watcher = Watcher::<u64>::ended();
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!((watcher.end_reason(), watcher.len(), watcher.is_empty()), (None, 0, true));
        for _ in 0..2 {
            assert_eq!(watcher.recv(), Err(RecvError));
            assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
            assert_eq!(watcher.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
            assert_eq!(watcher.recv_ref(), Err(RecvError));
            assert!(watcher.recv_batch().is_err() && watcher.try_recv_batch().is_err());
            assert_eq!(watcher.recv_batch_timeout(LONG).unwrap_err(), RecvTimeoutError::Ended);
            assert_eq!(pin!(watcher.recv_async()).as_mut().poll(cx), Poll::Ready(Err(RecvError)));
            assert!(pin!(watcher.recv_batch_async()).as_mut().poll(cx).is_ready());
            assert_eq!(pin!(&mut watcher).poll_next(cx), Poll::Ready(None));
            assert_eq!((watcher.events().next(), (&mut watcher).into_iter().next()), (None, None));
        }
        assert_eq!((watcher.len(), watcher.position()), (0, None));
    });
}

#[test]
fn its_counters_are_zero_and_it_can_be_stopped() {
    let mut watcher = Watcher::<Local>::ended();
    let stop = watcher.handle();
    let stats = watcher.stats();
    assert_eq!((stats.name.as_str(), stats.offered, stats.delivered, stats.queued), ("ended", 0, 0, 0));
    assert_eq!((stats.dropped.total(), stats.panics, stats.evictions), (0, 0, 0));
    assert_eq!(format!("{watcher:?}"), "Watcher { name: \"ended\", .. }");
    stop.stop();
    watcher.stop();
    assert!(watcher.recv_ref().is_err());
    // The end reason is the same as for a watcher that is stopped after its bus was closed.
    assert_eq!(watcher.end_reason(), Some(EndReason::Stopped));
    drop(watcher);
    stop.stop();
}

/// The ended watcher ends for the same reason as a watcher of a closed bus.
#[test]
fn it_stands_in_for_a_watcher_of_a_closed_bus() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let subscribe = || bus.watch().unwrap_or_else(|_| Watcher::ended());
        let mut before = subscribe();
        bus.shutdown();
        let mut after = subscribe();
        assert_eq!(bus.watcher_count(), 1, "the ended watcher does not belong to the bus");
        assert_eq!((before.recv(), after.recv()), (Err(RecvError), Err(RecvError)));
        assert_eq!(before.end_reason(), after.end_reason());
        let reading = thread::spawn(move || after.into_iter().count());
        assert_eq!(reading.join().unwrap(), 0);
    });
}

#[cfg(feature = "select")]
#[test]
fn a_select_returns_it() {
    watched(|| {
        let watcher = Watcher::<u64>::ended();
        let mut select = crossbeam_channel::Select::new();
        let index = watcher.add_to(&mut select);
        assert_eq!(select.ready(), index);
    });
}
