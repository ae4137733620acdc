//! Watchers that keep only the newest event for each key.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{self, Event, Lagged};
use eventcast::OverflowPolicy::{self, DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::bus::{EndReason, Start};
use eventcast::error::WatchError;
use eventcast::stats::DropReason;
use eventcast::{Broadcaster, BusOptions, WatchBuilder, Watcher};
use futures::StreamExt;
use futures::executor::block_on;

use crate::support::{
    LONG, Live, Tracked, assert_balanced, available, bus_with, drain, events, lagged, on_both,
    stopping_handler,
};

/// A key and a value.
type Tick = (u64, u64);

fn by_key(bus: &Broadcaster<Tick>) -> WatchBuilder<'_, Tick> {
    bus.watch_builder().conflate_by(|(key, _): &Tick| *key)
}

/// Publishes each event on its own, and waits until all have been offered.
fn publish(bus: &Broadcaster<Tick>, events: impl IntoIterator<Item = Tick>) {
    let publisher = bus.publisher();
    events.into_iter().for_each(|event| publisher.publish(event).unwrap());
    bus.flush(LONG).unwrap();
}

#[test]
fn each_key_has_its_newest_event_in_the_order_of_the_first_unread_events() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = by_key(&bus).watch().unwrap();
        publish(&bus, [(1, 10), (2, 20), (1, 11), (3, 30), (1, 12), (3, 31)]);
        assert_eq!(watcher.len(), 3);
        assert_eq!(available(&mut watcher), [(1, 12), (2, 20), (3, 31)].map(Event));
        // The keys have no unread event any longer, so each gets a new place.
        bus.publisher().publish_batch([(3, 32), (1, 13), (3, 33)]).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [(3, 33), (1, 13)].map(Event));
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.conflated), (9, 5, 4));
        assert_eq!((stats.queued, stats.high_water, stats.dropped.total()), (0, 3, 4));
    });
}

/// A million prices of 1,000 symbols. The reader starts after all have been published, and the bus
/// does not wait.
#[test]
fn a_reader_that_sleeps_receives_the_last_price_of_each_symbol() {
    const SYMBOLS: u64 = 1_000;
    const TICKS: u64 = 1_000_000;
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(SYMBOLS as usize));
        let mut watcher = by_key(&bus).watch().unwrap();
        let publisher = bus.publisher();
        for from in (0..TICKS).step_by(500) {
            let ticks = (from..from + 500).map(|tick| (tick * 7 % SYMBOLS, tick));
            publisher.publish_batch(ticks).unwrap();
        }
        assert!(bus.shutdown().is_clean(), "a replaced event is not a loss");
        let received = drain(&mut watcher);
        assert_eq!(received.len() as u64, SYMBOLS, "a replaced event leaves no gap");
        let last: HashMap<_, _> = events(&received).into_iter().collect();
        let expected = (TICKS - SYMBOLS..TICKS).map(|tick| (tick * 7 % SYMBOLS, tick)).collect();
        assert_eq!(last, expected);
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.delivered), (TICKS, SYMBOLS));
        assert_eq!((stats.dropped.conflated, stats.high_water), (TICKS - SYMBOLS, SYMBOLS));
    });
}

/// While a reader takes events, the values of each key increase, each event is counted once, and
/// the reader sees each key's last value.
#[test]
fn a_busy_reader_sees_every_last_value_and_exact_sums() {
    on_both(|options| {
        const KEYS: u64 = 20;
        const EVENTS: u64 = 50_000;
        let bus = bus_with::<Tick>(options.incoming_capacity(64));
        let mut watcher = by_key(&bus).watch().unwrap();
        let reader = thread::spawn(move || {
            let mut last = HashMap::new();
            for delivery in &mut watcher {
                let (key, value) = delivery.event().expect("a replaced event leaves no gap");
                let before = last.insert(key, value);
                assert!(before < Some(value), "{before:?} before {value}");
            }
            (last, watcher.stats())
        });
        let publisher = bus.publisher();
        (0..EVENTS).for_each(|event| publisher.publish((event % KEYS, event)).unwrap());
        bus.shutdown();
        let (last, stats) = reader.join().unwrap();
        assert_eq!(last, (EVENTS - KEYS..EVENTS).map(|event| (event % KEYS, event)).collect());
        assert_eq!(stats.offered, EVENTS);
        assert_eq!(stats.delivered + stats.dropped.conflated, EVENTS);
    });
}

