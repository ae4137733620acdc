//! Checks that the page of figures is up to date with its data files, and that the program that
//! generates both works.

mod interrupt;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_eventcast-benches");

fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Creates an empty directory with the given name.
fn empty(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.exists() {
        fs::remove_dir_all(&folder).unwrap();
    }
    fs::create_dir_all(folder.join("figures")).unwrap();
    folder
}

fn run(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn rendered(folder: &Path) {
    let output = run(&["render", "--out", folder.to_str().unwrap()]);
    assert!(output.status.success(), "{}", errors(&output));
}

/// Returns the page's files in the given directory, keyed by path.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut paths = vec![folder.join("figures.md")];
    paths.extend(fs::read_dir(folder.join("figures")).unwrap().map(|entry| entry.unwrap().path()));
    let file = |path: PathBuf| {
        let name = path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned();
        (name, fs::read_to_string(path).unwrap())
    };
    paths.into_iter().map(file).collect()
}

/// Returns the data files of the repository.
fn data_files() -> BTreeMap<String, String> {
    let is_data = |name: &String| Path::new(name).extension().is_some_and(|end| end == "json");
    files(&documents()).into_iter().filter(|(name, _)| is_data(name)).collect()
}

#[test]
fn the_page_and_the_plots_match_the_data_files() {
    let folder = empty("render");
    for (name, text) in data_files() {
        fs::write(folder.join(name), text).unwrap();
    }
    rendered(&folder);
    let (kept, made) = (files(&documents()), files(&folder));
    assert_eq!(kept.keys().collect::<Vec<_>>(), made.keys().collect::<Vec<_>>());
    for (name, text) in kept {
        let hint = "`cargo run --release -p eventcast-benches -- render` writes it again";
        assert!(made[&name] == text, "docs/{name} is not the one that the data files give: {hint}");
    }
}

#[test]
fn the_page_shows_every_machine() {
    let page = fs::read_to_string(documents().join("figures.md")).unwrap();
    for (name, text) in data_files() {
        let data: Value = serde_json::from_str(&text).unwrap();
        let machine = data["machine"]["name"].as_str().unwrap();
        assert!(page.contains(&format!("\n## {machine}\n")), "{machine} is missing");
        let plots =
            ["parking", "throughput", "latency"].map(|kind| name.replace(".json", &format!("-{kind}.svg")));
        assert!(plots.iter().all(|plot| page.contains(&format!("({plot})"))), "{machine} has no plots");
        assert_eq!(data["quick"], false, "the figures of {machine} are those of a trial");
    }
}

/// Sets the given fields of the last case of `versus`, the first section of `latency` and the first
/// row of `recording` in a real data file, and returns the page that is rendered from it.
fn page_with(name: &str, conditions: &Value, disturbance: &Value) -> String {
    let folder = empty(name);
    let mut data: Value = serde_json::from_str(&data_files()["figures/amd-epyc.json"]).unwrap();
    for (program, parts, part) in
        [("versus", "cases", 5), ("latency", "sections", 0), ("recording", "rows", 0)]
    {
        data[program]["conditions"] = serde_json::json!({"disturbances": conditions});
        data[program][parts][part]["disturbance"] = disturbance.clone();
    }
    fs::write(folder.join("figures/amd-epyc.json"), data.to_string()).unwrap();
    rendered(&folder);
    fs::read_to_string(folder.join("figures.md")).unwrap()
}

#[test]
fn figures_that_were_not_taken_on_a_quiet_machine_are_not_shown() {
    let (none, null) = (serde_json::json!([]), Value::Null);
    let quiet = page_with("quiet-machine", &none, &null);
    assert!(!quiet.contains("are missing") && !quiet.contains("did not yet judge"), "{quiet}");
    let line =
        |page: &str, start: &str| page.lines().find(|line| line.starts_with(start)).unwrap().to_owned();
    let ours = line(&quiet, "| AMD EPYC, ");
    assert!(!ours.contains('–'), "{ours}");

    let halves = page_with("halves", &none, &"odd and even rounds differ".into());
    assert!(halves.contains("\n- 64 to 1: odd and even rounds differ\n- One event at a time"), "{halves}");
    assert!(halves.contains("\n- caller: odd and even rounds differ\n"), "{halves}");
    // The last case, and the only section of the table.
    let (shown, _) = ours.trim_end_matches(" |").rsplit_once(" | ").unwrap();
    let (shown, _) = shown.rsplit_once(" | ").unwrap();
    assert_eq!(line(&halves, "| AMD EPYC, "), format!("{shown} | – | – |"));
    assert!(line(&halves, "| `caller` | ").contains(" | – | "), "{halves}");

    let load = page_with("load", &serde_json::json!(["too much load"]), &null);
    assert_eq!(line(&load, "| AMD EPYC, "), "| AMD EPYC, 2026-11-24 | – | – | – | – | – | – | – |");
    for part in ["1 to 1", "1 to 16, tasks", "1 M events a second", "correlator"] {
        assert!(load.contains(&format!("\n- {part}: too much load\n")), "{part}: {load}");
    }
}

