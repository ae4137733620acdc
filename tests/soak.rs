//! The example `soak`: a run of a few seconds finds no violation. The unit tests of its modules run
//! here too.

#[path = "../examples/soak/main.rs"]
mod program;

#[path = "support/running.rs"]
mod running;

use running::{Running, lines, run};

fn figure_before(line: &str, word: &str) -> u64 {
    let (before, _) = line.split_once(word).unwrap_or_else(|| panic!("{word} is not in {line:?}"));
    let text = before.rsplit([' ', '\n']).next().expect("a last word");
    text.parse().unwrap_or_else(|_| panic!("{text:?} is no number"))
}

#[test]
fn a_few_seconds_of_everything_violate_nothing() {
    let lines = run("soak", &["--for", "4s", "--seed", "7"]);
    assert!(lines.iter().filter(|line| line.contains(" s: ")).count() >= 2, "{lines:#?}");
    let last = lines.iter().rfind(|line| line.contains(" s: ")).expect("a line for each second");
    for word in
        [" accepted", " rejected", " received", " visits", " watchers", " panics", " flushes", " stored"]
    {
        assert!(figure_before(last, word) > 0, "{last}");
    }
    assert!(last.ends_with(" 0 violated"), "{last}");
    assert!(lines.iter().any(|line| line.starts_with("resident size: not ")), "{lines:#?}");
    assert_eq!(lines.last().expect("a last line"), "nothing was violated");
}

#[cfg(unix)]
#[test]
fn soak_ends_in_order_at_a_signal() {
    let mut program = Running::start("soak", &["--for", "1h"]);
    let said = program.wait_for(|line| line.starts_with("soaking"));
    assert!(said.contains("seed "), "{said}");
    program.signal(rustix::process::Signal::INT);
    let lines = lines(&program.end());
    assert_eq!(lines.last().expect("a last line"), "nothing was violated");
}
