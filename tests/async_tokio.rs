//! The example `async_tokio`: nothing is lost, whoever publishes and reads, and however the program
//! ends. The unit tests of its modules run here too.

#[path = "../examples/async_tokio/main.rs"]
mod program;

#[path = "support/running.rs"]
mod running;

use running::{Running, cells, figure, lines, run};

const READERS: [&str; 3] = ["journal", "archive", "totals"];

#[test]
fn every_reader_gets_every_event() {
    for flavour in [&[][..], &["--current-thread"]] {
        for (threads, tasks) in [("2", "2"), ("0", "3"), ("3", "0")] {
            let args = [&["--threads", threads, "--tasks", tasks, "--events", "2000"], flavour].concat();
            let lines = run("async_tokio", &args);
            let total = 2000 * (figure(threads) + figure(tasks));
            assert_eq!(lines[0], format!("{total} events from {threads} threads and {tasks} tasks"));
            for reader in READERS {
                assert_eq!(cells(&lines, reader)[1], total.to_string(), "{lines:#?}");
            }
            assert_eq!(lines.last().expect("a last line"), "nothing was lost");
        }
    }
}

#[cfg(unix)]
#[test]
fn a_signal_ends_it_and_loses_nothing() {
    use rustix::process::Signal;
    for (signal, args) in [(Signal::INT, &[][..]), (Signal::TERM, &["--current-thread"])] {
        let mut program = Running::start("async_tokio", args);
        program.wait_for(|line| line.starts_with("publishing"));
        program.signal(signal);
        program.wait_for(|line| line == "stopping");
        let lines = lines(&program.end());
        let total = figure(lines[0].split(' ').next().expect("a first word"));
        for reader in READERS {
            assert_eq!(cells(&lines, reader)[1], total.to_string(), "{lines:#?}");
        }
        assert_eq!(lines.last().expect("a last line"), "nothing was lost");
    }
}

#[test]
fn it_ends_when_the_time_is_over() {
    let ended = Running::start("async_tokio", &["--for", "100ms"]).end();
    assert_eq!(lines(&ended).last().expect("a last line"), "nothing was lost");
    assert_eq!(ended.stderr, ["publishing; Ctrl-C ends it", "stopping"]);
}
