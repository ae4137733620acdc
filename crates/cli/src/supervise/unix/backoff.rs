//! The wait before a command is started again. It doubles up to a bound, and is reset after a good
//! run.

use std::time::Duration;

/// The three numbers of the back-off, plain data from the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Policy {
    /// The wait before the first restart.
    pub(crate) first: Duration,
    /// The longest wait.
    pub(crate) max: Duration,
    /// The uptime after which a command starts again at `first`.
    pub(crate) reset_after: Duration,
}

/// The back-off of one command.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: Policy,
    next: Duration,
}

impl Backoff {
    pub(crate) fn new(policy: Policy) -> Self {
        Self { policy, next: policy.first.min(policy.max) }
    }

    /// Returns how long to wait after a run that lasted `uptime` (zero for a command that could not
    /// be started).
    pub(crate) fn after_run(&mut self, uptime: Duration) -> Duration {
        if uptime >= self.policy.reset_after {
            *self = Self::new(self.policy);
        }
        let delay = self.next;
        self.next = delay.saturating_mul(2).min(self.policy.max);
        delay
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
    };

    #[test]
    fn doubles_up_to_the_maximum() {
        let mut backoff = Backoff::new(POLICY);
        let delays: Vec<u128> = (0..10).map(|_| backoff.after_run(Duration::ZERO).as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
    }

    #[test]
    fn forgets_after_a_good_run() {
        let mut backoff = Backoff::new(POLICY);
        backoff.after_run(Duration::ZERO);
        backoff.after_run(Duration::ZERO);
        assert_eq!(backoff.after_run(Duration::from_millis(9_999)).as_millis(), 400);
        assert_eq!(backoff.after_run(Duration::from_secs(10)).as_millis(), 100);
        assert_eq!(backoff.after_run(Duration::ZERO).as_millis(), 200);
    }

    #[test]
    fn a_maximum_below_the_first_wait_wins() {
        let mut backoff = Backoff::new(Policy { max: Duration::from_millis(50), ..POLICY });
        assert_eq!(backoff.after_run(Duration::ZERO).as_millis(), 50);
        assert_eq!(backoff.after_run(Duration::ZERO).as_millis(), 50);
    }

    #[test]
    fn the_longest_wait_does_not_overflow() {
        let mut backoff =
            Backoff::new(Policy { first: Duration::MAX, max: Duration::MAX, reset_after: Duration::MAX });
        assert_eq!(backoff.after_run(Duration::ZERO), Duration::MAX);
        assert_eq!(backoff.after_run(Duration::ZERO), Duration::MAX);
    }
}
