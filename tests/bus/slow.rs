//! Watchers that are too slow, and the monitor that reports them.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::{DropIncoming, DropOldest};
use eventcast::bus::Start;
use eventcast::stats::SlowNotice;
use eventcast::stats::Slowness::{self, CaughtUp, Full, Stuck, Unread};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::{
    LONG, available, inline, on_both, stopping_filter, stopping_handler, timed, turnstile, until,
    wait_until_full, waits,
};

const AFTER: Duration = Duration::from_secs(8);
/// The time between two checks of a monitor that reports after `AFTER`.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts a monitor that reports after `AFTER`.
fn monitor<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>) -> Receiver<SlowNotice> {
    let (tx, notices) = mpsc::channel();
    bus.on_slow(AFTER, move |notice| tx.send(notice.clone()).unwrap()).unwrap();
    notices
}

/// Lets a monitor check a number of times.
fn check(clock: &FakeClock, times: u32) {
    for _ in 0..times {
        clock.wait_for_waiters(1);
        clock.advance(PAUSE);
    }
    clock.wait_for_waiters(1);
}

/// Returns the notices so far, as the watcher's name and what is reported about it.
fn shown(notices: &Receiver<SlowNotice>) -> Vec<(String, Slowness)> {
    notices.try_iter().map(|notice| (notice.watcher.name, notice.slowness)).collect()
}

fn is(name: &str, slowness: Slowness) -> (String, Slowness) {
    (name.to_owned(), slowness)
}

// ── what is slow ──

#[test]
fn an_unread_watcher_is_reported_once_and_once_when_it_has_caught_up() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let mut unread = bus.watch_builder().name("unread").watch().unwrap();
        let mut read = bus.watch_builder().name("read").watch().unwrap();
        let _idle = bus.watch_builder().name("idle").filter(|_: &u64| false).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        bus.flush(LONG).unwrap();
        let notices = monitor(&bus);
        for _ in 1..8 {
            read.recv().unwrap();
            bus.publisher().publish(2).unwrap();
            bus.flush(LONG).unwrap();
            check(&clock, 1);
        }
        assert_eq!(shown(&notices), []);
        assert_eq!(unread.stats().oldest_age, PAUSE * 7);
        check(&clock, 1);
        let notice = notices.recv_timeout(LONG).unwrap();
        assert_eq!((notice.slowness, notice.watcher.name.as_str()), (Unread, "unread"));
        assert_eq!(notice.watcher.policy, Some(DropIncoming));
        assert_eq!((notice.watcher.queued, notice.watcher.oldest_age), (8, AFTER));
        assert_eq!(
            notice.to_string(),
            "unread (drop_incoming) does not keep up: queued 8, oldest 8s, lag 8, dropped 0"
        );
        read.recv().unwrap();
        check(&clock, 20);
        assert_eq!(shown(&notices), []);
        assert_eq!(available(&mut unread).len(), 8);
        assert_eq!(available(&mut read).len(), 0);
        check(&clock, 20);
        assert_eq!(shown(&notices), [is("unread", CaughtUp)]);
        assert_eq!(unread.stats().oldest_age, Duration::ZERO);
        // The same watcher can become slow again.
        bus.publisher().publish(3).unwrap();
        read.recv().unwrap();
        check(&clock, 20);
        assert_eq!(shown(&notices), [is("unread", Unread)]);
    });
}

/// The reader of a full queue takes an event before each check, so no event waits for long, but the
/// bus waits for the reader at each check.
#[test]
fn a_watcher_that_the_bus_waits_for_is_full() {
    for inline in [false, true] {
        let (clock, bus) = timed(BusOptions::default().inline(inline));
        let mut full = waits(&bus, 2).name("full").watch().unwrap();
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || {
            (0..20_u64).for_each(|number| publisher.publish_timeout(number, LONG).unwrap());
        });
        let notices = monitor(&bus);
        // The monitor waits, and on an inline bus, the publisher waits as well. Otherwise, the
        // dispatcher waits.
        let check = |full: &Watcher<u64>| {
            until(|| full.len() == 2);
            if !inline {
                wait_until_full(&bus, "full");
            }
            clock.wait_for_waiters(1 + usize::from(inline));
            clock.advance(PAUSE);
            clock.wait_for_waiters(1 + usize::from(inline));
        };
        for _ in 0..9 {
            check(&full);
            full.recv().unwrap();
        }
        assert_eq!(shown(&notices), [is("full", Full)]);
        while full.recv().unwrap() != Event(19) {}
        publishing.join().unwrap();
        clock.wait_for_waiters(1);
        clock.advance(PAUSE);
        assert_eq!(notices.recv_timeout(LONG).unwrap().slowness, CaughtUp);
    }
}

