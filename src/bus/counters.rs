//! Snapshots of the counters of a bus and its watchers.
//!
//! A snapshot reads the counters one after another, so the counters of a running bus need not add
//! up. Whenever the bus is quiet (after a flush or a shutdown, with no thread publishing or
//! receiving), the following equations hold exactly:
//!
//! * Events passed to `publish*` = `accepted` + `pending` + `rejected_full` + `rejected_closed`,
//!   where `pending` is zero unless the dispatcher is waiting for a watcher or running user code.
//! * For each watcher, `offered` = `delivered` + the sum of `dropped` + `queued`.
//!
//! While the bus is running, `delivered` + `dropped` never exceeds `offered`.

use std::fmt;
use std::time::Duration;

use crate::bus::policy::OverflowPolicy;
use crate::escape::escape;

/// The reason why a watcher did not receive an event that it was offered.
///
/// # Examples
///
/// ```
/// use eventcast::stats::{DropCounts, DropReason};
///
/// assert_eq!(DropReason::TimedOut.to_string(), "timed out");
/// assert!(DropCounts::default().by_reason().any(|count| count == (DropReason::TimedOut, 0)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum DropReason {
    /// The watcher's queue was full, and its policy drops the incoming event.
    Incoming,
    /// The watcher's queue was full, and its policy drops the oldest event.
    Oldest,
    /// A newer event with the same key replaced the event in the queue of a watcher that
    /// [conflates](crate::WatchBuilder::conflate_by) events.
    Conflated,
    /// The watcher's queue stayed full until the time limit of the watcher's policy expired.
    TimedOut,
    /// The watcher was stopped or dropped.
    Stopped,
    /// A shutdown with a deadline abandoned the event.
    Abandoned,
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Incoming => "incoming",
            Self::Oldest => "oldest",
            Self::Conflated => "conflated",
            Self::TimedOut => "timed out",
            Self::Stopped => "stopped",
            Self::Abandoned => "abandoned",
        })
    }
}

/// The numbers of events that a watcher was offered but did not receive, grouped by
/// [reason](DropReason).
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// let watcher = bus.watch_builder().queue_capacity(1).watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.shutdown();
/// let dropped = watcher.stats().dropped;
/// assert_eq!((dropped.incoming, dropped.oldest), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct DropCounts {
    /// The number of events lost for the reason [`DropReason::Incoming`].
    pub incoming: u64,
    /// The number of events lost for the reason [`DropReason::Oldest`].
    pub oldest: u64,
    /// The number of events replaced for the reason [`DropReason::Conflated`].
    pub conflated: u64,
    /// The number of events lost for the reason [`DropReason::TimedOut`].
    pub timed_out: u64,
    /// The number of events lost for the reason [`DropReason::Stopped`].
    pub stopped: u64,
    /// The number of events lost for the reason [`DropReason::Abandoned`].
    pub abandoned: u64,
}

