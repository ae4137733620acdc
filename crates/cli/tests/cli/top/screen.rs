//! Tests of the display on a terminal.

use std::fs::{self, File};
use std::io::Write as _;
use std::process::Command;

use rustix::process::Signal;
use serde_json::json;

use super::{Place, line, watcher};
use crate::support::full_screen::FullScreen;
use crate::support::output::eventcast;
use crate::support::terminal::run_on_terminal;

impl Place {
    /// Starts the program on this file, on a terminal of the usual size.
    fn top(&self) -> FullScreen {
        FullScreen::start(&eventcast(&["top", self.path()]), 24, 80)
    }

    fn append(&self, text: &str) {
        File::options().append(true).open(&self.file).unwrap().write_all(text.as_bytes()).unwrap();
    }
}

/// Ends the program with a key, which must succeed.
#[track_caller]
fn quit(mut screen: FullScreen, key: &str) {
    screen.press(key);
    assert_eq!(screen.end().0, Some(0));
}

/// Returns the names of the watchers on the screen, from top to bottom.
fn names(shown: &str) -> Vec<&str> {
    let rows = shown.lines().skip_while(|line| !line.contains("WATCHER")).skip(1);
    rows.map_while(|row| row.strip_prefix("  ").or(row.strip_prefix("S "))?.split(' ').next()).collect()
}

#[test]
fn a_growing_file_is_followed() {
    let first = line(0, 100, &[watcher("a", 10, 10, 0)]);
    let place = Place::new(&first);
    let mut screen = place.top();
    screen.wait_for(&["bus: accepted 100, pending 2, ", "1 line read, rows 1-1 of 1", "q quit  p pause"]);
    place.append(&line(2, 300, &[watcher("a", 70, 50, 20)]));
    let shown = screen.wait_for(&["bus: accepted 300 (100/s), ", "2 lines read"]);
    assert!(shown.contains("  a        drop_incoming      20   20    30     20       0     0  -"), "{shown}");
    quit(screen, "q");
}

#[test]
fn a_line_is_read_when_it_is_complete() {
    let place = Place::new("");
    let mut screen = place.top();
    screen.wait_for(&["no statistics yet", "0 lines read"]);
    let whole = line(0, 7, &[]);
    let (start, end) = whole.split_at(20);
    place.append(start);
    // A key is handled before the next lines are read, so this frame was drawn after reading.
    screen.press("n");
    let shown = screen.wait_for(&["sorted by name"]);
    assert!(shown.contains("\n0 lines read\n"), "{shown}");
    place.append(end);
    screen.wait_for(&["bus: accepted 7,", "1 line read\n"]);
    place.append("hello\n{\"accepted\": 1\n");
    screen.wait_for(&["1 line read, 2 skipped (1 torn, 1 foreign)"]);
    quit(screen, "q");
}

#[test]
fn a_truncated_file_and_a_replaced_file_are_read_from_the_start() {
    let place = Place::new(line(0, 100, &[]) + &line(1, 200, &[]) + "{\"acc");
    let mut screen = place.top();
    screen.wait_for(&["bus: accepted 200", "2 lines read\n"]);
    let file = File::options().write(true).open(&place.file).unwrap();
    file.set_len(0).unwrap();
    screen.wait_for(&["2 lines read, 1 skipped (1 torn)"]);
    place.append(&line(2, 300, &[]));
    screen.wait_for(&["bus: accepted 300 (100/s)", "3 lines read, 1 skipped"]);

    let other = place.file.with_extension("new");
    fs::write(&other, line(3, 5, &[])).unwrap();
    fs::rename(&other, &place.file).unwrap();
    screen.wait_for(&["bus: accepted 5,", "4 lines read, 1 skipped (1 torn), 1 restart"]);
    // A file that is removed is followed again once there is a new one.
    fs::remove_file(&place.file).unwrap();
    fs::write(&place.file, line(4, 15, &[])).unwrap();
    screen.wait_for(&["bus: accepted 15 (10/s)", "5 lines read"]);
    quit(screen, "\u{1b}");
}

