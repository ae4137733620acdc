//! Runs each model in its own process. Models in the same process would contend for caches and
//! locks, so two models together would not explore more executions than one model alone.

use std::collections::VecDeque;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use crate::record::Record;
use crate::table;

/// A deep run stops exploring a model after this number of executions at each preemption bound.
const DEEP: usize = 100_000;

/// A model's name and the function that explores the model.
pub type Model = (String, Box<dyn Fn() + Send + Sync>);

const HELP: &str = "\
cargo loom [NAME] [-- OPTION ...]
  NAME           runs the models whose name holds NAME, and compares what they find with loom-tests/matrix.json;
                 without one, runs all, and writes it and the tables of docs/verification.md
  --deep         runs those that are not whole in loom-tests/matrix.json, and stops each at 100,000 executions;
                 writes loom-tests/deep.json and the tables, when it has run all of them
  --part I/N     the I-th of N parts of them, counted from 1
  --jobs N       so many at once; without it, one for each processor
  --list         only says which models there are
  --tables       only writes the tables anew, from matrix.json
  --exact NAME   runs this one model, in this process";

#[derive(Default)]
struct Options {
    names: Vec<String>,
    exact: bool,
    list: bool,
    tables: bool,
    deep: bool,
    /// The index of the part to run, counted from 0, and the number of parts.
    part: Option<(usize, usize)>,
    jobs: Option<usize>,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut args = env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--exact" => options.exact = true,
            "--list" => options.list = true,
            "--tables" => options.tables = true,
            "--deep" => options.deep = true,
            // These libtest options are accepted for people who are used to libtest.
            "--nocapture" | "--quiet" | "-q" => {}
            "--jobs" | "--test-threads" => {
                let jobs = args.next().and_then(|text| text.parse().ok()).filter(|&jobs| jobs > 0);
                options.jobs = Some(jobs.ok_or_else(|| format!("{arg} needs a number from 1 on\n{HELP}"))?);
            }
            "--part" => {
                let part = args.next().and_then(|text| {
                    let (part, parts) = text.split_once('/')?;
                    Some((part.parse::<usize>().ok()?.checked_sub(1)?, parts.parse().ok()?))
                });
                let part = part.filter(|(part, parts)| part < parts);
                options.part = Some(part.ok_or_else(|| format!("{arg} needs I/N, such as 1/4\n{HELP}"))?);
            }
            "--help" => return Err(HELP.to_owned()),
            _ if arg.starts_with('-') => return Err(format!("unknown option {arg}\n{HELP}")),
            _ => options.names.push(arg),
        }
    }
    Ok(options)
}

