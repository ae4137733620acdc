//! The plain data of the bus: the string form of a policy, and the JSON of a delivery.

use std::collections::HashSet;
use std::time::Duration;

use eventcast::OverflowPolicy::{self, DropIncoming, DropOldest, Evict, Wait, WaitFor};

#[test]
fn a_policy_is_read_as_it_is_written() {
    let limits = [0, 100, 1_500, 250_000, 90_000_000].map(|us| WaitFor(Duration::from_micros(us)));
    let policies = [DropIncoming, DropOldest, Evict, Wait, WaitFor(Duration::MAX)].into_iter().chain(limits);
    let policies: Vec<OverflowPolicy> = policies.chain([WaitFor(Duration::new(1, 1))]).collect();
    for policy in &policies {
        assert_eq!(policy.to_string().parse(), Ok(*policy), "{policy}");
    }
    let words: Vec<String> = policies.iter().map(ToString::to_string).collect();
    assert_eq!(words[..4], ["drop_incoming", "drop_oldest", "evict", "wait"]);
    let expected = ["0ns", "100µs", "1.5ms", "250ms", "90s", "1.000000001s"];
    assert_eq!(words[5..], expected.map(|limit| format!("wait_for:{limit}")));
    assert_eq!(policies.iter().collect::<HashSet<_>>().len(), policies.len());
}

#[test]
fn a_text_that_is_not_a_policy_is_shown() {
    for text in
        ["", "drop", "Wait", " wait", "wait:1s", "wait_for", "wait_for:", "wait_for:5", "wait_for:x1s"]
    {
        let error = text.parse::<OverflowPolicy>().unwrap_err();
        let expected =
            format!("policy must be drop_incoming, drop_oldest, evict, wait or wait_for:250ms, got {text}");
        assert_eq!(error.to_string(), expected);
    }
    let error = format!("\u{1b}[2J{}", "x".repeat(1000)).parse::<OverflowPolicy>().unwrap_err().to_string();
    assert!(error.contains("got \\u{1b}[2Jxxx") && error.ends_with("xxx..."), "{error}");
    assert!(error.len() < 150, "{error}");
}

/// Policies have the same names in a configuration file as on a command line. Both accept different
/// notations for limits, such as `1m30s` for `90s`.
#[test]
fn a_policy_has_the_same_words_in_a_file() {
    for policy in [DropIncoming, DropOldest, Evict, Wait] {
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.to_string());
    }
    let limit = WaitFor(Duration::from_millis(250));
    let json = serde_json::to_value(limit).unwrap();
    assert_eq!(format!("wait_for:{}", json["wait_for"].as_str().unwrap()), limit.to_string());
}

#[test]
fn a_delivery_is_written_as_an_event_or_a_loss() {
    use eventcast::Delivery;
    use serde_json::json;

    let event = Delivery::Event("started");
    assert_eq!(serde_json::to_value(event).unwrap(), json!({"event": "started"}));
    assert_eq!(serde_json::to_value(event.as_ref()).unwrap(), json!({"event": "started"}));
    let lagged = Delivery::<&str>::Lagged(3);
    assert_eq!(serde_json::to_string(&lagged).unwrap(), r#"{"lagged":3}"#);
    for delivery in [event, lagged] {
        let text = serde_json::to_string(&delivery).unwrap();
        assert_eq!(serde_json::from_str::<Delivery<&str>>(&text).unwrap(), delivery);
    }
}
