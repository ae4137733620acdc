//! Varies one setting over a range of values, with one run for each value.

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::finding::Finding;
use super::reader::MAX_QUEUE;
use super::run::{self, Outcome, Settings};
use super::times::shown;
use crate::support::duration;
use crate::support::number;
use crate::support::progress::Progress;
use crate::support::text::quoted;

/// The maximum number of runs in a sweep.
pub(crate) const MAX_POINTS: u64 = 64;
const USUAL_POINTS: u64 = 10;
/// The maximum handler time in a sweep.
const MAX_HANDLER: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Swept {
    Queue,
    Handler,
}

impl Swept {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Handler => "handler",
        }
    }

    /// Formats a value in the form in which it is written on the command line.
    pub(crate) fn shown(self, value: u64) -> String {
        match self {
            Self::Queue => value.to_string(),
            Self::Handler => shown(Duration::from_nanos(value)),
        }
    }
}

/// The setting that a sweep varies, and the range of its values, in events or nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sweep {
    pub(crate) swept: Swept,
    pub(crate) from: u64,
    pub(crate) to: u64,
    points: u64,
}

/// A run in a sweep.
pub(crate) struct Point {
    pub(crate) value: u64,
    pub(crate) outcome: Outcome,
    pub(crate) findings: Vec<Finding>,
}

impl Sweep {
    /// Parses `queue=10..10000` or `handler=1us..1ms`, where the range includes both ends.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "--sweep: {what} in {}: use queue=10..10000 or handler=1us..1ms, for example",
                quoted(text)
            )
        };
        let (what, range) = text.split_once('=').ok_or_else(|| wrong("missing '='"))?;
        let swept = match what {
            "queue" => Swept::Queue,
            "handler" => Swept::Handler,
            _ => return Err(wrong(&format!("the setting must be queue or handler, got {}", quoted(what)))),
        };
        let (from, to) = range.split_once("..").ok_or_else(|| wrong("missing '..'"))?;
        let value = |text: &str| match swept {
            Swept::Queue => number::parse("queue", 1..=MAX_QUEUE, text).map_err(|error| wrong(&error)),
            Swept::Handler => {
                let time = duration::parse("handler", text).map_err(|error| wrong(&error))?;
                if time.is_zero() || time > MAX_HANDLER {
                    return Err(wrong(&format!(
                        "handler must be more than 0s and at most 10s, got {}",
                        quoted(text)
                    )));
                }
                Ok(time.as_nanos() as u64)
            }
        };
        let (from, to) = (value(from)?, value(to)?);
        if from >= to {
            return Err(wrong("the range must be ascending"));
        }
        Ok(Self { swept, from, to, points: USUAL_POINTS })
    }

    /// Returns both ends of the range and the values between them, without duplicates. Before the
    /// values are rounded, consecutive values differ by a constant factor.
    pub(crate) fn values(&self) -> Vec<u64> {
        let factor = (self.to as f64 / self.from as f64).powf(1.0 / (self.points - 1) as f64);
        let mut values: Vec<u64> = (0..self.points - 1)
            .map(|number| (self.from as f64 * factor.powi(number as i32)).round() as u64)
            .chain([self.to])
            .collect();
        values.dedup();
        values
    }

    /// Returns the sweep with the given number of values, or the unchanged sweep if `points` is
    /// `None`.
    pub(crate) fn with_points(self, points: Option<u64>) -> Self {
        Self { points: points.unwrap_or(self.points), ..self }
    }

    fn settings(&self, settings: &Settings, value: u64) -> Settings {
        let mut settings = settings.clone();
        for watcher in &mut settings.watchers {
            match self.swept {
                Swept::Queue => watcher.queue = value as usize,
                Swept::Handler => watcher.times = watcher.times.with_mean(Duration::from_nanos(value)),
            }
        }
        settings
    }

    pub(crate) fn shown(&self, value: u64) -> String {
        self.swept.shown(value)
    }

    /// Makes one run for each value. If the sweep is interrupted, returns the runs that had already
    /// finished.
    pub(crate) fn run(
        &self,
        settings: &Settings,
        stop: &AtomicBool,
        progress: &Progress,
    ) -> Result<Vec<Point>, Box<dyn Error>> {
        let values = self.values();
        let mut points = Vec::new();
        for (number, &value) in values.iter().enumerate() {
            let what =
                format!("{} of {}: {}={}; ", number + 1, values.len(), self.swept.name(), self.shown(value));
            let outcome = run::run(&self.settings(settings, value), stop, progress, &what)?;
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let findings = Finding::all(&outcome);
            points.push(Point { value, outcome, findings });
        }
        Ok(points)
    }
}

#[cfg(test)]
mod tests {
    use super::{Sweep, Swept};

    #[test]
    fn a_range_is_spread_by_factors() {
        let sweep = Sweep::parse("queue=10..10000").unwrap();
        assert_eq!((sweep.swept, sweep.points), (Swept::Queue, 10));
        assert_eq!(Sweep { points: 4, ..sweep }.values(), [10, 100, 1000, 10_000]);
        assert_eq!(Sweep { points: 2, ..sweep }.values(), [10, 10_000]);
        assert_eq!(sweep.values().len(), 10);
        let sweep = Sweep::parse("handler=1us..1ms").unwrap();
        assert_eq!(Sweep { points: 3, ..sweep }.values(), [1000, 31_623, 1_000_000]);
        // There are fewer values than requested, because the range contains only three values.
        assert_eq!(Sweep::parse("queue=1..3").unwrap().values(), [1, 2, 3]);
        assert_eq!(Sweep::parse("queue=1..16777216").unwrap().values().last(), Some(&16_777_216));
    }

    #[test]
    fn errors_list_the_allowed_values() {
        for (text, part) in [
            ("", "missing '=' in ''"),
            ("queue", "missing '='"),
            ("queue=", "missing '..'"),
            ("queue=5", "missing '..'"),
            ("queues=1..2", "the setting must be queue or handler, got 'queues'"),
            ("queue=0..5", "queue must be a number from 1 to 16777216, got '0'"),
            ("queue=1..16777217", "queue must be a number from 1 to 16777216, got '16777217'"),
            ("queue=1..99999999999999999999", "queue must be a number from 1 to 16777216, got '9999"),
            ("queue=1us..2us", "queue must be a number from 1 to 16777216, got '1us'"),
            ("queue=5..5", "the range must be ascending"),
            ("queue=10..5", "the range must be ascending"),
            ("handler=1ms..1us", "the range must be ascending"),
            ("handler=0us..1us", "handler must be more than 0s and at most 10s, got '0us'"),
            ("handler=1us..11s", "handler must be more than 0s and at most 10s, got '11s'"),
            ("handler=1..2", "handler must be a duration such as 250ms or 1m30s, got '1' in 'handler"),
            ("\u{1b}=1..2", r"got '\u{1b}'"),
        ] {
            let error = Sweep::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(
                error.ends_with("use queue=10..10000 or handler=1us..1ms, for example"),
                "{text}: {error}"
            );
        }
    }
}
