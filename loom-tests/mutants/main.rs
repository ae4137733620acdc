//! Mutation testing for the bus. The program breaks the code in one place at a time and checks
//! whether a model detects the fault.
//!
//! `cargo loom-mutants` builds the following mutants in a copy of the source tree under
//! `target/mutants` (`tree.rs`):
//!
//! - Each memory ordering, replaced by each weaker ordering (`scan.rs`).
//! - Each fence and each wake-up, removed if the code allows it (`scan.rs`).
//! - Hand-written mutants (`by_hand.rs`).
//!
//! All mutants are compiled into one build, and an environment variable selects the active mutant.
//! Each model runs in its own process (`run.rs`), so a mutant that terminates the process is
//! reported under its name like any other. The results are written to `loom-tests/MUTANTS.md`
//! (`table.rs`). `--with stress` runs the stress test instead of the models (`backend.rs`), and
//! fills a separate column of the table.
//!
//! The results so far are kept in `target/mutants/results-loom` and
//! `target/mutants/results-stress`, so that an interrupted run resumes where it stopped. If the
//! sources or the tests have changed, the next run starts over. For each mutant, a run begins with
//! the model that caught the mutant last time.

mod backend;
mod by_hand;
mod run;
mod scan;
mod table;
mod tree;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use backend::Backend;
use run::{Found, Runner};
use scan::Mutant;
use table::{Row, Table, Verdict};
use tree::Tree;

const HELP: &str = "\
cargo loom-mutants [OPTION ...]
  --with BACKEND   looks with loom's models, or with the stress test: loom, stress (loom)
  --list           only says which mutants there are
  --shard I/N      the I-th of N parts, counted from 1
  --only TEXT      those whose row holds TEXT
  --model TEXT     looks only with the models whose name holds TEXT
  --new            those that are not in the table
  --survivors      those, too, that are known to survive, and why
  --within SECONDS begins no other mutant after this time
  --limit NUMBER   of executions of each model for each mutant (20000), or of rounds of the stress test (1000)
  --jobs N         so many at once (2)
  --check          leaves the table as it is, and fails if it is out of date";

#[allow(clippy::struct_excessive_bools, reason = "each is a flag of the command line")]
struct Options {
    with: &'static Backend,
    list: bool,
    shard: (usize, usize),
    only: String,
    model: String,
    new: bool,
    survivors: bool,
    within: Duration,
    limit: Option<usize>,
    jobs: usize,
    check: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        with: Backend::named("loom")?,
        list: false,
        shard: (1, 1),
        only: String::new(),
        model: String::new(),
        new: false,
        survivors: false,
        within: Duration::MAX,
        limit: None,
        jobs: 2,
        check: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value\n{HELP}"));
        let number = |text: String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
        match arg.as_str() {
            "--with" => options.with = Backend::named(&value()?)?,
            "--list" => options.list = true,
            "--new" => options.new = true,
            "--survivors" => options.survivors = true,
            "--check" => options.check = true,
            "--only" => options.only = value()?,
            "--model" => options.model = value()?,
            "--within" => options.within = Duration::from_secs(number(value()?)?),
            "--limit" => options.limit = Some(number(value()?)? as usize),
            "--jobs" => options.jobs = number(value()?)?.max(1) as usize,
            "--shard" => {
                let text = value()?;
                let (part, parts) = text.split_once('/').ok_or("--shard wants I/N")?;
                options.shard = (number(part.into())? as usize, number(parts.into())? as usize);
                if !(1..=options.shard.1).contains(&options.shard.0) {
                    return Err(format!("there is no shard {text}"));
                }
            }
            _ => return Err(format!("{arg}?\n{HELP}")),
        }
    }
    Ok(options)
}

