//! Formats text, names and figures for the results.

use std::io;

use hdrhistogram::Histogram;
use unicode_width::UnicodeWidthStr as _;

use super::reader::Watcher;
use crate::support::terminal;
use crate::support::text::{cut, plain};

/// Wraps text into lines of a readable length that fit the terminal, if there is a terminal. All
/// lines except the first line are indented.
pub(super) fn wrapped(text: &str, indent: &str) -> String {
    wrapped_to(columns(), text, indent)
}

fn columns() -> usize {
    const NARROW: usize = 40;
    const WIDE: usize = 100;
    terminal::width(io::stdout()).map_or(WIDE, |width| width.clamp(NARROW, WIDE))
}

fn wrapped_to(most: usize, text: &str, indent: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let width = word.width();
        if column > 0 && column + 1 + width > most {
            out.push('\n');
            out.push_str(indent);
            column = indent.len();
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += width;
    }
    out.push('\n');
    out
}

/// Like [`wrapped`], but indents all lines.
pub(super) fn indented(text: &str, indent: &str) -> String {
    indented_to(columns(), text, indent)
}

fn indented_to(most: usize, text: &str, indent: &str) -> String {
    let lines = wrapped_to(most - indent.len(), text, "");
    lines.lines().flat_map(|line| [indent, line, "\n"]).collect()
}

/// Formats a quantile in milliseconds, or as `-` if nothing was recorded.
pub(super) fn at_quantile(histogram: &Histogram<u64>, quantile: f64) -> String {
    if histogram.is_empty() {
        return "-".to_owned();
    }
    format!("{:.3}", histogram.value_at_quantile(quantile) as f64 / 1e6)
}

/// Returns the watcher's escaped name, truncated to fit into a table.
pub(super) fn name(watcher: &Watcher) -> String {
    const WIDTH: usize = 24;
    let name = plain(&watcher.name);
    if name.width() <= WIDTH { name } else { format!("{}..", cut(&name, WIDTH - 2)) }
}

#[cfg(test)]
mod tests {
    use super::{indented_to, wrapped_to};

    #[test]
    fn an_indented_text_fits_too() {
        assert_eq!(indented_to(11, "one two three four", "    "), "    one two\n    three\n    four\n");
        assert_eq!(indented_to(22, "one two three four", "    "), "    one two three four\n");
    }

    #[test]
    fn a_text_fits_between_its_margins() {
        assert_eq!(wrapped_to(11, "one two three four", "  "), "one two\n  three\n  four\n");
        assert_eq!(wrapped_to(18, "one two three four", "  "), "one two three four\n");
        assert_eq!(wrapped_to(3, "one longer", ""), "one\nlonger\n");
        assert_eq!(wrapped_to(7, "起動 起動", ""), "起動\n起動\n", "a wide character takes two columns");
    }
}