impl DropCounts {
    /// Returns the sum over all reasons, saturating at `u64::MAX`. The sum includes events that
    /// were replaced by newer ones ([`conflated`](Self::conflated)).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::stats::DropCounts;
    ///
    /// let mut dropped = DropCounts::default();
    /// (dropped.incoming, dropped.stopped) = (2, 3);
    /// assert_eq!(dropped.total(), 5);
    /// ```
    pub fn total(&self) -> u64 {
        self.by_reason().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Returns a mutable reference to the count for one reason.
    pub(crate) fn by_mut(&mut self, reason: DropReason) -> &mut u64 {
        match reason {
            DropReason::Incoming => &mut self.incoming,
            DropReason::Oldest => &mut self.oldest,
            DropReason::Conflated => &mut self.conflated,
            DropReason::TimedOut => &mut self.timed_out,
            DropReason::Stopped => &mut self.stopped,
            DropReason::Abandoned => &mut self.abandoned,
        }
    }

    /// Returns each reason with its count, including the reasons with a count of zero.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::stats::{DropCounts, DropReason};
    ///
    /// let mut dropped = DropCounts::default();
    /// dropped.oldest = 2;
    /// let lost: Vec<_> = dropped.by_reason().filter(|(_, events)| *events > 0).collect();
    /// assert_eq!(lost, [(DropReason::Oldest, 2)]);
    /// ```
    pub fn by_reason(&self) -> impl Iterator<Item = (DropReason, u64)> + use<> {
        let reasons = [
            (DropReason::Incoming, self.incoming),
            (DropReason::Oldest, self.oldest),
            (DropReason::Conflated, self.conflated),
            (DropReason::TimedOut, self.timed_out),
            (DropReason::Stopped, self.stopped),
            (DropReason::Abandoned, self.abandoned),
        ];
        reasons.into_iter()
    }

    /// Returns whether every event that was not delivered was either replaced by a newer event of
    /// its key, or dropped because the watcher was stopped or dropped.
    pub(crate) fn is_clean(&self) -> bool {
        self.total() == self.stopped.saturating_add(self.conflated)
    }

    fn add(&mut self, other: &Self) {
        self.incoming += other.incoming;
        self.oldest += other.oldest;
        self.conflated += other.conflated;
        self.timed_out += other.timed_out;
        self.stopped += other.stopped;
        self.abandoned += other.abandoned;
    }
}

/// Writes the total, followed by the reasons with a non-zero count, as in
/// `5 (oldest 3, stopped 2)`.
impl fmt::Display for DropCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.total())?;
        let mut between = " (";
        for (reason, count) in self.by_reason().filter(|(_, count)| *count > 0) {
            write!(f, "{between}{reason} {count}")?;
            between = ", ";
        }
        f.write_str(if between == ", " { ")" } else { "" })
    }
}

/// A snapshot of a watcher's event counters.
///
/// Events in a watcher's prefix are not counted, because they do not pass through the bus.
///
/// # Examples
///
/// `examples/bus/sizing.rs` in the repository uses these counters to size a queue.
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// let watcher = bus.watch_builder().name("view").queue_capacity(1).watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.shutdown();
/// let stats = watcher.stats();
/// assert_eq!(stats.offered, stats.delivered + stats.dropped.total() + stats.queued);
/// let text = "view (drop_incoming): offered 3, delivered 0, dropped 2 (incoming 2), queued 1, lag 1";
/// assert_eq!(stats.to_string(), text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct WatcherStats {
    /// The watcher's [name](crate::WatchBuilder::name). The default name is the place in the
    /// program's source that created the watcher's builder, such as `src/main.rs:42`. Unnamed
    /// recordings are called `recording`, `recording-2` and so on.
    pub name: String,
    /// The watcher's overflow policy, or `None` in a sum over several watchers.
    pub policy: Option<OverflowPolicy>,
    /// The number of accepted events that passed the watcher's filter.
    pub offered: u64,
    /// The number of events passed to the reader. Events that the reader has borrowed, as a batch
    /// or a reference, count as queued until the reader's next receive call begins.
    pub delivered: u64,
    /// The number of events that were lost or replaced, grouped by reason.
    pub dropped: DropCounts,
    /// The number of events that were not offered to the watcher because its filter refused them.
    pub filtered: u64,
    /// The number of events that the watcher receives as gaps because the bus does not have them.
    /// Missed events are events in a [published gap](crate::Publisher::publish_gap), and events
    /// that the [history](crate::BusOptions::history) no longer held when the watcher started.
    pub missed: u64,
    /// The number of events that are in the watcher's queue, or that the reader has taken out of
    /// the queue but not released yet. After a [start in the past](crate::WatchBuilder::start),
    /// this number may exceed the queue's capacity.
    pub queued: u64,
    /// The number of events that were offered to the watcher but have not been delivered, lost or
    /// replaced yet. The lag consists of the `queued` events and, if the dispatcher is waiting for
    /// this watcher, up to `max_batch` additional events that the dispatcher holds until the queue
    /// has capacity.
    ///
    /// The lag is `offered` minus `delivered` and `dropped`. These counters are read one after
    /// another, and `offered` is read last. The lag therefore equals `queued` whenever the bus is
    /// quiet. While the bus is running, the lag is never less than the true lag at the time when
    /// `offered` is read.
    pub lag: u64,
    /// The largest number of events that the queue has held so far, not counting events from the
    /// history.
    pub high_water: u64,
    /// How long at least the oldest event in the queue had been waiting at the last check of the
    /// bus's first [monitor](crate::Broadcaster::on_slow). Zero if the queue is empty, or if the
    /// bus has no monitor. The age stays the same once the bus has ended. While the reader lags by
    /// a constant time, the age is too low by at most an eighth, plus the time between two checks.
    /// In a sum over several watchers, this is the largest age.
    #[cfg_attr(feature = "serde", serde(with = "crate::duration"))]
    pub oldest_age: Duration,
    /// The number of evictions, which is 1 if the policy [`Evict`](crate::OverflowPolicy::Evict)
    /// has ended the watcher, and 0 otherwise. In a sum over several watchers, this is the number
    /// of watchers that the policy has ended. The event that did not fit into the queue was not
    /// offered, so this event does not count as lost.
    pub evictions: u64,
    /// The number of panics caught in code that ran for this watcher. Such code is the watcher's
    /// filter, key function, hook or handler, or the `Clone` of an event.
    pub panics: u64,
}

