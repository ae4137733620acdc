//! Options in TOML and JSON configuration files. Keys are named after the setters, durations are
//! strings, and omitted keys have default values. A misspelt key or an out-of-range value causes an
//! error that names the key.

use std::fmt::Debug;
use std::time::Duration;

use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait, WaitFor};
use eventcast::{Broadcaster, BusOptions, Delivery, WatchOptions};
use serde::Serialize;
use serde::de::DeserializeOwned;

const FIFTY_MS: Duration = Duration::from_millis(50);

/// Reads the options from TOML and from JSON, which must give the same result, and returns them.
fn read<O: DeserializeOwned + PartialEq + Debug>(toml: &str, json: &str) -> O {
    let options = toml::from_str::<O>(toml).unwrap();
    assert_eq!(serde_json::from_str::<O>(json).unwrap(), options);
    options
}

fn errors<O: DeserializeOwned + Debug>(toml: &str, json: &str) -> [String; 2] {
    [
        toml::from_str::<O>(toml).unwrap_err().to_string(),
        serde_json::from_str::<O>(json).unwrap_err().to_string(),
    ]
}

fn assert_round_trip<O: Serialize + DeserializeOwned + PartialEq + Debug>(options: &O) {
    assert_eq!(toml::from_str::<O>(&toml::to_string(options).unwrap()).unwrap(), *options);
    assert_eq!(serde_json::from_str::<O>(&serde_json::to_string(options).unwrap()).unwrap(), *options);
}

