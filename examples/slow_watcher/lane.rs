//! One bus with one policy. It has a slow reader, a neighbour that keeps up, and an account of each
//! event.

use std::error::Error;
use std::thread;
use std::time::{Duration, Instant};

use eventcast::error::PublishError;
use eventcast::stats::{BusStats, DropCounts, WatcherStats};
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Publisher};

use super::reader::{Reader, Sample, Seen};

pub(crate) struct Lane {
    policy: OverflowPolicy,
    /// The time that the slow reader takes for an event.
    time: Duration,
    bus: Broadcaster<Sample>,
    publisher: Publisher<Sample>,
    accepted: u64,
    refused: u64,
    slow: Reader,
    neighbour: Reader,
}

impl Lane {
    pub(crate) fn start(
        policy: OverflowPolicy,
        queue_len: usize,
        time: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let bus = Broadcaster::with_options(BusOptions::default().incoming_len(queue_len))?;
        Ok(Self {
            policy,
            time,
            publisher: bus.publisher(),
            accepted: 0,
            refused: 0,
            slow: Reader::start(&bus, "slow", queue_len, policy, time)?,
            neighbour: Reader::start(&bus, "neighbour", 1000, OverflowPolicy::DropIncoming, Duration::ZERO)?,
            bus,
        })
    }

    /// Publishes one event without waiting. A refused event leaves no hole: the next one gets its
    /// number.
    pub(crate) fn publish(&mut self, at: Instant) -> Result<(), Box<dyn Error>> {
        match self.publisher.try_publish(Sample { number: self.accepted, at }) {
            Ok(()) => self.accepted += 1,
            Err(PublishError::Full(_)) => self.refused += 1,
            Err(error) => return Err(error.to_string().into()),
        }
        Ok(())
    }

    pub(crate) fn close(&self) {
        self.bus.close();
    }

    /// Lets the readers finish what was accepted, as far as the time allows, and in any case the
    /// event that they are handling.
    pub(crate) fn end(self, timeout: Duration) -> Outcome {
        let report = self.bus.shutdown_timeout(timeout);
        let account = |reader: &Reader| {
            // Long enough, whatever else the machine has to do meanwhile.
            let patience = self.time + Duration::from_secs(30);
            let ended = report.complete || reader.handle.join(patience);
            // The dispatcher counts the events that it gives up at the deadline, on its own thread.
            let until = Instant::now() + patience;
            let is_settled = |stats: &WatcherStats| stats.offered == self.accepted && stats.lag == 0;
            while !is_settled(&reader.handle.stats()) && Instant::now() < until {
                thread::sleep(Duration::from_millis(1));
            }
            Account { ended, stats: reader.handle.stats(), seen: reader.seen() }
        };
        Outcome {
            policy: self.policy,
            accepted: self.accepted,
            refused: self.refused,
            slow: account(&self.slow),
            neighbour: account(&self.neighbour),
            bus: self.bus.stats(),
        }
    }
}

/// An account of the events of one bus, as each party counted them.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) policy: OverflowPolicy,
    /// The counts of the publisher.
    pub(crate) accepted: u64,
    pub(crate) refused: u64,
    pub(crate) bus: BusStats,
    pub(crate) slow: Account,
    pub(crate) neighbour: Account,
}

/// The counts of the bus about a reader, and the reader's own counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account {
    /// Whether the reader has returned.
    pub(crate) ended: bool,
    pub(crate) stats: WatcherStats,
    pub(crate) seen: Seen,
}

impl Outcome {
    pub(crate) const HEAD: [&str; 9] = [
        "POLICY",
        "REFUSED",
        "OFFERED",
        "DELIVERED",
        "DROPPED",
        "GAPS",
        "LARGEST",
        "WHERE",
        "NEIGHBOUR'S LONGEST WAIT",
    ];

    pub(crate) fn row(&self) -> Vec<String> {
        let Account { stats, seen, .. } = &self.slow;
        vec![
            self.policy.to_string(),
            self.refused.to_string(),
            stats.offered.to_string(),
            stats.delivered.to_string(),
            stats.dropped.total().to_string(),
            seen.gaps.to_string(),
            seen.largest.to_string(),
            if seen.gaps == 0 { "-".to_owned() } else { seen.places() },
            format!("{:.1} ms", self.neighbour.seen.slowest.as_secs_f64() * 1000.0),
        ]
    }

    /// Returns a line of sums, such as
    /// `drop_oldest: published 900 = accepted 900 + refused 0; offered 900 = ..`.
    pub(crate) fn sums(&self) -> String {
        let stats = &self.slow.stats;
        format!(
            "{}: published {} = accepted {} + refused {}; offered {} = delivered {} + dropped {}{}; newest seen {}",
            self.policy,
            self.bus.published(),
            self.accepted,
            self.refused,
            stats.offered,
            stats.delivered,
            stats.dropped.total(),
            by_reason(&stats.dropped),
            self.slow.seen.newest.map_or("none".to_owned(), |number| number.to_string()),
        )
    }

