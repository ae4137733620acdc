//! The command line: every option of the correlator is a flag.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use eventcast::CorrelatorOptions;
use eventcast::correlator::{Aggregation, SpamFilter};

use super::duration;
use super::sweep::Sweep;
use super::text::{plain, quoted};

const HELP: &str = "\
Shows what the correlator makes of a cluster's events.

Usage: replay [OPTIONS] [FILE]

Reads core/v1 events from FILE, or from standard input: a list, as `kubectl get events -A
-o json` writes it, or one event in each line. Each event runs through the correlator at its
own time, with a count of 1. The program names events that it cannot read, and leaves them
out.

Options of the correlator, with its defaults:
      --lru-cache-size N     Entries of each cache [4096]
      --max-events N         Fold similar events from this number on [10]
      --max-interval TIME    Begin anew after this time without a similar event [10m]
      --no-aggregation       Fold nothing
      --keep-metadata        Folded events keep labels, annotations and reporter
      --keep-stored-name     Folded events take over the store's name
      --own-names            Groups folded at one moment have different names
      --burst N              Events of one source about one object at once [25]
      --qps X                How many more of them each second [0.00333]
      --no-spam-filter       Skip nothing
      --exempt-warnings      Never skip a Warning
      --summaries            Add an event that says how many were skipped

Output:
      --expand               An event with a count of N is N events, evenly spread
                             between its first and last time
      --json                 Figures for machines
      --sweep OPTION=A..B    Draw the result for each value as an SVG; OPTION is
                             max-events, max-interval (in seconds), burst or
                             lru-cache-size
  -o, --output FILE          Write the SVG there [standard output]
      --strict               Stop if anything cannot be read
  -h, --help                 Print this
  -V, --version              Print the version

A TIME is numbers with units: 500ms, 5s, 1m30s, 1h.

Exit status: 0 when the program wrote the result, 1 when it could not, 2 for bad usage,
when there are no events, or with --strict for an event that cannot be read.
";

/// The form of an option that takes a whole number.
const WHOLE: &str = "a whole number that is not negative";

pub(crate) enum Request {
    Say(&'static str),
    Replay(Box<Options>),
}

#[derive(Default)]
pub(crate) struct Options {
    /// The file, or `None` for standard input.
    pub(crate) file: Option<PathBuf>,
    pub(crate) correlator: CorrelatorOptions,
    pub(crate) is_expanded: bool,
    pub(crate) is_strict: bool,
    pub(crate) json: bool,
    pub(crate) sweep: Option<Sweep>,
    pub(crate) output: Option<PathBuf>,
}

/// Reads the arguments after the program's name.
pub(crate) fn parse<A: Into<OsString>>(args: impl IntoIterator<Item = A>) -> Result<Request, String> {
    use lexopt::prelude::{Long, Short, Value};

    let mut parser = lexopt::Parser::from_args(args);
    let mut options = Options::default();
    let (mut correlator, mut aggregation, mut filter) =
        (CorrelatorOptions::default(), Aggregation::default(), SpamFilter::default());
    let (mut aggregates, mut filters, mut has_file) = (true, true, false);
    while let Some(argument) = parser.next().map_err(|error| plain(&error.to_string()))? {
        match argument {
            Short('h') | Long("help") => return Ok(Request::Say(HELP)),
            Short('V') | Long("version") => {
                return Ok(Request::Say(concat!("replay (eventcast ", env!("CARGO_PKG_VERSION"), ")\n")));
            }
            Long("lru-cache-size") => {
                correlator = correlator.lru_cache_size(number(&mut parser, "--lru-cache-size", WHOLE)?);
            }
            Long("max-events") => {
                aggregation = aggregation.max_events(number(&mut parser, "--max-events", WHOLE)?);
            }
            Long("max-interval") => {
                let text = text(&mut parser, "--max-interval")?;
                aggregation = aggregation.max_interval(duration::parse("--max-interval", &text)?);
            }
            Long("no-aggregation") => aggregates = false,
            Long("keep-metadata") => aggregation = aggregation.keep_metadata(true),
            Long("keep-stored-name") => aggregation = aggregation.keep_stored_name(true),
            Long("own-names") => aggregation = aggregation.own_names(true),
            Long("burst") => filter = filter.burst(number(&mut parser, "--burst", WHOLE)?),
            Long("qps") => filter = filter.qps(number(&mut parser, "--qps", "a number")?),
            Long("no-spam-filter") => filters = false,
            Long("exempt-warnings") => filter = filter.exempt_warnings(true),
            Long("summaries") => filter = filter.summaries(true),
            Long("expand") => options.is_expanded = true,
            Long("json") => options.json = true,
            Long("strict") => options.is_strict = true,
            Long("sweep") => options.sweep = Some(Sweep::parse(&text(&mut parser, "--sweep")?)?),
            Short('o') | Long("output") => {
                options.output = Some(parser.value().map_err(|_| "--output needs a file".to_owned())?.into());
            }
            Value(file) if !has_file => {
                has_file = true;
                options.file = (file != "-").then(|| file.into());
            }
            Value(file) => {
                return Err(format!(
                    "unexpected argument {}: give one file",
                    quoted(&file.to_string_lossy())
                ));
            }
            Short(_) | Long(_) => return Err(plain(&argument.unexpected().to_string())),
        }
    }
    if options.output.is_some() && options.sweep.is_none() {
        return Err("--output needs a sweep: add one, as in --sweep burst=5..100".to_owned());
    }
    options.correlator =
        correlator.aggregation(aggregates.then_some(aggregation)).spam_filter(filters.then_some(filter));
    Ok(Request::Replay(Box::new(options)))
}

fn text(parser: &mut lexopt::Parser, option: &str) -> Result<String, String> {
    let text = parser.value().map_err(|_| format!("{option} needs a value"))?;
    text.into_string()
        .map_err(|text| format!("{option} must be UTF-8, got {}", quoted(&text.to_string_lossy())))
}

fn number<T: FromStr>(parser: &mut lexopt::Parser, option: &str, form: &str) -> Result<T, String> {
    let text = text(parser, option)?;
    text.parse().map_err(|_| format!("{option} must be {form}, got {}", quoted(&text)))
}
