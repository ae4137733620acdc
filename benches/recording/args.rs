//! The program's command-line arguments.

use std::ops::RangeInclusive;

use eventcast_benches::table::Form;
use lexopt::ValueExt;
use lexopt::prelude::{Long, Short};

use crate::row::{Load, Row};

pub(crate) const HELP: &str = "\
Measures recording, from the recorder call to the store.

Usage: recording [OPTIONS]

Options:
      --row TEXT      Only rows whose name contains TEXT. May be given several times
      --rounds N      Rounds for each row, from 1 to 1000 [default: 6]. From 6 on, a row has up to
                      three times as many, until the 95 % interval of its first figure is narrower
                      than 10 %. A row that has taken a minute is not run again
      --events N      Events per round, from 1000 to 16777216 [default: depends on the row]
      --quick         One round with a hundredth of the events, to check that the program works
      --json          One JSON document instead of a table
      --markdown      A table in Markdown
  -h, --help          Print this

Sleeps and preemptions are per million events. A yield to another thread counts as a preemption.

Figures are marked unless the machine was quiet: a load average below 0.3 before the run, less than
1 % of stolen time and 2 % of time used by other programs during it, and a difference of at most 3 %
between the odd and the even rounds of a row's first figure.

Rows:
";

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) rows: Vec<&'static Row>,
    pub(crate) rounds: usize,
    pub(crate) load: Load,
    pub(crate) form: Form,
}

/// Reads the settings. Returns `None` if the user requests help.
pub(crate) fn read(
    mut parser: lexopt::Parser,
    rows: &'static [Row],
) -> Result<Option<Settings>, lexopt::Error> {
    let mut settings = Settings { rows: Vec::new(), rounds: 6, load: Load::default(), form: Form::Text };
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("row") => {
                let text = parser.value()?.string()?;
                let before = settings.rows.len();
                settings.rows.extend(rows.iter().filter(|row| row.name.contains(&text)));
                if settings.rows.len() == before {
                    let names: Vec<_> = rows.iter().map(|row| row.name).collect();
                    let names = names.join("; ");
                    let error = format!("--row must be a part of a name, got {text:?}: choose from {names}");
                    return Err(error.into());
                }
            }
            Long("rounds") => settings.rounds = number(&mut parser, "--rounds", 1..=1000)? as usize,
            Long("events") => {
                settings.load.events = Some(number(&mut parser, "--events", 1000..=1 << 24)?);
            }
            Long("quick") => (settings.load.quick, settings.rounds) = (true, 1),
            Long("json") => settings.form = Form::Json,
            Long("markdown") => settings.form = Form::Markdown,
            argument => return Err(argument.unexpected()),
        }
    }
    if settings.rows.is_empty() {
        settings.rows = rows.iter().collect();
    }
    Ok(Some(settings))
}

fn number(
    parser: &mut lexopt::Parser,
    option: &str,
    range: RangeInclusive<u64>,
) -> Result<u64, lexopt::Error> {
    let text = parser.value()?.string()?;
    text.parse().ok().filter(|number| range.contains(number)).ok_or_else(|| {
        let (least, most) = (range.start(), range.end());
        format!("{option} must be a number from {least} to {most}, got {text:?}").into()
    })
}
