//! Records what happened to a process as an event about that process.
//!
//! Messages do not contain anything that varies between restarts, so that a repeat is counted
//! instead of being stored as another event. The varying parts are stored in annotations.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::{SystemTime, UNIX_EPOCH};

use eventcast::{CorrelatorOptions, EventType, ObjectReference, Recorder};

use super::change::{Cause, Change, Run};
use super::command::Process;
use super::signals;
use crate::support::duration;
use crate::support::number::counted;

/// The maximum number of different events about one process, which is one event for each exit code,
/// signal and system error, and a few more.
const EVENTS_OF_A_PROCESS: usize = 512;

/// The maximum size of a correlator's cache, in events.
const MOST_REMEMBERED: usize = 1 << 24;

/// Returns correlator options that count each distinct event of this number of processes exactly.
/// There are only a few different events, so neither the spam filter nor aggregation is needed. The
/// correlator's cache is large enough for all of these events.
pub(crate) fn counting(processes: usize) -> CorrelatorOptions {
    let events = processes.saturating_mul(EVENTS_OF_A_PROCESS);
    CorrelatorOptions::off().cache_size(events.clamp(1, MOST_REMEMBERED))
}

/// Records the changes in the state of processes as events.
pub(crate) struct Journal {
    recorder: Recorder,
    show_args: bool,
    /// The prefix of the UIDs, which distinguishes the processes of this run from the processes of
    /// other runs.
    run: String,
    recorded: u64,
}

/// Returns a unique name for a run. The name consists of the time, the process ID, and 64 random
/// bits, which distinguish runs if the clock was set back.
pub(crate) fn new_run() -> String {
    let started = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = RandomState::new().build_hasher().finish();
    format!("{:x}-{:x}-{random:016x}", started.as_nanos(), std::process::id())
}

impl Journal {
    /// Creates a journal. `run`, created by [`new_run`], is the prefix of the UIDs of this run's
    /// processes.
    pub(crate) fn new(recorder: Recorder, show_args: bool, run: &str) -> Self {
        Self { recorder, show_args, run: run.to_owned(), recorded: 0 }
    }

    /// Returns the number of recorded events, regardless of what happened to them afterwards.
    pub(crate) fn recorded(&self) -> u64 {
        self.recorded
    }

    pub(crate) fn record(&mut self, process: &Process, change: &Change) {
        self.recorded += 1;
        let Entry { type_, reason, message, annotations } = Entry::new(process, change, self.show_args);
        let object = self.object(process);
        let draft = self.recorder.draft(object, type_, reason).message(message);
        annotations.into_iter().fold(draft, |draft, (key, value)| draft.annotation(key, value)).record();
    }

    fn object(&self, process: &Process) -> ObjectReference {
        let mut object = ObjectReference::new("Process", process.name.clone());
        object.uid = format!("{}-{}", self.run, process.index).into();
        object
    }
}

/// The contents of an event, not including its object.
struct Entry {
    type_: EventType,
    reason: &'static str,
    message: String,
    annotations: Vec<(&'static str, String)>,
}

impl Entry {
    fn new(process: &Process, change: &Change, show_args: bool) -> Self {
        use EventType::{Normal, Warning};

        let entry = |type_, reason, message: &str, annotations| Self {
            type_,
            reason,
            message: message.to_owned(),
            annotations,
        };
        match change {
            Change::Created => {
                let shown = if show_args { &process.command.text } else { &process.command.program };
                entry(Normal, "Created", &format!("supervising {shown}"), Vec::new())
            }
            Change::Started { pid, restarts } => entry(
                Normal,
                "Started",
                "started",
                vec![("supervise/pid", pid.to_string()), ("supervise/restarts", restarts.to_string())],
            ),
            Change::Exited(run) => entry(Normal, "Exited", "ended with exit code 0", of_run(*run)),
            Change::Failed(run, Cause::Code(code)) => {
                entry(Warning, "Failed", &format!("ended with exit code {code}"), of_run(*run))
            }
            Change::Failed(run, Cause::Signal(signal)) => {
                entry(Warning, "Failed", &format!("killed by {}", signals::name(*signal)), of_run(*run))
            }
            Change::CannotStart(error) => {
                entry(Warning, "Failed", &format!("cannot be started: {error}"), Vec::new())
            }
            Change::BackOff { delay, restarts, has_failed } => entry(
                if *has_failed { Warning } else { Normal },
                "BackOff",
                "waiting before the next start",
                vec![
                    ("supervise/delay", duration::show(*delay)),
                    ("supervise/restarts", restarts.to_string()),
                ],
            ),
            Change::GaveUp { max_restarts } => entry(
                Warning,
                "BackoffLimitExceeded",
                &format!("not started again after {}", counted(*max_restarts, "restart")),
                Vec::new(),
            ),
            Change::Stopped(run) => entry(Normal, "Exited", "stopped with its supervisor", of_run(*run)),
            Change::Killed(run) => {
                entry(Warning, "Failed", "killed, because it did not stop in time", of_run(*run))
            }
        }
    }
}

fn of_run(run: Run) -> Vec<(&'static str, String)> {
    vec![("supervise/pid", run.pid.to_string()), ("supervise/uptime", duration::show(run.uptime))]
}

#[cfg(test)]
mod tests {
    use super::super::change::{Cause, Change, Run};
    use super::super::command::{Command, Process, name_all};
    use super::{Journal, counting};
    use eventcast::correlator::{Correlation, EventCorrelator};
    use eventcast::testing::FakeRecorder;
    use std::io;
    use std::time::Duration;

