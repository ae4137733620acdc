//! Tests searches by object and by namespace, which go through the versions part by part. The
//! results must not depend on how the versions are divided into parts, so they must match the
//! results of the store in memory.

use std::time::Duration;

use eventcast::sink::{EventQuery, MemorySinkOptions, SinkBatch, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, MemorySink, ObjectReference};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions, SqliteSynchronous};
use tempfile::tempdir;

use super::{clock, event, open};

/// The number of versions in a part.
const PART: u64 = 4096;
/// The number of events that the stores hold, which is enough for more than two parts.
const ROOM: usize = 9_000;

/// Two stores that receive the same operations.
struct Pair {
    file: SqliteSink,
    memory: MemorySink,
    clock: FakeClock,
}

impl Pair {
    fn apply(&self, ops: impl Iterator<Item = SinkOp>) {
        for ops in ops.collect::<Vec<_>>().chunks(1000) {
            for sink in [&self.file as &dyn EventSink, &self.memory] {
                assert!(SinkBatch::perform(ops.to_vec(), sink).iter().all(Result::is_ok));
            }
        }
        self.clock.advance(Duration::from_millis(1));
    }

    fn queries(&self) -> Vec<EventQuery> {
        let pod = |name: &str| EventQuery::default().object(ObjectReference::new("pod", name));
        let mut queries = vec![
            pod("rare"),
            pod("even").namespace("five"),
            pod("").namespace("five"),
            EventQuery::default().object(ObjectReference::new("", "odd")),
            pod("none"),
            EventQuery::default().namespace("none"),
        ];
        let until = self.memory.version();
        let of_end = [until.saturating_sub(3), until.saturating_sub(1), until, u64::MAX];
        for after in [1, PART - 1, PART, PART + 1, 2 * PART - 1].into_iter().chain(of_end) {
            queries.push(pod("rare").after(after));
            queries.push(pod("even").namespace("five").after(after).first(7));
            queries.push(pod("even").after(after).last(300));
        }
        for events in [0, 1, 40, 90, 300, 100_000] {
            queries.extend([pod("rare").last(events), pod("rare").first(events)]);
        }
        queries
    }

    #[track_caller]
    fn assert_same(&self, query: &EventQuery) -> usize {
        let found = self.memory.find(query);
        assert!(self.file.find(query).unwrap() == found, "{query:?}");
        let read: Vec<Event> = self.file.stream(query).unwrap().map(Result::unwrap).collect();
        assert!(read == found, "{query:?}");
        found.len()
    }
}

/// Returns the event with this number. Every hundredth event is about `rare`, and so is every event
/// in the third part.
fn nth(number: usize) -> Event {
    let mut event = event(&format!("e-{number:x}"));
    let object = match number {
        n if n % 100 == 0 || n as u64 / PART == 2 => "rare",
        n if n % 2 == 0 => "even",
        _ => "odd",
    };
    let namespace = if number.is_multiple_of(5) { "five" } else { "other" };
    event.involved_object = ObjectReference::new("Pod", object).in_namespace(namespace);
    event
}

#[test]
fn a_search_finds_the_same_whatever_part_it_is_in() {
    let (folder, clock) = (tempdir().unwrap(), clock());
    let options = SqliteSinkOptions::default().max_events(ROOM).synchronous(SqliteSynchronous::Normal);
    let memory = MemorySinkOptions::default().max_events(ROOM);
    let memory = MemorySink::with_clock(memory, clock.clock()).unwrap();
    let pair = Pair { file: open(&folder, &clock, options), memory, clock };
    let assert_same = || {
        for query in pair.queries() {
            pair.assert_same(&query);
        }
    };
    assert_same();
    pair.apply((0..7_000).map(|number| SinkOp::Create(nth(number))));
    assert_eq!(pair.assert_same(&pair.queries()[0]), 70);
    assert_same();
    // Some events from each part move to the newest part.
    for count in 2..=40 {
        let repeat = |number: usize| {
            let mut event = nth(number * 70);
            event.count = count;
            SinkOp::Patch(event)
        };
        pair.apply((0..100).map(repeat));
    }
    // One event is written repeatedly, which results in parts without any other event.
    for round in 0..3 {
        let repeat = |number: i32| {
            let mut event = nth(5_000);
            event.count = 1_000 + 3_000 * round + number;
            SinkOp::Patch(event)
        };
        pair.apply((0..3_000).map(repeat));
        assert_same();
    }
    // The oldest events are evicted.
    pair.apply((7_000..14_000).map(|number| SinkOp::Create(nth(number))));
    assert_eq!(pair.file.len().unwrap(), ROOM);
    assert_same();
}
