//! Faults around a bus: user code that is heavy, panics or calls back, and watchers that are many,
//! missing, or dropped at the wrong moment. `docs/verification.md` lists all faults, with the tests
//! of other files.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{
    LONG, Live, Tracked, assert_balanced, available, bus, drain, events, hold, lagged, until, watched,
};

/// An event that panics when it is dropped, unless its thread is panicking already.
#[derive(Debug)]
struct Bomb(u64, Arc<AtomicU64>);

impl Clone for Bomb {
    fn clone(&self) -> Self {
        panic!("clone of {}", self.0);
    }
}

impl Drop for Bomb {
    fn drop(&mut self) {
        self.1.fetch_add(1, Ordering::SeqCst);
        assert!(thread::panicking(), "drop of {}", self.0);
    }
}

/// Returns a function that makes bombs, and the number of bombs that have gone off.
fn bombs() -> (impl Fn(u64) -> Bomb, Arc<AtomicU64>) {
    let gone = Arc::new(AtomicU64::new(0));
    let counter = gone.clone();
    (move |number| Bomb(number, counter.clone()), gone)
}

/// An event whose copy takes 4 MiB on the heap and notes the thread that made it.
struct Heavy {
    number: u64,
    ballast: Vec<u8>,
    copied_on: Arc<std::sync::Mutex<Vec<ThreadId>>>,
}

impl Clone for Heavy {
    fn clone(&self) -> Self {
        self.copied_on.lock().unwrap().push(thread::current().id());
        Self { number: self.number, ballast: self.ballast.clone(), copied_on: self.copied_on.clone() }
    }
}

/// A `Clone` that allocates much costs only the reader that asks for a copy. Publishing and
/// distributing whole batches make no copies, whatever the number of watchers.
#[test]
fn a_heavy_clone_is_paid_by_who_receives_by_value() {
    let bus = bus::<Heavy>(10, 10);
    let copied_on = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut by_value = bus.watch().unwrap();
    let mut by_reference = bus.watch().unwrap();
    let mut by_batch = bus.watch().unwrap();
    let _others: Vec<_> = (0..5).map(|_| bus.watch().unwrap()).collect();
    for number in 0..4 {
        let event = Heavy { number, ballast: vec![1; 4 << 20], copied_on: copied_on.clone() };
        // The publish may have to wait, because the registrations took most of the queue.
        bus.publisher().publish(event).map_err(PublishError::into_inner).ok().unwrap();
    }
    assert!(bus.shutdown().complete);
    let mut batched = 0;
    while let Ok(batch) = by_batch.recv_batch() {
        batched += batch.iter().filter(|event| event.ballast.len() == 4 << 20).count();
    }
    let mut lent = Vec::new();
    while let Ok(Delivery::Event(event)) = by_reference.recv_ref() {
        lent.push(event.number);
    }
    assert_eq!((batched, lent), (4, vec![0, 1, 2, 3]));
    assert_eq!(*copied_on.lock().unwrap(), [], "nobody has asked for a copy yet");
    assert_eq!(by_value.events().map(|event| event.number).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(*copied_on.lock().unwrap(), [thread::current().id(); 4]);
}

/// An event that a refused publish gives back may panic when it is dropped. By then the publisher
/// has left the gate, so neither the shutdown nor another publisher waits for it.
#[test]
fn a_refused_event_that_panics_when_it_goes_leaves_the_gate_open() {
    watched(|| {
        let (bomb, gone) = bombs();
        let bus = bus::<Bomb>(1, 10);
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        // Holds the dispatcher, so that the incoming queue fills up.
        let watcher = bus
            .watch_builder()
            .filter(move |_| {
                let _ = entered_tx.send(());
                let _ = go_rx.recv();
                true
            })
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        publisher.publish(bomb(0)).unwrap();
        entered.recv_timeout(LONG).unwrap();
        publisher.try_publish(bomb(1)).unwrap();
        let refused = [
            catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish(bomb(2))))),
            catch_unwind(AssertUnwindSafe(|| drop(publisher.publish_timeout(bomb(3), Duration::ZERO)))),
            catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish_batch(vec![bomb(4)])))),
        ];
        assert!(refused.iter().all(Result::is_err), "they go off in the caller's hands");
        assert_eq!(gone.load(Ordering::SeqCst), 3);
        drop(go);
        assert!(bus.shutdown().complete);
        assert!(catch_unwind(AssertUnwindSafe(|| drop(publisher.try_publish(bomb(5))))).is_err());
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.rejected_full, stats.rejected_stopped), (2, 3, 1));
        // The bombs in the watcher's queue go off without affecting any thread.
        drop(watcher);
        assert_eq!(gone.load(Ordering::SeqCst), 6);
    });
}

