//! Contains a model for each combination of a reader's operation and an operation on its mailbox.
//!
//! One thread reads or drops its watcher. Another thread publishes or stops the watcher. The
//! dispatcher is the third thread. The set-up is not explored, and the dispatcher is asleep when
//! the two threads begin.

use eventcast::testing::{Exploration, Payload, begin, block_on, finish, rest};
use eventcast::{Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::table::MEETS;
use eventcast_loom_tests::{Model, bus, explore, numbers, select, set_cell, spawn};

/// A column of the reader matrix, which is an operation on the mailbox. The queue has a capacity of
/// one. Except for `Offer`, the queue contains event 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meet {
    /// Event 1 is published, and fits in the queue.
    Offer,
    /// Event 1 is published, and it is lost if the queue is full.
    Gap,
    /// Event 1 is published. Event 0 is lost if the queue is full.
    Oldest,
    /// Event 1 is published, and the dispatcher waits until it fits.
    Room,
    /// Another thread stops the watcher.
    Stop,
}

const COLUMNS: [(Meet, &str); 5] = [
    (Meet::Offer, "offer"),
    (Meet::Gap, "gap"),
    (Meet::Oldest, "drop_oldest"),
    (Meet::Room, "wait"),
    (Meet::Stop, "stop"),
];

impl Meet {
    fn policy(self) -> OverflowPolicy {
        match self {
            Self::Offer | Self::Gap | Self::Stop => OverflowPolicy::DropIncoming,
            Self::Oldest => OverflowPolicy::DropOldest,
            Self::Room => OverflowPolicy::Wait,
        }
    }

    /// Returns the number of deliveries that a reader takes. If the watcher is stopped, the reader
    /// reads until the end.
    fn deliveries(self) -> usize {
        match self {
            Self::Offer => 1,
            Self::Gap | Self::Oldest | Self::Room => 2,
            Self::Stop => usize::MAX,
        }
    }

    /// Returns whether the given events and the given number of lost events are a valid result for
    /// a reader that has reached the end.
    fn allows(self, events: &[u32], lost: u64) -> bool {
        match self {
            Self::Offer => (events, lost) == (&[1], 0),
            Self::Gap => matches!((events, lost), ([0, 1], 0) | ([0], 1)),
            Self::Oldest => matches!((events, lost), ([0, 1], 0) | ([1], 1)),
            Self::Room => (events, lost) == (&[0, 1], 0),
            Self::Stop => (events, lost) == (&[0], 0),
        }
    }
}

/// The events and losses that a reader has received.
#[derive(Debug, Default)]
struct Found {
    events: Vec<u32>,
    lost: u64,
}

impl Found {
    fn add(&mut self, delivery: Delivery<Payload>) {
        match delivery {
            Delivery::Event(event) => self.events.push(event.number()),
            Delivery::Lagged(count) => self.lost += count,
        }
    }

    fn len(&self) -> usize {
        self.events.len() + usize::try_from(self.lost).unwrap()
    }
}

/// A row of the reader matrix, which is the reader's operation. The function returns the watcher
/// unless the function has dropped the watcher.
type Read = fn(Watcher<Payload>, Meet) -> (Found, Option<Watcher<Payload>>);

fn against(meet: Meet, read: Read) {
    let bus = bus(1, 1, meet.policy());
    let watcher = bus.watch().unwrap();
    rest(&bus);
    let (publisher, stop) = (bus.publisher(), watcher.handle());
    if meet != Meet::Offer {
        publisher.try_publish(Payload::new(0)).unwrap();
        rest(&bus);
    }
    begin();
    let reading = spawn(move || read(watcher, meet));
    let other = spawn(move || match meet {
        Meet::Stop => stop.stop(),
        _ => publisher.try_publish(Payload::new(1)).unwrap(),
    });
    other.join().unwrap();
    let (mut found, watcher) = reading.join().unwrap();
    finish();
    let Some(mut watcher) = watcher else {
        assert!(bus.shutdown().complete);
        // Every event that was offered to the watcher is counted as delivered or lost.
        let departed = bus.stats().departed;
        assert_eq!(departed.queued, 0);
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total(), "{departed:?}");
        return;
    };
    bus.close();
    let (events, lost) = numbers(&mut watcher);
    found.events.extend(events);
    found.lost += lost;
    assert!(meet.allows(&found.events, found.lost), "{meet:?}: {found:?}");
    let stats = watcher.stats();
    assert_eq!(stats.delivered, found.events.len() as u64);
    assert_eq!(stats.offered, stats.delivered + stats.dropped.total(), "{stats:?}");
    assert_eq!((stats.queued, stats.dropped.total()), (0, found.lost), "{stats:?}");
}

fn recv(mut watcher: Watcher<Payload>, meet: Meet) -> (Found, Option<Watcher<Payload>>) {
    let mut found = Found::default();
    while found.len() < meet.deliveries() {
        let Ok(delivery) = watcher.recv() else { break };
        found.add(delivery);
    }
    (found, Some(watcher))
}

fn recv_async(mut watcher: Watcher<Payload>, meet: Meet) -> (Found, Option<Watcher<Payload>>) {
    let mut found = Found::default();
    while found.len() < meet.deliveries() {
        let Ok(delivery) = block_on(watcher.recv_async()) else { break };
        found.add(delivery);
    }
    (found, Some(watcher))
}

fn recv_batch(mut watcher: Watcher<Payload>, meet: Meet) -> (Found, Option<Watcher<Payload>>) {
    let mut found = Found::default();
    while found.len() < meet.deliveries() {
        let Ok(batch) = watcher.recv_batch() else { break };
        found.lost += batch.lagged;
        found.events.extend(batch.iter().map(Payload::number));
    }
    (found, Some(watcher))
}

fn in_a_select(mut watcher: Watcher<Payload>, meet: Meet) -> (Found, Option<Watcher<Payload>>) {
    let mut found = Found::default();
    while found.len() < meet.deliveries() {
        let Some(delivery) = select(&mut watcher) else { break };
        found.add(delivery);
    }
    (found, Some(watcher))
}

/// Calls `try_recv` twice, without waiting.
fn try_recv(mut watcher: Watcher<Payload>, _: Meet) -> (Found, Option<Watcher<Payload>>) {
    let mut found = Found::default();
    for _ in 0..2 {
        if let Ok(delivery) = watcher.try_recv() {
            found.add(delivery);
        }
    }
    (found, Some(watcher))
}

fn drop_watcher(watcher: Watcher<Payload>, _: Meet) -> (Found, Option<Watcher<Payload>>) {
    drop(watcher);
    (Found::default(), None)
}

pub(crate) fn models() -> Vec<Model> {
    let rows: [(&str, &str, Read); 6] = [
        ("recv", "`recv`", recv),
        ("recv_async", "`recv_async`", recv_async),
        ("recv_batch", "`recv_batch`", recv_batch),
        ("select", "a `Select`", in_a_select),
        ("try_recv", "`try_recv`", try_recv),
        ("drop", "drop of a watcher", drop_watcher),
    ];
    let mut models: Vec<Model> = Vec::new();
    for (name, operation, read) in rows {
        for ((meet, column), title) in COLUMNS.into_iter().zip(MEETS) {
            let explore = move || {
                set_cell(operation, title);
                explore(Exploration::default().after_set_up(), move || against(meet, read));
            };
            models.push((format!("reader::{name}::{column}"), Box::new(explore)));
        }
    }
    models
}
