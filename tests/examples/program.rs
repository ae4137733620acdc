//! The programs of the examples, which the same `cargo test` has built. (`cargo test --test
//! examples` alone does not build them.)

use std::env::consts::EXE_SUFFIX;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;
use std::{env, fs};

/// Returns the folder of the examples.
pub(crate) fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// Returns a command that runs an example.
///
/// # Panics
///
/// If the program is missing or older than its source.
pub(crate) fn command(name: &str) -> Command {
    let mut program = env::current_exe().expect("a test knows where it is");
    program.pop();
    if program.ends_with("deps") {
        program.pop();
    }
    program.push(format!("examples/{name}{EXE_SUFFIX}"));
    let source = folder().join(name).with_extension("rs");
    assert!(
        changed(&program) >= changed(&source),
        "{} is missing or older than its source: run `cargo build --example {name}` first",
        program.display()
    );
    let mut command = Command::new(program);
    command.stdin(Stdio::null());
    command
}

fn changed(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}

/// Runs an example to its end, which must be a good one. Returns what it printed on stdout and on
/// stderr.
pub(crate) fn run(name: &str) -> (String, String) {
    let output = command(name).output().expect("the program starts");
    assert!(output.status.success(), "{name}: {output:#?}");
    printed(output)
}

pub(crate) fn printed(output: Output) -> (String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}
