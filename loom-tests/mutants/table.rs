//! The table in `loom-tests/MUTANTS.md`: what was found, and why a survivor may live.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::scan::Mutant;

#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    /// By which model, and how.
    Caught(String),
    /// Why.
    Survived(String),
}

pub(crate) struct Table {
    rows: BTreeMap<String, Verdict>,
}

const SURVIVED: &str = "*survived*: ";

impl Table {
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(format!("{}: {error}", path.display())),
        };
        let rows = text.lines().filter_map(|line| {
            let (key, verdict) = line.strip_prefix("| ")?.strip_suffix(" |")?.rsplit_once(" | ")?;
            if !key.starts_with("bus/") && !key.starts_with("sync/") {
                return None;
            }
            Some((
                key.to_owned(),
                match verdict.strip_prefix(SURVIVED.trim_end()) {
                    Some(why) => Verdict::Survived(why.trim().to_owned()),
                    None => Verdict::Caught(verdict.to_owned()),
                },
            ))
        });
        Ok(Self { rows: rows.collect() })
    }

    pub(crate) fn verdict(&self, key: &str) -> Option<&Verdict> {
        self.rows.get(key)
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &String> {
        self.rows.keys()
    }

    pub(crate) fn is_explained(&self, key: &str) -> bool {
        matches!(self.rows.get(key), Some(Verdict::Survived(why)) if !why.is_empty())
    }

    /// The model that caught it last time.
    pub(crate) fn catcher(&self, key: &str) -> Option<&str> {
        match self.rows.get(key)? {
            Verdict::Caught(by) => by.split('`').nth(1),
            Verdict::Survived(_) => None,
        }
    }
}

/// Writes the table anew below the text at its head, which stays.
pub(crate) fn write(path: &Path, rows: &[(&Mutant, Verdict)]) -> Result<(), String> {
    let old = fs::read_to_string(path).unwrap_or_default();
    let mut text = old.split("\n| file |").next().unwrap_or_default().trim_end().to_owned();
    text.push_str("\n\n| file | function | code | change | caught by |\n|---|---|---|---|---|\n");
    for (mutant, verdict) in rows {
        match verdict {
            Verdict::Caught(by) => writeln!(text, "| {} | {by} |", mutant.key()),
            Verdict::Survived(why) => {
                writeln!(text, "| {} | {} |", mutant.key(), format!("{SURVIVED}{why}").trim_end())
            }
        }
        .expect("a string takes what is written");
    }
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}
