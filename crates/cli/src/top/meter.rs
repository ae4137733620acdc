//! Computes rates from counters.

/// The minimum time between the arrivals of two lines from which a rate is computed, in seconds.
/// Lines that arrive together were not written together.
const MIN_PAUSE: f64 = 0.5;

/// The time of a line, in seconds. Each kind of time has another epoch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stamp {
    /// The time that the line contains.
    Written(f64),
    /// The time at which the line arrived.
    Arrived(f64),
}

impl Stamp {
    /// Returns the seconds since an earlier time. Returns `None` if the two times are of different
    /// kinds, or if the other time is later.
    pub(crate) fn since(self, earlier: Self) -> Option<f64> {
        let seconds = match (earlier, self) {
            (Self::Written(earlier), Self::Written(now)) | (Self::Arrived(earlier), Self::Arrived(now)) => {
                now - earlier
            }
            _ => return None,
        };
        (seconds >= 0.0).then_some(seconds)
    }

    /// Returns whether this time is far enough from the earlier time to compute a rate.
    fn is_far(self, seconds: f64) -> bool {
        match self {
            Self::Written(_) => seconds > 0.0,
            Self::Arrived(_) => seconds >= MIN_PAUSE,
        }
    }
}

/// Some counters of a bus or a watcher, and their rates.
#[derive(Clone, Debug)]
pub(crate) struct Meter<const N: usize> {
    last: [u64; N],
    /// The time and the counters from which the next rates are computed.
    base: Option<(Stamp, [u64; N])>,
    /// The rates per second. `None` if they are unknown.
    pub(crate) rates: Option<[f64; N]>,
}

impl<const N: usize> Meter<N> {
    pub(crate) fn new(stamp: Option<Stamp>, counters: [u64; N]) -> Self {
        Self { last: counters, base: stamp.map(|stamp| (stamp, counters)), rates: None }
    }

    /// Returns whether any of the counters is lower than in the previous line. In this case, the
    /// program has restarted.
    pub(crate) fn has_fallen(&self, counters: [u64; N]) -> bool {
        self.last.iter().zip(counters).any(|(last, now)| now < *last)
    }

    /// Updates the rates from the counters in the next line. If a counter has fallen, the rates
    /// start anew.
    pub(crate) fn update(&mut self, stamp: Option<Stamp>, counters: [u64; N]) {
        let has_fallen = self.has_fallen(counters);
        self.last = counters;
        let elapsed = self.base.zip(stamp).and_then(|((base, _), stamp)| Some((stamp, stamp.since(base)?)));
        match (self.base, elapsed) {
            (Some((_, base)), Some((stamp, seconds))) if !has_fallen => {
                if stamp.is_far(seconds) {
                    let rate = |at: usize| (counters[at] - base[at]) as f64 / seconds;
                    self.rates = Some(std::array::from_fn(rate));
                    self.base = Some((stamp, counters));
                }
            }
            _ => *self = Self::new(stamp, counters),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Meter, Stamp};
    use Stamp::{Arrived, Written};

    /// Updates a meter with one counter, and returns the rate after each line.
    fn rates(lines: &[(Option<Stamp>, u64)]) -> Vec<Option<f64>> {
        let mut meter = Meter::new(lines[0].0, [lines[0].1]);
        let mut next = |(stamp, count): &(Option<Stamp>, u64)| {
            meter.update(*stamp, [*count]);
            meter.rates.map(|[rate]| rate)
        };
        lines[1..].iter().map(&mut next).collect()
    }

    #[test]
    fn a_rate_is_computed_from_the_times_in_the_lines() {
        let at = |seconds| Some(Written(seconds));
        assert_eq!(rates(&[(at(10.0), 5), (at(12.0), 25), (at(12.5), 26)]), [Some(10.0), Some(2.0)]);
        assert_eq!(rates(&[(at(1.0), 5), (at(1.0), 25), (at(3.0), 45)]), [None, Some(20.0)]);
        assert_eq!(rates(&[(at(9.0), 5), (at(1.0), 25), (at(3.0), 45)]), [None, Some(10.0)]);
        assert_eq!(rates(&[(at(1.0), 5), (at(2.0), 9), (None, 9)]), [Some(4.0), None]);
        assert_eq!(rates(&[(at(1.0), 5), (Some(Arrived(2.0)), 9)]), [None]);
    }

    #[test]
    fn lines_that_arrive_together_have_no_rate_of_their_own() {
        let at = |seconds| Some(Arrived(seconds));
        let lines = [(at(0.0), 0), (at(0.1), 100), (at(1.0), 200), (at(1.2), 900), (at(2.0), 1200)];
        assert_eq!(rates(&lines), [None, Some(200.0), Some(200.0), Some(1000.0)]);
    }

    #[test]
    fn a_rate_starts_anew_if_the_counter_falls() {
        let at = |seconds| Some(Written(seconds));
        let lines = [(at(1.0), 100), (at(2.0), 200), (at(3.0), 10), (at(4.0), 40)];
        assert_eq!(rates(&lines), [Some(100.0), None, Some(30.0)]);
        // The counter is lower than in the previous line, although not lower than at the base.
        let lines = [(Some(Arrived(0.0)), 0), (Some(Arrived(0.1)), 100), (Some(Arrived(1.0)), 50)];
        assert_eq!(rates(&lines), [None, None]);
    }
}
