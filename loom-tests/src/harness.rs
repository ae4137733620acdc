//! Runs the models, each in a process of its own: in one process they would share one processor's caches and locks, and
//! two of them would explore as much as one alone.

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

/// A model: its name, and what explores it.
pub type Model = (String, Box<dyn Fn() + Send + Sync>);

const HELP: &str = "\
cargo loom [NAME] [-- OPTION ...]
  NAME           runs the models whose name holds NAME, and compares what they find with loom-tests/matrix.json;
                 without one, runs all, and writes it and the tables of docs/verification.md
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
    /// Which of how many parts, from 0 on.
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
            // libtest's options, accepted for those who are used to them.
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

/// Does what the command line says.
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
    let is_wanted = |name: &str| {
        options.names.is_empty()
            || options
                .names
                .iter()
                .any(|wanted| if options.exact { name == wanted } else { name.contains(wanted.as_str()) })
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
        // As libtest: a name may belong to another program of the same command.
        println!("no model's name holds {:?}", options.names);
        return Ok(true);
    }
    let names = wanted.iter().map(|(name, _)| name.clone()).collect();
    let jobs = options.jobs.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from));
    let is_deep = env::var_os("EVENTCAST_LOOM_DEEP").is_some();
    let limits = ["LOOM_MAX_PREEMPTIONS", "LOOM_MAX_PERMUTATIONS", "LOOM_MAX_DURATION"];
    let is_usual = !is_deep && limits.iter().all(|limit| env::var_os(limit).is_none());
    let Some(records) = run_all(names, jobs)? else { return Ok(false) };
    if wanted.len() == models.len() && (is_usual || is_deep) {
        table::write(&records, is_deep)?;
    } else if is_usual {
        return table::compare(&records);
    }
    Ok(true)
}

struct Run {
    waiting: VecDeque<String>,
    done: Vec<Record>,
    failed: Vec<String>,
    /// The sum of the times of the processes, each of which has one thread at work.
    busy: Duration,
}

/// Runs each of them in a process of its own. `None`: one has failed.
fn run_all(names: Vec<String>, jobs: usize) -> Result<Option<Vec<Record>>, String> {
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
            let result = run_one(&program, &folder, &name);
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

/// The record of a model, or what it printed.
fn run_one(program: &Path, folder: &Path, name: &str) -> Result<Record, String> {
    let result: PathBuf = folder.join(name.replace("::", "."));
    // A result of an earlier run would pass for this one's.
    let _ = fs::remove_file(&result);
    let mut command = Command::new(program);
    command.args(["--exact", name]).stdin(Stdio::null());
    command.env("EVENTCAST_LOOM_MODEL", name).env("EVENTCAST_LOOM_RESULT", &result);
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
