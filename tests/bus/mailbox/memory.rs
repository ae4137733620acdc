//! G5: the number of live events is bounded, however many events are published.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, WaitFor};
use eventcast::bus::Start;

use crate::support::{LONG, Live, Tracked, assert_settled, bus_with, on_both, until, waits, watched};

const BATCH: u64 = 64;

/// G5: however many events are published, the formula in the documentation bounds the number of
/// live events.
#[test]
fn what_lives_is_bounded_by_the_queues() {
    on_both(|options| {
        const MAX_BATCH: u64 = 8;
        const QUEUE: u64 = 6;
        const WATCHERS: u64 = 6;
        let is_inline = options == BusOptions::default().inline(true);
        let live = Live::default();
        let bus = bus_with(
            options.incoming_capacity(4).queue_capacity(QUEUE as usize).max_batch(MAX_BATCH as usize),
        );
        let mut watchers: Vec<_> = [DropIncoming, DropOldest, WaitFor(Duration::ZERO), Evict]
            .map(|policy| bus.watch_builder().overflow(policy).watch().unwrap())
            .into();
        // The watcher with a filter gets copies of events.
        watchers.push(bus.watch_builder().filter(|event: &Tracked| event.number % 2 == 0).watch().unwrap());
        let mut wait = waits(&bus, QUEUE as usize).watch().unwrap();
        // The bound includes each queue, and two batches for each watcher. On a bus with a
        // dispatcher, the bound also includes two batches for the dispatcher, and incoming_capacity
        // × max_batch.
        let bound = (QUEUE + 2 * MAX_BATCH) * WATCHERS + if is_inline { 0 } else { (2 + 4) * MAX_BATCH };
        let (mut refusals, mut published) = (0, 0);
        while refusals < 50 {
            let result = bus.publisher().try_publish_batch(live.batch(MAX_BATCH));
            let refused = result.map_or_else(|error| error.into_inner().len() as u64, |()| 0);
            let capacity = if published == 0 { QUEUE } else { 1 };
            assert!(!is_inline || refused == MAX_BATCH - capacity, "{refused} were refused");
            (refusals, published) = (refusals + u64::from(refused > 0), published + MAX_BATCH - refused);
            live.assert_at_most(bound);
            assert!(wait.recv().is_ok());
        }
        bus.close();
        while wait.recv().is_ok() {}
        assert!(bus.shutdown().complete);
        assert_eq!(bus.stats().accepted, published);
        drop((watchers, wait));
        assert_eq!(live.count(), 0);
    });
}

/// G5: a single event in the queue does not keep alive the whole batch that it was published in,
/// even if the rest of the batch was lost after a wait.
#[test]
fn a_queue_of_a_watcher_that_times_out_keeps_no_batches_alive() {
    on_both(|options| {
        const QUEUE: usize = 16;
        let live = Live::default();
        let bus = bus_with(options.incoming_capacity(1).max_batch(BATCH as usize).queue_capacity(QUEUE));
        let mut watcher = bus.watch_builder().overflow(WaitFor(Duration::ZERO)).watch().unwrap();
        for _ in 0..=QUEUE {
            bus.publisher().publish_batch(live.batch(BATCH)).unwrap();
            bus.flush(LONG).unwrap();
            drop(watcher.recv().unwrap());
        }
        // The bound is incoming_capacity x max_batch + queue_capacity + the watcher's current batch
        // + the dispatcher's batch.
        live.assert_at_most(BATCH + QUEUE as u64 + 2 * BATCH);
    });
}

