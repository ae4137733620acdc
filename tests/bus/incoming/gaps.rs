//! Gaps that a publisher reports. Each gap has the same place in the order of events for every
//! watcher.

use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait};

use crate::support::{
    LONG, assert_balanced, available, bus, bus_with, drain, on_both, stopping_filter, timed,
};

/// A gap stays where it was published, whatever policy or filter a watcher has, and the gap does
/// not count as an event.
#[test]
fn a_gap_has_its_place_for_every_watcher() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(8));
        let policies = [DropIncoming, DropOldest, Wait];
        let mut watchers: Vec<_> =
            policies.iter().map(|policy| bus.watch_builder().overflow(*policy).watch().unwrap()).collect();
        let mut odd = bus.watch_builder().filter(|n: &u64| n % 2 == 1).watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch([1, 2]).unwrap();
        publisher.publish_gap(3).unwrap();
        publisher.publish(6).unwrap();
        publisher.publish_gap(4).unwrap();
        publisher.publish_gap(0).unwrap();
        let report = bus.shutdown();
        for watcher in &mut watchers {
            assert_eq!(drain(watcher), [Event(1), Event(2), Lagged(3), Event(6), Lagged(4)]);
            let stats = watcher.stats();
            assert_eq!((stats.offered, stats.delivered, stats.missed, stats.lag), (3, 3, 7, 0));
        }
        // The filter refuses event 6, so the gaps before and after that event merge into one gap.
        assert_eq!(drain(&mut odd), [Event(1), Lagged(7)]);
        assert_eq!((report.bus.accepted, report.bus.published(), report.bus.missed), (3, 3, 7));
        assert_balanced(&bus.stats());
    });
}

/// A gap does not need capacity in a watcher's queue, and is added to the watcher's own losses.
#[test]
fn a_gap_adds_to_what_the_watcher_lost() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.publisher().publish_gap(10).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(available(&mut watcher), [Event(1), Event(2), Lagged(11)]);
        assert_eq!((watcher.stats().missed, watcher.stats().dropped.incoming), (10, 1));
    });
}

/// If a watcher is stopped while the dispatcher is offering it the event before a gap, the watcher
/// does not receive the gap.
#[test]
fn a_stopped_watcher_receives_no_more_gaps() {
    let bus = bus::<u64>(100, 100);
    let mut stopped = bus.watch().unwrap();
    let (turnstile, mut other) = stopping_filter(bus.watch_builder());
    bus.publisher().publish(1).unwrap();
    turnstile.wait_for(1);
    // The dispatcher takes the event and the gap together.
    bus.publisher().publish(2).unwrap();
    bus.publisher().publish_gap(5).unwrap();
    turnstile.let_one_pass();
    turnstile.wait_for(2);
    stopped.stop();
    turnstile.let_one_pass();
    bus.flush(LONG).unwrap();
    assert_eq!(drain(&mut stopped), [Event(1), Event(2)]);
    assert_eq!(stopped.stats().missed, 0);
    assert_eq!(available(&mut other), [Event(1), Event(2), Lagged(5)]);
}

/// If a gap is not followed by an event, the gap wakes a sleeping reader, and a handler receives
/// the gap before a flush returns.
#[test]
fn a_gap_alone_wakes_a_reader() {
    on_both(|options| {
        let (clock, bus) = timed::<u8>(options);
        let mut watcher = bus.watch().unwrap();
        let handle = bus.watch_builder().spawn(|delivery| assert_ne!(delivery, Lagged(5))).unwrap();
        let reader = thread::spawn(move || watcher.recv_timeout(LONG));
        clock.wait_for_waiters(1);
        bus.publisher().publish_gap(5).unwrap();
        assert_eq!(reader.join().unwrap(), Ok(Lagged(5)));
        bus.flush(LONG).unwrap();
        assert_eq!(handle.stats().panics, 1, "the handler has received the gap");
    });
}

#[test]
fn a_gap_is_not_for_later_watchers() {
    on_both(|options| {
        let bus = bus_with(options);
        bus.publisher().publish_gap(5).unwrap();
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Event(1)]);
        assert_eq!(watcher.stats().missed, 0);
    });
}

/// The largest gaps do not overflow any counter, even combined with each other and with events.
#[test]
fn gaps_of_any_size_overflow_nothing() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let mut watchers: Vec<_> = (0..5).map(|_| bus.watch().unwrap()).collect();
        for _ in 0..5 {
            bus.publisher().publish_gap(u64::MAX).unwrap();
            bus.publisher().publish(1).unwrap();
        }
        let report = bus.shutdown();
        assert_eq!((report.bus.missed, report.bus.accepted), (1 << 62, 5));
        let last = drain(&mut watchers.remove(0));
        assert_eq!(last, [Lagged(1 << 62), Event(1), Event(1), Lagged(3)]);
        drop(watchers);
        assert!(bus.stats().departed.missed >= 1 << 62);
    });
}
