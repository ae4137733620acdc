//! Registrations that do not wait while the incoming queue is full, or not for long.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::Delivery::Event;
use eventcast::error::WatchError;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};

use crate::support::{Held, LONG, hold, until, watched};

type Watched = Result<Watcher<u64>, WatchError>;

fn try_watch(bus: &Broadcaster<u64>) -> Watched {
    bus.watch_builder().name("late").try_watch()
}

fn watch_timeout(bus: &Broadcaster<u64>, timeout: Duration) -> Watched {
    bus.watch_builder().name("late").watch_timeout(timeout)
}

fn is_full(watched: &Watched) -> bool {
    matches!(watched, Err(WatchError::Full))
}

/// Returns a bus on a fake clock whose dispatcher is held, and whose incoming queue is full.
fn full() -> (FakeClock, Broadcaster<u64>, Held) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let bus = Broadcaster::with_clock(BusOptions::default().incoming_len(1), clock.clock()).unwrap();
    let held = hold(&bus);
    until(|| bus.publisher().try_publish(1).is_err_and(|error| error.is_full()));
    (clock, bus, held)
}

#[test]
fn try_watch_returns_full_and_leaves_nothing_behind() {
    watched(|| {
        let (_clock, bus, held) = full();
        let refused = try_watch(&bus);
        assert!(is_full(&refused), "{refused:?}");
        assert_eq!(
            refused.unwrap_err().to_string(),
            "the bus is full: it has no capacity for a registration"
        );
        assert_eq!(bus.watchers(), 1);
        assert!(bus.stats().watchers.iter().all(|watcher| watcher.name != "late"));
        assert!(bus.stats().departed_by_name.iter().all(|watcher| watcher.name != "late"));
        drop(held);
        bus.flush(LONG).unwrap();
        let mut watcher = try_watch(&bus).unwrap();
        bus.publisher().publish(2).unwrap();
        assert_eq!(watcher.recv(), Ok(Event(2)));
        assert_eq!(bus.watchers(), 1);
    });
}

#[test]
fn watch_timeout_returns_full_after_its_time_by_the_clock_of_the_bus() {
    watched(|| {
        let (clock, bus, held) = full();
        assert!(is_full(&watch_timeout(&bus, Duration::ZERO)));
        let late = bus.clone();
        let waiting = thread::spawn(move || watch_timeout(&late, Duration::from_secs(10)));
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(9));
        clock.wait_for_waiters(1);
        assert!(!waiting.is_finished());
        clock.advance(Duration::from_secs(1));
        assert!(is_full(&waiting.join().unwrap()));
        assert_eq!(bus.watchers(), 1);
        drop(held);
    });
}

#[test]
fn watch_timeout_registers_when_there_is_capacity() {
    watched(|| {
        let (clock, bus, held) = full();
        let late = bus.clone();
        let waiting = thread::spawn(move || watch_timeout(&late, Duration::from_secs(10)));
        clock.wait_for_waiters(1);
        drop(held);
        let mut watcher = waiting.join().unwrap().unwrap();
        bus.publisher().publish(2).unwrap();
        assert_eq!(watcher.recv(), Ok(Event(2)));
    });
}

#[test]
fn a_closed_bus_and_wrong_options_are_other_errors() {
    watched(|| {
        let (clock, bus, held) = full();
        let closing = bus.clone();
        let waiting = thread::spawn(move || watch_timeout(&closing, LONG));
        clock.wait_for_waiters(1);
        bus.close();
        // The close ends a registration that waits.
        assert!(matches!(waiting.join().unwrap(), Err(WatchError::Stopped)));
        assert!(matches!(try_watch(&bus), Err(WatchError::Stopped)));
        assert!(matches!(watch_timeout(&bus, LONG), Err(WatchError::Stopped)));
        let builder = || bus.watch_builder().queue_len(0);
        assert!(matches!(builder().try_watch(), Err(WatchError::Invalid(_))));
        assert!(matches!(builder().watch_timeout(LONG), Err(WatchError::Invalid(_))));
        drop(held);
    });
}

/// On a thread of the bus a wait could never end, so these calls return `Full`.
#[test]
fn on_a_thread_of_the_bus_neither_waits() {
    watched(|| {
        let options = BusOptions::default().incoming_len(1).queue_len(1).overflow(OverflowPolicy::Wait);
        let bus = Broadcaster::with_options(options).unwrap();
        let ((go, gate), (said_tx, said)) = (mpsc::channel::<()>(), mpsc::channel());
        let weak = bus.downgrade();
        let registers = move |delivery: eventcast::Delivery<&u64>| {
            if delivery == Event(&0) {
                gate.recv().unwrap();
                let bus = weak.upgrade().unwrap();
                said_tx.send([try_watch(&bus), watch_timeout(&bus, LONG)].map(|w| is_full(&w))).unwrap();
            }
        };
        bus.watch_builder().spawn(registers).unwrap();
        // The handler waits, so the dispatcher waits for it, and the incoming queue becomes full.
        bus.publisher().publish(0).unwrap();
        let mut accepted = 1;
        until(|| {
            accepted += u64::from(bus.publisher().try_publish(1).is_ok());
            accepted >= 3 && bus.stats().accepted == accepted - 1
        });
        go.send(()).unwrap();
        assert_eq!(said.recv_timeout(LONG), Ok([true, true]));
        assert!(bus.shutdown().complete);
    });
}

/// On an inline bus a registration needs no capacity.
#[test]
fn an_inline_bus_registers_although_a_watcher_is_full() {
    let options = BusOptions::default().inline(true).queue_len(1).overflow(OverflowPolicy::Wait);
    let bus = Broadcaster::with_options(options).unwrap();
    let _full = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert!(bus.publisher().try_publish(2).unwrap_err().is_full());
    let watchers = [try_watch(&bus), watch_timeout(&bus, Duration::ZERO)].map(Result::unwrap);
    assert_eq!((bus.watchers(), watchers.map(|watcher| watcher.len())), (3, [0, 0]));
}
