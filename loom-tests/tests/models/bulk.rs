//! Models of bulk readers, which recordings use. A reader's owner takes events, gives the events
//! back later in any order, and reports its progress as an offset.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::bus::{BulkEvents, BulkNext, BulkReader, EndStage, wake_reader};
use eventcast::testing::{Exploration, Payload, Sign, begin, rest};
use eventcast_loom_tests::{bus, explore, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};

/// Waits for the next events and takes them. Returns `None` once the reader has ended.
fn next(reader: &mut BulkReader<Payload>) -> Option<BulkEvents<Payload>> {
    loop {
        let stage = reader.stage();
        match reader.take() {
            BulkNext::Events(run) => return Some(run),
            BulkNext::Empty => reader.wait(None, true, stage, || false),
            BulkNext::End => return None,
        }
    }
}

/// A worker makes a condition true and calls the waker, while the reader's owner checks the
/// condition and goes to sleep. The owner either sees that the condition is true or is woken.
fn a_waker_against_a_reader_that_goes_to_sleep() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut reader = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        let (handle, done) = (reader.handle(), Arc::new(AtomicBool::new(false)));
        let worker = done.clone();
        let working = spawn(move || {
            // Relaxed: the fence in `wake_reader` has to be sufficient to publish this store.
            worker.store(true, Ordering::Relaxed);
            wake_reader(&handle);
        });
        // Relaxed: for the same reason as the store above.
        while !done.load(Ordering::Relaxed) {
            let stage = reader.stage();
            reader.wait(None, true, stage, || done.load(Ordering::Relaxed));
        }
        working.join().unwrap();
    });
}

/// The bus is closed while a reader goes to sleep although there is an event to read. Until the bus
/// is closed, the events that the reader has taken fill the reader's queue, and the dispatcher
/// waits for capacity. The reader notices that the bus is closed, and all events are handled.
fn close_against_a_full_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let mut reader = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let handle = reader.handle();
        let closing = spawn(move || bus.close());
        let first = next(&mut reader).unwrap();
        assert_eq!((first.offset(), first.events()[0].number()), (0, 1));
        loop {
            let stage = reader.stage();
            if stage > EndStage::Running {
                break;
            }
            assert!(reader.is_full());
            reader.wait(None, false, stage, || false);
        }
        reader.give_back(1);
        assert_eq!(next(&mut reader).unwrap().offset(), 1);
        reader.give_back(1);
        assert!(next(&mut reader).is_none());
        drop(reader);
        closing.join().unwrap();
        assert_eq!((handle.stats().delivered, handle.stats().queued), (2, 0));
    });
}

/// A shutdown abandons the bus while a reader's owner goes to sleep holding an event. The owner
/// notices that the bus is abandoned, even if it already knows that the bus is closing.
fn abandoning_against_a_reader_that_goes_to_sleep() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let mut reader = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let handle = reader.handle();
        // Time does not advance in the model, but a timeout of zero has already expired.
        let giving_up = spawn(move || bus.shutdown_timeout(Duration::ZERO));
        let first = next(&mut reader);
        loop {
            let stage = reader.stage();
            if stage == EndStage::Abandoned {
                break;
            }
            reader.wait(None, false, stage, || false);
        }
        reader.give_back(u64::from(first.is_some()));
        drop(reader);
        giving_up.join().unwrap();
        let stats = handle.stats();
        assert_eq!((stats.offered, stats.queued), (1, 0), "{stats:?}");
        assert_eq!(stats.delivered + stats.dropped.abandoned, 1, "{stats:?}");
    });
}

/// A flush races with a reader that gives back an event and reports the event as handled. When the
/// flush returns, the event has been handled.
fn a_flush_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut reader = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let stored = Arc::new(AtomicBool::new(false));
        let deed = stored.clone();
        let handling = spawn(move || {
            while let Some(run) = next(&mut reader) {
                // Relaxed: the report has to publish this store.
                deed.store(true, Ordering::Relaxed);
                reader.give_back(run.events().len() as u64);
                reader.set_handled(None);
            }
        });
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        // Relaxed: for the same reason as the store above.
        assert!(stored.load(Ordering::Relaxed));
        bus.close();
        handling.join().unwrap();
    });
}

/// A thread takes events from a reader and then drops the reader, possibly with events still
/// queued. The dispatcher offers events to the reader or waits for the reader, and a shutdown
/// abandons the bus. Every event is counted once, and no event is left in the queue.
fn drop_of_a_reader_against_an_offer_and_an_abandonment() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 1, OverflowPolicy::Wait);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        let mut reader = bus.watch_builder().filter(filter).bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2), Payload::new(3)]).unwrap();
        let handle = reader.handle();
        let handling = spawn(move || {
            let taken = if let BulkNext::Events(run) = reader.take() { run.events().len() } else { 0 };
            reader.give_back(taken as u64);
            drop(reader);
            taken as u64
        });
        let report = bus.shutdown_timeout(Duration::ZERO);
        let taken = handling.join().unwrap();
        // The shutdown did not wait, so the dispatcher may not have counted the reader's remaining
        // events yet.
        gone.wait();
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.queued), (taken, 0), "{stats:?}");
        assert!(!report.complete || stats.dropped.abandoned == 0, "{stats:?}");
    });
}

/// A reader keeps one event and returns the capacity of a later event while the dispatcher is
/// waiting for capacity. The dispatcher continues, and a flush waits for the event that the reader
/// has kept.
fn credit_returned_out_of_order_against_the_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 2, OverflowPolicy::Wait);
        let mut reader = bus.watch_builder().bulk().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2), Payload::new(3)]).unwrap();
        let stored = Arc::new(AtomicBool::new(false));
        let deed = stored.clone();
        let handling = spawn(move || {
            let numbers: Vec<u32> = (0..3)
                .map(|offset| {
                    let run = next(&mut reader).unwrap();
                    assert_eq!(run.offset(), offset);
                    if offset > 0 {
                        // The reader keeps the first event.
                        reader.give_back(1);
                        reader.set_handled(Some(0));
                    }
                    run.events()[0].number()
                })
                .collect();
            // Relaxed: the report has to publish this store.
            deed.store(true, Ordering::Relaxed);
            reader.give_back(1);
            reader.set_handled(None);
            assert!(next(&mut reader).is_none());
            numbers
        });
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        // Relaxed: for the same reason as the store above.
        assert!(stored.load(Ordering::Relaxed));
        bus.close();
        assert_eq!(handling.join().unwrap(), [1, 2, 3]);
    });
}

models! {
    a_waker_against_a_reader_that_goes_to_sleep,
    close_against_a_full_reader,
    abandoning_against_a_reader_that_goes_to_sleep,
    a_flush_against_a_reader,
    drop_of_a_reader_against_an_offer_and_an_abandonment,
    credit_returned_out_of_order_against_the_dispatcher,
}
