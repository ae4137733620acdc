//! Random programs for a watcher that conflates events by key, checked against the documentation of
//! `WatchBuilder::conflate_by`.

use std::collections::VecDeque;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest};
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use proptest::prelude::*;

use crate::cases::check;

#[derive(Clone, Debug)]
enum Op {
    /// Publishes a batch with these keys.
    Publish(Vec<u8>),
    Gap(u8),
    /// Receives this many deliveries, if there are as many.
    Receive(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => prop::collection::vec(0..6u8, 1..8).prop_map(Op::Publish),
        1 => (1..4u8).prop_map(Op::Gap),
        4 => (1..6u8).prop_map(Op::Receive),
    ]
}

/// The watcher's behaviour according to the documentation.
#[derive(Default)]
struct Twin {
    /// The unread events, each of which is a key and its newest value.
    unread: VecDeque<(u8, u64)>,
    /// The event that the reader holds, because it has received the gap before it.
    held: Option<(u8, u64)>,
    /// The number of lost and missing events.
    lost: u64,
    conflated: u64,
    dropped: u64,
}

impl Twin {
    fn offer(&mut self, key: u8, value: u64, keys: usize, policy: OverflowPolicy) {
        if let Some(unread) = self.unread.iter_mut().find(|unread| unread.0 == key) {
            unread.1 = value;
            self.conflated += 1;
            return;
        }
        if self.unread.len() == keys {
            self.dropped += 1;
            self.lost += 1;
            if policy == DropIncoming {
                return;
            }
            self.unread.pop_front();
        }
        self.unread.push_back((key, value));
    }
}

/// On every program, the watcher delivers the events of the twin in the twin's order. Gaps never
/// hold more than what was lost or missing so far, and at the end, all gaps together hold exactly
/// that.
fn run(inline: bool, keys: usize, policy: OverflowPolicy, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let options = BusOptions::default().inline(inline).queue_capacity(keys).overflow(policy);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut watcher = bus.watch_builder().conflate_by(|(key, _): &(u8, u64)| *key).watch().unwrap();
    let publisher = bus.publisher();
    let (mut twin, mut value, mut gap, mut missed) = (Twin::default(), 0, 0, 0);
    let everything = [Op::Receive(u8::MAX)];
    for op in ops.into_iter().chain(everything) {
        bus.flush(test_support::LONG).unwrap();
        match op {
            Op::Publish(keys_of_batch) => {
                let batch: Vec<_> = keys_of_batch.into_iter().zip(value..).collect();
                value += batch.len() as u64;
                for (key, value) in &batch {
                    twin.offer(*key, *value, keys, policy);
                }
                publisher.publish_batch(batch).unwrap();
            }
            Op::Gap(events) => {
                publisher.publish_gap(events.into()).unwrap();
                (twin.lost, missed) = (twin.lost + u64::from(events), missed + u64::from(events));
            }
            Op::Receive(deliveries) => {
                for _ in 0..deliveries {
                    match watcher.try_recv() {
                        Ok(Lagged(events)) => {
                            gap += events;
                            prop_assert!(gap <= twin.lost, "{} of {}", gap, twin.lost);
                            twin.held = twin.unread.pop_front();
                        }
                        Ok(Event(event)) => {
                            let expected = twin.held.take().or_else(|| twin.unread.pop_front());
                            prop_assert_eq!(Some(event), expected);
                        }
                        Err(_) => break,
                    }
                }
            }
        }
    }
    prop_assert!(twin.unread.is_empty());
    prop_assert_eq!(gap, twin.lost);
    let stats = watcher.stats();
    prop_assert_eq!((stats.dropped.conflated, stats.missed), (twin.conflated, missed));
    prop_assert_eq!(stats.dropped.total(), twin.conflated + twin.dropped);
    prop_assert_eq!(stats.offered, stats.delivered + stats.dropped.total());
    Ok(())
}

#[test]
fn a_conflating_watcher_delivers_what_the_documentation_says() {
    let program = || {
        let policy = prop_oneof![Just(DropIncoming), Just(DropOldest)];
        (any::<bool>(), 1..7usize, policy, prop::collection::vec(op(), 1..40))
    };
    check(300, program, |(inline, keys, policy, ops)| run(inline, keys, policy, ops));
}
