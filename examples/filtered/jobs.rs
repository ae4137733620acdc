//! The job system: workers that take jobs from a queue, and a board that knows the state of each
//! job.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eventcast::error::{BuildError, WatchError};
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};

/// The number of times that a job is tried.
const ATTEMPTS: u32 = 3;

/// A sum to be read from a text, for one of the system's users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) tenant: &'static str,
    text: Arc<str>,
}

impl Job {
    /// Creates a job. Every eleventh job has a text that cannot be read. Every fifth job meets a
    /// busy store at first.
    pub(crate) fn new(number: u64) -> Self {
        let tenant = ["acme", "globex", "initech"][(number % 3) as usize];
        let text = if number % 11 == 7 { "1 2 x" } else { "1 2 3" };
        Self { number, tenant, text: text.into() }
    }

    fn perform(&self, attempt: u32) -> Result<u64, String> {
        if self.number % 5 == 2 && attempt == 1 {
            return Err("the store is busy".to_owned());
        }
        let numbers = self
            .text
            .split(' ')
            .map(|word| word.parse::<u64>().map_err(|error| format!("{word:?} cannot be read: {error}")));
        numbers.sum()
    }
}

/// A change in the life of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Queued,
    Started { attempt: u32 },
    Failed { attempt: u32, error: Arc<str> },
    Finished { sum: u64 },
    GivenUp,
}

/// An event on the bus: the change, and the job that has changed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct JobEvent {
    pub(crate) job: Job,
    pub(crate) change: Change,
}

impl JobEvent {
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self.change, Change::Failed { .. } | Change::GivenUp)
    }

    pub(crate) fn is_end(&self) -> bool {
        matches!(self.change, Change::Finished { .. } | Change::GivenUp)
    }
}

impl fmt::Display for JobEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "job {} of {} ", self.job.number, self.job.tenant)?;
        match &self.change {
            Change::Queued => f.write_str("is queued"),
            Change::Started { attempt } => write!(f, "starts, attempt {attempt}"),
            Change::Failed { attempt, error } => write!(f, "failed, attempt {attempt}: {error}"),
            Change::Finished { sum } => write!(f, "finished: {sum}"),
            Change::GivenUp => write!(f, "given up after {ATTEMPTS} attempts"),
        }
    }
}

/// The state of each job: its last event.
pub(crate) type Board = BTreeMap<u64, JobEvent>;

pub(crate) struct JobSystem {
    pub(crate) bus: Broadcaster<JobEvent>,
    board: Mutex<Board>,
}

impl JobSystem {
    /// Creates a system whose watchers lose nothing, unless they ask for another policy.
    pub(crate) fn new() -> Result<Self, BuildError> {
        let options = BusOptions::default().queue_len(64).overflow(OverflowPolicy::Wait);
        Ok(Self { bus: Broadcaster::with_options(options)?, board: Mutex::default() })
    }

    pub(crate) fn submit(&self, queue: &Sender<Job>, job: Job) -> Result<(), SendError<Job>> {
        self.note(&job, Change::Queued);
        queue.send(job)
    }

    /// Does jobs, as a worker, until nobody has any more to submit.
    pub(crate) fn work(&self, queue: &Mutex<Receiver<Job>>) {
        loop {
            let Ok(job) = lock(queue).recv() else { return };
            let done = (1..=ATTEMPTS).any(|attempt| {
                self.note(&job, Change::Started { attempt });
                match job.perform(attempt) {
                    Ok(sum) => self.note(&job, Change::Finished { sum }),
                    Err(error) => {
                        self.note(&job, Change::Failed { attempt, error: error.into() });
                        return false;
                    }
                }
                true
            });
            if !done {
                self.note(&job, Change::GivenUp);
            }
        }
    }

    /// Publishes a change and puts it on the board, as one step: see [`follow`](Self::follow).
    fn note(&self, job: &Job, change: Change) {
        let event = JobEvent { job: job.clone(), change };
        let mut board = lock(&self.board);
        // An error needs no handling: the bus is closed only when the jobs are done.
        let _ = self.bus.publisher().publish(event.clone());
        board.insert(job.number, event);
    }

    /// Registers a watcher that begins with the state of the jobs, and goes on with what changes.
    /// Returns the watcher and the number of jobs that it begins with.
    ///
    /// Nothing comes twice and nothing is left out between the two, because no change can happen
    /// between the look at the board and the registration. Do not call this on a thread that reads
    /// another `Wait` watcher of this bus: a thread that changes something holds the board, and may
    /// be waiting for that watcher to be read.
    pub(crate) fn follow(&self, name: &str) -> Result<(Watcher<JobEvent>, usize), WatchError> {
        let board = lock(&self.board);
        let now: Vec<JobEvent> = board.values().cloned().collect();
        let known = now.len();
        Ok((self.bus.watch_builder().name(name).prefix(now).watch()?, known))
    }

    pub(crate) fn board(&self) -> Board {
        lock(&self.board).clone()
    }
}

/// Returns the board that a follower of events arrives at.
pub(crate) fn picture(watcher: &mut Watcher<JobEvent>) -> Board {
    let mut board = Board::new();
    for delivery in watcher {
        if let Delivery::Event(event) = delivery {
            board.insert(event.job.number, event);
        }
    }
    board
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
