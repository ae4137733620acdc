//! Queries to the store in memory, `describe`, and a comparison of the store with a plain list of
//! events.

use std::time::{Duration, SystemTime};

use eventcast::event::{EventPatch, EventSeries};
use eventcast::sink::{EventQuery, EventTable, MemorySinkOptions, SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{
    Event, EventSink, EventSource, EventType, MemorySink, ObjectReference, SinkError, Timestamp,
};
use proptest::prelude::*;

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn now(clock: &FakeClock) -> Timestamp {
    clock.clock().now().into()
}

fn store(clock: &FakeClock) -> MemorySink {
    MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap()
}

fn event(name: &str, kind: &'static str, object: &'static str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new(kind, object);
    event.type_ = "Normal".into();
    event.reason = "Started".into();
    event.count = 1;
    event
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}

#[test]
fn each_condition_narrows_a_query_down() {
    let store = MemorySink::new();
    let mut warning = event("a", "Pod", "web-0");
    warning.type_ = "Warning".into();
    warning.reason = "BackOff".into();
    warning.involved_object.uid = "1".into();
    let mut blue = event("b", "Pod", "web-0");
    blue.involved_object.namespace = "blue".into();
    let other = event("c", "Pod", "web-1");
    let kind = event("d", "Deployment", "web-0");
    for event in [&warning, &blue, &other, &kind] {
        store.create(event).unwrap();
    }
    let found = |query: EventQuery| {
        let found = store.find(&query);
        for event in store.events() {
            assert_eq!(query.matches(&event), found.contains(&event), "{query:?}: {event:?}");
        }
        found.iter().map(|event| event.metadata.name.to_string()).collect::<String>()
    };
    let query = EventQuery::new;
    assert_eq!(found(query()), "abcd");
    assert_eq!(found(query().namespace("default")), "acd");
    assert_eq!(found(query().namespace("blue")), "b");
    assert_eq!(found(query().namespace("blu")), "");
    assert_eq!(found(query().object(ObjectReference::new("POD", "web-0"))), "ab");
    assert_eq!(found(query().object(ObjectReference::new("pod", "web-0").in_namespace("default"))), "a");
    assert_eq!(found(query().object(ObjectReference::new("pod", ""))), "abc");
    assert_eq!(found(query().object(ObjectReference::new("", "web-0"))), "abd");
    // kubectl does not compare these fields.
    let mut reference = ObjectReference::new("Pod", "web-0");
    reference.api_version = "v2".into();
    reference.resource_version = "77".into();
    reference.field_path = "spec".into();
    assert_eq!(found(query().object(&reference)), "ab");
    reference.uid = "1".into();
    assert_eq!(found(query().object(reference)), "a");
    assert_eq!(found(query().type_(EventType::Warning)), "a");
    assert_eq!(found(query().type_("warning")), "");
    assert_eq!(found(query().reason("Started")), "bcd");
    assert_eq!(found(query().reason("Started").namespace("default")), "cd");
    assert_eq!(found(query().reason("Started").reason("").type_("Warning").type_("")), "abcd");
}

#[test]
fn since_is_about_the_last_time_that_an_event_was_seen() {
    let at = |seconds| Timestamp::new(seconds, 0).unwrap();
    let since = |event: &Event, seconds| EventQuery::new().since(at(seconds)).matches(event);
    let mut event = event("a", "Pod", "web-0");
    assert!(!since(&event, 0), "it does not say when");
    event.set_event_time(at(10));
    assert!(since(&event, 10) && !since(&event, 11));
    event.first_timestamp = Some(at(20));
    assert!(since(&event, 20) && !since(&event, 21));
    event.last_timestamp = Some(at(30));
    assert!(since(&event, 30) && !since(&event, 31));
    event.set_series(EventSeries::new(2, at(40)));
    assert!(since(&event, 40) && !since(&event, 41));
}

#[test]
fn a_limit_takes_what_was_written_last() {
    let store = MemorySink::new();
    let first = event("a", "Pod", "web-0");
    store.create(&first).unwrap();
    store.create(&event("b", "Pod", "web-1")).unwrap();
    store.create(&event("c", "Pod", "web-0")).unwrap();
    let find = |limit| store.find(&EventQuery::new().limit(limit));
    assert_eq!(names(&find(2)), ["b", "c"]);
    assert_eq!(names(&find(0)), [""; 0]);
    assert_eq!(names(&find(usize::MAX)), ["a", "b", "c"]);
    let mut again = first;
    again.count = 2;
    store.patch(&again, &EventPatch::new(&again)).unwrap();
    assert_eq!(names(&find(2)), ["c", "a"]);
    let web = EventQuery::new().object(ObjectReference::new("Pod", "web-1")).limit(1);
    assert_eq!(names(&store.find(&web)), ["b"], "the limit is of what is found");
}

#[test]
fn the_table_of_a_query_has_its_rows_only() {
    let clock = clock();
    let store = store(&clock);
    store.create(&event("a", "Pod", "web-0")).unwrap();
    store.create(&event("b", "Node", "one")).unwrap();
    assert_eq!(
        store.table_of(&EventQuery::new().object(ObjectReference::new("Node", ""))),
        "LAST SEEN   TYPE     REASON    OBJECT     MESSAGE\n<unknown>   Normal   Started   node/one   \n"
    );
}

/// kubectl's `-A` shows the namespace in the first column. In the table of one namespace this
/// column would be the same in each row.
#[test]
fn the_table_of_several_namespaces_names_them() {
    let clock = clock();
    let store = store(&clock);
    store.create(&event("a", "Pod", "web-0")).unwrap();
    let mut blue = event("b", "Pod", "web-1");
    (blue.involved_object.namespace, blue.message) = ("blue-网络".into(), "up".into());
    store.create(&blue).unwrap();
    let mut hostile = event("c", "Pod", "web-2");
    hostile.involved_object.namespace = "\u{1b}[2K".into();
    store.create(&hostile).unwrap();
    let table = "
NAMESPACE   LAST SEEN   TYPE     REASON    OBJECT      MESSAGE
default     <unknown>   Normal   Started   pod/web-0   \nblue-网络   \
<unknown>   Normal   Started   pod/web-1   up
\\u{1b}[2K   <unknown>   Normal   Started   pod/web-2   \n";
    assert_eq!(store.table(), table[1..]);
    for namespace in ["default", "blue-网络"] {
        let table = store.table_of(&EventQuery::new().namespace(namespace));
        assert!(table.starts_with("LAST SEEN   TYPE "), "{table}");
    }
    let two = store.table_of(&EventQuery::new().reason("Started").limit(2));
    assert!(two.starts_with("NAMESPACE ") && two.lines().count() == 3, "{two}");
}

/// kubectl puts the part of the object that an event is about before the message.
#[test]
fn describe_names_the_container() {
    let clock = clock();
    let store = store(&clock);
    for (name, path, message) in
        [("a", "spec.containers{web}", " Started container\n"), ("b", "spec.\n{x}", ""), ("c", "", "whole")]
    {
        let mut event = event(name, "Pod", "web-0");
        (event.involved_object.field_path, event.message) = (path.into(), message.into());
        store.create(&event).unwrap();
    }
    let section = store.describe(ObjectReference::new("Pod", "web-0"));
    let messages: Vec<&str> = section
        .lines()
        .skip(3)
        .map(|line| line.trim_start_matches("  Normal  Started  <unknown>        "))
        .collect();
    assert_eq!(messages, ["spec.containers{web}: Started container", r"spec.\n{x}: ", "whole"], "{section}");
}

#[test]
fn describe_is_kubectls() {
    let clock = clock();
    let store = store(&clock);
    let web = ObjectReference::new("Pod", "web-0");
    assert_eq!(store.describe(&web), "Events:  <none>\n");
    let start = now(&clock);
    clock.advance(Duration::from_secs(300));

    // The order is that of the last times, not that of the writes.
    let mut counted = event("counted", "Pod", "web-0");
    counted.type_ = "Warning".into();
    counted.reason = "BackOff".into();
    counted.source = EventSource::from("kubelet");
    counted.source.host = "node-7".into();
    counted.message = "  Back-off restarting\n".into();
    (counted.first_timestamp, counted.last_timestamp) = (Some(start), Some(now(&clock)));
    counted.count = 12;
    let mut once = event("once", "Pod", "web-0");
    once.message = "größe 网络".into();
    once.reason = "Zug网".into();
    once.reporting_controller = "sched".into();
    once.first_timestamp = Some(start);
    let mut series = event("series", "Pod", "web-0");
    series.source = "kubelet".into();
    series.reporting_controller = "not-shown".into();
    series.reporting_instance = "i".into();
    series.set_action("Starting");
    series.set_event_time(start);
    series.set_series(EventSeries::new(1, now(&clock)));
    let unknown = event("unknown", "Pod", "web-0");
    let elsewhere = event("elsewhere", "Pod", "web-1");
    for event in [&counted, &once, &series, &unknown, &elsewhere] {
        store.create(event).unwrap();
    }
    clock.advance(Duration::from_secs(3));
    let section = "\
Events:
  Type     Reason   Age                 From     Message
  ----     ------   ----                ----     -------
  Normal   Started  <unknown>                    \n  \
  Normal   Zug网    5m3s                sched    größe 网络
  Warning  BackOff  3s (x12 over 5m3s)  kubelet  Back-off restarting
  Normal   Started  3s (x1 over 5m3s)   kubelet  \n";
    assert_eq!(store.describe(web), section);
}

/// The calls of both stores that readings are about.
trait Store: EventSink {
    fn found(&self, query: &EventQuery) -> Vec<Event>;
    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>>;
    fn last(&self) -> u64;
}

impl Store for MemorySink {
    fn found(&self, query: &EventQuery) -> Vec<Event> {
        self.find(query)
    }

    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>> {
        Box::new(self.stream(query))
    }

    fn last(&self) -> u64 {
        self.version()
    }
}

#[cfg(feature = "sqlite-system")]
impl Store for eventcast::SqliteSink {
    fn found(&self, query: &EventQuery) -> Vec<Event> {
        self.find(query).unwrap()
    }

    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>> {
        Box::new(self.stream(query).unwrap().map(Result::unwrap))
    }

    fn last(&self) -> u64 {
        self.version().unwrap()
    }
}

/// The number of stored events: more than four pages. Every tenth is a warning, every third is
/// about `web-1`.
const MANY: usize = 1_100;

fn many(number: usize) -> Event {
    let mut event = event(&format!("e-{number}"), "Pod", if number % 3 == 0 { "web-1" } else { "web-0" });
    if number % 10 == 0 {
        event.type_ = "Warning".into();
    }
    event
}

/// Runs a test with a store of each kind that holds [`MANY`] events.
fn with_each_store(test: impl Fn(&dyn Store)) {
    let events: Vec<SinkOp> = (0..MANY).map(|number| SinkOp::Create(many(number))).collect();
    let store = MemorySink::new();
    assert!(store.apply(&events).iter().all(Result::is_ok));
    test(&store);
    #[cfg(feature = "sqlite-system")]
    {
        let folder = tempfile::tempdir().unwrap();
        let store = eventcast::SqliteSink::open(folder.path().join("events.db")).unwrap();
        assert!(store.apply(&events).iter().all(Result::is_ok));
        test(&store);
    }
}

fn version(event: &Event) -> u64 {
    event.metadata.resource_version().parse().unwrap()
}

/// Writes an event of the store again, which makes it the last one.
fn rewrite(store: &dyn Store, number: usize, count: i32) {
    let mut event = many(number);
    event.count = count;
    store.patch(&event, &EventPatch::new(&event)).unwrap();
}

#[test]
fn a_reading_finds_what_a_query_finds() {
    with_each_store(|store| {
        let web = ObjectReference::new("Pod", "web-1");
        for query in [
            EventQuery::new(),
            EventQuery::new().type_("Warning"),
            EventQuery::new().object(web).namespace("default"),
            EventQuery::new().reason("Other"),
        ] {
            for after in [0, 1, 256, 1_000, 1_100, u64::MAX] {
                let query = query.clone().after(after);
                let all = store.found(&query);
                assert!(all.iter().all(|event| version(event) > after && query.matches(event)));
                assert!(store.reading(&query).eq(all.iter().cloned()), "{query:?}");
                for number in [0, 1, 256, 257, usize::MAX] {
                    let last = query.clone().limit(number);
                    assert_eq!(store.found(&last), all[all.len().saturating_sub(number)..], "{last:?}");
                    assert!(store.reading(&last).eq(store.found(&last)), "{last:?}");
                    let first = query.clone().first(number);
                    assert_eq!(store.found(&first), all[..all.len().min(number)], "{first:?}");
                    assert!(store.reading(&first).eq(store.found(&first)), "{first:?}");
                }
            }
        }
        assert_eq!(store.last(), MANY as u64);
        assert_eq!(store.found(&EventQuery::new()).len(), MANY);
    });
}

#[test]
fn pages_go_on_where_they_stopped_whatever_is_written() {
    with_each_store(|store| {
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = store.found(&EventQuery::new().after(after).first(100));
            let Some(last) = page.last() else { break };
            after = version(last);
            seen.extend(page.iter().map(|event| (event.metadata.name.to_string(), event.count)));
            match seen.len() {
                // An event that was read already, one that is still to come, and one that is new.
                100 => rewrite(store, 7, 2),
                200 => rewrite(store, 900, 3),
                300 => drop(store.create(&many(MANY)).unwrap()),
                _ => {}
            }
        }
        let name = |number: usize| format!("e-{number}");
        let mut wanted: Vec<_> = (0..MANY).filter(|number| *number != 900).map(|n| (name(n), 1)).collect();
        wanted.extend([(name(7), 2), (name(900), 3), (name(MANY), 1)]);
        assert_eq!(seen, wanted);
    });
}

#[test]
fn a_reading_misses_nothing_and_ends_while_events_are_written() {
    with_each_store(|store| {
        let written = |read: usize| (read * 7) % MANY;
        // Events that were written meanwhile come behind the others, in their new state.
        let mut seen: Vec<(usize, i32)> = Vec::new();
        for event in store.reading(&EventQuery::new()) {
            seen.push((event.metadata.name["e-".len()..].parse().unwrap(), event.count));
            // More events are written than fit into the last page.
            if seen.len() % 3 == 0 && seen.len() < 1_000 {
                rewrite(store, written(seen.len()), 2);
            }
        }
        for number in 0..MANY {
            let counts: Vec<i32> = seen.iter().filter(|seen| seen.0 == number).map(|seen| seen.1).collect();
            let is_written = (3..1_000).step_by(3).any(|read| written(read) == number);
            let allowed: &[&[i32]] = if is_written { &[&[1, 2], &[2]] } else { &[&[1]] };
            assert!(allowed.contains(&&*counts), "{number}: {counts:?}");
        }
    });
}

#[test]
fn a_reading_ends_where_more_is_written_than_it_reads() {
    let store = MemorySink::new();
    for number in 0..MANY {
        store.create(&many(number)).unwrap();
    }
    let (mut read, mut writes) = (Vec::new(), 0);
    for event in store.stream(&EventQuery::new().type_("Normal")) {
        read.push(event.metadata.name.to_string());
        assert!(read.len() < 3 * MANY, "it does not end");
        // Two writes for each event read, and always more than a page ahead.
        for _ in 0..2 {
            rewrite(&store, writes % 500, 2 + i32::try_from(writes).unwrap());
            writes += 1;
        }
    }
    // An event that does not change comes once.
    for number in (500..MANY).filter(|number| number % 10 != 0) {
        let name = format!("e-{number}");
        assert_eq!(read.iter().filter(|read| **read == name).count(), 1, "{name}");
    }
}

#[test]
fn all_events_are_found_while_all_of_them_are_written() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let store = MemorySink::new();
    for number in 0..MANY {
        store.create(&many(number)).unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut count = 2;
                while !is_over.load(Ordering::Relaxed) {
                    for number in (writer..MANY).step_by(2) {
                        rewrite(store, number, count);
                    }
                    count += 1;
                }
            });
        }
        let readings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..20 {
                let found = store.find(&EventQuery::new());
                assert!(found.is_sorted_by_key(version));
                let names: std::collections::HashSet<_> =
                    found.iter().map(|event| &event.metadata.name).collect();
                assert_eq!((found.len(), names.len()), (MANY, MANY));
                assert_eq!(store.find(&EventQuery::new().limit(700)).len(), 700);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        readings.unwrap();
    });
}

