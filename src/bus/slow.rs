//! Reports watchers that are too slow.
//!
//! A monitor's thread checks the counters of all watchers at regular intervals, so the paths of
//! the events need no clock and no time stamps.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::bus::counters::{DropCounts, WatcherStats};
use crate::bus::policy::OverflowPolicy;
use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::error::BuildError;
use crate::escape::escape;
use crate::sync::atomic::Ordering;

use super::broadcaster::Broadcaster;
use super::state::{BusState, Threads, WatcherState};
use super::wait::on_bus_thread;

const THREAD: &str = "eventcast-monitor";

/// The smallest time after which a watcher may count as slow, and the shortest pause between two
/// checks.
const LEAST: Duration = Duration::from_millis(1);

/// The longest pause between two checks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The state of a watcher that a [`SlowNotice`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slowness {
    /// The oldest event in the queue has been waiting for too long.
    Unread,
    /// At every check, the bus was waiting for capacity in the queue, or the queue had lost
    /// events since the check before.
    Full,
    /// At every check, the bus was running the watcher's filter, key function or hook, or the
    /// `Clone` or `Drop` of an event for this watcher.
    Stuck,
    /// The watcher was slow, and has caught up.
    CaughtUp,
}

/// A report that a watcher has become slow or has caught up. See [`Broadcaster::on_slow`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowNotice {
    /// The state that the notice reports.
    pub slowness: Slowness,
    /// The watcher's counters at the check, which include its name, its policy, the length of its
    /// queue, and the age of its oldest event.
    pub watcher: WatcherStats,
}

/// Writes the notice as text, such as
/// `orders (wait) blocks the bus or loses events: queued 100, oldest 5s, lag 164, dropped 0`.
///
/// This text of [`Slowness::Full`] is the same for all policies. A watcher with `Wait` blocks the
/// bus, a watcher with `WaitFor` may do both, and watchers with other policies lose events.
impl fmt::Display for SlowNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WatcherStats { name, policy, queued, lag, dropped, oldest_age, .. } = &self.watcher;
        write!(f, "{}", escape(name))?;
        if let Some(policy) = policy {
            write!(f, " ({policy})")?;
        }
        let what = match self.slowness {
            Slowness::Unread => "does not keep up",
            Slowness::Full => "blocks the bus or loses events",
            Slowness::Stuck => "holds up the bus in its own code",
            Slowness::CaughtUp => "has caught up",
        };
        write!(f, " {what}: queued {queued}, oldest {oldest_age:?}, lag {lag}, dropped {dropped}")
    }
}

