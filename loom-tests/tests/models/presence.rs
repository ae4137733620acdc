//! Models of the number of watchers, and of threads and tasks that wait for watchers.
//!
//! The waits have no deadline, so loom reports a lost wake-up as a deadlock.

use std::time::Duration;

use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{bus, direct_bus, explore, inline_bus, numbers, spawn};
use loom::future::block_on;

fn receives_one(watcher: &mut Watcher<Payload>) {
    assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
}

/// A thread waits for the first watcher while another thread registers it. The waiting thread is
/// woken, and the watcher receives the event that the thread publishes next.
fn a_wait_against_a_registration() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let waits = bus.clone();
        rest(&bus);
        begin();
        let waiting = spawn(move || {
            assert!(waits.wait_watchers(1.., Duration::MAX));
            waits.publisher().try_publish(Payload::new(1)).unwrap();
        });
        let mut watcher = bus.watch().unwrap();
        receives_one(&mut watcher);
        waiting.join().unwrap();
    });
}

/// A task waits for the first watcher of an inline bus, in the same way.
fn a_waiting_task_against_a_registration() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let waits = bus.clone();
        begin();
        let waiting = spawn(move || {
            assert!(block_on(waits.wait_watchers_async(1..)));
            waits.publisher().try_publish(Payload::new(1)).unwrap();
        });
        let mut watcher = bus.watch().unwrap();
        receives_one(&mut watcher);
        waiting.join().unwrap();
    });
}

/// A producer publishes only if the bus has a second watcher, while another thread registers one.
/// The producer delivers its event directly, without the dispatcher. If it publishes, the second
/// watcher receives the event. The two threads enter the gate through different cells, so only the
/// number of watchers orders the registration before the event.
fn a_lazy_producer_against_a_registration() {
    explore(Exploration::default().with_two_cells().after_set_up().first(30_000), || {
        let bus = direct_bus(1, 1, OverflowPolicy::DropIncoming);
        let first = bus.watch().unwrap();
        let counts = bus.clone();
        rest(&bus);
        begin();
        let producing = spawn(move || {
            let is_wanted = counts.watcher_count() == 2;
            if is_wanted {
                counts.publisher().try_publish(Payload::new(1)).unwrap();
            }
            is_wanted
        });
        let registers = bus.clone();
        let registering = spawn(move || registers.watch().unwrap());
        let is_published = producing.join().unwrap();
        let mut second = registering.join().unwrap();
        bus.close();
        assert_eq!(numbers(&mut second), (if is_published { vec![1] } else { vec![] }, 0));
        drop(first);
    });
}

/// A thread waits for the last watcher's drop while two threads drop a watcher each. When the
/// thread is woken, the statistics list no watcher.
fn a_wait_against_the_last_drop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let dropped = [bus.watch().unwrap(), bus.watch().unwrap()];
        begin();
        let dropping = dropped.map(|watcher| spawn(move || drop(watcher)));
        assert!(bus.wait_watchers(..=0, Duration::MAX));
        assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (0, 0));
        for dropping in dropping {
            dropping.join().unwrap();
        }
    });
}

/// A task waits for the last watcher's drop while the dispatcher offers an event to the watcher.
fn a_waiting_task_against_the_last_drop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let dropping = spawn(move || drop(watcher));
        assert!(block_on(bus.wait_watchers_async(..=0)));
        assert_eq!(bus.watcher_count(), 0);
        dropping.join().unwrap();
    });
}

/// A thread waits for the first watcher while another thread shuts the bus down. The wait ends.
fn a_wait_against_a_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let waits = bus.clone();
        rest(&bus);
        begin();
        let waiting = spawn(move || assert!(!waits.wait_watchers(1.., Duration::MAX)));
        assert!(bus.shutdown().complete);
        waiting.join().unwrap();
    });
}

/// A task waits for the first watcher while another thread closes the inline bus.
fn a_waiting_task_against_a_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let waits = bus.clone();
        begin();
        let waiting = spawn(move || assert!(!block_on(waits.wait_watchers_async(1..))));
        bus.close();
        waiting.join().unwrap();
    });
}

/// A thread waits while a filter, inside a publish call, drops another watcher. The thread is woken
/// after the publish call has released the bus's lock.
fn a_wait_against_a_filter_that_drops_a_watcher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let mut owned = Some(bus.watch().unwrap());
        let watcher = bus.watch_builder().filter(move |_| owned.take().is_some()).watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).is_ok());
        assert!(bus.wait_watchers(..=1, Duration::MAX));
        assert!(publishing.join().unwrap());
        finish();
        drop(watcher);
    });
}

/// A thread waits while a filter, inside a publish call, registers another watcher.
fn a_wait_against_a_filter_that_registers_a_watcher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (weak, mut registered) = (bus.downgrade(), None);
        let filter = move |_: &Payload| {
            registered.get_or_insert_with(|| weak.watch().unwrap());
            true
        };
        let watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).is_ok());
        assert!(bus.wait_watchers(2.., Duration::MAX));
        assert!(publishing.join().unwrap());
        finish();
        drop(watcher);
    });
}

models! {
    a_wait_against_a_registration,
    a_waiting_task_against_a_registration,
    a_lazy_producer_against_a_registration,
    a_wait_against_the_last_drop,
    a_waiting_task_against_the_last_drop,
    a_wait_against_a_shutdown,
    a_waiting_task_against_a_close,
    a_wait_against_a_filter_that_drops_a_watcher,
    a_wait_against_a_filter_that_registers_a_watcher,
}
