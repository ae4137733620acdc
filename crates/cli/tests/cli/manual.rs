//! Tests of the help, the version, the completions and the man pages.

use crate::support::output::{Ended, is_built, run};

/// All commands, as arguments on the command line.
const COMMANDS: [&[&str]; 14] = [
    &[],
    &["supervise"],
    &["events"],
    &["events", "get"],
    &["events", "describe"],
    &["events", "watch"],
    &["replay"],
    &["correlate"],
    &["size"],
    &["publish"],
    &["watch"],
    &["top"],
    &["completions"],
    &["man"],
];

/// Runs the program, which must succeed and write nothing to stderr.
#[track_caller]
fn shown(args: &[&str]) -> String {
    let Ended { code, stdout, stderr } = run(args);
    assert_eq!((code, &*stderr), (Some(0), ""), "{args:?}");
    stdout
}

#[test]
fn every_help_fits_and_ends_in_examples() {
    for command in COMMANDS.into_iter().filter(|command| is_built(command)) {
        let help = shown(&[command, &["--help"]].concat());
        assert!(help.contains("Usage: eventcast"), "{help}");
        let wide: Vec<&str> = help.lines().filter(|line| line.chars().count() > 100).collect();
        assert!(wide.is_empty() || cfg!(not(feature = "help")), "{wide:#?}");
        let (_, examples) = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{help}"));
        assert!(examples.starts_with("  "), "{help}");
        let name = command.first().map_or_else(String::new, |name| format!("eventcast {name}"));
        assert!(examples.contains(&name), "{help}");
    }
}

#[test]
fn every_command_has_the_version() {
    for command in COMMANDS.into_iter().filter(|command| command.len() < 2) {
        let version = shown(&[command, &["--version"]].concat());
        assert!(version.trim_end().ends_with(env!("CARGO_PKG_VERSION")), "{command:?}: {version}");
    }
    assert_eq!(shown(&["-V"]), format!("eventcast {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_wins_over_what_follows() {
    assert!(shown(&["supervise", "--help", "--nonsense"]).contains("Usage: eventcast supervise"));
}

#[cfg(feature = "help")]
mod completions_and_pages {
    use std::fs;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use super::{COMMANDS, shown};
    use crate::support::output::{assert_harmless, run};

    /// Returns the options in a help text, such as `--store`.
    fn options(help: &str) -> Vec<&str> {
        let lines = help.lines().map(str::trim_start).filter(|line| line.starts_with('-'));
        let words = lines.flat_map(|line| line.split([' ', ',']).take(3));
        words.filter(|word| word.starts_with("--")).collect()
    }

    #[test]
    fn the_completions_know_every_command() {
        for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
            let script = shown(&["completions", shell]);
            for name in ["supervise", "describe", "correlate", "backoff-max", "interval"] {
                assert!(script.contains(name), "{shell}: {name}");
            }
        }
        let ended = run(&["completions", "cmd.exe"]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
        assert!(
            ended.stderr.contains("[possible values: bash, elvish, fish, powershell, zsh]"),
            "{}",
            ended.stderr
        );
    }

    /// Each shell parses its own script without running it. Shells that are not installed are
    /// skipped.
    #[cfg(unix)]
    #[test]
    fn the_shells_can_read_their_completions() {
        for (shell, option) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
            let child = Command::new(shell).arg(option).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn();
            let Ok(mut child) = child else { continue };
            child.stdin.take().unwrap().write_all(shown(&["completions", shell]).as_bytes()).unwrap();
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
            assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{shell}");
        }
    }

    #[test]
    fn a_man_page_holds_every_option_of_its_command() {
        for command in COMMANDS {
            let page = shown(&[&["man"], command].concat()).replace("\\-", "-");
            let title = [&["eventcast"], command].concat().join("-");
            assert!(page.contains(&format!(".TH {title} 1")), "{command:?}: {page}");
            let help = shown(&[command, &["--help"]].concat());
            let options = options(&help);
            assert!(options.contains(&"--help"), "{options:?}");
            for option in options {
                assert!(page.contains(option), "{command:?}: {option}");
            }
            assert!(page.contains("Examples:"), "{command:?}");
        }
    }

    /// Between `.nf` and `.fi`, the lines are the unchanged lines of the help.
    #[test]
    fn the_examples_stand_line_by_line_in_a_man_page() {
        for command in COMMANDS {
            let page = shown(&[&["man"], command].concat());
            let (_, notes) = page.split_once("\n.SH \"EXAMPLES AND NOTES\"\n.nf\n").unwrap();
            let (notes, _) = notes.split_once("\n.fi\n").unwrap();
            let notes = notes.replace("\\-", "-").replace("\\*(Aq", "'");
            let help = shown(&[command, &["--help"]].concat());
            let (_, examples) = help.split_once("\nExamples:\n").unwrap();
            for example in examples.lines().filter(|line| line.starts_with("  ")) {
                assert!(notes.lines().any(|line| line == example), "{example}: {notes}");
            }
            let is_control = |line: &&str| line.starts_with(['.', '\'']);
            assert_eq!(notes.lines().find(is_control), None, "{command:?}");
            assert!(!page.contains("EXTRA"), "{page}");
        }
    }

    #[test]
    fn a_folder_of_man_pages_has_one_for_each_command() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("new/man1");
        assert_eq!(shown(&["man", "--output", path.to_str().unwrap()]), "");
        for command in COMMANDS {
            let name = [&["eventcast"], command].concat().join("-") + ".1";
            assert_eq!(
                fs::read_to_string(path.join(&name)).unwrap(),
                shown(&[&["man"], command].concat()),
                "{name}"
            );
        }
        assert_eq!(fs::read_dir(&path).unwrap().count(), COMMANDS.len());

        // The path refers to an existing file instead of a directory.
        let file = folder.path().join("file\u{1b}[2J");
        fs::write(&file, "").unwrap();
        let ended = run(&["man", "--output", file.to_str().unwrap()]);
        assert_eq!((ended.code, &*ended.stdout), (Some(1), ""));
        assert!(ended.stderr.starts_with("eventcast: cannot write the man pages to "), "{}", ended.stderr);
        assert_harmless(&ended.stderr);
    }

    #[test]
    fn a_page_of_an_unknown_command_is_refused() {
        let ended = run(&["man", "events", "li\u{1b}[31mst"]);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
        assert!(ended.stderr.contains(r"unknown command 'events li\u{1b}[31mst'"), "{}", ended.stderr);
    }
}
