//! Runs commands, starts those that end again, and records what happens to them as events: try it with
//!
//! ```sh
//! cargo run --release --example supervise -- --for 5s 'sleep 0.3' 'false' 'echo hello'
//! ```
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "a program, not part of the library")]

mod args;
mod backoff;
mod command;
mod duration;
mod process;
mod signals;
mod supervisor;

use std::io::Write;
use std::process::ExitCode;

use args::{Options, Request};
use supervisor::{Settings, Supervisor};

fn main() -> ExitCode {
    match args::parse(std::env::args_os().skip(1)) {
        Ok(Request::Help) => say(args::HELP),
        Ok(Request::Version) => say(concat!("supervise (eventcast ", env!("CARGO_PKG_VERSION"), ")\n")),
        Ok(Request::Run(options)) => run(options),
        Err(error) => {
            complain(&format!("{error}\nTry 'supervise --help'."));
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> ExitCode {
    let settings = Settings {
        backoff: options.backoff,
        grace: options.grace,
        stop_after: options.stop_after,
        panic_after: options.panic_after,
        output: !options.no_output,
    };
    let supervisor = Supervisor::new(command::name_all(options.commands), settings, |process, change| {
        complain(&format!("{}: {change:?}", process.name));
    });
    if let Err(error) = signals::forward(supervisor.outbox()) {
        complain(&format!("cannot wait for signals: {error}"));
        return ExitCode::FAILURE;
    }
    let left = supervisor.run();
    if left.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes to stdout. A reader that has gone, as in `| head`, is no failure.
fn say(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            complain(&format!("cannot write to stdout: {error}"));
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Writes one line to stderr, if anybody listens; in one piece, because the commands write there too.
fn complain(text: &str) {
    let _ = std::io::stderr().write_all(format!("supervise: {text}\n").as_bytes());
}