/// The dispatcher waits until half of a long queue is free, so it also waits while the queue has
/// capacity.
#[test]
fn a_long_queue_that_the_bus_waits_for_is_full() {
    let (clock, bus) = timed(BusOptions::default());
    let mut full = waits(&bus, 100).name("full").watch().unwrap();
    bus.publisher().publish_batch(0..200_u64).unwrap();
    wait_until_full(&bus, "full");
    let notices = monitor(&bus);
    for _ in 0..9 {
        check(&clock, 1);
        assert_eq!(full.events().take(5).count(), 5);
    }
    let notice = notices.recv_timeout(LONG).unwrap();
    assert_eq!(notice.slowness, Full);
    assert_eq!(
        notice.to_string(),
        "full (wait) blocks the bus or loses events: queued 65, oldest 8s, lag 165, dropped 0"
    );
    assert_eq!(full.events().take(155).count(), 155);
    bus.flush(LONG).unwrap();
    check(&clock, 1);
    assert_eq!(shown(&notices), [is("full", CaughtUp)]);
}

/// None of these watchers loses what it wants, or makes the bus wait.
#[test]
fn a_queue_that_is_full_by_design_is_not_slow() {
    on_both(|options| {
        let (clock, bus) = timed(options.history(8));
        bus.publisher().publish_batch(0..8_u64).unwrap();
        let newest = bus.watch_builder().name("newest").queue_capacity(1).overflow(DropOldest);
        let mut newest = newest.watch().unwrap();
        let mut by_key = bus.watch_builder().queue_capacity(2).conflate_by(|n| n % 2).watch().unwrap();
        let mut replayed = bus.watch_builder().queue_capacity(2).start(Start::Oldest).watch().unwrap();
        let notices = monitor(&bus);
        for _ in 0..20 {
            bus.publisher().publish(8).unwrap();
            bus.publisher().publish(9).unwrap();
            bus.flush(LONG).unwrap();
            check(&clock, 1);
            assert!(!available(&mut newest).is_empty());
            assert_eq!(available(&mut by_key).len(), 2);
            available(&mut replayed);
        }
        assert_eq!(shown(&notices), []);
    });
}

/// A reader that has stopped reading the newest state is slow, although its oldest event is new.
#[test]
fn a_dead_reader_of_the_newest_event_is_full() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let newest = bus.watch_builder().name("newest").queue_capacity(1).overflow(DropOldest);
        let newest = newest.watch().unwrap();
        let notices = monitor(&bus);
        for _ in 0..9 {
            bus.publisher().publish_batch([1_u64, 2]).unwrap();
            bus.flush(LONG).unwrap();
            check(&clock, 1);
        }
        assert_eq!(shown(&notices), [is("newest", Full)]);
        drop(newest);
    });
}

/// The queue is empty at each check, but has been too short in between.
#[test]
fn a_watcher_that_loses_events_between_the_checks_is_full() {
    on_both(|options| {
        let (clock, bus) = timed(options.queue_capacity(1));
        let mut losing = bus.watch_builder().name("losing").watch().unwrap();
        let notices = monitor(&bus);
        for _ in 0..9 {
            bus.publisher().publish_batch([1_u64, 2]).unwrap();
            bus.flush(LONG).unwrap();
            assert!(losing.recv().is_ok());
            check(&clock, 1);
        }
        assert_eq!(shown(&notices), [is("losing", Full)]);
        check(&clock, 1);
        assert_eq!(shown(&notices), [is("losing", CaughtUp)]);
    });
}

#[test]
fn a_handler_that_hangs_is_unread() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let (turnstile, handle) = stopping_handler(bus.watch_builder().name("hanging"));
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(Some(1));
        let notices = monitor(&bus);
        check(&clock, 8);
        assert_eq!(shown(&notices), [is("hanging", Unread)]);
        turnstile.let_one_pass();
        bus.flush(LONG).unwrap();
        check(&clock, 1);
        assert_eq!(shown(&notices), [is("hanging", CaughtUp)]);
        drop((turnstile, handle));
    });
}

// ── user code that does not return ──

/// Publishes on another thread, because the calling code hangs there on an inline bus.
fn publish_elsewhere<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>, events: Vec<T>) {
    let publisher = bus.publisher();
    thread::spawn(move || events.into_iter().for_each(|event| publisher.publish(event).unwrap()));
}

