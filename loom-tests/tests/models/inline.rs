//! Models of an inline bus, which has no dispatcher. The bus's publishers race with each other,
//! with threads that leave work to the lock holder, and with threads that wait for the bus to end.
//!
//! The set-up is not explored. When all racing calls have returned, their effects are complete, so
//! the models check the result without waiting where possible.

use eventcast::bus::Start;
use eventcast::error::{PublishError, TryRecvError, WatchError};
use eventcast::testing::{Exploration, Payload, begin, finish};
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, Watcher};
use eventcast_loom_tests::{explore, inline_bus, numbers, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread::JoinHandle;

/// A flag that is set when its owner is dropped. The flag is set with a relaxed store, so the bus
/// has to publish the store.
struct Mark(Arc<AtomicBool>);

impl Drop for Mark {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Registers a watcher with a filter, and returns a flag that is set when the watcher is reaped.
fn reaped_watcher(bus: &Broadcaster<Payload>) -> (Watcher<Payload>, Arc<AtomicBool>) {
    let is_reaped = Arc::new(AtomicBool::new(false));
    let mark = Mark(is_reaped.clone());
    let filter = move |_: &Payload| {
        let _ = &mark;
        true
    };
    (bus.watch_builder().filter(filter).watch().unwrap(), is_reaped)
}

/// Spawns a thread that publishes event 1 without waiting and returns whether the event was
/// accepted.
fn publishing(publisher: Publisher<Payload>) -> JoinHandle<bool> {
    spawn(move || match publisher.try_publish(Payload::new(1)) {
        Ok(()) => true,
        Err(PublishError::Closed(event)) => {
            assert_eq!(event.number(), 1);
            false
        }
        Err(error) => panic!("{error}"),
    })
}

/// Publishes an event, which is in the watcher's queue as soon as the publish call has returned.
/// Returns the events that the watcher received, up to and including the published event.
fn publish_and_receive(
    publisher: &Publisher<Payload>,
    watcher: &mut Watcher<Payload>,
    number: u32,
) -> Vec<u32> {
    publisher.try_publish(Payload::new(number)).unwrap();
    receive_up_to(watcher, number)
}

/// Receives events up to and including the event with the given number, which is already in the
/// queue.
fn receive_up_to(watcher: &mut Watcher<Payload>, number: u32) -> Vec<u32> {
    let mut events = Vec::new();
    while events.last() != Some(&number) {
        match watcher.try_recv() {
            Ok(Delivery::Event(event)) => events.push(event.number()),
            other => panic!("{other:?} behind {events:?}"),
        }
    }
    events
}

/// Receives the remaining events of a watcher that has already ended and has not lost any event.
fn receive_to_end(watcher: &mut Watcher<Payload>) -> Vec<u32> {
    let mut events = Vec::new();
    loop {
        match watcher.try_recv() {
            Ok(Delivery::Event(event)) => events.push(event.number()),
            Err(TryRecvError::Ended) => return events,
            other => panic!("{other:?} behind {events:?}"),
        }
    }
}

/// Two threads each publish an event. Each event is in every queue once its publish call has
/// returned, and all watchers receive both events in the same order.
fn two_publishers() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let (mut first, mut second) = (bus.watch().unwrap(), bus.watch().unwrap());
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || (publish_and_receive(&publisher, &mut second, 1), second));
        let mut seen = publish_and_receive(&bus.publisher(), &mut first, 2);
        let (mut others, mut second) = publishing.join().unwrap();
        finish();
        bus.close();
        seen.extend(receive_to_end(&mut first));
        others.extend(receive_to_end(&mut second));
        assert_eq!(seen, others);
        assert!(seen == [1, 2] || seen == [2, 1], "{seen:?}");
    });
}

/// Two threads publish while a reader goes to sleep. The reader receives both events even though
/// nothing else happens on the bus.
fn two_publishers_against_a_reader_that_sleeps() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = publishing(publisher);
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let mut seen = [0, 0].map(|_| match watcher.recv() {
            Ok(Delivery::Event(event)) => event.number(),
            other => panic!("{other:?}"),
        });
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        assert!(publishing.join().unwrap());
    });
}

/// A thread publishes a gap while a reader goes to sleep.
fn a_gap_against_a_reader_that_sleeps() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.publish_gap(3).unwrap());
        assert!(matches!(watcher.recv(), Ok(Delivery::Lagged(3))));
        publishing.join().unwrap();
    });
}

/// A thread publishes while another thread stops the watcher. When both calls have returned, the
/// watcher has been reaped, and its reader sees the end.
fn a_publisher_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (mut watcher, is_reaped) = reaped_watcher(&bus);
        begin();
        let publishing = publishing(bus.publisher());
        watcher.stop();
        assert!(publishing.join().unwrap());
        assert!(is_reaped.load(Ordering::Relaxed));
        let events = receive_to_end(&mut watcher);
        assert!(events.is_empty() || events == [1], "{events:?}");
        assert_eq!(bus.stats().accepted, 1);
    });
}

