//! The command line: the requests to a store, and the messages about wrong ones.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use eventcast::sink::EventQuery;
use eventcast::{EventType, ObjectReference, Timestamp};
use lexopt::prelude::{Long, Short, Value};

use super::support::flags::{self, Parser, utf8};
use super::support::text::quoted;

pub(crate) const HELP: &str = "\
Lists, describes and follows the events in a SQLite store.

Usage: events [--store FILE] get [OPTIONS]
       events [--store FILE] describe KIND/NAME [-n NAMESPACE]
       events [--store FILE] watch [OPTIONS]

Commands:
  get        Print the events, those written last at the end
  describe   Print what happened to one object
  watch      Print the events, then each one that is written, until Ctrl-C

Options:
      --store FILE            The store [default: events.db]
  -n, --namespace NAMESPACE   Events of this namespace [default: of all]
      --for KIND[/NAME]       Events about this object, or this kind of object
      --types TYPE            Events of this type, such as Warning
      --reason REASON         Events with this reason, such as BackOff
      --since DURATION        Events that were seen within this time
      --limit N               The N that were written last; `watch` limits only those
                              that are there at its start [default: all]
  -o, --output table|json     The form: a table, or core/v1 as JSON, which `watch`
                              prints line by line [default: table]
      --interval DURATION     How often `watch` looks [default: 500ms]
  -h, --help                  Print this
  -V, --version               Print the version

The program takes little memory for any number of events. The first 1000 events set the
width of a table's columns. An event that changes while the program prints comes again, in
its new form.

A DURATION is numbers with units: 500ms, 5s, 1m30s, 1h. The program only reads the
store, and another program may write it meanwhile. Control characters and invisible ones
are escaped, in JSON by JSON's rules.

Exit status: 0 when all is well, 1 when the store cannot be read, 2 for bad usage.
";

pub(crate) struct Settings {
    pub(crate) store: PathBuf,
    pub(crate) request: Request,
}

pub(crate) enum Request {
    Get(EventQuery, Form),
    Describe(ObjectReference),
    Watch { query: EventQuery, limit: Option<usize>, form: Form, interval: Duration },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Form {
    Table,
    Json,
}

/// The output of `--version`.
const VERSION: &str = concat!("events (eventcast ", env!("CARGO_PKG_VERSION"), ")\n");

/// Reads the arguments. Returns `None` if help is asked for.
pub(crate) fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut store = PathBuf::from("events.db");
    let (mut query, mut namespace, mut form) = (EventQuery::new(), String::new(), Form::Table);
    let mut limit = None;
    let mut interval = Duration::from_millis(500);
    let mut words = Vec::new();
    // Options that not every command has.
    let mut narrowing = None;
    let mut polling = None;
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Short('V') | Long("version") => {
                super::support::output::say(VERSION).map_err(|error| error.to_string())?;
                std::process::exit(0);
            }
            Long("store") => {
                store = parser.value().unwrap_or_default().into();
                if store.as_os_str().is_empty() {
                    return Err("--store needs a file, as in --store events.db".to_owned());
                }
            }
            Short('n') | Long("namespace") => {
                namespace = text(&mut parser, "--namespace needs a name, as in --namespace default")?;
            }
            Long("for") => {
                let object = text(&mut parser, "--for needs an object, as in --for pod/web-0")?;
                query = query.object(reference(&object)?);
                narrowing = Some("--for");
            }
            Long("types") => {
                query =
                    query.type_(type_(text(&mut parser, "--types needs a type, as in --types Warning")?)?);
                narrowing = Some("--types");
            }
            Long("reason") => {
                query = query.reason(text(&mut parser, "--reason needs a word, as in --reason BackOff")?);
                narrowing = Some("--reason");
            }
            Long("since") => {
                let ago = flags::duration(&mut parser, "--since")?;
                query = query.since(Timestamp::from(SystemTime::now()).saturating_sub(ago));
                narrowing = Some("--since");
            }
            Long("limit") => {
                limit = Some(flags::number(&mut parser, "--limit", 0..=1 << 24)? as usize);
                narrowing = Some("--limit");
            }
            Short('o') | Long("output") => {
                form = match &*text(&mut parser, "--output needs a form: table or json")? {
                    "table" => Form::Table,
                    "json" => Form::Json,
                    other => return Err(format!("--output must be table or json, got {}", quoted(other))),
                };
                narrowing = Some("--output");
            }
            Long("interval") => {
                interval = flags::duration(&mut parser, "--interval")?;
                if interval.is_zero() {
                    return Err("--interval must be more than 0s, got 0s".to_owned());
                }
                polling = Some("--interval");
            }
            Value(word) => words.push(utf8(word)?),
            other => return Err(flags::unknown(other)),
        }
    }
    query = query.namespace(namespace.clone());
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let request = match words[..] {
        ["get"] => Request::Get(limit.into_iter().fold(query, EventQuery::limit), form),
        ["watch"] => Request::Watch { query, limit, form, interval },
        ["describe", object] => match reference(object)? {
            whole if !whole.name.is_empty() => Request::Describe(whole.in_namespace(namespace)),
            _ => {
                return Err(format!(
                    "the object must be KIND/NAME, such as pod/web-0, got {}",
                    quoted(object)
                ));
            }
        },
        ["describe"] => return Err("describe needs an object: write KIND/NAME, as in pod/web-0".to_owned()),
        [] => return Err("a command is missing: give get, describe or watch".to_owned()),
        ["get" | "watch", more, ..] | ["describe", _, more, ..] => {
            return Err(format!("unexpected argument {}", quoted(more)));
        }
        [other, ..] => {
            return Err(format!("the command must be get, describe or watch, got {}", quoted(other)));
        }
    };
    match (&request, narrowing, polling) {
        (Request::Describe(_), Some(option), _) => Err(format!(
            "{option} works with get and watch only: \
                                                                leave it out"
        )),
        (Request::Describe(_) | Request::Get(..), _, Some(option)) => Err(format!(
            "{option} works with \
                                                                                   watch only: leave it \
                                                                                   out"
        )),
        _ => Ok(Some(Settings { store, request })),
    }
}

fn text(parser: &mut Parser, missing: &str) -> Result<String, String> {
    match utf8(parser.value().map_err(|_| missing)?)? {
        empty if empty.is_empty() => Err(missing.to_owned()),
        text => Ok(text),
    }
}

/// Reads `KIND/NAME`, or a kind alone.
fn reference(text: &str) -> Result<ObjectReference, String> {
    let (kind, name) = match text.split_once('/') {
        None => (text, ""),
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() => (kind, name),
        Some(_) => {
            return Err(format!("the object must be KIND/NAME, such as pod/web-0, got {}", quoted(text)));
        }
    };
    Ok(ObjectReference::new(kind.to_owned(), name.to_owned()))
}

/// Reads a type: the two usual ones in upper and lower case alike, others as they are.
fn type_(text: String) -> Result<String, String> {
    if text.contains(',') {
        return Err(format!(
            "--types must be one type, got {}: give Normal or Warning, or leave --types out",
            quoted(&text)
        ));
    }
    let usual = [EventType::Normal, EventType::Warning].map(EventType::as_str);
    let usual = usual.into_iter().find(|usual| usual.eq_ignore_ascii_case(&text));
    Ok(usual.map_or(text, str::to_owned))
}
