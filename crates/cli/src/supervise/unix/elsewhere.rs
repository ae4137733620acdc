//! The counterpart of `linux.rs` for other systems. On these systems, commands continue to run if
//! the supervisor is killed, and a supervisor cannot find processes that left their group.

use std::io;
use std::process::{Child, Command as Spawn, ExitCode};

use rustix::process::Pid;

use super::command::Command;

pub(crate) fn spawn(command: &Command, prepare: impl FnOnce(&mut Spawn)) -> io::Result<Child> {
    super::process::spawn(command, prepare)
}

pub(crate) fn become_command() -> Option<ExitCode> {
    None
}

/// Returns `None`, because there is only the supervisor and no guard process.
#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) fn guard() -> io::Result<Option<ExitCode>> {
    Ok(None)
}

pub(crate) struct Abandoned(());

#[allow(clippy::unused_self, reason = "as on Linux")]
impl Abandoned {
    pub(crate) fn has_come(&self) -> bool {
        false
    }
}

#[allow(clippy::unnecessary_wraps, reason = "as on Linux")]
pub(crate) fn on_abandoned(_: impl FnOnce() + Send + 'static) -> io::Result<Abandoned> {
    Ok(Abandoned(()))
}

pub(crate) struct Orphans(());

#[allow(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on Linux")]
impl Orphans {
    pub(crate) fn adopt() -> io::Result<Self> {
        Ok(Self(()))
    }

    pub(crate) fn kill(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns 0, because only Linux reports which signals a process ignores.
pub(crate) fn ignored_signals() -> u64 {
    0
}

pub(crate) fn reap_orphans(_: &[Pid]) {}