/// G5: the dispatcher holds one batch, and one entry that did not fit into that batch.
#[test]
fn the_dispatcher_holds_two_batches_at_most() {
    watched(|| {
        let live = Live::default();
        let bus = bus_with(BusOptions::default().incoming_capacity(2).max_batch(BATCH as usize));
        let (offered_tx, offered_rx) = mpsc::channel();
        // This filter accepts all events, and reports when a batch is offered.
        let filter = move |event: &Tracked| event.number > 0 || offered_tx.send(()).is_ok();
        let mut watcher = waits(&bus, 1).filter(filter).watch().unwrap();
        let publisher = bus.publisher();
        // The dispatcher holds the first batch and waits, while two more batches are published,
        // which together do not fit into a single batch.
        for count in [BATCH, BATCH - 1, BATCH] {
            publisher.publish_batch(live.batch(count)).unwrap();
        }
        // The last event of the first batch stays in the queue.
        for _ in 1..BATCH {
            drop(watcher.recv().unwrap());
        }
        offered_rx.recv().unwrap();
        offered_rx.recv().unwrap();
        // The dispatcher holds the second batch and waits, while the incoming queue is filled up
        // again.
        while publisher.try_publish_batch(live.batch(BATCH)).is_ok() {}
        live.assert_at_most(2 * BATCH + 1 + 2 * BATCH * (1 + 1));
    });
}

/// G5: for each watcher, the events that a filter has accepted and those that the reader has not
/// finished with amount to two batches together.
#[test]
fn filtered_watchers_hold_two_batches_each_at_most() {
    watched(|| {
        const WATCHERS: u64 = 8;
        let live = Live::default();
        let bus = bus_with(BusOptions::default().incoming_capacity(1).max_batch(BATCH as usize));
        let (offered_tx, offered_rx) = mpsc::channel();
        let mut watchers: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let offered = offered_tx.clone();
                let filter = move |event: &Tracked| event.number > 0 || offered.send(()).is_err();
                waits(&bus, 1).filter(filter).watch().unwrap()
            })
            .collect();
        bus.publisher().publish_batch(live.batch(BATCH)).unwrap();
        bus.publisher().publish_batch(live.batch(BATCH)).unwrap();
        for watcher in &mut watchers {
            // Receives all of the first batch except the last event and the event that the filter
            // refused.
            (0..BATCH - 2).for_each(|_| drop(watcher.recv().unwrap()));
        }
        // The second batch has reached the last watcher, so all other watchers already have their
        // part of it.
        (0..2 * WATCHERS).for_each(|_| offered_rx.recv().unwrap());
        live.assert_at_most(BATCH + WATCHERS + 2 * BATCH * (WATCHERS + 1));
    });
}

#[test]
fn without_watchers_everything_is_accepted_and_nothing_kept() {
    on_both(|options| {
        let live = Live::default();
        let bus = bus_with::<Tracked>(options);
        let publisher = bus.publisher();
        for number in 0..100 {
            publisher.publish(live.event(number)).unwrap();
        }
        publisher.publish_batch(live.batch(900)).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!((bus.stats().accepted, live.count()), (1000, 0));
        // After the last watcher has been dropped, the bus is in the same state as before the first
        // watcher.
        let mut watcher = bus.watch().unwrap();
        publisher.publish(live.event(7)).unwrap();
        assert_eq!(watcher.recv().unwrap().event().map(|event| event.number), Some(7));
        drop(watcher);
        publisher.publish(live.event(8)).unwrap();
        assert!(bus.shutdown().complete);
        assert_settled(&bus.stats(), 1002);
        assert_eq!(live.count(), 0);
    });
}

/// G5: the history holds exactly its configured number of events, and a slow reader of the history
/// holds the rest. All of these events are freed at the end.
#[test]
fn the_history_holds_its_events_and_no_others() {
    let live = Live::default();
    let bus = bus_with(BusOptions::default().history(4).max_batch(2));
    for number in 0..20 {
        bus.publisher().publish_batch([live.event(number), live.event(number)]).unwrap();
    }
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 4);
    let slow = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 4, "the reader shares the events");
    for number in 0..2 {
        bus.publisher().publish_batch([live.event(number), live.event(number)]).unwrap();
    }
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 8);
    drop(slow);
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 4);
    assert!(bus.shutdown().complete);
    // The dispatcher drops the history after the bus has ended.
    until(|| live.count() == 0);
}
