//! Watchers that have ended are reaped: the dispatcher drops their closures and events while the
//! bus keeps running, even while another watcher blocks the dispatcher.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::{Wait, WaitFor};

use crate::support::{
    LONG, Live, Loaded, Tracked, assert_balanced, assert_dropped, bus, bus_with, drain, events, hold,
    keeping, timed, turnstile, until, waits, watched,
};

/// If a watcher's filter has panicked, the watcher is reaped before it is dropped.
#[test]
fn a_watcher_whose_filter_panicked_is_reaped() {
    let bus = bus::<u64>(100, 100);
    let ((in_filter, filter_gone), (in_hook, hook_gone)) = (mpsc::channel(), mpsc::channel());
    let mut broken = bus
        .watch_builder()
        .filter(move |event| {
            let _ = &in_filter;
            assert!(*event != 7, "seven");
            true
        })
        .on_drop(move |_, _| {
            let _ = &in_hook;
        })
        .watch()
        .unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    bus.publisher().publish(7).unwrap();
    assert_dropped(&filter_gone);
    assert_dropped(&hook_gone);
    assert_eq!(broken.events().collect::<Vec<_>>(), [1]);
    // The watcher departs when it is dropped, and the bus keeps running.
    drop(broken);
    until(|| bus.stats().watchers.is_empty());
    assert_eq!(bus.stats().departed.panics, 1);
    let mut other = bus.watch().unwrap();
    bus.publisher().publish(2).unwrap();
    assert_eq!(other.recv_timeout(LONG), Ok(Event(2)));
}

/// The dispatcher reaps dropped watchers although the incoming queue is never empty. The queue is
/// never empty because each offered event publishes another event.
#[test]
fn dropped_watchers_are_reaped_on_a_busy_bus() {
    let bus = bus_with::<u64>(BusOptions::default().max_batch(1));
    let (is_busy, publisher) = (Arc::new(AtomicBool::new(true)), bus.publisher());
    let continues = is_busy.clone();
    // While this watcher's filter is processing an event, the next event is already in the queue.
    let busy = bus
        .watch_builder()
        .filter(move |event| {
            if continues.load(Ordering::SeqCst) {
                publisher.try_publish(event + 1).unwrap();
            }
            false
        })
        .watch()
        .unwrap();
    bus.publisher().publish(0).unwrap();
    until(|| bus.stats().accepted > 100);
    for _ in 0..10 {
        let (in_filter, gone) = mpsc::channel();
        let watcher = bus.watch_builder().filter(keeping(in_filter)).watch().unwrap();
        until(|| watcher.stats().offered > 0);
        drop(watcher);
        assert_dropped(&gone);
    }
    until(|| bus.stats().watchers.len() == 1);
    is_busy.store(false, Ordering::SeqCst);
    assert!(bus.shutdown().complete);
    assert!(busy.stats().filtered > 100);
}

/// Four watchers block the dispatcher, and some of them are dropped. The pending events of the
/// dropped watchers count as lost. The other watchers receive all of their events, wherever the
/// dispatcher is currently storing their queues.
#[test]
fn of_several_full_watchers_the_dropped_ones_alone_lose_events() {
    for dropped in 0..1 << 4 {
        let bus = bus::<u64>(100, 1);
        let (mut watchers, mut gone) = (Vec::new(), Vec::new());
        for number in 0..4 {
            let (in_filter, is_gone) = mpsc::channel();
            watchers.push(Some(waits(&bus, 1).filter(keeping(in_filter)).watch().unwrap()));
            if dropped & 1 << number != 0 {
                gone.push((number, is_gone));
            }
        }
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        until(|| watchers.iter().flatten().all(|watcher| watcher.stats().lag == 3));
        for (number, is_gone) in gone {
            drop(watchers[number].take());
            assert_dropped(&is_gone);
        }
        for watcher in watchers.iter_mut().flatten() {
            for event in 1..=3 {
                assert_eq!(watcher.recv_timeout(LONG), Ok(Event(event)));
            }
        }
        let report = bus.shutdown();
        assert_balanced(&report.bus);
        let lost = 3 * u64::from(i32::count_ones(dropped));
        assert_eq!((report.bus.departed.offered, report.bus.departed.dropped.stopped), (lost, lost));
    }
}

/// While a full watcher blocks the dispatcher, the dispatcher still drops what the closures of
/// dropped watchers own, such as the socket of a client that has disconnected. The full watcher
/// loses nothing.
#[test]
fn dropped_watchers_are_reaped_beside_a_full_watcher() {
    const CLIENTS: usize = 82;
    let bus = bus::<u64>(1_000, 10);
    let socket = Arc::new(());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (in_filter, in_hook) = (socket.clone(), socket.clone());
            let builder = bus.watch_builder().filter(move |_| Arc::strong_count(&in_filter) > 0);
            builder.on_drop(move |_, _| drop(in_hook.clone())).watch().unwrap()
        })
        .collect();
    let mut held = hold(&bus);
    assert_eq!(Arc::strong_count(&socket), 2 * CLIENTS + 1);
    drop(clients);
    until(|| Arc::strong_count(&socket) == 1);
    until(|| bus.stats().departed.offered == 2 * CLIENTS as u64);
    // The watcher was full the whole time.
    let stats = held.watcher.stats();
    assert_eq!((stats.queued, stats.lag), (1, 2), "{stats}");
    for event in [u64::MAX - 1, u64::MAX] {
        assert_eq!(held.watcher.recv_timeout(LONG), Ok(Event(event)));
    }
}

