//! The examples: each runs, ends on its own, prints what it promises, and stays one screen or two.

mod clients;
mod program;
mod resume;

use std::fs;

use program::run;

/// Returns the number before `what`.
fn number(text: &str, what: &str) -> u64 {
    let before = text.split(what).next().expect("a first part").trim_end();
    let digits = before.rsplit(' ').next().expect("a last word");
    digits.parse().unwrap_or_else(|_| panic!("no number before {what:?} in {text:?}"))
}

/// Returns the names of the examples that this build has.
fn names() -> Vec<String> {
    let needs_recorder = ["custom_sink", "hello", "shutdown"];
    let names = sources().into_iter().map(|(name, _)| name);
    names.filter(|name| cfg!(feature = "recorder") || !needs_recorder.contains(&name.as_str())).collect()
}

/// Returns the examples, each with its name and its source.
fn sources() -> Vec<(String, String)> {
    let entries = fs::read_dir(program::folder()).expect("the folder");
    let path = entries.map(|entry| entry.expect("an entry").path());
    let read = path.filter(|path| path.is_file()).map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("UTF-8"))
    });
    read.collect()
}

#[test]
fn there_are_at_most_ten_and_each_is_short() {
    let sources = sources();
    assert!((8..=10).contains(&sources.len()), "{} examples", sources.len());
    for (name, text) in sources {
        let lines = text.lines().count();
        assert!(lines <= 120, "{name} has {lines} lines: an example teaches one thing in at most 120");
    }
    for entry in fs::read_dir(program::folder()).expect("the folder") {
        let path = entry.expect("an entry").path();
        assert!(path.extension().is_some_and(|extension| extension == "rs"), "{}", path.display());
    }
}

#[test]
fn a_page_names_each_example() {
    let mut pages = String::new();
    let mut folders = vec![program::folder().with_file_name("src"), program::folder().with_file_name("docs")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
                pages.push_str(&fs::read_to_string(path).expect("UTF-8"));
            }
        }
    }
    for (name, _) in sources() {
        assert!(pages.contains(&format!("`examples/{name}.rs`")), "no page names examples/{name}.rs");
    }
}

/// A reader that closes the pipe, like `head -1`, has read enough. A full disk is an error.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_is_a_quiet_end_and_a_full_disk_is_an_error() {
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;
    use std::process::Stdio;

    let check = |name: &str, stdout: Stdio, code: i32| {
        let output = program::command(name).stdout(stdout).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(code), "{name}: {output:#?}");
        program::printed(output).1
    };
    // This one writes nothing.
    for name in names().iter().filter(|name| *name != "model_checking") {
        let full = fs::File::options().write(true).open("/dev/full").expect("the device");
        let stderr = check(name, full.into(), 1);
        assert!(
            stderr.contains("No space left on device") && !stderr.contains("panicked"),
            "{name}: {stderr}"
        );
        // The other end is dropped at once.
        let closed = OwnedFd::from(UnixStream::pair().expect("a pair").0);
        let stderr = check(name, closed.into(), 0);
        assert!(!stderr.contains("Broken pipe") && !stderr.contains("panicked"), "{name}: {stderr}");
    }
}

#[cfg(feature = "recorder")]
#[test]
fn hello_stores_what_it_records_and_counts_the_repeat() {
    let (stdout, log) = run("hello");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines[0].starts_with("complete: published 4, accepted 4, rejected 0 "), "{lines:#?}");
    assert!(
        lines[1..4].iter().all(|line| line.starts_with("  ")),
        "a watcher each, and a recording: {lines:#?}"
    );
    assert!(lines[4].starts_with("LAST SEEN "), "{lines:#?}");
    let seen = lines[5..].iter().map(|row| (row.contains(" (x2 over "), row.rsplit("   ").next()));
    assert_eq!(
        seen.collect::<Vec<_>>(),
        [(false, Some("mounted on /")), (true, Some("97 % are used")), (false, Some("98 % are used"))],
        "{lines:#?}"
    );
    assert_eq!(log.lines().count(), 4, "{log}");
}

/// A report on one line has up to 278 columns. The longest line here is a loss with its cause.
#[test]
fn no_line_is_much_wider_than_a_terminal() {
    for name in names() {
        let (stdout, _) = run(&name);
        for line in stdout.lines() {
            assert!(line.chars().count() <= 120, "{name}: {line}");
        }
    }
}

#[test]
fn policies_shows_what_each_policy_costs() {
    let (stdout, _) = run("policies");
    let rows: Vec<Vec<&str>> = stdout
        .lines()
        .skip(1)
        .map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        rows[..4],
        [
            ["drop_incoming", "12", "8 (incoming 8)", "1 2 3 4 [8 missing]"],
            ["evict", "12", "0", "1 2 3 4 [evicted]"],
            ["drop_oldest", "12", "8 (oldest 8)", "[8 missing] 9 10 11 12"],
            ["wait_for:1ms", "12", "8 (timed out 8)", "1 2 3 4 [8 missing]"],
        ]
    );
    // The bus lost nothing that it accepted. Seven events found room, fewer on a very slow machine.
    let accepted: u64 = rows[4][1].parse().expect("a number");
    assert!((1..=7).contains(&accepted), "{rows:#?}");
    let read = (1..=accepted).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(rows[4][2..], ["0", &read]);
}

