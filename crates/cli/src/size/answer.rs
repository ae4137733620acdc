//! The first part of the output, which reports the queue length that would have been enough.

use super::finding::{Enough, Finding};
use super::reader::{Account, Watcher};
use super::refusal::Refusal;
use super::run::Outcome;
use super::seeds::Spread;
use super::shown::{at_quantile, name, wrapped};
use super::sweep::{Point, Swept};
use crate::support::number::grouped;

/// Returns the result for each watcher, such as `base: 296 would have been enough. Its queue of 200
/// lost 32.11 % of the events.`. If the bus's own queue was too short, the first line reports this.
pub(super) fn of_run(outcome: &Outcome, findings: &[Finding]) -> String {
    let mut text = wrapped("How long must the queue be, as far as this run can tell?", "    ");
    let refusal = Refusal::of(outcome);
    if let Some(refusal) = &refusal {
        text.push_str(&wrapped(&refusal.answer(outcome, findings), "    "));
    }
    let scope = if refusal.is_some() { " for the accepted events" } else { "" };
    for ((watcher, account), finding) in outcome.settings.watchers.iter().zip(&outcome.accounts).zip(findings)
    {
        let answer = answer(watcher, account, finding, scope);
        text.push_str(&wrapped(&format!("{}: {answer}", name(watcher)), "    "));
    }
    text
}

/// Describes the queue length that one watcher needs. `scope` is inserted after the word "enough".
fn answer(watcher: &Watcher, account: &Account, finding: &Finding, scope: &str) -> String {
    let (queue, enough) = (grouped(watcher.queue as u64), grouped(finding.queue()));
    let held = grouped(finding.enough.events());
    let lost = format!("Its queue of {queue} lost {:.2} % of the events.", finding.lost_percent);
    let needs = format!("Its utilisation is {:.2}", finding.utilisation);
    let (scope, seeds) = match finding.spread {
        Some(spread) => (format!("{scope}{}", with_seeds(spread)), of_seeds(spread)),
        None => (scope.to_owned(), String::new()),
    };
    match finding.enough {
        Enough::Held(_) if account.stats.offered == 0 => "the run is too short to tell.".to_owned(),
        Enough::Held(_) => {
            format!(
                "{enough} would have been enough{scope}. {seeds}Its queue of {queue} lost nothing, and held \
                 {held} at most."
            )
        }
        Enough::Waited(_) => {
            format!(
                "{enough} would have been enough{scope}. {seeds}Its queue of {queue} lost nothing, because \
                 the bus waited."
            )
        }
        Enough::Computed(_) => format!("{enough} would have been enough{scope}. {seeds}{lost}"),
        Enough::AtLeast(_) => format!("{enough} or more would have been needed{scope}. {seeds}{lost}"),
        Enough::Grows(_) if finding.lost == 0 => format!(
            "no length is enough. {needs}, so a longer run needs a longer queue. Here its queue of {queue} lost \
             nothing, and held {enough}."
        ),
        Enough::Grows(_) => format!(
            "no length is enough. {needs}, so a longer run needs a longer queue. For this run {enough} would have \
             been enough{scope}. {lost}"
        ),
    }
}

fn with_seeds(spread: Spread) -> String {
    match spread.count {
        1 => " with this seed".to_owned(),
        count => format!(" with each of {} seeds", grouped(count)),
    }
}

/// Describes how much the lengths differ between seeds, and how much margin the largest length has.
fn of_seeds(spread: Spread) -> String {
    if spread.count == 1 {
        return "Another seed needs another length: add --seeds. ".to_owned();
    }
    format!(
        "They need {} to {} (median {}, --seed {} the most), and about one run in {} with yet another seed needs \
         more. ",
        grouped(spread.least),
        grouped(spread.most),
        grouped(spread.median),
        spread.most_seed,
        grouped(spread.one_in())
    )
}

/// Returns the result for each watcher, such as `base: a queue of 375 was enough, and 247 was not.
/// With 375, the 99th percentile ..`.
pub(super) fn of_sweep(swept: Swept, points: &[Point]) -> String {
    let question = match swept {
        Swept::Queue => "How long must the queue be, as far as these runs can tell?",
        Swept::Handler => "How long may the handler take, as far as these runs can tell?",
    };
    // Orders the values from the smallest expected loss to the largest.
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
    let refused = Refusal::of_sweep(points)
        .map(|(worst, runs)| wrapped(&worst.answer_of_sweep(runs, points.len()), "    "));
    let answers = watchers.iter().enumerate().map(line);
    [wrapped(question, "    ")].into_iter().chain(refused).chain(answers).collect()
}

