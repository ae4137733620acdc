//! Tests of the `replay` command. The input consists of a cluster's events, and the output consists
//! of the correlator's results.
#![cfg(feature = "analysis")]

use std::fs;
use std::path::Path;

use eventcast::Event;
use serde_json::{Value, json};

use crate::support::output::{Ended, assert_harmless, run_with};

fn replay(args: &[&str], input: &str) -> Ended {
    run_with(&[&["replay"], args].concat(), input.as_bytes())
}

/// Returns the figures of a run, which must succeed.
fn figures(args: &[&str], input: &str) -> Value {
    let ended = replay(&[args, &["--json"]].concat(), input);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn event(minute: u32, object: &str, message: &str, type_: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": format!("{object}.{minute}.{message}"), "namespace": "default"},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": object},
        "reason": "BackOff", "message": message, "type": type_, "source": {"component": "kubelet"},
        "firstTimestamp": format!("2024-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60),
        "lastTimestamp": format!("2024-01-01T{:02}:{:02}:00Z", minute / 60, minute % 60),
        "count": 1,
    })
}

/// Returns 40 equal events within 40 minutes, and 12 events with different messages within one
/// minute.
fn events() -> Vec<Value> {
    let same = (0..40).map(|minute| event(minute, "web-0", "restarting", "Warning"));
    let similar = (0..12).map(|i| event(100, "web-1", &format!("attempt {i}"), "Normal"));
    same.chain(similar).collect()
}

/// Returns the same event as an events.k8s.io/v1 document.
fn through_events_v1(event: &Value) -> Value {
    let event: Event = serde_json::from_value(event.clone()).unwrap();
    let newer: Value = serde_json::from_str(&event.to_events_v1_json()).unwrap();
    assert!(newer["involvedObject"].is_null() && newer["apiVersion"] == "events.k8s.io/v1");
    newer
}

fn lines(events: &[Value]) -> String {
    events.iter().flat_map(|event| [event.to_string(), "\n".to_owned()]).collect()
}

#[test]
fn lists_and_lines_in_any_order_give_the_same_result() {
    let events = events();
    let mut reversed = events.clone();
    reversed[..40].reverse();
    let list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": reversed});
    let expected = figures(&[], &lines(&events));
    // At first, the budget allows every event, and then one event every five minutes.
    assert_eq!(expected["stats"]["created"], 1 + 9 + 1);
    assert_eq!(expected["stats"]["updated"], 24 + 7 + 2);
    assert_eq!(expected["stats"]["filtered"], 8);
    assert_eq!(expected["stats"]["aggregated"], 3);
    assert_eq!((&expected["events"], &expected["apiCalls"]), (&json!(52), &json!(44)));
    let noisiest = &expected["noisiest"][0];
    assert_eq!((&noisiest["object"], &noisiest["events"]), (&json!("Pod/default/web-0"), &json!(40)));
    // The newer list contains the same events in the other API's format, which
    // `kubectl get events.v1.events.k8s.io -o json` returns.
    let newer: Vec<Value> = reversed.iter().map(through_events_v1).collect();
    let newer_list = json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": newer});
    for input in [
        list.to_string(),
        serde_json::to_string_pretty(&list).unwrap(),
        format!("\n\n{}", lines(&reversed)),
        lines(&newer),
        newer_list.to_string(),
    ] {
        assert_eq!(figures(&[], &input), expected);
        assert_eq!(figures(&["-"], &input), expected);
    }
}

#[test]
fn the_report_fits_on_one_screen() {
    let ended = replay(&[], &lines(&events()));
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    let shown: Vec<Vec<&str>> = ended.stdout.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(
        ended.stdout.starts_with("52 events in 1h40m, from 2024-01-01T00:00:00Z to 2024-01-01T01:40:00Z\n")
    );
    for row in [&["created", "11"][..], &["updated", "33"], &["filtered", "8"], &["aggregated", "3"]] {
        assert!(shown.iter().any(|line| line.starts_with(row)), "{row:?} in {}", ended.stdout);
    }
    assert!(shown.iter().any(|line| line.ends_with(&["saved:", "15.4", "%"])), "{}", ended.stdout);
    assert!(
        shown
            .iter()
            .any(|line| line[..] == ["40", "1", "31", "8", "BackOff", "Pod/default/web-0", "(kubelet)"])
    );
    assert!(shown.len() < 24);
    let one = replay(&[], &lines(&events()[..1]));
    assert!(one.stdout.starts_with("1 event in 0s, from "), "{}", one.stdout);
}

