//! Formats tables.

use unicode_width::UnicodeWidthStr as _;

/// Formats rows as a table. Each column is as wide on a terminal as its widest cell, and adjacent
/// columns are separated by two spaces. Numbers are right-aligned.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| {
                let blanks = " ".repeat(width - cell.width());
                if cell.parse::<f64>().is_ok() { blanks + cell } else { cell.clone() + &blanks }
            })
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::render;

    #[test]
    fn wide_characters_take_two_columns() {
        let rows = [["NAME", "COUNT"], ["起動", "7"], ["e\u{301}", "10"]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            render(&rows),
            "NAME  COUNT\n\
             起動      7\n\
             e\u{301}        10\n"
        );
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [["NAME", "COUNT", "WHERE"], ["a", "7.5", "here"], ["long name", "1000000", ""]];
        let rows = rows.map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(
            render(&rows),
            "NAME       COUNT    WHERE\n\
             a              7.5  here\n\
             long name  1000000\n"
        );
    }
}