fn is_whole(point: &Point, index: usize) -> bool {
    point.findings[index].is_whole(&point.outcome.settings.watchers[index])
}

/// Returns the points before the first point that has a loss.
fn whole<'p>(ordered: &[&'p Point], index: usize) -> Vec<&'p Point> {
    ordered.iter().copied().take_while(|point| is_whole(point, index)).collect()
}

/// Describes which value was enough and which value was not.
fn edge(swept: Swept, ordered: &[&Point], index: usize) -> String {
    let shown = |point: &Point| match swept {
        Swept::Queue => grouped(point.value),
        Swept::Handler => swept.shown(point.value),
    };
    let whole = whole(ordered, index);
    let not = ordered.get(whole.len()).map(|point| shown(point));
    let spread = whole.last().and_then(|point| point.findings[index].spread);
    let with = spread.map_or_else(String::new, with_seeds);
    match (swept, whole.last(), not) {
        (Swept::Queue, Some(edge), Some(not)) => {
            format!("a queue of {} was enough{with}, and {not} was not.", shown(edge))
        }
        (Swept::Queue, Some(edge), None) => format!("a queue of {} was enough{with}.", shown(edge)),
        (Swept::Queue, None, not) => {
            format!("a queue of {} was not enough.", not.unwrap_or_default())
        }
        (Swept::Handler, Some(edge), not) => format!(
            "a handler of {} (a utilisation of {:.2}) was quick enough{with}{}.",
            shown(edge),
            edge.findings[index].utilisation,
            not.map_or_else(String::new, |not| format!(", and {not} was not"))
        ),
        (Swept::Handler, None, not) => {
            format!("a handler of {} was not quick enough.", not.unwrap_or_default())
        }
    }
}

/// Describes the largest computed length in a sweep over queue lengths. The length is based on all
/// runs if the handler's time is random, and otherwise on the runs with a loss. Returns an empty
/// string if there is no computed length.
fn computed(swept: Swept, points: &[Point], index: usize) -> String {
    let findings = || points.iter().map(|point| &point.findings[index]);
    let computed = findings().filter(|finding| matches!(finding.enough, Enough::Computed(_)));
    let spread = findings().filter_map(|finding| finding.spread).max_by_key(|spread| spread.most);
    match (swept, spread, computed.map(Finding::queue).max()) {
        (Swept::Queue, Some(spread), _) => format!(
            " By the handler's times {} would have been enough{}. {}",
            grouped(spread.most),
            with_seeds(spread),
            of_seeds(spread).trim_end()
        ),
        (Swept::Queue, None, Some(events)) => {
            format!(" By the handler's times {} would have been enough.", grouped(events))
        }
        _ => String::new(),
    }
}

