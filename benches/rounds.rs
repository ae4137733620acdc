//! Statistics over the rounds of a measurement.

use crate::table::{median, sorted};

/// The limit of the width of an interval, as a share of the median.
const WIDTH: f64 = 0.1;
/// The limit of the difference between the two halves of the rounds.
const DIFFERENCE: f64 = 0.03;
/// The least number of rounds whose minimum and maximum enclose the median with a probability of
/// 95 %.
const FEWEST: usize = 6;
/// The number by which the requested number of rounds is multiplied at most.
const MOST: usize = 3;

/// Returns an interval that contains the true median with a probability of at least 95 %, or
/// `None` if there are too few rounds. The bounds are the k-th smallest and the k-th largest
/// figure, where a fair coin shows heads fewer than k times in as many throws as there are rounds
/// with a probability of at most 2.5 %.
///
/// Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
#[must_use]
pub fn interval(figures: &[f64]) -> Option<(f64, f64)> {
    let sorted = sorted(figures);
    let rounds = sorted.len() as i32;
    let (mut heads, mut probability, mut below) = (0, 0.5_f64.powi(rounds), 0.0);
    while below + probability <= 0.025 {
        below += probability;
        probability *= f64::from(rounds - heads) / f64::from(heads + 1);
        heads += 1;
    }
    let first = heads.checked_sub(1).filter(|first| *first >= 0)? as usize;
    Some((sorted[first], sorted[sorted.len() - 1 - first]))
}

/// Returns whether the interval is narrower than a tenth of the median.
#[must_use]
pub fn is_narrow(figures: &[f64]) -> bool {
    interval(figures).is_some_and(|(low, high)| high - low < WIDTH * median(figures))
}

/// Returns the median of the ratios and its interval as text, with the mark `~` if the interval is
/// not narrow.
#[must_use]
pub fn ratio(ratios: &[f64]) -> String {
    let mark = if is_narrow(ratios) { "" } else { "~" };
    let interval = interval(ratios).map_or_else(String::new, |(low, high)| format!(" ({low:.2}-{high:.2})"));
    format!("{mark}{:.2}{interval}", median(ratios))
}

/// Returns whether a contender with the given figures, one for each round so far, has another
/// round. There are at least `rounds` rounds, and then more until the interval is narrow, but at
/// most three times as many. If there are too few rounds for an interval, their number is exact.
fn has_another_round(figures: &[f64], rounds: usize) -> bool {
    let can_judge = rounds >= FEWEST;
    figures.len() < rounds || (can_judge && figures.len() < MOST * rounds && !is_narrow(figures))
}

/// Returns the ratio of the base's figure to the other contender's figure in each round that both
/// had.
#[must_use]
pub fn ratios(base: &[f64], other: &[f64]) -> Vec<f64> {
    base.iter().zip(other).map(|(base, other)| base / other).collect()
}

/// Runs rounds of all rows in turns. `figures` returns a row's figures so far, one for each round,
/// and `run` runs another round and adds its figure.
///
/// `has_another_round` decides how many rounds a row has, judging by the row's ratios to the row
/// with the index `base`. The base has a round whenever another row has one, so each ratio is
/// between figures of the same round. Without a base, and for the base itself, the figures decide.
/// A row to which `run` adds no figure has no more rounds.
pub fn take_turns<R>(
    rows: &mut [R],
    base: Option<usize>,
    rounds: usize,
    figures: impl Fn(&R) -> Vec<f64>,
    mut run: impl FnMut(usize, &mut R),
) {
    for round in 0.. {
        let all: Vec<_> = rows.iter().map(&figures).collect();
        let has_turn = |(row, own): (usize, &Vec<f64>)| {
            let base = base.filter(|base| *base != row).map(|base| ratios(&all[base], own));
            own.len() == round && has_another_round(base.as_ref().unwrap_or(own), rounds)
        };
        let mut turns: Vec<_> = all.iter().enumerate().map(has_turn).collect();
        if !turns.contains(&true) {
            break;
        }
        if let Some(base) = base {
            turns[base] = true;
        }
        rows.iter_mut().zip(turns).filter(|(_, turn)| *turn).for_each(|(row, _)| run(round + 1, row));
    }
}

