//! Human-readable numbers, in arguments and in output.

use std::ops::RangeInclusive;

use super::text::quoted;

/// Parses the value of `option` as a number. If the text is not a number in the range, returns an
/// error that specifies what `option` must be.
pub(crate) fn parse(option: &str, allowed: RangeInclusive<u64>, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| {
        let (start, end) = allowed.into_inner();
        format!("{option} must be a number from {start} to {end}, got {}", quoted(text))
    })
}

/// Formats the number with thousands separators, such as `12,345`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// Formats the number followed by the noun, which is in the plural unless the number is 1.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    let end = if number == 1 { "" } else { "s" };
    format!("{} {noun}{end}", grouped(number))
}

#[cfg(test)]
mod tests {
    use super::{counted, grouped, parse};

    #[test]
    fn one_is_not_many() {
        let shown = [0, 1, 2000].map(|number| counted(number, "run"));
        assert_eq!(shown, ["0 runs", "1 run", "2,000 runs"]);
    }

    #[test]
    fn thousands_are_set_off() {
        for (number, shown) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn errors_list_the_allowed_numbers() {
        assert_eq!(parse("--limit", 0..=7, "7"), Ok(7));
        for text in ["8", "-1", "", "1.5", "x\u{1b}"] {
            let error = parse("--limit", 0..=7, text).unwrap_err();
            assert!(error.starts_with("--limit must be a number from 0 to 7, got '"), "{error}");
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
