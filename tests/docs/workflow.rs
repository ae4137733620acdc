//! The workflow for GitHub Actions runs every step of `.ci/run`.

use std::fs;

use super::sources::in_repository;

/// Returns the words in the rest of each line that contains `start`, up to `end`, in alphabetical
/// order.
fn words<'a>(text: &'a str, start: &str, end: char) -> Vec<&'a str> {
    let parts = text.lines().filter_map(|line| line.split_once(start));
    let mut words: Vec<_> =
        parts.filter_map(|(_, rest)| rest.split(end).next()).flat_map(str::split_whitespace).collect();
    words.sort_unstable();
    words
}

#[test]
fn the_workflow_runs_each_step_of_the_script_once() {
    let read = |path| fs::read_to_string(in_repository(path)).unwrap();
    let (script, workflow) = (read(".ci/run"), read(".github/workflows/ci.yml"));
    let steps = words(&script, "|| steps=(", ')');
    assert!(steps.len() > 10, "{steps:?}");
    assert_eq!(words(&workflow, "- steps: ", '#'), steps);
}