/// Returns the number of rounds of the rows, such as `7` or `7 to 21`.
#[must_use]
pub fn range(rounds: impl Iterator<Item = usize> + Clone) -> String {
    match (rounds.clone().min().unwrap_or(0), rounds.max().unwrap_or(0)) {
        (least, most) if least == most => least.to_string(),
        (least, most) => format!("{least} to {most}"),
    }
}

/// Returns the median of the odd rounds relative to the median of the even rounds, or `None` if
/// there are fewer than four rounds.
///
/// The two halves measure the same thing in turns, so on a quiet machine, the result is close to 1.
#[must_use]
pub fn halves(figures: &[f64]) -> Option<f64> {
    let half = |odd: usize| figures.iter().copied().skip(odd).step_by(2).collect::<Vec<_>>();
    (figures.len() >= 4).then(|| median(&half(0)) / median(&half(1)))
}

/// Returns why the figures were not taken on a quiet machine, judging by the two halves of the
/// rounds. Returns `None` if the halves agree.
#[must_use]
pub fn disagreement(halves: Option<f64>) -> Option<String> {
    let percent = 100.0 * DIFFERENCE;
    match halves {
        Some(ratio) if (ratio - 1.0).abs() <= DIFFERENCE => None,
        Some(ratio) => Some(format!("odd and even rounds differ by more than {percent} %: {ratio:.2}")),
        None => Some("too few rounds".to_owned()),
    }
}

/// Returns the mark for the heading of a table whose first contender has the given figures. The
/// mark is empty if the two halves of the figures agree.
#[must_use]
pub fn mark(figures: &[f64]) -> String {
    disagreement(halves(figures)).map_or_else(String::new, |text| format!(", NOT QUIET, {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_to(rounds: u32) -> Vec<f64> {
        (1..=rounds).map(f64::from).collect()
    }

    /// A table of the sign test has the same ranks.
    #[test]
    fn the_interval_has_the_ranks_of_the_sign_test() {
        for (rounds, low) in [(6, 1.0), (8, 1.0), (9, 2.0), (12, 3.0), (15, 4.0), (21, 6.0), (25, 8.0)] {
            let high = f64::from(rounds) + 1.0 - low;
            assert_eq!(interval(&one_to(rounds)), Some((low, high)), "{rounds}");
        }
        assert_eq!((interval(&one_to(5)), interval(&[])), (None, None));
    }

    #[test]
    fn rows_have_rounds_until_the_interval_is_narrow() {
        let narrow = [100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 106.0];
        let wide = [1.0; 3].iter().chain(&[2.0; 30]).copied().collect::<Vec<_>>();
        assert!(has_another_round(&narrow[..6], 7) && !has_another_round(&narrow, 7));
        assert!(has_another_round(&one_to(20), 7) && !has_another_round(&one_to(21), 7));
        assert!(has_another_round(&wide[..7], 7) && !has_another_round(&wide[..21], 7));
        // Five rounds cannot be judged, so their number is exact.
        assert!(has_another_round(&one_to(4), 5) && !has_another_round(&one_to(5), 5));
    }

    #[test]
    fn the_base_has_a_round_whenever_another_row_has_one() {
        // The ratio of the second row to the base varies. The ratio of the third row is constant.
        let mut rows = [vec![], vec![], vec![]];
        let mut order = Vec::new();
        take_turns(&mut rows, Some(0), 6, Vec::clone, |round, row: &mut Vec<f64>| {
            let figure = [100.0, (round * round) as f64, 50.0][order.len() % 3];
            order.push(round);
            row.push(figure);
        });
        assert_eq!(order[..18], [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 6, 6, 6]);
        assert_eq!(rows.map(|row| row.len()), [18, 18, 6]);
    }

    #[test]
    fn a_row_that_adds_no_figure_ends() {
        let mut rows = [vec![], vec![]];
        take_turns(&mut rows, None, 6, Vec::clone, |round, row: &mut Vec<f64>| {
            if row.is_empty() {
                row.push(round as f64);
            }
        });
        assert_eq!(rows, [[1.0], [1.0]]);
    }

    #[test]
    fn the_halves_take_turns() {
        assert_eq!(halves(&[2.0, 1.0, 2.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(halves(&[1.0, 1.0, 1.0]), None);
        assert_eq!(disagreement(Some(1.029)), None);
        assert_eq!(disagreement(Some(0.96)).unwrap(), "odd and even rounds differ by more than 3 %: 0.96");
        assert_eq!(disagreement(None).unwrap(), "too few rounds");
    }
}
