//! What the bus does not cost: no processor time when idle (G10), no allocation where none is needed (G4), and what its
//! types may be used for.
#![allow(unsafe_code, reason = "a global allocator is unsafe by its trait")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests are not part of the model")]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::{
    Batch, Broadcaster, BusOptions, BusStats, Clock, Delivery, Events, FakeClock, FlushError, OverflowPolicy,
    PublishError, Publisher, Runner, ShutdownReport, StopHandle, WatchBuilder, WatchError, WatchHandle,
    Watcher,
};
use support::{LONG, hold};

/// Counts the allocations of each thread, and of all.
struct Counting;

thread_local! {
    static HERE: Cell<u64> = const { Cell::new(0) };
}
static EVERYWHERE: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call is passed on to the system's allocator unchanged; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = HERE.try_with(|count| count.set(count.get() + 1));
        EVERYWHERE.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations_here(run: impl FnOnce()) -> u64 {
    let before = HERE.get();
    run();
    HERE.get() - before
}

/// Publishing allocates nothing, whether it is accepted, refused, or wakes a sleeping dispatcher.
#[test]
fn try_publish_does_not_allocate() {
    let bus = Broadcaster::with_options(BusOptions::default().incoming_len(64).queue_len(64)).unwrap();
    let _watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(0_u64).unwrap();
    for _ in 0..50 {
        bus.flush(LONG).unwrap();
        assert_eq!(allocations_here(|| publisher.try_publish(1).unwrap()), 0);
    }
    let held = hold(&bus);
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

/// A watcher that keeps up allocates nothing for an event, whichever way it reads.
#[test]
fn receiving_does_not_allocate() {
    let bus = Broadcaster::with_options(BusOptions::default()).unwrap();
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch((0..200_u64).collect()).unwrap();
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

/// The dispatcher's allocations go by batches, not by events or watchers.
#[test]
fn distribution_allocates_by_the_batch() {
    let options = BusOptions::default().queue_len(100_000);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut watchers: Vec<_> = (0..16).map(|_| bus.watch().unwrap()).collect();
    let batches: Vec<Vec<u64>> = (0..100).map(|_| (0..256).collect()).collect();
    bus.flush(LONG).unwrap();
    let before = EVERYWHERE.load(Ordering::Relaxed);
    let publisher = bus.publisher();
    for batch in batches {
        publisher.publish_batch(batch).unwrap();
    }
    bus.flush(LONG).unwrap();
    let allocated = EVERYWHERE.load(Ordering::Relaxed) - before;
    // 25,600 events, 409,600 deliveries: one allocation for each batch, a few for the flush, and those of the tests
    // that run beside this one.
    assert!(allocated < 5_000, "{allocated} allocations for 100 batches");
    for watcher in &mut watchers {
        assert_eq!(watcher.recv_batch().unwrap().len(), 256);
    }
}

/// G10: an idle bus sleeps. The system counts how often each thread has given up the processor, and for an idle one the
/// count stands still.
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
    // What was just woken may still be on its way to sleep, and a system that stops a process and lets it go on wakes its
    // threads. What polls has not one quiet half second.
    let is_quiet = (0..60).any(|_| {
        pause(Duration::from_millis(500));
        let now = switches();
        let is_quiet = now == before;
        before = now;
        is_quiet
    });
    assert!(is_quiet, "{before:?}");

    /// Lets time pass. Nothing is waited for here: the test is that nothing happens.
    fn pause(time: Duration) {
        let (_tx, rx) = mpsc::channel::<()>();
        let _ = rx.recv_timeout(time);
    }

    /// Context switches of the bus's threads so far, by the thread's name.
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

/// What may cross threads, and what may be moved in a task.
#[test]
fn types_are_as_free_as_they_should_be() {
    fn send_sync<T: Send + Sync + Unpin + 'static>() {}
    fn send<T: Send + Unpin + 'static>() {}
    /// An event that is not `Unpin` and has no `Debug`.
    #[derive(Clone)]
    struct Plain(std::marker::PhantomPinned);

    send_sync::<Broadcaster<Plain>>();
    send_sync::<Publisher<Plain>>();
    send_sync::<BusOptions>();
    send_sync::<OverflowPolicy>();
    send_sync::<StopHandle>();
    send_sync::<WatchHandle>();
    send_sync::<Clock>();
    send_sync::<FakeClock>();
    send_sync::<BusStats>();
    send_sync::<ShutdownReport>();
    send_sync::<PublishError<u8>>();
    send_sync::<WatchError>();
    send_sync::<FlushError>();
    send::<Watcher<Plain>>();
    send::<Runner<Plain, fn(Delivery<&Plain>)>>();
    fn movable<T: Send>() {}
    movable::<WatchBuilder<'static, u8>>();
    movable::<Batch<'static, u8>>();
    movable::<Events<'static, u8>>();
    // `Debug` asks nothing of the event.
    let bus = Broadcaster::<Plain>::new().unwrap();
    let watcher = bus.watch_builder().name("w").watch().unwrap();
    let text = format!(
        "{bus:?} {:?} {watcher:?} {:?}",
        bus.publisher(),
        PublishError::Full(Plain(std::marker::PhantomPinned))
    );
    assert!(text.contains("Watcher { name: \"w\""), "{text}");
    assert!(text.ends_with("Full(..)"), "{text}");
}
