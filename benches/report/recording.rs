//! The table of recording figures.

use eventcast_benches::table::{Form, grid};

use crate::cells::{digits, spread};
use crate::data::{Figure, Report};

/// The text that is contained in the name of each figure for a single thread's CPU time. The
/// figures for single threads are only in the data files, and the table shows the sum.
const OF_ONE_THREAD: &str = "processor of `";

/// The unit of the numbers of sleeps and preemptions, which are only in the data files.
const PER_MILLION: &str = "per M events";

pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![["row", "figure", "median (min–max)", "unit"].map(str::to_owned).to_vec()];
    for row in &report.recording.rows {
        let Some(first) = row.figures.first() else { continue };
        let is_shown = |figure: &&Figure| !figure.name.contains(OF_ONE_THREAD) && figure.unit != PER_MILLION;
        for figure in row.figures.iter().filter(is_shown) {
            let unit = if figure.unit == "us" { "µs" } else { &figure.unit }.to_owned();
            // The row's name and the common prefix of its figures appear only in the row's first
            // line.
            let is_first = figure.name == first.name;
            let row = if is_first { format!("`{}`", row.name) } else { String::new() };
            let common = figure.name.strip_prefix(&format!("{}, ", first.name));
            let name = common.unwrap_or(&figure.name).to_owned();
            lines.push(vec![row, name, spread(&figure.rounds, digits), unit]);
        }
    }
    grid(&lines, Form::Markdown)
}
