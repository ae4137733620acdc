//! The wait before a command is started again, and the limit of restarts. The wait doubles up to a
//! bound. A good run resets both.

use std::time::Duration;

/// The settings of the back-off, as plain data from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The wait before the first restart.
    pub(crate) first: Duration,
    /// The longest wait.
    pub(crate) max: Duration,
    /// The uptime after which a command starts again at `first`.
    pub(crate) reset_after: Duration,
    /// The most restarts since the last run of `reset_after`, or `None` for no limit.
    pub(crate) max_restarts: Option<u64>,
}

/// The back-off of one command.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: Policy,
    next: Duration,
    /// The restarts since the last good run.
    restarts: u64,
}

impl Backoff {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, next: policy.first.min(policy.max), restarts: 0 }
    }

    /// Returns how long to wait after a run that lasted `uptime` (zero for a command that could not
    /// be started), or `None` if the limit of restarts is reached.
    pub(crate) fn after_run(&mut self, uptime: Duration) -> Option<Duration> {
        if uptime >= self.policy.reset_after {
            *self = Self::new(self.policy);
        }
        if self.policy.max_restarts.is_some_and(|max| self.restarts >= max) {
            return None;
        }
        self.restarts += 1;
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.policy.max);
        Some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Policy};
    use std::time::Duration;

    const POLICY: Policy = Policy {
        first: Duration::from_millis(100),
        max: Duration::from_secs(10),
        reset_after: Duration::from_secs(10),
        max_restarts: None,
    };

    fn millis_after(backoff: &mut Backoff, uptime: Duration) -> u128 {
        backoff.after_run(uptime).expect("there is no limit").as_millis()
    }

    #[test]
    fn doubles_up_to_the_maximum() {
        let mut backoff = Backoff::new(POLICY);
        let delays: Vec<u128> = (0..10).map(|_| millis_after(&mut backoff, Duration::ZERO)).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
    }

    #[test]
    fn resets_after_a_good_run() {
        let mut backoff = Backoff::new(POLICY);
        backoff.after_run(Duration::ZERO);
        backoff.after_run(Duration::ZERO);
        assert_eq!(millis_after(&mut backoff, Duration::from_millis(9_999)), 400);
        assert_eq!(millis_after(&mut backoff, Duration::from_secs(10)), 100);
        assert_eq!(millis_after(&mut backoff, Duration::ZERO), 200);
    }

    #[test]
    fn a_maximum_below_the_first_wait_wins() {
        let mut backoff = Backoff::new(Policy { max: Duration::from_millis(50), ..POLICY });
        assert_eq!(millis_after(&mut backoff, Duration::ZERO), 50);
        assert_eq!(millis_after(&mut backoff, Duration::ZERO), 50);
    }

    #[test]
    fn the_longest_wait_does_not_overflow() {
        let longest = Duration::MAX;
        let mut backoff =
            Backoff::new(Policy { first: longest, max: longest, reset_after: longest, max_restarts: None });
        assert_eq!(backoff.after_run(Duration::ZERO), Some(Duration::MAX));
        assert_eq!(backoff.after_run(Duration::ZERO), Some(Duration::MAX));
    }

    #[test]
    fn a_limit_counts_the_restarts_since_the_last_good_run() {
        let mut backoff = Backoff::new(Policy { max_restarts: Some(2), ..POLICY });
        let mut has_restart = |seconds| backoff.after_run(Duration::from_secs(seconds)).is_some();
        assert_eq!([0, 9, 10, 0, 0].map(&mut has_restart), [true, true, true, true, false]);
        let mut never = Backoff::new(Policy { max_restarts: Some(0), ..POLICY });
        assert_eq!(never.after_run(Duration::ZERO), None);
        assert_eq!(never.after_run(Duration::from_secs(10)), None);
    }
}
