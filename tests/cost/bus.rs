//! The bus uses no processor time when idle (G10), does not allocate where no allocation is needed
//! (G4), and its types can be used wherever the documentation allows it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::bus::{
    Batch, BufferedPublisher, EndReason, EventWatcher, Events, Runner, TryIter, WeakBroadcaster,
};
use eventcast::error::{FlushError, PublishError, WatchError};
use eventcast::stats::{BusStats, ShutdownReport, SlowNotice};
use eventcast::testing::FakeClock;
use eventcast::{
    Broadcaster, BusOptions, Clock, Delivery, OverflowPolicy, Publisher, WatchBuilder, WatchHandle, Watcher,
};
use test_support::LONG;

use crate::counting::{self, Followed};

/// Returns the number of allocations that `run` makes on this thread.
fn allocations_here(run: impl FnOnce()) -> u64 {
    counting::allocations_here(run).0
}

/// Returns the allocation counter of the bus's dispatcher. A filter, which the dispatcher runs,
/// starts the counter. After that, the filter's watcher is dropped.
fn follow_dispatcher<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>, event: T) -> Followed {
    let followed = Followed::new();
    let filter = move |_: &T| {
        followed.here();
        true
    };
    let watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(event).unwrap();
    bus.flush(LONG).unwrap();
    drop(watcher);
    bus.flush(LONG).unwrap();
    followed
}

/// Publishing without direct delivery does not allocate, whether the event is accepted, is refused,
/// or wakes a sleeping dispatcher.
#[test]
fn try_publish_does_not_allocate() {
    let options = BusOptions::default().incoming_capacity(64).queue_capacity(64).direct_delivery(false);
    let bus = Broadcaster::with_options(options).unwrap();
    let _watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(0_u64).unwrap();
    for _ in 0..50 {
        bus.flush(LONG).unwrap();
        assert_eq!(allocations_here(|| publisher.try_publish(1).unwrap()), 0);
    }
    // The dispatcher waits for this watcher, which is never read.
    let (seen_tx, seen) = mpsc::channel();
    let filter = move |_: &u64| seen_tx.send(()).is_ok();
    let held =
        bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::Wait).filter(filter).watch().unwrap();
    for _ in 0..2 {
        publisher.publish(2).unwrap();
        seen.recv_timeout(LONG).unwrap();
    }
    let mut refused = 0;
    let allocated = allocations_here(|| {
        for event in 0..1000 {
            refused += u64::from(publisher.try_publish(event).is_err());
        }
    });
    assert_eq!(allocated, 0);
    assert!(refused > 0, "the queue of 64 must have filled up");
    assert_eq!(allocations_here(|| drop(publisher.clone())), 0);
    drop(held);
    bus.shutdown();
    assert_eq!(allocations_here(|| assert!(publisher.try_publish(2).is_err())), 0);
}

/// A buffered publisher allocates one vector for each batch, and the bus takes over this vector.
#[test]
fn a_buffered_publisher_allocates_once_for_each_batch() {
    const SIZE: usize = 64;
    let bus = Broadcaster::with_options(BusOptions::default().direct_delivery(false)).unwrap();
    let mut buffered = bus.publisher().buffered(SIZE);
    for round in 0..10 {
        assert_eq!(allocations_here(|| buffered.publish(round).unwrap()), 1);
        assert_eq!(allocations_here(|| (1..SIZE as u64).for_each(|n| buffered.publish(n).unwrap())), 0);
        assert!(buffered.buffer().is_empty());
    }
    bus.close();
    // A refused batch returns to the buffer in the same vector.
    let allocated = allocations_here(|| {
        (1..SIZE as u64).for_each(|n| buffered.publish(n).unwrap());
        (0..10).for_each(|n| assert!(buffered.publish(n).is_err()));
    });
    assert_eq!(allocated, 1);
}

/// If a watcher keeps up, it does not allocate for an event, whichever method reads the event.
#[test]
fn receiving_does_not_allocate() {
    let bus = Broadcaster::with_options(BusOptions::default()).unwrap();
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(0..200_u64).unwrap();
    bus.flush(LONG).unwrap();
    let allocated = allocations_here(|| {
        for n in 0..50 {
            assert_eq!(watcher.try_recv(), Ok(Event(n)));
        }
        for n in 50..100 {
            assert_eq!(watcher.recv_ref(), Ok(Event(&n)));
        }
        assert_eq!(watcher.recv_batch().unwrap().len(), 100);
        assert!(watcher.try_recv().is_err());
    });
    assert_eq!(allocated, 0);
}

/// The number of slices for which a queue allocates memory at a time. A slice is a batch or part of
/// one.
pub(crate) const SLICES_AT_A_TIME: u64 = 31;

