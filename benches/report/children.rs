//! Runs the measuring programs as child processes. Cargo builds the programs, each program prints
//! one JSON document, and a signal terminates the program that is running.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use eventcast_benches::table::progress;
use serde_json::Value;
use signal_hook::consts::TERM_SIGNALS;

/// The programs in the order in which they run, each with its approximate duration.
pub(crate) const PROGRAMS: [(&str, &str); 3] = [
    ("versus", "about ten minutes"),
    ("latency", "about eight minutes"),
    ("recording", "about eight minutes"),
];

/// The locations of the programs.
#[derive(Debug)]
pub(crate) enum Programs {
    /// The paths that cargo reported for the programs it built.
    Built(Vec<PathBuf>),
    /// A directory that the user specified.
    Taken(PathBuf),
}

impl Programs {
    /// Checks that all programs exist, before anything is measured.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (name, _) in PROGRAMS {
            let path =
                self.path(name).ok_or_else(|| format!("cannot find the program {name}: cargo built none"))?;
            path.metadata().map_err(|error| format!("cannot run {}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn path(&self, name: &str) -> Option<PathBuf> {
        match self {
            Self::Built(paths) => {
                paths.iter().find(|path| path.file_stem().is_some_and(|stem| stem == name)).cloned()
            }
            Self::Taken(folder) => Some(folder.join(name)),
        }
    }
}

/// The running child process. A thread that terminates the program keeps the lock, so that no other
/// thread continues.
static RUNNING: Mutex<Option<Child>> = Mutex::new(None);

fn running() -> MutexGuard<'static, Option<Child>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes signals terminate the program and its child immediately. A partial measurement is
/// discarded.
pub(crate) fn end_on_signals() -> std::io::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new(TERM_SIGNALS)?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let mut running = running();
            if let Some(child) = running.as_mut() {
                let _ = child.kill().and_then(|()| child.wait());
            }
            end(signal);
        }
    });
    Ok(())
}

/// Terminates the program because of a signal. The caller must hold the [`RUNNING`] lock.
fn end(signal: i32) -> ! {
    progress("");
    eprintln!("eventcast-benches: interrupted, nothing is written");
    std::process::exit(128 + signal);
}

/// Returns the signal that terminated a child, or that the child reported in its exit status.
fn interruption(status: ExitStatus) -> Option<i32> {
    let signal = status.signal().or_else(|| status.code()?.checked_sub(128))?;
    TERM_SIGNALS.contains(&signal).then_some(signal)
}

/// Runs a command to completion and returns its output. The command's errors and progress are shown
/// on the terminal.
fn output(command: &mut Command, name: &str) -> Result<String, String> {
    let mut stdout = {
        let mut running = running();
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut child = child
            .map_err(|error| format!("cannot run {}: {error}", Path::new(command.get_program()).display()))?;
        let stdout = child.stdout.take();
        *running = Some(child);
        stdout
    };
    let mut text = String::new();
    let read = stdout.as_mut().map_or(Ok(0), |stdout| stdout.read_to_string(&mut text));
    let mut running = running();
    let status = running.as_mut().map(Child::wait).transpose();
    *running = None;
    read.map_err(|error| format!("cannot read what {name} prints: {error}"))?;
    match status.map_err(|error| format!("cannot wait for {name}: {error}"))? {
        Some(status) if !status.success() => match interruption(status) {
            // A terminal also interrupts the child, so the child may exit first.
            Some(signal) => end(signal),
            None => Err(format!("{name} failed: {status}")),
        },
        _ => Ok(text),
    }
}

/// Builds the programs in release mode, including the file-based store.
pub(crate) fn build() -> Result<Programs, String> {
    // `cargo run` sets this variable to the path of cargo.
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(cargo);
    command.args(["build", "--release", "--features", "sqlite"]);
    command.arg("--message-format=json-render-diagnostics");
    command.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    for (program, _) in PROGRAMS {
        command.args(["--bin", program]);
    }
    let messages = output(&mut command, "cargo build")?;
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    };
    Ok(Programs::Built(messages.lines().filter_map(executable).collect()))
}

/// Runs a program and returns the document that it prints.
pub(crate) fn run(programs: &Programs, name: &str, arguments: &[&str]) -> Result<Value, String> {
    let path =
        programs.path(name).ok_or_else(|| format!("cannot find the program {name}: cargo built none"))?;
    let text = output(Command::new(path).arg("--json").args(arguments), name)?;
    serde_json::from_str(&text).map_err(|error| format!("cannot read what {name} printed: {error}"))
}
