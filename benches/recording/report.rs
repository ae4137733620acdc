//! Formats the results as a table for a terminal, as a table for documents, and as JSON.

use std::fmt::Write;
use std::time::Duration;

use eventcast_benches::quiet::Conditions;
use eventcast_benches::rounds::{disagreement, halves};
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

    /// Returns the row's first figure in each round.
    pub(crate) fn first(&self) -> &[f64] {
        self.figures.first().map_or(&[], |(_, values)| values)
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

pub(crate) fn render(results: &[Results], conditions: &Conditions, settings: &Settings) -> String {
    match settings.form {
        Form::Json => format!("{}\n", document(results, conditions)),
        form => format!("{}\n{}", conditions.line(), grid(&table(results), form)),
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
    let head = ["", "median", "least-most", "rounds", "unit", "odd / even rounds"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for results in results {
        let halves = halves(results.first());
        let mark = if disagreement(halves).is_some() { ", NOT QUIET" } else { "" };
        let halves = halves.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}{mark}"));
        for (figure, values) in &results.figures {
            let sorted = sorted(values);
            let mut spread = shown(sorted[0]);
            let _ = write!(spread, "-{}", shown(sorted[sorted.len() - 1]));
            let (name, unit) = (figure.name.clone(), figure.unit.to_owned());
            rows.push(vec![
                name,
                shown(median(values)),
                spread,
                values.len().to_string(),
                unit,
                halves.clone(),
            ]);
        }
    }
    rows
}

fn document(results: &[Results], conditions: &Conditions) -> serde_json::Value {
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
        let halves = halves(results.first());
        json!({
            "row": results.row.name,
            "halves": halves,
            "disturbance": disagreement(halves),
            "figures": figures,
        })
    };
    json!({"conditions": conditions.json(), "rows": results.iter().map(row).collect::<Vec<_>>()})
}
