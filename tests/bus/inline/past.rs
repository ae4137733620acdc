//! Positions, the history, and what a new watcher has when `watch` returns.

use std::sync::mpsc;
use std::thread;

use eventcast::Broadcaster;
use eventcast::Delivery::{self, Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait};
use eventcast::bus::Start;
use eventcast::error::TryRecvError;

use crate::support::{LONG, available, drain};

use super::support::{inline, options, policies};

fn with_history(events: usize) -> Broadcaster<u64> {
    Broadcaster::with_options(options(1000).history(events)).unwrap()
}

fn events(range: std::ops::RangeInclusive<u64>) -> Vec<Delivery<u64>> {
    range.map(Event).collect()
}

/// G12: the first event has the position 1, and a gap takes one position for each missing event.
/// Every watcher knows the positions.
#[test]
fn each_event_has_its_position() {
    let bus = inline(3);
    let mut watchers: Vec<_> = policies()
        .iter()
        .filter(|policy| **policy != Evict)
        .map(|policy| bus.watch_builder().overflow(*policy).watch().unwrap())
        .collect();
    assert!(watchers.iter().all(|watcher| watcher.position() == Some(0)));
    let mut position = 0;
    for _ in 0..20 {
        bus.publisher().publish(position + 1).unwrap();
        bus.publisher().publish_batch([position + 2, position + 3]).unwrap();
        bus.publisher().publish_gap(5).unwrap();
        for watcher in &mut watchers {
            for event in 1..=3 {
                assert_eq!(watcher.try_recv(), Ok(Event(position + event)));
                assert_eq!(watcher.position(), Some(position + event));
            }
            assert_eq!(watcher.try_recv(), Ok(Lagged(5)));
            assert_eq!(watcher.position(), Some(position + 8));
        }
        position += 8;
    }
}

/// Positions agree with what each watcher lost.
#[test]
fn positions_and_losses_agree() {
    let bus = inline(2);
    for policy in [DropIncoming, DropOldest] {
        let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
        let start = watcher.position().unwrap();
        (1..=10).for_each(|n| bus.publisher().publish(start + n).unwrap());
        let mut position = start;
        while let Ok(delivery) = watcher.try_recv() {
            position += if let Lagged(lost) = delivery { lost } else { 1 };
            assert_eq!(watcher.position(), Some(position));
            assert!(delivery == Event(position) || delivery.event().is_none());
        }
        assert_eq!(position, start + 10, "{policy}");
    }
}

/// A watcher that starts in the past has its events, and its position, when `watch` returns.
#[test]
fn the_past_is_receivable_when_watch_returns() {
    let bus = with_history(5);
    bus.publisher().publish_batch(1..=10).unwrap();
    let start = |start| bus.watch_builder().start(start).watch().unwrap();
    let lost = |count, range| [vec![Lagged(count)], events(range)].concat();
    for (from, wanted) in [
        (Start::Oldest, events(6..=10)),
        (Start::After(8), events(9..=10)),
        (Start::After(2), lost(3, 6..=10)),
        (Start::After(0), lost(5, 6..=10)),
        (Start::After(10), vec![]),
        (Start::After(u64::MAX), vec![]),
        (Start::Next, vec![]),
    ] {
        let mut watcher = start(from);
        assert!(watcher.position().is_some(), "{from:?}");
        assert_eq!(available(&mut watcher), wanted, "{from:?}");
        assert_eq!(watcher.position(), Some(10), "{from:?}");
    }
    let mut oldest = start(Start::Oldest);
    bus.publisher().publish(11).unwrap();
    assert_eq!(available(&mut oldest), events(6..=11));
}

/// Without a history, everything before the registration is a gap, receivable when `watch` returns.
#[test]
fn without_a_history_the_past_is_a_gap() {
    let bus = inline(8);
    bus.publisher().publish_batch(1..=5).unwrap();
    let mut watcher = bus.watch_builder().start(Start::After(2)).watch().unwrap();
    assert_eq!(watcher.try_recv(), Ok(Lagged(3)));
    bus.publisher().publish(6).unwrap();
    assert_eq!(available(&mut watcher), [Event(6)]);
}

