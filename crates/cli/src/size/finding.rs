//! The finding about one watcher in a run, which consists of how many events the watcher lost,
//! where and why the loss began, and the queue length that would have been enough.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::stats::DropReason;

use super::reader::{Account, Watcher};
use super::run::{Outcome, Published, percent};
use super::seeds::{Seeds, Spread};
use super::shadow::{Rush, Shadow, shadow};
use crate::support::number::grouped;

pub(crate) struct Finding {
    /// The number of events lost to a full queue, not including the events that were abandoned when
    /// the run ended.
    pub(crate) lost: u64,
    pub(crate) lost_percent: f64,
    /// The offered load divided by the handler's capacity. In other words, the time in seconds that
    /// the handler needs for the events that arrive in an average second. If the value is above 1,
    /// the handler cannot keep up.
    pub(crate) utilisation: f64,
    pub(crate) first: Option<FirstLoss>,
    pub(crate) enough: Enough,
    /// The lengths needed with several seeds, if the handler's time is random.
    pub(crate) spread: Option<Spread>,
}

pub(crate) struct FirstLoss {
    /// The time since the start of the run.
    pub(crate) after: Duration,
    /// The number of the event, counted from 1.
    pub(crate) event: u64,
    pub(crate) reason: DropReason,
    pub(crate) rush: Rush,
    pub(crate) why: String,
}

/// The queue length with which nothing would have been lost in this run, in events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Enough {
    /// No events were lost. Contains the largest number of events that the queue held.
    Held(u64),
    /// No events were lost, because the bus waited. Contains the length with which the bus would
    /// not have had to wait.
    Waited(u64),
    /// Events were lost. Contains the length computed from the handler's times.
    Computed(u64),
    /// The handler's times do not explain the loss. Contains the largest length that was needed at
    /// any time.
    AtLeast(u64),
    /// The handler is too slow, so a longer run would have needed a longer queue.
    Grows(u64),
}

impl Enough {
    pub(crate) fn events(self) -> u64 {
        match self {
            Self::Held(events)
            | Self::Waited(events)
            | Self::Computed(events)
            | Self::AtLeast(events)
            | Self::Grows(events) => events,
        }
    }

    /// Returns a machine-readable name for the basis of this length.
    pub(crate) fn basis(self) -> &'static str {
        match self {
            Self::Held(_) => "held",
            Self::Waited(_) => "waited",
            Self::Computed(_) => "computed",
            Self::AtLeast(_) => "atLeast",
            Self::Grows(_) => "grows",
        }
    }
}

impl Finding {
    /// Returns the findings about a run's watchers, in the same order as the watchers.
    pub(crate) fn all(outcome: &Outcome) -> Vec<Self> {
        let each = outcome.settings.watchers.iter().zip(&outcome.accounts);
        let seeds = outcome.settings.seeds;
        each.map(|(watcher, account)| Self::new(watcher, account, &outcome.published, seeds)).collect()
    }

    /// Returns the length that would have been enough with every seed, in events.
    pub(crate) fn queue(&self) -> u64 {
        self.enough.events().max(self.spread.map_or(0, |spread| spread.most))
    }

