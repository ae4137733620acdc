//! Compares the store with a plain list.

use std::time::{Duration, SystemTime};

use eventcast::MemorySink;
use eventcast::sink::{EventQuery, MemorySinkOptions, SinkBatch, SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use proptest::prelude::*;

use crate::support::event;

use super::clock;

/// A step, which is a pause or an operation on a store under one of a few names.
#[derive(Clone, Copy, Debug)]
enum Step {
    Create(u8),
    Update(u8),
    Patch(u8, i32),
    Pass(u16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u8..12).prop_map(Step::Create),
        2 => (0_u8..12).prop_map(Step::Update),
        4 => (0_u8..12, 0_i32..3).prop_map(|(name, count)| Step::Patch(name, count)),
        1 => (1_u16..50).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..200)
}

/// The store modelled as a list of each event's name, count, version and age, in the order of the
/// writes.
#[derive(Default)]
struct Plain {
    events: Vec<(String, i32, u64, u64)>,
    version: u64,
    expired: u64,
    evicted: u64,
}

const TTL: u64 = 100;
const ROOM: usize = 5;

impl Plain {
    fn put(&mut self, name: &str, count: i32, now: u64) {
        let old = self.events.iter().position(|event| event.0 == name);
        match old {
            Some(at) => drop(self.events.remove(at)),
            None if self.events.len() == ROOM => {
                self.events.remove(0);
                self.evicted += 1;
            }
            None => {}
        }
        self.version += 1;
        self.events.push((name.to_owned(), count, self.version, now));
    }

    /// Returns the operation for a step, and the kind of error that it must return, if any.
    fn apply(&mut self, step: Step, now: u64) -> (SinkOp, Option<SinkErrorKind>) {
        let (Step::Create(number) | Step::Update(number) | Step::Patch(number, _)) = step else {
            unreachable!("a pause is not an operation")
        };
        let name = format!("e-{number}");
        let mut event = event(&name, "Pod", "web-0");
        let old = self.events.iter().find(|event| event.0 == name).map(|event| event.1);
        match step {
            Step::Update(_) => {
                if old != Some(1) {
                    self.put(&name, 1, now);
                }
                (SinkOp::Update(event), None)
            }
            Step::Patch(_, count) => {
                if old.is_some_and(|old| count != 0 && count != old) {
                    self.put(&name, count, now);
                }
                event.count = count;
                (SinkOp::Patch(event), old.is_none().then_some(SinkErrorKind::NotFound))
            }
            _ => {
                if old.is_none() {
                    self.put(&name, 1, now);
                }
                (SinkOp::Create(event), old.map(|_| SinkErrorKind::AlreadyExists))
            }
        }
    }

    fn expire(&mut self, now: u64) {
        let before = self.events.len();
        self.events.retain(|event| event.3 + TTL > now);
        self.expired += (before - self.events.len()) as u64;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_what_a_list_would_be(steps in steps(), batch in 1_usize..6) {
        let clock = clock();
        let options = MemorySinkOptions::default().max_events(ROOM).ttl(Duration::from_secs(TTL));
        let store = MemorySink::with_clock(options, clock.clock()).unwrap();
        let (mut plain, mut now) = (Plain::default(), 0);
        for steps in steps.chunks(batch) {
            let (mut ops, mut expected) = (Vec::new(), Vec::new());
            for &step in steps {
                // The list's time advances only after the batch, because time does not advance
                // during a batch.
                if let Step::Pass(seconds) = step {
                    now += u64::from(seconds);
                } else {
                    let (op, answer) = plain.apply(step, clock_seconds(&clock));
                    ops.push(op);
                    expected.push(answer);
                }
            }
            let answers = SinkBatch::perform(ops, &store);
            let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(|failed| failed.error().kind())).collect();
            prop_assert_eq!(kinds, expected);
            clock.advance(Duration::from_secs(now - clock_seconds(&clock)));
            plain.expire(now);
            let events = store.events();
            let held: Vec<(String, i32, u64)> = events
                .iter()
                .map(|e| (e.metadata.name.to_string(), e.count, e.metadata.resource_version().parse().unwrap()))
                .collect();
            let wanted: Vec<_> = plain.events.iter().map(|e| (e.0.clone(), e.1, e.2)).collect();
            prop_assert_eq!(held, wanted);
            for event in &events {
                let found = store.get("default", &event.metadata.name);
                prop_assert_eq!(found.as_ref(), Some(event));
            }
            prop_assert_eq!(&store.find(&EventQuery::default()), &events);
            let stats = store.stats();
            prop_assert_eq!((stats.expired, stats.evicted), (plain.expired, plain.evicted));
            prop_assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
        }
    }
}

/// Returns the number of seconds since the clock's start.
fn clock_seconds(clock: &FakeClock) -> u64 {
    clock.clock().now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1_700_000_000
}
