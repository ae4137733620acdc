//! `sink::rules`, tested through a store built on these rules.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use eventcast::event::EventSeries;
use eventcast::sink::rules::{self, Rules};
use eventcast::sink::{MemorySinkOptions, SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, MemorySink, SinkError, Text, Timestamp};

/// A store that applies the rules to a table in which nothing expires. The store's number is 1, and
/// all its events were created in 1970.
#[derive(Default)]
pub(crate) struct Shelf {
    rules: Rules,
    stock: Mutex<Stock>,
}

#[derive(Default)]
struct Stock {
    events: BTreeMap<(Text, Text), Event>,
    created: u64,
    version: u64,
}

fn key(event: &Event) -> (Text, Text) {
    (rules::namespace_of(event).into(), event.metadata.name.clone())
}

fn admitted(event: &Event) -> Event {
    let mut event = event.clone();
    rules::admit(&mut event);
    event
}

impl Shelf {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, stock: Mutex::default() }
    }
}

impl Stock {
    fn insert(&mut self, mut event: Event) -> Event {
        self.created += 1;
        event.metadata.set_uid(rules::uid(1, self.created));
        event.metadata.set_creation_timestamp(Timestamp::UNIX_EPOCH);
        self.write(event)
    }

    fn write(&mut self, mut event: Event) -> Event {
        self.version += 1;
        event.metadata.set_resource_version(self.version.to_string());
        self.events.insert(key(&event), event.clone());
        event
    }

    fn free_name(&self, event: &Event) -> Text {
        let is_taken = |name: &str| {
            Ok::<_, Infallible>(self.events.contains_key(&(event.metadata.namespace.clone(), name.into())))
        };
        let Ok(name) = rules::free_name(event.metadata.generate_name(), self.version, is_taken);
        name
    }
}

impl EventSink for Shelf {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.rules.check_new(event)?;
        let mut stock = self.stock.lock().unwrap();
        let mut event = admitted(event);
        if event.metadata.name.is_empty() {
            event.metadata.name = stock.free_name(&event);
        }
        match stock.events.get(&key(&event)) {
            Some(stored) => Err(rules::already_exists(&event).with_stored(stored.clone())),
            None => Ok(stock.insert(event)),
        }
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        rules::check_named(event)?;
        let mut stock = self.stock.lock().unwrap();
        let mut event = admitted(event);
        let stored = stock.events.get(&key(&event));
        let is_new = stored.is_none();
        let is_write = self.rules.update(stored, &mut event)?;
        match (is_new, is_write) {
            (true, _) => Ok(stock.insert(event)),
            (false, true) => Ok(stock.write(event)),
            (false, false) => Ok(event),
        }
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        rules::check_named(event)?;
        let mut stock = self.stock.lock().unwrap();
        let stored = stock.events.get(&key(event)).cloned();
        let mut stored = stored.ok_or_else(|| rules::not_found(event))?;
        let is_write = self.rules.patch(&mut stored, event)?;
        Ok(if is_write { stock.write(stored) } else { stored })
    }
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn named(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

fn changed(event: &Event, change: impl FnOnce(&mut Event)) -> Event {
    let mut event = event.clone();
    change(&mut event);
    event
}

/// Returns an event with an event time.
fn timed(name: &str) -> Event {
    changed(&named(name), |event| {
        event.count = 0;
        event.type_ = "Normal".into();
        event.set_action("Start");
        event.set_event_time(at("2024-01-02T03:04:05.1234567Z"));
        (event.reporting_controller, event.reporting_instance) = ("doc".into(), "doc-1".into());
    })
}

/// Returns operations that trigger each of a store's rules at least once.
fn operations() -> Vec<SinkOp> {
    use SinkOp::{Create, Patch, Update};
    let generated = changed(&named(""), |event| event.metadata.set_generate_name("web-"));
    let (web, probe) = (named("web-0.1"), timed("probe.1"));
    let series = |count| {
        let last = "2024-01-02T03:04:06.7891239Z".parse().unwrap();
        changed(&probe, |event| event.set_series(EventSeries::new(count, last)))
    };
    vec![
        Create(web.clone()),
        Create(changed(&web, |event| event.message = "another".into())),
        Create(changed(&web, |event| event.involved_object.namespace = "blue".into())),
        Create(named("web-00005")),
        Create(generated.clone()),
        Create(generated.clone()),
        Create(changed(&named("times"), |event| event.first_timestamp = Some(at("2024-01-02T03:04:05.9Z")))),
        Create(probe.clone()),
        Patch(series(2)),
        Patch(series(2)),
        Patch(series(1)),
        Patch(changed(&web, |event| event.count = 2)),
        Patch(changed(&web, |event| event.count = 2)),
        Patch(changed(&web, |event| (event.count, event.message) = (0, "".into()))),
        Patch(changed(&web, |event| event.last_timestamp = Some(at("2024-01-02T03:04:05.9Z")))),
        Patch(changed(&web, |event| event.last_timestamp = Some(at("1970-01-01T00:00:00.9Z")))),
        Patch(named("no-such-event")),
        Patch(generated.clone()),
        Update(generated),
        Update(changed(&web, |event| event.reason = "Stopped".into())),
        Update(changed(&web, |event| event.reason = "Stopped".into())),
        Update(changed(&web, |event| event.metadata.set_resource_version("1"))),
        Update(changed(&web, |event| event.metadata.set_uid("mine"))),
        Update(changed(&probe, |event| event.message = "another".into())),
        Update(changed(&named("new"), |event| event.metadata.set_resource_version("77"))),
        Update(changed(&timed("Not_A_Subdomain"), |event| event.count = 1)),
        Create(named("a/b")),
        Create(changed(&named("elsewhere"), |event| event.metadata.namespace = "blue".into())),
    ]
}

#[test]
fn a_store_of_the_rules_answers_like_the_one_in_memory() {
    type Shown = (SinkErrorKind, String, Option<Event>);
    let shown = |error: SinkError| -> Shown { (error.kind(), error.to_string(), error.stored().cloned()) };
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_nanos(1));
    let mut kinds = BTreeSet::new();
    for strict in [false, true] {
        let options = MemorySinkOptions::default().events_v1_rules(strict);
        let memory = MemorySink::with_clock(options, clock.clock()).unwrap();
        let shelf = Shelf::new(Rules::new().events_v1(strict));
        for op in operations() {
            let (found, expected) = (op.apply_to(&shelf).map_err(shown), op.apply_to(&memory).map_err(shown));
            assert_eq!(found, expected, "{op:?}");
            kinds.insert(found.map_or_else(|error| format!("{:?}", error.0), |_| "stored".to_owned()));
        }
        let mut stored = memory.events();
        stored.sort_by_key(key);
        assert!(shelf.stock.lock().unwrap().events.values().eq(&stored));
    }
    assert_eq!(kinds, ["AlreadyExists", "NotFound", "Rejected", "stored"].map(str::to_owned).into());
}

