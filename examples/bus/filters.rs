//! A job system in which each watcher sees only its own part of the events: the failures, one
//! user's jobs, or all events. A watcher that is registered late begins with the state at the time
//! of its registration.
//!
//! ```sh
//! cargo run -p bus-examples --bin filters
//! ```
//!
//! The bus is inline, because jobs change rarely. An inline bus does not need a thread, and each
//! change is in every watcher's queue when `change` returns.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use eventcast::error::{PublishError, WatchError};
use eventcast::{Broadcaster, Delivery, Watcher};

#[derive(Clone, Debug, PartialEq)]
struct Job {
    number: u32,
    user: &'static str,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Started,
    Failed,
    Done,
}

/// The latest event about each job.
type Board = BTreeMap<u32, Job>;

struct Jobs {
    bus: Broadcaster<Job>,
    board: Mutex<Board>,
}

impl Jobs {
    /// Publishes a change and puts it on the board. The lock makes the two steps atomic. The
    /// filters run inside this call, so a filter must not take the lock.
    fn change(&self, job: Job) -> Result<(), PublishError<Job>> {
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        self.bus.publisher().publish(job.clone())?;
        board.insert(job.number, job);
        Ok(())
    }

    /// Registers a watcher that begins with the jobs on the board. The lock is held while the board
    /// is read and the watcher is registered, so the watcher neither misses a change nor receives a
    /// change twice.
    fn follow(&self, name: &str) -> Result<Watcher<Job>, WatchError> {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        self.bus.watch_builder().name(name).prefix(board.values().cloned()).watch()
    }

    fn run(&self, numbers: std::ops::Range<u32>) -> Result<(), PublishError<Job>> {
        for number in numbers {
            let user = ["ann", "bob", "eve"][number as usize % 3];
            let end = if number % 5 == 4 { State::Failed } else { State::Done };
            self.change(Job { number, user, state: State::Started })?;
            self.change(Job { number, user, state: end })?;
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let jobs = Jobs { bus: Broadcaster::new_inline(), board: Mutex::default() };
    let builder = || jobs.bus.watch_builder();

    // A filter runs in each publish call, so the filter must be fast. A rejected event does not
    // take up space in the queue, does not wake a thread, and does not count as lost.
    let failures = builder().name("failures").filter(|job| job.state == State::Failed).watch()?;
    // A handler runs on its own thread, which is named after the watcher.
    let done = Arc::new(AtomicU64::new(0));
    let count = done.clone();
    let bob = builder().name("bob").filter(|job| job.user == "bob" && job.state == State::Done).spawn(
        move |delivery| {
            if let Delivery::Event(_) = delivery {
                // Relaxed: this is only a sum, and the shutdown below waits for this thread.
                count.fetch_add(1, Ordering::Relaxed);
            }
        },
    )?;
    let mut everything = builder().name("everything").watch()?;

    jobs.run(0..20)?;
    let mut late = jobs.follow("late")?;
    jobs.run(20..30)?;
    let report = jobs.bus.shutdown();

    let mut text = String::new();
    writeln!(text, "WATCHER      OFFERED  FILTERED")?;
    for stats in [failures.stats(), bob.stats(), everything.stats(), late.stats()] {
        writeln!(text, "{:<13}{:<9}{}", stats.name, stats.offered, stats.filtered)?;
    }
    let failed: Vec<u32> = failures.into_iter().filter_map(Delivery::event).map(|job| job.number).collect();
    writeln!(text, "failed: {failed:?}; done for bob: {}", done.load(Ordering::Relaxed))?;

    assert_eq!(everything.events().count() as u64, report.bus.accepted);
    // The prefix contained the state of 20 jobs, and the bus has delivered the changes since then.
    let picture: Board = late.events().map(|job| (job.number, job)).collect();
    assert_eq!(picture, *jobs.board.lock().unwrap_or_else(PoisonError::into_inner));
    writeln!(text, "the late watcher knows all {} jobs", picture.len())?;
    // It is not an error if the program that reads the output stops early, as in `| head -1`.
    match io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