#[test]
fn a_filter_that_hangs_names_its_watcher() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let other = bus.watch_builder().name("other").filter(|_| true).watch().unwrap();
        let (turnstile, watcher) = stopping_filter(bus.watch_builder().name("stuck"));
        publish_elsewhere(&bus, vec![1]);
        turnstile.wait_for(1);
        let notices = monitor(&bus);
        check(&clock, 7);
        assert_eq!(shown(&notices), []);
        check(&clock, 1);
        let found = shown(&notices);
        assert!(found.contains(&is("stuck", Stuck)), "{found:?}");
        assert!(!found.contains(&is("other", Stuck)), "{found:?}");
        turnstile.let_one_pass();
        bus.flush(LONG).unwrap();
        check(&clock, 1);
        assert!(shown(&notices).contains(&is("stuck", CaughtUp)));
        // The filter hangs at the next event. Its watcher is reported even after its reader has
        // been dropped.
        publish_elsewhere(&bus, vec![2]);
        turnstile.wait_for(2);
        drop(watcher);
        check(&clock, 9);
        assert!(shown(&notices).contains(&is("stuck", Stuck)));
        drop((turnstile, other));
    });
}

/// The dispatcher holds an event for the first watcher, but is not waiting for that watcher.
#[test]
fn a_filter_that_hangs_does_not_make_another_watcher_full() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let mut other = waits(&bus, 1).name("other").watch().unwrap();
        let (turnstile, watcher) = stopping_filter(bus.watch_builder().name("stuck"));
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || publisher.publish_batch([1, 2]).unwrap());
        turnstile.wait_for(1);
        assert_eq!(other.recv().unwrap(), Event(1));
        let notices = monitor(&bus);
        check(&clock, 20);
        assert_eq!(shown(&notices), [is("stuck", Stuck)]);
        drop((turnstile, watcher, other));
        publishing.join().unwrap();
    });
}

#[test]
fn a_hook_that_hangs_names_its_watcher() {
    on_both(|options| {
        let (clock, bus) = timed(options.queue_capacity(1));
        let (turnstile, mut pass) = turnstile();
        let hook = move |_, lost: &[u64]| pass(lost.to_vec());
        let mut watcher = bus.watch_builder().name("stuck").on_drop(hook).watch().unwrap();
        publish_elsewhere(&bus, vec![1, 2]);
        turnstile.wait_for(vec![2]);
        // The watcher has read everything, so only its hook is slow.
        assert!(watcher.recv().is_ok());
        let notices = monitor(&bus);
        check(&clock, 8);
        assert_eq!(shown(&notices), [is("stuck", Stuck)]);
        turnstile.let_one_pass();
        bus.flush(LONG).unwrap();
        // At the first of these checks, the watcher has lost an event since the check before.
        check(&clock, 2);
        assert_eq!(shown(&notices), [is("stuck", CaughtUp)]);
    });
}

#[test]
fn a_key_function_that_hangs_names_its_watcher() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let (turnstile, pass) = turnstile();
        let pass = std::sync::Mutex::new(pass);
        let key = move |event: &u64| pass.lock().unwrap()(*event);
        let watcher = bus.watch_builder().name("stuck").conflate_by(key).watch().unwrap();
        publish_elsewhere(&bus, vec![1]);
        turnstile.wait_for(1);
        let notices = monitor(&bus);
        check(&clock, 8);
        assert_eq!(shown(&notices), [is("stuck", Stuck)]);
        drop((turnstile, watcher));
    });
}

