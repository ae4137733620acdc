//! Tests of options in TOML and JSON configuration files.

use std::time::Duration;

use eventcast_sqlite::SqliteSynchronous::Normal;
use eventcast_sqlite::{SqliteSinkOptions, SqliteSynchronous};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn a_store_is_configured_by_a_file() {
    let options: SqliteSinkOptions = toml::from_str(
        "max_events = 3\nttl = \"1m\"\nsynchronous = \"normal\"\nbusy_timeout = \"2m\"\nfull_check = true\nevents_v1_rules = true",
    )
    .unwrap();
    let json = r#"{"max_events":3,"ttl":60,"synchronous":"normal","busy_timeout":120,"full_check":true,"events_v1_rules":true}"#;
    assert_eq!(serde_json::from_str::<SqliteSinkOptions>(json).unwrap(), options);
    let set = SqliteSinkOptions::default().max_events(3).ttl(MINUTE).synchronous(Normal);
    assert_eq!(options, set.busy_timeout(2 * MINUTE).full_check(true).events_v1_rules(true));
    let written = toml::to_string(&options).unwrap();
    assert!(written.contains("ttl = \"1m\"\n"), "{written}");
    assert_eq!(toml::from_str::<SqliteSinkOptions>(&written).unwrap(), options);
    let written = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<SqliteSinkOptions>(&written).unwrap(), options);
}

#[test]
fn a_key_that_is_left_out_has_its_default() {
    let read: SqliteSinkOptions = toml::from_str("").unwrap();
    assert_eq!(read, SqliteSinkOptions::default());
    let default =
        r#"{"ttl":"1h","synchronous":"full","busy_timeout":"5s","full_check":false,"events_v1_rules":false}"#;
    assert_eq!(serde_json::to_string(&read).unwrap(), default);
    let read: SqliteSinkOptions = serde_json::from_str(r#"{"synchronous":"normal"}"#).unwrap();
    assert_eq!(read, SqliteSinkOptions::default().synchronous(SqliteSynchronous::Normal));
}

#[test]
fn wrong_keys_values_and_lists_are_errors() {
    let error = |json| serde_json::from_str::<SqliteSinkOptions>(json).unwrap_err().to_string();
    let wrong = error(r#"{"max": 1}"#);
    let keys = "`max_events`, `ttl`, `synchronous`, `busy_timeout`, `full_check`, `events_v1_rules`";
    assert!(wrong.starts_with(&format!("unknown field `max`, expected one of {keys}")), "{wrong}");
    assert!(error(r#"{"synchronous": "off"}"#).starts_with("unknown variant `off`"));
    let wrong = error(r#"{"ttl": "1d"}"#);
    assert!(wrong.starts_with("invalid duration `1d`: expected numbers with the units h, m, s,"), "{wrong}");
    for list in ["[]", r#"[3, "1m", "full", "5s", false, false]"#] {
        let wrong = error(list);
        assert!(
            wrong.starts_with("invalid type: sequence, expected a store's options, as an object"),
            "{wrong}"
        );
    }
}
