//! Handlers, filters, hooks and destructors that panic, and publishing during a panic.

use std::cell::RefCell;
use std::panic::panic_any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::bus::EndReason;
use eventcast::{Delivery, Publisher};

use crate::support::{
    AtDrop, LONG, assert_balanced, assert_settled, available, bus, bus_with, copied, drain, events, inline,
    keeping, on_both, waits, watched,
};

/// If a handler panics, it continues with the next event, frees its capacity, and does not affect
/// other watchers.
#[test]
fn a_handler_that_panics_continues_with_the_next_event() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut other = bus.watch().unwrap();
        let (tx, rx) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| {
            let n = *delivery.event().unwrap();
            assert!(n % 2 == 0, "odd");
            tx.send(n).unwrap();
        };
        let handle = waits(&bus, 1).spawn(handler).unwrap();
        (1..=100).for_each(|event| bus.publisher().publish(event).unwrap());
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.shutdown().complete);
        assert!(rx.into_iter().eq((2..=100).step_by(2)));
        assert_eq!((handle.stats().panics, handle.stats().delivered), (50, 100));
        assert!(other.events().eq(1..=100));
    });
}

/// If a filter panics, its own watcher ends. The current publish and later publishes succeed.
#[test]
fn a_filter_that_panics_ends_its_own_watcher() {
    on_both(|options| {
        let bus = bus_with(options);
        let filter = |event: &u64| {
            assert!(*event != 3, "three");
            true
        };
        let mut broken = bus.watch_builder().filter(filter).watch().unwrap();
        let mut other = bus.watch().unwrap();
        for n in 1..=5 {
            bus.publisher().publish(n).unwrap();
            bus.flush(LONG).unwrap();
        }
        assert_eq!(drain(&mut broken), [Event(1), Event(2)]);
        assert_eq!((broken.stats().panics, broken.end_reason()), (1, Some(EndReason::Stopped)));
        assert_settled(&bus.stats(), 5);
        assert!(bus.shutdown().complete);
        assert_eq!(events(&drain(&mut other)), [1, 2, 3, 4, 5]);
    });
}

#[test]
fn a_hook_that_panics_is_counted_and_called_again() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(1));
        let calls = Arc::new(AtomicU64::new(0));
        let counter = calls.clone();
        let hook = move |_, _: &[u64]| {
            counter.fetch_add(1, Ordering::SeqCst);
            panic!("hook");
        };
        let mut watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
        for n in 1..=3 {
            bus.publisher().publish(n).unwrap();
            bus.flush(LONG).unwrap();
        }
        assert_eq!((calls.load(Ordering::SeqCst), watcher.stats().panics), (2, 2));
        assert_eq!(available(&mut watcher), [Event(1), Lagged(2)]);
        assert_eq!(watcher.stats().dropped.incoming, 2);
    });
}

/// A panic is caught even if dropping its payload panics.
#[test]
fn a_payload_that_panics_stops_nothing() {
    on_both(|options| {
        let bus = bus_with(options);
        let handler = |_: Delivery<&u64>| panic_any(AtDrop(|| panic!("payload")));
        let handle = bus.watch_builder().spawn(handler).unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(handle.stats().panics, 2);
    });
}

/// A filter's destructor is also user code. It may panic where the filter's watcher is removed, or
/// at the end of the bus.
#[test]
fn a_filter_whose_destructor_panics_stops_nothing() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let [dropped, mut kept] = [(); 2].map(|()| {
            bus.watch_builder().filter(keeping(AtDrop(|| panic!("the filter goes")))).watch().unwrap()
        });
        let mut other = bus.watch().unwrap();
        drop(dropped);
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        for watcher in [&mut kept, &mut other] {
            assert_eq!(drain(watcher), [Event(1)]);
        }
        assert_balanced(&bus.stats());
    });
}

/// G9: a filter and a hook of one watcher may both have destructors that panic.
#[test]
fn a_filter_and_a_hook_whose_destructors_panic_stop_nothing() {
    // An abort would also end the other tests.
    test_support::in_own_process!();
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let hook = AtDrop(|| panic!("hook"));
        let builder = bus.watch_builder().filter(keeping(AtDrop(|| panic!("filter"))));
        let hook = move |_, _: &[u64]| {
            let _ = &hook;
        };
        drop(builder.on_drop(hook).watch().unwrap());
        assert!(bus.shutdown().complete);
    });
}

