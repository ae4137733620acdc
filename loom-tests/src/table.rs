//! Writes the results of running all models to `matrix.json` and `deep.json`, and generates the
//! tables in `docs/verification.md`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::record::Record;

/// The columns of the matrix, each of which is a way to end the bus.
pub const ENDS: [&str; 5] =
    ["close", "shutdown", "shutdown, deadline passed", "two shutdowns", "drop of the last handle"];

/// The columns of the reader matrix, each of which is an operation on a reader's mailbox.
pub const MEETS: [&str; 5] = ["an offer", "a gap", "`DropOldest`", "`Wait`", "a stop"];

/// The columns of the turn matrix, each of which is an operation that waits second in line.
pub const BEHIND: [&str; 2] = ["`publish` behind", "`publish_async` behind"];

/// The columns in which every model was explored exhaustively with two preemptions or more.
pub const WHOLE: [&str; 2] = [ENDS[0], ENDS[1]];

const DOCS: &str = "../docs/verification.md";
const BEGIN: &str = "<!-- The tables from here are written by `cargo loom`. -->";
const END: &str = "<!-- The tables end here. -->";

const LEGEND: &str = "\
`2:10,619` means that loom explored all 10,619 executions with at most two preemptions. `1:7,324` means the same with
one preemption. With two, loom stopped after 99,999 executions. A dash means that it stopped after 99,999 executions
with one preemption. Each model of the first three tables starts two threads.";

/// Writes `matrix.json` and the tables.
///
/// # Errors
///
/// Returns an error that names the file if the file cannot be read or written.
pub fn write(records: &[Record]) -> Result<(), String> {
    put(&beside("matrix.json"), &format!("{}\n", array(records)))?;
    write_tables()
}

/// Writes the tables, and writes `deep.json` with the date of the run.
///
/// # Errors
///
/// Returns an error that names the file if the file cannot be read or written.
pub fn write_deep(records: &[Record], date: &str) -> Result<(), String> {
    let json = format!("{{\n\"date\": \"{date}\",\n\"models\": {}\n}}\n", array(records));
    put(&beside("deep.json"), &json)?;
    write_tables()
}

fn array(records: &[Record]) -> String {
    let lines: Vec<String> = records.iter().map(|record| format!("  {}", record.to_json())).collect();
    format!("[\n{}\n]", lines.join(",\n"))
}

/// Rewrites the tables from `matrix.json` and `deep.json`.
///
/// # Errors
///
/// Returns an error that names the file if the file cannot be read or written.
pub fn write_tables() -> Result<(), String> {
    let docs = beside(DOCS);
    put(&docs, &with_tables(&get(&docs)?, &known()?, &deep()?)?)
}

/// Returns the names of the models that were not explored exhaustively, according to `matrix.json`.
///
/// # Errors
///
/// Returns an error that names the file if the file cannot be read.
pub fn stopped() -> Result<BTreeSet<String>, String> {
    Ok(known()?.into_iter().filter(|record| !record.whole).map(|record| record.model).collect())
}

/// Returns the document's text with the tables between its two markers replaced. Returns an error
/// if the markers are missing.
fn with_tables(text: &str, known: &[Record], (date, deep): &(String, Vec<Record>)) -> Result<String, String> {
    let parts = text.split_once(BEGIN).and_then(|(head, rest)| Some((head, rest.split_once(END)?.1)));
    let (head, tail) = parts.ok_or_else(|| format!("cannot find where the tables stand in {DOCS}"))?;
    let deepest = known.iter().map(|record| {
        let deep = deep.iter().find(|deep| deep.model == record.model);
        deep.unwrap_or(record).clone()
    });
    let text = tables(&deepest.collect::<Vec<_>>());
    let sums = format!(
        "`cargo loom` had {} executions. `cargo loom-deep` had {} on {date}, of the {} models stopped.",
        grouped(executions(known)),
        grouped(executions(deep)),
        deep.len()
    );
    Ok(format!("{head}{BEGIN}\n\n{sums}\n{text}\n{END}{tail}"))
}

/// Reads the records in `matrix.json`.
fn known() -> Result<Vec<Record>, String> {
    Ok(get(&beside("matrix.json"))?.lines().filter_map(Record::from_json).collect())
}

/// Reads `deep.json`. Returns the date of the deep run and the run's records.
fn deep() -> Result<(String, Vec<Record>), String> {
    let text = get(&beside("deep.json"))?;
    let date = text.split_once("\"date\": \"").and_then(|(_, rest)| Some(rest.split_once('"')?.0));
    let date = date.ok_or("cannot find the date in deep.json")?;
    Ok((date.to_owned(), text.lines().filter_map(Record::from_json).collect()))
}

