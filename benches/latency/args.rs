//! The program's command-line arguments.

use std::fmt;

use eventcast_benches::table::Form;
use lexopt::ValueExt;
use lexopt::prelude::{Long, Short};

pub(crate) const HELP: &str = "\
Measures how long an event takes from one thread to another, and the cost of sending it. Compares
eventcast, with a dispatcher and inline, with raw channels and two rivals.

Usage: latency [OPTIONS]

Options:
      --rate RATE     Only this part: events per second, such as 1000, 10k or 1M, or `idle`, one
                      event at a time after a pause of half a millisecond, or `cost`, the cost of
                      sending. May be given several times
                      [default: idle, 1k, 10k, 100k, 1M and cost]
      --only TEXT     Only contenders whose name contains TEXT, such as `inline`
      --seconds S     The length of a round, from 0.01 to 60 [default: 0.5]
      --rounds N      Rounds of each contender, from 1 to 1000 [default: 6]. From 6 on, a contender
                      has up to three times as many, until the 95 % interval of its ratio to `two
                      hops`, or of its cost, is narrower than 10 %
      --quick         One round of a twentieth of a second, to check that the program works
      --json          One JSON document instead of tables
      --markdown      Tables in Markdown
  -h, --help          Print this

The sender sleeps until 200 us before an event is due. From then on it polls the clock, yielding
in between. A latency is measured from the time at which the event was due. It includes the
sender's delay, which the tables also show. Sleeps and preemptions are per million events and
include the sender's. A yield to another thread counts as a preemption.

Figures are marked unless the machine was quiet: a load average below 0.3 before the run, less than
1 % of stolen time and 2 % of time used by other programs during it, and a difference of at most 3 %
between the odd and the even rounds of `two hops`, or of the first row without it. A ratio is marked
with ~ if its interval stays wider than 10 %.

Exit status: 0, 2 for bad usage, or 128 plus the number of the signal that ended the program. If a
contender duplicates or reorders an event, or loses one without reporting it, the program panics.
";

/// A part of the measurements that can be selected separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// The latencies at the given number of events per second.
    Rate(u64),
    /// The latencies when one event is sent at a time.
    Idle,
    /// The cost of sending.
    Cost,
}

/// The maximum rate, in events per second. At higher rates, reading the clock already takes too
/// long.
const MOST: u64 = 10_000_000;

impl Part {
    fn read(text: &str) -> Result<Self, String> {
        let (number, unit) = match text {
            "idle" => return Ok(Self::Idle),
            "cost" => return Ok(Self::Cost),
            _ => match text.strip_suffix('k') {
                Some(number) => (number, 1000),
                None => text.strip_suffix('M').map_or((text, 1), |number| (number, 1_000_000)),
            },
        };
        let rate = number.parse().ok().and_then(|number: u64| number.checked_mul(unit));
        rate.filter(|rate| (1..=MOST).contains(rate)).map(Self::Rate).ok_or_else(|| {
            format!(
                "--rate must be a number from 1 to 10M (such as 500, 10k or 1M), `idle` or `cost`, got \
                 {text:?}"
            )
        })
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) if rate % 1_000_000 == 0 => write!(f, "{} M events a second", rate / 1_000_000),
            Self::Rate(rate) if rate % 1000 == 0 => write!(f, "{} k events a second", rate / 1000),
            Self::Rate(rate) => write!(f, "{rate} events a second"),
            Self::Idle => f.write_str("One event at a time, all quiet before"),
            Self::Cost => f.write_str("What it costs to send"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) parts: Vec<Part>,
    pub(crate) only: String,
    pub(crate) seconds: f64,
    pub(crate) rounds: usize,
    pub(crate) form: Form,
}

/// Reads the settings. The value of `--only` must be part of the name of a contender or a sender.
/// Returns `None` if the user requests help.
pub(crate) fn read(mut parser: lexopt::Parser, names: Vec<&str>) -> Result<Option<Settings>, String> {
    let mut settings =
        Settings { parts: Vec::new(), only: String::new(), seconds: 0.5, rounds: 6, form: Form::Text };
    let says = |error: lexopt::Error| error.to_string();
    while let Some(argument) = parser.next().map_err(says)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("rate") => {
                let text = parser.value().and_then(ValueExt::string).map_err(says)?;
                settings.parts.push(Part::read(&text)?);
            }
            Long("only") => settings.only = parser.value().and_then(ValueExt::string).map_err(says)?,
            Long("seconds") => {
                let text = parser.value().and_then(ValueExt::string).map_err(says)?;
                settings.seconds = text
                    .parse()
                    .ok()
                    .filter(|s| (0.01..=60.0).contains(s))
                    .ok_or_else(|| format!("--seconds must be a number from 0.01 to 60, got {text:?}"))?;
            }
            Long("rounds") => {
                let text = parser.value().and_then(ValueExt::string).map_err(says)?;
                settings.rounds = text
                    .parse()
                    .ok()
                    .filter(|n| (1..=1000).contains(n))
                    .ok_or_else(|| format!("--rounds must be a number from 1 to 1000, got {text:?}"))?;
            }
            Long("quick") => (settings.seconds, settings.rounds) = (0.05, 1),
            Long("json") => settings.form = Form::Json,
            Long("markdown") => settings.form = Form::Markdown,
            argument => return Err(argument.unexpected().to_string()),
        }
    }
    if settings.parts.is_empty() {
        let rates = [1000, 10_000, 100_000, 1_000_000].map(Part::Rate);
        settings.parts.push(Part::Idle);
        settings.parts.extend(rates);
        settings.parts.push(Part::Cost);
    }
    let senders = eventcast_benches::cost::CONTENDERS.iter().map(|contender| contender.name);
    if !names.iter().copied().chain(senders.clone()).any(|name| name.contains(&settings.only)) {
        let names: Vec<_> = names.into_iter().chain(senders).collect();
        return Err(format!(
            "--only must be a part of a name, got {:?}: choose from {}",
            settings.only,
            names.join("; ")
        ));
    }
    Ok(Some(settings))
}
