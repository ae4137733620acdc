//! Formats the result of a sweep as a human-readable table or as JSON.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::accounting;
use super::answer;
use super::json;
use super::refusal::Refusal;
use super::run::Settings;
use super::shown::{at_quantile, name, wrapped};
use super::sweep::{Point, Sweep, Swept};
use super::table;
use super::warnings::{self, Warning};
use crate::support::number;
use crate::support::text::plain;

/// Returns the result in human-readable form.
pub(super) fn text(sweep: &Sweep, settings: &Settings, points: &[Point]) -> String {
    if points.is_empty() {
        return "interrupted before the end of the first run\n".to_owned();
    }
    let mut text = answer::of_sweep(sweep.swept, points);
    // Writing to a string never fails.
    let _ = write!(
        text,
        "\n{} for {:.1} s each; {} from {} to {}, {} of {}\n\n",
        settings.load,
        settings.length.as_secs_f64(),
        sweep.swept.name(),
        sweep.shown(sweep.from),
        sweep.shown(sweep.to),
        points.len(),
        number::counted(sweep.values().len() as u64, "run")
    );
    let head = ["UTIL", "WATCHER", "OFFERED", "LOST %", "P50 ms", "P99 ms", "HIGH WATER", "RATE %"];
    let mut rows = vec![
        [sweep.swept.name().to_uppercase().as_str()].iter().chain(&head).map(ToString::to_string).collect(),
    ];
    for point in points {
        let published = &point.outcome.published;
        let each = point.outcome.settings.watchers.iter().zip(&point.outcome.accounts).zip(&point.findings);
        rows.extend(each.map(|((watcher, account), finding)| {
            vec![
                sweep.shown(point.value),
                format!("{:.3}", finding.utilisation),
                name(watcher),
                account.stats.offered.to_string(),
                format!("{:.2}", finding.lost_percent),
                at_quantile(&account.seen.latency, 0.5),
                at_quantile(&account.seen.latency, 0.99),
                account.stats.high_water.to_string(),
                format!("{:.1}", 100.0 * published.rate() / published.asked_rate().max(1e-9)),
            ]
        }));
    }
    text.push_str(&table::render(&rows));
    text.push('\n');
    for line in &warnings(sweep, points) {
        text.push_str(&wrapped(line, "    "));
    }
    let faults = faults(points);
    let runs = number::counted(points.len() as u64, "run");
    match faults.as_slice() {
        [] => {
            text.push_str(&wrapped(&format!("everything adds up, in each of {runs}"), ""));
        }
        faults => text.extend(["IT DOES NOT ADD UP:\n", faults.join("\n").as_str(), "\n"]),
    }
    text
}

/// Returns one line for each kind of warning, including the number of runs with such a warning.
fn warnings(sweep: &Sweep, points: &[Point]) -> Vec<String> {
    let mut found: Vec<(Warning, u64, usize)> = Vec::new();
    for point in points {
        for warning in warnings::warnings(&point.outcome) {
            match found.iter_mut().find(|(known, ..)| known.kind == warning.kind) {
                Some((.., runs)) => *runs += 1,
                None => found.push((warning, point.value, 1)),
            }
        }
    }
    let line = |(warning, value, runs): &(Warning, u64, usize)| {
        let at = format!("{}={}", sweep.swept.name(), sweep.shown(*value));
        let all = number::counted(points.len() as u64, "run");
        format!("warning, of {runs} of {all}, the first with {at}: {}", warning.text)
    };
    found.iter().map(line).collect()
}

/// Returns the result as JSON.
pub(super) fn json(sweep: &Sweep, settings: &Settings, points: &[Point], interrupted: bool) -> Value {
    let value = |point: &Point| match sweep.swept {
        Swept::Queue => json!(point.value),
        Swept::Handler => json!(point.value as f64 / 1000.0),
    };
    let each =
        |point: &Point| json!({"value": value(point), "run": json::run(&point.outcome, &point.findings)});
    json!({
        "sweep": sweep.swept.name(),
        "bus": json::bus(Refusal::of_sweep(points).map(|(worst, _)| worst).as_ref(), settings.incoming),
        "unit": match sweep.swept { Swept::Queue => "events", Swept::Handler => "us" },
        "interrupted": interrupted,
        "addsUp": faults(points).is_empty(),
        "points": points.iter().map(each).collect::<Vec<_>>(),
    })
}

/// Returns a description for each count that does not add up in any of the runs.
pub(super) fn faults(points: &[Point]) -> Vec<String> {
    points.iter().flat_map(|point| accounting::faults(&point.outcome)).map(|fault| plain(&fault)).collect()
}
