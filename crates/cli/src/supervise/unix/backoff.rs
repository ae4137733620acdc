//! The delay before a command is restarted, and the restart limit. The delay doubles with each
//! restart, up to a maximum. A good run resets both the delay and the restart count.

use std::time::Duration;

/// The back-off settings from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The delay before the first restart.
    pub(crate) first: Duration,
    /// The maximum delay.
    pub(crate) max: Duration,
    /// The uptime after which the next delay is `first` again.
    pub(crate) reset_after: Duration,
    /// The maximum number of restarts since the last run that lasted `reset_after`, or `None` for
    /// no limit.
    pub(crate) max_restarts: Option<u64>,
}

/// The back-off state of one command.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: Policy,
    next: Duration,
    /// The number of restarts since the last good run.
    restarts: u64,
}

impl Backoff {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, next: policy.first.min(policy.max), restarts: 0 }
    }

    /// Returns the delay after a run that lasted `uptime`. If the command could not be started,
    /// `uptime` must be zero. Returns `None` if the restart limit has been reached.
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
