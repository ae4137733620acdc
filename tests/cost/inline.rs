//! The costs of an inline bus: no thread, few allocations, little memory, and no leaks.
#![allow(clippy::cast_possible_wrap, reason = "sizes of what is in memory")]

use eventcast::Delivery::Event;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use test_support::in_own_process;

use crate::counting::{allocations_here, live};
use crate::many_watchers::{OF_THE_HARNESS, POLICIES};

/// The capacity of the watchers' queues.
const QUEUE: usize = 16;

fn inline() -> Broadcaster<u64> {
    Broadcaster::with_options(BusOptions::default().inline(true).queue_capacity(QUEUE)).unwrap()
}

fn watch(bus: &Broadcaster<u64>, policy: OverflowPolicy) -> Watcher<u64> {
    bus.watch_builder().overflow(policy).watch().unwrap()
}

/// G10: an inline bus has no thread, so it uses no processor time when idle. All its methods are
/// called here, except those that are documented to start a thread, which are starting a handler
/// and polling a task with a deadline.
#[cfg(target_os = "linux")]
#[test]
fn an_inline_bus_has_no_thread() {
    in_own_process!();
    let threads = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let dispatched = Broadcaster::<u64>::new().unwrap();
    assert_eq!(threads(), before + 1, "a dispatcher's thread must be counted");
    let buses: Vec<_> = (0..100).map(|_| inline()).collect();
    for bus in &buses {
        let mut watchers = POLICIES.map(|policy| watch(bus, policy));
        for event in 0..3 * QUEUE as u64 {
            let _ = bus.publisher().try_publish(event);
        }
        assert!(watchers.iter_mut().all(|watcher| watcher.try_recv().is_ok()));
        bus.publisher().publish_gap(1).unwrap();
        bus.publisher().publish_batch([1]).unwrap();
        bus.flush(std::time::Duration::MAX).unwrap();
        watchers[0].stop();
        assert_eq!(threads(), before + 1);
        drop(watchers);
        assert!(bus.shutdown().complete);
    }
    assert_eq!(threads(), before + 1);
    drop(dispatched);
}

/// A publish for one watcher does not allocate, because the watcher alternates between two batches.
/// A publish for several watchers allocates once, as does a publish for a ring. A receive does not
/// allocate.
#[test]
fn a_publish_allocates_at_most_once_and_a_receive_never() {
    const EVENTS: u64 = 100;
    for count in [0, 1, 4] {
        for policy in POLICIES {
            let bus = inline();
            let mut watchers: Vec<_> = (0..count).map(|_| watch(&bus, policy)).collect();
            let publisher = bus.publisher();
            let (mut published, mut received) = (0, 0);
            for event in 0..EVENTS {
                // Queues and batches allocate their memory for the first event.
                if event == 2 {
                    (published, received) = (0, 0);
                }
                published += allocations_here(|| publisher.publish(event).unwrap()).0;
                for watcher in &mut watchers {
                    received += allocations_here(|| assert_eq!(watcher.try_recv(), Ok(Event(event)))).0;
                }
            }
            let allocates = count > 1 || count == 1 && policy == OverflowPolicy::DropOldest;
            let wanted = if allocates { EVENTS - 2 } else { 0 };
            assert_eq!(published, wanted, "{count} watchers, {policy}");
            assert_eq!(received, 0, "{count} watchers, {policy}");
        }
    }
}

/// If a publish finds no space, it does not allocate.
#[test]
fn a_refused_publish_allocates_nothing() {
    let bus = inline();
    let _full = watch(&bus, OverflowPolicy::Wait);
    let publisher = bus.publisher();
    (0..QUEUE as u64).for_each(|event| publisher.publish(event).unwrap());
    let (allocated, refused) =
        allocations_here(|| (0..100).all(|event| publisher.try_publish(event).is_err()));
    assert_eq!((allocated, refused), (0, true));
    bus.close();
    assert_eq!(allocations_here(|| assert!(publisher.try_publish(1).unwrap_err().is_closed())).0, 0);
}