fn main() -> ExitCode {
    match options().and_then(|options| mutate(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Returns `false` if a surviving mutant has no explanation, or if `--check` is given and the table
/// is out of date.
fn mutate(options: &Options) -> Result<bool, String> {
    let tree = Tree::find()?;
    let mutants = tree.mutants()?;
    let known = Table::read(&tree.table())?;
    if options.list {
        for mutant in &mutants {
            println!("{mutant}");
        }
        println!("{} mutants", mutants.len());
        return Ok(true);
    }
    let wanted = wanted(options, &mutants, &known);
    let mut models = tree.build(&mutants, options.with)?;
    models.retain(|model| model.name.contains(&options.model));
    let runner = Runner::new(options.with, models, options.limit.unwrap_or(options.with.limit));
    println!("{} of {} mutants, {} models", wanted.len(), mutants.len(), runner.models().len());

    let results = Mutex::new(tree.results(&mutants, options.with)?);
    let began = Instant::now();
    if results.lock().unwrap().all().is_empty() {
        runner.must_pass(options.jobs)?;
    }
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while began.elapsed() < options.within {
                    // Relaxed: only the value matters.
                    let Some(mutant) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let key = mutant.key();
                    match results.lock().unwrap().get(&key) {
                        Some(Found::Caught { .. }) => continue,
                        Some(Found::Survived) if !options.survivors => continue,
                        _ => {}
                    }
                    let found = runner.catch(mutant, known.catcher(&key));
                    println!("{mutant}: {found}");
                    results.lock().unwrap().add(key, &found);
                }
            });
        }
    });
    let found = results.into_inner().unwrap();
    let left = wanted.iter().filter(|mutant| found.get(&mutant.key()).is_none()).count();
    if left > 0 {
        println!("{left} are left for another run");
    }
    conclude(options, &tree, &mutants, &known, found.all())
}

/// Returns the mutants that are selected by the options and included in the backend's build.
fn wanted<'m>(options: &Options, mutants: &'m [Mutant], known: &Table) -> Vec<&'m Mutant> {
    let (part, parts) = options.shard;
    // A survivor's explanation applies only to the models.
    let survivors = options.survivors || options.with.name != "loom";
    mutants
        .iter()
        .enumerate()
        .filter(|(i, _)| i % parts == part - 1)
        .map(|(_, mutant)| mutant)
        .filter(|mutant| mutant.to_string().contains(&options.only))
        .filter(|mutant| !options.new || known.row(&mutant.key()).is_none())
        .filter(|mutant| survivors || !known.is_explained(&mutant.key()))
        .filter(|mutant| options.with.builds(&mutant.file))
        .collect()
}

fn conclude(
    options: &Options,
    tree: &Tree,
    mutants: &[Mutant],
    known: &Table,
    found: &BTreeMap<String, Found>,
) -> Result<bool, String> {
    let mut good = true;
    let mut rows = Vec::new();
    for mutant in mutants {
        let key = mutant.key();
        let before = known.row(&key);
        let now = renewed(before.cloned().unwrap_or_default(), options.with, mutant, found.get(&key));
        let Some(verdict) = &now.models else {
            println!("not tried yet: {mutant}");
            good &= !options.check;
            continue;
        };
        if matches!(verdict, Verdict::Survived(why) if why.is_empty()) {
            println!("survived, and nothing says why: {mutant}");
            good = false;
        }
        if options.check && before.is_none() {
            println!("not in the table: {mutant}");
            good = false;
        }
        rows.push((mutant, now));
    }
    for gone in known.keys().filter(|key| mutants.iter().all(|mutant| mutant.key() != **key)) {
        println!("in the table, but no longer in the code: {gone}");
        good &= !options.check;
    }
    if !options.check {
        table::write(&tree.table(), &rows)?;
    }
    Ok(good)
}

/// Returns the row with the result in the backend's column. If there is no result, the old entry is
/// kept, except that the stress column marks mutants in files that are not part of the stress
/// test's build.
fn renewed(mut row: Row, with: &Backend, mutant: &Mutant, found: Option<&Found>) -> Row {
    let caught = |model, how| format!("`{model}` ({how})");
    if with.name == "stress" {
        row.stress = match found {
            Some(Found::Caught { model, how }) => caught(model, how),
            Some(Found::Survived) => "no".into(),
            None if !with.builds(&mutant.file) => "not built".into(),
            None => row.stress,
        };
        return row;
    }
    row.models = match (found, row.models) {
        (Some(Found::Caught { model, how }), _) => Some(Verdict::Caught(caught(model, how))),
        (Some(Found::Survived), Some(Verdict::Survived(why))) => Some(Verdict::Survived(why)),
        (Some(Found::Survived), _) => Some(Verdict::Survived(String::new())),
        (None, before) => before,
    };
    row
}
