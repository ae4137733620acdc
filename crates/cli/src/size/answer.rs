//! The answer, which comes first: the length of the queue that would have been enough.

use super::finding::{Enough, Finding};
use super::reader::{Account, Watcher};
use super::report::{name, wrapped};
use super::run::Outcome;
use crate::support::number::grouped;

/// Returns the answer for each watcher, such as
/// `base: 296 would have been enough. Its queue of 200 lost 32.11 % of the events.`.
pub(super) fn text(outcome: &Outcome, findings: &[Finding]) -> String {
    let each = outcome.settings.watchers.iter().zip(&outcome.accounts).zip(findings);
    let lines = each.map(|((watcher, account), finding)| {
        wrapped(&format!("{}: {}", name(watcher), answer(watcher, account, finding)), "    ")
    });
    format!("How long must the queue be, as far as this run can tell?\n{}", lines.collect::<String>())
}

fn answer(watcher: &Watcher, account: &Account, finding: &Finding) -> String {
    let (queue, enough) = (grouped(watcher.queue as u64), grouped(finding.enough.events()));
    let lost = format!("Its queue of {queue} lost {:.2} % of the events.", finding.lost_percent);
    let needs = format!("Its utilisation is {:.2}", finding.utilisation);
    match finding.enough {
        Enough::Held(_) if account.stats.offered == 0 => "the run is too short to tell.".to_owned(),
        Enough::Held(_) => {
            format!(
                "{enough} would have been enough. Its queue of {queue} lost nothing, and held {enough} at most."
            )
        }
        Enough::Waited(_) => {
            format!(
                "{enough} would have been enough. Its queue of {queue} lost nothing, because the bus waited."
            )
        }
        Enough::Computed(_) => format!("{enough} would have been enough. {lost}"),
        Enough::AtLeast(_) => format!("{enough} or more would have been needed. {lost}"),
        Enough::Grows(_) if finding.lost == 0 => format!(
            "no length is enough. {needs}, so a longer run needs a longer queue. Here its queue of {queue} lost \
             nothing, and held {enough}."
        ),
        Enough::Grows(_) => format!(
            "no length is enough. {needs}, so a longer run needs a longer queue. For this run {enough} would have \
             been enough. {lost}"
        ),
    }
}
