//! What is measured: a case, a contender, and one round of it, in which everything that arrives is checked.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// 64 bytes: the event's number, its publisher, and what fills them up. Plain words, because one rival takes nothing else.
pub(crate) type Payload = [u64; 8];

/// The queue length of every contender, or the power of two next to it where it must be one.
pub(crate) const QUEUE: usize = 1000;
pub(crate) const QUEUE_POWER: usize = 1024;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) publishers: usize,
    pub(crate) watchers: usize,
}

pub(crate) const CASES: &[Case] = &[
    Case { name: "1 to 1", publishers: 1, watchers: 1 },
    Case { name: "1 to 4", publishers: 1, watchers: 4 },
    Case { name: "1 to 16", publishers: 1, watchers: 16 },
    Case { name: "4 to 4", publishers: 4, watchers: 4 },
];

/// One way to do it.
#[derive(Clone, Copy)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    /// What it does when a reader is slow, and how it waits.
    pub(crate) manner: &'static str,
    pub(crate) can: fn(&Case) -> bool,
    pub(crate) round: fn(&Case, u64) -> Outcome,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) elapsed: Duration,
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
}

/// A reader's view: per publisher, the number that must come next.
#[derive(Debug)]
pub(crate) struct Check {
    next: Vec<u64>,
    delivered: u64,
    lost: u64,
}

impl Check {
    pub(crate) fn new(publishers: usize) -> Self {
        Self { next: vec![0; publishers], delivered: 0, lost: 0 }
    }

    /// An event has come. What is missing before it is lost; what came before must not come again.
    pub(crate) fn see(&mut self, payload: &Payload) {
        let [number, publisher, ..] = *payload;
        let next = &mut self.next[publisher as usize];
        assert!(number >= *next, "event {number} of publisher {publisher} came after {next}");
        self.lost += number - *next;
        *next = number + 1;
        self.delivered += 1;
    }

    /// The stream has ended, each publisher having published so many. What is missing at the end is lost too.
    pub(crate) fn finish(mut self, each: u64) -> (u64, u64) {
        self.lost += self.next.iter().map(|next| each - next).sum::<u64>();
        (self.delivered, self.lost)
    }
}

pub(crate) fn payload(number: u64, publisher: usize) -> Payload {
    [number, publisher as u64, number, number, number, number, number, number]
}

/// Runs the readers and the publishers, each on a thread of its own, from the moment when all are there to the end of the
/// last. `each` is what each publisher publishes; `finish` ends the stream when they are through.
pub(crate) fn run<P, R>(
    case: &Case,
    each: u64,
    publishers: Vec<P>,
    readers: Vec<R>,
    finish: impl FnOnce(),
) -> Outcome
where
    P: FnOnce(usize) + Send,
    R: FnOnce(Check) -> Check + Send,
{
    assert_eq!((publishers.len(), readers.len()), (case.publishers, case.watchers));
    let barrier = &Barrier::new(publishers.len() + readers.len() + 1);
    thread::scope(|scope| {
        let readers: Vec<_> = readers
            .into_iter()
            .map(|reader| {
                scope.spawn(move || {
                    barrier.wait();
                    reader(Check::new(case.publishers))
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
        let mut outcome = Outcome::default();
        for reader in readers {
            let (delivered, lost) = reader.join().expect("a reader panicked").finish(each);
            assert_eq!(delivered + lost, each * case.publishers as u64);
            outcome.delivered += delivered;
            outcome.lost += lost;
        }
        outcome.elapsed = start.elapsed();
        outcome
    })
}