/// G5: a watcher whose queue was full once and has been read keeps two batches of at most 1 KiB.
#[test]
fn an_emptied_queue_keeps_little_memory() {
    const EVENTS: u64 = 250;
    const KEPT: i64 = 2 * 1024;
    in_own_process!();
    let options = BusOptions::default().inline(true).queue_capacity(1000);
    let bus = Broadcaster::<u64>::with_options(options).unwrap();
    let (mut watcher, publisher) = (watch(&bus, OverflowPolicy::DropIncoming), bus.publisher());
    let before = live();
    for _ in 0..3 {
        (0..EVENTS).for_each(|event| publisher.publish(event).unwrap());
        assert!(live() - before >= 8 * EVENTS as i64, "the events must be counted");
        assert!((0..EVENTS).all(|event| watcher.try_recv() == Ok(Event(event))));
        assert!(watcher.try_recv().is_err());
    }
    let kept = live() - before;
    // The boxes of the two batches are included in the limit.
    assert!(kept <= KEPT + 200, "{kept} bytes");
}

/// The number of bytes of an inline bus, and of each of its watchers before the first event.
#[test]
fn an_inline_bus_and_its_watchers_take_little_memory() {
    const BUSES: i64 = 1000;
    const BUS: i64 = 1100;
    const WATCHER: i64 = 1100;
    const LISTS: i64 = 240;
    in_own_process!();
    // The first bus triggers the process's one-time allocations.
    drop(watch(&inline(), OverflowPolicy::Wait));
    let before = live();
    let buses: Vec<_> = (0..BUSES).map(|_| inline()).collect();
    let bus = (live() - before) / BUSES;
    drop(buses);
    println!("a bus: {bus}");
    assert!(bus <= BUS, "a bus takes {bus} bytes");
    for policy in POLICIES {
        let buses: Vec<_> = (0..BUSES).map(|_| inline()).collect();
        let before = live();
        let watchers: Vec<_> = buses.iter().map(|bus| watch(bus, policy)).collect();
        let alone = (live() - before) / BUSES;
        let before = live();
        let others: Vec<_> = (0..BUSES).map(|_| watch(&buses[0], policy)).collect();
        let each = (live() - before) / BUSES;
        println!("{policy}: the only watcher {alone}, each of many {each}");
        // The ring of a `DropOldest` watcher is allocated from the start.
        let most = if policy == OverflowPolicy::DropOldest { WATCHER + 60 } else { WATCHER };
        // The first watcher also makes the bus allocate its lists.
        assert!(alone <= most + LISTS, "{policy}: the only watcher takes {alone} bytes");
        assert!(each <= most, "{policy}: a watcher takes {each} bytes");
        drop((watchers, others));
    }
}

/// Buses that are created, watched, used and dropped, in any order, leak no memory.
#[test]
fn a_hundred_thousand_dropped_buses_leak_no_memory() {
    const BUSES: usize = 100_000;
    const ALIVE: usize = 500;
    in_own_process!();
    drop(watch(&inline(), OverflowPolicy::Wait));
    let mut alive: Vec<Option<(Broadcaster<u64>, Watcher<u64>)>> = (0..ALIVE).map(|_| None).collect();
    let before = live();
    for number in 0..BUSES {
        let policy = POLICIES[number % POLICIES.len()];
        let bus = inline();
        let mut watcher = watch(&bus, policy);
        bus.publisher().publish(number as u64).unwrap();
        assert_eq!(watcher.try_recv(), Ok(Event(number as u64)));
        // Events that are not read are dropped with the bus.
        bus.publisher().publish(0).unwrap();
        let other = number * 7919 % ALIVE;
        match alive[other].replace((bus, watcher)) {
            Some((bus, watcher)) if number % 2 == 0 => {
                drop(bus);
                drop(watcher);
            }
            Some((bus, watcher)) => {
                drop(watcher);
                assert!(bus.stats().watchers.is_empty());
                drop(bus);
            }
            None => {}
        }
    }
    assert!(live() - before > 500_000, "buses must be counted while they are alive");
    alive.fill_with(|| None);
    // Less than one byte per bus may be left, because the test harness also allocates while the
    // test runs.
    let left = live() - before;
    assert!(left.abs() < OF_THE_HARNESS, "{left} bytes are left");
}
