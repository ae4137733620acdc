//! Models of watchers that keep only the newest event for each key. A publisher replaces an event
//! while the reader takes it, the watcher is dropped, or the bus ends.

use eventcast::stats::WatcherStats;
use eventcast::testing::{Exploration, Payload, begin, block_on, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{bus, explore, inline_bus, spawn};

/// Registers a watcher whose keys are the tens of the events' numbers.
fn by_tens(bus: &Broadcaster<Payload>) -> Watcher<Payload> {
    bus.watch_builder().conflate_by(|event: &Payload| event.number() / 10).watch().unwrap()
}

fn publish(bus: &Broadcaster<Payload>, numbers: impl IntoIterator<Item = u32>) {
    let publisher = bus.publisher();
    numbers.into_iter().for_each(|number| publisher.try_publish(Payload::new(number)).unwrap());
}

/// Receives until the watcher has nothing more, or has ended. Returns the events' numbers and the
/// total of all gaps.
fn received(watcher: &mut Watcher<Payload>) -> (Vec<u32>, u64) {
    let (mut numbers, mut lost) = (Vec::new(), 0);
    while let Ok(delivery) = watcher.try_recv() {
        match delivery {
            Delivery::Event(event) => numbers.push(event.number()),
            Delivery::Lagged(events) => lost += events,
        }
    }
    (numbers, lost)
}

#[track_caller]
fn assert_balanced(stats: &WatcherStats) {
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued, "{stats}");
}

/// A thread replaces both queued events while the reader takes them. The reader receives each key's
/// newest event last, and no gap. Each older event is either received or counted as conflated.
fn a_newer_event_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(4, OverflowPolicy::DropIncoming);
        let mut watcher = by_tens(&bus);
        publish(&bus, [10, 20]);
        let other = bus.clone();
        begin();
        let publishing = spawn(move || publish(&other, [21, 11]));
        let (mut numbers, lost) = received(&mut watcher);
        publishing.join().unwrap();
        let (rest, later) = received(&mut watcher);
        numbers.extend(rest);
        for newest in [11, 21] {
            let of_key: Vec<_> = numbers.iter().filter(|number| *number / 10 == newest / 10).collect();
            assert!(of_key.is_sorted() && of_key.last() == Some(&&newest), "{numbers:?}");
        }
        assert_eq!(lost + later, 0);
        let stats = watcher.stats();
        assert_eq!((numbers.len() as u64 + stats.dropped.conflated, stats.queued), (4, 0));
        assert_balanced(&stats);
    });
}

/// With `DropOldest`, a thread publishes an event with a new key to a full queue while the reader
/// takes the oldest event. The reader receives the newest event, and each event is counted once.
fn an_eviction_at_the_limit_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropOldest);
        let mut watcher = by_tens(&bus);
        publish(&bus, [10]);
        let other = bus.clone();
        begin();
        let publishing = spawn(move || publish(&other, [20, 21]));
        let (mut numbers, lost) = received(&mut watcher);
        publishing.join().unwrap();
        let (rest, later) = received(&mut watcher);
        numbers.extend(rest);
        assert!(numbers.is_sorted() && numbers.last() == Some(&21), "{numbers:?}");
        let stats = watcher.stats();
        assert_eq!((stats.delivered, stats.dropped.oldest), (numbers.len() as u64, lost + later));
        assert_eq!(stats.delivered + stats.dropped.total(), 3);
    });
}

/// A thread replaces an event while the watcher is dropped. Each event is counted.
fn a_newer_event_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(4, OverflowPolicy::DropIncoming);
        let watcher = by_tens(&bus);
        publish(&bus, [10, 20]);
        let other = bus.clone();
        begin();
        let publishing = spawn(move || publish(&other, [11]));
        drop(watcher);
        publishing.join().unwrap();
        let gone = bus.stats().departed;
        assert_eq!((gone.delivered, gone.queued), (0, 0));
        assert_balanced(&gone);
        assert!(gone.dropped.stopped + gone.dropped.conflated >= 2, "{gone}");
    });
}

/// The dispatcher replaces an event and ends the bus while the reader waits for events. The reader
/// receives each key's newest event before the end.
fn a_shutdown_against_a_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut watcher = by_tens(&bus);
        publish(&bus, [10]);
        rest(&bus);
        begin();
        publish(&bus, [11]);
        bus.close();
        let numbers: Vec<_> = watcher.events().map(|event| event.number()).collect();
        assert_eq!(numbers.last(), Some(&11), "{numbers:?}");
        assert_eq!(numbers.len() as u64 + watcher.stats().dropped.conflated, 2);
    });
}

/// The same for a task: a wake-up for a replaced event is not lost.
fn a_newer_event_against_a_task() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut watcher = by_tens(&bus);
        let other = bus.clone();
        begin();
        let publishing = spawn(move || publish(&other, [10, 11]));
        let mut last = 0;
        while last != 11 {
            if let Ok(Delivery::Event(event)) = block_on(watcher.recv_async()) {
                last = event.number();
            }
        }
        publishing.join().unwrap();
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.delivered + stats.dropped.conflated), (2, 2));
    });
}

models!(
    a_newer_event_against_a_drop,
    a_newer_event_against_a_task,
    a_newer_event_against_the_reader,
    a_shutdown_against_a_reader,
    an_eviction_at_the_limit_against_the_reader,
);
