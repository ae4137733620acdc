//! Tests of the table that `--once` prints.

use std::fmt::Write as _;
use std::time::Duration;

use eventcast::{Broadcaster, EventBroadcaster, MemorySink, ObjectReference};
use serde_json::json;

use super::{Place, line, watcher};
use crate::support::output::{Ended, assert_harmless, run, run_with};

/// Returns the output for a file with this text, which must be shown.
#[track_caller]
fn shown(text: impl AsRef<[u8]>, args: &[&str]) -> String {
    let place = Place::new(text);
    let ended = run(&[&["top", place.path()], args].concat());
    assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{}", ended.stdout);
    assert_harmless(&ended.stdout);
    ended.stdout
}

/// Returns the names of the watchers in the order of the table, with the mark of slow ones.
fn names(table: &str) -> Vec<String> {
    let rows = table.lines().skip_while(|line| !line.contains("WATCHER")).skip(1);
    let rows = rows.take_while(|line| !line.is_empty());
    rows.map(|row| row.trim_start().replace("S ", "S").split(' ').next().unwrap().to_owned()).collect()
}

#[test]
fn the_newest_state_and_the_rates_are_a_table() {
    let mut busy = watcher("busy", 4000, 3000, 900);
    busy["dropped"] = json!({"incoming": 90, "oldest": 10, "conflated": 5000});
    busy["policy"] = json!({"wait_for": "250ms"});
    busy["high_water"] = json!(1000);
    let text = line(0, 100, &[watcher("busy", 0, 0, 0), watcher("idle", 3, 3, 0)])
        + &line(10, 4100, &[busy, watcher("idle", 18, 18, 0)]);
    let expected = "\
bus: accepted 4,100 (400/s), pending 2, refused 0 (0/s), unheard 0 (0/s)

  WATCHER  POLICY          QUEUED  LAG   HIGH  IN/s  OUT/s  LOST/s  LOST  REASON     OLDEST
  busy     wait_for:250ms     900  900  1,000   400    300      10   100  incoming+       -
  idle     drop_incoming        0    0      0   1.5    1.5       0     0  -               -

2 lines read
";
    assert_eq!(shown(&text, &[]), expected);
    // The last line may lack its newline.
    assert_eq!(shown(text.trim_end(), &["--once"]), expected);
    let piped = run_with(&["top", "-"], text.as_bytes());
    assert_eq!((piped.code, &*piped.stdout, &*piped.stderr), (Some(0), expected, ""));
}

#[test]
fn lines_without_times_have_no_rates() {
    let text =
        "{\"accepted\": 1, \"watchers\": []}\n{\"accepted\": 9, \"watchers\": [], \"time\": \"noon\"}\n";
    assert_eq!(
        shown(text, &[]),
        "bus: accepted 9, pending 0, refused 0, unheard 0\n\n2 lines read\nno rates: they require two lines of a bus \
         with different values of `time`\n"
    );
}

#[test]
fn the_times_may_be_timestamps() {
    let line = |time: &str, accepted| json!({"time": time, "accepted": accepted, "watchers": []});
    let text = format!("{}\n{}\n", line("2026-01-02T03:04:05Z", 0), line("2026-01-02T04:04:05.5+01:00", 10));
    assert!(shown(text, &[]).starts_with("bus: accepted 10 (20/s), "));
}

#[test]
fn lines_that_are_not_statistics_are_counted_and_skipped() {
    let good = line(0, 7, &[]);
    let (half, _) = good.split_at(good.len() / 2);
    let long = format!("{{\"accepted\": 1, \"watchers\": [], \"x\": \"{}\"}}\n", "x".repeat(16 << 20));
    let text = format!("{half}\n{half}{good}{{}}\n\n  \nhello\n[1]\n{long}{good}{{\"accepted\"");
    let shown = shown(text, &[]);
    assert!(shown.starts_with("bus: accepted 7"), "{shown}");
    assert!(shown.contains("\n1 line read, 7 skipped (3 torn, 3 foreign, 1 too large)\n"), "{shown}");
}

