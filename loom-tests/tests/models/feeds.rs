//! Feeds, as recordings read them: what is taken is given back later, in any order, and reported by position.

use std::time::Duration;

use eventcast::testing::{Exploration, Payload, Sign, begin, rest};
use eventcast::{BulkEvents, BulkNext, BulkReader, EndStage, OverflowPolicy};
use eventcast_loom_tests::{bus, explore, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

/// Takes the next ones, and waits for them. `None`: there will be no more.
fn next(feed: &mut BulkReader<Payload>) -> Option<BulkEvents<Payload>> {
    loop {
        let stage = feed.stage();
        match feed.take() {
            BulkNext::Events(portion) => return Some(portion),
            BulkNext::Empty => feed.wait(None, true, stage, || false),
            BulkNext::End => return None,
        }
    }
}

/// A worker makes something true and rings the bell while the feed's owner looks at it and goes to sleep: one of the two
/// notices.
fn a_bell_against_a_feed_that_goes_to_sleep() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut feed = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        let (bell, done) = (feed.waker(), Arc::new(AtomicBool::new(false)));
        let worker = done.clone();
        let working = spawn(move || {
            // Relaxed: the bell's fence has to do.
            worker.store(true, Ordering::Relaxed);
            bell.wake();
        });
        // Relaxed: as above.
        while !done.load(Ordering::Relaxed) {
            let stage = feed.stage();
            feed.wait(None, true, stage, || done.load(Ordering::Relaxed));
        }
        working.join().unwrap();
    });
}

/// A close races with a feed that goes to sleep although there is something to read, because what it has in hand fills its
/// queue until the end begins, while the dispatcher waits for its room: it notices the close, and all is handled.
fn close_against_a_full_feed() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let mut feed = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let handle = feed.handle();
        let closing = spawn(move || bus.close());
        let first = next(&mut feed).unwrap();
        assert_eq!((first.position(), first.events()[0].number()), (0, 1));
        loop {
            let stage = feed.stage();
            if stage > EndStage::Running {
                break;
            }
            assert!(feed.is_full());
            feed.wait(None, false, stage, || false);
        }
        feed.give_back(1);
        assert_eq!(next(&mut feed).unwrap().position(), 1);
        feed.give_back(1);
        assert!(next(&mut feed).is_none());
        drop(feed);
        closing.join().unwrap();
        assert_eq!((handle.stats().delivered, handle.stats().queued), (2, 0));
    });
}

/// A shutdown gives up while the owner of a feed, who knows of the end already, goes to sleep with something in hand: he
/// notices, too.
fn giving_up_against_a_feed_that_goes_to_sleep() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let mut feed = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let handle = feed.handle();
        // The model's clock stands still: a timeout of zero has passed.
        let giving_up = spawn(move || bus.shutdown_timeout(Duration::ZERO));
        let first = next(&mut feed);
        loop {
            let stage = feed.stage();
            if stage == EndStage::Abandoned {
                break;
            }
            feed.wait(None, false, stage, || false);
        }
        feed.give_back(u64::from(first.is_some()));
        drop(feed);
        giving_up.join().unwrap();
        let stats = handle.stats();
        assert_eq!((stats.offered, stats.queued), (1, 0), "{stats:?}");
        assert_eq!(stats.delivered + stats.dropped.abandoned, 1, "{stats:?}");
    });
}

/// A flush races with a feed that gives back and reports what it did: when it returns, that has been done.
fn a_flush_against_a_feed() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut feed = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let stored = Arc::new(AtomicBool::new(false));
        let deed = stored.clone();
        let handling = spawn(move || {
            while let Some(portion) = next(&mut feed) {
                // Relaxed: the report has to publish it.
                deed.store(true, Ordering::Relaxed);
                feed.give_back(portion.events().len() as u64);
                feed.set_handled(None);
            }
        });
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        // Relaxed: as above.
        assert!(stored.load(Ordering::Relaxed));
        bus.close();
        handling.join().unwrap();
    });
}

/// A feed goes, with something in hand and something queued, while the dispatcher offers to it or waits for it and a
/// shutdown gives up: every event is counted once, and nothing is left.
fn drop_of_a_feed_against_an_offer_and_giving_up() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 1, OverflowPolicy::Wait);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        let mut feed = bus.watch_builder().filter(filter).bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2), Payload::new(3)]).unwrap();
        let handle = feed.handle();
        let handling = spawn(move || {
            let taken = if let BulkNext::Events(portion) = feed.take() { portion.events().len() } else { 0 };
            feed.give_back(taken as u64);
            drop(feed);
            taken as u64
        });
        bus.shutdown_timeout(Duration::ZERO);
        let taken = handling.join().unwrap();
        // The shutdown did not wait, so the dispatcher may still be about to count what the feed left.
        gone.wait();
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.queued), (taken, 0), "{stats:?}");
    });
}

/// Room that is given back behind something that is kept races with a dispatcher that waits for it: the dispatcher goes
/// on, and a flush waits for what was kept.
fn room_given_back_out_of_order_against_the_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 2, OverflowPolicy::Wait);
        let mut feed = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2), Payload::new(3)]).unwrap();
        let stored = Arc::new(AtomicBool::new(false));
        let deed = stored.clone();
        let handling = spawn(move || {
            let numbers: Vec<u32> = (0..3)
                .map(|position| {
                    let portion = next(&mut feed).unwrap();
                    assert_eq!(portion.position(), position);
                    if position > 0 {
                        // The first is kept.
                        feed.give_back(1);
                        feed.set_handled(Some(0));
                    }
                    portion.events()[0].number()
                })
                .collect();
            // Relaxed: the report has to publish it.
            deed.store(true, Ordering::Relaxed);
            feed.give_back(1);
            feed.set_handled(None);
            assert!(next(&mut feed).is_none());
            numbers
        });
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        // Relaxed: as above.
        assert!(stored.load(Ordering::Relaxed));
        bus.close();
        assert_eq!(handling.join().unwrap(), [1, 2, 3]);
    });
}

models! {
    a_bell_against_a_feed_that_goes_to_sleep,
    close_against_a_full_feed,
    giving_up_against_a_feed_that_goes_to_sleep,
    a_flush_against_a_feed,
    drop_of_a_feed_against_an_offer_and_giving_up,
    room_given_back_out_of_order_against_the_dispatcher,
}
