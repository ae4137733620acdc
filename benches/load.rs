//! Runs one round of any contender. A load determines which events are published and when, and how
//! a reader handles them.
//!
//! A contender is a function that accepts any [`Load`]. All programs and benchmarks therefore run
//! the same code for a contender, whether they measure throughput ([`Flood`]) or latency
//! ([`Timed`](crate::timed::Timed)).

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;

use crate::threads::Switches;

/// An event of 64 bytes, which consists of its number, its publisher and padding. An event is an
/// array of plain integers, because one rival does not accept any other type.
pub type Payload = [u64; 8];

/// The queue length of every contender, in events.
pub const QUEUE: usize = 1000;
/// The next power of two, for contenders whose queue length must be a power of two.
pub const QUEUE_POWER: usize = 1024;

/// Returns the event with the given number from the given publisher.
#[must_use]
pub fn payload(number: u64, publisher: usize) -> Payload {
    [number, publisher as u64, number, number, number, number, number, number]
}

/// Inspects the events that a reader receives.
pub trait See: Send + 'static {
    /// Inspects an event that has arrived.
    fn see(&mut self, payload: &Payload);
}

/// The events that are sent through a contender.
pub trait Load: Sync {
    /// The state that each reader uses to inspect the events.
    type Seen: See;

    /// Returns the number of publishing threads.
    fn publishers(&self) -> usize;

    /// Returns the number of watchers, each of which reads all events.
    fn watchers(&self) -> usize;

    /// Returns the number of events that each publisher publishes.
    fn each(&self) -> u64;

    /// Returns the initial state of a reader.
    fn seen(&self) -> Self::Seen;

    /// Publishes all of the given publisher's events. `send` sends an event through the contender.
    fn publish(&self, publisher: usize, send: impl FnMut(Payload));

    /// Returns the total number of events from all publishers.
    fn total(&self) -> u64 {
        self.each() * self.publishers() as u64
    }
}

/// One way to deliver events from publishers to readers.
#[derive(Debug)]
pub struct Contender<L: Load> {
    /// The contender's name in the tables.
    pub name: &'static str,
    /// How the contender behaves when a reader is slow, and how it waits.
    pub manner: &'static str,
    /// The function that returns whether the contender supports a load.
    pub can: fn(&L) -> bool,
    /// The function that runs one round.
    pub round: fn(&L) -> Arrived<L::Seen>,
}

/// The result of a round.
#[derive(Debug)]
pub struct Arrived<S> {
    /// The time from when all threads have started until the last thread ends.
    pub elapsed: Duration,
    /// The CPU time of the publishing threads. `None` if the publishers do not run on their own
    /// threads.
    pub publishing: Option<Duration>,
    /// The switches of the publishing threads. `None` if the publishers do not run on their own
    /// threads, or if the system does not report them.
    pub switches: Option<Switches>,
    /// The final state of each reader.
    pub seen: Vec<S>,
}

/// A load that publishes events as fast as possible. Each event is checked when it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// The number of publishing threads.
    pub publishers: usize,
    /// The number of watchers, each of which reads all events.
    pub watchers: usize,
    /// The number of events that each publisher publishes.
    pub each: u64,
}

impl Load for Flood {
    type Seen = Check;

    fn publishers(&self) -> usize {
        self.publishers
    }

    fn watchers(&self) -> usize {
        self.watchers
    }

    fn each(&self) -> u64 {
        self.each
    }

    fn seen(&self) -> Check {
        Check::new(self.publishers)
    }

    fn publish(&self, publisher: usize, mut send: impl FnMut(Payload)) {
        for number in 0..self.each {
            send(payload(number, publisher));
        }
    }
}

/// A reader's view of the stream, with the next expected number for each publisher.
#[derive(Debug)]
pub struct Check {
    next: Vec<u64>,
    delivered: u64,
    lost: u64,
}

impl Check {
    /// Creates the view of a stream that has not begun yet.
    #[must_use]
    pub fn new(publishers: usize) -> Self {
        Self { next: vec![0; publishers], delivered: 0, lost: 0 }
    }

