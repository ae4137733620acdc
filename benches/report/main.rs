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

use serde_json::json;

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
        document[program] = children::run(&programs, program, quick)?;
    }
    folder.write(&file, &data::text(&document))?;
    render(&folder)
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