/// A thread publishes while another thread drops the watcher. When both calls have returned, the
/// watcher has been reaped, and each event that it was offered is counted.
fn a_publisher_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (watcher, is_reaped) = reaped_watcher(&bus);
        begin();
        let publishing = publishing(bus.publisher());
        drop(watcher);
        assert!(publishing.join().unwrap());
        assert!(is_reaped.load(Ordering::Relaxed));
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.watchers.len()), (1, 0));
        assert_eq!(stats.departed.offered, stats.departed.dropped.total());
    });
}

/// Two threads each drop a watcher. When both calls have returned, both watchers have been reaped.
fn two_drops() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (first, is_first_reaped) = reaped_watcher(&bus);
        let (second, is_second_reaped) = reaped_watcher(&bus);
        begin();
        let dropping = spawn(move || drop(second));
        drop(first);
        dropping.join().unwrap();
        assert!(is_first_reaped.load(Ordering::Relaxed));
        assert!(is_second_reaped.load(Ordering::Relaxed));
    });
}

/// A thread drops a watcher while another thread closes the bus. When both calls have returned, the
/// other watcher sees the end.
fn a_drop_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (dropped, is_reaped) = reaped_watcher(&bus);
        let mut watcher = bus.watch().unwrap();
        begin();
        let dropping = spawn(move || drop(dropped));
        bus.close();
        dropping.join().unwrap();
        assert!(is_reaped.load(Ordering::Relaxed));
        assert_eq!(receive_to_end(&mut watcher), []);
    });
}

/// A thread publishes while another thread closes the bus. When both calls have returned, the bus
/// has ended, and the event is in the queue if the publish call succeeded.
fn a_publisher_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (mut watcher, is_reaped) = reaped_watcher(&bus);
        begin();
        let publishing = publishing(bus.publisher());
        bus.close();
        let accepted = publishing.join().unwrap();
        assert!(is_reaped.load(Ordering::Relaxed));
        assert_eq!(receive_to_end(&mut watcher), if accepted { vec![1] } else { vec![] });
        assert!(bus.publisher().try_publish(Payload::new(2)).unwrap_err().is_closed());
    });
}

/// A reader goes to sleep and a thread publishes while the bus is being closed. The reader wakes up
/// for the end, regardless of which thread ends the bus.
fn a_reader_that_sleeps_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let closing = spawn(move || {
            let accepted = publisher.try_publish(Payload::new(1)).is_ok();
            bus.close();
            accepted
        });
        assert_eq!(numbers(&mut watcher), (vec![1], 0));
        assert!(closing.join().unwrap());
    });
}

/// The last handle is dropped while a thread publishes.
fn a_publisher_against_the_last_handle() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let (mut watcher, is_reaped) = reaped_watcher(&bus);
        begin();
        let publishing = publishing(bus.publisher());
        drop(bus);
        let accepted = publishing.join().unwrap();
        assert!(is_reaped.load(Ordering::Relaxed));
        assert_eq!(receive_to_end(&mut watcher), if accepted { vec![1] } else { vec![] });
    });
}

/// A filter closes the bus from inside a publish call while another thread publishes. Once the bus
/// is closed, the filter's own publish call is refused. When both publish calls have returned, the
/// bus has ended.
fn a_filter_that_closes() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let closed = bus.clone();
        let filter = move |event: &Payload| {
            if event.number() != 2 {
                return true;
            }
            closed.close();
            closed.publisher().try_publish(Payload::new(3)).is_err_and(|error| error.is_closed())
        };
        let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let accepted = publishing.join().unwrap();
        assert_eq!(receive_to_end(&mut watcher), if accepted { vec![1, 2] } else { vec![2] });
        assert_eq!(bus.stats().accepted, 1 + u64::from(accepted));
    });
}

/// A filter publishes from inside a publish call while another thread publishes. When the outer
/// call returns, the event that the filter published is in the queue, immediately after the outer
/// event.
fn a_filter_that_publishes() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(3, OverflowPolicy::DropIncoming);
        let publisher = bus.publisher();
        let filter =
            move |event: &Payload| event.number() != 2 || publisher.publish(Payload::new(20)).is_ok();
        let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        bus.publisher().publish(Payload::new(2)).unwrap();
        let mut events = receive_up_to(&mut watcher, 20);
        assert!(publishing.join().unwrap());
        finish();
        bus.close();
        events.extend(receive_to_end(&mut watcher));
        assert!(events == [1, 2, 20] || events == [2, 20, 1], "{events:?}");
    });
}