#[test]
fn at_the_limit_of_keys_the_policy_decides() {
    fn at_the_limit(options: BusOptions, policy: OverflowPolicy) -> (Vec<Delivery<Tick>>, Watcher<Tick>) {
        let bus = bus_with(options.queue_capacity(2).overflow(policy));
        let mut watcher = by_key(&bus).watch().unwrap();
        // Key 2 has an unread event, so its newer event needs no capacity.
        publish(&bus, [(1, 10), (2, 20), (2, 21), (3, 30), (2, 22)]);
        bus.shutdown();
        (drain(&mut watcher), watcher)
    }
    on_both(|options| {
        let (received, watcher) = at_the_limit(options.clone(), DropIncoming);
        assert_eq!(received, [Event((1, 10)), Event((2, 22)), Lagged(1)]);
        let dropped = watcher.stats().dropped;
        assert_eq!((dropped.incoming, dropped.conflated, dropped.total()), (1, 2, 3));

        let (received, watcher) = at_the_limit(options.clone(), DropOldest);
        assert_eq!(received, [Lagged(1), Event((2, 22)), Event((3, 30))]);
        let dropped = watcher.stats().dropped;
        assert_eq!((dropped.oldest, dropped.conflated, dropped.total()), (1, 2, 3));

        let (received, watcher) = at_the_limit(options, Evict);
        assert_eq!(received, [Event((1, 10)), Event((2, 21))]);
        assert_eq!(watcher.end_reason(), Some(EndReason::Evicted));
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.evictions, stats.dropped.total()), (3, 1, 1));
    });
}

#[test]
fn a_policy_that_waits_is_refused() {
    on_both(|options| {
        for (policy, shown) in [(Wait, "wait"), (WaitFor(Duration::from_millis(5)), "wait_for:5ms")] {
            let bus = bus_with(options.clone().overflow(policy));
            let error = by_key(&bus).watch().unwrap_err();
            assert!(matches!(error, WatchError::Invalid(_)));
            let allowed = "a policy that never waits, because the watcher conflates events";
            assert_eq!(error.to_string(), format!("overflow must be {allowed}, got {shown}"));
            assert!(by_key(&bus).overflow(DropIncoming).watch().is_ok());
        }
    });
}

#[test]
fn the_hook_receives_each_replaced_event() {
    on_both(|options| {
        let bus = bus_with(options);
        let (tx, lost) = mpsc::channel();
        let hook = move |reason, events: &[Tick]| tx.send((reason, events.to_vec())).unwrap();
        let _watcher = by_key(&bus).on_drop(hook).watch().unwrap();
        publish(&bus, [(1, 10), (1, 11), (2, 20), (1, 12)]);
        bus.shutdown();
        let replaced = [vec![(1, 10)], vec![(1, 11)]].map(|events| (DropReason::Conflated, events));
        assert_eq!(lost.iter().collect::<Vec<_>>(), replaced);
    });
}

#[test]
fn only_events_that_the_filter_keeps_have_a_key() {
    on_both(|options| {
        let bus = bus_with(options);
        let builder = bus.watch_builder().filter(|(_, value): &Tick| value % 2 == 0);
        let key = |(key, value): &Tick| {
            assert_eq!(value % 2, 0);
            *key
        };
        let mut watcher = builder.conflate_by(key).watch().unwrap();
        publish(&bus, [(1, 10), (1, 11), (2, 21)]);
        bus.publisher().publish_batch([(1, 12), (1, 13), (2, 22)]).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [(1, 12), (2, 22)].map(Event));
        assert_eq!((watcher.stats().filtered, watcher.stats().panics), (3, 0));
    });
}

