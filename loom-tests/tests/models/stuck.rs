//! Models in which threads and tasks wait while something else is stuck. The dispatcher is blocked
//! by a watcher without a reader, a handler does not end, or the clock does not advance. No
//! unrelated activity can wake the waiting threads and tasks.

use std::future::poll_fn;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use eventcast::error::FlushError;
use eventcast::testing::FakeClock;
use eventcast::testing::{Exploration, Payload, Sign, begin, rest};
use eventcast::{Delivery, OverflowPolicy};
use eventcast_loom_tests::{bus, bus_at, explore, spawn};
use loom::future::block_on;

/// The bus is closed while a publisher waits for capacity that no reader will free. Closing the bus
/// releases the publisher.
fn close_against_a_publisher_blocked_by_a_stuck_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::Wait);
        let stuck = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let (publisher, closed) = (bus.publisher(), bus.clone());
        let publishing = spawn(move || {
            (3..5).map(|number| u64::from(publisher.publish(Payload::new(number)).is_ok())).sum::<u64>()
        });
        let closing = spawn(move || closed.close());
        let accepted = publishing.join().unwrap();
        closing.join().unwrap();
        assert!(accepted < 2, "there was room for one at most");
        drop(stuck);
        assert_eq!(bus.shutdown().bus.accepted, 2 + accepted);
    });
}

/// A reader begins to wait while another thread stops it and another watcher blocks the dispatcher.
/// The reader ends.
fn stop_against_a_reader_blocked_by_a_stuck_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::Wait);
        let mut reader = bus.watch().unwrap();
        let stuck = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let stop = reader.handle();
        let reading = spawn(move || while let Ok(Delivery::Event(_)) = reader.recv() {});
        let stopping = spawn(move || stop.stop());
        reading.join().unwrap();
        stopping.join().unwrap();
        drop(stuck);
    });
}

/// A shutdown with a deadline races with a dispatcher that starts or resumes waiting for a watcher
/// without a reader. The dispatcher ends, and the event that did not fit is counted.
fn abandoning_against_a_stuck_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let bus = bus_at(&clock, 1, 1, OverflowPolicy::Wait);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        let stuck = bus.watch_builder().filter(filter).watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let giving_up = spawn(move || bus.shutdown_timeout(Duration::from_secs(1)));
        let stepping = spawn(move || {
            clock.wait_for_waiters(1);
            // The shutdown reserves the last 50 ms of its second for abandoning the bus.
            clock.advance(Duration::from_millis(950));
        });
        gone.wait();
        giving_up.join().unwrap();
        stepping.join().unwrap();
        let stats = stuck.stats();
        assert_eq!((stats.queued, stats.dropped.abandoned), (1, 1), "{stats:?}");
    });
}

/// Two shutdowns wait for a handler that never runs. The shutdown with a deadline times out and
/// returns a snapshot. The other shutdown waits until the handler is dropped, and its report shows
/// the final state.
fn two_shutdowns_against_a_handler_that_hangs() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        rest(&bus);
        begin();
        let (patient, hasty) = (bus.clone(), bus);
        let waiting = spawn(move || patient.shutdown());
        let giving_up = spawn(move || hasty.shutdown_timeout(Duration::ZERO));
        let snapshot = giving_up.join().unwrap();
        assert!(!snapshot.complete && !snapshot.threads_ended);
        drop(runner);
        let report = waiting.join().unwrap();
        assert!(!report.complete && report.threads_ended);
    });
}

/// A flush waits for a handler that never runs, while a shutdown abandons the bus. The flush
/// returns when the bus is abandoned, before the shutdown's deadline.
fn abandoning_against_a_flush() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let bus = bus_at(&clock, 1, 1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        rest(&bus);
        begin();
        bus.publisher().publish(Payload::new(1)).unwrap();
        let (flushed, stepped) = (bus.clone(), clock.clone());
        let flushing = spawn(move || {
            assert_eq!(flushed.flush(Duration::from_secs(9)), Err(FlushError::Abandoned));
            drop(runner);
        });
        let stepping = spawn(move || {
            stepped.wait_for_waiters(2);
            stepped.advance(Duration::from_millis(950));
        });
        assert!(!bus.shutdown_timeout(Duration::from_secs(1)).complete);
        flushing.join().unwrap();
        stepping.join().unwrap();
    });
}

/// A shutdown abandons the bus and a handler ends, before or after the dispatcher processes the
/// handler's registration. In either case, the event that was accepted after the registration is
/// counted. In the first execution, the dispatcher runs last.
fn abandoning_against_a_registration() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let handle = runner.handle();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        drop(bus.shutdown_timeout(Duration::ZERO));
        runner.run();
        let report = bus.shutdown();
        let stats = handle.stats();
        let handled = stats.delivered + stats.dropped.total();
        assert_eq!((report.bus.accepted, stats.offered, handled), (1, 1, 1), "{stats:?}");
    });
}

/// Two tasks with different deadlines wait for a bus that does not end. The earlier deadline ends
/// one wait even though the timer had been set to the later deadline. The other wait is dropped,
/// and does not leave an entry in the timer.
fn a_deadline_against_a_later_one() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let bus = bus_at(&clock, 1, 1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        rest(&bus);
        begin();
        let (late, early) = (bus.clone(), bus);
        let mut late = Box::pin(async move { late.shutdown_async(Duration::from_secs(9)).await });
        assert!(late.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let early = spawn(move || {
            let mut ending = pin!(early.shutdown_async(Duration::from_secs(1)));
            let mut steps = Some(clock);
            block_on(poll_fn(|cx| {
                let result = ending.as_mut().poll(cx);
                steps.take().iter().for_each(|clock| clock.advance(Duration::from_secs(1)));
                result
            }))
        });
        assert!(!early.join().unwrap().complete);
        drop(late);
        drop(runner);
    });
}

models! {
    close_against_a_publisher_blocked_by_a_stuck_dispatcher,
    stop_against_a_reader_blocked_by_a_stuck_dispatcher,
    abandoning_against_a_stuck_dispatcher,
    two_shutdowns_against_a_handler_that_hangs,
    abandoning_against_a_flush,
    abandoning_against_a_registration,
    a_deadline_against_a_later_one,
}