/// Publishes until all of this holds, and returns the number of accepted events:
/// - One event is in the queue, of length one, of a watcher that nobody reads.
/// - The dispatcher holds one event or more, because it may take two at once.
/// - Exactly `waiting` events are in the incoming queue, which is as many as it has room for.
fn hold_up(bus: &Broadcaster<Bomb>, bomb: impl Fn(u64) -> Bomb, waiting: u64) -> u64 {
    let publisher = bus.publisher();
    let mut accepted = 0;
    while accepted < waiting + 2 || bus.stats().accepted + waiting != accepted {
        match publisher.try_publish(bomb(accepted)).map_err(std::mem::forget) {
            Ok(()) => accepted += 1,
            Err(()) => thread::yield_now(),
        }
    }
    accepted
}

/// Events that panic when they are dropped, wherever a shutdown by deadline leaves them: in the
/// queue of a watcher that nobody reads, with the dispatcher, in the incoming queue, with a
/// publisher that waits. Each goes off once and stops no thread.
#[test]
fn events_that_panic_when_they_go_are_given_up_one_by_one() {
    watched(|| {
        let (bomb, gone) = bombs();
        let options = BusOptions::default().incoming_len(2).queue_len(1).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).unwrap();
        let unread = bus.watch().unwrap();
        let publisher = bus.publisher();
        let accepted = hold_up(&bus, &bomb, 2);
        let waiting = {
            let (publisher, bomb) = (publisher.clone(), bomb(99));
            thread::spawn(move || {
                publisher.publish(bomb).map_err(PublishError::into_inner).map_err(std::mem::forget)
            })
        };
        let report = bus.shutdown_timeout(Duration::ZERO);
        assert!(!report.complete);
        let taken = u64::from(waiting.join().unwrap().is_ok());
        drop(unread);
        // The dispatcher abandons the rest on its own thread, and counts it when it has been
        // dropped.
        let counted = || {
            let stats = bus.stats();
            stats.watchers.iter().chain([&stats.departed]).all(|watcher| watcher.lag == 0)
        };
        while gone.load(Ordering::SeqCst) < accepted + taken || !counted() {
            thread::yield_now();
        }
        assert!(!bus.shutdown().complete, "it was given up");
        assert_balanced(&bus.stats());
        assert_eq!(bus.stats().accepted, accepted + taken);
        assert_eq!(gone.load(Ordering::SeqCst), accepted + taken);
    });
}

/// A task that waits for room cancels its publish, with an event that panics when it is dropped.
/// The turn passes to the next publisher.
#[test]
fn a_waiting_publish_that_panics_when_it_is_given_up_keeps_no_turn() {
    use std::future::Future;
    use std::task::{Context, Waker};

    watched(|| {
        let (bomb, gone) = bombs();
        let options = BusOptions::default().incoming_len(1).queue_len(1).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).unwrap();
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let accepted = hold_up(&bus, &bomb, 1);
        let mut given_up = Box::pin(publisher.publish_async(bomb(77)));
        assert!(given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let next = {
            let (publisher, bomb) = (publisher.clone(), bomb(88));
            thread::spawn(move || publisher.publish(bomb).is_ok())
        };
        assert!(catch_unwind(AssertUnwindSafe(move || drop(given_up))).is_err());
        assert_eq!(gone.load(Ordering::SeqCst), 1);
        let mut numbers = Vec::new();
        while numbers.last() != Some(&88) {
            let Ok(Delivery::Event(event)) = watcher.recv_ref() else { panic!("nothing is lost") };
            numbers.push(event.0);
        }
        assert!(next.join().unwrap());
        assert_eq!(numbers[..numbers.len() - 1], (0..accepted).collect::<Vec<_>>());
        assert!(bus.shutdown().complete);
    });
}