#[test]
fn a_program_that_restarts_starts_anew() {
    let at = |time, accepted, delivered| {
        line(time, accepted, &[watcher("a", accepted, delivered, accepted - delivered)])
    };
    let before = at(0, 1000, 900) + &at(1, 1100, 900) + &at(20, 50, 40);
    let table = shown(&before, &[]);
    assert!(table.starts_with("bus: accepted 50, pending 2,"), "{table}");
    assert!(
        table.contains("\n3 lines read, 1 restart\n") && table.contains("   -      -       -     0"),
        "{table}"
    );
    let table = shown(before + &at(21, 80, 60), &[]);
    assert!(table.starts_with("bus: accepted 80 (30/s), "), "{table}");
    assert!(table.contains("    30     20       0 "), "{table}");
    assert!(table.contains("\n4 lines read, 1 restart\n"), "{table}");
}

/// A watcher may be dropped, and another one of its name started.
#[test]
fn a_watcher_whose_counters_fall_starts_anew() {
    let text = line(0, 10, &[watcher("a", 10, 10, 0), watcher("b", 10, 10, 0)])
        + &line(2, 20, &[watcher("a", 4, 4, 0), watcher("b", 20, 20, 0)]);
    let table = shown(text, &[]);
    assert!(table.contains("\n2 lines read\n") && table.contains("     -      -       -     0"), "{table}");
    assert!(table.contains("     5      5       0     0"), "{table}");
}

#[test]
fn slow_watchers_are_marked_and_listed_first() {
    // This watcher receives events, but its oldest event is old.
    let old = |delivered| {
        let mut old = watcher("old", delivered + 1, delivered, 1);
        old["oldest_age"] = json!("1m5s");
        old
    };
    let lost = |count: u64| {
        let mut lost = watcher("losing", 100 + count, 100, 0);
        lost["dropped"] = json!({"incoming": count});
        lost
    };
    let text = line(0, 0, &[lost(0), old(0), watcher("stuck", 5, 5, 0), watcher("a", 0, 0, 0)])
        + &line(1, 0, &[lost(9), old(1), watcher("stuck", 9, 5, 4), watcher("a", 9, 0, 9)])
        + &line(7, 0, &[lost(900), old(2), watcher("stuck", 9, 5, 4), watcher("a", 19, 1, 18)]);
    let table = shown(&text, &[]);
    assert_eq!(names(&table), ["Sstuck", "Sold", "losing", "a"], "{table}");
    assert!(table.contains(", slow 2\n") && table.contains("  1m5s\n"), "{table}");
    assert_eq!(names(&shown(&text, &["--slow", "6s"])), ["Sold", "losing", "a", "stuck"]);
    assert_eq!(names(&shown(&text, &["--slow", "2m"])), ["losing", "a", "stuck", "old"]);
}

/// The clock may be set back. The time that a watcher has waited then starts anew.
#[test]
fn a_clock_that_is_set_back_makes_no_watcher_slow() {
    let stuck = [watcher("a", 1, 0, 1)];
    let back = line(100, 0, &stuck) + &line(3, 0, &stuck);
    assert_eq!(names(&shown(back.clone() + &line(8, 0, &stuck), &[])), ["a"]);
    assert_eq!(names(&shown(back + &line(9, 0, &stuck), &[])), ["Sa"]);
}

#[test]
fn the_buses_of_a_file_are_told_apart_by_name() {
    let bus = |name: &str, time, accepted| json!({"name": name, "time": time, "bus": {"accepted": accepted, "watchers": [watcher("w", accepted, 0, 0)]}});
    let text = format!("{}\n{}\n{}\n", bus("orders", 0, 10), bus("disks", 0, 1000), bus("orders", 1, 30));
    let table = shown(text, &[]);
    assert!(table.starts_with("disks: accepted 1,000, "), "{table}");
    assert!(
        table.contains("\norders: accepted 30 (20/s), ") && table.contains("\n3 lines read\n"),
        "{table}"
    );
    assert!(table.contains("\n  BUS     WATCHER  ") && table.contains("\n  orders  w "), "{table}");
}

#[test]
fn a_file_cannot_exhaust_the_memory_with_names() {
    let mut text = String::new();
    for bus in 0..1001 {
        let _ = writeln!(text, "{{\"name\": \"{bus}\", \"accepted\": 1, \"watchers\": []}}");
    }
    let table = shown(text, &[]);
    assert!(table.contains("\n1,000 lines read, 1 skipped (1 too large)\n"), "{table}");
    let watchers = vec![json!({"name": "", "offered": 0, "delivered": 0}); 100_001];
    let table = shown(line(0, 1, &[]) + &line(1, 2, &watchers), &[]);
    assert!(table.contains("\n1 line read, 1 skipped (1 too large)\n"), "{table}");
}

