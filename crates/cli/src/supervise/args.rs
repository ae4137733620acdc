//! Command-line options of `supervise`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::support::color::ColorArgs;
use crate::support::text::quoted;
use crate::support::{duration, number, store};

/// Run commands, restart them when they exit, and record what happens to them as events
#[derive(Clone, Debug, clap::Args)]
#[command(args_override_self = true, after_help = AFTER_HELP)]
#[allow(clippy::struct_excessive_bools, reason = "each is a switch of its own on the command line")]
pub(crate) struct Args {
    /// Commands to run. Each is a single argument, which is split into words like in a shell
    #[arg(value_name = "COMMAND", required = true)]
    pub(crate) commands: Vec<String>,
    /// Stop after this time [default: run until Ctrl-C or SIGTERM]
    #[arg(long = "for", value_name = "DURATION")]
    #[arg(value_parser = |text: &str| duration::parse("--for", text))]
    pub(crate) stop_after: Option<Duration>,
    /// Delay before the first restart. It doubles with each further restart
    #[arg(long, value_name = "DURATION", default_value = "100ms")]
    #[arg(value_parser = |text: &str| duration::parse_positive("--backoff", text))]
    pub(crate) backoff: Duration,
    /// Maximum delay before a restart
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = |text: &str| duration::parse_positive("--backoff-max", text))]
    pub(crate) backoff_max: Duration,
    /// Reset the delay to --backoff after a run of at least this length
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    #[arg(value_parser = |text: &str| duration::parse("--reset-after", text))]
    pub(crate) reset_after: Duration,
    /// Stop restarting a command after N restarts since it last ran for --reset-after, 0 to 1000000
    /// [default: no limit]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| number::parse("--max-restarts", 0..=1_000_000, text))]
    pub(crate) max_restarts: Option<u64>,
    /// Restart a command only if it failed, not if it ended with exit code 0
    #[arg(long)]
    pub(crate) on_failure: bool,
    /// Time between TERM and KILL when stopping the commands
    #[arg(long, value_name = "DURATION", default_value = "2s")]
    #[arg(value_parser = |text: &str| duration::parse("--grace", text))]
    pub(crate) grace: Duration,
    /// Set an environment variable for each COMMAND. Can be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    pub(crate) env: Vec<(String, String)>,
    /// Run each COMMAND in this directory
    #[arg(long, value_name = "DIR", value_parser = OsStringValueParser::new().try_map(folder))]
    pub(crate) chdir: Option<PathBuf>,
    /// Run each COMMAND with `sh -c`
    #[arg(long)]
    pub(crate) shell: bool,
    /// Include the arguments of each COMMAND in events, not just the program
    #[arg(long = "show-args")]
    pub(crate) shows_arguments: bool,
    /// Store the events in this SQLite file, and start by showing the events from earlier runs
    /// [default: in memory]
    #[cfg_attr(
        not(feature = "sqlite-system"),
        doc = "(requires the `sqlite` feature, which this build does not include)"
    )]
    #[arg(long, value_name = "FILE", value_parser = OsStringValueParser::new().try_map(store::parse))]
    pub(crate) store: Option<PathBuf>,
    /// Keep each event for this time after its last write
    #[arg(long, value_name = "DURATION", default_value = "30d", value_parser = keep)]
    pub(crate) keep: Duration,
    /// Print the stored events as a core/v1 `EventList`
    #[arg(long)]
    pub(crate) json: bool,
    /// Do not log events as they happen
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Discard the commands' output
    #[arg(long)]
    pub(crate) no_output: bool,
    /// Panic after this time, to check that no command is left running
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = |text: &str| duration::parse("--panic-after", text))]
    pub(crate) panic_after: Option<Duration>,
    #[command(flatten)]
    pub(crate) color: ColorArgs,
}

/// Parses `NAME=VALUE`. The value may be empty, and may itself contain `=` characters.
fn variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(format!("--env must be NAME=VALUE, such as PORT=8080, got {}", quoted(text))),
    }
}

fn folder(path: OsString) -> Result<PathBuf, String> {
    if path.is_empty() {
        return Err("--chdir requires a directory, as in --chdir /srv/app".to_owned());
    }
    Ok(path.into())
}

