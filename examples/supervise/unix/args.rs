//! The command line: its options, their defaults, and the messages about wrong ones.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use super::backoff::Policy;
use super::command::Command;
use super::support::flags::{self, utf8};

pub(crate) const HELP: &str = "\
Runs commands, starts those that end again, and records what happens to them as events.

Usage: supervise [OPTIONS] COMMAND...

Each COMMAND is one argument, split into words as a shell would:
    supervise --for 5s 'sleep 0.3' 'false' 'echo hello'

Options:
      --for DURATION           Stop after this time [default: at Ctrl-C or SIGTERM]
      --backoff DURATION       The wait before the first restart; each later wait is
                               twice as long [default: 100ms]
      --backoff-max DURATION   The longest wait [default: 10s]
      --reset-after DURATION   After a run of this length, begin with --backoff again
                               [default: 10s]
      --grace DURATION         At the stop, the time between TERM and KILL
                               [default: 2s]
      --shell                  Run each COMMAND with `sh -c`
      --show-args              Let events show the arguments, not just the program
      --store FILE             Keep the events in this SQLite file, and show first
                               what earlier runs have left there [default: in
                               memory]. Needs the feature `sqlite`
      --json                   Print the stored events as a core/v1 EventList
      --quiet                  Do not log events as they happen
      --no-output              Throw away what the commands write
      --panic-after DURATION   Panic on purpose, to see that no command is left
  -h, --help                   Print this
  -V, --version                Print the version

A DURATION is numbers with units: 500ms, 5s, 1m30s, 1h.

The log of events goes to stderr, and so does the commands' output. The table of stored
events and the accounting go to stdout. With --store, the table shows the events of this
run. Each command runs in a process group of its own, without input. Its output is passed
on unchanged. When a command ends, supervise kills the processes that it left in its group.
A second Ctrl-C does not wait for the grace time.

On Linux supervise also kills, at its end, each process that left its group (setsid). If
KILL ends supervise itself, the system kills the commands, but not the processes that they
started. On other systems both go on running.

Exit status: 0 when stopped in order, 1 when something was lost or left, 2 for bad usage.
";

/// A request on the command line.
#[derive(Debug)]
pub(crate) enum Request {
    Help,
    Version,
    Run(Options),
}

#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(crate) struct Options {
    pub(crate) commands: Vec<Command>,
    pub(crate) stop_after: Option<Duration>,
    pub(crate) backoff: Policy,
    pub(crate) grace: Duration,
    pub(crate) show_args: bool,
    pub(crate) store: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    pub(crate) no_output: bool,
    pub(crate) panic_after: Option<Duration>,
}

/// Reads the arguments after the program's name.
pub(crate) fn parse<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Result<Request, String> {
    use lexopt::prelude::{Long, Short, Value};

    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options {
        commands: Vec::new(),
        stop_after: None,
        backoff: Policy {
            first: Duration::from_millis(100),
            max: Duration::from_secs(10),
            reset_after: Duration::from_secs(10),
        },
        grace: Duration::from_secs(2),
        show_args: false,
        store: None,
        json: false,
        quiet: false,
        no_output: false,
        panic_after: None,
    };
    let mut shell = false;
    let mut texts = Vec::new();
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(Request::Help),
            Short('V') | Long("version") => return Ok(Request::Version),
            Long("for") => options.stop_after = Some(flags::duration(&mut parser, "--for")?),
            Long("backoff") => options.backoff.first = flags::duration(&mut parser, "--backoff")?,
            Long("backoff-max") => options.backoff.max = flags::duration(&mut parser, "--backoff-max")?,
            Long("reset-after") => {
                options.backoff.reset_after = flags::duration(&mut parser, "--reset-after")?;
            }
            Long("grace") => options.grace = flags::duration(&mut parser, "--grace")?,
            Long("panic-after") => options.panic_after = Some(flags::duration(&mut parser, "--panic-after")?),
            Long("store") => options.store = Some(store(&mut parser)?),
            Long("shell") => shell = true,
            Long("show-args") => options.show_args = true,
            Long("json") => options.json = true,
            Long("quiet") => options.quiet = true,
            Long("no-output") => options.no_output = true,
            Value(text) => texts.push(utf8(text)?),
            Short(_) | Long(_) => return Err(flags::unknown(argument)),
        }
    }
    if options.backoff.first.is_zero() || options.backoff.max.is_zero() {
        return Err("--backoff and --backoff-max must be more than 0s, got 0s".to_owned());
    }
    if texts.is_empty() {
        return Err("a command is missing: give at least one, as in supervise 'sleep 1'".to_owned());
    }
    let read = if shell { Command::shell } else { Command::split };
    options.commands = texts.iter().map(|text| read(text)).collect::<Result<_, _>>()?;
    Ok(Request::Run(options))
}