/// Describes the latency with the value that was just sufficient, if there is such a value.
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
    use super::super::seeds::Spread;
    use super::super::sweep::{Point, Swept};
    use super::{of_run, of_sweep};

    fn finding(lost: u64, utilisation: f64, enough: Enough) -> Finding {
        Finding { lost, lost_percent: 10.0 * lost as f64, utilisation, first: None, enough, spread: None }
    }

    const QUESTION: &str = "How long must the queue be, as far as this run can tell?";
    const REFUSED: &str = "--incoming: 3 or more would have been needed. The bus's own queue of 1 refused \
                           23.08 % of the events, and offered them to no watcher.";
    const ACCEPTED: &str = "lengths below are for the 10 events that the bus accepted.";

    /// The bus in this outcome refused 3 of 13 events, so the answer begins with the refusals.
    #[test]
    fn the_answer_is_the_length_and_how_it_is_known() {
        for (finding, expected) in [
            (
                finding(0, 0.5, Enough::Held(3)),
                "3 would have been enough for the accepted events. Its queue of 3 lost nothing, and held 3 at most.",
            ),
            (
                finding(0, 0.5, Enough::Waited(1200)),
                "1,200 would have been enough for the accepted events. Its queue of 3 lost nothing, because the bus waited.",
            ),
            (
                finding(6, 0.5, Enough::Computed(9)),
                "9 would have been enough for the accepted events. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(6, 0.5, Enough::AtLeast(9)),
                "9 or more would have been needed for the accepted events. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(6, 1.5, Enough::Grows(9)),
                "no length is enough. Its utilisation is 1.50, so a longer run needs a longer queue. For this \
                 run 9 would have been enough for the accepted events. Its queue of 3 lost 60.00 % of the events.",
            ),
            (
                finding(0, 1.5, Enough::Grows(2)),
                "no length is enough. Its utilisation is 1.50, so a longer run needs a longer queue. Here its \
                 queue of 3 lost nothing, and held 2.",
            ),
        ] {
            let text = of_run(&outcome(), std::slice::from_ref(&finding));
            let words: Vec<&str> = text.split_whitespace().collect();
            let head = if matches!(finding.enough, Enough::Waited(_)) {
                "The bus waited for 'w\\u{1b}': lengthen that queue or --incoming first. The"
            } else {
                "Lengthen it first: the"
            };
            assert_eq!(
                words.join(" "),
                format!("{QUESTION} {REFUSED} {head} {ACCEPTED} w\\u{{1b}}: {expected}")
            );
        }
        let mut whole = outcome();
        (whole.bus.rejected_full, whole.published.refused) = (0, 0);
        let text = of_run(&whole, &[finding(0, 0.5, Enough::Held(3))]);
        assert!(text.contains("?\nw\\u{1b}: 3 would have been enough. Its queue"), "{text}");
        let mut early = outcome();
        early.accounts[0].stats.offered = 0;
        let text = of_run(&early, &[finding(0, 0.0, Enough::Held(0))]);
        assert!(text.ends_with("the run is too short to tell.\n"), "{text}");
    }

    const SPREAD: Spread = Spread { count: 6, least: 25, median: 41, most: 131, most_seed: 6 };

    #[test]
    fn with_several_seeds_the_answer_is_the_largest_length_and_its_margin() {
        let mut outcome = outcome();
        outcome.published.refused = 0;
        let answer = |spread, enough| {
            let text = of_run(&outcome, &[Finding { spread: Some(spread), ..finding(0, 0.5, enough) }]);
            let words: Vec<&str> = text.split_whitespace().collect();
            words.join(" ").split_once("w\\u{1b}: ").expect("an answer").1.to_owned()
        };
        let seeds = "They need 25 to 131 (median 41, --seed 6 the most), and about one run in 7 with yet another \
                     seed needs more.";
        assert_eq!(
            answer(SPREAD, Enough::Held(34)),
            format!(
                "131 would have been enough with each of 6 seeds. {seeds} Its queue of 3 lost nothing, and held \
                 34 at most."
            )
        );
        // The machine was late, so more events were waiting than the handler's times would imply.
        let late = answer(SPREAD, Enough::AtLeast(140));
        assert!(late.starts_with("140 or more would have been needed with each of 6 seeds. They"), "{late}");
        let one = answer(Spread { count: 1, ..SPREAD }, Enough::Held(34));
        assert!(
            one.contains(" with this seed. Another seed needs another length: add --seeds. Its"),
            "{one}"
        );
    }

    #[test]
    fn a_sweep_counts_only_what_is_enough_with_each_seed() {
        let point = |value: u64| {
            let mut outcome = outcome();
            outcome.settings.watchers[0].queue = value as usize;
            let finding = Finding { spread: Some(SPREAD), ..finding(0, 0.5, Enough::Held(34)) };
            Point { value, outcome, findings: vec![finding] }
        };
        let text = of_sweep(Swept::Queue, &[50, 100, 200].map(point));
        let words: Vec<&str> = text.split_whitespace().collect();
        let expected = "a queue of 200 was enough with each of 6 seeds, and 100 was not. By the handler's times \
                        131 would have been enough with each of 6 seeds. They need 25 to 131";
        assert!(words.join(" ").contains(expected), "{text}");
        let refused = "--incoming: 3 or more would have been needed. The bus's own queue of 1 refused events in 3 \
                       of 3 runs, up to 23.08 % of them";
        assert!(words.join(" ").contains(&format!("runs can tell? {refused}")), "{text}");
    }

    /// Returns the output of a sweep. Each pair consists of a value and the number of events lost
    /// with that value.
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
        words.join(" ").split_once("w\\u{1b}: ").expect("an answer").1.to_owned()
    }

    #[test]
    fn a_sweep_shows_which_value_was_enough_and_which_was_not() {
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
