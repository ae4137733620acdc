//! Formats the programs' output, which consists of tables for a terminal, tables for documents, and
//! a run's progress.

use std::fmt::Write;
use std::io::IsTerminal;

/// The format in which a program prints its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Tables for a terminal.
    Text,
    /// Tables for a document.
    Markdown,
    /// A single machine-readable document.
    Json,
}

/// Returns the rows as a table. The format is Markdown if `form` requests it, and otherwise text
/// for a terminal. The first row is the header.
#[must_use]
pub fn grid(rows: &[Vec<String>], form: Form) -> String {
    if form == Form::Markdown { markdown(rows) } else { text(rows) }
}

fn text(rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if column == 0 || column + 1 == row.len() {
                write!(line, "{cell:<width$}  ")
            } else {
                write!(line, "{cell:>width$}  ")
            };
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

fn markdown(rows: &[Vec<String>]) -> String {
    let mut out = String::new();
    for (number, row) in rows.iter().enumerate() {
        let _ = writeln!(out, "| {} |", row.join(" | "));
        if number == 0 {
            let _ = writeln!(out, "|{}", "---|".repeat(row.len()));
        }
    }
    out
}

/// Returns the figures in ascending order.
#[must_use]
pub fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the median of the figures. There must be at least one figure.
#[must_use]
pub fn median(figures: &[f64]) -> f64 {
    let sorted = sorted(figures);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { f64::midpoint(sorted[middle - 1], sorted[middle]) }
}

/// Shows the progress if stderr is a terminal. An empty string clears the line.
pub fn progress(text: &str) {
    if std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K{text}");
    }
}
