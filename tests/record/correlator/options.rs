//! Options and keys.

use std::collections::HashMap;
use std::time::Duration;

use eventcast::correlator::{Aggregation, EventCorrelator, SpamFilter};
use eventcast::sink::MemorySinkOptions;
use eventcast::{CorrelatorOptions, RetryPolicy};

use super::{Rig, Seen, budget, decision, event, folding};

#[test]
fn zero_and_nonsense_are_errors_that_name_the_option() {
    let check = |options: CorrelatorOptions, expected: &str| {
        let error = EventCorrelator::new(options).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert!(expected.starts_with(error.option()));
    };
    let options = CorrelatorOptions::default();
    check(options.clone().cache_size(0), "cache_size must be 1 to 16777216 entries, got 0");
    check(options.cache_size(1 << 25), "cache_size must be 1 to 16777216 entries, got 33554432");
    check(folding(0), "max_events must be 1 or more, got 0");
    let aggregation = Aggregation::default().max_interval(Duration::ZERO);
    check(
        CorrelatorOptions::default().aggregation(aggregation),
        "max_interval must be more than zero, got 0s",
    );
    check(budget(0), "burst must be 1 or more, got 0");
    for (qps, shown) in [(0.0, "0"), (-1.0, "-1"), (f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        check(
            CorrelatorOptions::default().spam_filter(SpamFilter::default().qps(qps)),
            &format!("qps must be finite and more than zero, got {shown}"),
        );
    }
}

#[test]
fn options_are_plain_data() {
    let defaults = CorrelatorOptions::default();
    assert_eq!(
        serde_json::to_string(&defaults).unwrap(),
        concat!(
            r#"{"cache_size":4096,"aggregation":{"max_events":10,"max_interval":"10m"},"#,
            r#""spam_filter":{"burst":25,"qps":0.0033333334,"#,
            r#""exempt_warnings":false}}"#
        )
    );
    let read = |json: &str| serde_json::from_str::<CorrelatorOptions>(json);
    let same = |a: &CorrelatorOptions, b: &CorrelatorOptions| {
        assert_eq!(format!("{a:?}"), format!("{b:?}"));
    };
    same(&read("{}").unwrap(), &defaults);
    same(&read(&serde_json::to_string(&defaults).unwrap()).unwrap(), &defaults);

    let options = budget(2).cache_size(5).aggregation(None);
    same(&read(r#"{"LRUCacheSize":5,"aggregation":null,"spam_filter":{"BurstSize":2}}"#).unwrap(), &options);
    same(&read(&serde_json::to_string(&options).unwrap()).unwrap(), &options);

    for interval in [r#""1m30s""#, r#""90s""#, "90"] {
        let json = format!(r#"{{"aggregation":{{"maxEvents":2,"maxIntervalInSeconds":{interval}}}}}"#);
        let aggregation = Aggregation::default().max_events(2).max_interval(Duration::from_secs(90));
        same(&read(&json).unwrap(), &CorrelatorOptions::default().aggregation(aggregation));
    }
    for (json, error) in [
        (r#"{"lru_cache": 1}"#, "unknown field `lru_cache`"),
        (r#"{"aggregation":{"max":1}}"#, "unknown field `max`"),
        (r#"{"spam_filter":{"rate":1}}"#, "unknown field `rate`"),
        (r#"{"aggregation":{"max_interval":"soon"}}"#, "invalid duration `soon`"),
        (r#"{"aggregation":{"max_interval":"-1s"}}"#, "invalid duration `-1s`"),
        (r#"{"aggregation":{"max_interval":-1}}"#, "a duration such as"),
        (r#"{"cache_size":-1}"#, "-1"),
    ] {
        let shown = read(json).unwrap_err().to_string();
        assert!(shown.contains(error), "{json}: {shown}");
    }
    let longest = r#"{"aggregation":{"max_interval":18446744073709551615}}"#;
    let longest = read(longest).unwrap();
    assert!(serde_json::to_string(&longest).unwrap().contains("max_interval"));
    assert!(EventCorrelator::new(longest).is_ok());
}

#[test]
fn options_are_read_from_objects_only() {
    macro_rules! refuses {
        ($($type:ty),*) => {$(
            for text in ["[]", "[5]", "null", "5", r#""x""#] {
                let error = serde_json::from_str::<$type>(text).unwrap_err().to_string();
                assert!(error.contains("as an object"), "{text}: {error}");
            }
            assert!(serde_json::from_str::<$type>("{}").is_ok());
        )*};
    }
    refuses!(RetryPolicy, CorrelatorOptions, Aggregation, SpamFilter, MemorySinkOptions);
    let error = serde_json::from_str::<CorrelatorOptions>(r#"{"aggregation": []}"#).unwrap_err().to_string();
    assert!(error.contains("as an object"), "{error}");
}

#[test]
fn budgets_and_groups_can_have_other_keys() {
    let options =
        budget(1).spam_key(|event| format_args!("{}/{}", event.involved_object.name, event.reason).into());
    let rig = Rig::new(options);
    assert_eq!(rig.seen(&event("original", "m")), Seen::Create(1));
    assert_eq!(rig.seen(&event("other", "m")), Seen::Create(1));
    assert_eq!(rig.seen(&event("other", "another")), Seen::Skip);

    let options = folding(3)
        .aggregate_key(|event| (event.reason.clone(), event.involved_object.name.clone()))
        .aggregate_message(|event| format_args!("many {}", event.reason).into());
    let rig = Rig::new(options);
    let on = |name: &str| {
        let mut event = event("r", "m");
        event.involved_object.name = name.to_owned().into();
        event
    };
    assert_eq!(rig.seen(&on("a")), Seen::Create(1));
    assert_eq!(rig.seen(&on("b")), Seen::Create(1));
    let (seen, folded) = rig.run(&on("c"));
    assert_eq!((seen, folded.unwrap().message), (Seen::Create(1), "many r".into()));
    assert_eq!(rig.seen(&on("d")), Seen::Update(2));
    assert_eq!(rig.seen(&on("a")), Seen::Update(2));
}

#[test]
fn keys_can_be_kept_compared_and_shown_without_their_strings() {
    let rig = Rig::new(CorrelatorOptions::off());
    let (_, key) = decision(rig.correlator.correlate(&event("r", "secret")));
    let (_, same) = decision(rig.correlator.correlate(&event("r", "secret")));
    let (_, other) = decision(rig.correlator.correlate(&event("r", "other")));
    assert_eq!(key, same);
    assert_ne!(key, other);
    let workers = HashMap::from([(key.clone(), 1), (other, 2)]);
    assert_eq!(workers[&same], 1);

    // Both keys have the same fields, because the message is empty and there is no reporting
    // controller.
    let mut blank = event("r", "");
    blank.involved_object.field_path = "".into();
    let folding = Rig::new(folding(1));
    let (_, one) = decision(rig.correlator.correlate(&blank));
    let (_, group) = decision(folding.correlator.correlate(&blank));
    assert_ne!(one, group);

    let shown = format!("{key:?} {:?} {:?}", rig.correlator, CorrelatorOptions::default());
    assert!(!shown.contains("secret"), "{shown}");
}
