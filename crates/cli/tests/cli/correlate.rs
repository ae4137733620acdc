//! Tests of the `correlate` command. The input consists of test vectors, and the output consists of
//! decisions or differences.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::output::{Ended, run_with};

fn correlate(args: &[&str], input: &[u8]) -> Ended {
    run_with(&[&["correlate"], args].concat(), input)
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors")
}

fn vectors() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder()).unwrap().map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    paths.sort();
    paths
}

fn vector(name: &str) -> String {
    fs::read_to_string(folder().join(name)).unwrap()
}

#[test]
fn every_vector_compares_equal() {
    let paths = vectors();
    assert_eq!(paths.len(), 38);
    for path in paths {
        let text = fs::read(&path).unwrap();
        let events = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count() - 1;
        let ended = correlate(&["--compare"], &text);
        assert_eq!(ended.stdout, format!("{events} events, 0 of them differ\n"), "{}", path.display());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    }
}

/// The program's output has the format in which the program accepts expected decisions (`expect`).
#[test]
fn its_own_answers_compare_equal() {
    for name in ["aggregate.jsonl", "corners.jsonl", "fuzz-mix-0001.jsonl"] {
        let text = vector(name);
        let ended = correlate(&[], text.as_bytes());
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{name}");
        let (head, events) = text.split_once('\n').unwrap();
        assert_eq!(ended.stdout.lines().count(), events.lines().count());
        let mut again = format!("{head}\n");
        for (line, answer) in events.lines().zip(ended.stdout.lines()) {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let answer: Value = serde_json::from_str(answer).unwrap();
            let names: Vec<&String> = answer.as_object().unwrap().keys().collect();
            assert_eq!(names, ["error", "event", "patch", "skip"]);
            assert_eq!(answer["skip"], line["expect"]["skip"]);
            assert_eq!(answer["patch"], line["expect"]["patch"]);
            line["expect"] = answer;
            again.extend([line.to_string(), "\n".to_owned()]);
        }
        assert_eq!(correlate(&["--compare"], again.as_bytes()).code, Some(0), "{name}");
    }
}

