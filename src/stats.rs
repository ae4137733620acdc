//! Counters as values: what a bus and its watchers have done so far.
//!
//! Each counter is written by one thread and read one by one, so a snapshot of a running bus need not add up. Whenever
//! the bus is quiet (after a flush or a shutdown, with nobody publishing or receiving) these hold exactly:
//!
//! * events given to `publish*` = `accepted` + `rejected_full` + `rejected_stopped`;
//! * for each watcher, `offered` = `delivered` + the sum of `dropped` + `queued`.
//!
//! While it runs, `delivered` + `dropped` never exceeds `offered`.

use std::fmt;

use crate::escape::escaped;
use crate::policy::OverflowPolicy;

/// Why a watcher did not get an event that it was offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DropReason {
    /// Its queue was full, and its policy gives up the incoming event.
    Incoming,
    /// Its queue was full, and its policy gives up the oldest one.
    Oldest,
    /// Its queue stayed full for as long as its policy waits.
    TimedOut,
    /// The watcher was stopped or dropped.
    Stopped,
    /// The bus was shut down by a deadline.
    Abandoned,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incoming => "incoming",
            Self::Oldest => "oldest",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
        })
    }
}

/// Events that a watcher was offered and did not get, by [reason](DropReason).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct DropCounts {
    /// See [`DropReason::Incoming`].
    pub incoming: u64,
    /// See [`DropReason::Oldest`].
    pub oldest: u64,
    /// See [`DropReason::TimedOut`].
    pub timed_out: u64,
    /// See [`DropReason::Stopped`].
    pub stopped: u64,
    /// See [`DropReason::Abandoned`].
    pub abandoned: u64,
}

impl DropCounts {
    /// All reasons together.
    pub fn total(&self) -> u64 {
        self.incoming + self.oldest + self.timed_out + self.stopped + self.abandoned
    }

    /// The count for one reason.
    pub fn by(&self, reason: DropReason) -> u64 {
        match reason {
            DropReason::Incoming => self.incoming,
            DropReason::Oldest => self.oldest,
            DropReason::TimedOut => self.timed_out,
            DropReason::Stopped => self.stopped,
            DropReason::Abandoned => self.abandoned,
        }
    }

    fn add(&mut self, other: &Self) {
        self.incoming += other.incoming;
        self.oldest += other.oldest;
        self.timed_out += other.timed_out;
        self.stopped += other.stopped;
        self.abandoned += other.abandoned;
    }
}

/// What has become of the events offered to one watcher, in events.
///
/// Events of a prefix are not counted here: they do not come through the bus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct WatcherStats {
    /// The watcher's name.
    pub name: String,
    /// What happens when its queue is full. In a sum over several watchers it means nothing, and is the default.
    pub policy: OverflowPolicy,
    /// Accepted events that passed the watcher's filter.
    pub offered: u64,
    /// Given to the receiver. A batch or a reference in hand counts as queued until the next receive begins.
    pub delivered: u64,
    /// Lost, by reason.
    pub dropped: DropCounts,
    /// Refused by the watcher's filter, so not offered.
    pub filtered: u64,
    /// In the queue now, or in the reader's hand.
    pub queued: u64,
    /// How far the watcher is behind: offered, and neither delivered nor lost yet. That is what is `queued`, and what the
    /// dispatcher holds until there is room, of a watcher that is waited for: up to `max_batch` more.
    ///
    /// It is `offered` less `delivered` and `dropped`, which are read one by one, `offered` last. So it equals `queued`
    /// whenever the bus is quiet, and while it runs is never less than the true lag at the moment of that last read.
    pub lag: u64,
    /// The most that the queue ever held.
    pub high_water: u64,
    /// Panics that were caught while something was done for this watcher: of its filter, hook or handler, or of an
    /// event's `Clone`.
    pub panics: u64,
}

impl WatcherStats {
    /// Whether the name is the default one: `watcher-` and a number. Who gives that name himself counts as having none.
    pub(crate) fn is_unnamed(&self) -> bool {
        let number = self.name.strip_prefix("watcher-");
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    }

    /// Adds another watcher's figures, for a total. The high-water mark becomes the larger of the two.
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.dropped.add(&other.dropped);
        self.filtered += other.filtered;
        self.queued += other.queued;
        self.lag += other.lag;
        self.high_water = self.high_water.max(other.high_water);
        self.panics += other.panics;
    }
}

#[cfg(feature = "metrics")]
impl WatcherStats {
    /// Takes a part out of a total, except for the high-water mark.
    pub(crate) fn subtract(&mut self, part: &Self) {
        for (sum, count) in [
            (&mut self.offered, part.offered),
            (&mut self.delivered, part.delivered),
            (&mut self.filtered, part.filtered),
            (&mut self.queued, part.queued),
            (&mut self.lag, part.lag),
            (&mut self.panics, part.panics),
            (&mut self.dropped.incoming, part.dropped.incoming),
            (&mut self.dropped.oldest, part.dropped.oldest),
            (&mut self.dropped.timed_out, part.dropped.timed_out),
            (&mut self.dropped.stopped, part.dropped.stopped),
            (&mut self.dropped.abandoned, part.dropped.abandoned),
        ] {
            *sum = sum.saturating_sub(count);
        }
    }
}

impl WatcherStats {
    /// The figures without the policy, which a sum does not have.
    fn write_figures(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, delivered, queued, lag, .. } = self;
        let dropped = self.dropped.total();
        write!(f, "offered {offered}, delivered {delivered}, dropped {dropped}, queued {queued}, lag {lag}")?;
        for (name, count) in [("filtered", self.filtered), ("panics", self.panics)] {
            if count > 0 {
                write!(f, ", {name} {count}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for WatcherStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): ", escaped(&self.name), self.policy)?;
        self.write_figures(f)
    }
}

/// What a bus has done so far, in events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct BusStats {
    /// Taken from the incoming queue for distribution; equal to what publishers were told was accepted when the bus is
    /// quiet, and behind it by what the queue holds while it runs.
    pub accepted: u64,
    /// Handed back to a publisher because the incoming queue was full.
    pub rejected_full: u64,
    /// Handed back because the bus was closed.
    pub rejected_stopped: u64,
    /// One entry for each watcher that is registered now, in the order of registration. Handlers that have come to their
    /// end with the bus stay listed.
    pub watchers: Vec<WatcherStats>,
    /// The sum over all other watchers that have gone. Its `policy` means nothing.
    pub departed: WatcherStats,
    /// Of these, one sum for each name that was given to a watcher, in the order of the names: for the first 256 names that
    /// went. Watchers without a name of their own are in `departed` alone.
    pub departed_by_name: Vec<WatcherStats>,
}

impl BusStats {
    /// All that was given to `publish*`. Counts of refused events, and this sum, end at the highest
    /// number, which events of no size can reach.
    pub fn published(&self) -> u64 {
        self.accepted.saturating_add(self.rejected_full).saturating_add(self.rejected_stopped)
    }
}

impl fmt::Display for BusStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "published {}, accepted {}, rejected {} (full {}, stopped {})",
            self.published(),
            self.accepted,
            self.rejected_full.saturating_add(self.rejected_stopped),
            self.rejected_full,
            self.rejected_stopped
        )?;
        for watcher in &self.watchers {
            write!(f, "; {watcher}")?;
        }
        if self.departed.offered > 0 {
            write!(f, "; {}: ", escaped(&self.departed.name))?;
            self.departed.write_figures(f)?;
        }
        Ok(())
    }
}
