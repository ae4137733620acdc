//! Tests that the store in a file behaves like the store in memory. The same random operations and
//! queries return the same results from both stores, even after the file has been closed and
//! reopened.

use std::time::{Duration, SystemTime};

use eventcast::sink::{EventQuery, MemorySinkOptions, SinkBatch, SinkErrorKind, SinkOp, SinkOpError};
use eventcast::testing::FakeClock;
use eventcast::{Event, MemorySink, ObjectReference, SinkError, Timestamp};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions, SqliteSynchronous};
use proptest::prelude::*;

use crate::{cases, wild};

/// A step that is applied to both stores.
#[derive(Clone, Debug)]
enum Step {
    /// A batch of operations on a small set of event names.
    Apply(Vec<(Verb, u8, Version, Event)>),
    Wait(Duration),
    Reopen,
    Ask(EventQuery),
}

#[derive(Clone, Copy, Debug)]
enum Verb {
    Create,
    Update,
    Patch,
}

/// The resource version of the event to be written.
#[derive(Clone, Copy, Debug)]
enum Version {
    None,
    Current,
    Old,
}

/// The number of names to choose from. If an event's number is smaller than `NAMES`, the event
/// receives one of these names. Otherwise, the event keeps its own name, or the store generates a
/// name for the event.
const NAMES: u8 = 6;

fn step() -> impl Strategy<Value = Step> {
    let verb = prop_oneof![3 => Just(Verb::Create), 1 => Just(Verb::Update), 2 => Just(Verb::Patch)];
    let version = prop_oneof![2 => Just(Version::None), 1 => Just(Version::Current), 1 => Just(Version::Old)];
    let op = (verb, 0..NAMES + 2, version, prop_oneof![wild::event(), tame()]);
    prop_oneof![
        8 => prop::collection::vec(op, 1..6).prop_map(Step::Apply),
        2 => (0..45_u64 * 60).prop_map(|seconds| Step::Wait(Duration::from_secs(seconds))),
        1 => Just(Step::Reopen),
        3 => query().prop_map(Step::Ask),
    ]
}

/// Generates ordinary events with only a few different values.
fn tame() -> impl Strategy<Value = Event> {
    (0..3_usize, 0..3_usize, 0..3_i32, prop::option::of(0..20_000_i64)).prop_map(|(kind, text, count, at)| {
        let mut event = Event::default();
        event.involved_object = ObjectReference::new(["Pod", "pod", "Node"][kind], ["a", "b", ""][text]);
        event.reason = ["BackOff", "Started", ""][text].into();
        event.type_ = ["Normal", "Warning", "x"][kind].into();
        event.message = ["", "m", "n"][kind].into();
        event.count = count;
        event.last_timestamp = at.and_then(|at| Timestamp::new(1_700_000_000 + at, 5));
        event.metadata.set_generate_name(["", "g-", "/"][text]);
        event
    })
}

fn query() -> impl Strategy<Value = EventQuery> {
    let since = prop::option::of((0..20_000_i64, 0..1_000_000_000_u32));
    let namespace = prop::option::of(prop::sample::select(vec!["default", "elsewhere", ""]));
    let asked = (any::<[bool; 3]>(), namespace, since, prop::option::of(0..5_usize));
    (tame(), asked).prop_map(|(like, ([object, type_, reason], namespace, since, limit))| {
        let mut query = EventQuery::default();
        if object {
            query = query.object(&like.involved_object);
        }
        if type_ {
            query = query.type_(&like.type_);
        }
        if reason {
            query = query.reason(&like.reason);
        }
        if let Some(namespace) = namespace {
            query = query.namespace(namespace);
        }
        if let Some(at) = since.and_then(|(seconds, nanos)| Timestamp::new(1_700_000_000 + seconds, nanos)) {
            query = query.since(at);
        }
        limit.map_or(query.clone(), |limit| query.last(limit))
    })
}

