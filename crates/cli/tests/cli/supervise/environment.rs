//! Tests of the commands' environment variables and working directory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::start;
use crate::support::output::eventcast;
use crate::support::running::{Ended, Running};

/// Runs the program until its commands have exited with exit code 0.
fn start_to_end(args: &[&str]) -> Ended {
    let ended = start(&[&["--for", "1m", "--on-failure"], args].concat()).end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    ended
}

/// Writes a program that prints its working directory and then its arguments.
fn write_program(path: &Path) {
    fs::write(path, "#!/bin/sh\necho \"in $(pwd) with $*\"\n").expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("our own file");
}

#[test]
fn each_command_gets_the_variables() {
    let print = "echo \"$A, $B, ${HOME:+home}\"";
    let variables = ["--env", "A=1", "--env=B=x = y", "--env", "A=2"];
    let ended = start_to_end(&[&["--shell"], &variables[..], &[print, "echo $A and $B"]].concat());
    for line in ["2, x = y, home", "2 and x = y"] {
        assert!(ended.stderr.iter().any(|found| found == line), "{line}: {:#?}", ended.stderr);
    }
    // The variables' values may be secrets, so they must not be shown.
    let logged: String = ended.stderr.into_iter().filter(|line| line.contains("process/")).collect();
    assert!(!(ended.stdout + &logged).contains("x = y"), "{logged}");
}

#[test]
fn a_program_is_looked_up_in_the_path_that_env_sets() {
    let folder = tempfile::TempDir::new().expect("a folder");
    write_program(&folder.path().join("only-here"));
    let path = format!("PATH={}:/usr/bin:/bin", folder.path().to_str().expect("UTF-8"));
    let ended = start_to_end(&["--env", &path, "only-here at all"]);
    assert!(ended.stderr.iter().any(|line| line.ends_with(" with at all")), "{:#?}", ended.stderr);
}

#[test]
fn each_command_runs_in_the_folder_and_is_looked_up_there() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let dir = folder.path().join("app");
    fs::create_dir(&dir).expect("a new folder");
    write_program(&dir.join("server"));
    // The directory is relative to the program's working directory.
    let mut command = eventcast(&["supervise", "--for", "1m", "--on-failure", "--chdir", "app"]);
    command.args(["./server one", "pwd"]).current_dir(folder.path());
    let ended = Running::spawn(command).end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    let dir = dir.canonicalize().expect("it is there");
    let dir = dir.to_str().expect("UTF-8");
    for line in [format!("in {dir} with one"), dir.to_owned()] {
        assert!(ended.stderr.contains(&line), "{line}: {:#?}", ended.stderr);
    }
}

#[test]
fn a_folder_that_is_gone_is_named_as_the_cause() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let dir = folder.path().to_str().expect("UTF-8").to_owned();
    let mut program = start(&["--for", "1m", "--shell", "--chdir", &dir, "echo ready >&2; sleep 0.1"]);
    program.wait_for(|line| line == "ready");
    drop(folder);
    let shown = format!("  cannot be started: cannot enter {dir}: No such file or directory");
    program.wait_for(|line| line.contains(&shown));
    program.stop();
}