#[test]
fn a_slow_watcher_stands_out_with_and_without_colors() {
    let stuck = |time| line(time, 9, &[watcher("a", 9, 9, 0), watcher("stuck", 9, 5, 4)]);
    let mut lost = watcher("lost", 9, 0, 0);
    lost["dropped"] = json!({"oldest": 9});
    let place = Place::new(stuck(0) + &stuck(6));
    let mut screen = place.top();
    let shown = screen.wait_for(&["bus: ", "S stuck ", ", slow 1\n"]);
    assert_eq!(names(&shown), ["stuck", "a"]);
    assert_eq!(screen.cell("S stuck").fgcolor(), vt100::Color::Idx(1));
    assert_eq!(screen.cell("a ").fgcolor(), vt100::Color::Default);
    place.append(&line(7, 9, &[watcher("lost", 0, 0, 0)]));
    place.append(&line(8, 9, &[lost]));
    screen.wait_for(&["  lost "]);
    assert_eq!(screen.cell("lost ").fgcolor(), vt100::Color::Idx(3));
    quit(screen, "q");

    let place = Place::new(stuck(0) + &stuck(6));
    let mut command = eventcast(&["top", place.path()]);
    command.env("NO_COLOR", "1");
    let mut screen = FullScreen::start(&command, 24, 80);
    screen.wait_for(&["S stuck "]);
    let cell = screen.cell("S stuck");
    assert!(cell.bold() && cell.fgcolor() == vt100::Color::Default);
    quit(screen, "q");
}

#[test]
fn the_keys_sort_the_watchers() {
    let rows = |factor: u64| {
        let mut x = watcher("x", 10 * factor, 0, 5);
        x["dropped"] = json!({"incoming": 3});
        [watcher("b", 0, 20 * factor, 9), x, watcher("a", 30 * factor, 10 * factor, 7)]
    };
    let place = Place::new(line(0, 0, &rows(0)) + &line(1, 0, &rows(1)));
    let mut screen = place.top();
    let shown = screen.wait_for(&["sorted by slow", "2 lines read"]);
    assert_eq!(names(&shown), ["b", "a", "x"]);
    for (key, order, expected) in [
        ("n", "name", ["a", "b", "x"]),
        ("l", "lag", ["b", "a", "x"]),
        ("i", "in", ["a", "x", "b"]),
        ("o", "out", ["b", "a", "x"]),
        ("x", "lost", ["x", "a", "b"]),
        ("s", "slow", ["b", "a", "x"]),
    ] {
        screen.press(key);
        let shown = screen.wait_for(&[&format!("sorted by {order},")]);
        assert_eq!(names(&shown), expected, "{order}");
    }
    quit(screen, "q");
}

#[test]
fn a_paused_display_continues_with_the_newest_lines() {
    let place = Place::new(line(0, 100, &[]));
    let mut screen = place.top();
    screen.wait_for(&["accepted 100,"]);
    screen.press("p");
    screen.wait_for(&["PAUSED"]);
    place.append(&line(1, 200, &[]));
    screen.press("n");
    let shown = screen.wait_for(&["PAUSED", "sorted by name"]);
    assert!(shown.contains("accepted 100,") && shown.contains("1 line read"), "{shown}");
    screen.press(" ");
    let shown = screen.wait_for(&["accepted 200 (100/s)", "2 lines read"]);
    assert!(!shown.contains("PAUSED"), "{shown}");
    quit(screen, "q");
}

#[test]
fn a_thousand_watchers_scroll() {
    let watchers: Vec<_> = (0..1000).map(|i| watcher(&format!("w{i:03}"), 1, 1, 0)).collect();
    let place = Place::new(line(0, 1, &watchers));
    let mut screen = place.top();
    let page = 19;
    let mut see = |keys: &str, first: usize| {
        screen.press(keys);
        let shown = screen.wait_for(&[&format!("rows {}-{} of 1,000", first + 1, first + page)]);
        assert_eq!(names(&shown).len(), page, "{shown}");
        assert_eq!(names(&shown)[0], format!("w{first:03}"), "{shown}");
    };
    see("", 0);
    see("j", 1);
    see("\u{1b}[B", 2);
    see("\u{1b}[6~", 21);
    see("k", 20);
    see("\u{1b}[A", 19);
    see("\u{1b}[5~", 0);
    see("k", 0);
    see("\u{1b}[F", 981);
    see("\u{1b}[6~", 981);
    see("\u{1b}[H", 0);
    see("\u{1b}[F", 981);
    // Fewer watchers are left.
    place.append(&line(1, 1, &watchers[..3]));
    screen.wait_for(&["rows 1-3 of 3", "w000", "w002"]);
    quit(screen, "q");
}

