//! Handlers that panic: those that continue, those that stop, and the reports about them. Also
//! handlers that get no thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use eventcast::Delivery::{Event, Lagged};
use eventcast::{Delivery, OverflowPolicy, WatchOptions};

use crate::support::{self, LONG, assert_balanced, bus, turnstile, watched};

fn number(delivery: Delivery<&u64>) -> u64 {
    match delivery {
        Event(number) => *number,
        Lagged(count) => 1000 + count,
    }
}

/// The queued events are lost with the handler, the handler no longer holds up the dispatcher, and
/// nobody else is affected.
#[test]
fn a_handler_that_is_to_stop_takes_its_queue_with_it() {
    for policy in [OverflowPolicy::DropIncoming, OverflowPolicy::DropOldest, OverflowPolicy::Wait] {
        let bus = bus(100, 10);
        let (turnstile, mut pass) = turnstile();
        let handler = move |delivery: Delivery<&u64>| {
            let number = number(delivery);
            pass(number);
            assert!(number != 2, "the second event");
        };
        let stopping = bus.watch_builder().name("stopping").overflow(policy).stop_on_panic(true);
        let stopping = stopping.spawn(handler).unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let sum = seen.clone();
        let other = move |delivery: Delivery<&u64>| {
            sum.fetch_add(number(delivery), Ordering::SeqCst);
        };
        let other = bus.watch_builder().name("other").queue_len(100).spawn(other).unwrap();

        bus.publisher().publish_batch(1..=10).unwrap();
        for number in [1, 2] {
            assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(number), "{policy}");
            turnstile.go.send(()).unwrap();
        }
        assert!(stopping.join(LONG), "{policy}");
        // The dispatcher may still be offering the rest of the batch, and counts the events that
        // find no handler.
        bus.flush(LONG).unwrap();
        let stats = stopping.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.stopped), (10, 2, 8), "{policy}");
        assert_eq!((stats.queued, stats.lag, stats.panics), (0, 0, 1), "{policy}");

        bus.publisher().publish(100).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(stopping.stats().offered, 10, "{policy}: nothing more is offered");
        assert_eq!((seen.load(Ordering::SeqCst), other.stats().panics), (155, 0), "{policy}");
        let report = bus.shutdown();
        assert!(report.complete, "{policy}");
        assert_balanced(&report.bus);
        // The watcher has departed or has ended with the bus, depending on when the dispatcher came
        // to it.
        let all = report.bus.watchers.iter().chain([&report.bus.departed]);
        assert_eq!(all.map(|watcher| watcher.dropped.stopped).sum::<u64>(), 8, "{policy}");
    }
}

/// A dispatcher that waits for room in a stopped handler's queue continues, and the events that it
/// held for the handler count as lost to the stop.
#[test]
fn a_dispatcher_that_waits_for_a_handler_that_stops_is_let_go() {
    let bus = bus(100, 1);
    let (turnstile, mut pass) = turnstile();
    let options = WatchOptions::default().overflow(OverflowPolicy::Wait).stop_on_panic(true);
    let handler = bus.watch_builder().options(options).spawn(move |delivery| {
        pass(number(delivery));
        panic!("at once");
    });
    let handler = handler.unwrap();
    let mut other = bus.watch_builder().queue_len(10).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(1));
    // The other watcher has its share, and the dispatcher is in the round that the handler holds
    // up.
    assert_eq!(other.recv(), Ok(Event(1)));
    bus.publisher().publish(4).unwrap();
    turnstile.go.send(()).unwrap();
    assert!(handler.join(LONG));
    bus.flush(LONG).unwrap();
    let stats = handler.stats();
    assert_eq!((stats.delivered, stats.dropped.total()), (1, stats.dropped.stopped), "{stats:?}");
    assert_eq!(stats.offered, stats.delivered + stats.dropped.stopped, "{stats:?}");
    assert!(stats.offered >= 3, "{stats:?}");
    assert_eq!(other.events().take(3).collect::<Vec<_>>(), [2, 3, 4]);
}

/// By default a handler continues after a panic, with the very next event, and after a gap.
#[test]
fn a_handler_goes_on_after_each_panic() {
    let bus = bus(100, 3);
    let (tx, seen) = mpsc::channel();
    let runner = bus.watch_builder().runner(move |delivery| {
        tx.send(number(delivery)).unwrap();
        panic!("at each");
    });
    let runner = runner.unwrap();
    bus.publisher().publish_batch(1..=5).unwrap();
    bus.close();
    runner.run();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [1, 2, 3, 1002]);
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!((report.bus.watchers[0].delivered, report.bus.watchers[0].panics), (3, 4));
}

