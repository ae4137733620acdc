//! The in-memory store: responses like an API server's, bounds, and the table.

use std::time::{Duration, SystemTime};

use eventcast::event::EventSeries;
use eventcast::sink::{MemorySinkOptions, SinkErrorKind};
use eventcast::stats::MemorySinkStats;
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, MemorySink, ObjectReference, Timestamp};

const HOUR: Duration = Duration::from_secs(3600);

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn now(clock: &FakeClock) -> Timestamp {
    clock.clock().now().into()
}

fn store(clock: &FakeClock) -> MemorySink {
    MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap()
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.type_ = "Normal".into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

/// Returns the event as the correlator would update it after one more occurrence.
fn again(event: &Event, at: Timestamp) -> Event {
    let mut event = event.clone();
    event.count += 1;
    event.last_timestamp = Some(at);
    event
}

fn kind(answer: Result<Event, eventcast::SinkError>) -> SinkErrorKind {
    answer.unwrap_err().kind()
}

#[test]
fn creating_sets_what_the_store_decides() {
    let clock = clock();
    let store = store(&clock);
    clock.advance(Duration::from_millis(1500));
    let mut event = event("web-0.1");
    event.metadata.set_resource_version("77");
    event.metadata.set_uid("mine");
    event.first_timestamp = Some(now(&clock));
    let stored = store.create(&event).unwrap();
    assert_eq!(stored.metadata.namespace, "default");
    assert_eq!(stored.metadata.resource_version(), "1");
    assert_eq!(stored.metadata.creation_timestamp(), Some(now(&clock).trunc_to_second()));
    assert_eq!(stored.metadata.uid().len(), 36);
    assert_ne!(stored.metadata.uid(), "mine");
    assert_eq!(stored.first_timestamp, Some(now(&clock).trunc_to_second()));

    let other = store.create(&self::event("web-0.2")).unwrap();
    assert_eq!(other.metadata.resource_version(), "2");
    assert_ne!(other.metadata.uid(), stored.metadata.uid());
    assert_eq!(store.events(), [stored, other.clone()]);
    assert_eq!(store.get("default", "web-0.2"), Some(other));
    assert_eq!(store.get("elsewhere", "web-0.2"), None);
}

#[test]
fn a_name_exists_once_in_a_namespace() {
    let store = MemorySink::new();
    store.create(&event("web-0.1")).unwrap();
    assert_eq!(kind(store.create(&event("web-0.1"))), SinkErrorKind::AlreadyExists);

    let mut elsewhere = event("web-0.1");
    elsewhere.involved_object.namespace = "blue".into();
    assert_eq!(store.create(&elsewhere).unwrap().metadata.namespace, "blue");
    assert_eq!(store.len(), 2);
}

#[test]
fn a_patch_changes_count_last_time_and_message() {
    let clock = clock();
    let store = store(&clock);
    let mut first = event("web-0.1");
    first.first_timestamp = Some(now(&clock));
    first.last_timestamp = first.first_timestamp;
    let created = store.create(&first).unwrap();
    clock.advance(Duration::from_millis(2_900));

    let mut second = again(&first, now(&clock));
    second.message = "started again".into();
    second.reason = "is not patched".into();
    second.first_timestamp = None;
    let patched = store.patch(&second).unwrap();
    let mut expected = created;
    expected.count = 2;
    expected.message = "started again".into();
    expected.last_timestamp = Some(now(&clock).trunc_to_second());
    expected.metadata.set_resource_version("2");
    assert_eq!(patched, expected);
    assert_eq!(store.events(), [expected]);
}

#[test]
fn what_a_patch_leaves_out_stays() {
    let store = MemorySink::new();
    let mut first = event("web-0.1");
    first.last_timestamp = Some("2024-01-02T03:04:05Z".parse().unwrap());
    let created = store.create(&first).unwrap();
    let mut empty = event("web-0.1");
    empty.count = 0;
    empty.message = "".into();
    empty.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(empty.to_patch_json(), "{}");
    assert_eq!(store.patch(&empty).unwrap(), created);
}

#[test]
fn a_patch_of_nothing_is_not_found_and_an_update_of_nothing_creates() {
    let store = MemorySink::new();
    let second = again(&event("web-0.1"), Timestamp::UNIX_EPOCH);
    assert_eq!(kind(store.patch(&second)), SinkErrorKind::NotFound);
    assert!(store.is_empty());
    assert_eq!(store.update(&second).unwrap().count, 2);
    assert_eq!(store.len(), 1);
}

#[test]
fn an_update_replaces_and_refuses_an_old_version() {
    let store = MemorySink::new();
    let created = store.create(&event("web-0.1")).unwrap();
    let mut changed = created.clone();
    changed.reason = "Stopped".into();
    let updated = store.update(&changed).unwrap();
    assert_eq!(updated.reason, "Stopped");
    assert_eq!(updated.metadata.resource_version(), "2");
    assert_eq!(updated.metadata.uid(), created.metadata.uid());

    let error = store.update(&changed).unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::Rejected);
    assert!(error.to_string().ends_with("has been changed since version 1"), "{error}");
    changed.metadata.set_resource_version("");
    // Without a version there is nothing to compare. This update does not change anything, so it is
    // not a write.
    assert_eq!(store.update(&changed).unwrap(), updated);
}