impl WatcherStats {
    /// Adds another watcher's counters to a total. The total's high-water mark becomes the larger
    /// of the two high-water marks.
    pub(crate) fn add(&mut self, other: &Self) {
        self.offered += other.offered;
        self.delivered += other.delivered;
        self.dropped.add(&other.dropped);
        self.filtered += other.filtered;
        // A single gap may contain up to 2^62 events, so a sum over several watchers could
        // overflow.
        self.missed = self.missed.saturating_add(other.missed);
        self.queued += other.queued;
        self.lag += other.lag;
        self.high_water = self.high_water.max(other.high_water);
        self.oldest_age = self.oldest_age.max(other.oldest_age);
        self.evictions += other.evictions;
        self.panics += other.panics;
    }
}

#[cfg(feature = "metrics")]
impl WatcherStats {
    /// Subtracts the counters in `part` from a total, but leaves the total's high-water mark
    /// unchanged.
    pub(crate) fn subtract(&mut self, part: &Self) {
        for (sum, count) in [
            (&mut self.offered, part.offered),
            (&mut self.delivered, part.delivered),
            (&mut self.filtered, part.filtered),
            (&mut self.missed, part.missed),
            (&mut self.queued, part.queued),
            (&mut self.lag, part.lag),
            (&mut self.panics, part.panics),
            (&mut self.dropped.incoming, part.dropped.incoming),
            (&mut self.dropped.oldest, part.dropped.oldest),
            (&mut self.dropped.conflated, part.dropped.conflated),
            (&mut self.dropped.timed_out, part.dropped.timed_out),
            (&mut self.evictions, part.evictions),
            (&mut self.dropped.stopped, part.dropped.stopped),
            (&mut self.dropped.abandoned, part.dropped.abandoned),
        ] {
            *sum = sum.saturating_sub(count);
        }
    }
}

impl fmt::Display for WatcherStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offered, delivered, dropped, queued, lag, .. } = self;
        write!(f, "{}", escape(&self.name))?;
        if let Some(policy) = self.policy {
            write!(f, " ({policy})")?;
        }
        write!(
            f,
            ": offered {offered}, delivered {delivered}, dropped {dropped}, queued {queued}, lag {lag}"
        )?;
        let Self { filtered, missed, evictions, panics, .. } = *self;
        for (name, count) in
            [("filtered", filtered), ("missed", missed), ("evictions", evictions), ("panics", panics)]
        {
            if count > 0 {
                write!(f, ", {name} {count}")?;
            }
        }
        Ok(())
    }
}