type Shown = (SinkErrorKind, String, Option<Box<Event>>);

fn shown(error: &SinkError) -> Shown {
    (error.kind(), error.to_string(), error.stored().cloned().map(Box::new))
}

/// Returns the results of a batch, with each failure paired with its operation.
fn in_batch<A>(found: Vec<Result<A, SinkOpError>>) -> Vec<Result<A, Box<(Shown, SinkOp)>>> {
    let both = |failed: SinkOpError| Box::new((shown(failed.error()), failed.into_parts().0));
    found.into_iter().map(|answer| answer.map_err(both)).collect()
}

#[test]
fn the_two_stores_give_the_same_answers() {
    cases::check(
        60,
        || prop::collection::vec(step(), 1..25),
        |steps| {
            let folder = tempfile::tempdir().unwrap();
            let clock =
                FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_nanos(1_700_000_000_123_456_789));
            let memory = MemorySinkOptions::default().max_events(4);
            let memory = MemorySink::with_clock(memory, clock.clock()).unwrap();
            // The test does not simulate power failures, so `Normal` is sufficient.
            let options = SqliteSinkOptions::default().max_events(4).synchronous(SqliteSynchronous::Normal);
            let open =
                || SqliteSink::with_clock(folder.path().join("events.db"), options, clock.clock()).unwrap();
            let mut file = open();
            for step in steps {
                match step {
                    Step::Apply(ops) => {
                        let ops: Vec<_> = ops.into_iter().map(|op| operation(op, &memory)).collect();
                        if let [op] = &ops[..] {
                            let (in_file, in_memory) = (op.apply_to(&file), op.apply_to(&memory));
                            prop_assert_eq!(
                                in_file.map_err(|error| shown(&error)),
                                in_memory.map_err(|error| shown(&error))
                            );
                        } else {
                            let in_file = SinkBatch::perform(ops.clone(), &file);
                            let in_memory = SinkBatch::perform(ops, &memory);
                            prop_assert_eq!(in_batch(in_file), in_batch(in_memory));
                        }
                    }
                    Step::Wait(time) => clock.advance(time),
                    Step::Reopen => {
                        drop(file);
                        file = open();
                    }
                    Step::Ask(query) => {
                        prop_assert_eq!(file.find(&query).unwrap(), memory.find(&query));
                    }
                }
                prop_assert_eq!(file.events().unwrap(), memory.events());
                prop_assert_eq!(file.len().unwrap(), memory.len());
                for event in memory.events() {
                    let about = EventQuery::default().object(&event.involved_object);
                    prop_assert_eq!(file.find(&about).unwrap(), memory.find(&about));
                    let (namespace, name) = (&event.metadata.namespace, &event.metadata.name);
                    prop_assert_eq!(file.get(namespace, name).unwrap(), memory.get(namespace, name));
                }
                let (a, b) = (file.stats().unwrap(), memory.stats());
                prop_assert_eq!(
                    (a.stored, a.created, a.updated, a.expired, a.evicted),
                    (b.stored, b.created, b.updated, b.expired, b.evicted)
                );
            }
            Ok(())
        },
    );
}

fn operation((verb, name, version, mut event): (Verb, u8, Version, Event), stored: &MemorySink) -> SinkOp {
    if name < NAMES {
        event.metadata.name = format!("event-{name}").into();
        event.metadata.namespace = "".into();
    }
    let found = stored.events().into_iter().find(|found| found.metadata.name == event.metadata.name);
    match (version, found) {
        (Version::Current, Some(found)) => {
            event.metadata.set_resource_version(found.metadata.resource_version());
        }
        (Version::Old, _) => event.metadata.set_resource_version("1"),
        _ => {}
    }
    match verb {
        Verb::Create => SinkOp::Create(event),
        Verb::Update => SinkOp::Update(event),
        Verb::Patch => SinkOp::Patch(event),
    }
}
