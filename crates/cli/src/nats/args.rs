//! The options of `publish` and `watch`.
#![cfg_attr(not(feature = "nats"), allow(dead_code, reason = "the help names them in every build"))]

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{duration, number};

const PUBLISH_HELP: &str = "\
Each line is an event: JSON as it is, and other text as a JSON string. Empty
lines are skipped. The server acknowledges the events, and keeps them in the
stream, which is created if there is none. While the server is unavailable, the
command tries again, and reads no further lines once its queue is full. Each
change of the connection is a line on stderr, with the reason.

Exit status: 0 if every event was acknowledged, 1 otherwise, 2 for bad usage.

The address may contain a user and a password, or a token. Other users of this
machine can read the command line, so prefer the environment for it.

Examples:
  eventcast publish --nats nats://127.0.0.1:4222 < events.jsonl
  echo hi | eventcast publish --nats nats://127.0.0.1:4222 --subject events.hi
  eventcast publish --nats tls://example.com --ca ca.pem --creds me.creds";

const WATCH_HELP: &str = "\
Each event is a line of JSON on stdout. A gap is a line on stderr, with the
number of events that are missing there. Each change of the connection is a line
on stderr, with the reason. The watch continues until Ctrl-C, also while the
server is unavailable.

The address may contain a user and a password, or a token. Other users of this
machine can read the command line, so prefer the environment for it.

Examples:
  eventcast watch --nats nats://127.0.0.1:4222
  eventcast watch --nats nats://127.0.0.1:4222 --all --count 10
  eventcast watch --nats nats://127.0.0.1:4222 --filter 'events.*.Warning.>'
  eventcast watch --nats nats://127.0.0.1:4222 --resume position.json";

/// The address of a server. `Debug` does not show it, because it may contain a password.
#[derive(Clone)]
pub(crate) struct Address(pub(crate) String);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(..)")
    }
}

/// The server, and how to sign in there.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The address of a server of NATS, with JetStream
    #[arg(long, value_name = "URL", env = "EVENTCAST_NATS_URL", hide_env_values = true)]
    #[arg(value_parser = |text: &str| Ok::<_, Infallible>(Address(text.to_owned())))]
    pub(crate) nats: Address,
    /// The certificates of the authorities to trust, in PEM form [default: the system's]
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CA", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    /// The certificate of this client, in PEM form
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CERT", hide_env_values = true)]
    #[arg(requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of the client's certificate, in PEM form
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_KEY", hide_env_values = true)]
    #[arg(requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Sign in with these credentials, as nsc writes them
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CREDS", hide_env_values = true)]
    pub(crate) creds: Option<PathBuf>,
    /// Sign in with the nkey whose seed is in this file
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_NKEY", hide_env_values = true)]
    #[arg(conflicts_with = "creds")]
    pub(crate) nkey: Option<PathBuf>,
}

/// Publishes the lines of stdin as events on a bus that other processes share
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build lacks the feature `nats` for it."))]
#[command(after_help = PUBLISH_HELP)]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The stream, which is created if there is none
    #[arg(long, value_name = "NAME", default_value = "EVENTS")]
    pub(crate) stream: String,
    /// The subject of the events. Its first token is the stream's
    #[arg(long, value_name = "SUBJECT", default_value = "events")]
    pub(crate) subject: String,
    /// The most bytes that the stream keeps, if this command creates it
    #[arg(long, value_name = "BYTES", default_value = "1073741824")]
    #[arg(value_parser = |text: &str| number::parse("--max-bytes", 1..=1 << 62, text))]
    pub(crate) max_bytes: u64,
    /// The longest wait for the server: for space in the queue, and after the last line
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = |text: &str| duration::parse("--timeout", text))]
    pub(crate) timeout: Duration,
}

/// Prints the events of a bus that other processes share, and what is missing
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build lacks the feature `nats` for it."))]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Alone {
        #[command(flatten)]
        publish: PublishArgs,
    }

    #[test]
    fn debug_does_not_show_the_address() {
        let args = Alone::parse_from(["publish", "--nats", "nats://me:s3cret@h"]);
        assert_eq!(args.publish.server.nats.0, "nats://me:s3cret@h");
        assert!(!format!("{args:?}").contains("s3cret"));
    }
}
