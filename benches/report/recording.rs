//! The table of recording.

use eventcast_benches::table::{Form, grid};

use crate::cells::{digits, spread};
use crate::data::Report;

pub(crate) fn table(report: &Report) -> String {
    let mut lines = vec![["row", "figure", "median (least–most)", "unit"].map(str::to_owned).to_vec()];
    for row in &report.recording.rows {
        for (number, figure) in row.figures.iter().enumerate() {
            // The name of a row appears only in its first line.
            let name = if number == 0 { format!("`{}`", row.row) } else { String::new() };
            let unit = if figure.unit == "us" { "µs" } else { &figure.unit }.to_owned();
            lines.push(vec![name, figure.name.clone(), spread(&figure.rounds, digits), unit]);
        }
    }
    grid(&lines, Form::Markdown)
}
