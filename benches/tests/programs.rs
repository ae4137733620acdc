//! Checks that the measuring programs work and that they report errors in their arguments.

mod interrupt;

use std::process::{Command, Output, Stdio};

use serde_json::Value;

const LATENCY: &str = env!("CARGO_BIN_EXE_latency");
const RECORDING: &str = env!("CARGO_BIN_EXE_recording");
const VERSUS: &str = env!("CARGO_BIN_EXE_versus");

fn run(program: &str, arguments: &[&str]) -> Output {
    Command::new(program).args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// Runs a program that must succeed, and returns its output.
fn printed(program: &str, arguments: &[&str]) -> String {
    let output = run(program, arguments);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    assert_eq!(errors, "", "a program without a terminal shows no progress");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn latency_measures_every_contender_in_every_part() {
    let document: Value = serde_json::from_str(&printed(LATENCY, &["--quick", "--json"])).unwrap();
    let sections = document["sections"].as_array().unwrap();
    assert_eq!(sections.len(), 6);
    let rates: Vec<_> = sections.iter().filter_map(|section| section["events_per_second"].as_u64()).collect();
    assert_eq!(rates, [1000, 10_000, 100_000, 1_000_000]);
    for section in &sections[..5] {
        let rows = section["rows"].as_array().unwrap();
        assert_eq!(rows.len(), 12);
        for row in rows {
            let (name, lost) = (row["name"].as_str().unwrap(), row["lost"][0].as_u64().unwrap());
            let may_lose = row["manner"].as_str().unwrap().starts_with("loses");
            assert!(lost == 0 || may_lose, "{name} lost {lost}");
            let [p50, max] = ["p50", "max"].map(|key| row["latency_ns"][key][0].as_f64().unwrap());
            assert!(p50 > 0.0 && p50 <= max, "{row}");
            let late = row["sender_late_ns"]["p50"].as_array().unwrap().len();
            assert_eq!(late, usize::from(section["events_per_second"].is_u64()), "{row}");
        }
    }
    let rows = sections[5]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6);
    for row in rows {
        for key in ["awake_ns", "parked_first_ns", "parked_run_ns"] {
            assert!(row[key]["p50"][0].as_f64().unwrap() > 0.0, "{row}");
        }
    }
}

#[test]
fn latency_measures_what_it_is_asked_for() {
    let arguments = ["--quick", "--rounds", "3", "--rate", "2k", "--rate", "cost", "--only", "eventcast"];
    let text = printed(LATENCY, &arguments);
    // Three rounds are too few to compare the odd ones with the even ones.
    let heads: Vec<_> = text.lines().filter(|line| line.contains("median of 3 rounds")).collect();
    assert!(heads.iter().all(|head| head.ends_with(", NOT QUIET, too few rounds)")), "{text}");
    assert_eq!(heads.len(), 2, "{text}");
    assert!(heads[0].starts_with("2 k events a second"), "{text}");
    assert!(text.contains("eventcast recv_ref") && !text.contains("crossbeam"), "{text}");
    let markdown = printed(LATENCY, &["--seconds", "0.01", "--rounds", "1", "--rate", "500", "--markdown"]);
    assert_eq!(markdown.lines().filter(|line| line.starts_with("| ")).count(), 13, "{markdown}");
    let inline = printed(LATENCY, &["--quick", "--rate", "idle", "--only", "inline"]);
    let rows = ["eventcast inline ", "eventcast inline, filter ", "eventcast inline, DropOldest "];
    assert!(rows.iter().all(|row| inline.contains(row)) && !inline.contains("recv_ref"), "{inline}");
}

#[test]
fn latency_explains_invalid_arguments() {
    for (arguments, part) in [
        (
            &["--rate", "fast"][..],
            r#"--rate must be a number from 1 to 10M (such as 500, 10k or 1M), `idle` or `cost`, got "fast""#,
        ),
        (&["--rate", "0"], r#"`cost`, got "0""#),
        (&["--rate", "11M"], r#"`cost`, got "11M""#),
        (&["--rate", "99999999999999999M"], "--rate must be a number from 1 to 10M"),
        (&["--rate"], "missing argument for option '--rate'"),
        (&["--seconds", "0"], r#"--seconds must be a number from 0.01 to 60, got "0""#),
        (&["--seconds", "nan"], r#"--seconds must be a number from 0.01 to 60, got "nan""#),
        (&["--rounds", "0"], r#"--rounds must be a number from 1 to 1000, got "0""#),
        (
            &["--only", "zeromq"],
            r#"--only must be a part of a name, got "zeromq": choose from eventcast handler; "#,
        ),
        (&["--slow"], "invalid option '--slow'"),
        (&["now"], r#"unexpected argument "now""#),
    ] {
        let output = run(LATENCY, arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(
            errors.contains(part) && errors.ends_with("Try `latency --help`.\n"),
            "{arguments:?}: {errors}"
        );
        assert!(output.stdout.is_empty());
    }
    assert!(printed(LATENCY, &["--help"]).contains("Usage: latency [OPTIONS]"));
}

#[cfg(target_os = "linux")]
#[test]
fn latency_ends_immediately_when_it_is_interrupted() {
    let output = interrupt::interrupted(Command::new(LATENCY).args(["--seconds", "60", "--rate", "1k"]));
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors, "latency: interrupted; nothing to show before the end\n");
}

#[test]
fn versus_measures_every_contender() {
    let arguments = ["--quick", "--no-idle", "--case", "1 to 4", "--json"];
    let document: Value = serde_json::from_str(&printed(VERSUS, &arguments)).unwrap();
    let rows = document["cases"][0]["rows"].as_array().unwrap();
    assert_eq!((rows[0]["name"].as_str(), rows.len()), (Some("eventcast"), 24));
    for row in rows {
        let (name, lost) = (row["name"].as_str().unwrap(), row["lost"].as_f64().unwrap());
        assert!(lost == 0.0 || name == "tokio broadcast", "{name} lost {lost}");
        assert!(row["median"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["publisher_nanos_per_event"].as_f64().unwrap() > 0.0, "{row}");
    }
}

/// If a single thread publishes and receives, no contender loses an event. The other contenders are
/// compared with eventcast inline, because a bus with a dispatcher cannot take part.
#[test]
fn versus_measures_both_kinds_of_bus() {
    let arguments = ["--quick", "--case", "one thread", "--json"];
    let document: Value = serde_json::from_str(&printed(VERSUS, &arguments)).unwrap();
    let cases = document["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let rows = case["rows"].as_array().unwrap();
        let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["eventcast, inline", "crossbeam channel per watcher", "tokio broadcast"]);
        assert!(rows.iter().all(|row| row["lost"] == 0.0), "{case}");
        assert_eq!(rows[0]["ours_to_this"], 1.0);
    }
    let idle: Vec<_> = document["idle"].as_array().unwrap().iter().map(|row| &row["name"]).collect();
    assert_eq!(idle[..2], ["eventcast", "eventcast, inline"]);
    let arguments = ["--quick", "--no-idle", "--case", "1 to 1, tasks", "--only", "inline", "--json"];
    let document: Value = serde_json::from_str(&printed(VERSUS, &arguments)).unwrap();
    let rows = document["cases"][0]["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["eventcast", "eventcast, inline"]);
}

#[test]
fn recording_measures_every_row() {
    let document: Value = serde_json::from_str(&printed(RECORDING, &["--quick", "--json"])).unwrap();
    let rows = document["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["row"].as_str().unwrap()).collect();
    let help = printed(RECORDING, &["--help"]);
    let (_, listed) = help.split_once("Rows:\n").unwrap();
    let listed = listed.lines().map_while(|line| line.strip_prefix("  ")?.split(' ').next());
    assert_eq!(names, listed.collect::<Vec<_>>());
    assert_eq!(names.len(), if cfg!(feature = "sqlite") { 14 } else { 12 });
    for row in rows {
        let figures = row["figures"].as_array().unwrap();
        assert!(!figures.is_empty(), "{row}");
        for figure in figures {
            let rounds = figure["rounds"].as_array().unwrap();
            assert_eq!((rounds.len(), &rounds[0]), (1, &figure["median"]), "{figure}");
            // The system may not register any CPU time in such a short round.
            let may_be_none =
                ["allocations", "us", "per M events"].map(Value::from).contains(&figure["unit"]);
            assert!(may_be_none || rounds[0].as_f64().unwrap() > 0.0, "{figure}");
        }
    }
}

#[test]
fn recording_measures_what_it_is_asked_for() {
    let arguments = ["--row", "skip", "--row", "find", "--events", "2000", "--rounds", "3", "--markdown"];
    let table = printed(RECORDING, &arguments);
    let (conditions, table) = table.split_once("\n\n").unwrap();
    assert!(
        conditions.starts_with("quiet: load ") || conditions.starts_with("NOT QUIET, so "),
        "{conditions}"
    );
    let rows: Vec<_> = table.lines().skip(2).collect();
    assert!(rows.iter().all(|row| row.split(" | ").nth(3) == Some("3")), "{table}");
    assert!(rows[0].starts_with("| skipped by the spam filter | "), "{table}");
    let find = rows.iter().find(|row| row.starts_with("| MemorySink::find by object, 2000 events | "));
    assert!(find.is_some_and(|row| row.ends_with(" | 3 | ms | - |")), "{table}");
    assert!(rows.last().unwrap().starts_with("| MemorySink::find by object, 2000 events, preemptions | "));
}

#[test]
fn recording_explains_invalid_arguments() {
    for (arguments, part) in [
        (
            &["--row", "slowest"][..],
            r#"--row must be a part of a name, got "slowest": choose from caller; handler; new; "#,
        ),
        (&["--rounds", "0"], r#"--rounds must be a number from 1 to 1000, got "0""#),
        (&["--events", "999"], r#"--events must be a number from 1000 to 16777216, got "999""#),
        (&["--events", "many"], r#"16777216, got "many""#),
        (&["--events"], "missing argument for option '--events'"),
        (&["--slow"], "invalid option '--slow'"),
        (&["now"], r#"unexpected argument "now""#),
    ] {
        let output = run(RECORDING, arguments);
        let errors = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {errors}");
        assert!(
            errors.contains(part) && errors.ends_with("Try `recording --help`.\n"),
            "{arguments:?}: {errors}"
        );
        assert!(output.stdout.is_empty());
    }
}