impl<T: Clone + Send + Sync + 'static> Broadcaster<T> {
    /// Starts a monitor, which calls `tell` once when a watcher has been slow for the time `after`,
    /// and once when that watcher has caught up.
    ///
    /// A watcher is slow if one of the following is true for at least the time `after`. If several
    /// are true, the notice reports the last of them in this list. No further notice follows if the
    /// cause changes.
    ///
    /// - The oldest event in its queue is waiting ([`Slowness::Unread`]). Events that the reader
    ///   has [borrowed](WatcherStats::queued) are waiting, and so is the event that a handler is
    ///   handling. If a watcher [conflates events](crate::WatchBuilder::conflate_by), this is the
    ///   age of its key's first unread event.
    /// - At every check, the bus waits for capacity in its queue, or the queue has lost events
    ///   since the check before ([`Slowness::Full`]). With `DropOldest`, this counts only if the
    ///   reader has not read anything in between, because such a watcher loses events by design.
    ///   To be notified of each loss, use [`on_drop`](crate::WatchBuilder::on_drop).
    /// - At every check, the bus is running its filter, key function or hook, or the `Clone` or
    ///   `Drop` of an event that was copied for the watcher or evicted from its queue
    ///   ([`Slowness::Stuck`]).
    ///
    /// The following is not reported: a handler that hangs at a gap or at an event of a
    /// [prefix](crate::WatchBuilder::prefix), the `Drop` of events that the bus drops for all
    /// watchers together, and the `Drop` of a removed watcher's closures. A [flush](Self::flush)
    /// with a time limit names the handler.
    ///
    /// A watcher has caught up once none of this is true, and its oldest event has been waiting for
    /// less than half the time. If a slow watcher ends, no notice follows. A watcher whose reader
    /// has been dropped by the time of the check is reported only if it is stuck. A watcher without
    /// a name is reported by the place that created its builder, so give names to watchers that one
    /// place registers if you want to distinguish them.
    ///
    /// The monitor checks all watchers eight times during `after`, but at most once a millisecond
    /// and at least once a second, measured by the bus's clock. A notice is up to two checks late,
    /// plus an eighth of the time while the reader lags by a constant time. The first monitor of a
    /// bus also sets [`WatcherStats::oldest_age`]. Publish and receive calls do the same work with
    /// and without a monitor.
    ///
    /// Each call starts another monitor, for example one that logs and one that raises an alarm
    /// later. A monitor ends with the bus, and cannot be stopped before. If the bus has already
    /// ended, this method does nothing.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if `after` is shorter than a millisecond, or if the system cannot
    /// start the monitor's thread. An inline bus with a monitor also has this thread.
    ///
    /// # Blocking
    ///
    /// Does not wait. While `tell` runs, the monitor does not check anything, and shutdowns wait
    /// for `tell` as they wait for a handler. `tell` must not own a `Broadcaster`, which would
    /// keep the bus open, but may own a [`WeakBroadcaster`](crate::WeakBroadcaster). A panic in
    /// `tell` is caught.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::stats::Slowness;
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::sync::mpsc;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let time = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let bus = Broadcaster::with_clock(BusOptions::default(), time.clock())?;
    /// let mut slow = bus.watch_builder().name("slow").watch()?;
    /// bus.publisher().publish("unread")?;
    /// bus.flush(Duration::from_secs(10))?;
    ///
    /// let (tx, notices) = mpsc::channel();
    /// bus.on_slow(Duration::from_secs(5), move |notice| drop(tx.send(notice.clone())))?;
    /// time.advance(Duration::from_secs(5));
    /// let notice = notices.recv()?;
    /// assert_eq!((notice.slowness, notice.watcher.name.as_str()), (Slowness::Unread, "slow"));
    ///
    /// slow.recv()?;
    /// time.advance(Duration::from_secs(1));
    /// assert_eq!(notices.recv()?.slowness, Slowness::CaughtUp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("slow_consumer", "stalled", "watchdog"))]
    pub fn on_slow(
        &self,
        after: Duration,
        tell: impl FnMut(&SlowNotice) + Send + 'static,
    ) -> Result<(), BuildError> {
        BuildError::require(after >= LEAST, "after", format_args!("{after:?}"), "at least 1 ms")?;
        let (bus, mut tell) = (self.incoming.bus.clone(), tell);
        let has_ended = |bus: &BusState| bus.registry.is_settled().then_some(());
        if has_ended(&bus).is_some() {
            return Ok(());
        }
        // Relaxed: the flag publishes no data. If two first monitors start at the same time, both
        // measure.
        let measures = !bus.is_monitored.load(Ordering::Relaxed);
        let mut monitor = Monitor { after, measures, seen: BTreeMap::new() };
        // The ages begin with this call, and not when the thread has started.
        monitor.check(&bus);
        let pause = (after / 8).clamp(LEAST, LONGEST_PAUSE);
        let mut next_check = bus.clock.deadline(pause);
        let run = move || {
            // The end of the bus wakes this queue, and so does each change to the list of watchers.
            while bus.presence.get().wait(&bus.clock, next_check, || has_ended(&bus)).is_err() {
                next_check = bus.clock.deadline(pause);
                for notice in monitor.check(&bus) {
                    catch_panic(|| tell(&notice));
                }
            }
            catch_panic(|| drop(tell));
        };
        let bus = &self.incoming.bus;
        let id = bus.id;
        Threads::spawn(&bus.threads, THREAD.to_owned(), move || on_bus_thread(id, run))
            .map_err(|error| BuildError::thread(THREAD, error))?;
        // Relaxed: as above.
        bus.is_monitored.store(true, Ordering::Relaxed);
        Ok(())
    }
}

struct Monitor {
    after: Duration,
    /// Whether this monitor publishes the ages of the oldest events.
    measures: bool,
    /// The observations of each watcher, keyed by the watcher's id.
    seen: BTreeMap<u64, Seen>,
}

