//! Formats the result of a run in human-readable form.

use std::time::Duration;

use super::accounting;
use super::answer;
use super::finding::{Finding, millis};
use super::learn;
use super::reader::{Account, Watcher};
use super::run::Outcome;
use super::shown::{at_quantile, indented, name, wrapped};
use super::table;
use super::warnings;
use crate::support::number::grouped;

pub(crate) fn text(outcome: &Outcome, findings: &[Finding]) -> String {
    let faults = accounting::faults(outcome);
    let mut parts = vec![
        answer::of_run(outcome, findings),
        head(outcome),
        settings(outcome, findings),
        counts(outcome, findings),
        latencies(outcome),
    ];
    let each = outcome.settings.watchers.iter().zip(&outcome.accounts).zip(findings);
    let stories: String =
        each.map(|((watcher, account), finding)| story(watcher, account, finding)).collect();
    if !stories.is_empty() {
        parts.push(stories);
    }
    let warnings = warnings::warnings(outcome);
    if !warnings.is_empty() {
        parts.push(
            warnings.iter().map(|warning| wrapped(&format!("warning: {}", warning.text), "    ")).collect(),
        );
    }
    let sums = accounting::sums(outcome);
    parts.push(match faults.as_slice() {
        [] => wrapped(&format!("everything adds up: {sums}"), "    "),
        faults => format!("IT DOES NOT ADD UP: {sums}\n{}\n", faults.join("\n")),
    });
    let learned = learn::learned(outcome, findings);
    if !learned.is_empty() {
        let points: String = learned.iter().map(|point| wrapped(&format!("- {point}"), "  ")).collect();
        parts.push(format!("What this run shows:\n{points}"));
    }
    parts.join("\n")
}

/// Returns a line such as
/// `bursts of 300 every 100ms for 6.0 s: 18,000 events, 3,000 a second (3,000 asked for), ..`.
fn head(outcome: &Outcome) -> String {
    let published = &outcome.published;
    let early = if outcome.interrupted { "; interrupted, and the figures are of that time" } else { "" };
    let text = format!(
        "{} for {:.1} s: {} events, {} a second ({} asked for), {} refused{early}",
        outcome.settings.load,
        published.took.as_secs_f64(),
        grouped(published.accepted + published.refused),
        grouped(published.rate().round() as u64),
        grouped(published.asked_rate().round() as u64),
        grouped(published.refused),
    );
    wrapped(&text, "    ")
}

fn settings(outcome: &Outcome, findings: &[Finding]) -> String {
    let head = ["WATCHER", "QUEUE", "POLICY", "HANDLER", "UTIL"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(outcome.settings.watchers.iter().zip(findings).map(|(watcher, finding)| {
        vec![
            name(watcher),
            watcher.queue.to_string(),
            watcher.policy.to_string(),
            watcher.times.to_string(),
            format!("{:.2}", finding.utilisation),
        ]
    }));
    table::render(&rows)
}

fn counts(outcome: &Outcome, findings: &[Finding]) -> String {
    let head = ["WATCHER", "OFFERED", "DELIVERED", "DROPPED", "LOST %", "GAPS", "LONGEST GAP", "HIGH WATER"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let each = outcome.settings.watchers.iter().zip(&outcome.accounts).zip(findings);
    rows.extend(each.map(|((watcher, Account { stats, seen, .. }), finding)| {
        vec![
            name(watcher),
            stats.offered.to_string(),
            stats.delivered.to_string(),
            stats.dropped.total().to_string(),
            format!("{:.2}", finding.lost_percent),
            seen.gaps.to_string(),
            seen.longest.to_string(),
            stats.high_water.to_string(),
        ]
    }));
    table::render(&rows)
}

fn latencies(outcome: &Outcome) -> String {
    let head = ["LATENCY, ms", "P50", "P90", "P99", "P99.9", "MAX", "HANDLER LATE P99"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (watcher, Account { seen, .. }) in outcome.settings.watchers.iter().zip(&outcome.accounts) {
        let mut row = vec![name(watcher)];
        row.extend([0.5, 0.9, 0.99, 0.999, 1.0].map(|at| at_quantile(&seen.latency, at)));
        row.push(at_quantile(&seen.late, 0.99));
        rows.push(row);
    }
    table::render(&rows)
}

/// Describes where and why the loss began. Returns an empty string if nothing was lost.
fn story(watcher: &Watcher, account: &Account, finding: &Finding) -> String {
    let Some(first) = &finding.first else { return String::new() };
    let dropped = &account.stats.dropped;
    let reasons: Vec<String> = [
        ("incoming", dropped.incoming),
        ("oldest", dropped.oldest),
        ("timed out", dropped.timed_out),
        ("stopped", dropped.stopped),
        ("abandoned", dropped.abandoned),
    ]
    .iter()
    .filter(|(_, count)| *count > 0)
    .map(|(reason, count)| format!("{reason} {}", grouped(*count)))
    .collect();
    let head = format!(
        "{}: dropped {}; first loss {} in, at event {}",
        name(watcher),
        reasons.join(", "),
        seconds(first.after),
        grouped(first.event),
    );
    [wrapped(&head, "    "), indented(&format!("why: {}", first.why), "    ")].concat()
}

/// Formats a time in seconds, such as `0.312 s`, or in milliseconds if it is below a tenth of a
/// second.
fn seconds(time: Duration) -> String {
    if time < Duration::from_millis(100) { millis(time) } else { format!("{:.3} s", time.as_secs_f64()) }
}
