//! Warnings about figures that were distorted by the machine or that differ from the request.

use std::time::Duration;

use super::finding::millis;
use super::reader::Account;
use super::run::Outcome;
use crate::support::number::grouped;

/// The lateness in nanoseconds above which a sleep counts as unusually late.
const LATE: u64 = 1_000_000;

/// A fact that the user should know before trusting the figures.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    /// The kind of warning. If the same problem occurs in different runs, the kind is the same.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
}

/// Returns the warnings about a run.
pub(crate) fn warnings(outcome: &Outcome) -> Vec<Warning> {
    [of_publisher(outcome), of_watchers(outcome)].concat()
}

fn of_publisher(outcome: &Outcome) -> Vec<Warning> {
    let (published, mut warnings) = (&outcome.published, Vec::new());
    let mut warn = |kind, text| warnings.push(Warning { kind, text });
    let (asked, achieved) = (published.asked_rate(), published.rate());
    if achieved < 0.99 * asked {
        warn(
            "rate",
            format!(
                "the machine could not keep the rate: the run published {} events a second of {} asked for",
                grouped(achieved.round() as u64),
                grouped(asked.round() as u64)
            ),
        );
    }
    let late = published.late.value_at_quantile(0.99);
    if late > LATE {
        warn(
            "publisher",
            format!(
                "one of 100 events was published {} or more after it was due: this machine is too busy for \
                 the publisher, and late events come all at once",
                millis(Duration::from_nanos(late))
            ),
        );
    }
    if published.refused > 0 {
        warn(
            "refused",
            format!(
                "the bus refused {} events before it offered them to a watcher: its own queue of {} was \
                 full (--incoming)",
                grouped(published.refused),
                grouped(outcome.settings.incoming as u64)
            ),
        );
    }
    warnings
}

fn of_watchers(outcome: &Outcome) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut warn = |kind, text| warnings.push(Warning { kind, text });
    let late = |account: &Account| account.seen.late.value_at_quantile(0.99);
    let latest = outcome.accounts.iter().map(late).max().unwrap_or(0);
    if latest > LATE {
        warn(
            "handlers",
            format!(
                "one of 100 events was finished {} or more later than its handler's time explains: this \
                 machine is too busy for so many handlers, and the figures are worse than they should be",
                millis(Duration::from_nanos(latest))
            ),
        );
    }
    let abandoned: u64 = outcome.accounts.iter().map(|account| account.stats.dropped.abandoned).sum();
    if abandoned > 0 {
        warn(
            "abandoned",
            format!(
                "{} events were still queued {:?} after the last publish, and the shutdown abandoned them \
                 (--grace): they count as dropped, not as lost to a full queue",
                grouped(abandoned),
                outcome.settings.grace
            ),
        );
    }
    warnings
}
