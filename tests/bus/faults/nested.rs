//! Calls from the inside, nested buses, and an abort.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self};

use eventcast::Delivery::Event;
use eventcast::{Broadcaster, Delivery};

use crate::support::{LONG, assert_balanced, bus, drain, events, hold, watched};

/// A shutdown from a filter, a hook, a `Clone` or a `Drop` that the dispatcher runs closes the bus
/// and does not wait for itself. The bus still comes to its end.
#[test]
fn a_shutdown_from_the_dispatchers_own_thread_closes_and_goes_on() {
    /// The place from which a shutdown is called.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum At {
        Filter,
        Hook,
        Clone,
        Drop,
    }
    struct Caller {
        bus: Arc<std::sync::Mutex<Option<Arc<Broadcaster<Caller>>>>>,
        at: At,
        said: mpsc::Sender<bool>,
    }
    impl Caller {
        fn call(&self, at: At) {
            if at == self.at && thread::current().name() == Some("eventcast") {
                let bus = self.bus.lock().unwrap().take();
                if let Some(bus) = bus {
                    let _ = self.said.send(bus.shutdown().complete);
                }
            }
        }
    }
    impl Clone for Caller {
        fn clone(&self) -> Self {
            self.call(At::Clone);
            Self { bus: self.bus.clone(), at: self.at, said: self.said.clone() }
        }
    }
    impl Drop for Caller {
        fn drop(&mut self) {
            self.call(At::Drop);
        }
    }

    for at in [At::Filter, At::Hook, At::Clone, At::Drop] {
        watched(move || {
            let bus = Arc::new(bus::<Caller>(10, 1));
            let (said, heard) = mpsc::channel();
            let shared = Arc::new(std::sync::Mutex::new(Some(bus.clone())));
            let event = || Caller { bus: shared.clone(), at, said: said.clone() };
            let mut watcher = bus
                .watch_builder()
                .filter(|event: &Caller| {
                    event.call(At::Filter);
                    true
                })
                .on_drop(|_, lost| lost.iter().for_each(|event| event.call(At::Hook)))
                .watch()
                .unwrap();
            // Only one event fits, so it is copied and the other two are lost.
            bus.publisher().publish_batch(vec![event(), event(), event()]).map_err(|_| "refused").unwrap();
            assert_eq!(heard.recv_timeout(LONG), Ok(false), "{at:?}");
            assert!(bus.publisher().is_closed(), "{at:?}");
            assert!(bus.shutdown().complete, "{at:?}");
            assert_eq!(drain(&mut watcher).len(), 2, "{at:?}: one event, and that two are missing");
            assert_balanced(&bus.stats());
        });
    }
}

/// Handlers of two buses publish on each other's bus until both are shut down, one of them from
/// within the other's handler. A full queue refuses at once on a thread of its bus, so no thread
/// waits for itself.
#[test]
fn two_buses_that_feed_each_other_can_be_shut_down() {
    watched(|| {
        let buses = [Arc::new(bus::<u64>(4, 4)), Arc::new(bus::<u64>(4, 4))];
        let both_moved = Arc::new(AtomicU64::new(0));
        let handles: Vec<_> = (0..2)
            .map(|from| {
                let to = buses[1 - from].publisher();
                let moved = both_moved.clone();
                let handler = move |delivery: Delivery<&u64>| {
                    if let Event(n) = delivery {
                        moved.fetch_add(1, Ordering::SeqCst);
                        let _ = to.try_publish(n + 1);
                        let _ = to.try_publish(n + 1);
                    }
                };
                buses[from].watch_builder().spawn(handler).unwrap()
            })
            .collect();
        buses[0].publisher().publish(0).unwrap();
        while both_moved.load(Ordering::SeqCst) < 10_000 {
            thread::yield_now();
        }
        // A handler of the second bus shuts down the first. The handler may wait for the first bus,
        // because it is another bus.
        let (other, done) = (buses[0].clone(), Arc::new(AtomicBool::new(false)));
        let said = done.clone();
        buses[1]
            .watch_builder()
            .spawn(move |_| {
                if !said.load(Ordering::SeqCst) {
                    said.store(other.shutdown().complete, Ordering::SeqCst);
                }
            })
            .unwrap();
        while !done.load(Ordering::SeqCst) {
            let _ = buses[1].publisher().try_publish(0);
            thread::yield_now();
        }
        assert!(buses.iter().all(|bus| bus.shutdown().complete));
        assert!(handles.iter().all(|handle| handle.join(LONG)));
        for bus in &buses {
            assert_balanced(&bus.stats());
        }
    });
}

/// Events that own a bus: dropping the last of them closes the bus, even on the outer bus's
/// dispatcher, and nobody waits.
#[test]
fn an_event_may_own_a_bus() {
    watched(|| {
        let outer = bus::<Arc<Broadcaster<u64>>>(10, 10);
        let inner = Arc::new(bus::<u64>(10, 10));
        let (publisher, mut watcher) = (inner.publisher(), inner.watch().unwrap());
        let held = hold(&inner);
        outer.publisher().publish(inner).unwrap();
        outer.flush(LONG).unwrap();
        // Nobody watches the outer bus, so its dispatcher has dropped the inner bus while the inner
        // dispatcher waits for a watcher.
        assert!(publisher.is_closed());
        assert!(outer.shutdown().complete);
        drop(held);
        assert_eq!(events(&drain(&mut watcher)), [u64::MAX - 1, u64::MAX]);
    });
}

/// With `panic = "abort"` there is nothing to catch. The process ends where a handler panics, after
/// the message, and with the results that it had until then. Here a hook aborts, as the panic
/// runtime would do right after it.
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
                assert!(n != 2, "the handler has had enough");
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
    assert!(text.contains("handled 1") && text.contains("the handler has had enough"), "{text}");
    assert!(!text.contains("handled 3") && !text.contains("the process has ended"), "{text}");
}
