//! Why handlers end, and how to wait for them.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::bus::EndReason::{Closed, Evicted, Stopped};
use eventcast::{Delivery, OverflowPolicy, WatchHandle};
use futures::executor::block_on;

use crate::support::{LONG, bus, bus_with, buses, on_both, stopping_handler, timed, watched};

/// A handler has no reason for its end until it has ended, even if its watcher has been stopped or
/// its bus has been closed.
#[test]
fn a_handler_has_a_reason_only_after_its_end() {
    for bus in buses(10) {
        let (stopping, stopped) = stopping_handler(bus.watch_builder());
        let (closing, closed) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch([1, 2]).unwrap();
        stopping.wait_for(Some(1));
        closing.wait_for(Some(1));
        stopped.stop();
        bus.close();
        assert_eq!((stopped.end_reason(), closed.end_reason()), (None, None));
        for turnstile in [&stopping, &closing] {
            turnstile.let_one_pass();
            turnstile.wait_for(Some(2));
        }
        assert_eq!((stopped.end_reason(), closed.end_reason()), (None, None));
        stopping.let_one_pass();
        closing.let_one_pass();
        assert!(stopped.join(LONG) && closed.join(LONG));
        assert_eq!((stopped.end_reason(), closed.end_reason()), (Some(Stopped), Some(Closed)));
    }
}

/// The reason does not change after the end, whatever is called.
#[test]
fn the_reason_stays_the_same_after_the_end() {
    on_both(|options| {
        let bus = bus_with::<u64>(options.queue_capacity(1));
        let first = bus.watch_builder().spawn_while(|_| Break(())).unwrap();
        let panicking = bus.watch_builder().stop_on_panic(true).spawn(|_| panic!("a bug")).unwrap();
        let all = bus.watch_builder().queue_capacity(10).spawn(|_| ()).unwrap();
        let evicted = bus.watch_builder().overflow(OverflowPolicy::Evict).runner(|_| ()).unwrap();
        let handles = [first, panicking, evicted.handle(), all];
        bus.publisher().publish_batch([1, 2]).unwrap();
        evicted.run();
        bus.shutdown();
        let expected = [Stopped, Stopped, Evicted, Closed].map(Some);
        assert_eq!(handles.each_ref().map(WatchHandle::end_reason), expected);
        handles.iter().for_each(WatchHandle::stop);
        assert_eq!(handles.each_ref().map(WatchHandle::end_reason), expected);
        assert_eq!(handles.each_ref().map(WatchHandle::wait), expected);
    });
}

/// The order of the close and the handler's last call decides: a handler that ends itself before
/// the end of the stream counts as stopped, even if the bus has been closed.
#[test]
fn a_handler_that_breaks_after_the_close_counts_as_stopped() {
    on_both(|options| {
        for (awaited, last, reason) in [(false, 2, Stopped), (true, 2, Stopped), (false, 4, Closed)] {
            let bus = bus_with(options.clone());
            let runner = bus.watch_builder().runner_while(move |delivery: Delivery<&u64>| {
                if *delivery.event().unwrap() == last { Break(()) } else { Continue(()) }
            });
            let runner = runner.unwrap();
            let handle = runner.handle();
            bus.publisher().publish_batch([1, 2, 3]).unwrap();
            bus.close();
            if awaited {
                block_on(runner);
            } else {
                runner.run();
            }
            assert_eq!(handle.end_reason(), Some(reason));
        }
    });
}

/// A handler that is abandoned ends with its bus. A runner that is dropped was stopped.
#[test]
fn a_handler_that_is_abandoned_ends_with_its_bus() {
    on_both(|options| {
        let (clock, bus) = timed(options.queue_capacity(3));
        let dropped = bus.watch_builder().runner(|_| ()).unwrap();
        let dropped_handle = dropped.handle();
        drop(dropped);
        assert_eq!(dropped_handle.end_reason(), Some(Stopped));
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch(1..=3).unwrap();
        turnstile.wait_for(Some(1));
        thread::scope(|scope| {
            let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(5)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(5));
            assert!(!shutdown.join().unwrap().complete);
        });
        assert_eq!(handle.end_reason(), None);
        turnstile.let_one_pass();
        assert_eq!(handle.wait(), Some(Closed));
    });
}

/// For a watcher that the program reads itself, the handle has no reason until the watcher is
/// dropped.
#[test]
fn the_handle_of_a_watcher_has_a_reason_after_the_drop() {
    for bus in buses(10) {
        let [mut read, unread] = [(); 2].map(|()| bus.watch().unwrap());
        let handles = [read.handle(), unread.handle()];
        bus.publisher().publish(1).unwrap();
        bus.close();
        assert_eq!(read.events().collect::<Vec<_>>(), [1]);
        assert_eq!(read.end_reason(), Some(Closed));
        assert_eq!(handles.each_ref().map(WatchHandle::end_reason), [None; 2]);
        drop((read, unread));
        assert_eq!(handles.map(|handle| handle.end_reason()), [Some(Closed), Some(Stopped)]);
    }
}

/// `wait` returns when the handler has ended, after everything that the handler did.
#[test]
fn wait_waits_for_the_end_of_a_handler() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let (tx, rx) = mpsc::channel();
        let handle = bus.watch_builder().spawn_while(move |delivery| {
            tx.send(delivery.event().copied()).unwrap();
            if delivery == Delivery::Event(&2) { Break(()) } else { Continue(()) }
        });
        let handle = handle.unwrap();
        let waiting = thread::spawn(move || (handle.wait(), rx.try_iter().collect::<Vec<_>>()));
        bus.publisher().publish(1).unwrap();
        bus.flush(LONG).unwrap();
        assert!(!waiting.is_finished());
        bus.publisher().publish(2).unwrap();
        assert_eq!(waiting.join().unwrap(), (Some(Stopped), vec![Some(1), Some(2)]));
    });
}

/// A handler that waits for itself, or for another handler of its bus, does not wait.
#[test]
fn wait_does_not_wait_on_a_thread_of_the_bus() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let (give, take) = mpsc::channel::<WatchHandle>();
        let (tx, waited) = mpsc::channel();
        let other = bus.watch_builder().spawn(|_| ()).unwrap();
        let ended = bus.watch_builder().spawn(|_| ()).unwrap();
        ended.stop();
        assert_eq!(ended.wait(), Some(Stopped));
        let own = bus.watch_builder().spawn_while(move |_| -> ControlFlow<()> {
            tx.send(take.iter().map(|handle| handle.wait()).collect::<Vec<_>>()).unwrap();
            Break(())
        });
        let own = own.unwrap();
        for handle in [&own, &other, &ended] {
            give.send(handle.clone()).unwrap();
        }
        drop(give);
        bus.publisher().publish(1).unwrap();
        assert_eq!(waited.recv_timeout(LONG / 2), Ok(vec![None, None, Some(Stopped)]));
        assert_eq!(own.wait(), Some(Stopped));
        assert!(bus.shutdown().complete);
        assert_eq!(other.wait(), Some(Closed));
    });
}