#[test]
fn a_table_in_parts_keeps_the_widths_of_its_first_part() {
    let now = Timestamp::UNIX_EPOCH;
    let (mut wide, narrow) = (event("a", "Pod", "web-0"), event("b", "Pod", "w"));
    wide.reason = "FailedScheduling".into();
    let mut table = EventTable::new(now);
    let parts = table.rows(&[narrow.clone(), wide.clone()])
        + &table.rows(&[])
        + &table.rows(std::slice::from_ref(&narrow));
    let whole = EventTable::new(now).rows(&[narrow.clone(), wide.clone(), narrow.clone()]);
    assert_eq!(parts, whole);
    // A wider cell widens its column from there on.
    let mut table = EventTable::new(now);
    let parts = [table.rows(std::slice::from_ref(&narrow)), table.rows(&[wide]), table.rows(&[narrow])];
    assert_eq!(
        parts.concat(),
        "\
LAST SEEN   TYPE     REASON    OBJECT   MESSAGE
<unknown>   Normal   Started   pod/w    \n\
<unknown>   Normal   FailedScheduling   pod/web-0   \n\
<unknown>   Normal   Started            pod/w       \n"
    );
    assert_eq!(EventTable::new(now).rows(&[]), "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n");
}

/// A step: an operation on a store, under one of few names, or a pause.
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

