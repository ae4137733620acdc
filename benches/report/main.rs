//! Generates the page of figures. Measures eventcast and its rivals, saves this machine's results
//! as a data file, and generates the page and the plots from the data files of all machines.
//!
//! ```sh
//! cargo run --release -p eventcast-benches -- report
//! ```
//!
//! The programs `versus`, `latency` and `recording` run in this order, each in a separate process.
//! The data file contains the programs' JSON documents unchanged. The page and the plots depend
//! only on the data files, so rendering them again produces the same bytes.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it does is its output")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures for people, and pixels"
)]

mod args;
mod cells;
mod charts;
mod children;
mod data;
mod drawing;
mod folder;
mod machine;
mod page;
mod recording;
mod tables;

use std::process::ExitCode;
use std::time::Duration;

use eventcast_benches::quiet;
use serde_json::{Value, json};

use args::{Command, HELP, Settings};
use folder::Folder;

fn main() -> ExitCode {
    let command = match args::read(lexopt::Parser::from_env()) {
        Ok(command) => command,
        Err(error) => {
            eprintln!("eventcast-benches: {error}\nTry `eventcast-benches --help`.");
            return ExitCode::from(2);
        }
    };
    let result = match command {
        Command::Help => {
            print!("{HELP}");
            Ok(())
        }
        Command::Render(out) => render(&Folder::new(out)),
        Command::Report(settings) => report(&settings),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eventcast-benches: {error}");
            ExitCode::FAILURE
        }
    }
}

fn report(settings: &Settings) -> Result<(), String> {
    children::end_on_signals().map_err(|error| format!("cannot listen for signals: {error}"))?;
    let folder = Folder::new(settings.out.clone());
    // Fail early, because the measurements take minutes.
    folder.make()?;
    let machine = machine::learn(settings.name.as_deref())?;
    let file = folder.data_file(&machine.name)?;
    folder.check(&file, &machine.name)?;
    eprintln!("measures {} for {}", machine.name, file.display());
    let programs = match &settings.programs {
        Some(folder) => children::Programs::Taken(folder.clone()),
        None => children::build()?,
    };
    programs.check()?;
    let quick: &[&str] = if settings.quick { &["--quick"] } else { &[] };
    let mut document = json!({
        "machine": machine.json(),
        "date": machine::today(),
        "command": settings.command(),
        "quick": settings.quick,
    });
    for (step, (program, length)) in children::PROGRAMS.into_iter().enumerate() {
        let length = if settings.quick { "seconds" } else { length };
        eprintln!("{} of {}: {program}, {length}", step + 1, children::PROGRAMS.len());
        if !settings.quick {
            // Building the programs, or the program before, has caused a load.
            quiet::wait(LONGEST_WAIT);
        }
        document[program] = children::run(&programs, program, quick)?;
    }
    if !settings.quick {
        keep_unless_quiet(&document)?;
    }
    folder.write(&file, &data::text(&document))?;
    render(&folder)
}

/// The maximum time to wait until the machine is quiet.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// If the machine was not quiet during one of the programs, writes the document to a temporary file
/// and returns an error, so the figures from an earlier run are kept.
fn keep_unless_quiet(document: &Value) -> Result<(), String> {
    let disturbances: Vec<_> = children::PROGRAMS
        .iter()
        .flat_map(|(program, _)| {
            let disturbances = document[program]["conditions"]["disturbances"].as_array();
            disturbances
                .into_iter()
                .flatten()
                .map(move |text| format!("{program}: {}", text.as_str().unwrap_or("")))
        })
        .collect();
    if disturbances.is_empty() {
        return Ok(());
    }
    let file = std::env::temp_dir().join(format!("eventcast-figures-{}.json", std::process::id()));
    std::fs::write(&file, data::text(document))
        .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
    Err(format!(
        "the machine was not quiet: {}. The page is unchanged, and the results are in {}. Run it again while \
         nothing else runs",
        disturbances.join("; "),
        file.display()
    ))
}

fn render(folder: &Folder) -> Result<(), String> {
    let reports = folder.read()?;
    for report in &reports {
        for (kind, drawing) in [
            ("parking", charts::parking(report)),
            ("throughput", charts::throughput(report)),
            ("latency", charts::latency(report)),
        ] {
            folder.write(&folder.plot(&report.slug, kind), &drawing::svg(&drawing)?)?;
        }
    }
    folder.write(&folder.page(), &page::render(&reports))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbed_run_is_kept_out_of_the_page() {
        let program = |disturbances: &[&str]| json!({"conditions": {"disturbances": disturbances}});
        let quiet = json!({"versus": program(&[]), "latency": program(&[]), "recording": program(&[])});
        assert_eq!(keep_unless_quiet(&quiet), Ok(()));
        let mut busy = quiet;
        busy["latency"] = program(&["too much load", "stolen time"]);
        let error = keep_unless_quiet(&busy).unwrap_err();
        let start =
            "the machine was not quiet: latency: too much load; latency: stolen time. The page is unchanged";
        assert!(error.starts_with(start), "{error}");
        let (_, file) = error.split_once("the results are in ").unwrap();
        let (file, _) = file.split_once(". Run it again").unwrap();
        let kept: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        std::fs::remove_file(file).unwrap();
        assert_eq!(kept, busy);
    }
}
