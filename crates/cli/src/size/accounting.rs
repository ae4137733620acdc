//! Checks that the counts of the publisher, the bus and the watchers add up.

use super::reader::Account;
use super::run::Outcome;
use crate::support::text::plain;

/// Returns a description for each count that does not add up.
pub(crate) fn faults(outcome: &Outcome) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |who: &str, what: &str, left: u64, right: u64| {
        if left != right {
            faults.push(format!("{}: {what}: {left} is not {right}", plain(who)));
        }
    };
    let (published, bus) = (&outcome.published, &outcome.bus);
    check("publisher", "accepted", published.accepted, bus.accepted);
    check("publisher", "refused", published.refused, bus.rejected_full + bus.rejected_closed);
    for (watcher, Account { ended, stats, seen, reported }) in
        outcome.settings.watchers.iter().zip(&outcome.accounts)
    {
        let (name, dropped) = (watcher.name.as_str(), &stats.dropped);
        check(name, "still running", u64::from(!ended), 0);
        check(name, "offered = accepted", stats.offered, published.accepted);
        let parts = stats.delivered + dropped.total() + stats.queued;
        check(name, "offered = delivered + dropped + queued", stats.offered, parts);
        check(name, "received = delivered", seen.events, stats.delivered);
        check(name, "events out of place by the gaps", seen.misplaced, 0);
        let for_room = dropped.incoming + dropped.oldest + dropped.timed_out;
        check(name, "losses that the hook received = dropped", reported.lost, for_room);
        // A handler that stops early does not receive the gap after its last event. A handler stops
        // early if its watcher is stopped, or if the shutdown does not complete in time, even if
        // its queue is empty.
        let gave_up = !outcome.complete || dropped.stopped + dropped.abandoned > 0;
        let in_gaps = if gave_up { seen.lost.max(dropped.total()) } else { seen.lost };
        check(name, "lost in gaps = dropped", in_gaps, dropped.total());
    }
    faults
}

/// Returns the publisher's counts and the totals over all watchers as one line, such as
/// `published 18,000 = accepted 18,000 + refused 0; offered 72,000 = ..`.
pub(crate) fn sums(outcome: &Outcome) -> String {
    use crate::support::number::grouped;

    let (published, bus) = (&outcome.published, &outcome.bus);
    let sum = |count: fn(&Account) -> u64| grouped(outcome.accounts.iter().map(count).sum());
    format!(
        "published {} = accepted {} + refused {}; offered {} = delivered {} + dropped {} + queued {}, in all and of each",
        grouped(bus.published()),
        grouped(published.accepted),
        grouped(published.refused),
        sum(|account| account.stats.offered),
        sum(|account| account.stats.delivered),
        sum(|account| account.stats.dropped.total()),
        sum(|account| account.stats.queued),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::load::Load;
    use super::super::reader::{Account, Reported, Seen, Watcher, histogram};
    use super::super::run::{Outcome, Published, Settings};
    use super::super::seeds::Seeds;
    use super::super::times::Times;
    use super::{faults, sums};
    use eventcast::OverflowPolicy;
    use eventcast::stats::{BusStats, DropReason, WatcherStats};
    use std::time::Duration;

    /// Returns the outcome of a run with one watcher that lost 6 of 10 events.
    pub(in super::super) fn outcome() -> Outcome {
        let time = Duration::from_secs(1);
        let watcher = Watcher {
            name: "w\u{1b}".to_owned(),
            group: 0,
            queue: 3,
            policy: OverflowPolicy::DropIncoming,
            times: Times::Fixed(time),
            seed: 1,
        };
        let mut bus = BusStats::default();
        (bus.accepted, bus.rejected_full) = (10, 3);
        let mut stats = WatcherStats::default();
        (stats.offered, stats.delivered, stats.dropped.incoming) = (10, 4, 6);
        let seen = Seen { events: 4, lost: 6, gaps: 1, longest: 6, next: 10, ..Seen::new() };
        let reported = Reported { lost: 6, first: Some((4, DropReason::Incoming)) };
        let load = Load { rate: 13, burst: 0, every: time };
        Outcome {
            settings: Settings {
                load,
                watchers: vec![watcher],
                length: time,
                grace: time,
                incoming: 1,
                seeds: Seeds { first: 1, count: 1 },
            },
            interrupted: false,
            complete: true,
            published: Published {
                begin: 0,
                long_run: 13.0,
                asked: 13,
                accepted: 10,
                refused: 3,
                refused_in_a_row: 2,
                planned: time,
                took: time,
                late: histogram(),
                times: vec![0; 10],
            },
            bus,
            accounts: vec![Account { ended: true, stats, seen, reported }],
        }
    }

    #[test]
    fn it_adds_up() {
        assert_eq!(faults(&outcome()), Vec::<String>::new());
        let expected =
            "published 13 = accepted 10 + refused 3; offered 10 = delivered 4 + dropped 6 + queued 0, ";
        assert!(sums(&outcome()).starts_with(expected), "{}", sums(&outcome()));
    }

    /// The run ends before the handler can receive the last gap.
    #[test]
    fn a_gap_that_no_reader_sees_at_the_end_adds_up() {
        let mut outcome = outcome();
        outcome.complete = false;
        outcome.accounts[0].seen = Seen { events: 4, next: 4, ..Seen::new() };
        assert_eq!(faults(&outcome), Vec::<String>::new());
    }

    #[test]
    fn what_does_not_add_up_is_reported() {
        type Change = fn(&mut Outcome);
        let cases: [(Change, &str); 11] = [
            (|o| o.published.accepted = 9, "publisher: accepted: 9 is not 10"),
            (|o| o.published.refused = 2, "publisher: refused: 2 is not 3"),
            (|o| o.accounts[0].ended = false, r"w\u{1b}: still running: 1 is not 0"),
            (|o| o.accounts[0].stats.offered = 11, "offered = accepted: 11 is not 10"),
            (|o| o.accounts[0].stats.queued = 1, "offered = delivered + dropped + queued: 10 is not 11"),
            (|o| o.accounts[0].seen.events = 3, "received = delivered: 3 is not 4"),
            (|o| o.accounts[0].seen.misplaced = 1, "events out of place by the gaps: 1 is not 0"),
            (|o| o.accounts[0].reported.lost = 5, "losses that the hook received = dropped: 5 is not 6"),
            (|o| o.accounts[0].seen.lost = 7, "lost in gaps = dropped: 7 is not 6"),
            (|o| o.accounts[0].seen.lost = 5, "lost in gaps = dropped: 5 is not 6"),
            (|o| (o.complete, o.accounts[0].seen.lost) = (false, 7), "lost in gaps = dropped: 7 is not 6"),
        ];
        for (change, part) in cases {
            let mut outcome = outcome();
            change(&mut outcome);
            let faults = faults(&outcome).join("\n");
            assert!(faults.contains(part), "{part}: {faults}");
        }
    }
}