/// A closure may own a value that panics when it is dropped. The thread that runs the runner is not
/// affected.
#[test]
fn a_handler_whose_destructor_panics_reaches_no_caller() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let bomb = AtDrop(|| panic!("the closure is dropped"));
        let handler = move |_: Delivery<&u64>| {
            let _ = &bomb;
        };
        let runner = bus.watch_builder().runner(handler).unwrap();
        let handle = runner.handle();
        bus.publisher().publish(1).unwrap();
        bus.close();
        runner.run();
        assert!(handle.join(LONG));
        assert_eq!(handle.stats().delivered, 1);
        assert!(bus.shutdown().complete);
    });
}

/// A publish in the destructor of a guard works while a panic in user code unwinds.
#[test]
fn a_publish_works_while_a_panic_unwinds() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let panicked = thread::spawn(move || {
            let _guard = AtDrop(|| publisher.publish(7).unwrap());
            panic!("as a failed assertion would");
        });
        assert!(panicked.join().is_err());
        bus.publisher().publish(8).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(drain(&mut watcher), [Event(7), Event(8)]);
    });
}

/// While threads are torn down, the destructors of their thread-local values publish, both into a
/// full queue, where they wait, and through a filter that publishes too.
#[test]
fn publishing_while_the_thread_is_torn_down() {
    struct Last(Publisher<u64>, u64);
    impl Drop for Last {
        fn drop(&mut self) {
            (0..20).for_each(|n| self.0.publish(self.1 + n).unwrap());
        }
    }
    thread_local! {
        static LAST: RefCell<Option<Last>> = const { RefCell::new(None) };
    }
    on_both(|options| {
        let bus = bus_with(options.incoming_capacity(1).max_batch(1));
        let mut watcher = waits(&bus, 1).watch().unwrap();
        let threads = [100, 200].map(|first| {
            let last = Last(bus.publisher(), first);
            thread::spawn(move || LAST.with(|slot| *slot.borrow_mut() = Some(last)))
        });
        let seen: Vec<_> = watcher.events().take(40).collect();
        for (first, thread) in [100, 200].into_iter().zip(threads) {
            thread.join().unwrap();
            let own = seen.iter().copied().filter(|event| event / 100 == first / 100);
            assert!(own.eq(first..first + 20), "{seen:?}");
        }
    });
}

/// With `panic = "abort"` a panic cannot be caught. The process ends where a handler panics, after
/// printing the message, and the results produced until then remain. Here a panic hook aborts, as
/// the panic runtime would do right after the hook.
#[cfg(unix)]
#[test]
fn an_abort_ends_the_process_at_the_panic() {
    use std::os::unix::process::ExitStatusExt;

    use test_support::{child, test_name};

    if child::is_child() {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            usual(info);
            std::process::abort();
        }));
        let bus = bus::<u64>(10, 10);
        bus.watch_builder()
            .spawn(|delivery| {
                let n = *delivery.event().unwrap();
                assert!(n != 2, "the handler panics");
                eprintln!("handled {n}");
            })
            .unwrap();
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        bus.shutdown();
        unreachable!("the process has ended");
    }
    let output = child::output(test_name!());
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(rustix::process::Signal::ABORT.as_raw()), "{text}");
    assert!(text.contains("handled 1") && text.contains("the handler panics"), "{text}");
    assert!(!text.contains("handled 3") && !text.contains("the process has ended"), "{text}");
}

/// The filter of a full `Wait` watcher is called before the event is accepted, and panics.
#[test]
fn a_filter_of_a_full_watcher_that_panics_ends_its_own_watcher() {
    watched(|| {
        let bus = inline(100);
        let filter = |event: &u64| {
            assert!(*event != 2, "two");
            true
        };
        let mut broken = waits(&bus, 1).filter(filter).watch().unwrap();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        // The watcher is full. The watcher ends with this event, so no publish waits for it.
        bus.publisher().publish(2).unwrap();
        bus.publisher().try_publish(3).unwrap();
        assert_eq!(available(&mut other), [1, 2, 3].map(Event));
        assert_eq!(drain(&mut broken), [Event(1)]);
        assert_eq!(broken.stats().panics, 1);
    });
}

/// By default a handler continues after a panic, whether at an event or at a gap, with the very
/// next delivery.
#[test]
fn a_handler_continues_after_each_panic() {
    let bus = bus(100, 3);
    let (tx, seen) = mpsc::channel();
    let runner = bus.watch_builder().runner(move |delivery| {
        tx.send(copied(delivery)).unwrap();
        panic!("at each");
    });
    let runner = runner.unwrap();
    bus.publisher().publish_batch(1..=5).unwrap();
    bus.close();
    runner.run();
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [Event(1), Event(2), Event(3), Lagged(2)]);
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!((report.bus.watchers[0].delivered, report.bus.watchers[0].panics), (3, 4));
}
