//! Formats the results as a table for a terminal, as a table for documents, and as JSON.

use std::fmt::Write;
use std::time::Duration;

use eventcast_benches::table::{Form, grid, median, sorted};
use serde_json::json;

use crate::args::Settings;
use crate::row::{Figure, Row};

/// The results of one row.
pub(crate) struct Results {
    pub(crate) row: &'static Row,
    /// The total time taken by the rounds.
    pub(crate) taken: Duration,
    /// The figures in the order of the table, each with its values from all rounds.
    figures: Vec<(Figure, Vec<f64>)>,
}

impl Results {
    pub(crate) fn new(row: &'static Row) -> Self {
        Self { row, taken: Duration::ZERO, figures: Vec::new() }
    }

    /// Adds the figures of a round.
    pub(crate) fn add(&mut self, round: Vec<Figure>) {
        for figure in round {
            match self.figures.iter_mut().find(|(known, _)| known.name == figure.name) {
                Some((_, values)) => values.push(figure.value),
                None => self.figures.push((figure.clone(), vec![figure.value])),
            }
        }
    }
}

pub(crate) fn render(results: &[Results], settings: &Settings) -> String {
    match settings.form {
        Form::Json => format!("{}\n", document(results)),
        form => grid(&table(results), form),
    }
}

/// Formats a number with at least three digits.
fn shown(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

fn table(results: &[Results]) -> Vec<Vec<String>> {
    let mut rows = vec![["", "median", "least-most", "rounds", "unit"].map(str::to_owned).to_vec()];
    for (figure, values) in results.iter().flat_map(|results| &results.figures) {
        let sorted = sorted(values);
        let mut spread = shown(sorted[0]);
        let _ = write!(spread, "-{}", shown(sorted[sorted.len() - 1]));
        let rounds = values.len().to_string();
        rows.push(vec![figure.name.clone(), shown(median(values)), spread, rounds, figure.unit.to_owned()]);
    }
    rows
}

fn document(results: &[Results]) -> serde_json::Value {
    let row = |results: &Results| {
        let figure = |(figure, values): &(Figure, Vec<f64>)| {
            json!({
                "name": figure.name,
                "unit": figure.unit,
                "median": median(values),
                "rounds": values,
            })
        };
        let figures: Vec<_> = results.figures.iter().map(figure).collect();
        json!({"row": results.row.name, "figures": figures})
    };
    json!({"rows": results.iter().map(row).collect::<Vec<_>>()})
}
