//! Models of a bus's handles. Dropping the last handle closes the bus, and upgrading a weak handle
//! fails once the bus is closed.

use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, OverflowPolicy};
use eventcast_loom_tests::{bus, explore, inline_bus, numbers, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

/// A weak handle is upgraded while the last handle is dropped. Either the bus stays open until the
/// new handle is also dropped, or the bus is already closed when the upgrade returns.
fn upgrade_against_the_last_drop(make: fn() -> Broadcaster<Payload>, settle: fn(&Broadcaster<Payload>)) {
    explore(Exploration::default().after_set_up(), move || {
        let bus = make();
        let mut watcher = bus.watch().unwrap();
        let (weak, publisher) = (bus.downgrade(), bus.publisher());
        settle(&bus);
        begin();
        let upgrading = spawn(move || {
            let upgraded = weak.upgrade();
            let published = publisher.try_publish(Payload::new(1));
            assert_eq!(published.is_ok(), upgraded.is_some());
            upgraded.is_some()
        });
        drop(bus);
        let is_upgraded = upgrading.join().unwrap();
        finish();
        let expected = if is_upgraded { vec![1] } else { Vec::new() };
        assert_eq!(numbers(&mut watcher), (expected, 0));
    });
}

fn an_upgrade_against_the_last_drop() {
    upgrade_against_the_last_drop(|| bus(1, 1, OverflowPolicy::DropIncoming), rest);
}

fn an_upgrade_against_the_last_drop_inline() {
    upgrade_against_the_last_drop(|| inline_bus(1, OverflowPolicy::DropIncoming), |_| {});
}

/// Two threads each drop a handle. Everything that either thread did before dropping its handle
/// happens before the reader sees the end, regardless of which handle is dropped last.
fn the_end_is_after_the_drop_of_each_handle() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (other, mut watcher) = (bus.clone(), bus.watch().unwrap());
        // The flags are set with relaxed stores, so dropping the handles has to publish the stores.
        let marks = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        begin();
        let dropping = [(bus, &marks[0]), (other, &marks[1])].map(|(bus, mark)| {
            let mark = mark.clone();
            spawn(move || {
                mark.store(true, Ordering::Relaxed);
                drop(bus);
            })
        });
        assert!(watcher.recv().is_err());
        assert!(marks.iter().all(|mark| mark.load(Ordering::Relaxed)));
        dropping.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

models![
    an_upgrade_against_the_last_drop,
    an_upgrade_against_the_last_drop_inline,
    the_end_is_after_the_drop_of_each_handle,
];
