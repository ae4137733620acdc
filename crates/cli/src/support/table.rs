//! Rows in columns.

/// Returns the rows in columns as wide as their longest cell, two blanks apart. Cells that are
/// numbers stand to the right.
pub(crate) fn render(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| match cell.parse::<f64>() {
                Ok(_) => format!("{cell:>width$}"),
                Err(_) => format!("{cell:<width$}"),
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
