//! A row of the table, which is a measurement that is repeated in rounds.

use std::cell::Cell;
use std::time::Duration;

use eventcast_benches::threads::{Others, Switches};

/// A measurement.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Runs one round. Panics if a check fails.
    pub(crate) round: fn(&Load) -> Vec<Figure>,
}

/// The size of a round.
#[derive(Debug, Default)]
pub(crate) struct Load {
    pub(crate) events: Option<u64>,
    pub(crate) quick: bool,
    /// The number of events that the row has asked for in this round.
    asked: Cell<u64>,
}

impl Load {
    /// Returns the number of events in a round, for a row with the given default.
    pub(crate) fn events(&self, own: u64) -> u64 {
        let share = if self.quick { 100 } else { 1 };
        let events = self.events.unwrap_or((own / share).max(1000));
        self.asked.set(self.asked.get() + events);
        events
    }
}

impl Row {
    /// Runs one round. If the row has a number of events, also returns how many times per million
    /// events a thread went to sleep, and how many times a thread was preempted or yielded.
    pub(crate) fn measure(&self, load: &Load) -> Vec<Figure> {
        let before = Switches::of_process();
        let mut figures = (self.round)(load);
        let switches = Switches::of_process().since(before);
        let events = load.asked.take();
        if events == 0 {
            return figures;
        }
        for (what, number) in [("sleeps", switches.sleeps), ("preemptions", switches.preemptions)] {
            let name = format!("{}, {what}", figures[0].name);
            figures.push(Figure::new(name, number as f64 * 1e6 / events as f64, PER_MILLION));
        }
        figures
    }
}

/// The unit of the figures that count switches.
const PER_MILLION: &str = "per M events";

/// A figure that was measured in one round.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Self { name: name.into(), unit, value }
    }

    /// Creates a figure with the throughput in millions of events per second.
    pub(crate) fn rate(name: impl Into<String>, events: u64, elapsed: Duration) -> Self {
        Self::new(name, events as f64 / elapsed.as_secs_f64() / 1e6, "M/s")
    }
}

/// Returns the total CPU time that the given threads have used so far. Returns `None` if the system
/// does not report CPU times.
pub(crate) fn processor_time_so_far(threads: &Others) -> Option<Duration> {
    threads.processor_time().map(|times| times.iter().map(|(_, time)| *time).sum())
}

/// Returns figures for the CPU time per event of each of the given threads and of all threads
/// together. Returns no figures if the system does not report CPU times.
pub(crate) fn processor_time(name: &str, threads: &Others, events: u64) -> Vec<Figure> {
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / events as f64;
    let Some(times) = threads.processor_time() else { return Vec::new() };
    let sum: Duration = times.iter().map(|(_, time)| *time).sum();
    let of = |(thread, time): &(String, Duration)| {
        Figure::new(format!("{name}, processor of `{thread}`"), micros(*time), "us")
    };
    let mut figures: Vec<_> = times.iter().map(of).collect();
    figures.push(Figure::new(format!("{name}, processor of these threads"), micros(sum), "us"));
    figures
}