    fn processes() -> Vec<Process> {
        let commands = ["/bin/login --password hunter2", "login"];
        name_all(commands.into_iter().map(|text| Command::split(text).unwrap()).collect())
    }

    fn changes() -> Vec<Change> {
        let run = Run { pid: 4711, uptime: Duration::from_millis(1234) };
        vec![
            Change::Created,
            Change::Started { pid: 4711, restarts: 7 },
            Change::Exited(run),
            Change::Failed(run, Cause::Code(3)),
            Change::Failed(run, Cause::Signal(11)),
            Change::CannotStart(io::Error::from_raw_os_error(2)),
            Change::BackOff { delay: Duration::from_millis(800), restarts: 7, has_failed: true },
            Change::BackOff { delay: Duration::from_millis(800), restarts: 7, has_failed: false },
            Change::GaveUp { max_restarts: 5 },
            Change::Stopped(run),
            Change::Killed(run),
        ]
    }

    #[test]
    fn each_change_has_its_event() {
        let fake = FakeRecorder::new(100);
        let mut journal = Journal::new(fake.recorder("tester"), false, "run");
        for change in changes() {
            journal.record(&processes()[0], &change);
        }
        assert_eq!(journal.recorded(), 11);
        assert_eq!(
            fake.take_lines(),
            [
                "Normal Created supervising /bin/login",
                "Normal Started started map[supervise/pid:4711 supervise/restarts:7]",
                "Normal Exited ended with exit code 0 map[supervise/pid:4711 supervise/uptime:1s234ms]",
                "Warning Failed ended with exit code 3 map[supervise/pid:4711 supervise/uptime:1s234ms]",
                "Warning Failed killed by SIGSEGV map[supervise/pid:4711 supervise/uptime:1s234ms]",
                "Warning Failed cannot be started: No such file or directory (os error 2)",
                "Warning BackOff waiting before the next start map[supervise/delay:800ms supervise/restarts:7]",
                "Normal BackOff waiting before the next start map[supervise/delay:800ms supervise/restarts:7]",
                "Warning BackoffLimitExceeded not started again after 5 restarts",
                "Normal Exited stopped with its supervisor map[supervise/pid:4711 supervise/uptime:1s234ms]",
                "Warning Failed killed, because it did not stop in time map[supervise/pid:4711 supervise/uptime:1s234ms]",
            ]
        );
    }

    #[test]
    fn messages_hold_nothing_that_varies_and_arguments_are_nowhere() {
        let fake = FakeRecorder::new(100);
        let mut journal = Journal::new(fake.recorder("tester"), false, "run");
        for change in changes() {
            journal.record(&processes()[0], &change);
        }
        for event in fake.take() {
            for varying in ["4711", "1234", "800", "7"] {
                assert!(!event.message.contains(varying), "{event:?}");
            }
            assert!(!event.to_json().contains("hunter2"), "{event:?}");
        }
    }

    #[test]
    fn the_events_of_many_processes_are_all_kept() {
        let commands: Vec<_> = (0..500).map(|_| Command::split("server").unwrap()).collect();
        let processes = name_all(commands);
        let fake = FakeRecorder::new(10_000);
        let mut journal = Journal::new(fake.recorder("tester"), false, "run");
        for change in changes() {
            for process in &processes {
                journal.record(process, &change);
            }
        }
        let correlator = EventCorrelator::new_exact(counting(processes.len())).unwrap();
        let events = fake.take();
        let is_new = |event| matches!(correlator.correlate(event), Correlation::Create { .. });
        assert_eq!(events.iter().filter(|event| is_new(event)).count(), 500 * changes().len());
        assert_eq!(events.iter().filter(|event| is_new(event)).count(), 0, "the correlator forgot some");
    }

    #[test]
    fn arguments_are_shown_when_asked_for() {
        let fake = FakeRecorder::new(1);
        Journal::new(fake.recorder("tester"), true, "run").record(&processes()[0], &Change::Created);
        assert_eq!(fake.take_lines(), ["Normal Created supervising /bin/login --password hunter2"]);
    }

    #[test]
    fn two_commands_of_one_program_are_two_objects() {
        let fake = FakeRecorder::new(2);
        let mut journal = Journal::new(fake.recorder("tester"), false, "run");
        for process in processes() {
            journal.record(&process, &Change::Created);
        }
        let objects: Vec<_> = fake.take().into_iter().map(|event| event.involved_object).collect();
        assert_eq!((objects[0].name.as_str(), objects[1].name.as_str()), ("login", "login-2"));
        assert_ne!(objects[0].uid, objects[1].uid);
    }
}
