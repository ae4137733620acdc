//! No watcher, many watchers, and those that go.

use std::sync::mpsc;
use std::thread::{self};
use std::time::Duration;

use eventcast::OverflowPolicy;

use crate::support::{LONG, Live, Tracked, assert_balanced, available, bus, events, lagged, until, watched};

/// Publishers that wait for room get it, although the dispatcher has no watcher to offer anything
/// to.
#[test]
fn without_watchers_there_is_room_again() {
    watched(|| {
        let bus = bus::<u64>(1, 1);
        thread::scope(|scope| {
            for _ in 0..4 {
                let publisher = bus.publisher();
                scope.spawn(move || (0..500).for_each(|n| publisher.publish(n).unwrap()));
            }
        });
        assert_eq!(bus.shutdown().bus.accepted, 2000);
    });
}

/// Without watchers an event is accepted, offered to nobody, and dropped.
#[test]
fn without_watchers_everything_is_accepted_and_nothing_kept() {
    let live = Live::default();
    let bus = bus::<Tracked>(10, 10);
    let publisher = bus.publisher();
    for number in 0..100 {
        publisher.publish(live.event(number)).unwrap();
    }
    publisher.publish_batch((0..900).map(|n| live.event(n))).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!((bus.stats().accepted, live.count()), (1000, 0));
    // After the last watcher has been dropped, the bus is as it was before the first one.
    let mut watcher = bus.watch().unwrap();
    publisher.publish(live.event(7)).unwrap();
    assert_eq!(watcher.recv().unwrap().event().map(|event| event.number), Some(7));
    drop(watcher);
    publisher.publish(live.event(8)).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!((bus.stats().accepted, live.count()), (1002, 0));
}

/// Ten thousand watchers at once, of several policies. Each gets everything that its queue can
/// hold, and learns of the rest.
#[test]
fn ten_thousand_watchers_at_once_each_get_their_own() {
    watched(|| {
        let bus = bus::<u64>(100, 4);
        let policies = [
            OverflowPolicy::DropIncoming,
            OverflowPolicy::DropOldest,
            OverflowPolicy::WaitFor(Duration::ZERO),
        ];
        let mut watchers: Vec<_> = (0..10_000)
            .map(|n| bus.watch_builder().overflow(policies[n % policies.len()]).watch().unwrap())
            .collect();
        let publisher = bus.publisher();
        for n in 0..6 {
            publisher.publish(n).unwrap();
        }
        bus.flush(LONG).unwrap();
        for (n, watcher) in watchers.iter_mut().enumerate() {
            let seen = available(watcher);
            let expected = if n % policies.len() == 1 { [2, 3, 4, 5] } else { [0, 1, 2, 3] };
            assert_eq!((events(&seen).as_slice(), lagged(&seen)), (expected.as_slice(), 2), "watcher {n}");
        }
        let dropping = thread::spawn(move || drop(watchers));
        publisher.publish(6).unwrap();
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        let stats = bus.stats();
        assert_balanced(&stats);
        assert!(stats.watchers.is_empty(), "{}", stats.watchers.len());
        assert_eq!((stats.departed.delivered, stats.departed.dropped.oldest), (40_000, 2 * 3333));
    });
}

/// Two watchers are dropped on another thread while the dispatcher is in the middle of a round that
/// will reach them, and is held up at another watcher of the same round.
#[test]
fn a_watcher_that_goes_in_the_middle_of_a_round_takes_only_its_own() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 10);
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        let mut before = bus.watch().unwrap();
        let mut held = bus
            .watch_builder()
            .filter(move |_| {
                let _ = entered_tx.send(());
                let _ = go_rx.recv();
                true
            })
            .watch()
            .unwrap();
        let goes = [bus.watch().unwrap(), bus.watch_builder().filter(|_| true).watch().unwrap()];
        let mut after = bus.watch().unwrap();
        bus.publisher().publish(live.event(1)).unwrap();
        entered.recv_timeout(LONG).unwrap();
        // The round is past `before`, is at `held`, and still has the other watchers to come.
        thread::spawn(move || drop(goes)).join().unwrap();
        drop(go);
        bus.publisher().publish(live.event(2)).unwrap();
        assert!(bus.shutdown().complete);
        for watcher in [&mut before, &mut held, &mut after] {
            let numbers: Vec<_> = watcher.events().map(|event| event.number).collect();
            assert_eq!(numbers, [1, 2]);
        }
        let stats = bus.stats();
        assert_balanced(&stats);
        assert_eq!(stats.departed.delivered, 0);
        assert_eq!(stats.departed.offered, stats.departed.dropped.stopped);
        drop((before, held, after));
        assert_eq!(live.count(), 0);
    });
}

/// A watcher is dropped on another thread while the dispatcher calls its filter, so the watcher is
/// offered an event after it has emptied its queue. The dispatcher empties the queue again. It does
/// so before the end of the round, which another watcher may hold up for ever.
#[test]
fn what_is_offered_to_a_watcher_that_goes_meanwhile_is_let_go_at_once() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 1);
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        // The filter keeps one of two events, and so the watcher gets a copy.
        let goes = bus.watch_builder().name("goes").filter(move |event: &Tracked| {
            if event.number == 1 {
                let _ = entered_tx.send(());
                let _ = go_rx.recv();
            }
            event.number == 1
        });
        let goes = goes.watch().unwrap();
        let unread = bus.watch_builder().name("unread").overflow(OverflowPolicy::Wait).watch().unwrap();
        bus.publisher().publish_batch(vec![live.event(1), live.event(2)]).unwrap();
        entered.recv_timeout(LONG).unwrap();
        drop(goes);
        drop(go);
        // The round continues until it waits for the watcher that nobody reads.
        until(|| unread.stats().offered == 2);
        until(|| live.count() == 2);
        let stats = bus.stats();
        let goes = stats.departed_by_name.iter().find(|watcher| watcher.name == "goes").unwrap();
        assert_eq!((goes.offered, goes.dropped.stopped, goes.queued), (1, 1, 0), "{goes}");
        drop(unread);
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
        assert_eq!(live.count(), 0);
    });
}
