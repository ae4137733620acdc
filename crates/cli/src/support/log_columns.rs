//! Aligns the columns of a log whose lines are printed one by one.

use unicode_width::UnicodeWidthStr as _;

/// The maximum widths to which the reason and the object are padded. These limits prevent a single
/// long name from shifting the messages of all later lines.
const MOST: [usize; 2] = [24, 40];
/// The total width of the time and the type, each followed by two spaces.
#[cfg(unix)]
const TIME_AND_TYPE: usize = 22 + 9;

/// The current column widths, which grow as wider lines are printed.
#[derive(Debug, Default)]
pub(crate) struct LogColumns([usize; 2]);

impl LogColumns {
    /// Returns the reason and the object, padded to the widest reason and the widest object so far.
    pub(crate) fn pad(&mut self, cells: [&str; 2]) -> [String; 2] {
        let mut padded = cells.map(str::to_owned);
        for ((cell, widest), most) in padded.iter_mut().zip(&mut self.0).zip(MOST) {
            *widest = cell.width().min(most).max(*widest);
            cell.push_str(&" ".repeat(widest.saturating_sub(cell.width())));
        }
        padded
    }

    /// Pads the reason and the object in a line from `EventBroadcaster::log_to`.
    #[cfg(unix)]
    pub(crate) fn align(&mut self, line: &str) -> String {
        let columns = line.split_at_checked(TIME_AND_TYPE).and_then(|(head, rest)| {
            let (reason, rest) = rest.split_once("  ")?;
            Some((head, reason, rest.split_once("  ")?))
        });
        let Some((head, reason, (object, message))) = columns else { return line.to_owned() };
        let [reason, object] = self.pad([reason, object]);
        format!("{head}{reason}  {object}  {message}")
    }
}

#[cfg(test)]
mod tests {
    use super::LogColumns;

    #[test]
    fn columns_grow_to_the_widest_cell() {
        let mut columns = LogColumns::default();
        assert_eq!(columns.pad(["Started", "pod/a"]), ["Started", "pod/a"]);
        assert_eq!(columns.pad(["Failed", "pod/起動"]), ["Failed ", "pod/起動"]);
        assert_eq!(columns.pad(["Failed", "pod/a"]), ["Failed ", "pod/a   "]);
        let long = "x".repeat(100);
        assert_eq!(columns.pad([&long, &long]), [&*long, &*long]);
        assert_eq!(columns.pad(["", ""]).map(|cell| cell.len()), [24, 40]);
    }

    #[cfg(unix)]
    #[test]
    fn the_lines_of_a_log_are_aligned() {
        let mut columns = LogColumns::default();
        let mut aligned = |line: &str| columns.align(line);
        let created = "2026-01-02T03:04:05Z  Normal   Created  process/server  supervising  it";
        assert_eq!(aligned(created), created);
        assert_eq!(
            aligned("2026-01-02T03:04:05Z  Warning  Failed  process/a  ended"),
            "2026-01-02T03:04:05Z  Warning  Failed   process/a       ended"
        );
        for other in ["(3 events lost here)", "", "起動起動起動起動起動起動起動起動起動起動起動"]
        {
            assert_eq!(aligned(other), other);
        }
    }
}