#[test]
fn every_option_is_a_flag() {
    let input = lines(&events());
    let stats = |args: &[&str], name: &str| figures(args, &input)["stats"][name].as_u64().unwrap();
    assert_eq!(stats(&["--no-spam-filter"], "filtered"), 0);
    assert_eq!(stats(&["--burst", "1", "--qps=0.000001"], "filtered"), 50);
    assert_eq!(stats(&["--exempt-warnings"], "filtered"), 0);
    assert_eq!(stats(&["--no-aggregation"], "aggregated"), 0);
    assert_eq!(stats(&["--max-events", "3"], "aggregated"), 10);
    assert_eq!(stats(&["--max-events=1", "--max-interval", "1s"], "aggregated"), 52);
    // The caches evict one budget, one group, and all events except the last event, which
    // represents the group.
    assert_eq!(stats(&["--cache-size", "1"], "evicted"), 1 + 1 + 10);
    let ended = replay(&["--cache-size=1"], &input);
    assert!(ended.stdout.contains("to make room: raise --cache-size"), "{}", ended.stdout);
}

#[test]
fn counts_can_be_expanded() {
    let mut stored = event(60, "web-0", "m", "Normal");
    stored["firstTimestamp"] = json!("2024-01-01T00:00:00Z");
    stored["count"] = json!(61);
    let input = lines(&[stored.clone()]);
    let plain = figures(&[], &input);
    assert_eq!((&plain["events"], &plain["occurrences"]), (&json!(1), &json!(61)));
    assert!(replay(&[], &input).stdout.contains("Their counts add up to 61; --expand replays every one."));
    let expanded = figures(&["--expand"], &input);
    assert_eq!(expanded["events"], 61);
    assert_eq!(
        (&expanded["first"], &expanded["last"]),
        (&json!("2024-01-01T00:00:00Z"), &json!("2024-01-01T01:00:00Z"))
    );
    // At first, 25 events pass, and another 12 events pass within an hour.
    assert_eq!(expanded["stats"]["created"], 1);
    assert_eq!(expanded["stats"]["filtered"], 61 - 25 - 12);

    stored["count"] = json!(2_000_000_000);
    let ended = replay(&["--expand"], &lines(&[stored]));
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("add up to more than 5000000 events"), "{}", ended.stderr);
}

/// The event's last time differs from the time of its series, as in a store that was written
/// through both APIs.
#[test]
fn an_event_is_dated_by_its_series() {
    let mut stored = event(0, "web-0", "probe failed", "Warning");
    stored["eventTime"] = json!("2024-01-01T00:00:00.000000Z");
    stored["series"] = json!({"count": 61, "lastObservedTime": "2024-01-01T01:00:00.000000Z"});
    for stored in [stored.clone(), through_events_v1(&stored)] {
        let input = lines(&[stored]);
        let plain = figures(&[], &input);
        assert_eq!((&plain["events"], &plain["occurrences"]), (&json!(1), &json!(61)));
        assert_eq!(plain["last"], "2024-01-01T01:00:00Z");
        let expanded = figures(&["--expand"], &input);
        assert_eq!(expanded["events"], 61);
        assert_eq!(
            (&expanded["first"], &expanded["last"]),
            (&json!("2024-01-01T00:00:00Z"), &json!("2024-01-01T01:00:00Z"))
        );
    }
}

/// OpenShift's installer writes an event that has neither a reason nor an object.
#[test]
fn what_calls_itself_an_event_is_one() {
    let bare = json!({
        "kind": "Event", "apiVersion": "v1",
        "metadata": {"name": "bootstrap-success", "namespace": "kube-system"},
        "involvedObject": {"namespace": "kube-system"}, "source": {},
        "message": "Required control plane pods have been created",
        "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:00:00Z", "count": 1,
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [bare]});
    for input in [list.to_string(), bare.to_string()] {
        assert_eq!(figures(&["--strict"], &input)["events"], 1);
    }
    // If a document has no kind or no version, it must have the fields of an event.
    for missing in ["kind", "apiVersion"] {
        let mut other = bare.clone();
        other.as_object_mut().unwrap().remove(missing);
        let ended = replay(&[], &other.to_string());
        assert_eq!(ended.code, Some(2), "{missing}");
        assert!(
            ended.stderr.contains("a document without 'involvedObject' and 'reason'"),
            "{}",
            ended.stderr
        );
    }
}

