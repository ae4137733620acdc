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

/// An unread event: its key, its newest value, the position of that value, and the number of events
/// that were lost or missing before the key's first unread event.
type Unread = (u8, u64, u64, u64);

/// The watcher's behaviour according to the documentation.
#[derive(Default)]
struct Twin {
    position: u64,
    unread: VecDeque<Unread>,
    /// The event that the reader holds, because it has received the gap before it, and the number
    /// of events that the policy had evicted by then.
    held: Option<(Unread, u64)>,
    /// The positions of the lost and missing events.
    lost: Vec<u64>,
    evicted: u64,
    conflated: u64,
}

impl Twin {
    fn offer(&mut self, key: u8, value: u64, keys: usize, policy: OverflowPolicy) {
        self.position += 1;
        if let Some(unread) = self.unread.iter_mut().find(|unread| unread.0 == key) {
            (unread.1, unread.2) = (value, self.position);
            self.conflated += 1;
            return;
        }
        if self.unread.len() == keys {
            if policy == DropIncoming {
                return self.lost.push(self.position);
            }
            let (.., position, _) = self.unread.pop_front().unwrap();
            self.lost.push(position);
            self.evicted += 1;
        }
        let lost_before = self.lost.len() as u64 - self.evicted;
        self.unread.push_back((key, value, self.position, lost_before));
    }

    fn add_gap(&mut self, events: u64) {
        self.lost.extend(self.position + 1..=self.position + events);
        self.position += events;
    }

    fn take(&mut self) -> Option<(Unread, u64)> {
        self.held.take().or_else(|| Some((self.unread.pop_front()?, self.evicted)))
    }

    /// Checks that everything up to this position was received, replaced, or reported in a gap.
    fn check_position(&self, position: u64, reported: u64) -> Result<(), TestCaseError> {
        let held = self.held.iter().map(|(unread, _)| unread);
        for (.., newest, _) in self.unread.iter().chain(held) {
            prop_assert!(*newest > position, "{} is unread at {}", newest, position);
        }
        let lost = self.lost.iter().filter(|lost| **lost <= position).count() as u64;
        prop_assert!(lost <= reported, "{} of {} losses reported at {}", reported, lost, position);
        prop_assert!(position <= self.position);
        Ok(())
    }
}

/// On every program, the watcher delivers the events of the twin in the twin's order, each after
/// all the losses that precede its key's first unread event, and never reports a position that it
/// has not reached.
fn run(inline: bool, keys: usize, policy: OverflowPolicy, ops: Vec<Op>) -> Result<(), TestCaseError> {
    let options = BusOptions::default().inline(inline).queue_capacity(keys).overflow(policy);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut watcher = bus.watch_builder().conflate_by(|(key, _): &(u8, u64)| *key).watch().unwrap();
    let publisher = bus.publisher();
    let (mut twin, mut value, mut reported, mut missed) = (Twin::default(), 0, 0, 0);
    let everything = [Op::Receive(u8::MAX)];
    for op in ops.into_iter().chain(everything) {
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
                twin.add_gap(events.into());
                missed += u64::from(events);
            }
            Op::Receive(deliveries) => {
                for _ in 0..deliveries {
                    match watcher.try_recv() {
                        Ok(Lagged(events)) => {
                            reported += events;
                            twin.held = twin.take();
                        }
                        Ok(Event(event)) => {
                            let ((key, value, _, lost), evicted) = twin.take().unwrap();
                            prop_assert_eq!(event, (key, value));
                            prop_assert_eq!(reported, lost + evicted, "the gaps before {:?}", event);
                        }
                        Err(_) => break,
                    }
                    twin.check_position(watcher.position().unwrap(), reported)?;
                }
            }
        }
        bus.flush(test_support::LONG).unwrap();
    }
    prop_assert!(twin.unread.is_empty() && twin.held.is_none());
    let stats = watcher.stats();
    prop_assert_eq!((reported, stats.dropped.conflated), (twin.lost.len() as u64, twin.conflated));
    prop_assert_eq!(stats.dropped.total() + missed, twin.conflated + twin.lost.len() as u64);
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
