//! The newest state of each bus and each watcher in the input.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::time::Duration;

use super::line::{Bus, Line, Skip, Watcher, parse};
use super::lines::Piece;
use super::meter::{Meter, Stamp};
use crate::support::number::{counted, grouped};

/// The maximum number of buses, and of watchers of all buses. These limits bound the memory.
const MAX_BUSES: usize = 1000;
const MAX_WATCHERS: usize = 100_000;

/// The numbers of lines read and skipped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) read: u64,
    pub(crate) torn: u64,
    pub(crate) foreign: u64,
    pub(crate) too_large: u64,
    /// The number of times that a bus's counters have fallen.
    restarts: u64,
}

impl Counts {
    pub(crate) fn skip(&mut self, skip: Skip) {
        *match skip {
            Skip::Torn => &mut self.torn,
            Skip::Foreign => &mut self.foreign,
            Skip::TooLarge => &mut self.too_large,
        } += 1;
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.torn + self.foreign + self.too_large
    }
}

/// Formats the counts, as in `7 lines read, 3 skipped (1 torn, 2 foreign)`.
impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} read", counted(self.read, "line"))?;
        let mut between = format!(", {} skipped (", grouped(self.skipped()));
        for (count, reason) in [(self.torn, "torn"), (self.foreign, "foreign"), (self.too_large, "too large")]
        {
            if count > 0 {
                write!(f, "{between}{} {reason}", grouped(count))?;
                ", ".clone_into(&mut between);
            }
        }
        f.write_str(if self.skipped() > 0 { ")" } else { "" })?;
        if self.restarts > 0 {
            write!(f, ", {}", counted(self.restarts, "restart"))?;
        }
        Ok(())
    }
}

/// The newest state of a watcher.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) watcher: Watcher,
    /// The rates of offered, delivered and lost events.
    pub(crate) meter: Meter<3>,
    pub(crate) is_slow: bool,
    /// The time since when the watcher has had events but not received any.
    waiting_since: Option<Stamp>,
}

/// The newest state of a bus.
#[derive(Clone, Debug)]
pub(crate) struct BusState {
    pub(crate) bus: Bus,
    /// The rates of accepted, refused and unheard events.
    pub(crate) meter: Meter<3>,
    pub(crate) rows: Vec<Row>,
}

/// The newest state of all buses.
#[derive(Clone, Debug)]
pub(crate) struct State {
    /// The time after which a watcher that has events but receives none counts as slow.
    slow: Duration,
    pub(crate) buses: BTreeMap<String, BusState>,
    pub(crate) counts: Counts,
}

impl State {
    pub(crate) fn new(slow: Duration) -> Self {
        Self { slow, buses: BTreeMap::new(), counts: Counts::default() }
    }

    /// Adds a line, which arrived at the given time in seconds. The time is `None` if the line was
    /// in the file before.
    pub(crate) fn add(&mut self, line: Piece<'_>, arrived: Option<f64>) {
        if line.is_some_and(|line| line.trim_ascii().is_empty()) {
            return;
        }
        match line.ok_or(Skip::TooLarge).and_then(parse).and_then(|line| self.fitting(line)) {
            Ok(line) => {
                self.counts.read += 1;
                self.update(line, arrived);
            }
            Err(skip) => self.counts.skip(skip),
        }
    }

    /// Returns the line if the state stays within its limits.
    fn fitting(&self, line: Line) -> Result<Line, Skip> {
        let is_new = !self.buses.contains_key(&line.name);
        let others = self.buses.iter().filter(|(name, _)| **name != line.name);
        let watchers: usize = others.map(|(_, bus)| bus.rows.len()).sum();
        let fits = watchers + line.bus.watchers.len() < MAX_WATCHERS
            && self.buses.len() + usize::from(is_new) <= MAX_BUSES;
        if fits { Ok(line) } else { Err(Skip::TooLarge) }
    }

    fn update(&mut self, line: Line, arrived: Option<f64>) {
        let Line { name, time, mut bus } = line;
        let stamp = time.map(Stamp::Written).or(arrived.map(Stamp::Arrived));
        let refused = bus.rejected_full.saturating_add(bus.rejected_closed);
        let counters = [bus.accepted, refused, bus.unheard];
        let mut meter = Meter::new(stamp, counters);
        let mut old: HashMap<_, Row> = HashMap::new();
        if let Some(before) = self.buses.remove(&name) {
            meter = before.meter;
            if meter.has_fallen(counters) {
                self.counts.restarts += 1;
            } else {
                let names = keys(before.rows.iter().map(|row| &row.watcher));
                old = names.into_iter().zip(before.rows).collect();
            }
            meter.update(stamp, counters);
        }
        let mut watchers = std::mem::take(&mut bus.watchers);
        if let Some(mut departed) = bus.departed.take().filter(|departed| departed.offered > 0) {
            "(departed)".clone_into(&mut departed.name);
            // Their queues no longer have a reader.
            (departed.queued, departed.lag, departed.oldest_age) = (0, 0, Duration::ZERO);
            watchers.push(departed);
        }
        let rows = keys(watchers.iter()).into_iter().zip(watchers);
        let rows = rows.map(|(key, watcher)| Row::new(watcher, old.remove(&key), stamp, self.slow)).collect();
        self.buses.insert(name, BusState { bus, meter, rows });
    }
}

/// Returns a key for each watcher, which consists of its name and a number that distinguishes
/// watchers with equal names.
fn keys<'a>(watchers: impl Iterator<Item = &'a Watcher>) -> Vec<(String, usize)> {
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut key = |watcher: &'a Watcher| {
        let number = seen.entry(&watcher.name).or_default();
        *number += 1;
        (watcher.name.clone(), *number)
    };
    watchers.map(&mut key).collect()
}

impl Row {
    /// Creates the row of a watcher from the newest line, and from the watcher's previous row.
    fn new(watcher: Watcher, before: Option<Self>, stamp: Option<Stamp>, slow: Duration) -> Self {
        let counters = [watcher.offered, watcher.delivered, watcher.lost()];
        let before = before.filter(|row| !row.meter.has_fallen(counters));
        let has_events = watcher.queued > 0 || watcher.lag > 0;
        let is_stuck = |row: &&Self| row.watcher.delivered == watcher.delivered;
        let since = before.as_ref().filter(is_stuck).and_then(|row| row.waiting_since);
        let waits = since.zip(stamp).and_then(|(since, now)| now.since(since)).filter(|_| has_events);
        // If the clock was set back, the time starts anew.
        let waiting_since = if waits.is_some() { since } else { stamp.filter(|_| has_events) };
        let is_slow = watcher.oldest_age > slow || waits.is_some_and(|seconds| seconds > slow.as_secs_f64());
        let meter = before.map_or_else(
            || Meter::new(stamp, counters),
            |row| {
                let mut meter = row.meter;
                meter.update(stamp, counters);
                meter
            },
        );
        Self { watcher, meter, is_slow, waiting_since }
    }
}
