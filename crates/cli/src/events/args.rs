//! The options of `events`.
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

/// Lists, describes and follows the events in a SQLite store
#[cfg_attr(not(feature = "sqlite-system"), doc = "(this build lacks the feature `sqlite` for it)")]
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command only reads the store. Another program, such as `eventcast supervise
--store`, may write to it at the same time. The program that writes an event
sets how long the store keeps it after its last write: `eventcast supervise`
sets 30 days, or the time of its --keep.

Examples:
  eventcast events get --types Warning --since 1h
  eventcast events describe process/server
  eventcast events watch --store /var/lib/server/events.db

Exit status: 0 when all is well, 1 when the store cannot be read, 2 for bad
usage."
)]
pub(crate) struct Args {
    /// The store
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

/// Prints the events, those written last at the end
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command takes little memory for any number of events. The first 1000 events
set the width of a table's columns. On a terminal, long lines are cut. An event
that changes while the command prints comes again, in its new form. Control
characters and invisible ones are escaped, in JSON by JSON's rules. A DURATION
is numbers with units: 500ms, 1m30s, 1h.

Examples:
  eventcast events get --for process/server --limit 20
  eventcast events get --types Warning --since 1h -o json | jq '.items[]'"
)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The N that were written last [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| limit(text))]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
}

/// Prints what happened to one object
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  eventcast events describe process/server
  eventcast events describe pod/web-0 --namespace shop"
)]
pub(crate) struct DescribeArgs {
    /// The object
    #[arg(value_name = "KIND/NAME", value_parser = object)]
    pub(crate) object: ObjectReference,
    /// The object's namespace [default: any]
    #[arg(long, short, value_parser = NonEmptyStringValueParser::new())]
    pub(crate) namespace: Option<String>,
    #[command(flatten)]
    pub(crate) color: ColorArgs,
}

/// Prints the events, then each one that is written, until Ctrl-C
#[derive(Clone, Debug, clap::Args)]
#[command(
    args_override_self = true,
    after_help = "\
The command also ends when nobody reads its output any more. From the first
event of a second namespace on, each line begins with the namespace. A DURATION
is numbers with units: 500ms, 1m30s, 1h.

Examples:
  eventcast events watch --types Warning --limit 0
  eventcast events watch -o json | jq .message
  eventcast events watch --reason Failed --limit 0 | head -1"
)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    /// The N that were written last, of those that are there at the start [default: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    #[arg(value_parser = |text: &str| limit(text))]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) form: FormArgs,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "500ms")]
    #[arg(value_parser = |text: &str| duration::parse_positive("--interval", text))]
    pub(crate) interval: Duration,
}

/// The options that choose events.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// Events of this namespace [default: of all]
    #[arg(long, short, value_parser = NonEmptyStringValueParser::new())]
    namespace: Option<String>,
    /// Events about this object, or this kind of object
    #[arg(long = "for", value_name = "KIND[/NAME]")]
    #[arg(value_parser = NonEmptyStringValueParser::new().try_map(|text| reference(&text)))]
    object: Option<ObjectReference>,
    /// Events of this type, such as Warning
    #[arg(long = "types", value_name = "TYPE", value_parser = NonEmptyStringValueParser::new().try_map(type_))]
    type_: Option<String>,
    /// Events with this reason, such as `BackOff`
    #[arg(long, value_parser = NonEmptyStringValueParser::new())]
    reason: Option<String>,
    /// Events that were seen within this time
    #[arg(long, value_name = "DURATION")]
    #[arg(value_parser = |text: &str| duration::parse("--since", text))]
    since: Option<Duration>,
}

/// The options for how events look.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct FormArgs {
    /// The form of the events: a table for people, or core/v1 as JSON, which watch prints line by
    /// line
    #[arg(long = "output", short = 'o', value_name = "FORM", default_value = "table")]
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
    /// Returns what may be wrong with the filter if no event matches: a store may contain any type,
    /// but nearly all events have one of two.
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

/// Reads `KIND/NAME`.
fn object(text: &str) -> Result<ObjectReference, String> {
    whole(text)
        .ok_or_else(|| format!("the object must be KIND/NAME, such as pod/web-0, got {}", quoted(text)))
}

/// Reads `KIND/NAME`, or only a kind.
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

/// Reads a type: the two usual ones regardless of case, others as they are.
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