#[test]
fn tasks_streams_and_batches_receive_the_newest() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut task = by_key(&bus).watch().unwrap();
        let stream = by_key(&bus).watch().unwrap();
        let mut batches = by_key(&bus).watch().unwrap();
        publish(&bus, [(1, 10), (2, 20), (1, 11)]);
        bus.shutdown();
        let expected = [(1, 11), (2, 20)].map(Event);
        block_on(async {
            for next in expected {
                assert_eq!(task.recv_async().await, Ok(next));
            }
            assert_eq!(stream.collect::<Vec<_>>().await, expected);
        });
        let batch = batches.recv_batch().unwrap();
        assert_eq!((batch.lagged, batch.to_vec()), (0, vec![(1, 11)]));
        assert_eq!(batches.recv_batch().unwrap().to_vec(), [(2, 20)]);
    });
}

/// While a handler is busy, newer events replace those in its queue. A flush waits until the newest
/// have been handled.
#[test]
fn a_slow_handler_skips_to_the_newest_and_a_flush_waits_for_it() {
    on_both(|options| {
        let bus = bus_with(options);
        let builder = bus.watch_builder().conflate_by(|event: &u64| event / 10);
        let (turnstile, handle) = stopping_handler(builder);
        let publisher = bus.publisher();
        publisher.publish(0).unwrap();
        turnstile.wait_for(Some(0));
        for event in [1, 10, 2, 11, 3] {
            publisher.publish(event).unwrap();
        }
        assert!(bus.flush(Duration::from_millis(1)).is_err());
        turnstile.let_one_pass();
        for stop in [Some(3), Some(11)] {
            turnstile.wait_for(stop);
            turnstile.let_one_pass();
        }
        bus.flush(LONG).unwrap();
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.conflated, stats.lag), (3, 3, 0));
    });
}

/// A gap that follows a flush changes neither the place of older events nor the flush's end.
#[test]
fn a_flush_waits_for_all_events_before_a_later_gap() {
    on_both(|options| {
        let bus = bus_with(options);
        let builder = bus.watch_builder().conflate_by(|event: &u64| event / 10);
        let (turnstile, _handle) = stopping_handler(builder);
        let publisher = bus.publisher();
        publisher.publish(0).unwrap();
        turnstile.wait_for(Some(0));
        publisher.publish_batch([10, 20]).unwrap();
        let mut flush = Box::pin(bus.flush_async(LONG));
        let mut poll = || flush.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(poll().is_pending());
        publisher.publish_gap(1).unwrap();
        publisher.publish(30).unwrap();
        for stop in [Some(10), Some(20)] {
            turnstile.let_one_pass();
            turnstile.wait_for(stop);
            assert!(poll().is_pending(), "{stop:?} has not been handled");
        }
        for stop in [None, Some(30)] {
            turnstile.let_one_pass();
            turnstile.wait_for(stop);
        }
        turnstile.let_one_pass();
        assert_eq!(block_on(flush), Ok(()));
    });
}

/// Events from the history take no capacity, even if they are still unread.
#[test]
fn unread_events_of_the_history_leave_the_capacity_to_later_events() {
    on_both(|options| {
        let bus = bus_with(options.history(100).queue_capacity(2));
        publish(&bus, (0..4).map(|key| (key, 0)));
        let [mut evicting, mut dropping] = [Evict, DropIncoming]
            .map(|policy| by_key(&bus).overflow(policy).start(Start::Oldest).watch().unwrap());
        publish(&bus, [(4, 0), (1, 1), (5, 0)]);
        assert_eq!((evicting.stats().evictions, evicting.stats().high_water), (0, 2));
        publish(&bus, [(6, 0)]);
        let expected = [(0, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0)];
        assert_eq!(evicting.events().collect::<Vec<_>>(), expected);
        assert_eq!(evicting.end_reason(), Some(EndReason::Evicted));
        assert_eq!(events(&available(&mut dropping)), expected);
        assert_eq!(dropping.stats().dropped.incoming, 1);
    });
}

