//! A bus with a single watcher. Events accumulate in a batch until the watcher's reader takes the
//! batch.

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, Evict, Wait, WaitFor};
use eventcast::{Broadcaster, Watcher};

use crate::support::{LONG, Live, Tracked, assert_settled, available, inline, inline_options};

/// Receives batches until none is left. Returns the numbers in each batch.
fn batches(watcher: &mut Watcher<u64>) -> Vec<Vec<u64>> {
    let mut all = Vec::new();
    while let Ok(batch) = watcher.try_recv_batch() {
        all.push(batch.to_vec());
    }
    all
}

/// A second watcher is registered and dropped, and some batches are too large to accumulate. The
/// events still keep their order and their positions.
#[test]
fn events_stay_in_order_beside_other_watchers() {
    let bus = inline::<u64>(1000);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    let mut expected = Vec::new();
    let mut next = 0;
    let mut position = 0;
    let mut publish = |events: u64, expected: &mut Vec<_>| {
        publisher.publish_batch(next..next + events).unwrap();
        expected.extend((0..events).map(|i| (Event(next + i), Some(position + i + 1))));
        (next, position) = (next + events, position + events);
    };
    for step in 0..20 {
        publish(1, &mut expected);
        publish(1 + step % 4, &mut expected);
        let second = (step % 3 == 0).then(|| bus.watch().unwrap());
        publish(1, &mut expected);
        publish(300, &mut expected);
        drop(second);
        publish(2, &mut expected);
        let mut received = Vec::new();
        // In every other step, the reader leaves some events in the queue.
        let most = if step % 2 == 0 { expected.len() - 3 } else { expected.len() };
        while received.len() < most {
            received.push((watcher.try_recv().unwrap(), watcher.position()));
        }
        assert_eq!(received, expected.drain(..most).collect::<Vec<_>>());
    }
    assert!(watcher.try_recv().is_err());
    assert_settled(&bus.stats(), next);
}

/// A gap is reported between the two events that it separates, even if each event was published on
/// its own.
#[test]
fn a_gap_stays_between_the_events() {
    let bus = inline::<u64>(10);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    for event in 1..=2 {
        publisher.publish(event).unwrap();
        publisher.publish_gap(5).unwrap();
    }
    publisher.publish(3).unwrap();
    assert_eq!(available(&mut watcher), [Event(1), Lagged(5), Event(2), Lagged(5), Event(3)]);
}

/// Events that do not fit are reported as a gap in the place where they were lost.
#[test]
fn a_full_queue_loses_between_what_it_has_and_what_follows() {
    let bus = inline::<u64>(3);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    (1..=5).for_each(|event| publisher.publish(event).unwrap());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    assert_eq!(watcher.try_recv(), Ok(Event(2)));
    publisher.publish(6).unwrap();
    assert_eq!(available(&mut watcher), [Event(3), Lagged(2), Event(6)]);
    assert_settled(&bus.stats(), 6);
}

/// No batch has more events than `max_batch`. If the bus waits for the reader, no batch has more
/// events than a quarter of the queue's capacity, so that a reader frees capacity before it has
/// read the whole queue.
#[test]
fn a_batch_has_no_more_events_than_the_options_allow() {
    for (policy, max_batch, most) in
        [(DropIncoming, 3, 3), (Evict, 256, 8), (Wait, 256, 2), (Wait, 1, 1), (WaitFor(LONG), 256, 2)]
    {
        let bus = Broadcaster::with_options(inline_options(8).max_batch(max_batch).overflow(policy)).unwrap();
        let mut watcher = bus.watch().unwrap();
        (0..8).for_each(|event| bus.publisher().publish(event).unwrap());
        let received = batches(&mut watcher);
        assert_eq!(received.concat(), (0..8).collect::<Vec<_>>());
        assert!(received.iter().all(|batch| batch.len() <= most), "{policy}: {received:?}");
        assert_eq!(received[0].len(), most, "{policy}: {received:?}");
    }
}

/// G5: a partly read batch keeps no more events alive than `max_batch`.
#[test]
fn events_that_were_read_are_not_kept_alive() {
    let (live, queue_capacity) = (Live::default(), 100);
    let bus = Broadcaster::<Tracked>::with_options(inline_options(queue_capacity).max_batch(2)).unwrap();
    let mut watcher = bus.watch().unwrap();
    let mut numbers = 0..;
    for _ in 0..3 {
        let free = queue_capacity - watcher.len();
        for number in numbers.by_ref().take(free) {
            bus.publisher().publish(live.event(number)).unwrap();
        }
        for _ in 0..queue_capacity - 1 {
            assert!(watcher.recv_ref().is_ok());
        }
        assert!(live.count() <= 4, "{} events are still alive", live.count());
    }
    drop((watcher, bus));
    assert_eq!(live.count(), 0);
}

/// Dropping a reader drops the events that the reader had taken, and the events that have
/// accumulated since.
#[test]
fn a_dropped_reader_drops_what_it_had_and_what_gathered() {
    let live = Live::default();
    let bus = inline::<Tracked>(10);
    let mut watcher = bus.watch().unwrap();
    (0..4).for_each(|number| bus.publisher().publish(live.event(number)).unwrap());
    assert!(watcher.recv_ref().is_ok());
    (4..6).for_each(|number| bus.publisher().publish(live.event(number)).unwrap());
    drop(watcher);
    assert_eq!(live.count(), 0);
    let departed = bus.stats().departed;
    assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (6, 1, 5));
}
