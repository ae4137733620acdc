//! Ends commands with their supervisor even if the supervisor is killed, and finds processes that
//! left their group. Only Linux offers both.
//!
//! A command that is to be killed with its parent has to ask for that itself. supervise therefore
//! starts its own program, which asks, and then becomes the command. This needs no unsafe code,
//! unlike code between fork and exec. The processes that a command starts do not ask: `guard` finds
//! them.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command as Spawn, ExitCode, Stdio};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, waitid,
};

use super::command::Command;

pub(crate) use super::guard::{guard, on_abandoned};

/// The name that replaces the program's own when it is to become a command.
const NAME: &str = "eventcast: becoming a command";

/// Starts a command that is killed when this thread ends. `prepare` sets its output and its group.
pub(crate) fn spawn(command: &Command, prepare: impl FnOnce(&mut Spawn)) -> io::Result<Child> {
    // The other end is the child's stdin. If the child cannot become the command, it writes the
    // reason there. The other end is closed when the child has become the command.
    let (mut answer, stdin) = UnixStream::pair()?;
    let mut program = Spawn::new("/proc/self/exe");
    program.arg0(NAME).arg(getpid().to_string()).arg(&command.program).args(&command.args);
    prepare(&mut program);
    let mut child = program.stdin(OwnedFd::from(stdin)).spawn()?;
    drop(program);
    let mut error = Vec::new();
    answer.read_to_end(&mut error)?;
    match <[u8; 4]>::try_from(error) {
        Ok(error) => {
            child.wait()?;
            Err(io::Error::from_raw_os_error(i32::from_ne_bytes(error)))
        }
        Err(_) => Ok(child),
    }
}

/// Becomes the command, if this process was started for that. Returns `None` if it was not, and an
/// exit code if it could not become the command.
pub(crate) fn become_command() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    if args.next().as_deref() != Some(OsStr::new(NAME)) {
        return None;
    }
    // A copy, because the exec replaces stdin itself. If the exec succeeds, it closes the copy.
    let answer = io::stdin().as_fd().try_clone_to_owned();
    let error = exec(args).raw_os_error().unwrap_or_default();
    if let Ok(answer) = answer {
        let _ = File::from(answer).write_all(&error.to_ne_bytes());
    }
    Some(ExitCode::FAILURE)
}

fn exec(mut args: impl Iterator<Item = OsString>) -> io::Error {
    let parent = args.next();
    let Some(program) = args.next() else { return io::ErrorKind::InvalidInput.into() };
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return error.into();
    }
    // If the parent ended before that request, the signal will never be sent.
    if getppid().map(|pid| pid.to_string().into()) != parent {
        return io::ErrorKind::NotFound.into();
    }
    Spawn::new(program).args(args).stdin(Stdio::null()).exec()
}

/// The processes whose parents have ended. This process is their parent from now on. Dropping the
/// value kills them.
///
/// A shell may have started processes and then become this program. These children are not orphans.
/// Only this process can reap them, and it never does, so their process IDs are never reused.
pub(crate) struct Orphans {
    own_children: Vec<Pid>,
}

impl Orphans {
    /// Call it before this process starts a child.
    pub(crate) fn adopt() -> io::Result<Self> {
        let own_children = children()?.into_iter().map(|child| child.pid).collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_children })
    }

    /// Kills all remaining processes, and those that they leave behind. Call it when all commands
    /// have ended.
    pub(crate) fn kill(&self) -> io::Result<()> {
        loop {
            let mut killed = 0;
            for child in children()? {
                // This number cannot belong to another process: only we can reap the child after it
                // has ended.
                if !self.own_children.contains(&child.pid) && kill_process(child.pid, Signal::KILL).is_ok() {
                    reap(child.pid);
                    killed += 1;
                }
            }
            if killed == 0 {
                return Ok(());
            }
        }
    }
}

impl Drop for Orphans {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

/// Removes the adopted processes that have ended: all children except the leaders of groups. Only
/// the supervisor calls this. The guard has started it, so it had no children before.
pub(crate) fn reap_orphans(leaders: &[Pid]) {
    for child in children().unwrap_or_default() {
        if child.has_ended && !leaders.contains(&child.pid) {
            reap(child.pid);
        }
    }
}

/// Returns the signals that this process ignores, as a mask: bit 0 is signal 1. Returns 0 if the
/// system does not show them.
pub(crate) fn ignored_signals() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default()
}

fn reap(pid: Pid) {
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), WaitIdOptions::EXITED) {}
}

struct ChildProcess {
    pid: Pid,
    has_ended: bool,
}

/// Returns the processes whose parent this process is.
fn children() -> io::Result<Vec<ChildProcess>> {
    let own = getpid().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // The process may have ended by now. The name of its program, in parentheses, may hold
        // anything.
        let Ok(stat) = fs::read(format!("/proc/{pid}/stat")) else { continue };
        let stat = String::from_utf8_lossy(&stat);
        let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
        let has_ended = fields.next() == Some("Z");
        if fields.next() == Some(&own) {
            found.push(ChildProcess { pid, has_ended });
        }
    }
    Ok(found)
}
