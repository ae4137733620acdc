//! Tests of the input formats, which are shared by all commands that read events.
#![cfg(feature = "analysis")]

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use eventcast::Event;
use serde_json::{Value, json};

use crate::support::output::{Ended, assert_harmless, run_with};

fn cases() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn replay(args: &[&str], input: impl AsRef<[u8]>) -> Ended {
    run_with(&[&["replay"], args].concat(), input.as_ref())
}

/// Returns the figures of a run, which must exit with the given status.
fn figures(args: &[&str], input: impl AsRef<[u8]>, status: i32) -> Value {
    let ended = replay(&[args, &["--json"]].concat(), input);
    assert_eq!(ended.code, Some(status), "{ended:?}");
    serde_json::from_str(&ended.stdout).unwrap()
}

fn event(name: &str, count: u32) -> String {
    json!({
        "kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "uid": name},
        "involvedObject": {"kind": "Pod", "name": "web-0"}, "reason": "BackOff", "message": "m",
        "lastTimestamp": "2026-01-02T03:00:00Z", "count": count,
    })
    .to_string()
}

#[test]
fn each_form_gives_its_events_and_occurrences() {
    let expected = [
        ("01_states_of_one_event.jsonl", 1, 11),
        ("02_two_dumps.jsonl", 2, 3),
        ("03_concatenated_pretty.json", 2, 3),
        ("04_concatenated_compact.json", 2, 3),
        ("05_bare_array.json", 2, 3),
        ("05b_bare_array_pretty.json", 2, 3),
        ("06_events.yaml", 1, 2),
        ("07_utf8_bom.json", 2, 3),
        ("08_utf16le_bom.json", 2, 3),
        ("09_watch_envelopes.jsonl", 2, 4),
        ("10_last_and_series.json", 1, 61),
        ("11_no_object.json", 100, 100),
        ("12_verb_event_wrapper.jsonl", 1, 2),
        ("13_warning_before_json.json", 2, 3),
        ("14_ndjson_through_jq_dot.json", 2, 3),
        ("15_audit_record.jsonl", 1, 1),
        ("16_many_reporters.jsonl", 120, 120),
        ("17_count_as_float.jsonl", 1, 2),
    ];
    for (file, events, occurrences) in expected {
        let bytes = fs::read(cases().join(file)).unwrap();
        let found = figures(&[], &bytes, 0);
        assert_eq!(
            (&found["events"], &found["occurrences"]),
            (&json!(events), &json!(occurrences)),
            "{file}"
        );
        let expanded = figures(&["--expand"], &bytes, 0);
        assert_eq!(expanded["events"], occurrences, "{file}");
        // Compressing the input does not change the result.
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&bytes).unwrap();
        assert_eq!(figures(&[], encoder.finish().unwrap(), 0), found, "{file}");
    }
    let files = fs::read_dir(cases()).unwrap().count();
    assert_eq!(files, expected.len());
}

#[test]
fn the_parts_of_the_forms_are_distinguished() {
    let case = |file: &str| fs::read(cases().join(file)).unwrap();
    let audit = figures(&[], case("15_audit_record.jsonl"), 0);
    assert_eq!(audit["noisiest"][0]["object"], "Pod/shop/web-0");
    let series = figures(&["--expand"], case("10_last_and_series.json"), 0);
    assert_eq!(
        (&series["first"], &series["last"]),
        (&json!("2026-01-02T03:00:00Z"), &json!("2026-01-02T04:00:00Z"))
    );
    let watch = figures(&[], case("09_watch_envelopes.jsonl"), 0);
    let objects: Vec<&Value> =
        watch["noisiest"].as_array().unwrap().iter().map(|key| &key["object"]).collect();
    assert_eq!(objects, ["Pod/shop/web-0", "Pod/shop/web-1"]);
    let warned = replay(&[], case("13_warning_before_json.json"));
    assert_eq!(warned.stderr.lines().count(), 1);
    assert!(
        warned.stderr.starts_with("eventcast: skipped 1 line, in line 1: 'Warning: "),
        "{}",
        warned.stderr
    );
}

