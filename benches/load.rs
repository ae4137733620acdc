//! One round of any contender: what is published and how fast, and what is made of what arrives.
//!
//! A contender is a function over any [`Load`]. So the programs and benchmarks here run the same code of it, whether
//! they want to know how much goes through ([`Flood`]) or how long it takes ([`Timed`](crate::timed::Timed)).

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// 64 bytes: the event's number, its publisher, and what fills them up. Plain words, because one rival takes nothing else.
pub type Payload = [u64; 8];

/// The queue length of every contender.
pub const QUEUE: usize = 1000;
/// The power of two next to it, for those who must have one.
pub const QUEUE_POWER: usize = 1024;

/// The event of this number and publisher.
#[must_use]
pub fn payload(number: u64, publisher: usize) -> Payload {
    [number, publisher as u64, number, number, number, number, number, number]
}

/// What a reader makes of an event.
pub trait See: Send + 'static {
    /// An event has come.
    fn see(&mut self, payload: &Payload);
}

/// What goes through a contender.
pub trait Load: Sync {
    /// What each reader keeps of it.
    type Seen: See;

    /// How many threads publish.
    fn publishers(&self) -> usize;

    /// How many read everything.
    fn watchers(&self) -> usize;

    /// How many events each publisher publishes.
    fn each(&self) -> u64;

    /// What a reader begins with.
    fn seen(&self) -> Self::Seen;

    /// Publishes all that this publisher has to, by the contender's own way to send.
    fn publish(&self, publisher: usize, send: impl FnMut(Payload));

    /// How many events all publish together.
    fn total(&self) -> u64 {
        self.each() * self.publishers() as u64
    }
}

/// One way to do it.
#[derive(Debug)]
pub struct Contender<L: Load> {
    /// What it is called.
    pub name: &'static str,
    /// What it does when a reader is slow, and how it waits.
    pub manner: &'static str,
    /// Whether it can take this load at all.
    pub can: fn(&L) -> bool,
    /// One round.
    pub round: fn(&L) -> Arrived<L::Seen>,
}

/// What a round gave.
#[derive(Debug)]
pub struct Arrived<S> {
    /// From the moment when all threads are there to the end of the last.
    pub elapsed: Duration,
    /// What each reader has seen.
    pub seen: Vec<S>,
}

/// As much as goes through, each event checked where it arrives.
#[derive(Clone, Copy, Debug)]
pub struct Flood {
    /// How many threads publish.
    pub publishers: usize,
    /// How many read everything.
    pub watchers: usize,
    /// How many events each publisher publishes.
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

/// A reader's view: per publisher, the number that must come next.
#[derive(Debug)]
pub struct Check {
    next: Vec<u64>,
    delivered: u64,
    lost: u64,
}

impl Check {
    /// Of a stream that has not begun.
    #[must_use]
    pub fn new(publishers: usize) -> Self {
        Self { next: vec![0; publishers], delivered: 0, lost: 0 }
    }

    /// The stream has ended, each publisher having published so many: how many came, and how many did not. What is
    /// missing at the end is lost too.
    #[must_use]
    pub fn finish(mut self, each: u64) -> (u64, u64) {
        self.lost += self.next.iter().map(|next| each - next).sum::<u64>();
        assert_eq!(self.delivered + self.lost, each * self.next.len() as u64, "the accounting is off");
        (self.delivered, self.lost)
    }
}

impl See for Check {
    /// What is missing before it is lost; what came before must not come again.
    fn see(&mut self, payload: &Payload) {
        let [number, publisher, ..] = *payload;
        let next = &mut self.next[publisher as usize];
        assert!(number >= *next, "event {number} of publisher {publisher} came after {next}");
        self.lost += number - *next;
        *next = number + 1;
        self.delivered += 1;
    }
}

/// What became of the events of a round.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// From the first event to the end of the last reader.
    pub elapsed: Duration,
    /// How many came, all readers together.
    pub delivered: u64,
    /// How many did not.
    pub lost: u64,
}

impl Arrived<Check> {
    /// The sums, checked.
    #[must_use]
    pub fn outcome(self, flood: &Flood) -> Outcome {
        let mut outcome = Outcome { elapsed: self.elapsed, ..Outcome::default() };
        for check in self.seen {
            let (delivered, lost) = check.finish(flood.each);
            outcome.delivered += delivered;
            outcome.lost += lost;
        }
        outcome
    }

    /// How long it took, if nothing was lost.
    #[must_use]
    pub fn lossless(self, flood: &Flood) -> Duration {
        let outcome = self.outcome(flood);
        assert_eq!(outcome.lost, 0, "events were lost");
        outcome.elapsed
    }
}

/// Runs the readers and the publishers, each on a thread of its own, from the moment when all are there to the end of the
/// last. `finish` ends the stream when the publishers are through.
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
                    publisher(id);
                })
            })
            .collect();
        barrier.wait();
        let start = Instant::now();
        for publisher in publishers {
            publisher.join().expect("a publisher panicked");
        }
        finish();
        let seen = readers.into_iter().map(|reader| reader.join().expect("a reader panicked")).collect();
        Arrived { elapsed: start.elapsed(), seen }
    })
}