/// The same, but the cancelled publish already has the turn for the free room. The next publisher
/// is woken.
#[test]
fn a_chosen_publish_that_panics_when_it_is_given_up_hands_its_turn_on() {
    use std::future::Future;
    use std::task::{Context, Wake, Waker};

    struct Bell(mpsc::Sender<()>);
    impl Wake for Bell {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    fn bell() -> (Waker, mpsc::Receiver<()>) {
        let (rings, heard) = mpsc::channel();
        (Waker::from(Arc::new(Bell(rings))), heard)
    }

    watched(|| {
        let (bomb, gone) = bombs();
        let options = BusOptions::default().incoming_len(1).queue_len(1).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).unwrap();
        let unread = bus.watch().unwrap();
        let publisher = bus.publisher();
        let accepted = hold_up(&bus, &bomb, 1);
        let (first, chosen) = bell();
        let mut given_up = Box::pin(publisher.publish_async(bomb(77)));
        assert!(given_up.as_mut().poll(&mut Context::from_waker(&first)).is_pending());
        let (second, heard) = bell();
        let mut next = Box::pin(publisher.publish_async(bomb(88)));
        assert!(next.as_mut().poll(&mut Context::from_waker(&second)).is_pending());
        drop(unread);
        chosen.recv_timeout(LONG).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(move || drop(given_up))).is_err());
        heard.recv_timeout(LONG).expect("the turn has gone with who had it");
        // The turn may be for the room that the last event took. In that case the next publisher
        // looks in vain once, and is woken again.
        while next.as_mut().poll(&mut Context::from_waker(&second)).is_pending() {
            heard.recv_timeout(LONG).expect("it is woken again");
        }
        drop(next);
        assert!(bus.shutdown().complete);
        assert_eq!((bus.stats().accepted, gone.load(Ordering::SeqCst)), (accepted + 1, accepted + 2));
    });
}

/// Publishers that wait for room get it, although the dispatcher has no watcher to offer anything
/// to.
#[test]
fn without_watchers_there_is_room_again() {
    watched(|| {
        let bus = bus::<u64>(1, 1);
        thread::scope(|scope| {
            for _ in 0..4 {
                let publisher = bus.publisher();
                scope.spawn(move || (0..500).for_each(|n| publisher.publish(n).unwrap()));
            }
        });
        assert_eq!(bus.shutdown().bus.accepted, 2000);
    });
}

/// Without watchers an event is accepted, offered to nobody, and dropped.
#[test]
fn without_watchers_everything_is_accepted_and_nothing_kept() {
    let live = Live::default();
    let bus = bus::<Tracked>(10, 10);
    let publisher = bus.publisher();
    for number in 0..100 {
        publisher.publish(live.event(number)).unwrap();
    }
    publisher.publish_batch((0..900).map(|n| live.event(n))).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!((bus.stats().accepted, live.count()), (1000, 0));
    // After the last watcher has been dropped, the bus is as it was before the first one.
    let mut watcher = bus.watch().unwrap();
    publisher.publish(live.event(7)).unwrap();
    assert_eq!(watcher.recv().unwrap().event().map(|event| event.number), Some(7));
    drop(watcher);
    publisher.publish(live.event(8)).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!((bus.stats().accepted, live.count()), (1002, 0));
}

