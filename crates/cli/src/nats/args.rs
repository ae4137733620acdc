//! The options of `publish` and `watch`.
#![cfg_attr(not(feature = "nats"), allow(dead_code, reason = "the help names them in every build"))]

use std::path::PathBuf;
use std::time::Duration;

use crate::support::duration;

const PUBLISH_HELP: &str = "\
Each line is an event: JSON as it is, and other text as a JSON string. Empty
lines are skipped. The server acknowledges the events, and keeps them in the
stream, which is created if there is none. While the server is away, the command
tries again and reads no further lines.

Exit status: 0 if every event was acknowledged, 1 otherwise, 2 for bad usage.

Examples:
  eventcast publish --nats nats://127.0.0.1:4222 < events.jsonl
  echo hi | eventcast publish --nats nats://127.0.0.1:4222 --subject events.hi";

const WATCH_HELP: &str = "\
Each event is a line of JSON on stdout. A gap is a line on stderr, with the
number of events that are missing there. The watch goes on until Ctrl-C, also
while the server is away.

Examples:
  eventcast watch --nats nats://127.0.0.1:4222
  eventcast watch --nats nats://127.0.0.1:4222 --all --count 10
  eventcast watch --nats nats://127.0.0.1:4222 --filter 'events.*.Warning.>'
  eventcast watch --nats nats://127.0.0.1:4222 --resume position.json";

/// Publishes the lines of stdin as events on a bus that other processes share
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build lacks the feature `nats` for it."))]
#[command(after_help = PUBLISH_HELP)]
pub(crate) struct PublishArgs {
    /// The address of a server of NATS, with JetStream
    #[arg(long, value_name = "URL")]
    pub(crate) nats: String,
    /// The stream, which is created if there is none
    #[arg(long, value_name = "NAME", default_value = "EVENTS")]
    pub(crate) stream: String,
    /// The subject of the events. Its first token is the stream's
    #[arg(long, value_name = "SUBJECT", default_value = "events")]
    pub(crate) subject: String,
    /// The longest wait for the server after the last line
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = |text: &str| duration::parse("--timeout", text))]
    pub(crate) timeout: Duration,
}

/// Prints the events of a bus that other processes share, and what is missing
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build lacks the feature `nats` for it."))]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArgs {
    /// The address of a server of NATS, with JetStream
    #[arg(long, value_name = "URL")]
    pub(crate) nats: String,
    /// The stream
    #[arg(long, value_name = "NAME", default_value = "EVENTS")]
    pub(crate) stream: String,
    /// Only subjects of this form, with * for a token and > for all further ones
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) filter: Option<String>,
    /// Begin with the first event that the stream has [default: with the next one]
    #[arg(long)]
    pub(crate) all: bool,
    /// Keep the position in this file, and begin there
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// End after so many events
    #[arg(long, value_name = "EVENTS")]
    pub(crate) count: Option<u64>,
}
