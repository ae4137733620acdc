//! A harness for tests that not every machine can run, because they need a server, a dictionary or
//! other files.
//!
//! An attribute cannot check whether a server or a file exists, because the server or the file may
//! appear after the program was compiled. Such a test program therefore has `harness = false` and a
//! `main` that calls [`run`]. The harness is libtest-mimic, which counts a test that cannot run as
//! ignored, and prints the reason after the test's name.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Conclusion, Trial};

/// The path of a test function in the program, and the function.
pub type Test = (&'static str, fn());

/// Tests with the same requirements, and the reason why they cannot run, or `None` if the tests can
/// run.
pub type Group = (Option<String>, Vec<Test>);

/// Returns the test functions with the given paths, together with their names. If a test function
/// is missing from all lists, the compiler reports it as unused.
#[macro_export]
macro_rules! tests {
    ($($test:path),+ $(,)?) => {
        vec![$((stringify!($test), $test as fn())),+]
    };
}

/// The harness options that take a value.
const WITH_VALUE: [&str; 6] = ["--color", "--format", "--logfile", "--skip", "--test-threads", "-Z"];

/// Runs the tests selected by the program's arguments, and returns the exit code.
///
/// - A test that cannot run is ignored, with a reason. The reason is also written to the file named
///   by `EVENTCAST_SKIPPED`.
/// - With `--include-ignored` or `--ignored`, such a test runs nevertheless.
/// - With `--list`, such a test is listed as ignored, so that `cargo nextest` skips it.
///
/// # Panics
///
/// Panics if the file named by `EVENTCAST_SKIPPED` cannot be written.
pub fn run(groups: impl IntoIterator<Item = Group>) -> ExitCode {
    let skipped = env::var_os("EVENTCAST_SKIPPED").map(PathBuf::from);
    conclude(env::args(), groups, skipped.as_deref()).exit_code()
}

fn conclude(
    words: impl IntoIterator<Item = String>,
    groups: impl IntoIterator<Item = Group>,
    skipped: Option<&Path>,
) -> Conclusion {
    let (options, filters) = split(words);
    let mut arguments = Arguments::from_iter(options);
    let mut trials = Vec::new();
    for (missing, tests) in groups {
        for (name, test) in tests {
            trials.push(trial(name, test, missing.clone(), &arguments, skipped));
        }
    }
    select(&mut arguments, filters, &trials);
    libtest_mimic::run(&arguments, trials)
}

fn trial(
    name: &'static str,
    test: fn(),
    missing: Option<String>,
    arguments: &Arguments,
    skipped: Option<&Path>,
) -> Trial {
    // If a test is ignored by its flag, the harness does not print a reason.
    let by_flag = arguments.list || arguments.ignored || arguments.include_ignored;
    let is_ignored = missing.is_some();
    let skipped = skipped.map(Path::to_owned);
    let trial = Trial::ignorable_test(name, move || match missing {
        Some(reason) if !by_flag => {
            if let Some(path) = skipped {
                let mut file = OpenOptions::new().append(true).create(true).open(path)?;
                writeln!(file, "  {name}: {reason}")?;
            }
            Ok(Completion::ignored_with(reason))
        }
        _ => {
            test();
            Ok(Completion::Completed)
        }
    });
    trial.with_ignored_flag(by_flag && is_ignored)
}

/// Separates the options from the test names. The standard harness accepts several names, but
/// libtest-mimic accepts only one.
fn split(words: impl IntoIterator<Item = String>) -> (Vec<String>, Vec<String>) {
    let mut words = words.into_iter();
    let mut options: Vec<String> = words.by_ref().take(1).collect();
    let mut filters = Vec::new();
    while let Some(word) = words.next() {
        if !word.starts_with('-') {
            filters.push(word);
            continue;
        }
        let has_value = WITH_VALUE.contains(&word.as_str());
        options.push(word);
        options.extend(words.by_ref().take(usize::from(has_value)));
    }
    (options, filters)
}

/// Makes the harness run the tests that match any of the filters, and count the other tests as
/// filtered out.
fn select(arguments: &mut Arguments, mut filters: Vec<String>, trials: &[Trial]) {
    if filters.len() < 2 {
        arguments.filter = filters.pop();
        return;
    }
    let is_selected = |trial: &Trial| {
        filters.iter().any(|filter| {
            let one = Arguments { filter: Some(filter.clone()), ..arguments.clone() };
            !one.is_filtered_out(trial)
        })
    };
    let others = trials.iter().filter(|trial| !is_selected(trial)).map(|trial| trial.name().to_owned());
    arguments.skip = others.collect();
    arguments.exact = true;
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{Group, conclude};

    fn passes() {}
    fn passes_too() {}
    fn fails() {
        panic!("it was run");
    }

    fn groups(missing: bool) -> [Group; 2] {
        let missing = missing.then(|| "no moon".to_owned());
        [(None, crate::tests![passes, self::passes_too]), (missing, crate::tests![fails])]
    }

    /// Returns the numbers of tests that passed, failed, were ignored and were filtered out, the
    /// output of the harness, and the list of skipped tests.
    fn outcome(missing: bool, arguments: &[&str]) -> ([u64; 4], String, String) {
        let folder = tempfile::tempdir().unwrap();
        let (log, skipped) = (folder.path().join("log"), folder.path().join("skipped"));
        let words = ["program", "--logfile", log.to_str().unwrap(), "--test-threads=1"];
        let words = words.iter().chain(arguments).map(|word| (*word).to_owned());
        let all = conclude(words, groups(missing), Some(&skipped));
        let numbers = [all.num_passed, all.num_failed, all.num_ignored, all.num_filtered_out];
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        (numbers, read(log), read(skipped))
    }

    #[test]
    fn a_test_that_cannot_run_is_ignored_with_the_reason() {
        let (numbers, printed, skipped) = outcome(true, &[]);
        assert_eq!(numbers, [2, 0, 1, 0], "{printed}");
        assert!(printed.contains("test fails            ... ignored (no moon)\n"), "{printed}");
        assert!(printed.contains("2 passed; 0 failed; 1 ignored;"), "{printed}");
        assert_eq!(skipped, "  fails: no moon\n");
    }

    #[test]
    fn a_test_that_can_run_does() {
        let (numbers, printed, skipped) = outcome(false, &[]);
        assert_eq!(numbers, [2, 1, 0, 0], "{printed}");
        assert!(printed.contains("it was run"), "{printed}");
        assert_eq!(skipped, "");
    }

    #[test]
    fn an_ignored_test_runs_on_request() {
        for (option, passed, filtered) in [("--include-ignored", 2, 0), ("--ignored", 0, 2)] {
            let (numbers, printed, skipped) = outcome(true, &[option]);
            assert_eq!(numbers, [passed, 1, 0, filtered], "{printed}");
            assert_eq!(skipped, "");
        }
    }

    #[test]
    fn a_list_has_the_ignored_tests_apart() {
        for (missing, ignored) in [(true, "fails: test\n"), (false, "")] {
            assert_eq!(outcome(missing, &["--list", "--ignored"]).1, ignored);
            let all = "passes: test\nself::passes_too: test\nfails: test\n";
            assert_eq!(outcome(missing, &["--list", "--format", "terse"]).1, all);
        }
    }

    #[test]
    fn several_names_select_the_tests_of_each() {
        for (arguments, numbers) in [
            (&["passes"][..], [2, 0, 0, 1]),
            (&["passes", "--exact"], [1, 0, 0, 2]),
            (&["too", "fail"], [1, 0, 1, 1]),
            (&["--exact", "passes", "fails"], [1, 0, 1, 1]),
            (&["--exact", "too", "fail"], [0, 0, 0, 3]),
            (&["passes", "fails", "--skip", "too"], [1, 0, 1, 1]),
            (&["--skip", "passes"], [0, 0, 1, 2]),
        ] {
            let (counted, printed, _) = outcome(true, arguments);
            assert_eq!(counted, numbers, "{arguments:?}: {printed}");
        }
    }
}