/// The dispatcher allocates for each batch instead of for each event or watcher: once for a batch,
/// and once for each watcher whose queue grows.
#[test]
fn distribution_allocates_by_the_batch() {
    const WATCHERS: u64 = 16;
    let bus = Broadcaster::with_options(BusOptions::default().queue_capacity(1 << 20)).unwrap();
    let dispatcher = follow_dispatcher(&bus, 0_u64);
    let mut watchers: Vec<_> = (0..WATCHERS).map(|_| bus.watch().unwrap()).collect();
    let publisher = bus.publisher();
    // The dispatcher offers each batch to the watchers in order. When the last watcher has the
    // batch, the dispatcher has finished with it.
    let mut publish = |batches| {
        (0..batches).for_each(|_| publisher.publish_batch(0..256).unwrap());
        let last = watchers.last_mut().unwrap();
        (0..batches).for_each(|_| assert_eq!(last.recv_batch().unwrap().len(), 256));
    };
    // Fill the queues up to the point where they grow.
    publish(SLICES_AT_A_TIME);
    for batches in [SLICES_AT_A_TIME, 10 * SLICES_AT_A_TIME] {
        let growth = WATCHERS * batches / SLICES_AT_A_TIME;
        assert_eq!(dispatcher.allocations(|| publish(batches)), batches + growth, "{batches} batches of 256");
    }
}

/// A single event is a batch of one, which takes one allocation.
#[test]
fn a_single_event_allocates_once() {
    const EVENTS: u64 = 10 * SLICES_AT_A_TIME;
    let bus = Broadcaster::with_options(BusOptions::default().direct_delivery(false)).unwrap();
    let dispatcher = follow_dispatcher(&bus, 0_u64);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    let mut receive = |event| {
        publisher.try_publish(event).unwrap();
        assert_eq!(watcher.recv(), Ok(Event(event)));
    };
    receive(0);
    let allocated = dispatcher.allocations(|| (0..EVENTS).for_each(&mut receive));
    assert_eq!(allocated, EVENTS + 10, "the queue grows ten times");
}

/// A handler's thread does not allocate for an event either.
#[test]
fn handling_does_not_allocate() {
    let bus = Broadcaster::with_options(BusOptions::default()).unwrap();
    let (followed, handled) = (Followed::new(), Arc::new(AtomicU64::new(0)));
    let counted = handled.clone();
    let handler = move |_: Delivery<&u64>| {
        followed.here();
        counted.fetch_add(1, Ordering::SeqCst);
    };
    bus.watch_builder().spawn(handler).unwrap();
    let publisher = bus.publisher();
    let wait_for = |events| {
        while handled.load(Ordering::SeqCst) < events {
            std::thread::yield_now();
        }
    };
    publisher.publish(0).unwrap();
    wait_for(1);
    let allocated = followed.allocations(|| {
        for round in 0..100 {
            publisher.publish(0).unwrap();
            publisher.publish_batch(0..20).unwrap();
            wait_for(1 + (round + 1) * 21);
        }
    });
    assert_eq!(allocated, 0, "2100 deliveries");
}

/// G10: an idle bus sleeps. The system counts the number of times that each thread has yielded the
/// processor. This count does not change for an idle thread.
#[cfg(target_os = "linux")]
#[test]
fn an_idle_bus_uses_no_processor_time() {
    let bus = Broadcaster::with_options(BusOptions::default().thread_name("idle-bus")).unwrap();
    bus.watch_builder().name("idle-handler").spawn(|_: Delivery<&u64>| ()).unwrap();
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    watcher.recv().unwrap();
    let mut before = switches();
    assert_eq!(before.len(), 2, "the dispatcher and the handler: {before:?}");
    // A thread that was just woken may not have gone back to sleep yet, and a system that stops and
    // resumes a process wakes its threads. A polling thread, however, never stays quiet for half a
    // second.
    let is_quiet = (0..60).any(|_| {
        pause(Duration::from_millis(500));
        let now = switches();
        let is_quiet = now == before;
        before = now;
        is_quiet
    });
    assert!(is_quiet, "{before:?}");

    /// Lets time pass without waiting for any event, because the test checks that nothing happens.
    fn pause(time: Duration) {
        let (_tx, rx) = mpsc::channel::<()>();
        let _ = rx.recv_timeout(time);
    }

    /// Returns the context switches of the bus's threads so far, with each thread's name.
    fn switches() -> Vec<(String, String)> {
        let mut found = Vec::new();
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap_or_default();
            let field = |name: &str| {
                let line = status.lines().find(|line| line.starts_with(name));
                line.map_or_else(String::new, |line| line[name.len()..].trim().to_owned())
            };
            let name = field("Name:");
            if name.starts_with("idle-") {
                found.push((name, field("voluntary_ctxt_switches:")));
            }
        }
        found.sort();
        found
    }
}

