//! Interrupts a program. The tests of several programs share this module. It requires Linux, where
//! a process's status shows whether the process handles a signal.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Starts the program, interrupts it once the program handles the signal, and returns its output.
/// The pipes close only after the program's own child processes have exited too.
pub(crate) fn interrupted(command: &mut Command) -> Output {
    const INTERRUPT: u32 = 2;
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let id = child.id().to_string();
    loop {
        let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).map(str::trim);
        let caught = u64::from_str_radix(caught.unwrap_or("0"), 16).unwrap();
        if caught & (1 << (INTERRUPT - 1)) != 0 {
            break;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    child.wait_with_output().unwrap()
}
