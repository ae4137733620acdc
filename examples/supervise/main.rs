//! Runs commands, starts those that end again, and records what happens to them as events. Try it
//! with
//!
//! ```sh
//! cargo run --release --example supervise -- --for 5s 'sleep 0.3' 'false' 'echo hello'
//! ```
//!
//! Only Unix has process groups and signals, so the program itself is `unix/mod.rs`.
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

#[cfg(unix)]
mod unix;

#[cfg(unix)]
fn main() -> std::process::ExitCode {
    unix::main()
}

#[cfg(not(unix))]
#[allow(clippy::print_stderr, reason = "a program, not part of the library")]
fn main() -> std::process::ExitCode {
    eprintln!("supervise: cannot run commands: only Unix has the process groups and signals for it");
    std::process::ExitCode::FAILURE
}
