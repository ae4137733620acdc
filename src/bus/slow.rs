//! Reports watchers that are too slow.
//!
//! A monitor's thread looks at the counters of all watchers at regular intervals, so the paths of
//! the events need no clock and no time stamps.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::bus::counters::WatcherStats;
use crate::catch::catch_panic;
use crate::error::BuildError;
use crate::escape::escape;

use super::broadcaster::Broadcaster;
use super::state::{BusState, Threads, WatcherState};
use super::wait::on_bus_thread;

const THREAD: &str = "eventcast-monitor";

/// The smallest time after which a watcher may count as slow, and the shortest pause between two
/// looks.
const LEAST: Duration = Duration::from_millis(1);

/// The longest pause between two looks.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a [`SlowNotice`] reports about a watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Slowness {
    /// The oldest event in the queue has been waiting for too long.
    Unread,
    /// The queue has been full at every look, or has lost events between the looks.
    Full,
    /// The same call of the watcher's filter, key function or hook, or of the `Clone` or `Drop` of
    /// one of its events, has been running on the bus's thread for too long.
    Stuck,
    /// The watcher was slow, and has caught up.
    CaughtUp,
}

/// A report that a watcher has become slow or has caught up. See [`Broadcaster::on_slow`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlowNotice {
    /// What the notice reports.
    pub slowness: Slowness,
    /// The watcher's counters at the look, which include its name, its policy, the length of its
    /// queue, and the age of its oldest event.
    pub watcher: WatcherStats,
}

/// Writes the notice as text, such as
/// `src/main.rs:42 (wait) is full: queued 100, oldest 5s, lag 164, dropped 0`.
impl fmt::Display for SlowNotice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WatcherStats { name, policy, queued, lag, dropped, oldest_age, .. } = &self.watcher;
        write!(f, "{}", escape(name))?;
        if let Some(policy) = policy {
            write!(f, " ({policy})")?;
        }
        let what = match self.slowness {
            Slowness::Unread => "does not keep up",
            Slowness::Full => "is full",
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
    /// A watcher is slow if one of the following is true for at least the time `after`:
    ///
    /// - The oldest event in its queue is waiting ([`Slowness::Unread`]). The event that a handler
    ///   is handling counts as waiting.
    /// - Its queue is full, or loses events, at every look ([`Slowness::Full`]).
    /// - A call of its filter, key function or hook, or the `Clone` or `Drop` of an event, has not
    ///   returned, and holds up the bus ([`Slowness::Stuck`]). The filter's calls for one batch
    ///   count as one call. If the `Drop` of an event that several watchers share does not return
    ///   on the bus's thread, no notice reports this, because the event belongs to no watcher.
    ///
    /// A watcher has caught up once none of this is true, and its oldest event has been waiting for
    /// less than half the time. A watcher that is dropped is not reported any more. A watcher
    /// without a name is reported by the place where the program registered it.
    ///
    /// The monitor looks at all watchers eight times during `after`, but at most once a millisecond
    /// and at least once a second, measured by the bus's clock. A notice therefore comes up to one
    /// look late, or two if the watcher has just become slow. The monitor also sets
    /// [`WatcherStats::oldest_age`]. Publish and receive calls do the same work with and without a
    /// monitor. The monitor ends when the bus has ended. A bus may have several monitors, for
    /// example one that logs and one that raises an alarm later.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if `after` is shorter than a millisecond, or if the system cannot
    /// start the monitor's thread. An inline bus with a monitor also has this thread.
    ///
    /// # Blocking
    ///
    /// Does not wait. While `tell` runs, the monitor does not look, and shutdowns wait for `tell`
    /// as they wait for a handler. `tell` must not hold a handle to the bus, which would keep the
    /// bus open. A panic in `tell` is caught.
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
        if after < LEAST {
            return Err(BuildError::new("after", format_args!("{after:?}"), "at least 1 ms"));
        }
        let (bus, mut tell) = (self.incoming.bus.clone(), tell);
        let mut monitor = Monitor { after, seen: BTreeMap::new() };
        // The ages begin with this call, and not when the thread has started.
        monitor.look(&bus);
        let pause = (after / 8).clamp(LEAST, LONGEST_PAUSE);
        let mut next_look = bus.clock.deadline(pause);
        let has_ended = |bus: &BusState| bus.registry.is_settled().then_some(());
        let run = move || {
            // The end of the bus wakes this queue, and so does each change to the list of watchers.
            while bus.presence.get().wait(&bus.clock, next_look, || has_ended(&bus)).is_err() {
                next_look = bus.clock.deadline(pause);
                for notice in monitor.look(&bus) {
                    catch_panic(|| tell(&notice));
                }
            }
            catch_panic(|| drop(tell));
        };
        let id = self.incoming.bus.id;
        Threads::spawn(&self.incoming.bus.threads, THREAD.to_owned(), move || on_bus_thread(id, run))
            .map_err(|error| BuildError::thread(THREAD, error))
    }
}