/// Runs the program according to the command-line arguments.
pub fn main(models: &[Model]) -> ExitCode {
    match options().and_then(|options| run(models, &options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(models: &[Model], options: &Options) -> Result<bool, String> {
    if options.tables {
        return table::write_tables().map(|()| true);
    }
    let stopped = if options.deep { Some(table::stopped()?) } else { None };
    let is_wanted = |name: &str| {
        let is_named = |wanted: &String| if options.exact { name == wanted } else { name.contains(wanted) };
        (options.names.is_empty() || options.names.iter().any(is_named))
            && stopped.as_ref().is_none_or(|stopped| stopped.contains(name))
    };
    let (part, parts) = options.part.unwrap_or((0, 1));
    let wanted = models.iter().filter(|(name, _)| is_wanted(name)).enumerate();
    let wanted: Vec<&Model> = wanted.filter(|(i, _)| i % parts == part).map(|(_, model)| model).collect();
    if options.list {
        for (name, _) in &wanted {
            println!("{name}: test");
        }
        return Ok(true);
    }
    if options.exact {
        let [(_, explore)] = wanted[..] else { return Err(format!("no model is named {:?}", options.names)) };
        explore();
        return Ok(true);
    }
    if wanted.is_empty() {
        // As in libtest, a name without a match is not an error, because the same command may run
        // other programs, one of which may contain a test with this name.
        println!("no model's name holds {:?}", options.names);
        return Ok(true);
    }
    let names = wanted.iter().map(|(name, _)| name.clone()).collect();
    let jobs = options.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let limits = ["LOOM_MAX_PREEMPTIONS", "LOOM_MAX_PERMUTATIONS", "LOOM_MAX_DURATION"];
    let is_usual = limits.iter().all(|limit| env::var_os(limit).is_none());
    let Some(records) = run_all(names, jobs, options.deep)? else { return Ok(false) };
    match stopped {
        _ if !is_usual => {}
        Some(stopped) if wanted.len() == stopped.len() => table::write_deep(&records, &today()?)?,
        Some(_) => {}
        None if wanted.len() == models.len() => table::write(&records)?,
        None => return table::compare(&records),
    }
    Ok(true)
}

/// Returns today's date in UTC, such as `2026-11-22`. Runs the `date` command, because the standard
/// library cannot convert a time to a date.
fn today() -> Result<String, String> {
    let output = Command::new("date").args(["-u", "+%F"]).output();
    let output = output.map_err(|error| format!("cannot ask `date` for the date: {error}"))?;
    String::from_utf8(output.stdout)
        .map(|date| date.trim().to_owned())
        .map_err(|error| format!("cannot read what `date` says: {error}"))
}

struct Run {
    waiting: VecDeque<String>,
    done: Vec<Record>,
    failed: Vec<String>,
    /// The total run time of all processes. In each process, only one thread does any work.
    busy: Duration,
}

/// Runs each of the given models in its own process. Returns `None` if a model failed.
fn run_all(names: Vec<String>, jobs: usize, deep: bool) -> Result<Option<Vec<Record>>, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let folder = program.with_file_name("model-results");
    fs::create_dir_all(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    let total = names.len();
    let began = Instant::now();
    println!("{total} models, {jobs} at once, each in a process of its own");
    let run = Run { waiting: names.into(), done: Vec::new(), failed: Vec::new(), busy: Duration::ZERO };
    let run = Mutex::new(run);
    let lock = || run.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let work = || {
        loop {
            let Some(name) = lock().waiting.pop_front() else { break };
            let began = Instant::now();
            let result = run_one(&program, &folder, &name, deep);
            let mut run = lock();
            run.busy += began.elapsed();
            let seconds = began.elapsed().as_secs_f32();
            let number = run.done.len() + run.failed.len() + 1;
            match result {
                Ok(record) => {
                    println!("[{number}/{total}] {name}: {record}, {seconds:.1} s");
                    run.done.push(record);
                }
                Err(output) => {
                    println!("[{number}/{total}] {name}: FAILED after {seconds:.1} s\n{output}");
                    run.failed.push(name);
                }
            }
        }
    };
    thread::scope(|scope| (0..jobs).for_each(|_| drop(scope.spawn(work))));
    let mut run = run.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    run.done.sort_by(|a, b| a.model.cmp(&b.model));
    let executions: usize = run.done.iter().map(|record| record.executions + record.below).sum();
    let whole = run.done.iter().filter(|record| record.whole).count();
    println!(
        "{total} models, {whole} whole, {} stopped, {} failed; {executions} executions; {:.0} s, {:.0} s of \
         processors",
        run.done.len() - whole,
        run.failed.len(),
        began.elapsed().as_secs_f32(),
        run.busy.as_secs_f32()
    );
    run.failed.iter().for_each(|name| println!("failed: {name}, again: cargo loom {name}"));
    Ok(run.failed.is_empty().then_some(run.done))
}

/// Runs one model and returns its record. If the model failed or wrote no record, returns an error
/// that contains the model's output.
fn run_one(program: &Path, folder: &Path, name: &str, deep: bool) -> Result<Record, String> {
    let result: PathBuf = folder.join(name.replace("::", "."));
    // A result left by an earlier run must not be mistaken for the result of this run.
    let _ = fs::remove_file(&result);
    let mut command = Command::new(program);
    command.args(["--exact", name]).stdin(Stdio::null());
    command.env("EVENTCAST_LOOM_MODEL", name).env("EVENTCAST_LOOM_RESULT", &result);
    if deep && env::var_os("LOOM_MAX_PERMUTATIONS").is_none() {
        command.env("LOOM_MAX_PERMUTATIONS", DEEP.to_string());
    }
    let output = command.output().map_err(|error| format!("cannot start it: {error}"))?;
    let record = fs::read_to_string(&result).ok().and_then(|text| Record::from_json(&text));
    match record {
        Some(record) if output.status.success() => Ok(record),
        _ => {
            let text = [output.stdout, output.stderr].concat();
            Err(format!("{}{}", String::from_utf8_lossy(&text), output.status))
        }
    }
}