/// A filter registers a watcher from inside a publish call and passes it to a thread, which goes to
/// sleep before the registration has been processed. The watcher starts in the past.
fn a_filter_that_registers_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let options = BusOptions::default().queue_capacity(2).history(2).inline(true);
        let bus = Broadcaster::<Payload>::with_options(options).unwrap();
        let (give, given) = loom::sync::mpsc::channel();
        let inner = bus.clone();
        let filter = move |_: &Payload| {
            let registered = inner.watch_builder().start(Start::Oldest).watch();
            registered.is_ok_and(|watcher| give.send(watcher).is_ok())
        };
        let outer = bus.watch_builder().filter(filter).watch().unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        let mut watcher: Watcher<Payload> = given.recv().unwrap();
        assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
        assert!(publishing.join().unwrap());
        bus.close();
        drop(outer);
    });
}

/// A watcher is registered while a thread publishes. The watcher either receives the event or
/// starts after it, and receives every later event.
fn a_registration_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut first = bus.watch().unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        let mut second = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        assert!(publishing.join().unwrap());
        finish();
        bus.close();
        let all = receive_to_end(&mut first);
        assert!(all == [1, 2] || all == [2, 1], "{all:?}");
        let seen = receive_to_end(&mut second);
        assert!(seen == all || seen == [2], "{seen:?} of {all:?}");
    });
}

/// A watcher that starts in the past is registered while a thread publishes. The watcher receives
/// both the event in the history and the new event.
fn a_replay_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let options = BusOptions::default().queue_capacity(2).history(2).inline(true);
        let bus = Broadcaster::<Payload>::with_options(options).unwrap();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        assert!(publishing.join().unwrap());
        assert_eq!(receive_up_to(&mut watcher, 1), [0, 1]);
    });
}

/// A watcher is registered while the bus is being closed. Either the registration is refused, or
/// the watcher sees the end.
fn a_registration_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let closed = bus.clone();
        begin();
        let closing = spawn(move || closed.close());
        let registered = bus.watch();
        closing.join().unwrap();
        match registered {
            Ok(mut watcher) => assert_eq!(receive_to_end(&mut watcher), []),
            Err(WatchError::Closed) => assert_eq!(bus.watcher_count(), 0),
            Err(error) => panic!("{error}"),
        }
    });
}

/// A thread shuts the bus down while another thread publishes. The report is complete, and it
/// counts the event if the publish call succeeded.
fn a_shutdown_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        begin();
        let publishing = publishing(bus.publisher());
        let report = bus.shutdown();
        let accepted = publishing.join().unwrap();
        assert_eq!((report.complete, report.bus.accepted), (true, u64::from(accepted)));
        assert_eq!(receive_to_end(&mut watcher), if accepted { vec![1] } else { vec![] });
    });
}

/// Takes a snapshot while a thread publishes two events into a queue with a capacity of one and the
/// given policy.
fn a_snapshot_against(policy: OverflowPolicy) {
    explore(Exploration::default().after_set_up(), move || {
        let bus = inline_bus(1, policy);
        let watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing =
            spawn(move || publisher.try_publish_batch(vec![Payload::new(1), Payload::new(2)]).is_ok());
        let stats = bus.stats();
        let of = &stats.watchers[0];
        assert!(of.delivered + of.dropped.total() <= of.offered, "{of:?}");
        assert!(of.queued <= of.offered && of.offered <= 2, "{of:?}");
        assert!(publishing.join().unwrap());
        assert_eq!(bus.stats().watchers[0].offered, 2);
        drop(watcher);
    });
}

/// Takes a snapshot while an incoming event that does not fit is dropped.
fn a_snapshot_against_a_loss() {
    a_snapshot_against(OverflowPolicy::DropIncoming);
}

/// Takes a snapshot while the oldest event is dropped.
fn a_snapshot_against_a_loss_of_the_oldest() {
    a_snapshot_against(OverflowPolicy::DropOldest);
}

models! {
    two_publishers,
    two_publishers_against_a_reader_that_sleeps,
    a_gap_against_a_reader_that_sleeps,
    a_publisher_against_a_stop,
    a_publisher_against_a_drop,
    two_drops,
    a_drop_against_close,
    a_publisher_against_close,
    a_reader_that_sleeps_against_close,
    a_publisher_against_the_last_handle,
    a_filter_that_closes,
    a_filter_that_publishes,
    a_filter_that_registers_against_the_reader,
    a_registration_against_a_publisher,
    a_replay_against_a_publisher,
    a_registration_against_close,
    a_shutdown_against_a_publisher,
    a_snapshot_against_a_loss,
    a_snapshot_against_a_loss_of_the_oldest,
}
