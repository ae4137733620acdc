//! Events whose copies and destructors panic or are heavy.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use eventcast::error::PublishError;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{LONG, assert_balanced, bus, watched};

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
        assert_eq!((stats.accepted, stats.rejected_full, stats.rejected_closed), (2, 3, 1));
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