/// The types are `Send`, `Sync` and `Unpin` wherever they should be.
#[test]
fn types_are_as_free_as_they_should_be() {
    fn send_sync<T: Send + Sync + Unpin + 'static>() {}
    fn send<T: Send + Unpin + 'static>() {}
    /// An event that is not `Unpin` and does not implement `Debug`.
    #[derive(Clone)]
    struct Plain(std::marker::PhantomPinned);

    send_sync::<Broadcaster<Plain>>();
    send_sync::<WeakBroadcaster<Plain>>();
    send_sync::<Publisher<Plain>>();
    send_sync::<BufferedPublisher<Plain>>();
    send_sync::<BusOptions>();
    send_sync::<OverflowPolicy>();
    send_sync::<WatchHandle>();
    send_sync::<Clock>();
    send_sync::<FakeClock>();
    send_sync::<BusStats>();
    send_sync::<ShutdownReport>();
    send_sync::<SlowNotice>();
    send_sync::<PublishError<u8>>();
    send_sync::<WatchError>();
    send_sync::<FlushError>();
    send::<Watcher<Plain>>();
    send::<EventWatcher<Plain>>();
    send::<Runner<Plain, fn(Delivery<&Plain>)>>();
    fn movable<T: Send>() {}
    movable::<WatchBuilder<'static, u8>>();
    movable::<Batch<'static, u8>>();
    movable::<Events<'static, u8>>();
    movable::<TryIter<'static, u8>>();
    // `Debug` for the bus types does not require any trait of the event.
    let bus = Broadcaster::<Plain>::new().unwrap();
    let mut watcher = bus.watch_builder().name("w").watch().unwrap();
    let text = format!(
        "{bus:?} {:?} {watcher:?} {:?}",
        bus.publisher(),
        PublishError::Full(Plain(std::marker::PhantomPinned))
    );
    assert!(text.contains("Watcher { name: \"w\""), "{text}");
    assert!(text.ends_with("Full(..)"), "{text}");
    assert_eq!(format!("{:?}", bus.publisher().buffered(4)), "BufferedPublisher { events: 0, .. }");
    assert!(format!("{:?}", watcher.events()).contains("Watcher { name: \"w\""));
    assert!(format!("{:?}", (&mut watcher).into_iter()).contains("Watcher { name: \"w\""));
    assert!(format!("{:?}", watcher.into_iter()).contains("Watcher { name: \"w\""));
}

/// A type that owns parts of a bus, for events of any type. Its `Drop` implementation cannot
/// require a bound that the type itself does not have.
struct Owner<T> {
    bus: Broadcaster<T>,
    weak: WeakBroadcaster<T>,
    publisher: Publisher<T>,
    watcher: Watcher<T>,
    events: EventWatcher<T>,
    seen: mpsc::Sender<(usize, usize, u64, bool)>,
}

impl<T> Drop for Owner<T> {
    fn drop(&mut self) {
        let Self { bus, weak, publisher, watcher, events, seen } = self;
        let (stop, unread) = (watcher.handle(), watcher.len());
        stop.stop();
        watcher.stop();
        // Reads to the end, without cloning.
        while watcher.recv_ref().is_ok() {}
        assert!(watcher.is_empty() && watcher.end_reason() == Some(EndReason::Stopped));
        assert!(watcher.try_recv_batch().is_err() && watcher.position().is_some());
        events.watcher().stop();
        drop(std::mem::replace(events, Watcher::ended().into_events()).into_watcher());
        let watchers = bus.watcher_count();
        weak.upgrade().expect("`bus` is left").close();
        assert!(publisher.is_closed() && weak.clone().publisher().is_closed() && bus.is_closed());
        assert!(
            format!("{:?}", bus.downgrade().watch_builder().name("late").queue_capacity(1)).contains("late")
        );
        assert!(bus.drain(LONG).complete && bus.shutdown_timeout(LONG).complete);
        let report = bus.shutdown();
        assert_eq!(bus.stats().accepted, report.bus.accepted);
        let _ = seen.send((unread, watchers, watcher.stats().delivered, report.complete));
    }
}

#[test]
fn a_drop_of_a_generic_owner_needs_no_bounds() {
    /// Takes an event type without `Clone`, for which no bus can be built.
    #[allow(dead_code, reason = "it is enough that the type exists")]
    fn exists_for_any_event(owner: Owner<std::cell::Cell<u8>>) {
        drop(owner);
    }

    for inline in [false, true] {
        let bus = Broadcaster::with_options(BusOptions::default().inline(inline)).unwrap();
        let (publisher, watcher, (seen, said)) = (bus.publisher(), bus.watch().unwrap(), mpsc::channel());
        publisher.publish_batch(["a", "b"].map(str::to_owned)).unwrap();
        bus.flush(LONG).unwrap();
        let (weak, events) = (bus.downgrade(), bus.watch().unwrap().into_events());
        drop(Owner { bus, weak, publisher, watcher, events, seen });
        assert_eq!(said.try_recv(), Ok((2, 1, 2, true)), "inline: {inline}");
    }
}
