//! Command-line options of `publish` and `watch`.
#![cfg_attr(not(feature = "nats"), allow(dead_code, reason = "the help names them in every build"))]

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use crate::support::{duration, number};

const PUBLISH_HELP: &str = "\
Each line is published as one event. JSON is sent unchanged, and any other text
is sent as a JSON string. Empty lines are skipped. The server acknowledges the
events and stores them in the stream. While the server is unavailable, the
command keeps retrying, and stops reading lines once its queue is full. Each
change of the connection status is reported on stderr, with the reason.

Exit status: 0 if every event was acknowledged, 1 otherwise, 2 for bad usage.

The address may contain a user name and a password, or a token. Other users of
this machine can see the command line, so prefer the environment variable.

Examples:
  eventcast publish --nats nats://127.0.0.1:4222 < events.jsonl
  echo hi | eventcast publish --nats nats://127.0.0.1:4222 --subject events.hi
  eventcast publish --nats tls://example.com --ca ca.pem --creds me.creds";

const WATCH_HELP: &str = "\
Each event is printed to stdout as a line of JSON. Each gap is reported on
stderr, with the number of missing events. Each change of the connection status
is reported on stderr, with the reason. The command runs until Ctrl-C, or until
it has printed --count events, even while the server is unavailable.

The address may contain a user name and a password, or a token. Other users of
this machine can see the command line, so prefer the environment variable.

Examples:
  eventcast watch --nats nats://127.0.0.1:4222
  eventcast watch --nats nats://127.0.0.1:4222 --all --count 10
  eventcast watch --nats nats://127.0.0.1:4222 --filter 'events.*.Warning.>'
  eventcast watch --nats nats://127.0.0.1:4222 --resume position.json";

/// A server's address. The `Debug` output omits the address, because it may contain a password.
#[derive(Clone)]
pub(crate) struct Address(pub(crate) String);

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Address(..)")
    }
}

/// The server, and how to authenticate with it.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ServerArgs {
    /// The address of a NATS server with JetStream
    #[arg(long, value_name = "URL", env = "EVENTCAST_NATS_URL", hide_env_values = true)]
    #[arg(value_parser = |text: &str| Ok::<_, Infallible>(Address(text.to_owned())))]
    pub(crate) nats: Address,
    /// The CA certificates to trust, in PEM format [default: the system's]
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CA", hide_env_values = true)]
    pub(crate) ca: Option<PathBuf>,
    /// The client certificate, in PEM format
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CERT", hide_env_values = true)]
    #[arg(requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the client certificate, in PEM format
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_KEY", hide_env_values = true)]
    #[arg(requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// Authenticate with this credentials file, as written by nsc
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_CREDS", hide_env_values = true)]
    pub(crate) creds: Option<PathBuf>,
    /// Authenticate with the nkey whose seed is in this file
    #[arg(long, value_name = "FILE", env = "EVENTCAST_NATS_NKEY", hide_env_values = true)]
    #[arg(conflicts_with = "creds")]
    pub(crate) nkey: Option<PathBuf>,
}

/// Publish the lines of stdin as events on a bus shared between processes
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build does not include the `nats` feature."))]
#[command(after_help = PUBLISH_HELP)]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The stream to publish to, created if it does not exist
    #[arg(long, value_name = "NAME", default_value = "EVENTS")]
    pub(crate) stream: String,
    /// The subject to publish to. Its first token is the stream's subject prefix
    #[arg(long, value_name = "SUBJECT", default_value = "events")]
    pub(crate) subject: String,
    /// The maximum size of the stream in bytes, if this command creates it
    #[arg(long, value_name = "BYTES", default_value = "1073741824")]
    #[arg(value_parser = |text: &str| number::parse("--max-bytes", 1..=1 << 62, text))]
    pub(crate) max_bytes: u64,
    /// Maximum wait for space in the queue, and for acknowledgements after the last line
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    #[arg(value_parser = |text: &str| duration::parse("--timeout", text))]
    pub(crate) timeout: Duration,
}

/// Print the events on a bus shared between processes, and report gaps
#[derive(Clone, Debug, clap::Args)]
#[cfg_attr(not(feature = "nats"), command(before_help = "This build does not include the `nats` feature."))]
#[command(after_help = WATCH_HELP)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) server: ServerArgs,
    /// The stream to watch
    #[arg(long, value_name = "NAME", default_value = "EVENTS")]
    pub(crate) stream: String,
    /// Only subjects that match this pattern, where * matches one token and > matches all remaining
    /// tokens
    #[arg(long, value_name = "SUBJECT")]
    pub(crate) filter: Option<String>,
    /// Start with the oldest event in the stream [default: with the next new event]
    #[arg(long)]
    pub(crate) all: bool,
    /// Save the position to this file, and resume from it
    #[arg(long, value_name = "FILE")]
    pub(crate) resume: Option<PathBuf>,
    /// Exit after this number of events
    #[arg(long, value_name = "N")]
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