/// If a watcher is stopped while it blocks the dispatcher, the watcher is reaped even if another
/// full watcher is also blocking the dispatcher. The stopped watcher ends, and its pending events
/// count as lost.
#[test]
fn a_full_watcher_that_is_stopped_ends_beside_another_full_one() {
    let bus = bus::<u64>(100, 1);
    let mut stopped = waits(&bus, 1).watch().unwrap();
    let mut full = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    until(|| full.stats().lag == 2 && stopped.stats().lag == 2);
    stopped.stop();
    until(|| stopped.stats().dropped.stopped == 1);
    assert_eq!(events(&drain(&mut stopped)), [1]);
    assert_eq!([0; 2].map(|_| full.recv_timeout(LONG)), [Ok(Event(1)), Ok(Event(2))]);
}

/// Two watchers are dropped on another thread while a third watcher is blocking the dispatcher in
/// the middle of a round. The round has not reached the dropped watchers yet.
#[test]
fn a_watcher_dropped_in_the_middle_of_a_round_loses_only_its_own_events() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 10);
        let (turnstile, mut pass) = turnstile();
        let mut before = bus.watch().unwrap();
        let mut held = bus
            .watch_builder()
            .filter(move |event: &Tracked| {
                pass(event.number);
                true
            })
            .watch()
            .unwrap();
        let dropped = [bus.watch().unwrap(), bus.watch_builder().filter(|_| true).watch().unwrap()];
        let mut after = bus.watch().unwrap();
        bus.publisher().publish(live.event(1)).unwrap();
        turnstile.wait_for(1);
        // The round has already passed `before`, is at `held`, and has not reached the other
        // watchers yet.
        thread::spawn(move || drop(dropped)).join().unwrap();
        drop(turnstile);
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

/// A watcher is dropped on another thread while the dispatcher is calling the watcher's filter, so
/// the dispatcher offers the watcher an event after the watcher has emptied its queue. The
/// dispatcher empties the queue again before the end of the round, which another watcher may delay
/// indefinitely.
#[test]
fn events_offered_to_a_watcher_that_was_just_dropped_are_freed() {
    watched(|| {
        let live = Live::default();
        let bus = bus::<Tracked>(10, 1);
        let (turnstile, mut pass) = turnstile();
        // The filter accepts one of two events, so the watcher gets a copy of that event.
        let builder = bus.watch_builder().name("dropped").filter(move |event: &Tracked| {
            if event.number == 1 {
                pass(1);
            }
            event.number == 1
        });
        let dropped = builder.watch().unwrap();
        let unread = bus.watch_builder().name("unread").overflow(Wait).watch().unwrap();
        bus.publisher().publish_batch(vec![live.event(1), live.event(2)]).unwrap();
        turnstile.wait_for(1);
        drop((dropped, turnstile));
        // The round continues until the dispatcher waits for the unread watcher.
        until(|| unread.stats().offered == 2);
        until(|| live.count() == 2);
        let stats = bus.stats();
        let dropped = stats.departed_by_name.iter().find(|watcher| watcher.name == "dropped").unwrap();
        assert_eq!((dropped.offered, dropped.dropped.stopped, dropped.queued), (1, 1, 0), "{dropped}");
        drop(unread);
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
        assert_eq!(live.count(), 0);
    });
}

/// A watcher is dropped after the dispatcher has checked whether the watcher has stopped, but
/// before the dispatcher has computed how much capacity it needs. The watcher and the dispatcher
/// empty the queue at the same time, and the dispatcher's arithmetic must include the events that
/// the dispatcher itself removed. Otherwise the dispatcher panics (in a build with overflow
/// checks), which kills the bus.
#[test]
fn a_watcher_that_is_dropped_while_the_dispatcher_waits_for_it_harms_nothing() {
    watched(|| {
        let (clock, bus) = timed(BusOptions::default());
        let (hooked_tx, hooked) = mpsc::channel();
        let (dropping_tx, dropping) = mpsc::channel::<()>();
        let (release, released) = mpsc::channel::<()>();
        let waited = waits(&bus, 4).name("a").watch().unwrap();
        let mut timed = bus
            .watch_builder()
            .name("b")
            .queue_capacity(1)
            .overflow(WaitFor(Duration::from_secs(1)))
            .filter(|event: &Loaded| event.number >= 4)
            .on_drop(move |_, _| {
                // The dispatcher has checked `a`, and is now at `b`, whose limit has expired. Hold
                // the dispatcher here.
                hooked_tx.send(()).unwrap();
                dropping.recv().unwrap();
            })
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        let first = Loaded::with(1, move || {
            dropping_tx.send(()).unwrap();
            released.recv().unwrap();
        });
        for event in [first, Loaded::plain(2), Loaded::plain(3), Loaded::plain(4)] {
            publisher.publish(event).unwrap();
            // The flush ensures that each event becomes a separate batch.
            bus.flush(LONG).unwrap();
        }
        publisher.publish(Loaded::plain(5)).unwrap();
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        hooked.recv().unwrap();
        // `a` begins to empty its queue, and the first event's destructor blocks `a`. The
        // dispatcher removes the remaining events.
        let dropping = thread::spawn(move || drop(waited));
        let flushed = bus.flush(LONG);
        release.send(()).unwrap();
        dropping.join().unwrap();
        flushed.unwrap();
        publisher.try_publish(Loaded::plain(6)).expect("the bus must still accept events");
        assert!(matches!(timed.recv(), Ok(Event(event)) if event.number == 4));
        let report = bus.shutdown();
        assert!(report.complete);
        assert_eq!(report.bus.accepted, 6);
    });
}
