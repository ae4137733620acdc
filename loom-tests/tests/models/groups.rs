//! Models of a bus with three watchers. In a model, an event is offered to two watchers and their
//! readers are woken before the event is offered to the third watcher.
//!
//! No thread reads from the first two watchers in most models. The registrations are part of the
//! set-up.

use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Publisher, Watcher};
use eventcast_loom_tests::{bus, direct_bus, explore, inline_bus, numbers, spawn};

fn three_watchers(bus: &Broadcaster<Payload>) -> [Watcher<Payload>; 3] {
    [(); 3].map(|()| bus.watch().unwrap())
}

fn received(watcher: &mut Watcher<Payload>) -> u32 {
    match watcher.recv() {
        Ok(Delivery::Event(event)) => event.number(),
        other => panic!("{other:?}"),
    }
}

fn publish(publisher: &Publisher<Payload>, number: u32) {
    publisher.try_publish(Payload::new(number)).unwrap();
}

/// The third watcher's reader goes to sleep while the dispatcher offers an event. The reader is
/// woken.
fn the_dispatcher_against_the_third_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let [first, second, mut third] = three_watchers(&bus);
        rest(&bus);
        begin();
        publish(&bus.publisher(), 1);
        assert_eq!(received(&mut third), 1);
        finish();
        drop((first, second));
    });
}

/// The third watcher's reader goes to sleep while a publisher delivers an event directly. The
/// reader is woken.
fn direct_delivery_against_the_third_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = direct_bus(1, 1, OverflowPolicy::DropIncoming);
        let [first, second, mut third] = three_watchers(&bus);
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || publish(&publisher, 1));
        assert_eq!(received(&mut third), 1);
        publishing.join().unwrap();
        finish();
        drop((first, second));
    });
}

/// The third watcher's reader goes to sleep while a publisher of an inline bus offers an event. The
/// reader is woken.
fn an_inline_publisher_against_the_third_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let [first, second, mut third] = three_watchers(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || publish(&publisher, 1));
        assert_eq!(received(&mut third), 1);
        publishing.join().unwrap();
        drop((first, second));
    });
}

/// The dispatcher waits for capacity in the queues of all three watchers. The watchers are read one
/// after the other, while the dispatcher may still be offering the events. Each watcher receives
/// both events.
fn capacity_in_three_full_queues() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let watchers = three_watchers(&bus);
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        for mut watcher in watchers {
            assert_eq!([0; 2].map(|_| received(&mut watcher)), [1, 2]);
        }
        finish();
    });
}

/// A thread drops the first watcher while the dispatcher offers an event. The third watcher, which
/// takes the index of the first, receives each event exactly once.
fn a_drop_of_the_first_watcher_against_an_offer() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let [first, second, mut third] = three_watchers(&bus);
        rest(&bus);
        begin();
        let dropping = spawn(move || drop(first));
        let publisher = bus.publisher();
        publish(&publisher, 1);
        publish(&publisher, 2);
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(numbers(&mut third), (vec![1, 2], 0));
        drop(second);
    });
}

models! {
    the_dispatcher_against_the_third_reader,
    direct_delivery_against_the_third_reader,
    an_inline_publisher_against_the_third_reader,
    capacity_in_three_full_queues,
    a_drop_of_the_first_watcher_against_an_offer,
}
