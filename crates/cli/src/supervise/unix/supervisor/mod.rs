//! The event loop that starts commands, waits for them to end, restarts them, and finally stops all
//! commands.
//!
//! The loop sleeps until something happens:
//!
//! - A child ends. For each child, one thread waits for this.
//! - A signal arrives. One thread forwards all signals.
//! - A timer is due, such as a restart.
//!
//! The loop waits for all of these events on one channel. The loop does not depend on how changes
//! are recorded, because it passes each [`Change`] to a closure.

use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use super::backoff::{Backoff, Policy};
use super::change::{Cause, Change, Run};
use super::command::Process;
use super::process::Group;
use super::system;

/// The maximum time to wait after sending KILL, because we may not be allowed to kill some
/// processes.
const AFTER_KILL: Duration = Duration::from_secs(30);

/// A message to the event loop.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Message {
    /// The group leader of the process with this index has ended.
    Ended(usize),
    /// A request to stop. Repeating this request has no further effect.
    Stop,
    /// A request by the user to stop. If another interrupt follows later, the grace period is
    /// skipped.
    Interrupt,
    /// A request to kill all processes immediately.
    Kill,
    /// A child has ended. The child may be an adopted process.
    Child,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) backoff: Policy,
    pub(crate) grace: Duration,
    /// The time after the first request to stop during which an interrupt counts as the same
    /// request.
    pub(crate) same_request: Duration,
    pub(crate) stop_after: Option<Duration>,
    pub(crate) panic_after: Option<Duration>,
    /// Whether commands are restarted only if they failed.
    pub(crate) on_failure: bool,
    /// Whether the commands' output is shown.
    pub(crate) output: bool,
    /// Whether commands are killed when this process ends, if the system supports this.
    pub(crate) tied: bool,
}

pub(crate) struct Supervisor<F> {
    tasks: Vec<Task>,
    phase: Phase,
    settings: Settings,
    panic_at: Option<Instant>,
    inbox: Receiver<Message>,
    outbox: Sender<Message>,
    tell: F,
}

struct Task {
    process: Process,
    backoff: Backoff,
    restarts: u64,
    state: State,
    gave_up: bool,
}

/// The names of the processes that did not end normally.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The processes that could not be killed. Usually, there are none.
    pub(crate) left: Vec<String>,
    /// The processes that were no longer restarted because they had reached their restart limit.
    pub(crate) gave_up: Vec<String>,
}

enum State {
    Running {
        group: Group,
        since: Instant,
    },
    /// If `until` is `None`, the process is never restarted, because the delay is longer than the
    /// clock can represent.
    Waiting {
        until: Option<Instant>,
    },
    /// The process has not been started yet, or is no longer restarted.
    Idle,
}

#[derive(Clone, Copy)]
enum Phase {
    Running {
        stop_at: Option<Instant>,
    },
    /// TERM has been sent.
    Stopping {
        since: Instant,
        kill_at: Option<Instant>,
    },
    /// KILL has been sent.
    Killing {
        give_up_at: Option<Instant>,
    },
}

impl<F: FnMut(&Process, Change)> Supervisor<F> {
    pub(crate) fn new(processes: Vec<Process>, settings: Settings, tell: F) -> Self {
        let (outbox, inbox) = mpsc::channel();
        let now = Instant::now();
        let tasks = processes
            .into_iter()
            .map(|process| Task {
                process,
                backoff: Backoff::new(settings.backoff),
                restarts: 0,
                state: State::Idle,
                gave_up: false,
            })
            .collect();
        Self {
            tasks,
            phase: Phase::Running { stop_at: settings.stop_after.and_then(|after| now.checked_add(after)) },
            panic_at: settings.panic_after.and_then(|after| now.checked_add(after)),
            settings,
            inbox,
            outbox,
            tell,
        }
    }

    /// Returns a sender for messages to the loop, such as [`Message::Stop`].
    pub(crate) fn outbox(&self) -> Sender<Message> {
        self.outbox.clone()
    }

    /// Runs the commands until the supervisor is stopped, or until no process is left to restart.
    pub(crate) fn run(mut self) -> Outcome {
        for index in 0..self.tasks.len() {
            self.tell(index, Change::Created);
        }
        for index in 0..self.tasks.len() {
            self.start(index);
        }
        while !self.is_over(Instant::now()) {
            match self.next_message() {
                Some(Message::Ended(index)) => self.ended(index),
                Some(Message::Stop) => self.stop(),
                Some(Message::Interrupt) => self.interrupt(),
                Some(Message::Kill) => self.kill(),
                Some(Message::Child) => self.reap_orphans(),
                None => {}
            }
        }
        let name = |task: &Task| task.process.name.clone();
        Outcome {
            left: self.running().map(name).collect(),
            gave_up: self.tasks.iter().filter(|task| task.gave_up).map(name).collect(),
        }
    }

    /// Waits for a message, but no longer than until the next timer is due. Returns `None` if no
    /// message arrived.
    fn next_message(&self) -> Option<Message> {
        let phase_at = match self.phase {
            Phase::Running { stop_at: at }
            | Phase::Stopping { kill_at: at, .. }
            | Phase::Killing { give_up_at: at } => at,
        };
        let restarts = self.tasks.iter().filter_map(|task| match task.state {
            State::Waiting { until } => until,
            State::Running { .. } | State::Idle => None,
        });
        match restarts.chain(phase_at).chain(self.panic_at).min() {
            Some(at) => self.inbox.recv_timeout(at.saturating_duration_since(Instant::now())).ok(),
            None => self.inbox.recv().ok(),
        }
    }