/// Returns the path of a file in this crate.
fn beside(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn executions(records: &[Record]) -> usize {
    records.iter().map(|record| record.executions + record.below).sum()
}

/// Returns whether `matrix.json` contains all of the given records, and prints each missing record.
/// The records are comparable because loom takes the same steps on every machine.
///
/// # Errors
///
/// Returns an error that names the file if the file cannot be read.
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
    let _ = writeln!(
        text,
        "{} models: {} were explored exhaustively with two preemptions, {} more with one, {} with neither.\n\n{LEGEND}\n",
        records.len(),
        count_at(2),
        count_at(1) - count_at(2),
        records.len() - count_at(1)
    );
    for columns in [&ENDS[..], &MEETS, &BEHIND] {
        let _ = writeln!(text, "| | {} |\n|---|{}", columns.join(" | "), "---|".repeat(columns.len()));
        for operation in rows(records, columns) {
            let cell = |end: &&str| {
                let cell = records.iter().find(|record| record.operation == operation && record.end == *end);
                cell.map_or("**missing**".to_owned(), explored)
            };
            let cells: Vec<_> = columns.iter().map(cell).collect();
            let _ = writeln!(text, "| {operation} | {} |", cells.join(" | "));
        }
        text.push('\n');
    }
    let _ = writeln!(text, "| other models | explored |\n|---|---|");
    for record in records.iter().filter(|record| record.operation.is_empty()) {
        let _ = writeln!(text, "| `{}` | {} |", record.model, explored(record));
    }
    text
}

/// Returns the rows of the matrix with the given columns. The rows are in the order of the records,
/// which are sorted by model name.
fn rows<'r>(records: &'r [Record], columns: &[&str]) -> Vec<&'r str> {
    let mut seen = BTreeSet::new();
    let cells = records.iter().filter(|record| columns.contains(&record.end.as_str()));
    cells.map(|record| record.operation.as_str()).filter(|operation| seen.insert(*operation)).collect()
}

/// Returns the highest preemption bound at which loom explored a model exhaustively, and the number
/// of executions. Returns a dash if no exploration was exhaustive.
fn explored(record: &Record) -> String {
    let Record { preemptions, executions, whole, below, .. } = record;
    match (whole, below) {
        (true, _) => format!("{preemptions}:{}", grouped(*executions)),
        (false, 0) => "–".to_owned(),
        (false, _) => format!("{}:{}", preemptions - 1, grouped(*below)),
    }
}

/// Returns the number with commas between groups of three digits.
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
    use super::{
        BEHIND, DOCS, ENDS, MEETS, Record, WHOLE, beside, deep, get, known, rows, stopped, with_tables,
    };

    #[test]
    fn the_documentation_has_the_results_of_the_last_whole_run() {
        let text = get(&beside(DOCS)).unwrap();
        let wanted = with_tables(&text, &known().unwrap(), &deep().unwrap()).unwrap();
        assert_eq!(text, wanted, "`cargo loom` writes the tables");
    }

    #[test]
    fn the_last_deep_run_is_of_the_models_as_they_are() {
        let (known, deep) = (known().unwrap(), deep().unwrap().1);
        let models: Vec<_> = deep.iter().map(|deep| deep.model.clone()).collect();
        assert!(models.iter().eq(stopped().unwrap().iter()), "run `cargo loom-deep`");
        for deep in deep {
            let known = known.iter().find(|known| known.model == deep.model).unwrap();
            let is_deeper = deep.preemptions > known.preemptions || deep.executions > known.executions;
            assert!(is_deeper && deep.threads == known.threads, "run `cargo loom-deep`: {deep}, {known}");
            assert!(deep.whole || deep.executions == 99_999, "LEGEND names another number: {deep}");
            // Both runs explored this step completely.
            assert!(known.below == 0 || known.below == deep.below, "run `cargo loom-deep`: {deep}, {known}");
        }
    }

    #[test]
    fn the_matrix_has_no_empty_cell() {
        let known = known().unwrap();
        for (columns, least) in [(&ENDS[..], 21), (&MEETS, 6), (&BEHIND, 5)] {
            let rows = rows(&known, columns);
            assert!(rows.len() >= least, "{rows:?}");
            for (operation, end) in rows.iter().flat_map(|row| columns.iter().map(|end| (*row, *end))) {
                let cells = known.iter().filter(|record| record.operation == operation && record.end == end);
                let cells: Vec<&Record> = cells.collect();
                assert_eq!(cells.len(), 1, "{operation}, {end}");
                assert_eq!(cells[0].threads, 2, "{}", cells[0].model);
                let is_whole = cells[0].whole && cells[0].preemptions >= 2;
                assert!(
                    is_whole || !WHOLE.contains(&end),
                    "{} was not explored exhaustively",
                    cells[0].model
                );
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