    /// Returns a machine-readable name for the basis of the length that `queue` returns.
    pub(crate) fn basis(&self) -> &'static str {
        if self.queue() > self.enough.events() { "seeds" } else { self.enough.basis() }
    }

    /// Returns whether the watcher lost nothing and would also not lose anything with any of the
    /// seeds.
    pub(crate) fn is_whole(&self, watcher: &Watcher) -> bool {
        let is_long_enough = |spread: Spread| spread.most <= watcher.queue as u64;
        let keeps_all = watcher.policy == OverflowPolicy::Wait;
        self.lost == 0 && (keeps_all || self.spread.is_none_or(is_long_enough))
    }

    fn new(watcher: &Watcher, account: &Account, published: &Published, seeds: Seeds) -> Self {
        let dropped = &account.stats.dropped;
        let lost = dropped.incoming + dropped.oldest + dropped.timed_out;
        let wanted = account.reported.first.map(|(number, _)| number);
        let time = |number| watcher.times.of(watcher.seed, number);
        let shadow = shadow(&published.times, time, wanted);
        let utilisation = utilisation(&shadow, published);
        let (queue, high_water) = (watcher.queue as u64, account.stats.high_water);
        // A gap counts the events that arrived while the queue was full and the handler was busy
        // with a single event.
        let needs = shadow.needs.max(queue + account.seen.longest.max(u64::from(lost > 0)));
        let is_explained = shadow.rush.is_some_and(|rush| explains(rush, queue));
        let enough = match lost {
            0 if high_water >= queue && watcher.policy == OverflowPolicy::Wait => Enough::Waited(needs),
            0 if utilisation > 1.0 && dropped.abandoned > 0 => Enough::Grows(high_water),
            0 => Enough::Held(high_water),
            _ if utilisation > 1.0 => Enough::Grows(needs),
            _ if is_explained => Enough::Computed(needs),
            _ => Enough::AtLeast(needs),
        };
        let first = account.reported.first.zip(shadow.rush).and_then(|((number, reason), rush)| {
            let at = published.times.get(number as usize)?.saturating_sub(published.begin);
            Some(FirstLoss {
                after: Duration::from_nanos(at),
                event: number + 1,
                reason,
                rush,
                why: why(watcher, account, rush),
            })
        });
        let lost_percent = percent(lost, account.stats.offered);
        let spread = match enough {
            // With every seed, no length is enough.
            Enough::Grows(_) => None,
            _ => Spread::of(watcher, &published.times, seeds),
        };
        Self { lost, lost_percent, utilisation, first, enough, spread }
    }
}

/// Returns the time in seconds that the handler needs for the events that arrive in an average
/// second.
fn utilisation(shadow: &Shadow, published: &Published) -> f64 {
    let each = shadow.work.as_secs_f64() / published.times.len().max(1) as f64;
    let accepted = published.accepted as f64 / (published.accepted + published.refused).max(1) as f64;
    each * published.long_run * accepted * published.rate() / published.asked_rate().max(1e-9)
}

/// Returns whether, according to the handler's times alone, more events had to wait than the queue
/// can hold.
fn explains(rush: Rush, queue: u64) -> bool {
    rush.events - rush.handled > queue
}

/// Returns the cause of the loss, such as
/// `300 events came within 0.3 ms, the handler has time for 1 of them and the queue holds 200`.
fn why(watcher: &Watcher, account: &Account, rush: Rush) -> String {
    let queue = watcher.queue as u64;
    if explains(rush, queue) {
        return format!(
            "{} events came within {}, the handler has time for {} of them and the queue holds {}",
            grouped(rush.events),
            millis(rush.within),
            grouped(rush.handled),
            grouped(queue)
        );
    }
    format!(
        "by the handler's times at most {} would have waited then, and the queue holds {}; but the handler \
         or the bus was late, by up to {} in this run: the machine was busy, or the bus waited for another \
         watcher",
        grouped(rush.events - rush.handled),
        grouped(queue),
        millis(Duration::from_nanos(account.seen.late.max()))
    )
}