    /// Completes the check of a stream in which each publisher has published `each` events. Returns
    /// the number of events that arrived and the number of events that were lost, including events
    /// that are missing at the end.
    #[must_use]
    pub fn finish(mut self, each: u64) -> (u64, u64) {
        self.lost += self.next.iter().map(|next| each - next).sum::<u64>();
        assert_eq!(self.delivered + self.lost, each * self.next.len() as u64, "the accounting is off");
        (self.delivered, self.lost)
    }
}

impl See for Check {
    /// Counts the events that are missing before the given event as lost. Panics if an event
    /// arrives twice or out of order.
    fn see(&mut self, payload: &Payload) {
        let [number, publisher, ..] = *payload;
        let next = &mut self.next[publisher as usize];
        assert!(number >= *next, "event {number} of publisher {publisher} came after {next}");
        self.lost += number - *next;
        *next = number + 1;
        self.delivered += 1;
    }
}

/// The totals of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The time from the first event until the last reader ends.
    pub elapsed: Duration,
    /// The CPU time of the publishing threads. `None` if the publishers do not run on their own
    /// threads.
    pub publishing: Option<Duration>,
    /// The switches of the publishing threads. `None` if they are not known.
    pub switches: Option<Switches>,
    /// The number of events that arrived, summed over all readers.
    pub delivered: u64,
    /// The number of events that did not arrive.
    pub lost: u64,
}

impl Arrived<Check> {
    /// Checks the results of all readers and returns the totals.
    #[must_use]
    pub fn outcome(self, flood: &Flood) -> Outcome {
        let Self { elapsed, publishing, switches, .. } = self;
        let mut outcome = Outcome { elapsed, publishing, switches, ..Outcome::default() };
        for check in self.seen {
            let (delivered, lost) = check.finish(flood.each);
            outcome.delivered += delivered;
            outcome.lost += lost;
        }
        outcome
    }

    /// Returns how long the round took. Panics if an event was lost.
    #[must_use]
    pub fn lossless(self, flood: &Flood) -> Duration {
        let outcome = self.outcome(flood);
        assert_eq!(outcome.lost, 0, "events were lost");
        outcome.elapsed
    }
}

/// Runs the readers and the publishers, each on its own thread, and measures the time from when all
/// threads have started until the last thread ends. `finish` ends the stream once the publishers
/// have finished.
pub fn run<L, P, R>(load: &L, publishers: Vec<P>, readers: Vec<R>, finish: impl FnOnce()) -> Arrived<L::Seen>
where
    L: Load,
    P: FnOnce(usize) + Send,
    R: FnOnce(L::Seen) -> L::Seen + Send,
{
    assert_eq!((publishers.len(), readers.len()), (load.publishers(), load.watchers()));
    let barrier = &Barrier::new(publishers.len() + readers.len() + 1);
    thread::scope(|scope| {
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| {
                scope.spawn(move || {
                    let seen = load.seen();
                    barrier.wait();
                    reader(seen)
                })
            })
            .collect();
        let publishers: Vec<_> = publishers
            .into_iter()
            .enumerate()
            .map(|(id, publisher)| {
                scope.spawn(move || {
                    barrier.wait();
                    let (before, switches) = (ThreadTime::now(), Switches::of_this_thread());
                    publisher(id);
                    (before.elapsed(), Switches::of_this_thread().zip(switches))
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        let (mut publishing, mut switches) = (Duration::ZERO, Some(Switches::default()));
        for publisher in publishers {
            let (time, change) = publisher.join().expect("a publisher panicked");
            publishing += time;
            switches = switches.zip(change).map(|(sum, (now, before))| sum + now.since(before));
        }
        finish();
        let seen = readers.into_iter().map(|reader| reader.join().expect("a reader panicked")).collect();
        Arrived { elapsed: start.elapsed(), publishing: Some(publishing), switches, seen }
    })
}
