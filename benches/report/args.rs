//! The program's command-line arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use lexopt::ValueExt;
use lexopt::prelude::{Long, Short, Value};

pub(crate) const HELP: &str = "\
Generates the page of figures, which compares eventcast with its rivals on this machine.

Usage: eventcast-benches report [OPTIONS]
       eventcast-benches render [--out DIR]

`report` builds the programs versus, latency and recording in release mode, runs them one after
another, and writes their results to DIR/figures/NAME.json. This takes about half an hour, during
which the machine must be idle otherwise. Before each program, it waits for up to ten minutes until
the load average of the last minute is below 0.3. If the machine was not quiet during a program,
DIR keeps its files, and the results are written to a file in the system's folder for temporary
files. Otherwise it does the same as `render`, which omits single figures that were not taken on a
quiet machine.

`render` generates the page DIR/figures.md, and the plots next to the data files, from all data
files DIR/figures/*.json. The same data files always result in the same output.

Options:
      --name NAME     The machine's name [default: the processor and the number of cores]
      --out DIR       The folder of the page [default: docs of this repository]
      --quick         Measure for a few seconds only, to check that it works. Requires --out
      --programs DIR  Run versus, latency and recording from DIR instead of building them
  -h, --help          Print this

Exit status: 0, 1 if something failed, 2 for bad usage, or 128 plus the number of the signal that
ended the program. An interrupted measurement does not write any files.
";

#[derive(Debug)]
pub(crate) enum Command {
    Help,
    /// Renders the page in the given directory.
    Render(PathBuf),
    Report(Settings),
}

#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) name: Option<String>,
    pub(crate) out: PathBuf,
    pub(crate) quick: bool,
    /// The directory that contains programs that have already been built.
    pub(crate) programs: Option<PathBuf>,
}

impl Settings {
    /// Returns the command line that repeats the measurement on another machine.
    pub(crate) fn command(&self) -> String {
        let mut command = "cargo run --release -p eventcast-benches -- report".to_owned();
        if self.quick {
            command.push_str(" --quick --out DIR");
        }
        if self.programs.is_some() {
            command.push_str(" --programs DIR");
        }
        command
    }
}

/// Returns the `docs` directory of the checkout from which this program was built.
fn documents() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs")
}

pub(crate) fn read(mut parser: lexopt::Parser) -> Result<Command, String> {
    let says = |error: lexopt::Error| error.to_string();
    let mut command: Option<OsString> = None;
    let (mut name, mut out, mut programs, mut quick) = (None, None, None, false);
    while let Some(argument) = parser.next().map_err(says)? {
        match argument {
            Short('h') | Long("help") => return Ok(Command::Help),
            Long("name") => name = Some(parser.value().and_then(ValueExt::string).map_err(says)?),
            Long("out") => out = Some(PathBuf::from(parser.value().map_err(says)?)),
            Long("programs") => programs = Some(PathBuf::from(parser.value().map_err(says)?)),
            Long("quick") => quick = true,
            Value(value) if command.is_none() => command = Some(value),
            argument => return Err(argument.unexpected().to_string()),
        }
    }
    let command = command.unwrap_or_default();
    match command.to_str() {
        Some("report") if quick && out.is_none() => {
            Err("--quick needs --out DIR: its figures are not worth keeping".to_owned())
        }
        Some("report") => {
            let out = out.unwrap_or_else(documents);
            Ok(Command::Report(Settings { name, out, quick, programs }))
        }
        Some("render") if name.is_some() || programs.is_some() || quick => {
            Err("render measures nothing: --name, --programs and --quick belong to `report`".to_owned())
        }
        Some("render") => Ok(Command::Render(out.unwrap_or_else(documents))),
        _ => Err(format!("the command must be `report` or `render`, got {command:?}")),
    }
}