/// Ten thousand watchers at once, of several policies. Each gets everything that its queue can
/// hold, and learns of the rest.
#[test]
fn ten_thousand_watchers_at_once_each_get_their_own() {
    watched(|| {
        let bus = bus::<u64>(100, 4);
        let policies = [
            OverflowPolicy::DropIncoming,
            OverflowPolicy::DropOldest,
            OverflowPolicy::WaitFor(Duration::ZERO),
        ];
        let mut watchers: Vec<_> = (0..10_000)
            .map(|n| bus.watch_builder().overflow(policies[n % policies.len()]).watch().unwrap())
            .collect();
        let publisher = bus.publisher();
        for n in 0..6 {
            publisher.publish(n).unwrap();
        }
        bus.flush(LONG).unwrap();
        for (n, watcher) in watchers.iter_mut().enumerate() {
            let seen = available(watcher);
            let expected = if n % policies.len() == 1 { [2, 3, 4, 5] } else { [0, 1, 2, 3] };
            assert_eq!((events(&seen).as_slice(), lagged(&seen)), (expected.as_slice(), 2), "watcher {n}");
        }
        let dropping = thread::spawn(move || drop(watchers));
        publisher.publish(6).unwrap();
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        let stats = bus.stats();
        assert_balanced(&stats);
        assert!(stats.watchers.is_empty(), "{}", stats.watchers.len());
        assert_eq!((stats.departed.delivered, stats.departed.dropped.oldest), (40_000, 2 * 3333));
    });
}

/// Two watchers are dropped on another thread while the dispatcher is in the middle of a round that
/// will reach them, and is held up at another watcher of the same round.
#[test]
fn a_watcher_that_goes_in_the_middle_of_a_round_takes_only_its_own() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 10);
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        let mut before = bus.watch().unwrap();
        let mut held = bus
            .watch_builder()
            .filter(move |_| {
                let _ = entered_tx.send(());
                let _ = go_rx.recv();
                true
            })
            .watch()
            .unwrap();
        let goes = [bus.watch().unwrap(), bus.watch_builder().filter(|_| true).watch().unwrap()];
        let mut after = bus.watch().unwrap();
        bus.publisher().publish(live.event(1)).unwrap();
        entered.recv_timeout(LONG).unwrap();
        // The round is past `before`, is at `held`, and still has the other watchers to come.
        thread::spawn(move || drop(goes)).join().unwrap();
        drop(go);
        bus.publisher().publish(live.event(2)).unwrap();
        assert!(bus.shutdown().complete);
        for watcher in [&mut before, &mut held, &mut after] {
            let numbers: Vec<_> = watcher.events().map(|event| event.number).collect();
            assert_eq!(numbers, [1, 2]);
        }
        let stats = bus.stats();
        assert_balanced(&stats);
        assert_eq!(stats.departed.delivered, 0);
        assert_eq!(stats.departed.offered, stats.departed.dropped.stopped);
        drop((before, held, after));
        assert_eq!(live.count(), 0);
    });
}

/// A watcher is dropped on another thread while the dispatcher calls its filter, so the watcher is
/// offered an event after it has emptied its queue. The dispatcher empties the queue again. It does
/// so before the end of the round, which another watcher may hold up for ever.
#[test]
fn what_is_offered_to_a_watcher_that_goes_meanwhile_is_let_go_at_once() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 1);
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        // The filter keeps one of two events, and so the watcher gets a copy.
        let goes = bus.watch_builder().name("goes").filter(move |event: &Tracked| {
            if event.number == 1 {
                let _ = entered_tx.send(());
                let _ = go_rx.recv();
            }
            event.number == 1
        });
        let goes = goes.watch().unwrap();
        let unread = bus.watch_builder().name("unread").overflow(OverflowPolicy::Wait).watch().unwrap();
        bus.publisher().publish_batch(vec![live.event(1), live.event(2)]).unwrap();
        entered.recv_timeout(LONG).unwrap();
        drop(goes);
        drop(go);
        // The round continues until it waits for the watcher that nobody reads.
        until(|| unread.stats().offered == 2);
        until(|| live.count() == 2);
        let stats = bus.stats();
        let goes = stats.watchers.iter().find(|watcher| watcher.name == "goes").unwrap();
        assert_eq!((goes.offered, goes.dropped.stopped, goes.queued), (1, 1, 0), "{goes}");
        drop(unread);
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
        assert_eq!(live.count(), 0);
    });
}

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