/// The store as a list: an event's name, count, version and age, in the order of the writes.
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
                let (op, answer) = match step {
                    Step::Pass(seconds) => {
                        // The list's time passes only after the batch, because a batch happens at
                        // one moment.
                        now += u64::from(seconds);
                        continue;
                    }
                    Step::Create(name) => {
                        let event = event(&format!("e-{name}"), "Pod", "web-0");
                        let exists = plain.events.iter().any(|e| *e.0 == *event.metadata.name);
                        if !exists {
                            plain.put(&event.metadata.name, 1, clock_seconds(&clock));
                        }
                        (SinkOp::Create(event), exists.then_some(SinkErrorKind::AlreadyExists))
                    }
                    Step::Update(name) => {
                        let event = event(&format!("e-{name}"), "Pod", "web-0");
                        if !plain.events.iter().any(|e| *e.0 == *event.metadata.name && e.1 == 1) {
                            plain.put(&event.metadata.name, 1, clock_seconds(&clock));
                        }
                        (SinkOp::Update(event), None)
                    }
                    Step::Patch(name, count) => {
                        let mut event = event(&format!("e-{name}"), "Pod", "web-0");
                        event.count = count;
                        let old = plain.events.iter().find(|e| *e.0 == *event.metadata.name).map(|e| e.1);
                        if old.is_some_and(|old| count != 0 && count != old) {
                            plain.put(&event.metadata.name, count, clock_seconds(&clock));
                        }
                        let patch = EventPatch::new(&event);
                        (SinkOp::Patch(event, patch), old.is_none().then_some(SinkErrorKind::NotFound))
                    }
                };
                ops.push(op);
                expected.push(answer);
            }
            let answers = store.apply(&ops);
            let kinds: Vec<_> = answers.iter().map(|answer| answer.as_ref().err().map(SinkError::kind)).collect();
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
            prop_assert_eq!(&store.find(&EventQuery::new()), &events);
            let stats = store.stats();
            prop_assert_eq!((stats.expired, stats.evicted), (plain.expired, plain.evicted));
            prop_assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
        }
    }
}

/// Returns the seconds since the clock's beginning.
fn clock_seconds(clock: &FakeClock) -> u64 {
    clock.clock().now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() - 1_700_000_000
}