/// An event whose destructor or `Clone` hangs.
struct Hanging {
    at_drop: Option<Arc<dyn Fn() + Send + Sync>>,
    at_clone: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl Clone for Hanging {
    fn clone(&self) -> Self {
        self.at_clone.iter().for_each(|call| call());
        Self { at_drop: None, at_clone: None }
    }
}

impl Drop for Hanging {
    fn drop(&mut self) {
        self.at_drop.iter().for_each(|call| call());
    }
}

#[test]
fn a_destructor_or_clone_that_hangs_names_its_watcher() {
    for (inline, at_drop) in [(false, true), (false, false), (true, true), (true, false)] {
        let (clock, bus) = timed(BusOptions::default().inline(inline).queue_capacity(1));
        let (turnstile, pass) = turnstile();
        let pass = std::sync::Mutex::new(pass);
        let hang: Option<Arc<dyn Fn() + Send + Sync>> = Some(Arc::new(move || pass.lock().unwrap()(())));
        let quiet = || Hanging { at_drop: None, at_clone: None };
        let policy = if at_drop { DropOldest } else { DropIncoming };
        let watcher = bus.watch_builder().name("stuck").overflow(policy).watch().unwrap();
        let publisher = bus.publisher();
        let batch = if at_drop {
            // The second event evicts the first one from the queue.
            publisher.publish(Hanging { at_drop: hang, at_clone: None }).ok().unwrap();
            bus.flush(LONG).unwrap();
            vec![quiet()]
        } else {
            // Only a part of the batch fits, so that part is copied.
            vec![Hanging { at_drop: None, at_clone: hang }, quiet()]
        };
        thread::spawn(move || publisher.publish_batch(batch).ok().unwrap());
        turnstile.wait_for(());
        let notices = monitor(&bus);
        check(&clock, 8);
        assert_eq!(shown(&notices), [is("stuck", Stuck)], "inline {inline}, at_drop {at_drop}");
        drop((turnstile, watcher));
    }
}

// ── ages ──

/// A reader that lags by a constant time is slow only if it lags by the monitor's time. The
/// measured age is too low by at most an eighth and the time between two checks.
#[test]
fn the_age_of_the_oldest_event_is_measured() {
    on_both(|options| {
        for behind in [3_u32, 20, 100] {
            let (clock, bus) = timed(options.clone());
            let mut late = bus.watch_builder().name("late").watch().unwrap();
            let notices = monitor(&bus);
            let mut ages = Vec::new();
            for second in 0..4 * behind {
                bus.publisher().publish(u64::from(second)).unwrap();
                bus.flush(LONG).unwrap();
                if second > behind {
                    late.recv().unwrap();
                }
                check(&clock, 1);
                if second > 2 * behind {
                    ages.push(late.stats().oldest_age);
                }
            }
            let most = PAUSE * behind + PAUSE;
            let least = (most * 7 / 8).saturating_sub(2 * PAUSE);
            assert!(ages.iter().all(|age| (least..=most).contains(age)), "{behind}: {ages:?}");
            let wanted = if behind < 8 { vec![] } else { vec![is("late", Unread)] };
            assert_eq!(shown(&notices), wanted, "{behind}");
        }
    });
}

// ── the monitor ──

#[test]
fn a_time_below_a_millisecond_is_an_error() {
    let bus = inline::<u64>(1);
    let error = bus.on_slow(Duration::from_micros(999), |_| ()).unwrap_err();
    assert_eq!(error.to_string(), "after must be at least 1 ms, got 999µs");
    bus.on_slow(Duration::from_millis(1), |_| ()).unwrap();
    bus.on_slow(Duration::MAX, |_| ()).unwrap();
}

/// A second monitor knows less about the events that are already waiting.
#[test]
fn the_first_monitor_measures_the_ages() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish(1_u64).unwrap();
        bus.flush(LONG).unwrap();
        let _first = monitor(&bus);
        check(&clock, 5);
        let _second = monitor(&bus);
        assert_eq!(watcher.stats().oldest_age, PAUSE * 5);
        clock.wait_for_waiters(2);
        clock.advance(PAUSE);
        clock.wait_for_waiters(2);
        assert_eq!(watcher.stats().oldest_age, PAUSE * 6);
        watcher.recv().unwrap();
        assert_eq!(watcher.stats().oldest_age, Duration::ZERO);
    });
}

#[test]
fn a_monitor_ends_with_the_bus() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let mut watcher = bus.watch_builder().name("gone").watch().unwrap();
        bus.publisher().publish(1_u64).unwrap();
        bus.flush(LONG).unwrap();
        let (first, second) = (monitor(&bus), monitor(&bus));
        check(&clock, 0);
        clock.wait_for_waiters(2);
        clock.advance(AFTER);
        for notices in [&first, &second] {
            assert_eq!(notices.recv_timeout(LONG).unwrap().slowness, Unread);
        }
        // A slow watcher that is dropped is no longer reported.
        watcher.recv().unwrap();
        drop(watcher);
        let report = bus.shutdown();
        assert!(report.complete && report.threads_ended);
        // The hooks have been dropped.
        for notices in [first, second] {
            assert_eq!(notices.recv_timeout(LONG).err(), Some(mpsc::RecvTimeoutError::Disconnected));
        }
        // A bus that has ended needs no monitor.
        assert_eq!(monitor(&bus).recv_timeout(LONG).err(), Some(mpsc::RecvTimeoutError::Disconnected));
    });
}

/// The hook runs on a thread of the bus, so a shutdown in it does not wait for the hook itself.
#[test]
fn a_hook_that_panics_or_shuts_down_the_bus_does_no_harm() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let watcher = waits(&bus, 2).name("slow").watch().unwrap();
        bus.publisher().publish(1_u64).unwrap();
        bus.flush(LONG).unwrap();
        let (tx, notices) = mpsc::channel();
        let own = bus.clone();
        let mut is_first = true;
        bus.on_slow(AFTER, move |notice| {
            tx.send(notice.slowness).unwrap();
            assert!(!std::mem::take(&mut is_first), "injected");
            own.shutdown();
        })
        .unwrap();
        clock.wait_for_waiters(1);
        clock.advance(AFTER);
        assert_eq!(notices.recv_timeout(LONG), Ok(Unread));
        let mut watcher = watcher;
        watcher.recv().unwrap();
        clock.wait_for_waiters(1);
        clock.advance(PAUSE);
        assert_eq!(notices.recv_timeout(LONG), Ok(CaughtUp));
        assert_eq!(notices.recv_timeout(LONG), Err(mpsc::RecvTimeoutError::Disconnected));
        assert!(watcher.recv().is_err());
        assert!(bus.shutdown().threads_ended);
    });
}
