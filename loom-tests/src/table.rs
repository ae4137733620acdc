//! Writes what a whole run has found: `matrix.json`, and the tables of `docs/verification.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::record::Record;

/// The columns of the matrix: what ends the bus.
pub const ENDS: [&str; 5] =
    ["close", "shutdown", "shutdown, deadline passed", "two shutdowns", "drop of the last handle"];

/// The columns of the matrix of readers: what a reader meets.
pub const MEETS: [&str; 5] = ["an offer", "a gap", "`DropOldest`", "`Wait`", "a stop"];

/// The columns of the matrix of turns: the one that waits behind the first.
pub const BEHIND: [&str; 5] = [
    "`publish` behind",
    "`publish_async` behind",
    "`watch` behind",
    "`watch_async` behind",
    "`flush` behind",
];

/// The columns of which every cell is whole at two preemptions or more.
pub const WHOLE: [&str; 2] = [ENDS[0], ENDS[1]];

const DOCS: &str = "../docs/verification.md";
const BEGIN: &str = "<!-- The tables from here are written by `cargo loom`. -->";
const END: &str = "<!-- The tables end here. -->";

/// Writes both. Deep runs have a file of their own, and no table.
///
/// # Errors
///
/// Names the file that cannot be read or written.
pub fn write(records: &[Record], is_deep: bool) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let lines: Vec<String> = records.iter().map(|record| format!("  {}", record.to_json())).collect();
    let json = format!("[\n{}\n]\n", lines.join(",\n"));
    let name = if is_deep { "deep.json" } else { "matrix.json" };
    put(&folder.join(name), &json)?;
    if is_deep { Ok(()) } else { write_tables() }
}

/// Writes the tables anew from `matrix.json`.
///
/// # Errors
///
/// Names the file that cannot be read or written.
pub fn write_tables() -> Result<(), String> {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCS);
    put(&docs, &with_tables(&get(&docs)?, &known()?)?)
}

/// The text of the documentation with these tables in it.
fn with_tables(text: &str, records: &[Record]) -> Result<String, String> {
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("cannot find where the tables stand in {DOCS}"))?;
    Ok(format!("{head}{BEGIN}\n\n{}\n{END}{tail}", tables(records)))
}

/// Reads `matrix.json`.
fn known() -> Result<Vec<Record>, String> {
    let text = get(&Path::new(env!("CARGO_MANIFEST_DIR")).join("matrix.json"))?;
    Ok(text.lines().filter_map(Record::from_json).collect())
}

/// Whether these are as `matrix.json` has them, and says which are not. loom takes the same steps on every machine.
///
/// # Errors
///
/// Names the file that cannot be read.
pub fn compare(records: &[Record]) -> Result<bool, String> {
    let known = known()?;
    let mut good = true;
    for record in records.iter().filter(|record| !known.contains(record)) {
        good = false;
        match known.iter().find(|known| known.model == record.model) {
            Some(known) => println!("{} is {record}; matrix.json says {known}", record.model),
            None => println!("{} is not in matrix.json", record.model),
        }
    }
    if !good {
        println!("`cargo loom` writes matrix.json and the tables anew");
    }
    Ok(good)
}

fn get(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn put(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

fn tables(records: &[Record]) -> String {
    let mut text = String::new();
    let is_whole_at = |record: &Record, bound: usize| {
        if record.whole {
            record.preemptions >= bound
        } else {
            record.below > 0 && record.preemptions > bound
        }
    };
    let count_at = |bound: usize| records.iter().filter(|record| is_whole_at(record, bound)).count();
    let executions: usize = records.iter().map(|record| record.executions + record.below).sum();
    let _ = writeln!(
        text,
        "{} models: {} are whole at two preemptions, {} more at one, {} are stopped before. {} executions in all.\n",
        records.len(),
        count_at(2),
        count_at(1) - count_at(2),
        records.len() - count_at(1),
        grouped(executions)
    );
    for columns in [ENDS, MEETS, BEHIND] {
        let _ = writeln!(text, "| | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
        for operation in rows(records, &columns) {
            let cells = columns.map(|end| {
                let cell = records.iter().find(|record| record.operation == operation && record.end == end);
                cell.map_or("**missing**".to_owned(), cell_text)
            });
            let _ = writeln!(text, "| {operation} | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "| other models | threads | executions |\n|---|---|---|");
    for record in records.iter().filter(|record| record.operation.is_empty()) {
        let Record { model, threads, .. } = record;
        let _ = writeln!(text, "| `{model}` | {threads} | {} |", count(record));
    }
    text
}

/// The rows of the matrix with these columns, in the order of the models' names, which is that of the records.
fn rows<'r>(records: &'r [Record], columns: &[&str]) -> Vec<&'r str> {
    let mut seen = BTreeSet::new();
    let cells = records.iter().filter(|record| columns.contains(&record.end.as_str()));
    cells.map(|record| record.operation.as_str()).filter(|operation| seen.insert(*operation)).collect()
}

fn cell_text(record: &Record) -> String {
    let Record { threads, .. } = record;
    format!("{}, {threads} threads", count(record))
}

/// The executions, each number with its bound on preemptions.
fn count(record: &Record) -> String {
    let Record { preemptions, executions, whole, below, .. } = record;
    match (whole, below) {
        (true, _) => format!("whole at {preemptions}: {}", grouped(*executions)),
        (false, 0) => format!("first {} at {preemptions}", grouped(*executions)),
        (false, _) => format!(
            "whole at {}: {}, first {} at {preemptions}",
            preemptions - 1,
            grouped(*below),
            grouped(*executions)
        ),
    }
}

/// With a comma for each thousand.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{BEHIND, DOCS, ENDS, MEETS, Record, WHOLE, get, known, rows, with_tables};

    #[test]
    fn the_documentation_says_what_the_last_whole_run_found() {
        let text = get(&Path::new(env!("CARGO_MANIFEST_DIR")).join(DOCS)).unwrap();
        let wanted = with_tables(&text, &known().unwrap()).unwrap();
        assert_eq!(text, wanted, "`cargo loom` writes the tables");
    }

    #[test]
    fn the_matrix_has_no_empty_cell() {
        let known = known().unwrap();
        for (columns, least) in [(ENDS, 21), (MEETS, 6), (BEHIND, 7)] {
            let rows = rows(&known, &columns);
            assert!(rows.len() >= least, "{rows:?}");
            for (operation, end) in rows.iter().flat_map(|row| columns.map(|end| (*row, end))) {
                let cells = known.iter().filter(|record| record.operation == operation && record.end == end);
                let cells: Vec<&Record> = cells.collect();
                assert_eq!(cells.len(), 1, "{operation}, {end}");
                assert!(cells[0].threads >= 2, "{}", cells[0].model);
                let is_whole = cells[0].whole && cells[0].preemptions >= 2;
                assert!(is_whole || !WHOLE.contains(&end), "{} is not whole", cells[0].model);
            }
        }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        for record in known().unwrap() {
            assert_eq!(Record::from_json(&record.to_json()), Some(record));
        }
    }
}