#[test]
fn a_refused_patch_leaves_the_stored_event_as_it_was() {
    let mut stored = timed("probe.1");
    let before = stored.clone();
    let patch = changed(&stored, |event| event.set_series(EventSeries::new(1, Timestamp::UNIX_EPOCH)));
    assert!(Rules::new().events_v1(true).patch(&mut stored, &patch).is_err());
    assert_eq!(stored, before);
    assert!(Rules::new().patch(&mut stored, &patch).unwrap());
    assert_eq!(stored.series().map(|series| series.count), Some(1));
}

#[test]
fn uids_are_in_the_form_of_a_random_uuid() {
    let numbers = [0, 1, 0xFFFF, 1 << 47, (1 << 48) - 1];
    let uids: BTreeSet<Text> = numbers.iter().flat_map(|a| numbers.map(|b| rules::uid(*a, b))).collect();
    assert_eq!(uids.len(), 25, "each UID is different");
    for uid in &uids {
        assert_eq!(uid.len(), 36, "{uid}");
        let is_hex = |c: char| matches!(c, '0'..='9' | 'a'..='f');
        for (at, c) in uid.char_indices() {
            match at {
                8 | 13 | 18 | 23 => assert_eq!(c, '-', "{uid}"),
                14 => assert_eq!(c, '4', "{uid}"),
                19 => assert_eq!(c, '8', "{uid}"),
                _ => assert!(is_hex(c), "{uid}"),
            }
        }
    }
    assert_eq!(rules::uid(u64::MAX, 1 << 48), "ffffffff-ffff-4fff-800f-1000000000000", "longer, and unique");
}

#[test]
fn a_generated_name_is_the_first_free_one_above_the_last_write() {
    let taken = ["web-00008", "web-00009"];
    let is_taken = |name: &str| Ok::<_, Infallible>(taken.contains(&name));
    assert_eq!(rules::free_name("web-", 7, is_taken).unwrap(), "web-0000a");
    assert_eq!(rules::free_name("web-", 0xF_FFFF, is_taken).unwrap(), "web-100000");
    assert_eq!(rules::free_name("web-", 7, |_| Err("unknown")), Err("unknown"));
}