/// `events_v1_rules` tests the rules for events with an event time.
#[test]
fn what_an_api_server_finds_invalid_is_rejected() {
    let store = MemorySink::new();
    let rejected = |event: &Event| kind(store.create(event)) == SinkErrorKind::Rejected;
    for name in ["", "a/b", ".."] {
        assert!(rejected(&event(name)), "{name}");
    }
    let mut elsewhere = event("web-0.1");
    elsewhere.metadata.namespace = "blue".into();
    assert!(rejected(&elsewhere), "an object without a namespace belongs to default");
    elsewhere.involved_object.namespace = "red".into();
    assert!(rejected(&elsewhere));

    let mut timed = event("web-0.2");
    timed.set_event_time(Some(Timestamp::new(1, 123_456_789).unwrap()));
    timed.reporting_controller = "a b\n".into();
    let words = "rejected: events \"web-0.2\" in namespace default is invalid: with an event time the reporting \
                 controller must be a qualified name, got \"a b\\n\"";
    assert_eq!(store.create(&timed).unwrap_err().to_string(), words);
    timed.reporting_controller = "example.com/c".into();
    timed.reporting_instance = "i".into();
    timed.set_action("Starting");
    timed.message = "x".repeat(1025).into();
    // The rule applies to the whole event, regardless of the operation.
    for answer in [store.create(&timed), store.update(&timed), store.patch(&timed)] {
        assert_eq!(kind(answer), SinkErrorKind::Rejected);
    }
    timed.message = "x".repeat(1024).into();
    // An event with an event time may be about an object in another namespace.
    timed.involved_object.namespace = "blue".into();
    timed.set_series(EventSeries::new(2, Timestamp::new(2, 999_999_999).unwrap()));
    let stored = store.create(&timed).unwrap();
    assert_eq!(stored.event_time(), Timestamp::new(1, 123_456_000));
    assert_eq!(stored.series().unwrap().last_observed_time, Timestamp::new(2, 999_999_000));

    // The API server does not check any of these values.
    let mut odd = event("Bad_Name!");
    odd.type_ = "Error".into();
    odd.message = "x".repeat(5000).into();
    store.create(&odd).unwrap();
}

#[test]
fn a_generated_name_is_completed() {
    let store = MemorySink::new();
    let mut unnamed = event("");
    unnamed.metadata.set_generate_name("web-0.");
    let first = store.create(&unnamed).unwrap();
    let second = store.create(&unnamed).unwrap();
    assert!(first.metadata.name.starts_with("web-0.") && first.metadata.name.len() > "web-0.".len());
    assert_ne!(first.metadata.name, second.metadata.name);
    assert_eq!(kind(store.update(&unnamed)), SinkErrorKind::Rejected);
}

#[test]
fn a_name_that_the_store_completes_is_as_valid_as_any() {
    let store = MemorySink::new();
    let mut event = Event::default();
    event.metadata.set_generate_name("a/../b");
    assert_eq!(store.create(&event).unwrap_err().kind(), SinkErrorKind::Rejected);
    assert!(store.is_empty());
}

