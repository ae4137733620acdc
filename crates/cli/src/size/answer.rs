//! The answer, which comes first: the length of the queue that would have been enough.

use super::finding::{Enough, Finding};
use super::reader::{Account, Watcher};
use super::report::{at_quantile, name, wrapped};
use super::run::Outcome;
use super::sweep::{Point, Swept};
use crate::support::number::grouped;

/// Returns the answer for each watcher, such as
/// `base: 296 would have been enough. Its queue of 200 lost 32.11 % of the events.`.
pub(super) fn of_run(outcome: &Outcome, findings: &[Finding]) -> String {
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

/// Returns the answer for each watcher, such as
/// `base: a queue of 375 was enough, and 247 was not. With 375, the 99th percentile ..`.
pub(super) fn of_sweep(swept: Swept, points: &[Point]) -> String {
    let question = match swept {
        Swept::Queue => "How long must the queue be, as far as these runs can tell?\n",
        Swept::Handler => "How long may the handler take, as far as these runs can tell?\n",
    };
    // From the value that loses the least to the one that loses the most.
    let ordered: Vec<&Point> = match swept {
        Swept::Queue => points.iter().rev().collect(),
        Swept::Handler => points.iter().collect(),
    };
    let watchers = points.first().map_or(&[][..], |point| &point.outcome.settings.watchers);
    let line = |(index, watcher)| {
        let who = name(watcher);
        let [edge, computed, latency] =
            [edge(swept, &ordered, index), computed(swept, points, index), latency(swept, &ordered, index)];
        wrapped(&format!("{who}: {edge}{computed}{latency}"), "    ")
    };
    [question.to_owned()].into_iter().chain(watchers.iter().enumerate().map(line)).collect()
}

/// Returns the points without a loss, up to the first one with a loss.
fn whole<'p>(ordered: &[&'p Point], index: usize) -> Vec<&'p Point> {
    ordered.iter().copied().take_while(|point| point.findings[index].lost == 0).collect()
}

/// Returns which value was enough, and which one was not.
fn edge(swept: Swept, ordered: &[&Point], index: usize) -> String {
    let shown = |point: &Point| match swept {
        Swept::Queue => grouped(point.value),
        Swept::Handler => swept.shown(point.value),
    };
    let whole = whole(ordered, index);
    let not = ordered.get(whole.len()).map(|point| shown(point));
    match (swept, whole.last(), not) {
        (Swept::Queue, Some(edge), Some(not)) => {
            format!("a queue of {} was enough, and {not} was not.", shown(edge))
        }
        (Swept::Queue, Some(edge), None) => format!("a queue of {} was enough.", shown(edge)),
        (Swept::Queue, None, not) => {
            format!("a queue of {} was not enough.", not.unwrap_or_default())
        }
        (Swept::Handler, Some(edge), not) => format!(
            "a handler of {} (a utilisation of {:.2}) was quick enough{}.",
            shown(edge),
            edge.findings[index].utilisation,
            not.map_or_else(String::new, |not| format!(", and {not} was not"))
        ),
        (Swept::Handler, None, not) => {
            format!("a handler of {} was not quick enough.", not.unwrap_or_default())
        }
    }
}

/// Returns the length that the arithmetic of the runs with a loss gives, if there is one.
fn computed(swept: Swept, points: &[Point], index: usize) -> String {
    let computed = points.iter().filter_map(|point| match point.findings[index].enough {
        Enough::Computed(events) => Some(events),
        _ => None,
    });
    match computed.max() {
        Some(events) if swept == Swept::Queue => {
            format!(" By the handler's times {} would have been enough.", grouped(events))
        }
        _ => String::new(),
    }
}

/// Returns the latency with the value that was just enough, if there is one.
fn latency(swept: Swept, ordered: &[&Point], index: usize) -> String {
    whole(ordered, index).last().map_or_else(String::new, |point| {
        let latency = at_quantile(&point.outcome.accounts[index].seen.latency, 0.99);
        format!(" With {}, the 99th percentile of the latency was {latency} ms.", swept.shown(point.value))
    })
}

