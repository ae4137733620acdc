//! Checks that each program terminates and prints the output that the documentation describes.

use test_support::program::{check_width, run};

const ASYNC_TASKS: &str = env!("CARGO_BIN_EXE_async_tasks");
const CUSTOM_SINK: &str = env!("CARGO_BIN_EXE_custom_sink");
const HELLO: &str = env!("CARGO_BIN_EXE_hello");
const SHUTDOWN: &str = env!("CARGO_BIN_EXE_shutdown");
const SSE: &str = env!("CARGO_BIN_EXE_sse");

const PROGRAMS: [&str; 5] = [ASYNC_TASKS, CUSTOM_SINK, HELLO, SHUTDOWN, SSE];

#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_is_a_quiet_end_and_a_full_disk_is_an_error() {
    PROGRAMS.into_iter().for_each(test_support::program::check_closed_pipe_and_full_disk);
}

#[test]
fn no_line_is_much_wider_than_a_terminal() {
    PROGRAMS.into_iter().for_each(check_width);
}

#[test]
fn async_tasks_loses_nothing_when_the_time_is_up() {
    let (stdout, _) = run(ASYNC_TASKS);
    check_async_tasks(&stdout, "the clock");
}

#[cfg(unix)]
#[test]
fn async_tasks_loses_nothing_at_ctrl_c() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader, Read};
    use std::process::{Command, Stdio};

    let mut child = Command::new(ASYNC_TASKS)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program starts");
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
fn custom_sink_stores_some_events_and_reports_the_rest() {
    // The store is busy once, disconnects once and loses an event once.
    let (stdout, stderr) = run(CUSTOM_SINK);
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines[..2], ["1 x Disk/sda Mounted: mounted on /", "4 x Disk/sda AlmostFull: 97 % are used"]);
    let stats = "store: created 3, updated 2, skipped 0, rejected 1, recreated 1, retried 2";
    assert_eq!(lines[2], stats, "{lines:#?}");
    assert!(lines[3].starts_with("    last failure: 1 attempt since "), "{lines:#?}");
    let lost = "lost: store: 1 event lost (rejected): Disk/sda Smart: rejected: message must be at most 1024 bytes\n";
    assert_eq!(stderr, lost);
}

#[test]
fn hello_stores_what_it_records_and_counts_the_repeat() {
    let (stdout, log) = run(HELLO);
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

#[test]
fn shutdown_reports_the_abandoned_events() {
    let (stdout, _) = run(SHUTDOWN);
    let lines: Vec<&str> = stdout.lines().map(str::trim).collect();
    for line in [
        "complete: published 100, accepted 100, rejected 0 (full 0, closed 0)",
        "handler (drop_incoming): offered 100, delivered 100, dropped 0, queued 0, lag 0",
        "reader (drop_incoming): offered 100, delivered 0, dropped 0, queued 100, lag 100",
        "incomplete: published 10, accepted 10, rejected 0 (full 0, closed 0)",
        "stuck (wait): offered 10, delivered 0, dropped 8 (abandoned 8), queued 2, lag 2",
        "incomplete: published 1, accepted 1, rejected 0 (full 0, closed 0)",
        "lost: recording: 1 event lost (abandoned): Job/backup Done: may be tried again: \
         the store is being restarted",
    ] {
        assert!(lines.contains(&line), "{line}: {lines:#?}");
    }
}

#[test]
fn sse_resumes_after_the_last_id_and_reports_a_gap() {
    assert_eq!(
        run(SSE).0,
        "first: [\"one\", \"two\"], then after 2: [\"three\", \"four\", \"five\"], and much later: \
         [\"2 missing\", \"three\", \"four\", \"five\"]\n"
    );
}