#[test]
fn yaml_may_have_one_document_or_several() {
    let yaml = |name: &str| {
        format!(
            "kind: Event\napiVersion: v1\nmetadata: {{name: {name}}}\nreason: yes\ninvolvedObject:\n  kind: Pod\nlastTimestamp: \"2026-01-02T03:00:00Z\"\nmessage: |\n  a: b\n  # c\ncount: 2\n"
        )
    };
    let indented = |name: &str| {
        let lines: Vec<String> = yaml(name).lines().map(|line| format!("  {line}")).collect();
        lines.join("\n")
    };
    let item = |name: &str| indented(name).replacen("  ", "- ", 1);
    let json = |name: &str| event(name, 2).replace("BackOff", "yes");
    let list = format!("apiVersion: v1\nitems:\n{}\n{}\nkind: List\n", item("a"), item("b"));
    let sequence = format!("{}\n{}\n", item("a"), item("b"));
    for (form, input) in [
        ("documents", format!("{}---\n{}", yaml("a"), yaml("b"))),
        ("with marks", format!("# of today\n%YAML 1.2\n---\n{}...\n---\r\n{}", yaml("a"), yaml("b"))),
        ("a list", list.clone()),
        ("a list of one and an event", format!("items:\n{}\n--- # more\n{}", item("a"), yaml("b"))),
        ("a sequence", sequence),
        ("empty documents", format!("---\n---\n# nothing\n---\n{list}---\n")),
        ("after a warning", format!("Warning: old version\n[info] up\n\n{list}")),
        ("without separators", yaml("a") + &yaml("b")),
        (
            "lists without separators",
            format!("apiVersion: v1\nitems:\n{}\nkind: List\n{}", item("a"), yaml("b")),
        ),
        (
            "a watch",
            format!(
                "object:\n{}\ntype: ADDED\n---\nobject:\n{}\ntype: ADDED\n",
                indented("a"),
                indented("b")
            ),
        ),
        ("flow style", format!("apiVersion: v1\nkind: List\nitems:\n [{},\n {}]\n", json("a"), json("b"))),
    ] {
        let found = figures(&["--strict"], &input, 0);
        assert_eq!((&found["events"], &found["occurrences"]), (&json!(2), &json!(4)), "{form}");
        assert_eq!(found["noisiest"][0]["reason"], "yes", "{form}");
    }
    // A malformed document does not affect the other documents.
    let ended = replay(&[], format!("{}---\nkind: [\n---\n{}", yaml("a"), yaml("b")));
    assert!(ended.code == Some(1) && ended.stdout.starts_with("2 events in 0s"), "{ended:?}");
    // Aliases cannot make a small document use unbounded memory.
    let mut bomb = Vec::new();
    for n in 1..30 {
        let before = vec![format!("*a{}", n - 1); 9].join(",");
        bomb.push(format!("a{n}: &a{n} [{before}]\n"));
    }
    let bomb = bomb.concat();
    let ended = replay(&[], format!("kind: Event\na0: &a0 [x]\n{bomb}"));
    assert_eq!(ended.code, Some(2), "{ended:?}");
}

