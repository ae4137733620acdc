//! The example `slow_watcher`: its table adds up, and shows the cost of each policy. The unit tests
//! of its modules run here too.

#[path = "../examples/slow_watcher/main.rs"]
mod program;

#[path = "support/running.rs"]
mod running;

use running::{Running, cells, figure, lines, run};

#[test]
fn slow_watcher_shows_what_each_policy_costs() {
    // A reader that takes 20 ms for an event, and has room for 8, cannot keep up with 4000 events
    // in a second.
    let args = ["--events", "1000", "--rate", "4000", "--queue", "8", "--handler", "20ms"];
    let lines = run("slow_watcher", &args);
    assert!(lines[0].starts_with("1000 events in "), "{lines:#?}");
    for (policy, reason) in [
        ("drop_incoming", Some("incoming")),
        ("drop_oldest", Some("oldest")),
        ("wait_for:1ms", Some("timed out")),
        ("wait  ", None),
    ] {
        let row = cells(&lines, policy);
        let [refused, offered, delivered, dropped, gaps] = [0, 1, 2, 3, 4].map(|at| figure(row[at]));
        assert_eq!(refused + offered, 1000, "{row:?}");
        assert_eq!(offered, delivered + dropped, "{row:?}");
        assert_eq!(dropped > 0, reason.is_some(), "{row:?}");
        assert_eq!(gaps > 0, reason.is_some(), "{row:?}");
        let sums = lines.iter().find(|line| line.starts_with(&format!("{}: ", policy.trim()))).expect("sums");
        if let Some(reason) = reason {
            assert!(sums.contains(&format!("dropped {dropped} ({reason} {dropped});")), "{sums}");
            // The watcher that keeps the newest events has the last event of all. Any other watcher
            // that has lost the last event knows of the loss.
            let newest = figure(sums.rsplit(' ').next().expect("a last word"));
            assert!(newest == offered - 1 || reason != "oldest", "{sums}");
        } else {
            assert!(refused > 0, "nobody waits for a watcher in a publish that does not wait: {row:?}");
        }
    }
    assert_eq!(lines.last().expect("a last line"), "everything adds up");
}

#[cfg(unix)]
#[test]
fn slow_watcher_ends_in_order_at_a_signal() {
    let mut program = Running::start("slow_watcher", &["--for", "1h", "--rate", "1000", "--handler", "0s"]);
    program.wait_for(|line| line.starts_with("publishing"));
    program.signal(rustix::process::Signal::INT);
    let lines = lines(&program.end());
    assert_eq!(lines.last().expect("a last line"), "everything adds up");
}

#[test]
fn a_reader_that_cannot_finish_in_time_gives_up_and_it_adds_up() {
    // At least 60 events wait for a reader that takes half a second for each.
    let args = ["--events", "200", "--rate", "0", "--queue", "64", "--handler", "500ms", "--grace", "200ms"];
    let lines = run("slow_watcher", &args);
    let sums = lines.iter().find(|line| line.starts_with("wait: ")).expect("sums");
    assert!(sums.contains("(abandoned "), "{sums}");
    assert_eq!(lines.last().expect("a last line"), "everything adds up", "{lines:#?}");
}
