//! Changes in the state of a process, as reported by the supervisor.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// A change in the state of a process.
#[derive(Debug)]
pub(crate) enum Change {
    /// The process is now under supervision.
    Created,
    Started {
        pid: u32,
        restarts: u64,
    },
    /// The process ended successfully on its own.
    Exited(Run),
    /// The process ended on its own, with a failure.
    Failed(Run, Cause),
    /// The process could not be started.
    CannotStart(io::Error),
    /// The process will be restarted after this delay.
    BackOff {
        delay: Duration,
        restarts: u64,
        /// Whether the last run failed.
        has_failed: bool,
    },
    /// The process will not be restarted, because it has reached the restart limit.
    GaveUp {
        max_restarts: u64,
    },
    /// The process ended after the supervisor had asked it to exit.
    Stopped(Run),
    /// The process was killed, for example because it did not exit when it was asked to.
    Killed(Run),
}

/// One run of a command, after it has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) pid: u32,
    pub(crate) uptime: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Code(i32),
    Signal(i32),
}

impl Cause {
    /// Returns how the process failed, or `None` if the process did not fail.
    pub(crate) fn of(status: ExitStatus) -> Option<Self> {
        match (status.code(), status.signal()) {
            (Some(0), _) => None,
            (Some(code), _) => Some(Self::Code(code)),
            (None, Some(signal)) => Some(Self::Signal(signal)),
            (None, None) => Some(Self::Code(status.into_raw())),
        }
    }
}