#[test]
fn a_published_gap_is_reported_once_and_counts_no_loss() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = by_key(&bus).watch().unwrap();
        let publisher = bus.publisher();
        publish(&bus, [(1, 10), (2, 20)]);
        publisher.publish_gap(5).unwrap();
        publish(&bus, [(1, 11)]);
        publisher.publish_gap(3).unwrap();
        bus.flush(LONG).unwrap();
        let received = available(&mut watcher);
        assert_eq!(events(&received), [(1, 11), (2, 20)]);
        assert_eq!(lagged(&received), 5 + 3);
        publish(&bus, [(2, 21)]);
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Event((2, 21))]);
        let stats = watcher.stats();
        assert_eq!((stats.missed, stats.offered, stats.dropped.total()), (8, 4, 1));
    });
}

/// At any point, a new watcher that starts after the position of the first one receives the newest
/// event of each key that the first one has not received.
#[test]
fn a_watcher_continues_after_a_position_without_missing_a_last_value() {
    on_both(|options| {
        let bus = bus_with(options.history(100));
        let mut watcher = by_key(&bus).watch().unwrap();
        let ticks = [(1, 10), (2, 20), (1, 11), (3, 30), (2, 21), (1, 12), (3, 31), (4, 40)];
        publish(&bus, ticks);
        let newest: HashMap<u64, u64> = ticks.into_iter().collect();
        let mut seen = HashMap::new();
        loop {
            let position = watcher.position().unwrap();
            let mut next = by_key(&bus).start(Start::After(position)).watch().unwrap();
            bus.flush(LONG).unwrap();
            let mut both = seen.clone();
            both.extend(events(&available(&mut next)));
            assert_eq!(both, newest, "after position {position}");
            match watcher.try_recv() {
                Ok(Event((key, value))) => _ = seen.insert(key, value),
                Ok(Lagged(_)) => {}
                Err(_) => break,
            }
        }
        assert_eq!(watcher.position(), Some(8), "everything has been received or replaced");
    });
}

/// Like other watchers, one that starts in the past receives the whole history.
#[test]
fn events_of_the_history_do_not_count_towards_the_limit_of_keys() {
    on_both(|options| {
        let bus = bus_with(options.history(100).queue_capacity(2));
        publish(&bus, [(1, 10), (2, 20), (3, 30), (1, 11), (4, 40)]);
        let mut all = by_key(&bus).overflow(Evict).start(Start::Oldest).watch().unwrap();
        let mut newest = by_key(&bus).overflow(DropOldest).start(Start::Oldest).watch().unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(available(&mut all), [(1, 11), (2, 20), (3, 30), (4, 40)].map(Event));
        assert_eq!(available(&mut newest), [Lagged(3), Event((1, 11)), Event((4, 40))]);
        assert_balanced(&bus.stats());
    });
}

/// A key whose `Hash` panics if it is 13.
#[derive(PartialEq, Eq)]
struct Unlucky(u64);

impl Hash for Unlucky {
    fn hash<H: Hasher>(&self, state: &mut H) {
        assert_ne!(self.0, 13, "the key is 13");
        self.0.hash(state);
    }
}

/// An event whose `Clone` panics if its key is 13.
#[derive(Debug, PartialEq)]
struct Unclonable(u64);

impl Clone for Unclonable {
    fn clone(&self) -> Self {
        assert_ne!(self.0, 13, "the event is 13");
        Self(self.0)
    }
}

#[test]
fn a_panic_in_user_code_ends_only_its_watcher() {
    on_both(|options| {
        let bus = bus_with::<Unclonable>(options);
        let key = |event: &Unclonable| {
            assert_ne!(event.0, 13, "the event is 13");
            event.0
        };
        let mut watchers = [
            bus.watch_builder().conflate_by(key).watch().unwrap(),
            bus.watch_builder().conflate_by(|event: &Unclonable| Unlucky(event.0)).watch().unwrap(),
            bus.watch_builder().conflate_by(|event: &Unclonable| event.0).watch().unwrap(),
        ];
        let other = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch([1, 2].map(Unclonable)).unwrap();
        publisher.publish_batch([3, 13, 4].map(Unclonable)).unwrap();
        publisher.publish(Unclonable(5)).unwrap();
        bus.flush(LONG).unwrap();
        for watcher in &mut watchers {
            let received: Vec<_> = watcher.events().map(|event| event.0).collect();
            assert_eq!(received, [1, 2, 3]);
            assert_eq!(watcher.end_reason(), Some(EndReason::Stopped));
            assert_eq!((watcher.stats().panics, watcher.stats().offered), (1, 3));
        }
        assert_eq!(other.stats().queued, 6);
        bus.shutdown();
        assert_balanced(&bus.stats());
    });
}