/// JSON can escape half of a surrogate pair, which is not a character. Go's decoder reads such an
/// escape as U+FFFD.
#[test]
fn half_a_surrogate_pair_is_one_odd_character() {
    let mark = |index: usize| format!("<{index}>");
    let halves = [
        r"\ud800",
        r"\uDFFF",
        r"\ud83d\ud83d\ude00",
        r"\ude00\ud83d",
        r"\\\udead",
        r"\uDbFf\n",
        r"\ud83d\u0041",
    ];
    let items: Vec<_> = (0..halves.len()).map(|i| event(i as u32, "web-0", &mark(i), "Normal")).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    for text in [list.to_string(), serde_json::to_string_pretty(&list).unwrap(), lines(&items)] {
        let input =
            halves.iter().enumerate().fold(text, |text, (index, half)| text.replace(&mark(index), half));
        assert!(serde_json::from_str::<Value>(&input).is_err());
        assert_eq!(figures(&["--strict"], &input)["events"], halves.len());
    }
    // The rest of the text is unchanged. A complete pair and an escaped backslash are also
    // unchanged.
    let mut named = event(0, "web-0", "m", "Normal");
    named["reason"] = json!(mark(0));
    let reason = |half: &str| {
        let shown = figures(&[], &named.to_string().replace(&mark(0), half));
        shown["noisiest"][0]["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(reason(r"a\ud800b"), "a\u{fffd}b");
    assert_eq!(reason(r"\ud83d\ude00 \ude00"), "\u{1f600} \u{fffd}");
    assert_eq!(reason(r"\\ud800"), r"\ud800");
    assert_eq!(reason(r"\ud83d\ud83d\ude00"), "\u{fffd}\u{1f600}");
}

#[test]
fn a_byte_that_is_no_utf8_spoils_one_character_of_a_list() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": events()});
    let text = serde_json::to_string_pretty(&list).unwrap().replacen("attempt 0", "attempt \u{1}", 1);
    let bytes: Vec<u8> =
        text.replace("\\u0001", "\u{1}").bytes().map(|byte| if byte == 1 { 0xff } else { byte }).collect();
    assert!(String::from_utf8(bytes.clone()).is_err());
    let ended = run_with(&["replay", "--strict"], &bytes);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("52 events in "), "{}", ended.stdout);
}

#[test]
fn names_are_escaped() {
    let nasty = "a\u{1b}[2J\r\u{202e}b";
    let mut event = event(0, nasty, nasty, nasty);
    event["reason"] = json!(nasty);
    event["source"]["component"] = json!(nasty);
    let ended = replay(&[], &lines(&[event]));
    assert_eq!(ended.code, Some(0));
    assert!(
        ended.stdout.contains(r"a\u{1b}[2J\r\u{202e}b Pod/default/a\u{1b}[2J\r\u{202e}b"),
        "{}",
        ended.stdout
    );
    assert_harmless(&ended.stdout);
}

