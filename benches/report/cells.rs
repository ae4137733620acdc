//! Formats the numbers in table cells and next to the bars.

use crate::data::Rounds;

/// The text of the cell for a missing figure.
pub(crate) const NONE: &str = "–";

/// Formats a number with the given number of decimals and with commas as thousands separators.
fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    for (number, digit) in whole.chars().enumerate() {
        if number > 0 && (whole.len() - number) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{out}{rest}")
}

/// Formats a rate in millions per second.
pub(crate) fn millions(rate: f64) -> String {
    let rate = rate / 1e6;
    let decimals = match rate {
        _ if rate < 0.1 => 2,
        _ if rate < 20.0 => 1,
        _ => 0,
    };
    grouped(rate, decimals)
}

/// Formats a time in nanoseconds as microseconds.
pub(crate) fn micros(nanos: f64) -> String {
    let micros = nanos / 1e3;
    grouped(micros, usize::from(micros < 99.95))
}

/// Formats a number without decimals.
pub(crate) fn whole(value: f64) -> String {
    grouped(value, 0)
}

/// Formats a number with three decimals.
pub(crate) fn thousandths(value: f64) -> String {
    grouped(value, 3)
}

/// Formats a number with two decimals.
pub(crate) fn hundredths(value: f64) -> String {
    grouped(value, 2)
}

/// Formats a number with at least three digits.
pub(crate) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        0.0 => 0,
        size if size < 1.0 => 3,
        size if size < 10.0 => 2,
        size if size < 100.0 => 1,
        _ => 0,
    };
    grouped(value, decimals)
}

/// Formats the median, followed by the minimum and the maximum in parentheses if they are known.
pub(crate) fn spread(rounds: &Rounds, show: impl Fn(f64) -> String) -> String {
    let Some(median) = rounds.median() else { return NONE.to_owned() };
    match rounds.spread() {
        Some((least, most)) => format!("{} ({}–{})", show(median), show(least), show(most)),
        None => show(median),
    }
}

/// Formats the median, or returns a dash if there is no median.
pub(crate) fn middle(rounds: Option<&Rounds>, show: impl Fn(f64) -> String) -> String {
    optional(rounds.and_then(Rounds::median), show)
}

/// Formats the figure, or returns a dash if there is no figure.
pub(crate) fn optional(figure: Option<f64>, show: impl Fn(f64) -> String) -> String {
    figure.map_or_else(|| NONE.to_owned(), show)
}

/// Returns the suffix for the cell of a contender that lost events, and an empty string for other
/// contenders.
pub(crate) fn lost(share: Option<f64>) -> String {
    match share {
        Some(share) if share > 0.0 => format!(", lost {:.1} %", 100.0 * share),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_few_digits() {
        assert_eq!(
            [66_000.0, 4.04e6, 19.94e6, 22.4e6, 1234e6].map(millions),
            ["0.07", "4.0", "19.9", "22", "1,234"]
        );
        assert_eq!([1040.0, 99_940.0, 99_960.0, 2e6].map(micros), ["1.0", "99.9", "100", "2,000"]);
        assert_eq!(
            [0.0, 0.0156, 1.234, 12.34, 396_000.4].map(digits),
            ["0", "0.016", "1.23", "12.3", "396,000"]
        );
        assert_eq!(whole(-1287.0), "-1,287");
    }

    #[test]
    fn a_figure_without_rounds_is_a_dash() {
        assert_eq!(spread(&Rounds::default(), digits), NONE);
        assert_eq!(spread(&Rounds::Each(vec![3.0, 1.0, 2.0]), digits), "2.00 (1.00–3.00)");
        let summary = Rounds::Summary { median: 2.0, least: None, most: None };
        assert_eq!(spread(&summary, digits), "2.00");
        assert_eq!(
            (lost(None), lost(Some(0.0)), lost(Some(0.5))),
            (String::new(), String::new(), ", lost 50.0 %".into())
        );
    }
}