    /// Handles all timers that are due. Returns whether the loop has finished.
    fn is_over(&mut self, now: Instant) -> bool {
        let due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        assert!(!due(self.panic_at), "--panic-after asked for this panic");
        match self.phase {
            Phase::Running { stop_at } if due(stop_at) => self.stop(),
            Phase::Stopping { kill_at, .. } if due(kill_at) => self.kill(),
            Phase::Killing { give_up_at } if due(give_up_at) => return true,
            _ => {}
        }
        if let Phase::Running { .. } = self.phase {
            for index in 0..self.tasks.len() {
                if matches!(self.tasks[index].state, State::Waiting { until } if due(until)) {
                    self.tasks[index].restarts += 1;
                    self.start(index);
                }
            }
        }
        self.tasks.iter().all(|task| matches!(task.state, State::Idle))
    }

    fn start(&mut self, index: usize) {
        let outbox = self.outbox.clone();
        let started =
            Group::spawn(&self.tasks[index].process.command, self.settings.output, self.settings.tied)
                .and_then(|group| {
                    group.on_end(move || {
                        // If the send fails, the supervisor has been dropped, which killed the
                        // group.
                        let _ = outbox.send(Message::Ended(index));
                    })?;
                    Ok(group)
                });
        match started {
            Ok(group) => {
                let change = Change::Started { pid: group.id(), restarts: self.tasks[index].restarts };
                self.tasks[index].state = State::Running { group, since: Instant::now() };
                self.tell(index, change);
            }
            Err(error) => {
                self.tell(index, Change::CannotStart(error));
                self.after_run(index, Duration::ZERO, true);
            }
        }
    }

    fn ended(&mut self, index: usize) {
        let State::Running { group, since } = std::mem::replace(&mut self.tasks[index].state, State::Idle)
        else {
            return;
        };
        let run = Run { pid: group.id(), uptime: since.elapsed() };
        let status = group.finish();
        let change = match self.phase {
            Phase::Running { .. } => match status {
                Ok(status) => match Cause::of(status) {
                    None => Change::Exited(run),
                    Some(cause) => Change::Failed(run, cause),
                },
                Err(error) => Change::CannotStart(error),
            },
            Phase::Stopping { .. } => Change::Stopped(run),
            Phase::Killing { .. } => Change::Killed(run),
        };
        let has_failed = !matches!(change, Change::Exited(_));
        self.tell(index, change);
        if let Phase::Running { .. } = self.phase {
            self.after_run(index, run.uptime, has_failed);
        }
    }

    /// Schedules a restart after a run that ended on its own, unless the command should not be
    /// restarted.
    fn after_run(&mut self, index: usize, uptime: Duration, has_failed: bool) {
        let Settings { on_failure, backoff: Policy { max_restarts, .. }, .. } = self.settings;
        let task = &mut self.tasks[index];
        task.state = State::Idle;
        if on_failure && !has_failed {
            return;
        }
        let change = if let Some(delay) = task.backoff.after_run(uptime) {
            task.state = State::Waiting { until: Instant::now().checked_add(delay) };
            Change::BackOff { delay, restarts: task.restarts, has_failed }
        } else {
            task.gave_up = true;
            Change::GaveUp { max_restarts: max_restarts.unwrap_or_default() }
        };
        self.tell(index, change);
    }

    /// Asks all processes to exit.
    fn stop(&mut self) {
        if !matches!(self.phase, Phase::Running { .. }) {
            return;
        }
        let since = Instant::now();
        self.phase = Phase::Stopping { since, kill_at: since.checked_add(self.settings.grace) };
        for task in &mut self.tasks {
            match &task.state {
                State::Running { group, .. } => drop(group.terminate()),
                State::Waiting { .. } | State::Idle => task.state = State::Idle,
            }
        }
    }

    /// Asks all processes to exit. If they have already been asked to exit, kills them instead,
    /// unless the interrupt counts as the same request.
    fn interrupt(&mut self) {
        match self.phase {
            Phase::Running { .. } => self.stop(),
            Phase::Stopping { since, .. } if since.elapsed() >= self.settings.same_request => self.kill(),
            Phase::Stopping { .. } | Phase::Killing { .. } => {}
        }
    }

    fn kill(&mut self) {
        if let Phase::Killing { .. } = self.phase {
            return;
        }
        self.phase = Phase::Killing { give_up_at: Instant::now().checked_add(AFTER_KILL) };
        for task in &self.tasks {
            if let State::Running { group, .. } = &task.state {
                drop(group.kill());
            }
        }
    }

    fn reap_orphans(&self) {
        let leader = |task: &Task| match &task.state {
            State::Running { group, .. } => Some(group.pid()),
            State::Waiting { .. } | State::Idle => None,
        };
        system::reap_orphans(&self.tasks.iter().filter_map(leader).collect::<Vec<_>>());
    }

    fn running(&self) -> impl Iterator<Item = &Task> {
        self.tasks.iter().filter(|task| matches!(task.state, State::Running { .. }))
    }

    fn tell(&mut self, index: usize, change: Change) {
        (self.tell)(&self.tasks[index].process, change);
    }
}

#[cfg(test)]
mod tests;
