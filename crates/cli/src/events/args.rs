//! Command-line options of `events`.
#![cfg_attr(not(feature = "sqlite-system"), allow(dead_code, reason = "only a store is asked"))]

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::builder::{NonEmptyStringValueParser, OsStringValueParser, TypedValueParser as _};
use clap::{Subcommand, ValueEnum};
use eventcast::sink::EventQuery;
use eventcast::{EventType, ObjectReference, Timestamp};

use crate::support::color::ColorArgs;
use crate::support::text::quoted;
use crate::support::{duration, number, store};

/// List, describe and watch the events in a SQLite store
#[cfg_attr(
    not(feature = "sqlite-system"),
    doc = "(requires the `sqlite` feature, which this build does not include)"
)]
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command never modifies the store. Another program, such as `eventcast
supervise --store`, may write to the store at the same time. How long the store
keeps an event after its last write is set by the program that writes the event.
For `eventcast supervise`, this is 30 days unless --keep is given.

Examples:
  eventcast events get --types Warning --since 1h
  eventcast events describe process/server
  eventcast events watch --store /var/lib/server/events.db

Exit status: 0 on success, 1 if the store cannot be read, 2 for bad usage."
)]
pub(crate) struct Args {
    /// The SQLite store to read
    #[arg(long, value_name = "FILE", global = true, default_value = "events.db")]
    #[arg(value_parser = OsStringValueParser::new().try_map(store::parse))]
    pub(crate) store: PathBuf,
    #[command(subcommand)]
    pub(crate) request: Request,
}

#[derive(Clone, Debug, Subcommand)]
pub(crate) enum Request {
    Get(GetArgs),
    Describe(DescribeArgs),
    Watch(WatchArgs),
}

/// Print the events, with the most recently written ones last
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command uses little memory, whatever the number of events. The first 1000
events determine the column widths of the table. On a terminal, long lines are
truncated. An event that is updated while the command is printing is printed
again with its new contents. Control characters and invisible characters are
escaped, in JSON with JSON escapes. A DURATION is one or more numbers with
units, such as 500ms, 1m30s or 1h.

Examples:
  eventcast events get --for process/server --limit 20
  eventcast events get --types Warning --since 1h -o json | jq '.items[]'"
)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Print only the N most recently written events [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| limit(text))]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// Print the events about one object
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  eventcast events describe process/server
  eventcast events describe pod/web-0 --namespace shop"
)]
pub(crate) struct DescribeArgs {
    /// The object to describe
    #[arg(value_name = "KIND/NAME", value_parser = object)]
    pub(crate) object: ObjectReference,
    /// The object's namespace [default: any]
    #[arg(long, short, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) color: ColorArgs,
}

/// Print the existing events, then each event as it is written, until Ctrl-C
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command also exits when the reader of its output is gone. From the first
event of a second namespace on, each line begins with the namespace. A DURATION
is one or more numbers with units, such as 500ms, 1m30s or 1h.

Examples:
  eventcast events watch --types Warning --limit 0
  eventcast events watch -o json | jq .message
  eventcast events watch --reason Failed --limit 0 | head -1"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// Of the existing events, print only the N most recently written ones [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| limit(text))]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// How often to poll the store for changes
    #[arg(long, value_name = "DURATION", default_value = "500ms")]
    #[arg(value_parser = |text: &str| duration::parse_positive("--interval", text))]
    pub(crate) interval: Duration,
}

/// Options that select events.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only events in this namespace [default: all namespaces]
    #[arg(long, short, value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Only events about this object, or about objects of this kind
    #[arg(long = "for", value_name = "KIND[/NAME]")]
    #[arg(value_parser = NonEmptyStringValueParser::new().try_map(|text| reference(&text)))]
    object: Option<ObjectReference>,
    /// Only events of this type, such as Warning
    #[arg(long = "types", value_name = "TYPE", value_parser = NonEmptyStringValueParser::new().try_map(type_))]
    type_: Option<String>,
    /// Only events with this reason, such as `BackOff`
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Only events last seen within this time
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = |text: &str| duration::parse("--since", text))]
    since: Option<Duration>,
}

/// Options for the output format.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FormArgs {
    /// Output format: a human-readable table, or core/v1 JSON (one event per line with watch)
    #[arg(long = "output", short = 'o', value_name = "FORMAT", default_value = "table")]
    pub(crate) form: Form,
    #[command(flatten)]
    pub(crate) color: ColorArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, ValueEnum)]
pub(crate) enum Form {
    Table,
    Json,
}

impl FilterArgs {
    /// Returns a hint about a likely mistake in the filter, for use when no event matches. A store
    /// may contain events of any type, but nearly all events have one of the two usual types.
    pub(crate) fn hint(&self) -> Option<String> {
        let type_ = self.type_.as_ref().filter(|type_| !usual_types().contains(&type_.as_str()))?;
        let [normal, warning] = usual_types();
        Some(format!("{} is not one of the usual types, {normal} and {warning}", quoted(type_)))
    }

    pub(crate) fn query(&self) -> EventQuery {
        let mut query = EventQuery::default().namespace(self.namespace.clone().unwrap_or_default());
        if let Some(object) = &self.object {
            query = query.object(object.clone());
        }
        if let Some(type_) = &self.type_ {
            query = query.type_(type_.clone());
        }
        if let Some(reason) = &self.reason {
            query = query.reason(reason.clone());
        }
        match self.since {
            Some(ago) => query.since(Timestamp::from(SystemTime::now()).saturating_sub(ago)),
            None => query,
        }
    }
}

fn usual_types() -> [&'static str; 2] {
    [EventType::Normal, EventType::Warning].map(EventType::as_str)
}

fn limit(text: &str) -> Result<usize, String> {
    number::parse("--limit", 0..=1 << 24, text).map(|limit| limit as usize)
}

/// Parses `KIND/NAME`.
fn object(text: &str) -> Result<ObjectReference, String> {
    whole(text)
        .ok_or_else(|| format!("the object must be KIND/NAME, such as pod/web-0, got {}", quoted(text)))
}

/// Parses `KIND/NAME` or a kind without a name.
fn reference(text: &str) -> Result<ObjectReference, String> {
    if !text.contains('/') {
        return Ok(ObjectReference::new(text.to_owned(), ""));
    }
    whole(text)
        .ok_or_else(|| format!("--for must be KIND[/NAME], such as pod or pod/web-0, got {}", quoted(text)))
}

fn whole(text: &str) -> Option<ObjectReference> {
    let (kind, name) = text.split_once('/')?;
    let is_good = !kind.is_empty() && !name.is_empty() && !name.contains('/');
    is_good.then(|| ObjectReference::new(kind.to_owned(), name.to_owned()))
}

/// Parses an event type. The two usual types are matched case-insensitively, and any other type is
/// returned unchanged.
fn type_(text: String) -> Result<String, String> {
    if text.contains(',') {
        return Err(format!(
            "--types must be one type, got {}: give Normal or Warning, or leave --types out",
            quoted(&text)
        ));
    }
    let usual = usual_types().into_iter().find(|usual| usual.eq_ignore_ascii_case(&text));
    Ok(usual.map_or(text, str::to_owned))
}
