//! The conclusions from a run, as sentences generated from the run's figures.

use std::time::Duration;

use super::finding::{Enough, Finding, millis};
use super::reader::{Account, Watcher};
use super::run::Outcome;
use crate::support::number::grouped;
use crate::support::text::quoted;

/// The smallest change that is worth mentioning, in percent of the offered events.
const NOTABLE: f64 = 1.0;
/// The maximum number of watchers to describe individually.
const TOLD: usize = 4;

/// A watcher with its account and its finding.
#[derive(Clone, Copy)]
struct Case<'a> {
    watcher: &'a Watcher,
    account: &'a Account,
    finding: &'a Finding,
}

impl Case<'_> {
    fn name(&self) -> String {
        quoted(&self.watcher.name)
    }

    fn p99(&self) -> String {
        millis(Duration::from_nanos(self.account.seen.latency.value_at_quantile(0.99)))
    }
}

/// Compares the first watcher with the watchers that differ from it in one setting. Returns the
/// comparisons and the conclusions as sentences.
pub(crate) fn learned(outcome: &Outcome, findings: &[Finding]) -> Vec<String> {
    let cases: Vec<Case> = outcome
        .settings
        .watchers
        .iter()
        .zip(&outcome.accounts)
        .zip(findings)
        .map(|((watcher, account), finding)| Case { watcher, account, finding })
        .collect();
    let Some(base) = cases.first() else { return Vec::new() };
    // All watchers in a group have the same settings.
    let mut others: Vec<&Case> = Vec::new();
    for case in &cases {
        if case.watcher.group != base.watcher.group
            && !others.iter().any(|other| other.watcher.group == case.watcher.group)
        {
            others.push(case);
        }
    }
    let compared: Vec<(&str, &Case, String)> = others
        .iter()
        .filter_map(|other| {
            difference(base.watcher, other.watcher).map(|(what, words)| (what, *other, words))
        })
        .take(TOLD)
        .collect();
    let mut sentences: Vec<String> =
        compared.iter().map(|(_, other, words)| comparison(base, other, words)).collect();
    sentences.extend(effect(base, &compared));
    sentences.extend(cases.iter().filter_map(cause).take(1));
    let slow: Vec<&Case> = cases.iter().filter(|case| is_too_slow(case)).take(TOLD).collect();
    sentences.extend(slow.into_iter().map(|case| {
        format!(
            "{} needs {:.2} s for the events of one second: no queue is long enough. Make the handler \
             faster, publish less, or accept the loss.",
            case.name(),
            case.finding.utilisation
        )
    }));
    let waited = cases.iter().find(|case| matches!(case.finding.enough, Enough::Waited(_)));
    if let (Some(case), 1..) = (waited, outcome.published.refused) {
        sentences.push(format!(
            "The bus waited for {}, and all watchers share the loss: it refused {} events to the publisher.",
            case.name(),
            grouped(outcome.published.refused)
        ));
    }
    if outcome.published.refused == 0 && cases.iter().all(|case| case.finding.lost == 0) {
        let share = |case: &&Case| case.account.stats.high_water as f64 / case.watcher.queue as f64;
        if let Some(fullest) = cases.iter().max_by(|a, b| share(a).total_cmp(&share(b))) {
            sentences.push(format!(
                "Nothing was lost to a full queue. The fullest queue was that of {}: {} of {}.",
                fullest.name(),
                grouped(fullest.account.stats.high_water),
                grouped(fullest.watcher.queue as u64)
            ));
        }
    }
    sentences
}

fn is_too_slow(case: &Case) -> bool {
    let was_short = matches!(case.finding.enough, Enough::Waited(_) | Enough::Grows(_));
    was_short && case.finding.utilisation > 1.0
}

/// Returns the name of the only setting in which `base` and `other` differ, and a description of
/// the difference. Returns `None` if the watchers do not differ, or differ in more than one
/// setting.
fn difference(base: &Watcher, other: &Watcher) -> Option<(&'static str, String)> {
    let queue =
        || format!("a queue of {} instead of {}", grouped(other.queue as u64), grouped(base.queue as u64));
    let handler = || format!("a handler of {} instead of {}", other.times, base.times);
    let policy = || format!("the policy '{}' instead of '{}'", other.policy, base.policy);
    match (base.queue == other.queue, base.times == other.times, base.policy == other.policy) {
        (false, true, true) => Some(("queue", queue())),
        (true, false, true) => Some(("handler", handler())),
        (true, true, false) => Some(("policy", policy())),
        _ => None,
    }
}

fn comparison(base: &Case, other: &Case, difference: &str) -> String {
    let percent = |finding: &Finding| format!("{:.1} %", finding.lost_percent);
    let (its, ours) = (percent(other.finding), percent(base.finding));
    let lost = if its == ours { format!("{its} too") } else { format!("{its} and not {ours}") };
    let mut sentence = format!(
        "{} has {difference}: it lost {lost}; the 99th percentile of its latency is {}, that of {} {}",
        other.name(),
        other.p99(),
        base.name(),
        base.p99()
    );
    let firsts = other.finding.first.as_ref().zip(base.finding.first.as_ref());
    if let Some((its, ours)) = firsts.filter(|_| base.watcher.policy != other.watcher.policy) {
        let (its, ours) = (grouped(its.event), grouped(ours.event));
        sentence =
            format!("{sentence}; its first loss was event {its}, that of {} event {ours}", base.name());
    }
    sentence.push('.');
    sentence
}

/// Describes which change reduced the loss most. Returns `None` if there is nothing to rank or if
/// nothing was lost.
fn effect(base: &Case, compared: &[(&str, &Case, String)]) -> Option<String> {
    // Rounds the value to the displayed precision, and avoids a minus sign before a zero.
    let gain =
        |case: &Case| ((base.finding.lost_percent - case.finding.lost_percent) * 10.0).round() / 10.0 + 0.0;
    let mut ranked: Vec<_> = compared.iter().map(|(what, other, _)| (*what, gain(other))).collect();
    ranked.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    let ((best, most), rest) = ranked.split_first().map(|(first, rest)| (*first, rest))?;
    if rest.is_empty() || base.finding.lost == 0 {
        return None;
    }
    if most < NOTABLE {
        return Some("None of these changes avoided a notable part of the loss.".to_owned());
    }
    let rest: Vec<String> = rest.iter().map(|(what, gain)| format!("the {what} {gain:.1}")).collect();
    Some(format!(
        "The {best} made the largest difference: {most:.1} of 100 events were kept; {}.",
        rest.join(", ")
    ))
}

/// Explains why a watcher lost events although its handler is fast enough, namely because too many
/// events arrived together. Returns `None` if this was not the cause of the loss.
fn cause(case: &Case) -> Option<String> {
    let first = case.finding.first.as_ref()?;
    let Enough::Computed(enough) = case.finding.enough else { return None };
    Some(format!(
        "The handler of {} ({}) is idle {:.0} % of the time, and yet events were lost: while {} come \
         within {}, it has time for {}, and the rest must fit into the queue. For this run {} would have been enough.",
        case.name(),
        case.watcher.times,
        100.0 * (1.0 - case.finding.utilisation).max(0.0),
        grouped(first.rush.events),
        millis(first.rush.within),
        grouped(first.rush.handled),
        grouped(enough)
    ))
}
