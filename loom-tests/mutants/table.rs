//! The table in `loom-tests/MUTANTS.md`, with the results of the models and the stress test, and
//! the reasons why surviving mutants are acceptable.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::scan::Mutant;

/// The models' verdict on a mutant.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// The mutant was caught. Contains the name of the model that caught the mutant, and the kind
    /// of failure.
    Caught(String),
    /// The mutant survived. Contains the explanation, which is empty if the table has none yet.
    Survived(String),
}

/// The columns after a mutant's key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) models: Option<Verdict>,
    /// The text of the stress test's cell. Empty if the mutant has not been run with the stress
    /// test.
    pub(crate) stress: String,
}

pub(crate) struct Table {
    rows: BTreeMap<String, Row>,
}

const SURVIVED: &str = "*survived*: ";
const HEAD: &str = "| file | function | code | change | caught by | stress test |";

impl Table {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|error| format!("{}: {error}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Self::parse(""),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Parses the table. The stress test's column may be missing from a row. Returns an error if a
    /// row has any other number of cells.
    fn parse(text: &str) -> Result<Self, String> {
        let mut rows = BTreeMap::new();
        let is_row =
            |line: &&str| ["| bus/", "| sync/", "| topics/"].iter().any(|begin| line.starts_with(begin));
        for line in text.lines().filter(is_row) {
            // Pipes within a cell are escaped, so unescaped pipes separate cells.
            let cells: Vec<&str> =
                line.trim_start_matches("| ").trim_end_matches(" |").split(" | ").collect();
            let (key, verdict, stress) = match cells[..] {
                [_, _, _, _, verdict] => (&cells[..4], verdict, ""),
                [_, _, _, _, verdict, stress] => (&cells[..4], verdict, stress),
                _ => {
                    return Err(format!(
                        "cannot read the row: {} cells instead of 5 or 6: {line}",
                        cells.len()
                    ));
                }
            };
            let verdict = match verdict.strip_prefix(SURVIVED.trim_end()) {
                Some(why) => Verdict::Survived(why.trim().to_owned()),
                None => Verdict::Caught(verdict.to_owned()),
            };
            rows.insert(key.join(" | "), Row { models: Some(verdict), stress: stress.trim().to_owned() });
        }
        Ok(Self { rows })
    }

    pub(crate) fn row(&self, key: &str) -> Option<&Row> {
        self.rows.get(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.rows.keys()
    }

    fn verdict(&self, key: &str) -> Option<&Verdict> {
        self.rows.get(key)?.models.as_ref()
    }

    pub(crate) fn is_explained(&self, key: &str) -> bool {
        matches!(self.verdict(key), Some(Verdict::Survived(why)) if !why.is_empty())
    }

    /// Returns the model that caught the mutant last time. Returns `None` if no model caught the
    /// mutant, or if the mutant is not in the table.
    pub(crate) fn catcher(&self, key: &str) -> Option<&str> {
        match self.verdict(key)? {
            Verdict::Caught(by) => by.split('`').nth(1),
            Verdict::Survived(_) => None,
        }
    }
}

/// Writes the table. The text that precedes the table in the existing file is kept.
pub(crate) fn write(path: &Path, rows: &[(&Mutant, Row)]) -> Result<(), String> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let text = written(&old, rows.iter().map(|(mutant, row)| (mutant.key(), row)));
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn written<'r>(old: &str, rows: impl Iterator<Item = (String, &'r Row)>) -> String {
    let mut text = old.split("\n| file |").next().unwrap_or_default().trim_end().to_owned();
    write!(text, "\n\n{HEAD}\n|---|---|---|---|---|---|\n").expect("a string takes what is written");
    for (key, Row { models, stress }) in rows {
        let models = match models {
            Some(Verdict::Caught(by)) => by.clone(),
            Some(Verdict::Survived(why)) => format!("{SURVIVED}{why}").trim_end().to_owned(),
            None => String::new(),
        };
        writeln!(text, "| {key} | {models} | {stress} |").expect("a string takes what is written");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Row, Table, Verdict, written};

    const OLD: &str = "\
# Text

| file | function | code | change | caught by |
|---|---|---|---|---|
| bus/a.rs | A::b | `f(\\|\\| g() \\| H)` | without the wake-up | `m::n` (a deadlock) |
| sync/c.rs | d | `e();` | Acquire to Relaxed | *survived*: a reason |
";

    #[test]
    fn a_table_without_the_stress_test_is_read_and_gets_its_column() {
        let table = Table::parse(OLD).expect("a table");
        let keys: Vec<String> = table.keys().cloned().collect();
        assert_eq!(keys.len(), 2);
        assert_eq!(table.catcher(&keys[0]), Some("m::n"));
        assert!(table.is_explained(&keys[1]));

        let rows: Vec<(String, Row)> = keys
            .iter()
            .map(|key| {
                (key.clone(), Row { stress: "`t` (a hang)".into(), ..table.row(key).unwrap().clone() })
            })
            .collect();
        let text = written(OLD, rows.iter().map(|(key, row)| (key.clone(), row)));
        assert!(text.starts_with("# Text\n\n| file |"), "{text}");
        let again = Table::parse(&text).expect("a table");
        for key in &keys {
            assert_eq!(again.row(key).unwrap().stress, "`t` (a hang)");
        }
        assert!(
            matches!(&again.row(&keys[1]).unwrap().models, Some(Verdict::Survived(why)) if why == "a reason")
        );
        assert_eq!(written(&text, rows.iter().map(|(key, row)| (key.clone(), row))), text);
    }

    #[test]
    fn an_empty_cell_at_the_end_is_read() {
        let row = "| bus/a.rs | A::b | `c` | d | `m` (e) |  |\n";
        assert_eq!(Table::parse(row).expect("a row").row("bus/a.rs | A::b | `c` | d").unwrap().stress, "");
    }

    #[test]
    fn a_row_with_a_cell_too_many_is_refused() {
        let row = "| bus/a.rs | A::b | `c` | d | *survived*: one | two | three |\n";
        assert!(Table::parse(row).is_err());
    }
}