#[test]
fn the_display_fits_into_any_terminal() {
    let many = |bus: u64| json!({"name": format!("bus-{bus}"), "accepted": 1, "watchers": [watcher("起動", 1, 1, 0)]});
    let buses: String = (0..30).flat_map(|bus| [many(bus).to_string(), "\n".to_owned()]).collect();
    // The width of some strings differs from the sum of the widths of their characters.
    let names = ["long", "起動", "e\u{301}", "👨\u{200d}👩\u{200d}👧", "🇩🇪", "☺\u{fe0f}", "\u{644}\u{627}"];
    let watchers = names.map(|name| watcher(&name.repeat(60), 1, 1, 0));
    for text in [line(0, 1, &watchers), buses, String::new()] {
        let place = Place::new(text);
        let mut screen = place.top();
        screen.wait_for(&["eve", "read"]);
        for (rows, columns) in [(1, 1), (2, 3), (3, 200), (200, 7), (5, 12), (6, 30), (50, 300)] {
            screen.resize(rows, columns);
        }
        // The last size has space for everything.
        screen.wait_for(&["eventcast top", "sorted by slow", "x lost", "read"]);
        quit(screen, "q");
    }
}

#[test]
fn a_narrow_terminal_omits_columns() {
    let place = Place::new(line(0, 1, &[watcher(&"long".repeat(10), 1, 1, 0)]));
    let mut screen = FullScreen::start(&eventcast(&["top", place.path()]), 10, 40);
    let shown = screen.wait_for(&["longlong", "1 line read"]);
    let title = shown.lines().find(|line| line.contains("WATCHER")).unwrap();
    assert!(title.ends_with("LOST/s") && !title.contains("POLICY"), "{shown}");
    assert!(shown.contains("  longlonglon…  "), "{shown}");
    screen.resize(10, 120);
    let shown = screen.wait_for(&["OLDEST"]);
    assert!(shown.contains(&"long".repeat(10)) && shown.contains("POLICY"), "{shown}");
    quit(screen, "q");
}

#[test]
fn every_end_restores_the_terminal() {
    let place = Place::new(line(0, 1, &[]));
    for key in ["q", "\u{3}", "\u{1b}"] {
        let mut screen = place.top();
        screen.wait_for(&["1 line read"]);
        quit(screen, key);
    }
    for signal in [Signal::TERM, Signal::INT] {
        let mut screen = place.top();
        screen.wait_for(&["1 line read"]);
        screen.signal(signal);
        assert_eq!(screen.end().0, Some(0));
    }
}

/// Starts `top -` on a terminal. Its stdin is a pipe with a name.
fn top_of_pipe(place: &Place) -> (FullScreen, File) {
    let pipe = place.file.with_extension("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = Command::new("sh");
    let top = eventcast(&["top", "-"]);
    command.arg("-c").arg("pipe=$1; shift; exec \"$@\" <\"$pipe\"").arg("sh").arg(&pipe);
    command.arg(top.get_program()).args(top.get_args());
    let screen = FullScreen::start(&command, 24, 80);
    (screen, File::options().write(true).open(pipe).unwrap())
}

#[test]
fn the_end_of_a_pipe_leaves_its_last_state_on_the_screen() {
    let (mut screen, mut pipe) = top_of_pipe(&Place::new(""));
    screen.wait_for(&["no statistics yet, stdin", "0 lines read"]);
    pipe.write_all((line(0, 7, &[]) + line(1, 9, &[]).trim_end()).as_bytes()).unwrap();
    screen.wait_for(&["bus: accepted 7, ", "1 line read"]);
    drop(pipe);
    screen.wait_for(&["bus: accepted 9 (2/s), ", "2 lines read", ", end of input"]);
    screen.press("n");
    screen.wait_for(&["sorted by name"]);
    quit(screen, "\u{3}");
}

#[test]
fn a_terminal_that_cannot_be_both_is_refused() {
    // The same terminal cannot have the keys and the lines.
    let screen = FullScreen::start(&eventcast(&["top", "-"]), 24, 80);
    let (code, shown) = screen.end();
    assert_eq!(code, Some(2), "{shown}");
    assert!(shown.contains("error: - must be a pipe or a file, but stdin is this terminal"), "{shown}");
}

#[test]
fn a_terminal_may_get_the_table() {
    let place = Place::new(line(0, 7, &[watcher("a", 1, 1, 0)]));
    for (args, term) in [(&["--once"][..], "xterm"), (&[], "dumb")] {
        let mut command = eventcast(&[&["top", place.path()], args].concat());
        command.env("TERM", term);
        let shown = run_on_terminal(command, 80);
        assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{args:?}");
        assert!(
            shown.stdout.starts_with("bus: accepted 7, ") && !shown.stdout.contains('\u{1b}'),
            "{}",
            shown.stdout
        );
    }
}