/// A name may contain a forged line and escape sequences that a terminal would interpret.
#[test]
fn hostile_names_are_escaped() {
    let name = "x\u{1b}[2J\u{9b}31m\r\u{202e}\u{200b}\nforged";
    let watcher = watcher(name, 1, 1, 0);
    let bus = |name: &str| json!({"name": name, "accepted": 1, "watchers": [watcher]});
    let table = shown(format!("{}\n{}\n", bus(name), bus("other")), &[]);
    assert!(!table.contains('\u{200b}') && table.lines().all(|line| line != "forged"), "{table}");
    assert!(table.contains(r"  x\u{1b}[2J\u{9b}31m\r\u{202e}\u{200b}\nforged  x\u{1b}[2J"), "{table}");
}

/// The statistics as the library itself writes them.
#[test]
fn the_statistics_of_a_bus_and_its_reports_are_shown() {
    let bus = Broadcaster::new().unwrap();
    let _full = bus.watch_builder().name("full").queue_capacity(2).watch().unwrap();
    let mut read = bus.watch_builder().name("read").watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    bus.flush(Duration::from_secs(60)).unwrap();
    assert_eq!(read.recv().unwrap().event(), Some(1));
    let stats = serde_json::to_string(&bus.stats()).unwrap();
    drop(read);
    let report = serde_json::to_string(&bus.shutdown()).unwrap();
    let table = shown(stats + "\n", &[]);
    assert!(table.starts_with("bus: accepted 3, pending 0, refused 0, unheard 0\n"), "{table}");
    assert!(table.contains("\n  full     drop_incoming       2    2     2 "), "{table}");
    assert!(table.contains("     1  incoming  ") && table.contains("\n  read     drop_incoming "), "{table}");
    let table = shown(report, &[]);
    assert_eq!(names(&table), ["full", "(departed)"], "{table}");

    let events = EventBroadcaster::new().unwrap();
    events.record_to(MemorySink::new()).unwrap();
    events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "");
    events.flush(Duration::from_secs(60)).unwrap();
    let table = shown(serde_json::to_string(&events.stats()).unwrap(), &[]);
    assert!(table.starts_with("bus: accepted 1, ") && names(&table) == ["recording"], "{table}");
}

#[test]
fn an_input_without_statistics_is_an_error_with_status_2() {
    let refused = |args: &[&str], input: &[u8], expected: &str| {
        let Ended { code, stdout, stderr } = run_with(&[&["top"], args].concat(), input);
        assert_eq!((code, &*stdout), (Some(2), ""), "{args:?}: {stderr}");
        assert!(stderr.contains(expected), "{args:?}: {stderr}");
        assert_harmless(&stderr);
    };
    let hint = "let the program write serde_json::to_string(&bus.stats()) and a newline once a second";
    refused(&["-"], b"", &format!("eventcast: cannot show stdin: the input is empty; {hint}\n"));
    let cause = "no line is a bus's statistics: 0 lines read, 2 skipped (1 torn, 1 foreign)";
    refused(&["-"], b"hello\n{\"acc", &format!("eventcast: cannot show stdin: {cause}; {hint}\n"));
    let binary: Vec<u8> = (0..=255).cycle().take(10_000).collect();
    let place = Place::new(binary);
    refused(&[place.path()], b"", "stats.jsonl': no line is a bus's statistics: 0 lines read, ");
    refused(&["/no/such/\u{1b}"], b"", r"eventcast: cannot read '/no/such/\u{1b}': No such file");
    refused(&[place.file.parent().unwrap().to_str().unwrap()], b"", "': Is a directory");
    refused(&[""], b"", "error: FILE must be a path or -, got ''");
    refused(&["--slow", "0s", "-"], b"", "error: --slow must be more than 0s, got '0s'");
    refused(
        &["--slow", "soon", "-"],
        b"",
        "error: --slow must be a duration such as 250ms or 1m30s, got 'soon'",
    );
}
