//! The job system: workers that take jobs from a queue, and a board that knows how each of them stands.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::mpsc::{Receiver, SendError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use eventcast::{Broadcaster, BuildError, BusOptions, Delivery, OverflowPolicy, WatchError, Watcher};

/// How often a job is tried.
const ATTEMPTS: u32 = 3;

/// A sum to be read from a text, for one of the system's users.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Job {
    pub(crate) number: u64,
    pub(crate) tenant: &'static str,
    text: Arc<str>,
}

impl Job {
    /// Every eleventh has a text that cannot be read; every fifth one meets a busy store at first.
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

/// What happens to a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    Queued,
    Started { attempt: u32 },
    Failed { attempt: u32, error: Arc<str> },
    Finished { sum: u64 },
    GivenUp,
}

/// What travels on the bus: the change, and of which job.
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
            Change::GivenUp => write!(f, "is given up after {ATTEMPTS} attempts"),
        }
    }
}

/// How each job stands: its last event.
pub(crate) type Board = BTreeMap<u64, JobEvent>;

pub(crate) struct JobSystem {
    pub(crate) bus: Broadcaster<JobEvent>,
    board: Mutex<Board>,
}

impl JobSystem {
    /// Watchers lose nothing here, unless they ask for another policy.
    pub(crate) fn new() -> Result<Self, BuildError> {
        let options = BusOptions::default().queue_len(64).overflow(OverflowPolicy::Wait);
        Ok(Self { bus: Broadcaster::with_options(options)?, board: Mutex::default() })
    }

    pub(crate) fn submit(&self, queue: &Sender<Job>, job: Job) -> Result<(), SendError<Job>> {
        self.note(&job, Change::Queued);
        queue.send(job)
    }

    /// What a worker does: jobs until nobody has any more to submit.
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
        // Nothing to do about an error: the bus is closed only when the jobs are done.
        let _ = self.bus.publisher().publish(event.clone());
        board.insert(job.number, event);
    }

    /// A watcher that begins with how things stand, and goes on with what changes.
    ///
    /// Nothing comes twice and nothing is left out between the two, because no change can happen between the look at
    /// the board and the registration. Not for a thread that reads another `Wait` watcher of this bus: whoever changes
    /// something holds the board and may be waiting for that one to be read.
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

/// The board that a follower of events arrives at.
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
