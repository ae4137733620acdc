//! Events that the bus refused because its incoming queue was full. The bus did not offer these
//! events to any watcher, so the output reports them before the results of the watchers.

use super::finding::{Enough, Finding};
use super::run::{Outcome, percent};
use super::sweep::Point;
use crate::support::number::grouped;
use crate::support::text::quoted;

/// The refused events in a run or, for a sweep, in the run that refused the largest share of its
/// events.
#[derive(Debug, PartialEq)]
pub(super) struct Refusal {
    /// The length of the bus's incoming queue, in events.
    pub(super) incoming: u64,
    pub(super) refused: u64,
    pub(super) accepted: u64,
    /// A lower bound for the length that would have been enough, which is the length of the queue
    /// plus the largest number of consecutive refused events. While the bus refused consecutive
    /// events, it did not take any events out of the queue.
    pub(super) at_least: u64,
}

impl Refusal {
    /// Returns the refused events, or `None` if the bus did not refuse any events.
    pub(super) fn of(outcome: &Outcome) -> Option<Self> {
        let (published, incoming) = (&outcome.published, outcome.settings.incoming as u64);
        (published.refused > 0).then(|| Self {
            incoming,
            refused: published.refused,
            accepted: published.accepted,
            at_least: incoming + published.refused_in_a_row.max(1),
        })
    }

    /// Returns the refusal with the largest share, and the number of runs in which events were
    /// refused.
    pub(super) fn of_sweep(points: &[Point]) -> Option<(Self, usize)> {
        let refusals: Vec<Self> = points.iter().filter_map(|point| Self::of(&point.outcome)).collect();
        let (runs, at_least) = (refusals.len(), refusals.iter().map(|refusal| refusal.at_least).max()?);
        let worst = refusals.into_iter().max_by(|a, b| a.percent().total_cmp(&b.percent()))?;
        Some((Self { at_least, ..worst }, runs))
    }

    pub(super) fn percent(&self) -> f64 {
        percent(self.refused, self.refused + self.accepted)
    }

    /// Describes the result of a run, such as `--incoming: 99 or more would have been needed. The
    /// bus's own queue of 10 refused 89 % ..`.
    pub(super) fn answer(&self, outcome: &Outcome, findings: &[Finding]) -> String {
        let each = outcome.settings.watchers.iter().zip(findings);
        let mut waited = each.filter(|(_, finding)| matches!(finding.enough, Enough::Waited(_)));
        let advice = match waited.next() {
            Some((watcher, _)) => format!(
                "The bus waited for {}: lengthen that queue or --incoming first. The",
                quoted(&watcher.name)
            ),
            None => "Lengthen it first: the".to_owned(),
        };
        format!(
            "{} refused {:.2} % of the events, and offered them to no watcher. {advice} lengths below are for \
             the {} events that the bus accepted.",
            self.begin(),
            self.percent(),
            grouped(self.accepted)
        )
    }

    /// Describes the result of a sweep in which `refusing` of the runs refused events.
    pub(super) fn answer_of_sweep(&self, refusing: usize, runs: usize) -> String {
        format!(
            "{} refused events in {refusing} of {runs} runs, up to {:.2} % of them, and offered them to no \
             watcher. Lengthen it first: the answers below are for the events that the bus accepted.",
            self.begin(),
            self.percent(),
        )
    }

    fn begin(&self) -> String {
        format!(
            "--incoming: {} or more would have been needed. The bus's own queue of {}",
            grouped(self.at_least),
            grouped(self.incoming)
        )
    }
}