/// A published gap has its place in the history.
#[test]
fn the_history_holds_gaps() {
    let bus = with_history(3);
    bus.publisher().publish_batch([1, 2]).unwrap();
    bus.publisher().publish_gap(4).unwrap();
    bus.publisher().publish_batch([7, 8]).unwrap();
    let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    assert_eq!(available(&mut watcher), [Event(2), Lagged(4), Event(7), Event(8)]);
}

/// Events of the past need no capacity, and reading them frees none for new ones.
#[test]
fn the_past_takes_no_capacity() {
    let bus = with_history(10);
    bus.publisher().publish_batch(1..=10).unwrap();
    let mut watcher = bus.watch_builder().queue_len(2).overflow(Wait).start(Start::Oldest).watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(11).unwrap();
    publisher.try_publish(12).unwrap();
    assert!(publisher.try_publish(13).unwrap_err().is_full());
    for event in 1..=10 {
        assert_eq!(watcher.try_recv(), Ok(Event(event)));
    }
    assert!(publisher.try_publish(13).unwrap_err().is_full());
    assert_eq!(watcher.try_recv(), Ok(Event(11)));
    publisher.try_publish(13).unwrap();
    assert_eq!(available(&mut watcher), events(12..=13));
}

/// A filter sees the past on the registering thread, before `watch` returns.
#[test]
fn a_filter_has_seen_the_past_when_watch_returns() {
    let bus = with_history(10);
    bus.publisher().publish_batch(1..=6).unwrap();
    let (ran_tx, ran) = mpsc::channel();
    let filter = move |event: &u64| {
        ran_tx.send((*event, thread::current().id())).unwrap();
        event % 2 == 0
    };
    let mut even = bus.watch_builder().filter(filter).start(Start::After(1)).watch().unwrap();
    let here = thread::current().id();
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), (2..=6).map(|event| (event, here)).collect::<Vec<_>>());
    assert_eq!((even.stats().filtered, even.stats().offered), (2, 3));
    assert_eq!(available(&mut even), [2, 4, 6].map(Event));
}

/// The prefix is received first, then the past, then new events. It takes no capacity.
#[test]
fn a_prefix_comes_before_the_past() {
    let bus = with_history(2);
    bus.publisher().publish_batch(1..=3).unwrap();
    let builder = bus.watch_builder().queue_len(1).overflow(Wait);
    let mut watcher = builder.prefix([100, 101]).start(Start::Oldest).watch().unwrap();
    bus.publisher().try_publish(4).unwrap();
    assert_eq!(available(&mut watcher), [100, 101, 2, 3, 4].map(Event));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
}

/// A client that reconnects at its last position misses nothing while another thread publishes.
#[test]
fn a_client_that_reconnects_misses_nothing() {
    const EVENTS: u64 = if cfg!(miri) { 200 } else { 2_000 };
    let bus = with_history(EVENTS as usize);
    let publisher = bus.publisher();
    let publishing = thread::spawn(move || (1..=EVENTS).for_each(|event| publisher.publish(event).unwrap()));
    let (mut position, mut clients) = (0, 0_u64);
    while position < EVENTS {
        let mut client = bus.watch_builder().start(Start::After(position)).watch().unwrap();
        for _ in 0..=clients % 5 {
            let Ok(delivery) = client.recv_timeout(LONG) else { panic!("{position} is the last") };
            position += 1;
            assert_eq!((delivery, client.position()), (Event(position), Some(position)));
            if position == EVENTS {
                break;
            }
        }
        clients += 1;
    }
    publishing.join().unwrap();
    assert!(bus.shutdown().complete);
}

/// At the end a reader of the past still gets all of it.
#[test]
fn the_past_can_be_read_after_the_end() {
    let bus = with_history(4);
    bus.publisher().publish_batch(1..=6).unwrap();
    let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!(drain(&mut watcher), events(3..=6));
}
