//! Compares eventcast with other crates that deliver events to several readers within a process. A
//! single run measures all contenders, which take turns.
//!
//! ```sh
//! cargo run --release -p eventcast-benches --bin versus
//! ```
//!
//! Every round checks that each reader received all events from each publisher in order, or counts
//! the events that the reader lost. A contender's figure is the median of its rounds. Compare only
//! ratios within one run, because machines differ, and because other work on the machine affects
//! all contenders alike.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]
#![allow(clippy::print_stdout, reason = "what it finds is its output")]

mod idle;
mod one_thread;
mod report;
mod tasks;

use std::process::ExitCode;
use std::time::Duration;

use cpu_time::ProcessTime;
use lexopt::prelude::{Long, Short, ValueExt};

use eventcast_benches::load::{Contender, Flood, Load};
use eventcast_benches::quiet::Observation;
use eventcast_benches::rounds::take_turns;
use eventcast_benches::table::{Form, progress};
use eventcast_benches::threads::Switches;
use eventcast_benches::{ours, rivals};
use report::{Case, Figures, Table};

#[global_allocator]
static ALLOCATOR: idle::Counting = idle::Counting;

const HELP: &str = "\
Measures eventcast, with a dispatcher and inline, alongside other crates that deliver events to
several readers in a process.

Usage: versus [OPTIONS]

Options:
      --rounds N      Rounds of each contender in each case, at least 1 [default: 7]. From 6 on,
                      a contender has up to three times as many, until the 95 % interval of its
                      ratio to the first contender is narrower than 10 %
      --case TEXT     Only cases whose name contains TEXT, such as \"1 to 16\", \"tasks\" or
                      \"one thread\"
      --only TEXT     Only contenders whose name contains TEXT, such as \"inline\"; the first one,
                      with which the others are compared, is always included
      --no-idle       Do not measure the cost of waiting while idle
      --quick         One round of a tenth of the length, to check that the program works
      --json          One JSON document instead of tables
      --markdown      Tables in Markdown
  -h, --help          Print this

In the cases with one thread, the thread publishes each event and receives it from each watcher.
They do not include eventcast with a dispatcher, because the event may not have been offered yet
when the publish call returns.

Figures are marked unless the machine was quiet: a load average below 0.3 before the run, less than
1 % of stolen time and 2 % of time used by other programs during it, and a difference of at most 3 %
between the odd and the even rounds of a case's first contender. A ratio is marked with ~ if its
interval stays wider than 10 %. Sleeps and preemptions are per million events. A yield to another
thread counts as a preemption.

Exit status: 0, or 2 for bad usage. If a contender duplicates or reorders an event, or loses one
without reporting it, the program panics.
";

const THREADS: &[Case] = &[
    Case { name: "1 to 1", publishers: 1, watchers: 1 },
    Case { name: "1 to 4", publishers: 1, watchers: 4 },
    Case { name: "1 to 16", publishers: 1, watchers: 16 },
    Case { name: "4 to 1", publishers: 4, watchers: 1 },
    Case { name: "4 to 4", publishers: 4, watchers: 4 },
    Case { name: "64 to 1", publishers: 64, watchers: 1 },
];
const TASKS: &[Case] = &[
    Case { name: "1 to 1, tasks", publishers: 1, watchers: 1 },
    Case { name: "1 to 16, tasks", publishers: 1, watchers: 16 },
];

const ONE_THREAD: &[Case] = &[
    Case { name: "1 to 1, one thread", publishers: 1, watchers: 1 },
    Case { name: "1 to 4, one thread", publishers: 1, watchers: 4 },
];

struct Settings {
    rounds: usize,
    case: String,
    only: String,
    idle: bool,
    quick: bool,
    form: Form,
}

