//! Command-line options of `top`.
#![cfg_attr(not(feature = "top"), allow(dead_code, reason = "the help names them in every build"))]

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser as _};

use crate::support::duration;

const HELP: &str = "\
The input has one JSON object per line: a bus's statistics as serde writes them
(`BusStats` or `TopicsStats`), or an object that contains a bus's statistics as
`bus`, such as a `ShutdownReport` or `EventBroadcasterStats`. Two more keys are
used: `time`, in RFC 3339 or in seconds since 1970, and `name`, which separates
the buses if several of them write to one file. A program writes such a line
with serde_json::json!({\"time\": time, \"name\": \"orders\", \"bus\": bus.stats()}).

The command follows a file like `tail -F`, also after it was truncated or
replaced. Lines that are torn, not statistics, or too large are counted and
skipped. If a counter falls, the program has restarted, and the rates start
anew. Rates are per second, and are computed from `time`. Without `time`, they
are computed from the times at which new lines arrive, so lines that are
already in the file, and --once, need `time`.

S marks a slow watcher, whose queue has had events for longer than --slow while
none was delivered, or whose oldest event is that old. Slow watchers are listed
first. If LAG stays above QUEUED, the dispatcher waits for this watcher. IN/s,
OUT/s and LOST/s are offered, delivered and lost events. REASON is the reason of
most losses, with + if there are others. OLDEST is the age of the oldest event,
or - if the queue is empty or the program has not called Broadcaster::on_slow.

Keys: q or Ctrl-C quits. p pauses the display. s, n, l, i, o and x sort by slow,
name, lag, in, out and lost. The arrow and page keys, Home and End scroll.

Exit status: 0 on success, 1 if the terminal or a growing file fails, 2 for bad
usage, or if the file cannot be read or --once finds no statistics.

Examples:
  eventcast top stats.jsonl
  eventcast top --once --slow 30s stats.jsonl
  ssh server tail -F stats.jsonl | eventcast top -";

/// Show the rates, queues and losses of a running program's buses, and which watchers are slow
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "top"), command(before_help = "This build does not include the `top` feature."))]
#[command(args_override_self = true, after_help = HELP)]
pub(crate) struct Args {
    /// The file to which the program writes its statistics, or - for stdin
    #[arg(value_parser = OsStringValueParser::new().try_map(parse_file))]
    pub(crate) file: PathBuf,
    /// Read to the end, print the newest state as a table, and exit. This is the default if stdout
    /// is not a terminal
    #[arg(long)]
    pub(crate) once: bool,
    /// How long a watcher may have events without receiving one, or its oldest event may wait,
    /// until the watcher counts as slow
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    #[arg(value_parser = |text: &str| duration::parse_positive("--slow", text))]
    pub(crate) slow: Duration,
}

fn parse_file(path: std::ffi::OsString) -> Result<PathBuf, String> {
    if path.is_empty() { Err("FILE must be a path or -, got ''".to_owned()) } else { Ok(path.into()) }
}