#[cfg(test)]
mod tests {
    use super::super::accounting::tests::outcome;
    use super::super::finding::{Enough, Finding};
    use super::super::sweep::{Point, Swept};
    use super::{of_run, of_sweep};

    fn finding(lost: u64, utilisation: f64, enough: Enough) -> Finding {
        Finding { lost, lost_percent: 10.0 * lost as f64, utilisation, first: None, enough }
    }

    #[test]
    fn the_answer_is_the_length_and_how_it_is_known() {
        for (finding, expected) in [
            (
                finding(0, 0.5, Enough::Held(3)),
                "3 would have been enough. Its queue of 3 lost nothing, and held 3 at most.",
            ),
            (
                finding(0, 0.5, Enough::Waited(1200)),
                "1,200 would have been enough. Its queue of 3 lost nothing, because the bus waited.",
            ),
            (
                finding(6, 0.5, Enough::Computed(9)),
                "9 would have been enough. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(6, 0.5, Enough::AtLeast(9)),
                "9 or more would have been needed. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(6, 1.5, Enough::Grows(9)),
                "no length is enough. Its utilisation is 1.50, so a longer run needs a longer queue. For this \
                 run 9 would have been enough. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(0, 1.5, Enough::Grows(2)),
                "no length is enough. Its utilisation is 1.50, so a longer run needs a longer queue. Here its \
                 queue of 3 lost nothing, and held 2.",
            ),
        ] {
            let text = of_run(&outcome(), &[finding]);
            let words: Vec<&str> = text.split_whitespace().collect();
            let question = "How long must the queue be, as far as this run can tell?";
            assert_eq!(words.join(" "), format!(r"{question} w\u{{1b}}: {expected}"));
        }
        let mut early = outcome();
        early.accounts[0].stats.offered = 0;
        let text = of_run(&early, &[finding(0, 0.0, Enough::Held(0))]);
        assert!(text.ends_with("the run is too short to tell.\n"), "{text}");
    }

    /// Returns the answer of a sweep with these values, and what was lost with each of them.
    fn swept(swept: Swept, values: &[(u64, u64)]) -> String {
        let point = |(value, lost): &(u64, u64)| Point {
            value: *value,
            outcome: outcome(),
            findings: vec![finding(
                *lost,
                0.25,
                if *lost > 0 { Enough::Computed(9) } else { Enough::Held(8) },
            )],
        };
        let text = of_sweep(swept, &values.iter().map(point).collect::<Vec<_>>());
        let words: Vec<&str> = text.split_whitespace().collect();
        words.join(" ").split_once(": ").expect("an answer").1.to_owned()
    }

    #[test]
    fn a_sweep_says_which_value_was_enough_and_which_was_not() {
        let latency = |value: &str| format!("With {value}, the 99th percentile of the latency was - ms.");
        assert_eq!(
            swept(Swept::Queue, &[(1, 5), (2, 0), (4, 3), (8, 0), (1600, 0)]),
            format!(
                "a queue of 8 was enough, and 4 was not. By the handler's times 9 would have been enough. {}",
                latency("8")
            )
        );
        let whole = swept(Swept::Queue, &[(8, 0), (1600, 0)]);
        assert_eq!(whole, format!("a queue of 8 was enough. {}", latency("8")));
        assert_eq!(
            swept(Swept::Queue, &[(1, 5), (1600, 1)]),
            "a queue of 1,600 was not enough. By the handler's times 9 would have been enough."
        );
        assert_eq!(
            swept(Swept::Handler, &[(1000, 0), (20_000, 0), (30_000, 1), (40_000, 0)]),
            format!(
                "a handler of 20us (a utilisation of 0.25) was quick enough, and 30us was not. {}",
                latency("20us")
            )
        );
        assert_eq!(swept(Swept::Handler, &[(1000, 2), (2000, 3)]), "a handler of 1us was not quick enough.");
    }
}