impl Monitor {
    /// Checks all watchers once, and returns what has changed.
    fn check(&mut self, bus: &BusState) -> Vec<SlowNotice> {
        let (now, mut before) = (bus.clock.monotonic(), std::mem::take(&mut self.seen));
        let mut notices = Vec::new();
        for state in bus.registry.monitored() {
            let mut seen = before.remove(&state.id).unwrap_or_default();
            let slowness = seen.check(&state, &bus.clock, now, self.after);
            if self.measures {
                state.set_oldest_age(seen.age);
            }
            if let Some(slowness) = slowness {
                let watcher = WatcherStats { oldest_age: seen.age, ..state.stats() };
                notices.push(SlowNotice { slowness, watcher });
            }
            self.seen.insert(state.id, seen);
        }
        notices
    }
}

/// A monitor's observations of one watcher.
#[derive(Default)]
struct Seen {
    /// The times of earlier checks, each with the number of events that had been sent by then. Only
    /// marks that the reader has not reached are kept, so the first mark shows how long at least
    /// the oldest event has been waiting.
    marks: Vec<(Duration, u64)>,
    /// The age of the oldest event.
    age: Duration,
    /// The counts of lost and delivered events at the last check. `None` before the first check.
    counts: Option<(u64, u64)>,
    full_since: Option<Duration>,
    stuck_since: Option<Duration>,
    is_slow: bool,
}

impl Seen {
    /// Checks a watcher. Returns what has changed, if anything.
    fn check(
        &mut self,
        state: &WatcherState,
        clock: &Clock,
        now: Duration,
        after: Duration,
    ) -> Option<Slowness> {
        let watcher = state.counters();
        self.age = self.oldest_age(state, &watcher, clock, now);
        let is_full = self.is_full(state, &watcher);
        let is_stuck = state.is_running_user_code();
        let lasts = |since: &mut Option<Duration>, is_so: bool| {
            *since = is_so.then(|| since.unwrap_or(now));
            since.is_some_and(|since| now.saturating_sub(since) >= after)
        };
        let (stays_full, stays_stuck) =
            (lasts(&mut self.full_since, is_full), lasts(&mut self.stuck_since, is_stuck));
        let slowness = if stays_stuck {
            Slowness::Stuck
        } else if stays_full {
            Slowness::Full
        } else if self.age >= after {
            Slowness::Unread
        } else {
            Slowness::CaughtUp
        };
        let is_slow = match slowness {
            Slowness::CaughtUp => self.is_slow && (is_stuck || is_full || self.age >= after / 2),
            _ => true,
        };
        (std::mem::replace(&mut self.is_slow, is_slow) != is_slow).then_some(slowness)
    }

    /// Returns whether the bus is waiting for the watcher, or the watcher has lost events since the
    /// last check.
    fn is_full(&mut self, state: &WatcherState, watcher: &WatcherStats) -> bool {
        let DropCounts { incoming, timed_out, oldest, .. } = watcher.dropped;
        let (lost, delivered) = (incoming + timed_out + oldest, watcher.delivered);
        let before = self.counts.replace((lost, delivered));
        let has_lost = before.is_some_and(|(before, read)| {
            lost > before && (state.policy != OverflowPolicy::DropOldest || read == delivered)
        });
        // After the reader has freed the wanted capacity, a dispatcher is still waiting until it
        // has sent the events that it holds for the watcher (`lag > queued`). An inline bus holds
        // no events, and its publishers are then no longer waiting for this watcher.
        let is_waited_for =
            state.is_waited_for() && (watcher.lag > watcher.queued || !state.is_room_wanted(delivered));
        has_lost || is_waited_for
    }

    /// Returns how long the oldest event has been waiting.
    fn oldest_age(
        &mut self,
        state: &WatcherState,
        watcher: &WatcherStats,
        clock: &Clock,
        now: Duration,
    ) -> Duration {
        let taken = watcher.delivered + watcher.dropped.oldest;
        let sent = taken + if state.is_finished() { 0 } else { watcher.queued };
        self.marks.retain(|(_, marked)| taken < sent && taken < *marked);
        let age = self.marks.first().map_or(Duration::ZERO, |(since, _)| now.saturating_sub(*since));
        // The distance between two marks grows with the age, so that there are few marks.
        let (newest, marked) = self.marks.last().copied().unwrap_or((Duration::ZERO, taken));
        if marked < sent && now.saturating_sub(newest) >= age / 8 {
            // The time is read after the counts, so that the events are at least as old as it.
            self.marks.push((clock.monotonic(), sent));
        }
        age
    }
}