fn store(parser: &mut lexopt::Parser) -> Result<PathBuf, String> {
    let path = parser.value().map_err(|_| "--store needs a file, as in --store events.db")?;
    if path.is_empty() {
        return Err("--store needs a file, as in --store events.db".to_owned());
    }
    if cfg!(not(feature = "sqlite-system")) {
        let build = "cargo run --features sqlite --example supervise";
        return Err(format!("--store needs the feature `sqlite`: run {build}"));
    }
    Ok(path.into())
}

#[cfg(test)]
mod tests {
    use super::{Options, Request, parse};
    use std::time::Duration;

    fn run(args: &[&str]) -> Options {
        match parse(args) {
            Ok(Request::Run(options)) => options,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn defaults() {
        let options = run(&["sleep 1"]);
        assert_eq!((options.stop_after, options.store), (None, None));
        assert_eq!(options.backoff.first, Duration::from_millis(100));
        assert_eq!(options.backoff.max, Duration::from_secs(10));
        assert_eq!(options.backoff.reset_after, Duration::from_secs(10));
        assert_eq!(options.grace, Duration::from_secs(2));
        assert!(!options.json && !options.show_args && !options.quiet && !options.no_output);
    }

    #[test]
    fn options_stand_anywhere_and_a_double_dash_ends_them() {
        let options = run(&["a", "--for=5s", "b", "--json", "--", "--for"]);
        assert_eq!(options.stop_after, Some(Duration::from_secs(5)));
        assert!(options.json);
        let programs: Vec<&str> = options.commands.iter().map(|c| c.program.as_str()).collect();
        assert_eq!(programs, ["a", "b", "--for"]);
    }

    #[test]
    fn shell_applies_to_every_command_wherever_it_stands() {
        let options = run(&["echo $A", "--shell", "echo $B"]);
        assert!(options.commands.iter().all(|command| command.program == "sh"));
    }

    #[test]
    fn help_and_version_win_over_what_follows() {
        assert!(matches!(parse(["--help", "--nonsense"]), Ok(Request::Help)));
        assert!(matches!(parse(["-V"]), Ok(Request::Version)));
    }

    #[test]
    fn says_what_is_wrong_and_what_to_do() {
        for (args, part) in [
            (&[][..], "a command is missing: give at least one"),
            (&["--for", "5s"][..], "a command is missing"),
            (&["--nonsense", "a"][..], "invalid option '--nonsense'"),
            (&["-x", "a"][..], "invalid option '-x'"),
            (&["--json=yes", "a"][..], "unexpected argument for option '--json'"),
            (&["a", "--for"][..], "--for needs a duration, as in --for 5s"),
            (&["a", "--store"][..], "--store needs a file, as in --store events.db"),
            (&["a", "--store", ""][..], "--store needs a file"),
            (&["--for", "5", "a"][..], "--for must be a duration such as 250ms or 1m30s, got '5'"),
            (&["--grace", "soon", "a"][..], "--grace must be a duration such as 250ms or 1m30s, got 'soon'"),
            (&["--backoff", "0ms", "a"][..], "--backoff and --backoff-max must be more than 0s"),
            (&["--backoff-max", "0s", "a"][..], "--backoff and --backoff-max must be more than 0s"),
            (&["a", ""][..], "the command '' is empty"),
            (&["a 'b"][..], "a quote that is not closed"),
            (&["--\u{1b}[31m"][..], r"invalid option '--\u{1b}[31m'"),
        ] {
            let error = parse(args).map(|_| ()).unwrap_err();
            assert!(error.contains(part), "{args:?}: {error}");
        }
    }

    #[cfg(not(feature = "sqlite-system"))]
    #[test]
    fn a_store_in_a_file_needs_its_feature() {
        let error = parse(["a", "--store", "events.db"]).map(|_| ()).unwrap_err();
        assert!(error.contains("--store needs the feature `sqlite`"), "{error}");
        assert!(error.contains("--features sqlite"), "{error}");
    }

    #[cfg(feature = "sqlite-system")]
    #[test]
    fn a_store_may_be_a_file() {
        assert_eq!(run(&["a", "--store=events.db"]).store, Some("events.db".into()));
    }

    #[cfg(unix)]
    #[test]
    fn what_is_not_utf8_is_refused_and_shown_escaped() {
        use std::os::unix::ffi::OsStringExt;
        let error = parse([std::ffi::OsString::from_vec(vec![b'a', 0xff])]).map(|_| ()).unwrap_err();
        assert!(error.contains("is not UTF-8"), "{error}");
    }
}