#[test]
fn a_quick_report_measures_and_renders() {
    let folder = empty("quick");
    let out = folder.to_str().unwrap();
    let programs = Path::new(PROGRAM).parent().unwrap().to_str().unwrap();
    let output = run(&["report", "--quick", "--name", "A machine (1)", "--out", out, "--programs", programs]);
    assert!(output.status.success(), "{}", errors(&output));
    let made = files(&folder);
    let names: Vec<_> = made.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "figures.md",
            "figures/a-machine-1-latency.svg",
            "figures/a-machine-1-parking.svg",
            "figures/a-machine-1-throughput.svg",
            "figures/a-machine-1.json"
        ]
    );
    let data: Value = serde_json::from_str(&made["figures/a-machine-1.json"]).unwrap();
    assert_eq!((&data["machine"]["name"], &data["quick"]), (&"A machine (1)".into(), &true.into()));
    for rows in [&data["versus"]["cases"], &data["latency"]["sections"], &data["recording"]["rows"]] {
        assert!(rows.as_array().is_some_and(|rows| rows.len() > 5), "{rows}");
    }
    for part in [
        "## A machine (1)\n",
        "| eventcast | ",
        "| eventcast, inline | ",
        "| one thread: ",
        "| eventcast handler | ",
        "| eventcast inline, DropOldest | ",
        "| eventcast inline try_publish | ",
        "| `correlator` | ",
        "trial",
    ] {
        assert!(made["figures.md"].contains(part), "{part} is missing:\n{}", made["figures.md"]);
    }
    rendered(&folder);
    assert_eq!(files(&folder), made, "a second rendering gives the same bytes");
}

#[test]
fn it_explains_invalid_arguments() {
    for (arguments, part) in [
        (&[][..], r#"the command must be `report` or `render`, got """#),
        (&["measure"], r#"the command must be `report` or `render`, got "measure""#),
        (&["report", "now"], r#"unexpected argument "now""#),
        (&["report", "--slow"], "invalid option '--slow'"),
        (&["report", "--quick"], "--quick needs --out DIR"),
        (&["report", "--out"], "missing argument for option '--out'"),
        (&["render", "--name", "x"], "render measures nothing"),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        let errors = errors(&output);
        assert!(errors.contains(part), "{arguments:?}: {errors}");
        assert!(errors.ends_with("Try `eventcast-benches --help`.\n"), "{arguments:?}: {errors}");
        assert!(output.stdout.is_empty());
    }
    let help = run(&["--help"]);
    assert!(help.status.success() && String::from_utf8(help.stdout).unwrap().contains("Usage: "));
}

#[test]
fn it_explains_why_it_cannot_make_the_page() {
    let (folder, long) = (empty("wrong"), "x".repeat(101));
    let out = folder.to_str().unwrap();
    for (arguments, part) in [
        (&["render"][..], "cannot find a data file in "),
        (&["report", "--name", "a|b", "--programs", "/nowhere"], "--name must be of letters, "),
        (&["report", "--name", "...", "--programs", "/nowhere"], r#"got "...""#),
        (&["report", "--name", &long, "--programs", "/nowhere"], "have 1 to 100 letters or digits of ASCII"),
        (&["report", "--name", "x", "--programs", "/nowhere"], "cannot run /nowhere/versus: "),
    ] {
        let output = run(&[arguments, &["--out", out]].concat());
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(errors(&output).contains(part), "{arguments:?}: {}", errors(&output));
    }
    assert_eq!(fs::read_dir(folder.join("figures")).unwrap().count(), 0, "a failure writes nothing");
    fs::write(folder.join("figures/broken.json"), "{\"machine\": 1}").unwrap();
    // `report` fails before it measures anything.
    for arguments in [&["render"][..], &["report", "--name", "x", "--programs", "/nowhere"]] {
        let output = run(&[arguments, &["--out", out]].concat());
        let errors = errors(&output);
        assert!(errors.contains("cannot read ") && errors.contains("broken.json: invalid type"), "{errors}");
    }
}

/// Two machine names may map to the same data file.
#[test]
fn it_keeps_the_results_of_another_machine() {
    let folder = empty("other");
    let (name, text) = data_files().into_iter().next().unwrap();
    let other =
        serde_json::from_str::<Value>(&text).unwrap()["machine"]["name"].as_str().unwrap().to_uppercase();
    fs::write(folder.join(&name), &text).unwrap();
    let out = folder.to_str().unwrap();
    let other = format!("{other}.");
    let output = run(&["report", "--name", &other, "--programs", "/nowhere", "--out", out]);
    let errors = errors(&output);
    assert!(errors.contains("choose another --name, or remove the file"), "{errors}");
    assert_eq!(fs::read_to_string(folder.join(&name)).unwrap(), text);
}

#[test]
fn it_finds_a_page_that_it_cannot_write_before_it_measures() {
    let folder = empty("page");
    fs::create_dir(folder.join("figures.md")).unwrap();
    let out = folder.to_str().unwrap();
    let output = run(&["report", "--name", "x", "--programs", "/nowhere", "--out", out]);
    let errors = errors(&output);
    assert!(errors.contains("cannot write ") && errors.contains("figures.md: "), "{errors}");
    assert_eq!(fs::read_dir(folder.join("figures")).unwrap().count(), 0);
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_report_writes_nothing() {
    let folder = empty("interrupted");
    let programs = Path::new(PROGRAM).parent().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["report", "--name", "x", "--out"]).arg(&folder).arg("--programs").arg(programs);
    let output = interrupt::interrupted(&mut command);
    assert_eq!(output.status.code(), Some(130));
    let errors = errors(&output);
    assert!(errors.ends_with("eventcast-benches: interrupted, nothing is written\n"), "{errors}");
    assert!(output.stdout.is_empty());
    assert_eq!(fs::read_dir(folder.join("figures")).unwrap().count(), 0);
}