#[test]
fn filters_shows_each_watcher_its_part() {
    let (stdout, _) = run("filters");
    assert_eq!(
        stdout,
        "WATCHER      OFFERED  FILTERED\n\
         failures     6        54\n\
         bob          8        52\n\
         everything   60       0\n\
         late         20       0\n\
         failed: [4, 9, 14, 19, 24, 29]; done for bob: 8\n\
         the late watcher knows all 30 jobs\n"
    );
}

#[test]
fn async_tasks_loses_nothing_when_the_time_is_up() {
    let (stdout, _) = run("async_tasks");
    check_async_tasks(&stdout, "the clock");
}

#[cfg(unix)]
#[test]
fn async_tasks_loses_nothing_at_ctrl_c() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader, Read};
    use std::process::Stdio;

    let mut child =
        program::command("async_tasks").stdout(Stdio::piped()).spawn().expect("the program starts");
    let mut stdout = BufReader::new(child.stdout.take().expect("piped"));
    let mut text = String::new();
    stdout.read_line(&mut text).expect("UTF-8");
    assert!(text.starts_with("publishing "), "{text}");
    kill_process(Pid::from_child(&child), Signal::INT).expect("the program runs");
    stdout.read_to_string(&mut text).expect("UTF-8");
    assert!(child.wait().expect("it can be waited for").success(), "{text}");
    check_async_tasks(&text, "Ctrl-C");
}

fn check_async_tasks(stdout: &str, stopped_by: &str) {
    let lines: Vec<&str> = stdout.lines().collect();
    let [_, stopped, published, read, last] = lines[..] else { panic!("{lines:#?}") };
    assert_eq!(stopped, format!("stopped by {stopped_by}"));
    let events = published.rsplit(' ').next().expect("a number");
    assert_eq!(read, format!("read from a stream: {events}, in batches: {events}, by a handler: {events}"));
    assert_eq!(last, "nothing was lost");
}

#[test]
fn sse_resumes_after_the_last_id_and_reports_a_gap() {
    assert_eq!(
        run("sse").0,
        "first: [\"one\", \"two\"], then after 2: [\"three\", \"four\", \"five\"], and much later: \
         [\"2 missing\", \"three\", \"four\", \"five\"]\n"
    );
}

#[cfg(feature = "recorder")]
#[test]
fn custom_sink_stores_what_can_be_stored_and_tells_of_the_rest() {
    // The store is busy once, disconnects once and forgets once.
    let (stdout, stderr) = run("custom_sink");
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..2], ["1 x Disk/sda Mounted: mounted on /", "4 x Disk/sda AlmostFull: 97 % are used"]);
    let stats = "store: created 3, updated 2, skipped 0, rejected 1, recreated 1, retried 2";
    assert_eq!(lines[2], stats, "{lines:#?}");
    assert!(lines[3].starts_with("    last failure: 1 attempt since "), "{lines:#?}");
    let lost = "lost: store: 1 event lost (rejected): Disk/sda Smart: rejected: message must be at most 1024 bytes\n";
    assert_eq!(stderr, lost);
}

#[test]
fn daemon_journals_everything_and_counts_what_the_view_missed() {
    let (stdout, _) = run("daemon");
    let lines: Vec<&str> = stdout.lines().collect();
    let received = number(lines[0], "received");
    let accepted = received - number(lines[0], "of them refused");
    assert!(received > 0, "{lines:#?}");
    assert_eq!(number(lines[1], "written"), accepted, "{lines:#?}");
    assert_eq!(number(lines[1], "shown") + number(lines[1], "missed"), accepted, "{lines:#?}");
    let report = format!("complete: published {received}, accepted {accepted}, ");
    assert!(lines[2].starts_with(&report), "{lines:#?}");
    // Each watcher, or the sum of those that have ended.
    assert!(lines[3..].iter().all(|line| line.starts_with("  ")), "{lines:#?}");
}

#[cfg(feature = "recorder")]
#[test]
fn shutdown_reports_what_was_given_up() {
    let (stdout, _) = run("shutdown");
    let lines: Vec<&str> = stdout.lines().map(str::trim).collect();
    for line in [
        "complete: published 100, accepted 100, rejected 0 (full 0, stopped 0)",
        "handler (drop_incoming): offered 100, delivered 100, dropped 0, queued 0, lag 0",
        "reader (drop_incoming): offered 100, delivered 0, dropped 0, queued 100, lag 100",
        "incomplete: published 10, accepted 10, rejected 0 (full 0, stopped 0)",
        "stuck (wait): offered 10, delivered 0, dropped 8 (abandoned 8), queued 2, lag 2",
        "incomplete: published 1, accepted 1, rejected 0 (full 0, stopped 0)",
        "lost: recording: 1 event lost (abandoned): Job/backup Done: may be tried again: \
         the store is being restarted",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
}

#[test]
fn sizing_finds_the_length() {
    let (stdout, _) = run("sizing");
    assert_eq!(
        stdout,
        "QUEUE  OFFERED  DELIVERED  DROPPED  HIGH WATER\n\
         100    3000     900        2100     100\n\
         300    3000     2700       300      300\n\
         600    3000     3000       0        600\n\
         1000   3000     3000       0        600\n\
         the queue must hold 600 events\n"
    );
}

/// `.ci/run outside` runs its models.
#[test]
fn model_checking_passes_without_a_model() {
    assert_eq!(run("model_checking").0, "");
}
