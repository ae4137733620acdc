//! Judges whether the machine was quiet during a measurement.
//!
//! Figures from a busy machine can favour the wrong contender, not only lower all rates. A program
//! therefore observes the machine while it measures, and marks its figures unless the machine was
//! quiet.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use serde_json::{Value, json};

use crate::table::progress;

/// The limit of the load average over the minute before the measurement.
const LOAD: f64 = 0.3;
/// The limit of the share of the machine's time that the hypervisor gave to other machines.
const STEAL: f64 = 0.01;
/// The limit of the share of the machine's time that other programs used.
const OTHERS: f64 = 0.02;

/// The machine's CPU times since it was started, in ticks.
#[derive(Clone, Copy, Debug)]
struct Ticks {
    total: u64,
    busy: u64,
    steal: u64,
}

impl Ticks {
    /// Returns `None` if the system does not report its CPU times.
    fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Reads the first line of `/proc/stat`, which proc(5) describes.
    fn read(stat: &str) -> Option<Self> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let numbers: Vec<u64> = numbers.map(str::parse).collect::<Result<_, _>>().ok()?;
        // The last two numbers of the line, for guests, are already part of the first two.
        let [user, nice, system, idle, wait, hard, soft, steal, ..] = numbers[..] else { return None };
        let busy = user + nice + system + hard + soft;
        Some(Self { total: busy + idle + wait + steal, busy, steal })
    }
}

/// Returns the load average over the last minute, or `None` if the system does not report it.
#[must_use]
pub fn load() -> Option<f64> {
    fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse().ok()
}

/// Waits until the load average permits a quiet measurement, for at most the given time.
pub fn wait(most: Duration) {
    let start = Instant::now();
    while let Some(load) = load().filter(|load| *load >= LOAD && start.elapsed() < most) {
        progress(&format!("waits until the load of a minute is below {LOAD}, now {load:.2}"));
        thread::sleep(Duration::from_secs(1));
    }
    progress("");
}

/// An observation of the machine that begins when it is created.
#[derive(Debug)]
pub struct Observation {
    load: Option<f64>,
    ticks: Option<Ticks>,
    own: ProcessTime,
    start: Instant,
}

impl Observation {
    /// Begins an observation.
    #[must_use]
    pub fn begin() -> Self {
        Self { load: load(), ticks: Ticks::now(), own: ProcessTime::now(), start: Instant::now() }
    }

    /// Returns the conditions since the observation began.
    #[must_use]
    pub fn conditions(&self) -> Conditions {
        let cores = thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let own = self.own.elapsed().as_secs_f64() / (self.start.elapsed().as_secs_f64() * cores);
        let shares = self.ticks.zip(Ticks::now()).map(|(before, now)| {
            let total = (now.total - before.total).max(1) as f64;
            let share = |now: u64, before: u64| now.saturating_sub(before) as f64 / total;
            (share(now.steal, before.steal), (share(now.busy, before.busy) - own).max(0.0))
        });
        Conditions { load: self.load, steal: shares.map(|(steal, _)| steal), others: shares.map(|(_, o)| o) }
    }
}

/// The conditions of a measurement. The shares are from 0 to 1. A condition that the system does
/// not report is `None`.
#[derive(Clone, Copy, Debug)]
pub struct Conditions {
    /// The load average over the minute before the measurement.
    pub load: Option<f64>,
    /// The share of the machine's time that the hypervisor gave to other machines.
    pub steal: Option<f64>,
    /// The share of the machine's time that other programs used.
    pub others: Option<f64>,
}

impl Conditions {
    /// Returns the reasons why the machine was not quiet. The list is empty if it was quiet.
    #[must_use]
    pub fn disturbances(&self) -> Vec<String> {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let number = |load: f64| format!("{load:.2}");
        let mut disturbances = Vec::new();
        let mut check = |name: &str, value: Option<f64>, limit: f64, show: &dyn Fn(f64) -> String| match value
        {
            Some(value) if value < limit => {}
            Some(value) => {
                disturbances.push(format!("{name} must be below {}, got {}", show(limit), show(value)));
            }
            None => disturbances.push(format!("the system does not report {name}")),
        };
        check("the load average of the minute before", self.load, LOAD, &number);
        check("the share of stolen time", self.steal, STEAL, &percent);
        check("the share of other programs", self.others, OTHERS, &percent);
        disturbances
    }

    /// Returns the conditions as JSON.
    #[must_use]
    pub fn json(&self) -> Value {
        let Self { load, steal, others } = self;
        json!({"load": load, "steal": steal, "others": others, "disturbances": self.disturbances()})
    }

    /// Returns a line about the conditions, which stands above the tables.
    #[must_use]
    pub fn line(&self) -> String {
        let disturbances = self.disturbances();
        if !disturbances.is_empty() {
            return format!("NOT QUIET, so do not publish these figures: {}\n", disturbances.join(", "));
        }
        let (load, steal) = (self.load.unwrap_or_default(), 100.0 * self.steal.unwrap_or_default());
        let others = 100.0 * self.others.unwrap_or_default();
        format!("quiet: load {load:.2} before, {steal:.1} % stolen, {others:.1} % used by other programs\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_the_eighth_number() {
        let ticks = Ticks::read("cpu  10 20 30 400 50 6 7 80 9 1\ncpu0 1 2 3\n").unwrap();
        assert_eq!((ticks.total, ticks.busy, ticks.steal), (603, 73, 80));
        assert!(Ticks::read("cpu 1 2 3\n").is_none() && Ticks::read("").is_none());
    }

    #[test]
    fn every_limit_and_every_unknown_condition_is_named() {
        let quiet = Conditions { load: Some(0.29), steal: Some(0.009), others: Some(0.0) };
        assert_eq!(quiet.disturbances(), Vec::<String>::new());
        assert_eq!(quiet.line(), "quiet: load 0.29 before, 0.9 % stolen, 0.0 % used by other programs\n");
        let busy = Conditions { load: Some(0.3), steal: Some(0.01), others: Some(0.5) };
        assert_eq!(
            busy.disturbances(),
            [
                "the load average of the minute before must be below 0.30, got 0.30",
                "the share of stolen time must be below 1.0 %, got 1.0 %",
                "the share of other programs must be below 2.0 %, got 50.0 %",
            ]
        );
        let unknown = Conditions { load: None, steal: None, others: None };
        assert_eq!(unknown.disturbances().len(), 3);
        assert!(unknown.line().starts_with("NOT QUIET"), "{}", unknown.line());
    }
}