#[test]
fn an_event_expires_an_hour_after_its_last_write() {
    let clock = clock();
    let store = store(&clock);
    let kept = store.create(&event("kept")).unwrap();
    let idle = store.create(&event("idle")).unwrap();
    clock.advance(Duration::from_secs(3599));
    let patched = again(&kept, now(&clock));
    store.patch(&patched).unwrap();
    // This patch does not change anything, so it is not a write and does not extend the event's
    // lifetime.
    store.patch(&idle).unwrap();
    assert_eq!(store.len(), 2);

    clock.advance(Duration::from_secs(1));
    assert_eq!(store.events().iter().map(|e| e.metadata.name.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(store.get("default", "idle"), None);
    assert_eq!(kind(store.patch(&idle)), SinkErrorKind::NotFound);
    // The name is available again.
    store.create(&event("idle")).unwrap();

    clock.advance(Duration::from_secs(3599));
    assert_eq!(store.len(), 1);
    let stats = store.stats();
    assert_eq!((stats.stored, stats.created, stats.updated, stats.expired), (1, 3, 2, 2));
}

#[test]
fn a_jump_of_the_wall_clock_expires_nothing() {
    let clock = clock();
    let store = store(&clock);
    store.create(&event("web-0.1")).unwrap();
    clock.set(SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000));
    assert_eq!(store.len(), 1);
}

#[test]
fn a_full_store_evicts_the_event_written_longest_ago() {
    let store = MemorySink::with_options(MemorySinkOptions::default().max_events(2)).unwrap();
    let a = store.create(&event("a")).unwrap();
    store.create(&event("b")).unwrap();
    let a = again(&a, Timestamp::UNIX_EPOCH.saturating_add(HOUR));
    store.patch(&a).unwrap();
    store.create(&event("c")).unwrap();
    assert_eq!(store.events().iter().map(|e| e.metadata.name.as_str()).collect::<Vec<_>>(), ["a", "c"]);
    // A create operation that fails because the event exists does not evict anything.
    assert_eq!(kind(store.create(&event("c"))), SinkErrorKind::AlreadyExists);
    assert_eq!(store.len(), 2);

    let stats = store.stats();
    assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
    assert_eq!(stats.to_string(), "stored 2, created 3, updated 1, expired 0, evicted 1");
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<MemorySinkStats>(&text).unwrap(), stats);
}

#[test]
fn options_are_checked_and_read_from_text() {
    for json in [r#"{"max_events": 0}"#, r#"{"ttl": "0s"}"#, r#"{"max_events": 16777217}"#] {
        let options: MemorySinkOptions = serde_json::from_str(json).unwrap();
        let error = MemorySink::with_options(options).unwrap_err();
        assert!(json.contains(error.option()), "{error}");
    }
    let options: MemorySinkOptions = serde_json::from_str(r#"{"ttl": "90m"}"#).unwrap();
    assert_eq!(options, MemorySinkOptions::default().ttl(Duration::from_secs(5400)));
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(text, r#"{"max_events":10000,"ttl":"1h30m","events_v1_rules":false}"#);
    assert_eq!(serde_json::from_str::<MemorySinkOptions>(&text).unwrap(), options);
    for json in [r#"{"max_event": 1}"#, r#"{"ttl": "soon"}"#, r#"{"ttl": -1}"#] {
        assert!(serde_json::from_str::<MemorySinkOptions>(json).is_err(), "{json}");
    }
}

#[test]
fn clones_are_one_store_for_many_threads() {
    let store = MemorySink::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sink = store.clone();
            scope.spawn(move || {
                for i in 0..100 {
                    sink.create(&event(&format!("{thread}-{i}"))).unwrap();
                    sink.create(&event(&format!("shared-{i}"))).ok();
                }
            });
        }
    });
    assert_eq!(store.len(), 500);
    let mut versions: Vec<u64> =
        store.events().iter().map(|e| e.metadata.resource_version().parse().unwrap()).collect();
    assert!(versions.is_sorted());
    versions.dedup();
    assert_eq!(versions.len(), 500);
}

#[test]
fn hostile_text_is_stored_as_it_is_and_escaped_in_errors() {
    let payload = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2028}next\nLAST SEEN";
    let store = MemorySink::new();
    let mut hostile = event("web-0.1");
    hostile.message = payload.into();
    store.create(&hostile).unwrap();
    assert_eq!(store.events()[0].message, payload);
    assert!(Event::from_json(&store.events()[0].to_json()).unwrap().message == payload);

    let error = store.create(&event("web\u{1b}[2J/0")).unwrap_err().to_string();
    assert!(!error.contains('\u{1b}') && error.contains(r"\u{1b}"), "{error}");
}
