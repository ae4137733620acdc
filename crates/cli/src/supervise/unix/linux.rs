//! Ensures that commands end with their supervisor even if the supervisor is killed, and finds
//! processes that left their group. Only Linux supports both.
//!
//! If a process should be killed when its parent ends, the process must request this itself.
//! supervise therefore starts its own executable, which makes the request and then executes the
//! command. Unlike code between fork and exec, this approach does not require unsafe code. The
//! processes that a command starts do not make the request. `guard` finds these processes.

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

/// The value of `argv[0]` that makes the program become a command.
const NAME: &str = "eventcast: becoming a command";

/// Starts a command that is killed when the current thread ends. `prepare` sets the command's
/// output and process group.
pub(crate) fn spawn(command: &Command, prepare: impl FnOnce(&mut Spawn)) -> io::Result<Child> {
    // The other end of this socket is the child's stdin. If the child cannot execute the command,
    // the child writes the error to the socket. Otherwise, the socket is closed when the command is
    // executed.
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

/// Executes the command if this process was started for that purpose. Returns `None` if this
/// process was started for another purpose, or an exit code if the command could not be executed.
pub(crate) fn become_command() -> Option<ExitCode> {
    let mut args = std::env::args_os();
    if args.next().as_deref() != Some(OsStr::new(NAME)) {
        return None;
    }
    // Duplicates stdin, because the exec replaces stdin itself. If the exec succeeds, it closes the
    // duplicate.
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
    // If the parent ended before the request was made, the signal will never be sent.
    if getppid().map(|pid| pid.to_string().into()) != parent {
        return io::ErrorKind::NotFound.into();
    }
    Spawn::new(program).args(args).stdin(Stdio::null()).exec()
}

/// Orphans, which are processes whose parents have ended and which this process adopts. Dropping
/// the value kills these processes.
///
/// A shell may have started child processes and then replaced itself with this program. Such
/// children are not orphans. Only this process can reap them, and it never does, so their process
/// IDs are never reused.
pub(crate) struct Orphans {
    own_children: Vec<Pid>,
}

impl Orphans {
    /// Makes this process a subreaper. This method must be called before this process starts a
    /// child.
    pub(crate) fn adopt() -> io::Result<Self> {
        let own_children = children()?.into_iter().map(|child| child.pid).collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { own_children })
    }

    /// Kills all remaining processes and any orphans that they leave behind. This method must be
    /// called after all commands have ended.
    pub(crate) fn kill(&self) -> io::Result<()> {
        loop {
            let mut killed = 0;
            for child in children()? {
                // The process ID cannot have been reused, because only this process can reap the
                // child.
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

/// Reaps adopted processes that have ended, which are all ended children except group leaders. Only
/// the supervisor calls this function. The guard started the supervisor, so the supervisor did not
/// inherit any children.
pub(crate) fn reap_orphans(leaders: &[Pid]) {
    for child in children().unwrap_or_default() {
        if child.has_ended && !leaders.contains(&child.pid) {
            reap(child.pid);
        }
    }
}

/// Returns the signals that this process ignores, as a mask in which bit 0 represents signal 1.
/// Returns 0 if the system does not report the ignored signals.
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

/// Returns the children of this process.
fn children() -> io::Result<Vec<ChildProcess>> {
    let own = getpid().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        // The process may have ended by now. The program name, which is in parentheses, may contain
        // any characters.
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