    /// Returns what does not add up.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |who: &str, what: &str, left: u64, right: u64| {
            if left != right {
                faults.push(format!("{}: {who}: {what}: {left} is not {right}", self.policy));
            }
        };
        check("publisher", "accepted", self.accepted, self.bus.accepted);
        check("publisher", "refused", self.refused, self.bus.rejected_full + self.bus.rejected_stopped);
        for (who, Account { ended, stats, seen }) in [("slow", &self.slow), ("neighbour", &self.neighbour)] {
            check(who, "still running", u64::from(!ended), 0);
            check(who, "offered", stats.offered, self.accepted);
            check(
                who,
                "offered = delivered + dropped + queued",
                stats.offered,
                stats.delivered + stats.dropped.total() + stats.queued,
            );
            check(who, "received = delivered", seen.events, stats.delivered);
            check(who, "events out of place by the gaps", seen.misplaced, 0);
            // A reader that gives up at the end does not learn what is missing there.
            let DropCounts { stopped, abandoned, .. } = stats.dropped;
            if stopped + abandoned == 0 {
                check(who, "lost in gaps = dropped", seen.lost, stats.dropped.total());
            }
            let unseen = stats.dropped.total().saturating_sub(seen.lost);
            check(who, "last number", seen.next + unseen + stats.queued, stats.offered);
        }
        faults
    }
}

fn by_reason(dropped: &DropCounts) -> String {
    let counts = [
        ("incoming", dropped.incoming),
        ("oldest", dropped.oldest),
        ("timed out", dropped.timed_out),
        ("stopped", dropped.stopped),
        ("abandoned", dropped.abandoned),
    ];
    let parts: Vec<String> = counts
        .iter()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::{Account, Outcome, Sample, Seen};
    use eventcast::stats::{BusStats, WatcherStats};
    use eventcast::{Delivery, OverflowPolicy};
    use std::time::Instant;

    fn seen(lost: u64, numbers: std::ops::Range<u64>) -> Seen {
        let mut seen = Seen::default();
        if lost > 0 {
            seen.take(Delivery::Lagged(lost));
        }
        for number in numbers {
            seen.take(Delivery::Event(&Sample { number, at: Instant::now() }));
        }
        seen
    }

    fn outcome() -> Outcome {
        let mut bus = BusStats::default();
        (bus.accepted, bus.rejected_full) = (10, 3);
        let mut slow = WatcherStats::default();
        (slow.offered, slow.delivered, slow.dropped.oldest, slow.dropped.abandoned) = (10, 4, 5, 1);
        let mut neighbour = WatcherStats::default();
        (neighbour.offered, neighbour.delivered) = (10, 10);
        Outcome {
            policy: OverflowPolicy::DropOldest,
            accepted: 10,
            refused: 3,
            bus,
            slow: Account { ended: true, stats: slow, seen: seen(5, 5..9) },
            neighbour: Account { ended: true, stats: neighbour, seen: seen(0, 0..10) },
        }
    }

    #[test]
    fn it_adds_up() {
        assert_eq!(outcome().faults(), Vec::<String>::new());
        assert_eq!(
            outcome().sums(),
            "drop_oldest: published 13 = accepted 10 + refused 3; offered 10 = delivered 4 + dropped 6 (oldest 5, \
             abandoned 1); newest seen 8"
        );
    }

    #[test]
    fn what_does_not_add_up_is_reported() {
        type Change = fn(&mut Outcome);
        let cases: [(Change, &str); 8] = [
            (|o| o.accepted = 9, "publisher: accepted: 9 is not 10"),
            (|o| o.refused = 2, "publisher: refused: 2 is not 3"),
            (|o| o.slow.ended = false, "slow: still running: 1 is not 0"),
            (
                |o| o.slow.stats.dropped.oldest = 4,
                "slow: offered = delivered + dropped + queued: 10 is not 9",
            ),
            (|o| o.slow.seen.events = 3, "slow: received = delivered: 3 is not 4"),
            (|o| o.slow.seen = seen(6, 6..11), "slow: last number: 11 is not 10"),
            (|o| o.neighbour.seen = seen(1, 1..10), "neighbour: lost in gaps = dropped: 1 is not 0"),
            (|o| o.neighbour.seen = seen(0, 1..11), "neighbour: events out of place by the gaps: 1"),
        ];
        for (change, part) in cases {
            let mut outcome = outcome();
            change(&mut outcome);
            let faults = outcome.faults().join("\n");
            assert!(faults.contains(part), "{part}: {faults}");
        }
    }
}
