//! Two processes that guard each other, so that no process is left running, regardless of how
//! either of them ends.
//!
//! KILL cannot be caught, and a killed process's children are adopted by its nearest ancestor that
//! is a subreaper. supervise therefore runs as two processes. The user starts the guard, and the
//! guard starts the supervisor, which starts the commands. The guard and the supervisor are both
//! subreapers.
//!
//! - If the guard is killed, the pipe to the supervisor's stdin is closed. The supervisor then
//!   immediately kills all remaining processes and exits.
//! - If the supervisor is killed, the guard becomes the parent of all remaining processes and kills
//!   them.
//!
//! The guard forwards signals, except for signals that were ignored when the guard started, and
//! exits with the supervisor's exit status. The supervisor has a separate process group, so it
//! receives each Ctrl-C only once.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command as Spawn, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::SIGCHLD;
use signal_hook::iterator::Signals;

use super::linux::Orphans;
use super::signals;
use crate::support::output::complain;

/// The value of `argv[0]` that makes the program run as the supervisor.
const NAME: &str = "eventcast: supervisor";

/// The maximum time that the guard waits for stderr to accept its last message.
const ROOM: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

fn is_supervisor() -> bool {
    env::args_os().next().as_deref() == Some(OsStr::new(NAME))
}

/// Starts the supervisor with the arguments of this process, and guards the supervisor until it
/// ends. Returns the supervisor's exit status, or `None` if this process is the supervisor.
pub(crate) fn guard() -> io::Result<Option<ExitCode>> {
    if is_supervisor() {
        return Ok(None);
    }
    let orphans = Orphans::adopt()?;
    let signals = signals::register()?;
    let mut supervisor = Spawn::new("/proc/self/exe")
        .arg0(NAME)
        .args(env::args_os().skip(1))
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let pid = Pid::from_child(&supervisor);
    let target = Target::default();
    target.set(Some(pid));
    pass_on(signals, target.clone())?;
    // The signal that reports a child's exit may be blocked, so the guard waits without relying on
    // this signal. The wait does not reap the supervisor, so the supervisor's process ID cannot be
    // reused yet.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
    target.set(None);
    let status = supervisor.wait()?;
    orphans.kill()?;
    if let Some(signal) = status.signal() {
        complain_if_read(&format!(
            "eventcast: the supervisor was killed by signal {signal}, so its commands were killed"
        ));
    }
    Ok(Some(exit_code(status)))
}

/// The process to which the guard forwards signals, until that process is reaped.
#[derive(Clone, Default)]
struct Target(Arc<Mutex<Option<Pid>>>);

impl Target {
    fn set(&self, pid: Option<Pid>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pid;
    }

    fn signal(&self, signal: Signal) {
        // While the lock is held, the process cannot be reaped.
        let pid = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pid) = *pid {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Starts forwarding signals to the target on a separate thread.
fn pass_on(mut signals: Signals, target: Target) -> io::Result<()> {
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever().filter(|&signal| signal != SIGCHLD) {
            target.signal(Signal::from_named_raw(signal).unwrap_or(Signal::TERM));
        }
    })?;
    Ok(())
}

/// Writes a line to stderr, unless the write would block for long. Nothing may prevent the guard
/// from exiting.
fn complain_if_read(line: &str) {
    let stderr = io::stderr();
    if poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&ROOM)).is_ok_and(|ready| ready > 0) {
        complain(line);
    }
}

/// Returns the exit status that a shell would return, which is 128 plus the signal number if a
/// signal ended the process.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// A flag that is set once the guard has ended.
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Calls `then` on a separate thread once the guard has ended.
pub(crate) fn on_abandoned(then: impl FnOnce() + Send + 'static) -> io::Result<Abandoned> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = abandoned.clone();
    thread::Builder::new().name("guard".to_owned()).stack_size(64 * 1024).spawn(move || {
        // Only the guard holds the other end of the pipe, and the guard never writes, so the read
        // returns when the guard ends. The commands have a different stdin.
        let _ = io::stdin().read(&mut [0]);
        flag.store(true, Ordering::SeqCst);
        then();
    })?;
    Ok(Abandoned(abandoned))
}
