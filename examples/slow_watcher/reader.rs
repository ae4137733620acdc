//! A reader as a handler of the bus, and what it has seen.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::error::WatchError;
use eventcast::{Broadcaster, Delivery, OverflowPolicy, WatchHandle};

/// The number of gaps that a reader remembers at each end. The reader counts all gaps.
const REMEMBERED: usize = 2;

/// An event: a number, without a hole among those that a bus accepted, and the time of its publish.
#[derive(Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) number: u64,
    pub(crate) at: Instant,
}

/// The number of events in a gap, and the first one of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gap {
    pub(crate) first: u64,
    pub(crate) lost: u64,
}

/// The counts that a reader makes itself of what came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) events: u64,
    pub(crate) lost: u64,
    pub(crate) gaps: u64,
    pub(crate) largest: u64,
    first_gaps: Vec<Gap>,
    last_gaps: VecDeque<Gap>,
    /// The number that must come next.
    pub(crate) next: u64,
    /// The last event that came.
    pub(crate) newest: Option<u64>,
    /// The number of times that another event came than the expected one. It stays 0 unless a gap
    /// was not where the bus reported it.
    pub(crate) misplaced: u64,
    /// The longest time that an event was on its way.
    pub(crate) slowest: Duration,
}

impl Seen {
    pub(crate) fn take(&mut self, delivery: Delivery<&Sample>) {
        match delivery {
            Delivery::Event(sample) => {
                self.misplaced += u64::from(sample.number != self.next);
                self.next = sample.number + 1;
                self.newest = Some(sample.number);
                self.events += 1;
                self.slowest = self.slowest.max(sample.at.elapsed());
            }
            Delivery::Lagged(lost) => {
                let gap = Gap { first: self.next, lost };
                if self.first_gaps.len() < REMEMBERED {
                    self.first_gaps.push(gap);
                } else {
                    self.last_gaps.push_back(gap);
                    if self.last_gaps.len() > REMEMBERED {
                        self.last_gaps.pop_front();
                    }
                }
                self.gaps += 1;
                self.largest = self.largest.max(lost);
                self.lost += lost;
                self.next += lost;
            }
        }
    }

    /// Returns where the gaps were, without those in the middle: `64-118, 122, .., 3920-3995`.
    pub(crate) fn places(&self) -> String {
        let show = |gap: &Gap| match gap.lost {
            1 => gap.first.to_string(),
            lost => format!("{}-{}", gap.first, gap.first + lost - 1),
        };
        let mut places: Vec<String> = self.first_gaps.iter().map(show).collect();
        if self.gaps > (self.first_gaps.len() + self.last_gaps.len()) as u64 {
            places.push("..".to_owned());
        }
        places.extend(self.last_gaps.iter().map(show));
        places.join(", ")
    }
}

/// A handler that notes what it sees and takes its time over each event.
pub(crate) struct Reader {
    pub(crate) handle: WatchHandle,
    seen: Arc<Mutex<Seen>>,
}

impl Reader {
    pub(crate) fn start(
        bus: &Broadcaster<Sample>,
        name: &str,
        queue_len: usize,
        policy: OverflowPolicy,
        time: Duration,
    ) -> Result<Self, WatchError> {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let notes = seen.clone();
        let builder = bus.watch_builder().name(name).queue_len(queue_len).overflow(policy);
        let handle = builder.spawn(move |delivery| {
            lock(&notes).take(delivery);
            if matches!(delivery, Delivery::Event(_)) && !time.is_zero() {
                thread::sleep(time);
            }
        })?;
        Ok(Self { handle, seen })
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::{Sample, Seen};
    use eventcast::Delivery;
    use std::time::Instant;

    fn seen(deliveries: &[Delivery<u64>]) -> Seen {
        let mut seen = Seen::default();
        for delivery in deliveries {
            match delivery {
                Delivery::Event(number) => {
                    seen.take(Delivery::Event(&Sample { number: *number, at: Instant::now() }));
                }
                Delivery::Lagged(lost) => seen.take(Delivery::Lagged(*lost)),
            }
        }
        seen
    }

    #[test]
    fn gaps_are_placed() {
        use Delivery::{Event, Lagged};
        let seen = seen(&[Event(0), Lagged(1), Event(2), Lagged(7)]);
        assert_eq!((seen.events, seen.lost, seen.gaps, seen.largest), (2, 8, 2, 7));
        assert_eq!((seen.next, seen.newest, seen.misplaced), (10, Some(2), 0));
        assert_eq!(seen.places(), "1, 3-9");
    }

    #[test]
    fn of_many_gaps_those_in_the_middle_are_left_out() {
        let each: Vec<_> =
            (0..12).map(|n| if n % 2 == 0 { Delivery::Lagged(1) } else { Delivery::Event(n) }).collect();
        assert_eq!(seen(&each[..8]).places(), "0, 2, 4, 6");
        assert_eq!(seen(&each).places(), "0, 2, .., 8, 10");
    }

    #[test]
    fn a_gap_that_is_not_reported_shows() {
        assert_eq!(seen(&[Delivery::Event(0), Delivery::Event(2)]).misplaced, 1);
        assert_eq!(seen(&[Delivery::Lagged(2), Delivery::Event(1)]).misplaced, 1);
    }
}
