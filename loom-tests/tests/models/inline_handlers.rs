//! Models of handlers on an inline bus and of threads that wait for the handlers.
//!
//! The set-up is not explored. Each handler is a `Runner` that runs on one of the model's threads.

use std::ops::ControlFlow;
use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::bus::EndReason;
use eventcast::testing::{Exploration, Payload, begin, finish};
use eventcast_loom_tests::{explore, inline_bus, spawn};

/// A flush waits for a handler on another thread. When the flush returns, the handler has handled
/// the event.
fn a_flush_against_a_handler() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let handle = runner.handle();
        begin();
        let running = spawn(move || runner.run());
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        assert_eq!(handle.stats().delivered, 1);
        finish();
        bus.close();
        running.join().unwrap();
    });
}

/// A thread flushes a bus with a handler while another thread publishes.
fn a_flush_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let handle = runner.handle();
        let (publisher, flushed) = (bus.publisher(), bus.clone());
        begin();
        let flushing = spawn(move || {
            publisher.try_publish(Payload::new(1)).unwrap();
            assert_eq!(flushed.flush(Duration::from_secs(1)), Ok(()));
            assert_eq!(handle.stats().delivered, 1);
            flushed.close();
        });
        runner.run();
        flushing.join().unwrap();
    });
}

/// A shutdown waits for a handler on another thread. When the shutdown returns, the handler has
/// handled the event.
fn a_shutdown_against_a_handler() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let handle = runner.handle();
        begin();
        let running = spawn(move || runner.run());
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let report = bus.shutdown();
        assert_eq!((report.complete, handle.stats().delivered), (true, 1));
        running.join().unwrap();
    });
}

/// A thread waits for a handler to end while a filter drops the handler from inside a publish call.
/// The thread is woken after the publish call returns.
fn a_filter_that_drops_a_handler_against_a_join() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let handle = runner.handle();
        let mut owned = Some(runner);
        let filter = move |_: &Payload| owned.take().is_some();
        let watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).is_ok());
        assert!(handle.join(Duration::from_secs(1)));
        assert!(publishing.join().unwrap());
        drop(watcher);
    });
}

/// A handler ends itself at its first delivery while one thread publishes two events, and another
/// thread stops the handler and waits for it. Every offered event is counted once.
fn a_handler_that_breaks_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner_while(|_| ControlFlow::Break(())).unwrap();
        let handle = runner.handle();
        let publisher = bus.publisher();
        begin();
        let running = spawn(move || runner.run());
        let publishing =
            spawn(move || (1..3).for_each(|number| publisher.try_publish(Payload::new(number)).unwrap()));
        handle.stop();
        assert!(handle.join(Duration::from_secs(1)));
        publishing.join().unwrap();
        running.join().unwrap();
        let stats = handle.stats();
        assert!(stats.delivered <= 1 && stats.queued == 0, "{stats:?}");
        assert_eq!(stats.offered, stats.delivered + stats.dropped.total(), "{stats:?}");
        assert_eq!(handle.end_reason(), Some(EndReason::Stopped));
        assert_eq!(bus.watcher_count(), 0);
    });
}

models! {
    a_flush_against_a_handler,
    a_flush_against_a_publisher,
    a_shutdown_against_a_handler,
    a_filter_that_drops_a_handler_against_a_join,
    a_handler_that_breaks_against_a_stop,
}