/// A panic at a gap stops a runner too, and the runner returns to its caller.
#[test]
fn a_runner_that_is_to_stop_returns() {
    watched(|| {
        let bus = bus(100, 1);
        let runner = bus.watch_builder().stop_on_panic(true).runner(|delivery: Delivery<&u64>| {
            assert!(delivery.event().is_some(), "a gap");
        });
        let runner = runner.unwrap();
        bus.publisher().publish_batch(vec![1, 2]).unwrap();
        runner.run();
        let departed = loop {
            let stats = bus.stats();
            if stats.watchers.is_empty() {
                break stats.departed;
            }
            std::thread::yield_now();
        };
        assert_eq!((departed.delivered, departed.dropped.incoming, departed.panics), (1, 1, 1));
    });
}

/// The same for a runner that is awaited.
#[test]
fn a_runner_that_is_to_stop_is_ready() {
    watched(|| {
        let bus = bus(100, 10);
        let runner = bus.watch_builder().stop_on_panic(true).runner(|_: Delivery<&u64>| panic!("at once"));
        let runner = runner.unwrap();
        let handle = runner.handle();
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        futures::executor::block_on(runner);
        assert!(handle.join(LONG));
        bus.flush(LONG).unwrap();
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.stopped, stats.panics), (1, 2, 1), "{stats:?}");
    });
}

/// A closure may own a value that panics when it is dropped. The thread that runs the runner is not
/// affected.
#[test]
fn a_closure_that_panics_when_it_goes_reaches_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the closure goes");
        }
    }
    watched(|| {
        let bus = bus::<u64>(100, 10);
        let bomb = Bomb;
        let runner = bus.watch_builder().runner(move |_| {
            let _ = &bomb;
        });
        let runner = runner.unwrap();
        let handle = runner.handle();
        bus.publisher().publish(1).unwrap();
        bus.close();
        runner.run();
        assert!(handle.join(LONG));
        assert_eq!(handle.stats().delivered, 1);
        assert!(bus.shutdown().complete);
    });
}

/// A child process sets the system's memory limit to just above what it uses, so that there is no
/// room for a thread's stack.
#[cfg(target_os = "linux")]
#[test]
fn a_handler_without_a_thread_is_an_error_and_leaves_nothing() {
    use eventcast::error::WatchError;
    use eventcast::{Broadcaster, BusOptions};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    test_support::in_own_process!();
    /// Calls back when it is dropped. It is on the thread that asked for the handler, and all calls
    /// that end the bus wait until it has been dropped.
    struct ShutsDown(Arc<Broadcaster<u64>>);

    impl ShutsDown {
        fn is_open(&self) -> bool {
            !self.0.publisher().is_closed()
        }
    }

    impl Drop for ShutsDown {
        fn drop(&mut self) {
            assert!(self.is_open() && !self.0.shutdown().complete);
        }
    }

    let bus = bus::<u64>(100, 10);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    let other = Arc::new(support::bus::<u64>(100, 10));
    let shuts_down = ShutsDown(other.clone());
    // A thread that is just starting needs memory too, and the process aborts if the thread gets
    // none.
    other.flush(LONG).unwrap();

    let before = getrlimit(Resource::As);
    let pages: u64 = {
        let sizes = std::fs::read_to_string("/proc/self/statm").unwrap();
        sizes.split(' ').next().unwrap().parse().unwrap()
    };
    let used = pages * rustix::param::page_size() as u64;
    setrlimit(Resource::As, Rlimit { current: Some(used + (1 << 20)), ..before }).unwrap();
    let handler = bus.watch_builder().name("poor").spawn(|_| ());
    let another = Broadcaster::<u64>::new();
    let large = Broadcaster::<u64>::with_options(BusOptions::default().incoming_len(1 << 22));
    // This call is the last one, because the end of its bus gives the memory of a thread back.
    let calls_back = other.watch_builder().spawn(move |_| assert!(shuts_down.is_open()));
    setrlimit(Resource::As, before).unwrap();

    let error = handler.unwrap_err();
    assert!(matches!(error, WatchError::Thread(_)), "{error:?}");
    assert!(error.to_string().starts_with("cannot start a thread: "), "{error}");
    assert!(std::error::Error::source(&error).is_some());
    let error = another.unwrap_err();
    assert_eq!(error.option(), "thread_name");
    assert!(error.to_string().starts_with("cannot start the thread `eventcast`: "));
    assert!(matches!(calls_back, Err(WatchError::Thread(_))), "{calls_back:?}");
    assert!(other.shutdown().complete);
    let error = large.unwrap_err().to_string();
    assert!(
        error.starts_with("incoming_len must be as many entries of ") && error.ends_with(", got 4194304"),
        "{error}"
    );

    // The bus is as it was, and nobody waits for the handler that never ran. The dispatcher removes
    // the handler on its own.
    while bus.stats().watchers.len() > 1 {
        std::thread::yield_now();
    }
    bus.publisher().publish(2).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!([watcher.recv().unwrap(), watcher.recv().unwrap()], [Event(1), Event(2)]);
    assert!(bus.watch_builder().name("rich").spawn(|_| ()).unwrap().stats().name == "rich");
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!(report.bus.watchers.len(), 2, "{report}");
    assert_balanced(&report.bus);
}