fn main() -> ExitCode {
    let settings = match read() {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("versus: {error}\nTry `versus --help`.");
            return ExitCode::from(2);
        }
    };
    let observation = Observation::begin();
    let mut tables = Vec::new();
    let threads: Vec<_> = ours::contenders().into_iter().chain(rivals::contenders()).collect();
    let all = [(THREADS, threads), (TASKS, tasks::contenders()), (ONE_THREAD, one_thread::contenders())];
    for (cases, contenders) in all {
        for case in cases.iter().filter(|case| case.name.contains(&settings.case)) {
            tables.push(measure(case, &contenders, &settings));
        }
    }
    let idle = if settings.idle {
        progress("waiting for nothing");
        idle::measure(Duration::from_secs(if settings.quick { 1 } else { 3 }))
    } else {
        Vec::new()
    };
    progress("");
    print!("{}", report::render(&tables, &idle, &observation.conditions(), settings.form));
    ExitCode::SUCCESS
}

fn read() -> Result<Option<Settings>, lexopt::Error> {
    let mut settings = Settings {
        rounds: 7,
        case: String::new(),
        only: String::new(),
        idle: true,
        quick: false,
        form: Form::Text,
    };
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("rounds") => {
                settings.rounds = parser.value()?.parse()?;
                if settings.rounds == 0 {
                    return Err("--rounds must be 1 or more, got 0".into());
                }
            }
            Long("case") => settings.case = parser.value()?.string()?,
            Long("only") => settings.only = parser.value()?.string()?,
            Long("no-idle") => settings.idle = false,
            Long("quick") => (settings.quick, settings.rounds) = (true, 1),
            Long("json") => settings.form = Form::Json,
            Long("markdown") => settings.form = Form::Markdown,
            argument => return Err(argument.unexpected()),
        }
    }
    Ok(Some(settings))
}

/// The length of a round, which is long enough to make the start-up of the threads negligible.
const ROUND: Duration = Duration::from_millis(150);
/// The minimum number of events in a round. With fewer events, the result would be meaningless.
const FEWEST: u64 = 4000;
/// The maximum number of events in a round. More events would not improve the result.
const MOST: u64 = 4_000_000;

fn flood(case: &Case, events: u64) -> Flood {
    Flood { publishers: case.publishers, watchers: case.watchers, each: events / case.publishers as u64 }
}

/// Returns a load that takes the contender about the given time. The slowest contenders are given a
/// thousandth of the number of events that the fastest contenders are given.
fn fitting(case: &Case, contender: &Contender<Flood>, long: Duration) -> Flood {
    let mut events = FEWEST;
    // The first rounds are short, and mainly measure the start-up of the threads.
    for _ in 0..3 {
        let trial = flood(case, events);
        let outcome = (contender.round)(&trial).outcome(&trial);
        let in_time = events as f64 * long.as_secs_f64() / outcome.elapsed.as_secs_f64();
        let next = (in_time as u64).clamp(FEWEST, MOST);
        if next < 2 * events {
            return flood(case, next);
        }
        events = next;
    }
    flood(case, events)
}

fn measure(case: &Case, contenders: &[Contender<Flood>], settings: &Settings) -> Table {
    let first = contenders.first().map(|contender| contender.name);
    let wanted = |name: &str| first == Some(name) || name.contains(&settings.only);
    let any = flood(case, FEWEST);
    let mut running: Vec<(&Contender<Flood>, Flood, Figures)> = contenders
        .iter()
        .filter(|contender| (contender.can)(&any) && wanted(contender.name))
        .map(|contender| {
            progress(&format!("{}: {} warms up", case.name, contender.name));
            let load = fitting(case, contender, if settings.quick { ROUND / 10 } else { ROUND });
            (contender, load, Figures::new(contender.name, contender.manner))
        })
        .collect();
    let rates = |(_, _, figures): &(_, _, Figures)| figures.rates.clone();
    take_turns(&mut running, Some(0), settings.rounds, rates, |round, (contender, flood, figures)| {
        progress(&format!("{}: round {round} of {} or more, {}", case.name, settings.rounds, contender.name));
        let (before, switches) = (ProcessTime::now(), Switches::of_process());
        let outcome = (contender.round)(flood).outcome(flood);
        figures.add(flood.total(), outcome, before.elapsed(), Switches::of_process().since(switches));
    });
    Table { case: *case, rows: running.into_iter().map(|(_, _, figures)| figures).collect() }
}