#[test]
fn a_difference_is_shown_with_its_line_and_its_place() {
    let text = vector("repeat.jsonl");
    let mut lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    lines[2]["expect"]["event"]["count"] = json!(77);
    lines[3]["expect"]["patch"]["message"] = json!("other \u{1b}[31m");
    lines[4]["expect"]["skip"] = json!(true);
    let text: String = lines.iter().flat_map(|line| [line.to_string(), "\n".to_owned()]).collect();
    let ended = correlate(&["--compare"], text.as_bytes());
    assert_eq!(ended.code, Some(1));
    let shown: Vec<&str> = ended.stdout.lines().collect();
    assert_eq!(shown[0], "line 3: event.count: expected 77, got 2");
    assert!(shown[1].starts_with(r#"line 4: patch.message: expected "other"#), "{shown:#?}");
    assert_eq!(shown[2], "line 5: skip: expected true, got false");
    assert!(shown[3].ends_with(" events, 3 of them differ"), "{shown:#?}");
    assert!(!ended.stdout.contains('\u{1b}'));
}

/// Only the first differences are shown, but all differences are counted.
#[test]
fn many_differences_do_not_flood() {
    let text = vector("repeat.jsonl");
    let mut events = 0;
    let text: String = text
        .lines()
        .flat_map(|line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            if line.get("expect").is_some() {
                line["expect"]["error"] = json!("x".repeat(10_000));
                events += 1;
            }
            [line.to_string(), "\n".to_owned()]
        })
        .collect();
    let ended = correlate(&["--compare"], text.as_bytes());
    assert_eq!((ended.code, ended.stdout.lines().count()), (Some(1), 11));
    assert!(ended.stdout.ends_with(&format!("{events} events, {events} of them differ\n")));
    assert!(ended.stdout.len() < 5000);
}

#[test]
fn what_cannot_be_read_is_named_by_its_line() {
    let head = r#"{"options":{}}"#;
    let event = r#"{"at":"2024-01-01T00:00:00Z","event":{"reason":"R"}}"#;
    for (input, expected) in [
        ("", "cannot read the options: the input is empty"),
        ("nonsense", "cannot read the options: expected a JSON object\n"),
        ("[{}]", "cannot read the options: expected a JSON object\n"),
        (r#"{"options":[1,2]}"#, "cannot read the options: invalid type: sequence"),
        (event, "cannot read the options: unknown field `at`"),
        (r#"{"options":{"maxEvent":1}}"#, "cannot read the options: unknown field `maxEvent`"),
        (r#"{"options":{"burstSize":-1}}"#, "cannot read the options: invalid value: integer `-1`"),
        (
            r#"{"options":{"lruCacheSize":99999999}}"#,
            "cache_size must be 1 to 16777216 entries, got 99999999",
        ),
    ] {
        assert_unread(&[], input, &format!("line 1: {expected}"));
    }
    for (input, expected) in [
        (r#"["2024-01-01T00:00:00Z",{"reason":"R"},null,null]"#, "expected a JSON object\n"),
        (r#"{"at":"2024-01-01T00:00:00Z","event":{"reason":"R"},"server":[true]}"#, "invalid type: sequence"),
        (r#"{"at":"2024-01-01T00:00:00Z","event":[]}"#, "invalid type: sequence"),
        (r#"{"at":"2024-01-01T00:00:00Z"}"#, "missing field `event`"),
        (r#"{"at":"x\u001b"}"#, r"invalid time `x\u{1b}`: expected RFC 3339"),
        ("{", "EOF"),
    ] {
        assert_unread(&[], &format!("{head}\n{input}"), &format!("line 2: {expected}"));
    }
    assert_unread(&[], &format!("{head}\n\n7"), "line 3: expected a JSON object\n");
    let uncompared = "line 2: cannot compare: missing field `expect`\n";
    assert_unread(&["--compare"], &format!("{head}\n{event}\n"), uncompared);
    let long = format!("{head}\n{}\n", "x".repeat((16 << 20) + 1));
    assert_unread(&[], &long, "line 2: a line must be at most 16 MiB\n");
    let ended = correlate(&[], b"{\"options\":{}}\n\xff\n");
    assert_eq!((ended.code, &*ended.stderr), (Some(2), "eventcast: line 2: invalid UTF-8 at byte 1\n"));
}

#[track_caller]
fn assert_unread(args: &[&str], input: &str, expected: &str) {
    let ended = correlate(args, input.as_bytes());
    let start = &input[..input.len().min(100)];
    assert_eq!(ended.code, Some(2), "{start}: {}", ended.stderr);
    assert!(ended.stderr.starts_with(&format!("eventcast: {expected}")), "{start}: {}", ended.stderr);
    assert!(!ended.stderr.contains('\u{1b}'));
}

#[test]
fn blank_lines_are_skipped() {
    let (text, expected) = (vector("repeat.jsonl"), correlate(&[], vector("repeat.jsonl").as_bytes()));
    let spread = format!("\n{}\n \n", text.replace('\n', "\n\r\n"));
    let ended = correlate(&[], spread.as_bytes());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""));
    assert_eq!(ended.stdout, expected.stdout);
}

/// The decisions before the invalid line are written.
#[test]
fn the_answers_before_an_error_are_written() {
    let event = r#"{"at":"2024-01-01T00:00:00Z","event":{"reason":"R"}}"#;
    let ended = correlate(&[], format!("{{\"options\":{{}}}}\n{event}\nnonsense\n").as_bytes());
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.starts_with("eventcast: line 3: expected"), "{}", ended.stderr);
    assert_eq!(ended.stdout.lines().count(), 1);
    assert!(ended.stdout.starts_with(r#"{"skip":false,"event":{"#), "{}", ended.stdout);
}

#[test]
fn unknown_arguments_are_bad_usage() {
    for args in [&["--nonsense"][..], &["file"], &["--compare=x"]] {
        let ended = correlate(args, b"");
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert!(ended.stderr.contains("try '--help'"), "{}", ended.stderr);
    }
}
