//! The times at which events are due. Events are evenly spread, in bursts, or both.

use std::fmt;
use std::time::Duration;

use super::times::shown;
use crate::support::number::grouped;

const SECOND: u128 = 1_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Load {
    /// The number of evenly spread events per second.
    pub(crate) rate: u64,
    /// The number of simultaneous events in a burst. The first burst is at the start of the run.
    pub(crate) burst: u64,
    /// The time from one burst to the next, which is more than zero.
    pub(crate) every: Duration,
}

/// A number of events that are due at the same time. The time is in nanoseconds since the start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Due {
    pub(crate) at: u64,
    pub(crate) count: u64,
}

impl Load {
    /// Returns the number of events that are due before this time.
    pub(crate) fn events(&self, length: Duration) -> u128 {
        let even = (length.as_nanos() * u128::from(self.rate)).div_ceil(SECOND);
        even + u128::from(self.burst) * length.as_nanos().div_ceil(self.every.as_nanos())
    }

    /// Returns the long-run average number of events per second.
    pub(crate) fn long_run(&self) -> f64 {
        self.rate as f64 + self.burst as f64 / self.every.as_secs_f64()
    }

    /// Returns all events that are due before this time, in order.
    pub(crate) fn schedule(&self, length: Duration) -> impl Iterator<Item = Due> + use<> {
        let Self { rate, burst, every } = *self;
        let end = length.as_nanos();
        // Multiplies the number by the interval instead of adding intervals, so that rounding
        // errors do not accumulate in a long run.
        let even = move |number: u128| if rate == 0 { end } else { number * SECOND / u128::from(rate) };
        let bursts = move |number: u128| if burst == 0 { end } else { number * every.as_nanos() };
        let (mut next_even, mut next_burst) = (0, 0);
        std::iter::from_fn(move || {
            let at = even(next_even).min(bursts(next_burst));
            if at >= end {
                return None;
            }
            let mut count = 0;
            if even(next_even) == at {
                (next_even, count) = (next_even + 1, 1);
            }
            if bursts(next_burst) == at {
                (next_burst, count) = (next_burst + 1, count + burst);
            }
            Some(Due { at: at as u64, count })
        })
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let even = format!("{} events a second", grouped(self.rate));
        let bursts = format!("bursts of {} every {}", grouped(self.burst), shown(self.every));
        match (self.rate, self.burst) {
            (_, 0) => f.write_str(&even),
            (0, _) => f.write_str(&bursts),
            _ => write!(f, "{even} and {bursts}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Due, Load};
    use std::time::Duration;

    const MS: Duration = Duration::from_millis(1);

    fn dues(load: Load, length: Duration) -> Vec<(u64, u64)> {
        let dues: Vec<_> = load.schedule(length).map(|Due { at, count }| (at, count)).collect();
        assert_eq!(dues.iter().map(|(_, count)| u128::from(*count)).sum::<u128>(), load.events(length));
        dues
    }

    #[test]
    fn events_are_due_when_they_should() {
        let even = Load { rate: 3, burst: 0, every: MS };
        assert_eq!(dues(even, MS * 1000), [(0, 1), (333_333_333, 1), (666_666_666, 1)]);
        assert_eq!(dues(even, MS * 1001).len(), 4);
        let bursts = Load { rate: 0, burst: 5, every: MS * 10 };
        assert_eq!(dues(bursts, MS * 20), [(0, 5), (10_000_000, 5)]);
        assert_eq!(dues(bursts, MS), [(0, 5)]);
        let both = Load { rate: 200, burst: 5, every: MS * 10 };
        assert_eq!(dues(both, MS * 11), [(0, 6), (5_000_000, 1), (10_000_000, 6)]);
        assert!((both.long_run() - 700.0).abs() < 1e-9);
    }

    #[test]
    fn nothing_is_lost_to_rounding() {
        let load = Load { rate: 7919, burst: 0, every: MS };
        assert_eq!(dues(load, MS * 100_000).len(), 791_900);
    }

    #[test]
    fn it_is_shown_in_words() {
        let load = Load { rate: 2000, burst: 5, every: MS * 10 };
        assert_eq!(load.to_string(), "2,000 events a second and bursts of 5 every 10ms");
        assert_eq!(Load { rate: 0, ..load }.to_string(), "bursts of 5 every 10ms");
        assert_eq!(Load { burst: 0, ..load }.to_string(), "2,000 events a second");
    }
}
