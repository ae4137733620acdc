//! A child process in its own process group, which does not outlive its owner.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command as Spawn, ExitStatus, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::command::{Command, check_folder};
use super::system;

/// A process group, which consists of the leader and of all processes that the leader starts and
/// that stay in the group. Dropping the value kills all of these processes.
///
/// The leader is reaped only in [`finish`](Group::finish) and in `drop`. Until then, its process
/// ID, which is also the group's ID, cannot be reused, so a signal never reaches an unrelated
/// process.
#[derive(Debug)]
pub(crate) struct Group {
    leader: Child,
    pid: Pid,
    reaped: bool,
}

/// Starts a command with an empty stdin. `prepare` sets the command's output and process group.
pub(crate) fn spawn(command: &Command, prepare: impl FnOnce(&mut Spawn)) -> io::Result<Child> {
    let mut program = Spawn::new(&command.program);
    program.args(&command.args).stdin(Stdio::null());
    prepare(&mut program);
    program.spawn()
}

/// Returns the error to report if a command cannot be started. If the directory is the cause, the
/// error names the directory, because otherwise the program would appear to be missing.
fn explained(error: io::Error, command: &Command) -> io::Error {
    match command.dir.as_deref().map(|dir| (dir, check_folder(dir))) {
        Some((dir, Err(cause))) => {
            io::Error::new(cause.kind(), format!("cannot enter {}: {cause}", dir.display()))
        }
        _ => error,
    }
}

impl Group {
    /// Starts a command with an empty stdin. The command's output is sent to this program's stderr
    /// or discarded.
    ///
    /// If `tied` is true, the command is killed when the current thread ends, provided that the
    /// system supports this.
    pub(crate) fn spawn(command: &Command, output: bool, tied: bool) -> io::Result<Self> {
        let prepare = |program: &mut Spawn| {
            let sink = || if output { Stdio::from(io::stderr()) } else { Stdio::null() };
            program.stdout(sink()).stderr(sink()).process_group(0);
            program.envs(command.env.iter().map(|(name, value)| (name, value)));
            if let Some(dir) = &command.dir {
                program.current_dir(dir);
            }
        };
        let leader = if tied { system::spawn(command, prepare) } else { spawn(command, prepare) };
        let leader = leader.map_err(|error| explained(error, command))?;
        let pid = Pid::from_child(&leader);
        Ok(Self { leader, pid, reaped: false })
    }

    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    pub(crate) fn id(&self) -> u32 {
        self.leader.id()
    }

    /// Calls `then` on a separate thread once the leader has ended, without reaping the leader.
    pub(crate) fn on_end(&self, then: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let pid = self.pid;
        thread::Builder::new().name(format!("wait-{}", pid.as_raw_nonzero())).stack_size(64 * 1024).spawn(
            move || {
                let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
                while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
                then();
            },
        )?;
        Ok(())
    }

    /// Asks every process in the group to exit. Stopped processes are continued so that they can
    /// exit.
    pub(crate) fn terminate(&self) -> io::Result<()> {
        self.signal(Signal::TERM)?;
        self.signal(Signal::CONT)
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        self.signal(Signal::KILL)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.reaped {
            return Ok(());
        }
        Ok(kill_process_group(self.pid, signal)?)
    }

    /// Kills the processes in the group and waits for the leader. Returns the leader's exit status.
    pub(crate) fn finish(mut self) -> io::Result<ExitStatus> {
        self.reap()
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        if !self.reaped {
            // macOS rejects the signal if the ended leader is the only process left. In that case,
            // there is nothing to do.
            let _ = self.kill();
        }
        let status = self.leader.wait()?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Does not wait for a process that we are not allowed to kill, because such a process may
        // keep running for any length of time. An example is a process that changed its user.
        if !self.reaped && self.kill().is_ok() {
            let _ = self.leader.wait();
            self.reaped = true;
        }
    }
}