/// A snapshot of a bus's event counters.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.shutdown();
/// assert!(bus.publisher().publish(4).is_err());
/// let stats = bus.stats();
/// assert_eq!((stats.accepted, stats.rejected_closed), (3, 1));
/// assert_eq!(stats.to_string(), "published 4, accepted 3, rejected 1 (full 0, closed 1), unheard 3");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct BusStats {
    /// The number of events that the dispatcher has taken out of the incoming queue. While the bus
    /// is quiet, this is the number of events that the bus has accepted from publishers. While the
    /// bus is running, this number is lower by the number of events in the incoming queue.
    pub accepted: u64,
    /// The number of events in the incoming queue, which the bus has accepted but the dispatcher
    /// has not processed yet. If a shutdown timed out, the pending events in its report were not
    /// offered to any watcher.
    #[doc(alias = "incoming")]
    pub pending: u64,
    /// The number of events that [`publish_gap`](crate::Publisher::publish_gap) has reported as
    /// missing. Missing events count neither as published nor as accepted.
    pub missed: u64,
    /// The number of accepted events that were offered to no watcher, because no watcher was
    /// registered, or all were stopped, when the bus processed the event. An event that the
    /// watchers' filters refused is not counted here. An event that the
    /// [history](crate::BusOptions::history) keeps is counted, although a watcher that [starts in
    /// the past](crate::WatchBuilder::start) may still receive it.
    ///
    /// These events are counted in `accepted` as well, unlike those in `TopicsStats::unheard`. If
    /// the last watcher has been dropped, but the dispatcher has not removed it yet, the next
    /// events may not be counted. A flush that begins after the drop waits for the removal.
    pub unheard: u64,
    /// The number of events returned to a publisher because the incoming queue was full.
    pub rejected_full: u64,
    /// The number of events returned to a publisher because the bus was closed.
    pub rejected_closed: u64,
    /// One entry for each currently registered watcher, in the order of registration. Handlers that
    /// ended together with the bus stay listed. Dropped watchers are not listed, so look for their
    /// names in `departed_by_name` as well, or read a watcher's own counters before you drop the
    /// watcher.
    pub watchers: Vec<WatcherStats>,
    /// The sum of the counters of all departed watchers, which are no longer listed in `watchers`.
    /// This sum has no policy.
    pub departed: WatcherStats,
    /// The counters in `departed`, broken down by name. The list contains one sum for each name
    /// that was given to a watcher, ordered by name, but only for the first 256 names of departed
    /// watchers. Watchers that were not given a name are counted only in `departed`.
    pub departed_by_name: Vec<WatcherStats>,
}

impl BusStats {
    /// Returns whether no watcher or handler, present or departed, has lost an offered event, not
    /// counting events of stopped watchers and replaced events.
    pub(crate) fn is_clean(&self) -> bool {
        self.watchers.iter().chain([&self.departed]).all(|watcher| watcher.dropped.is_clean())
    }

    /// Returns the number of events passed to `publish*`. This sum and the counts of refused events
    /// saturate at `u64::MAX`. Only counts of zero-sized events can reach this value.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::stats::BusStats;
    ///
    /// let mut stats = BusStats::default();
    /// (stats.accepted, stats.rejected_full, stats.rejected_closed) = (3, 2, 1);
    /// assert_eq!(stats.published(), 6);
    /// ```
    pub fn published(&self) -> u64 {
        let accepted = self.accepted.saturating_add(self.pending);
        accepted.saturating_add(self.rejected_full).saturating_add(self.rejected_closed)
    }
}

/// Returns the separator between the parts of formatted statistics. By default, the separator keeps
/// all parts on one line. With `{:#}`, it puts each part on its own line.
pub(crate) fn between(f: &fmt::Formatter<'_>) -> &'static str {
    if f.alternate() { "\n  " } else { "; " }
}

/// Writes the statistics on one line, or with `{:#}`, each watcher on its own line.
impl fmt::Display for BusStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "published {}, accepted {}, rejected {} (full {}, closed {})",
            self.published(),
            self.accepted,
            self.rejected_full.saturating_add(self.rejected_closed),
            self.rejected_full,
            self.rejected_closed
        )?;
        for (name, count) in [("pending", self.pending), ("missed", self.missed), ("unheard", self.unheard)] {
            if count > 0 {
                write!(f, ", {name} {count}")?;
            }
        }
        let between = between(f);
        for watcher in &self.watchers {
            write!(f, "{between}{watcher}")?;
        }
        if self.departed.offered > 0 {
            write!(f, "{between}{}", self.departed)?;
        }
        Ok(())
    }
}