/// Keys and events are dropped in every order, and a panic in a key's `Drop` is caught.
#[test]
fn a_panic_in_the_drop_of_a_key_is_caught() {
    static ARMED: AtomicBool = AtomicBool::new(false);
    #[derive(Hash, PartialEq, Eq)]
    struct Bomb(u64);
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!ARMED.load(Ordering::SeqCst), "the key goes off");
        }
    }
    on_both(|options| {
        ARMED.store(false, Ordering::SeqCst);
        let bus = bus_with::<Tick>(options);
        let watcher = bus.watch_builder().conflate_by(|(key, _): &Tick| Bomb(*key)).watch().unwrap();
        let other = bus.watch().unwrap();
        publish(&bus, (0..10).map(|key| (key, 0)));
        ARMED.store(true, Ordering::SeqCst);
        drop(watcher);
        publish(&bus, [(1, 1)]);
        assert_eq!(other.stats().queued, 11);
        assert!(bus.shutdown().complete);
        ARMED.store(false, Ordering::SeqCst);
    });
}

/// The queue owns one event for each key, and drops each replaced event immediately.
#[test]
fn an_unread_watcher_holds_one_event_for_each_key() {
    on_both(|options| {
        let live = Live::default();
        let bus = bus_with::<Tracked>(options.max_batch(4));
        let watcher = bus.watch_builder().conflate_by(|event: &Tracked| event.number % 3).watch().unwrap();
        for _ in 0..100 {
            bus.publisher().publish_batch(live.batch(50)).unwrap();
        }
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.len(), 3);
        // The dispatcher may still hold its last batch.
        live.assert_at_most(3 + 4);
        drop(watcher);
        bus.shutdown();
        assert_eq!(live.count(), 0);
    });
}

/// Keys without an unread event are removed, even if each event has a new key.
#[test]
fn keys_are_bounded_if_each_event_has_a_new_key() {
    #[derive(PartialEq, Eq, Hash)]
    struct Key(u64, Arc<()>);
    on_both(|options| {
        let bus = bus_with::<Tick>(options);
        let keys = Arc::new(());
        let shared = keys.clone();
        let key = move |(key, _): &Tick| Key(*key, shared.clone());
        let mut watcher = bus.watch_builder().conflate_by(key).queue_capacity(100).watch().unwrap();
        for event in 0..5_000 {
            publish(&bus, [(event, 0)]);
            if event >= 50 {
                assert_eq!(watcher.recv(), Ok(Event((event - 50, 0))));
            }
        }
        let alive = Arc::strong_count(&keys) - 2;
        assert!(alive <= 2 * 100, "{alive} keys are alive");
        assert_eq!(watcher.len(), 50);
    });
}

#[test]
fn a_drop_and_a_stop_count_unread_events_as_stopped() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut read = by_key(&bus).name("read").watch().unwrap();
        let unread = by_key(&bus).name("unread").watch().unwrap();
        publish(&bus, [(1, 10), (2, 20), (1, 11), (3, 30)]);
        assert_eq!(read.recv(), Ok(Event((1, 11))));
        drop((read, unread));
        bus.shutdown();
        let stats = bus.stats();
        for (name, delivered, stopped) in [("read", 1, 2), ("unread", 0, 3)] {
            let sum = stats.departed_by_name.iter().find(|sum| sum.name == name).unwrap();
            let counts = (sum.delivered, sum.dropped.stopped, sum.dropped.conflated);
            assert_eq!(counts, (delivered, stopped, 1), "{sum}");
        }
        assert_balanced(&stats);
    });
}