#[test]
fn a_bus_is_configured_by_a_file() {
    let options: BusOptions = read(
        r#"
        incoming_capacity = 1
        queue_capacity = 64
        overflow = { wait_for = "50ms" }
        max_batch = 3
        direct_delivery = false
        history = 4
        thread_name = "bus"
        "#,
        r#"{"incoming_capacity":1,"queue_capacity":64,"overflow":{"wait_for":"50ms"},"max_batch":3,"direct_delivery":false,"history":4,"thread_name":"bus"}"#,
    );
    let set = BusOptions::default()
        .incoming_capacity(1)
        .queue_capacity(64)
        .overflow(WaitFor(FIFTY_MS))
        .max_batch(3)
        .direct_delivery(false)
        .history(4)
        .thread_name("bus");
    assert_eq!(options, set);
    assert_eq!(
        read::<BusOptions>("inline = true", r#"{"inline": true}"#),
        BusOptions::default().inline(true)
    );
    let bus = Broadcaster::<u8>::with_options(options).unwrap();
    assert_eq!(bus.watch().unwrap().stats().policy, Some(WaitFor(FIFTY_MS)));
}

#[test]
fn a_watcher_is_configured_by_a_file() {
    let options: WatchOptions = read(
        "name = \"view\"\nqueue_capacity = 2\nstop_on_panic = true\n[overflow]\nwait_for = \"50ms\"",
        r#"{"name": "view", "queue_capacity": 2, "stop_on_panic": true, "overflow": {"wait_for": "50ms"}}"#,
    );
    let set = WatchOptions::default()
        .name("view")
        .queue_capacity(2)
        .overflow(WaitFor(FIFTY_MS))
        .stop_on_panic(true);
    assert_eq!(options, set);
    let bus = Broadcaster::<u8>::new().unwrap();
    let stats = bus.watch_builder().options(options).watch().unwrap().stats();
    assert_eq!((stats.name.as_str(), stats.policy), ("view", Some(WaitFor(FIFTY_MS))));
}

/// If an option is missing from a watcher's options, the previously set value or the bus's value
/// remains in effect. If an option is present, it is set.
#[test]
fn options_that_are_left_out_keep_their_values() {
    assert_eq!(read::<BusOptions>("", "{}"), BusOptions::default());
    assert_eq!(read::<WatchOptions>("", "{}"), WatchOptions::default());
    let bus =
        Broadcaster::with_options(BusOptions::default().queue_capacity(2).overflow(DropOldest)).unwrap();
    let (nothing, line) = (bus.watch_builder().options(WatchOptions::default()).watch().unwrap(), line!());
    let before = bus
        .watch_builder()
        .name("before")
        .queue_capacity(1)
        .options(WatchOptions::default().overflow(DropIncoming));
    let mut before = before.watch().unwrap();
    let after =
        bus.watch_builder().options(WatchOptions::default().name("x").overflow(Wait).queue_capacity(9));
    let after = after.name("after").overflow(DropIncoming).watch().unwrap();
    let shown = |watcher: &eventcast::Watcher<u64>| (watcher.stats().name, watcher.stats().policy.unwrap());
    assert_eq!(shown(&nothing), (format!("tests/bus/config.rs:{line}"), DropOldest));
    assert_eq!(shown(&before), ("before".to_owned(), DropIncoming));
    assert_eq!(shown(&after), ("after".to_owned(), DropIncoming));
    bus.publisher().publish_batch(0..20).unwrap();
    bus.shutdown();
    assert_eq!([&nothing, &before, &after].map(|watcher| watcher.stats().queued), [2, 1, 9]);
    assert_eq!(before.recv(), Ok(Delivery::Event(0)));
}

#[test]
fn the_defaults_of_a_bus_are_the_documented_ones() {
    let defaults = serde_json::json!({
        "incoming_capacity": 1000, "queue_capacity": 1000, "overflow": "drop_incoming", "max_batch": 256,
        "direct_delivery": true, "history": 0, "inline": false, "thread_name": "eventcast",
    });
    assert_eq!(serde_json::to_value(BusOptions::default()).unwrap(), defaults);
}

#[test]
fn options_are_written_as_they_are_read() {
    for policy in [DropIncoming, DropOldest, Wait, WaitFor(Duration::ZERO), WaitFor(Duration::MAX)] {
        assert_round_trip(&BusOptions::default().overflow(policy));
        assert_round_trip(&BusOptions::default().overflow(policy).inline(true));
        assert_round_trip(&WatchOptions::default().overflow(policy).stop_on_panic(false));
    }
    assert_round_trip(&WatchOptions::default().name("a \"b\" \u{1b}").queue_capacity(usize::MAX >> 1));
    // An unset option is not written, so the bus's value applies to the watcher.
    assert_eq!(
        toml::to_string(&WatchOptions::default().queue_capacity(64)).unwrap(),
        "queue_capacity = 64\n"
    );
    assert_eq!(serde_json::to_string(&WatchOptions::default()).unwrap(), "{}");
    for (name, policy) in [("drop_incoming", DropIncoming), ("drop_oldest", DropOldest), ("wait", Wait)] {
        let options =
            read::<WatchOptions>(&format!("overflow = '{name}'"), &format!(r#"{{"overflow": "{name}"}}"#));
        assert_eq!(options, WatchOptions::default().overflow(policy));
    }
}

#[test]
fn a_key_that_does_not_exist_is_named() {
    for error in errors::<BusOptions>("incomming_len = 5", r#"{"incomming_len": 5}"#) {
        assert!(
            error.contains("unknown field `incomming_len`, expected one of `incoming_capacity`"),
            "{error}"
        );
    }
    for error in errors::<WatchOptions>("queue = 5", r#"{"queue": 5}"#) {
        assert!(error.contains("unknown field `queue`, expected one of `name`, `queue_capacity`"), "{error}");
    }
    for error in errors::<WatchOptions>("overflow = { wait = '5s' }", r#"{"overflow": {"waitfor": "5s"}}"#) {
        assert!(error.contains("wait"), "{error}");
    }
}

#[test]
fn a_value_of_the_wrong_kind_is_an_error() {
    for error in
        errors::<BusOptions>("overflow = { wait_for = 'soon' }", r#"{"overflow": {"wait_for": "soon"}}"#)
    {
        assert!(
            error.contains("invalid duration `soon`: expected numbers with the units h, m, s, ms, us or ns, such as 250ms or 1m30s"),
            "{error}"
        );
    }
    for error in errors::<WatchOptions>("queue_capacity = -1", r#"{"queue_capacity": -1}"#) {
        assert!(error.contains("-1"), "{error}");
    }
    for text in ["[]", "[5]", "null", "5", r#""x""#] {
        let (bus, watch) =
            (serde_json::from_str::<BusOptions>(text), serde_json::from_str::<WatchOptions>(text));
        let errors = [bus.unwrap_err().to_string(), watch.unwrap_err().to_string()];
        assert!(errors.iter().all(|error| error.contains("as an object")), "{text}: {errors:?}");
    }
}

/// `toml` passes a list to the visitor even if an object is expected. `[64, 16]` must not be read
/// as `incoming_capacity` and `queue_capacity`.
#[test]
fn a_list_in_a_file_is_no_object() {
    #[derive(Debug, serde::Deserialize)]
    struct File {
        #[allow(dead_code, reason = "it is never read")]
        bus: BusOptions,
    }
    for text in ["bus = []", "bus = [64, 16]"] {
        let error = toml::from_str::<File>(text).unwrap_err().to_string();
        assert!(error.contains("invalid type: sequence, expected a bus's options, as an object"), "{error}");
    }
    assert!(toml::from_str::<File>("[bus]").is_ok());
}

/// If an out-of-range value is used, the error names the option, as if the value had been set in
/// code.
#[test]
fn a_zero_is_named_when_something_is_built_from_it() {
    for key in ["incoming_capacity", "queue_capacity", "max_batch"] {
        let options: BusOptions = read(&format!("{key} = 0"), &format!(r#"{{"{key}": 0}}"#));
        let error = Broadcaster::<u8>::with_options(options).unwrap_err();
        assert_eq!(error.option(), key);
        let text = error.to_string();
        assert!(text.starts_with(&format!("{key} must be 1 to ")) && text.ends_with(", got 0"), "{error}");
    }
    let bus = Broadcaster::<u8>::new().unwrap();
    let options: WatchOptions = read("queue_capacity = 0", r#"{"queue_capacity": 0}"#);
    let error = bus.watch_builder().options(options).watch().unwrap_err().to_string();
    assert_eq!(error, "queue_capacity must be 1 to 16777216 events, got 0");
    let nul: WatchOptions = serde_json::from_str(r#"{"name": "a\u0000"}"#).unwrap();
    let error = bus.watch_builder().options(nul).watch().unwrap_err().to_string();
    assert_eq!(error, r"name must be a name without NUL, got a\u{0}");
}

/// The recorder's options. Each setter has a key.
#[cfg(feature = "recorder")]
mod recorder {
    use eventcast::correlator::{Aggregation, SpamFilter};
    use eventcast::record::Jitter;
    use eventcast::sink::MemorySinkOptions;
    use eventcast::{CorrelatorOptions, RetryPolicy};

    use super::{Duration, assert_round_trip, errors, read};

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn a_retry_policy_is_configured_by_a_file() {
        let policy: RetryPolicy = read(
            "attempts = 3\ndelay = \"1m\"\nfactor = 2\njitter = \"all\"\nmax_delay = \"2m\"",
            r#"{"attempts":3,"delay":60,"factor":2,"jitter":"all","max_delay":"120s"}"#,
        );
        let set = RetryPolicy::default().attempts(3).delay(MINUTE).factor(2).jitter(Jitter::All);
        assert_eq!(policy, set.max_delay(2 * MINUTE));
        assert_round_trip(&policy);
    }

    #[test]
    fn a_correlator_is_configured_by_a_file() {
        let aggregation: Aggregation =
            read("max_events = 3\nmax_interval = \"1m\"", r#"{"max_events":3,"max_interval":60}"#);
        let set = Aggregation::default().max_events(3).max_interval(MINUTE);
        assert_eq!(aggregation, set);
        assert_round_trip(&aggregation);

        let filter: SpamFilter = read(
            "burst = 5\nqps = 0.5\nexempt_warnings = true",
            r#"{"burst":5,"qps":0.5,"exempt_warnings":true}"#,
        );
        let set = SpamFilter::default().burst(5).qps(0.5).exempt_warnings(true);
        assert_eq!(filter, set);
        assert_round_trip(&filter);

        let options = toml::from_str::<CorrelatorOptions>(
            "cache_size = 7\n[aggregation]\nmax_events = 3\n[spam_filter]\nburst = 5",
        );
        let options = options.unwrap();
        let set = CorrelatorOptions::default()
            .cache_size(7)
            .aggregation(Aggregation::default().max_events(3))
            .spam_filter(SpamFilter::default().burst(5));
        assert_eq!(format!("{options:?}"), format!("{set:?}"));
        for error in errors::<CorrelatorOptions>("on_skip = 1", r#"{"on_skip":1}"#) {
            assert!(error.contains("unknown field `on_skip`"), "{error}");
        }
    }

    #[test]
    fn stores_are_configured_by_a_file() {
        let options: MemorySinkOptions = read(
            "max_events = 3\nttl = \"1m\"\nevents_v1_rules = true",
            r#"{"max_events":3,"ttl":60,"events_v1_rules":true}"#,
        );
        assert_eq!(options, MemorySinkOptions::default().max_events(3).ttl(MINUTE).events_v1_rules(true));
        assert_round_trip(&options);
    }
}