#[test]
fn a_sweep_draws_each_value() {
    let input = lines(&events());
    let drawing = replay(&["--sweep", "burst=5..50"], &input);
    assert_eq!((drawing.code, &*drawing.stderr), (Some(0), ""));
    assert!(drawing.stdout.starts_with("<svg ") && drawing.stdout.trim_end().ends_with("</svg>"));
    assert!(drawing.stdout.matches("<polyline").count() >= 8, "four lines, and a piece of each at its label");
    for text in ["burst", "API calls", "stored events", "filtered", "aggregated", "percent of the events"] {
        assert!(drawing.stdout.contains(text), "{text}");
    }

    for json in [&[][..], &["--json"]] {
        let sweep = [&["--sweep", "burst=5..50"], json].concat();
        assert_eq!(
            replay(&[&sweep[..], &["--output", "-"]].concat(), &input).stdout,
            replay(&sweep, &input).stdout
        );
    }
    assert!(!Path::new("-").exists());
    assert!(drawing.stdout.contains("default: 25"));
    let beside = replay(&["--sweep", "burst=30..50"], &input);
    assert!(!beside.stdout.contains("default"));

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("burst.svg");
    let ended = replay(&["--sweep=burst=5..50", "--json", "-o", file.to_str().unwrap()], &input);
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(written, drawing.stdout);
    let figures: Value = serde_json::from_str(&ended.stdout).unwrap();
    let points = figures["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[0]["value"], &points[45]["value"]), (46, &json!(5), &json!(50)));
    let filtered: Vec<u64> =
        points.iter().map(|point| point["stats"]["filtered"].as_u64().unwrap()).collect();
    assert!(filtered.is_sorted_by(|more, less| more >= less) && filtered[0] > filtered[45], "{filtered:?}");

    // If a range is wide, only some of its values are used, including both ends.
    let ended = replay(&["--sweep=cache-size=1..100000", "--json"], &input);
    let figures: Value = serde_json::from_str(&ended.stdout).unwrap();
    let points = figures["points"].as_array().unwrap();
    assert_eq!((points.len(), &points[63]["value"]), (64, &json!(100_000)));
    for option in ["max-events=2..5", "max-interval=1..3"] {
        assert_eq!(replay(&["--sweep", option], &input).code, Some(0));
    }
}

#[test]
fn errors_explain_the_cause_and_the_remedy() {
    for (args, expected) in [
        (&["--nonsense"][..], "unexpected argument '--nonsense' found"),
        (&["a", "b"], "unexpected argument 'b' found"),
        (&["/no/such/\u{1b}file"], r"cannot open '/no/such/\u{1b}file': "),
        (&["--burst", "x"], "--burst must be a whole number that is not negative, got 'x'"),
        (&["--burst", "0"], "eventcast: --burst must be 1 or more, got 0"),
        (&["--max-events"], "a value is required for '--max-events <N>'"),
        (&["--max-interval", "5"], "--max-interval must be a duration such as 250ms or 1m30s, got '5'"),
        (&["--qps", "x"], "--qps must be a number, got 'x'"),
        (&["--max-events=0"], "eventcast: --max-events must be 1 or more, got 0"),
        (&["--qps=-1"], "eventcast: --qps must be finite and more than zero, got -1"),
        (&["--qps", "-1"], "qps must be finite and more than zero, got -1"),
        (&["--burst", "-1"], "--burst must be a whole number that is not negative, got '-1'"),
        (&["--max-interval", "-5s"], "--max-interval must be a duration such as 250ms or 1m30s, got '-5s'"),
        (&["--cache-size=0"], "eventcast: --cache-size must be 1 to 16777216 entries, got 0"),
        (&["--output", "x"], "--sweep <OPTION=A..B>"),
        (&["--sweep", "burst"], "--sweep: missing '=' in 'burst'"),
        (
            &["--sweep", "bursts=1..2"],
            "the option must be one of max-events, max-interval, burst, cache-size, got 'bursts'",
        ),
        (&["--sweep", "burst=2..1"], "the range must start at 1 or more and be ascending"),
        (&["--sweep", "burst=0..1"], "the range must start at 1 or more and be ascending"),
        (&["--sweep", "burst=1..x"], "the ends must be whole numbers up to 4294967295, got 'x'"),
        (
            &["--sweep", "burst=1..2", "--no-spam-filter"],
            "cannot sweep burst: its stage is off: omit --no-aggregation",
        ),
        (&["--sweep", "cache-size=1..99999999"], "eventcast: --cache-size must be 1 to "),
    ] {
        let ended = replay(args, &lines(&events()));
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(expected), "{args:?}: {}", ended.stderr);
    }
}

#[test]
fn an_input_without_events_is_reported() {
    let empty = r#"{"kind":"List","apiVersion":"v1","items":null}"#;
    let ended = replay(&["--strict"], empty);
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.starts_with("eventcast: no events to replay: pass the output of "),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().count(), 1);
    for input in ["", "\n \n", "[]"] {
        let ended = replay(&[], input);
        assert_eq!(ended.code, Some(2), "{input:?}");
        assert!(ended.stderr.contains("no events to replay"), "{}", ended.stderr);
    }
    let ended = replay(&[], "{\n\"kind\": \"List\",\n\"items\": [x]}");
    assert_eq!(ended.code, Some(2));
    assert!(
        ended.stderr.contains("malformed document, in line 3: 'x' is not a JSON value"),
        "{}",
        ended.stderr
    );
}

/// A file is read in the same way as stdin.
#[test]
fn a_file_and_stdin_give_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.json");
    let input = json!({"apiVersion": "v1", "kind": "List", "items": events()}).to_string();
    fs::write(&file, &input).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(replay(&[file], "").stdout, replay(&["-"], &input).stdout);
    let drawing = replay(&[file, "--sweep", "burst=5..9"], "").stdout;
    assert!(drawing.contains("burst from 5 to 9: 52 events of events.json"), "{drawing}");

    // A directory can be opened but not read.
    let folder = folder.path().to_str().unwrap();
    let ended = replay(&[folder], "");
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    assert!(ended.stderr.starts_with("eventcast: cannot "), "{}", ended.stderr);
    assert!(ended.stderr.contains(&format!(" '{folder}': ")), "{}", ended.stderr);
}

#[test]
fn a_document_that_is_too_long_spoils_only_itself() {
    let long = |len: usize| format!(r#"{{"reason":["{}"]}}"#, vec!["x".repeat(1 << 20); len].join(r#"",""#));
    let input = format!("{}{}\n{}", lines(&events()[..2]), long(17), lines(&events()[2..4]));
    let ended = replay(&[], &input);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.starts_with("eventcast: cannot read 1 document, in line 3: a document is too large")
    );
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    assert!(replay(&["--help"], "").stdout.contains("can have up to 16 MiB"));
    assert!(ended.stdout.starts_with("4 events in "), "{}", ended.stdout);
}