struct Monitor {
    after: Duration,
    /// What the monitor has seen of each watcher, keyed by the watcher's id.
    seen: BTreeMap<u64, Seen>,
}

impl Monitor {
    /// Looks at all watchers once, and returns what has changed.
    fn look(&mut self, bus: &BusState) -> Vec<SlowNotice> {
        let (now, mut before) = (bus.clock.monotonic(), std::mem::take(&mut self.seen));
        let mut notices = Vec::new();
        for state in bus.registry.unfinished_watchers() {
            let mut seen = before.remove(&state.id).unwrap_or_default();
            notices.extend(seen.look(&state, now, self.after));
            self.seen.insert(state.id, seen);
        }
        notices
    }
}

/// What a monitor has seen of a watcher.
#[derive(Default)]
struct Seen {
    /// The times of earlier looks, each with the number of events that had been sent by then. Only
    /// marks that the reader has not reached are kept, so the first one tells how long at least the
    /// oldest event has been waiting.
    marks: Vec<(Duration, u64)>,
    /// The number of lost events at the last look.
    lost: Option<u64>,
    full_since: Option<Duration>,
    /// The state of the user code, and the time at which it was first seen.
    user_code: (u64, Duration),
    is_slow: bool,
}

impl Seen {
    fn look(&mut self, state: &WatcherState, now: Duration, after: Duration) -> Option<SlowNotice> {
        let mut watcher = state.stats();
        watcher.oldest_age = self.oldest_age(&watcher, now);
        state.set_oldest_age(watcher.oldest_age);

        let lost = watcher.dropped.incoming + watcher.dropped.oldest + watcher.dropped.timed_out;
        let has_lost = self.lost.replace(lost).is_some_and(|before| before < lost);
        let is_full = has_lost || watcher.queued >= state.capacity;
        let full_since = is_full.then(|| *self.full_since.get_or_insert(now));
        self.full_since = full_since;

        let user_code = state.user_code();
        let is_running = user_code % 2 == 1;
        if !is_running || self.user_code.0 != user_code {
            self.user_code = (user_code, now);
        }

        let slowness = if is_running && now.saturating_sub(self.user_code.1) >= after {
            Slowness::Stuck
        } else if full_since.is_some_and(|since| now.saturating_sub(since) >= after) {
            Slowness::Full
        } else if watcher.oldest_age >= after {
            Slowness::Unread
        } else {
            Slowness::CaughtUp
        };
        let is_slow = match slowness {
            Slowness::CaughtUp => self.is_slow && (is_full || watcher.oldest_age >= after / 2),
            _ => true,
        };
        let changes = std::mem::replace(&mut self.is_slow, is_slow) != is_slow;
        changes.then_some(SlowNotice { slowness, watcher })
    }

    /// Returns how long the oldest event in the queue has been waiting.
    fn oldest_age(&mut self, watcher: &WatcherStats, now: Duration) -> Duration {
        let taken = watcher.delivered + watcher.dropped.oldest;
        let sent = taken + watcher.queued;
        self.marks.retain(|(_, sent)| *sent > taken);
        let age = self.marks.first().map_or(Duration::ZERO, |(since, _)| now.saturating_sub(*since));
        // The distance between two marks grows with the age, so that there are few marks.
        let (newest, marked) = self.marks.last().copied().unwrap_or((Duration::ZERO, taken));
        if marked < sent && now.saturating_sub(newest) >= age / 8 {
            self.marks.push((now, sent));
        }
        age
    }
}
