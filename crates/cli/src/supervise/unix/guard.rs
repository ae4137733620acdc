//! Two processes that guard each other, so that no end of one leaves a process behind.
//!
//! KILL cannot be caught, and the children of a killed process belong to its nearest ancestor that
//! adopts orphans. supervise therefore runs as two processes: the user starts the guard, and the
//! guard starts the supervisor, which starts the commands. Both adopt orphans.
//!
//! - If the guard is killed, the pipe to the supervisor's stdin ends. The supervisor then kills all
//!   that is left, at once, and ends.
//! - If the supervisor is killed, the guard becomes the parent of all that is left, and kills it.
//!
//! The guard passes signals on, and ends with the supervisor's exit status. The supervisor has a
//! process group of its own, so a Ctrl-C comes to it only once.

use std::env;
use std::ffi::OsStr;
use std::io::{self, Read as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command as Spawn, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

use super::linux::Orphans;

/// The name that the program gets instead of its own when it is to be the supervisor.
const NAME: &str = "eventcast: supervisor";

fn is_supervisor() -> bool {
    env::args_os().next().as_deref() == Some(OsStr::new(NAME))
}

/// Starts the supervisor with the arguments of this process, and guards it to its end. Returns its
/// exit status, or `None` if this process is the supervisor.
pub(crate) fn guard() -> io::Result<Option<ExitCode>> {
    if is_supervisor() {
        return Ok(None);
    }
    let orphans = Orphans::adopt()?;
    let mut signals = Signals::new([SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM])?;
    let mut supervisor = Spawn::new("/proc/self/exe")
        .arg0(NAME)
        .args(env::args_os().skip(1))
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let pid = Pid::from_child(&supervisor);
    for signal in signals.forever() {
        if signal != SIGCHLD {
            // The number is still the supervisor's, because only `try_wait` reaps it.
            let signal = Signal::from_named_raw(signal).unwrap_or(Signal::TERM);
            let _ = kill_process(pid, signal);
        } else if let Some(status) = supervisor.try_wait()? {
            orphans.kill()?;
            return Ok(Some(exit_code(status)));
        }
    }
    Ok(Some(ExitCode::FAILURE))
}

/// Returns the exit status, as a shell shows it: 128 and more for a signal.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| signal + 128));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Says whether the guard is gone.
pub(crate) struct Abandoned(Arc<AtomicBool>);

impl Abandoned {
    pub(crate) fn has_come(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// Calls `then` on a separate thread when the guard is gone.
pub(crate) fn on_abandoned(then: impl FnOnce() + Send + 'static) -> io::Result<Abandoned> {
    let abandoned = Arc::new(AtomicBool::new(false));
    let flag = abandoned.clone();
    thread::Builder::new().name("guard".to_owned()).stack_size(64 * 1024).spawn(move || {
        // Only the guard holds the other end, and writes nothing. The commands have another stdin.
        let _ = io::stdin().read(&mut [0]);
        flag.store(true, Ordering::SeqCst);
        then();
    })?;
    Ok(Abandoned(abandoned))
}