#[test]
fn the_exit_status_shows_whether_events_are_missing() {
    let (good, invalid) = (event("a", 1), r#"{"kind":"Event","apiVersion":"v1","count":"many"}"#);
    for (what, input, status) in [
        ("nothing but events", good.clone(), 0),
        ("text and other documents", format!("Warning: x\n{good}\n{{\"kind\":\"Pod\"}}\ntrailing"), 0),
        ("an event that cannot be read", format!("{good}\n{invalid}"), 1),
        ("a broken document", format!("{{broken}}\n{good}"), 1),
        ("a list that is cut off", format!("{{\"items\":[{good},{{\"kind\":"), 1),
        ("an event without a time", format!(r#"{good}{{"reason":"R"}}"#), 1),
        ("only text", "NAMESPACE  LAST SEEN\ndefault  5m\n".to_owned(), 2),
        ("only events that cannot be read", invalid.to_owned(), 2),
        ("nothing", String::new(), 2),
        ("an empty list", r#"{"kind":"List","items":[]}"#.to_owned(), 2),
    ] {
        let ended = replay(&[], &input);
        assert_eq!(ended.code, Some(status), "{what}: {ended:?}");
        assert_eq!(ended.stdout.starts_with("1 event in 0s"), status < 2, "{what}: {ended:?}");
        if status == 2 {
            assert!(ended.stderr.ends_with(
                "no events to replay: pass the output of 'kubectl get events -A -o json', for example\n"
            ));
        }
    }
}

#[test]
fn each_reason_is_reported_in_one_line() {
    let mut input = "{nonsense \u{1b}[31m}\n".repeat(300);
    input += "{\"kind\":\"Event\",\"apiVersion\":\"events.k8s.io/v2\",\"note\":\"n\"}\n";
    input += &"{\"kind\":\"Event\",\"count\":\"many\"}\n".repeat(199);
    input += &"{\"kind\":\"Pod\u{202e}\"}\n".repeat(100);
    input += &"hello \u{1b}[2J\n".repeat(50);
    input += &event("a", 1).replace("lastTimestamp", "other");
    input += "\n{}\n[]\n";
    input += &event("b", 1);
    input.push('\n');
    let ended = replay(&[], &input);
    assert_eq!(ended.code, Some(1));
    let lines: Vec<&str> = ended.stderr.lines().collect();
    let expected = [
        r"eventcast: skipped 50 lines, the first in line 601: 'hello \u{1b}[2J' is not JSON",
        r"eventcast: skipped 101 documents, the first in line 501: a Pod\u{202e}, not an Event",
        "eventcast: cannot read 300 malformed documents, the first in line 1: ",
        "eventcast: cannot read 200 events, the first in line 301: not an event: found `Event` of \
         `events.k8s.io/v2`: get the same event as `v1`",
        "eventcast: cannot use 1 event, in line 651: an event without a time: add a 'lastTimestamp'",
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert_harmless(&ended.stderr.replace('\n', ""));
    assert!(ended.stdout.contains("\n501 could not be read\n"), "{}", ended.stdout);
    let strict = replay(&["--strict"], &input);
    assert_eq!((strict.code, &*strict.stdout), (Some(2), ""));
    assert!(strict.stderr.contains("501 parts could not be read: omit --strict"), "{}", strict.stderr);
}

#[test]
fn a_file_that_breaks_off_counts_up_to_there() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    // The names are irregular, so that the compressed input is longer than just a few bytes.
    for n in 0..20_000_u64 {
        writeln!(encoder, "{}", event(&format!("e{}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15)), 1)).unwrap();
    }
    let whole = encoder.finish().unwrap();
    let ended = replay(&[], &whole[..whole.len() / 2]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("eventcast: cannot read after line "), "{}", ended.stderr);
    assert!(ended.stderr.contains("only the events before this were used"), "{}", ended.stderr);
    let events: u64 = ended.stdout.split(' ').next().unwrap().replace(',', "").parse().unwrap();
    assert!((1000..19_000).contains(&events), "{events}");
    for (magic, program) in
        [(&b"\x28\xb5\x2f\xfd"[..], "zstd"), (b"BZh91", "bzip2"), (b"PK\x03\x04", "unzip")]
    {
        let ended = replay(&[], magic);
        assert_eq!(ended.code, Some(2));
        assert!(
            ended.stderr.contains(&format!("decompress it first, as with '{program} ")),
            "{}",
            ended.stderr
        );
    }
}

/// A JSON lines sink writes each state of an event as a line.
#[test]
fn the_states_in_a_file_of_the_library_are_one_event() {
    let states: String = (1..=20)
        .map(|count| {
            let mut event = Event::from_json(&event("a", count)).unwrap();
            event.metadata.set_uid("");
            event.first_timestamp = Some("2026-01-02T03:00:00Z".parse().unwrap());
            event.last_timestamp = Some(format!("2026-01-02T03:{count:02}:00Z").parse().unwrap());
            event.to_json() + "\n"
        })
        .collect();
    let found = figures(&[], &states, 0);
    assert_eq!((&found["events"], &found["occurrences"]), (&json!(1), &json!(20)));
    assert_eq!(found["last"], "2026-01-02T03:20:00Z");
    // The order and repetitions of the states do not change the result.
    let mut reversed: Vec<&str> = states.lines().rev().collect();
    reversed.extend(states.lines());
    assert_eq!(figures(&[], reversed.join("\n"), 0), found);
    let expanded = figures(&["--expand"], reversed.join("\n"), 0);
    assert_eq!(expanded["events"], 20);
    assert_eq!((&expanded["first"], &expanded["last"]), (&json!("2026-01-02T03:01:00Z"), &found["last"]));
}

#[test]
fn documents_beyond_the_limit_count_as_separate_events() {
    let input = format!("{}{}{}{}", event("a", 1), event("b", 1), event("a", 2), event("b", 2));
    let found = |remember: &str| {
        let found = figures(&["--remember", remember], &input, 0);
        (found["events"].as_u64().unwrap(), found["occurrences"].as_u64().unwrap())
    };
    assert_eq!((found("2"), found("1"), found("0")), ((2, 4), (3, 5), (4, 6)));
    let ended = replay(&["--remember=1"], &input);
    assert_eq!(
        ended.stderr,
        "eventcast: 2 documents could not be compared with earlier documents and count as separate events: \
         increase --remember\n"
    );
    assert_eq!(replay(&[], &input).stderr, "");
    assert_eq!(replay(&["--remember=0"], &input).stderr, "", "nothing was to be compared");
    assert_eq!(replay(&["--remember=x"], &input).code, Some(2));
}

/// In a cluster, each kubelet has its own correlator with its own caches.
#[test]
fn each_reporter_has_a_separate_correlator() {
    let bytes = fs::read(cases().join("16_many_reporters.jsonl")).unwrap();
    let found = figures(&["--cache-size", "32"], &bytes, 0);
    let stats = &found["stats"];
    assert_eq!(
        (&stats["created"], &stats["updated"], &stats["evicted"]),
        (&json!(40), &json!(80), &json!(0))
    );
    assert_eq!(found["reporters"], 10);
    let text = replay(&["--cache-size", "32"], &bytes).stdout;
    assert!(text.contains("\n10 programs reported them, each with its own correlator.\n"), "{text}");
    // In the newer API, a reporter is identified by its instance.
    let newer = String::from_utf8(bytes)
        .unwrap()
        .replace(r#""source": {"component""#, r#""reportingComponent": "kubelet", "x": {"y""#);
    let newer = newer
        .replace(r#""host": "#, r#""z": 1}, "reportingInstance": "#)
        .replace(r#""}, "firstTimestamp""#, r#"", "firstTimestamp""#);
    assert_eq!(figures(&["--cache-size", "32"], &newer, 0)["reporters"], 10);
}

#[test]
fn events_without_an_object_are_named_and_not_judged() {
    let bytes = fs::read(cases().join("11_no_object.json")).unwrap();
    let found = figures(&[], &bytes, 0);
    assert_eq!((&found["withoutObject"], &found["stats"]["filtered"]), (&json!(100), &json!(0)));
    let text = replay(&[], &bytes).stdout;
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(
        text.ends_with("They name no object, so no correlator can process them: see 'involvedObject'\n"),
        "{text}"
    );
    let beside = replay(&[], [&bytes[..], event("a", 1).as_bytes()].concat()).stdout;
    assert!(beside.contains("\n100 of them name no object"), "{beside}");
    assert!(beside.starts_with("101 events in "), "{beside}");
    assert!(!beside.contains(" ()"), "{beside}");
}

#[test]
fn a_truncated_yaml_list_is_reported() {
    let item = |name: &str| {
        format!(
            "- apiVersion: v1\n  count: 12\n  kind: Event\n  lastTimestamp: \"2026-01-02T03:00:00Z\"\n  metadata:\n    name: {name}\n  reason: R\n"
        )
    };
    let list = format!(
        "apiVersion: v1\nitems:\n{}{}{}kind: List\nmetadata:\n  resourceVersion: \"\"\n",
        item("a"),
        item("b"),
        item("c")
    );
    assert_eq!(figures(&[], &list, 0)["events"], 3);
    let end = list.find("kind: List").unwrap() + "kind:".len();
    for cut in list.find("count").unwrap()..end {
        let ended = replay(&["--json"], &list[..cut]);
        assert_ne!(ended.code, Some(0), "{}", &list[..cut]);
    }
    let ended = replay(&[], &list[..list.find("kind: List").unwrap()]);
    assert_eq!(ended.code, Some(1));
    assert!(
        ended.stderr.contains("the input ends inside a list, because its 'kind' is missing"),
        "{}",
        ended.stderr
    );
    assert!(ended.stdout.starts_with("3 events "), "{}", ended.stdout);
    // A hand-written list does not need a kind.
    assert_eq!(figures(&[], format!("items:\n{}", item("a")), 0)["events"], 1);
}

#[test]
fn a_small_yaml_document_cannot_become_large() {
    let text = "x".repeat(1 << 20);
    let references = vec!["*e"; 100].join(", ");
    let ended = replay(&[], format!("a: &e \"{text}\"\ny: [{references}]\n---\n{}", event("a", 1)));
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("an event is larger than 64 MiB"), "{}", ended.stderr);
    assert!(ended.stdout.starts_with("1 event "), "{}", ended.stdout);
}

/// A line before the JSON may look like YAML.
#[test]
fn a_heading_does_not_turn_json_into_yaml() {
    for heading in
        ["--- kubectl get events ---", "kind: x", "count: 5", "---", "error: the server is busy", "[INFO] x"]
    {
        let input = format!("{heading}\n{}\n{}\n", event("a", 1), event("b", 2));
        assert_eq!(figures(&[], &input, 0)["occurrences"], 3, "{heading}");
    }
}

#[test]
fn json_has_no_character_that_a_terminal_obeys() {
    let nasty = "a\u{9b}2J\u{7f}\u{202e}\u{2028}\u{200b}\u{1b}";
    let mut event: Value = serde_json::from_str(&event("a", 1)).unwrap();
    for (field, inner) in [("reason", ""), ("involvedObject", "name"), ("source", "component")] {
        if inner.is_empty() {
            event[field] = json!(nasty);
        } else {
            event[field][inner] = json!(nasty);
        }
    }
    let ended = replay(&["--json"], event.to_string());
    assert_harmless(&ended.stdout);
    assert!(!ended.stdout.contains(['\u{9b}', '\u{7f}', '\u{200b}']));
    let noisiest = serde_json::from_str::<Value>(&ended.stdout).unwrap()["noisiest"][0].clone();
    assert_eq!((&noisiest["reason"], &noisiest["source"]), (&json!(nasty), &json!(nasty)));
    assert_eq!(noisiest["object"], json!(format!("Pod/{nasty}")));
}

#[test]
fn an_input_of_deletions_is_named() {
    let ended = replay(&[], format!(r#"{{"type":"DELETED","object":{}}}"#, event("a", 1)));
    assert_eq!(
        (ended.code, &*ended.stderr),
        (Some(2), "eventcast: no events to replay: the input has only 1 deletion\n")
    );
}

/// The test corresponds to `kubectl get events -w | eventcast replay`, where Ctrl-C ends both
/// programs.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_the_reading_and_prints_the_result() {
    use std::process::Stdio;
    let mut command = crate::support::output::eventcast(&["replay"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let line = event("a", 7) + "\n";
    // The input is larger than a pipe's buffer, so the program must already be reading when the
    // write returns.
    stdin.write_all(line.repeat((4 << 20) / line.len()).as_bytes()).unwrap();
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    // The program may or may not read a line that is written after the signal. If the program has
    // already exited, the write fails.
    let _ = stdin.write_all(line.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let (stdout, stderr) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(
        stderr.starts_with("eventcast: interrupted: ") || stderr.contains("\neventcast: interrupted: "),
        "{stderr}"
    );
    assert!(stdout.starts_with("1 event in 0s"), "{stdout}{stderr}");
}