fn keep(text: &str) -> Result<Duration, String> {
    duration::parse_positive("--keep", text).map_err(|_| {
        format!("--keep must be a duration of more than 0s, such as 12h or 30d, got {}", quoted(text))
    })
}

const AFTER_HELP: &str = "\
A DURATION is one or more numbers with units: 500ms, 5s, 1m30s, 12h, 30d.

The log of events and the commands' output go to stderr. The table of stored
events and the accounting go to stdout. With --store, the table shows only the
events of this run. The file holds at most 100,000 events.

Each command runs in its own process group, with an empty stdin. Its output is
passed through unchanged. When a command ends, supervise kills any processes
left in its group. A second Ctrl-C skips the grace period.

On Linux, when supervise exits, it also kills processes that have left their
group (setsid), even if supervise itself is killed with KILL. On other systems,
such processes keep running, and so do the commands if supervise is killed with
KILL.

The commands inherit the environment of supervise, in which --env adds or
replaces variables. With --chdir, a program with a relative path, such as
./server, is looked up in that directory. The path of --store is not affected by
--chdir.

With --on-failure or --max-restarts, supervise exits when no command is left to
restart. The limit also counts restarts after exit code 0. When supervise gives
up on a command, the others keep running, and the last lines on stderr name that
command.

Examples:
  eventcast supervise --for 5s 'sleep 0.3' 'false' 'echo hello'
  eventcast supervise --shell --grace 10s 'exec ./server >>server.log'
  eventcast supervise --chdir /srv/app --env PORT=8080 ./server
  eventcast supervise --store events.db --keep 90d -- ./server
  eventcast supervise --on-failure --max-restarts 5 './import today.csv'

Exit status: 0 if supervise was stopped, or if all commands ended with exit code
0 under --on-failure, 1 if an event was lost or a process is still running, 2
for bad usage, 3 if supervise gave up on a command, whatever else happened.";

#[cfg(test)]
mod tests {
    use super::Args;
    use clap::Parser as _;
    use std::time::Duration;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn parse(args: &[&str]) -> Args {
        Line::try_parse_from([&["supervise"], args].concat()).unwrap().args
    }

    #[test]
    fn defaults() {
        let args = parse(&["sleep 1"]);
        assert_eq!((args.stop_after, args.panic_after, args.store), (None, None, None));
        assert_eq!(args.backoff, Duration::from_millis(100));
        assert_eq!(args.backoff_max, Duration::from_secs(10));
        assert_eq!(args.reset_after, Duration::from_secs(10));
        assert_eq!(args.grace, Duration::from_secs(2));
        assert_eq!(args.keep, Duration::from_secs(30 * 24 * 3600));
        assert_eq!((args.max_restarts, args.chdir, args.env.len()), (None, None, 0));
        assert!(!args.on_failure);
        assert!(!args.json && !args.shows_arguments && !args.quiet && !args.no_output && !args.shell);
    }

    #[test]
    fn options_stand_anywhere_and_a_double_dash_ends_them() {
        let args = parse(&["a", "--for=5s", "b", "--json", "--", "--for"]);
        assert_eq!(args.stop_after, Some(Duration::from_secs(5)));
        assert!(args.json);
        assert_eq!(args.commands, ["a", "b", "--for"]);
    }

    #[test]
    fn each_variable_counts_and_is_split_at_the_first_sign() {
        let args = parse(&["--env", "A=1", "x", "--env=B=c=d", "--env", "EMPTY="]);
        let variables = [("A", "1"), ("B", "c=d"), ("EMPTY", "")];
        assert_eq!(args.env, variables.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(args.commands, ["x"]);
    }

    #[test]
    fn the_last_of_several_values_counts() {
        assert_eq!(parse(&["a", "--for=5s", "--for=6s"]).stop_after, Some(Duration::from_secs(6)));
    }

    #[cfg(feature = "sqlite-system")]
    #[test]
    fn a_store_may_be_a_file() {
        assert_eq!(parse(&["a", "--store=events.db"]).store, Some("events.db".into()));
    }
}