/// Formats a time in milliseconds, for example as `0.31 ms` or `1,234 ms`. Longer times have fewer
/// decimals.
pub(crate) fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    match millis {
        ..0.1 => format!("{millis:.3} ms"),
        ..1.0 => format!("{millis:.2} ms"),
        ..100.0 => format!("{millis:.1} ms"),
        _ => format!("{} ms", grouped(millis.round() as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::reader::{Account, Reported, Seen, Watcher, histogram};
    use super::super::run::Published;
    use super::super::seeds::Seeds;
    use super::super::times::Times;
    use super::{Enough, Finding, millis};
    use eventcast::OverflowPolicy;
    use eventcast::stats::{DropReason, WatcherStats};
    use std::time::Duration;

    const ONE: Seeds = Seeds { first: 1, count: 1 };
    const MS: Duration = Duration::from_millis(1);

    fn watcher(queue: usize, policy: OverflowPolicy) -> Watcher {
        Watcher { name: "w".to_owned(), group: 0, queue, policy, times: Times::Fixed(MS), seed: 1 }
    }

    /// Returns the publisher's counts for a run of two seconds with a hundred simultaneous events
    /// in each second.
    fn published() -> Published {
        let times = (0..200).map(|n| 5 + n / 100 * 1_000_000_000).collect();
        let (planned, took, late) = (MS * 2000, MS * 2000, histogram());
        Published {
            begin: 5,
            long_run: 100.0,
            asked: 200,
            accepted: 200,
            refused: 0,
            refused_in_a_row: 0,
            planned,
            took,
            late,
            times,
        }
    }

    fn account(lost: u64, first: Option<u64>, high_water: u64) -> Account {
        let mut stats = WatcherStats::default();
        (stats.offered, stats.dropped.incoming, stats.high_water) = (200, lost, high_water);
        let reported = Reported { lost, first: first.map(|number| (number, DropReason::Incoming)) };
        Account { ended: true, stats, seen: Seen::new(), reported }
    }

    #[test]
    fn a_loss_has_its_place_and_its_cause() {
        let finding = Finding::new(
            &watcher(60, OverflowPolicy::DropIncoming),
            &account(40, Some(160), 60),
            &published(),
            ONE,
        );
        assert_eq!((finding.lost, finding.enough), (40, Enough::Computed(100)));
        assert!((finding.utilisation - 0.1).abs() < 1e-9 && (finding.lost_percent - 20.0).abs() < 1e-9);
        let first = finding.first.unwrap();
        assert_eq!((first.after, first.event, first.reason), (MS * 1000, 161, DropReason::Incoming));
        let why =
            "100 events came within 0.000 ms, the handler has time for 0 of them and the queue holds 60";
        assert_eq!(first.why, why);
    }

    #[test]
    fn a_loss_that_the_times_do_not_explain_is_put_down_to_the_machine() {
        let mut account = account(1, Some(199), 120);
        account.seen.late.record(30_000_000).unwrap();
        let finding = Finding::new(&watcher(120, OverflowPolicy::DropIncoming), &account, &published(), ONE);
        let why = finding.first.unwrap().why;
        assert!(
            why.starts_with(
                "by the handler's times at most 100 would have waited then, and the queue holds 120"
            ),
            "{why}"
        );
        assert!(why.contains("by up to 30.0 ms"), "{why}");
        assert_eq!(finding.enough, Enough::AtLeast(121));
        account.seen.longest = 30;
        let finding = Finding::new(&watcher(120, OverflowPolicy::DropIncoming), &account, &published(), ONE);
        assert_eq!(finding.enough, Enough::AtLeast(150));
    }

    #[test]
    fn without_a_loss_the_fullest_is_enough() {
        let find = |queue, policy, high| {
            Finding::new(&watcher(queue, policy), &account(0, None, high), &published(), ONE)
        };
        assert_eq!(find(120, OverflowPolicy::DropIncoming, 101).enough, Enough::Held(101));
        assert_eq!(find(120, OverflowPolicy::Wait, 101).enough, Enough::Held(101));
        assert_eq!(find(60, OverflowPolicy::Wait, 60).enough, Enough::Waited(100));
        assert!(find(60, OverflowPolicy::Wait, 60).first.is_none());
    }

    #[test]
    fn too_slow_a_handler_outgrows_every_queue() {
        let slow = Watcher { times: Times::Fixed(MS * 15), ..watcher(60, OverflowPolicy::DropIncoming) };
        let finding = Finding::new(&slow, &account(40, Some(60), 60), &published(), ONE);
        assert_eq!(finding.enough, Enough::Grows(134));
        assert!((finding.utilisation - 1.5).abs() < 1e-9);
        let mut gave_up = account(0, None, 60);
        gave_up.stats.dropped.abandoned = 140;
        assert_eq!(Finding::new(&slow, &gave_up, &published(), ONE).enough, Enough::Grows(60));
    }

    #[test]
    fn times_are_readable() {
        let shown =
            [0, 12, 123, 1234, 12_345, 123_456, 1_234_567].map(|us| millis(Duration::from_micros(us)));
        assert_eq!(shown, ["0.000 ms", "0.012 ms", "0.12 ms", "1.2 ms", "12.3 ms", "123 ms", "1,235 ms"]);
    }
}
