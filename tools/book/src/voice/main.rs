//! Measures how much of the text is in a private voice. The program reports the share of sentences
//! that contain a phrase that other Rust libraries almost never use, and the share of test names
//! that contain such a phrase.
//!
//! ```sh
//! cargo run -p eventcast-book --bin voice -- [PATH..]                  # the shares and the counts
//! cargo run -p eventcast-book --bin voice -- --list PHRASE [PATH..]    # each use of a phrase, or of `all`
//! cargo run -p eventcast-book --bin voice -- --check                   # fails if a share is above its budget
//! ```
//!
//! Sentences are taken from comments, documentation (including attributes) and Markdown files.
//! Headings, table cells and short sentences count. Code blocks do not count, and neither does
//! inline code without a space. In test names, each `_` is treated as a space.

mod measure;
mod patterns;
mod prose;
mod rust;
#[cfg(test)]
mod tests;

use std::error::Error;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, io};

use measure::{Measure, Place, Share};
use patterns::{PHRASES, Patterns};

/// The parts of the repository, each with its name and its paths. The budget applies to each part.
const PARTS: [(&str, &[&str]); 4] = [
    ("src", &["src"]),
    ("crates, tools", &["crates", "tools"]),
    ("documents", &["docs", "README.md", "CHANGELOG.md", "CONTRIBUTING.md"]),
    ("tests, programs", &["tests", "loom-tests", "benches", "examples"]),
];

/// The maximum share of private sentences in a part, and of private names among all tests, in
/// percent. The budget is not zero, because a phrase that other libraries rarely use may sometimes
/// be the right phrase.
const BUDGET: f64 = 1.0;

/// The maximum number of places that a failed check shows.
const SHOWN: usize = 20;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let patterns = Patterns::new()?;
    let (report, is_good) = match arguments[..] {
        ["--check"] => check(&patterns, root)?,
        ["--list", phrase, ref paths @ ..] => {
            if phrase != "all" && !PHRASES.iter().any(|(name, ..)| *name == phrase) {
                return Err(format!("cannot list `{phrase}`: there is no such phrase").into());
            }
            let mut measure = measure(&patterns, root, paths)?;
            measure.places.retain(|place| ["all", PHRASES[place.phrase].0].contains(&phrase));
            (places(&measure.places, usize::MAX), true)
        }
        [option, ..] if option.starts_with('-') => {
            return Err("the arguments must be --check, --list PHRASE [PATH..] or [PATH..]".into());
        }
        ref paths => {
            let measure = measure(&patterns, root, paths)?;
            let rows = row("sentences", measure.sentences) + &row("names of tests", measure.names);
            (rows + &counts(&measure.places), true)
        }
    };
    io::stdout().write_all(report.as_bytes())?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures the given paths, which are relative to the current directory. If there are no paths,
/// measures everything that has a budget.
fn measure(patterns: &Patterns, root: &Path, paths: &[&str]) -> io::Result<Measure> {
    let mut measure = Measure::default();
    let paths: Vec<PathBuf> = if paths.is_empty() {
        PARTS.iter().flat_map(|(_, paths)| *paths).map(|path| root.join(path)).collect()
    } else {
        paths.iter().map(PathBuf::from).collect()
    };
    paths.iter().try_for_each(|path| measure.add_path(patterns, root, path))?;
    Ok(measure)
}

/// Measures everything. Returns a report, with the first places in each part that exceeds its
/// budget, and whether all parts are within their budgets.
fn check(patterns: &Patterns, root: &Path) -> io::Result<(String, bool)> {
    let (mut report, mut faults, mut shown) = (String::new(), Vec::new(), Vec::new());
    let (mut names, mut named) = (Share::default(), Vec::new());
    for (name, paths) in PARTS {
        let (mut sentences, mut said) = (Share::default(), Vec::new());
        for path in paths {
            let mut measure = Measure::default();
            measure.add_path(patterns, root, &root.join(path))?;
            report += &row(path, measure.sentences);
            sentences = sentences + measure.sentences;
            names = names + measure.names;
            let (in_names, in_sentences) = measure.places.into_iter().partition(|place| place.is_name);
            said.extend::<Vec<_>>(in_sentences);
            named.extend::<Vec<_>>(in_names);
        }
        if let Some(fault) = fault(&format!("sentences of {name}"), sentences) {
            faults.push(fault);
            shown.extend(said);
        }
    }
    report += &row("names of tests", names);
    if let Some(fault) = fault("names of tests", names) {
        faults.push(fault);
        shown.extend(named);
    }
    if !shown.is_empty() {
        report += &(counts(&shown) + &places(&shown, SHOWN));
        report += "all places: cargo run -p eventcast-book --bin voice -- --list PHRASE [PATH..]\n";
    }
    for fault in &faults {
        writeln!(report, "{fault}").unwrap();
    }
    Ok((report, faults.is_empty()))
}

/// Returns an error message if a share exceeds the budget.
fn fault(what: &str, share: Share) -> Option<String> {
    let percent = share.percent();
    if share.all < 500 {
        return Some(format!("only {} {what} found", share.all));
    }
    (percent > BUDGET)
        .then(|| format!("{percent:.2} % of the {what} hold a private phrase, more than {BUDGET:.1} %"))
}

fn row(name: &str, share: Share) -> String {
    let Share { all, private } = share;
    format!("{name:16} {all:6}, {private:5} with a private phrase, {:5.2} %\n", share.percent())
}

/// Returns a table of the phrases, with the number of uses and the suggested replacement.
fn counts(places: &[Place]) -> String {
    let mut table = String::new();
    for (phrase, (name, _, instead)) in PHRASES.iter().enumerate() {
        let count = places.iter().filter(|place| place.phrase == phrase).count();
        writeln!(table, "{name:14} {count:5}  {instead}").unwrap();
    }
    table
}

fn places(places: &[Place], most: usize) -> String {
    let mut list = String::new();
    for place in &places[..most.min(places.len())] {
        writeln!(list, "{}:{}: [{}] {}", place.file, place.line, PHRASES[place.phrase].0, place.text)
            .unwrap();
    }
    list
}
