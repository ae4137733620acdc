//! When to try a failed write again.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::document::document;
use crate::error::BuildError;

/// How often, and when, a recording tries again what a sink could not do.
///
/// The defaults are client-go's: 12 attempts, 10 seconds apart, the first pause shortened at random so that many programs
/// do not come back together.
///
/// # Examples
///
/// ```
/// use eventcast::RetryPolicy;
/// use std::time::Duration;
///
/// let policy: RetryPolicy = serde_json::from_str(r#"{"attempts": 3, "delay": "250ms"}"#)?;
/// assert_eq!((policy.attempts, policy.delay), (3, Duration::from_millis(250)));
/// assert_eq!(RetryPolicy::default().delay, Duration::from_secs(10));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields, expecting = "a retry policy, as an object")]
#[non_exhaustive]
pub struct RetryPolicy {
    /// How often an event is tried in all. 1 or more, default 12.
    pub attempts: u32,
    /// The pause before each further attempt; the first one is a random part of it. Zero is no pause. Default 10 s.
    #[serde(with = "crate::duration")]
    pub delay: Duration,
    /// The longest pause when the sink says how long it wants to be left alone. Default 1 min.
    #[serde(with = "crate::duration")]
    pub max_delay: Duration,
}

document!(RetryPolicy);

impl Default for RetryPolicy {
    fn default() -> Self {
        // client-go's `maxTriesPerEvent` and `defaultSleepDuration`; the last one is our own.
        Self { attempts: 12, delay: Duration::from_secs(10), max_delay: Duration::from_secs(60) }
    }
}

impl RetryPolicy {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if self.attempts == 0 {
            return Err(BuildError::new("attempts", self.attempts, "1 or more"));
        }
        Ok(())
    }

    /// The pause after so many attempts that failed.
    pub(super) fn pause(&self, failed: u32, asked: Option<Duration>) -> Duration {
        match asked {
            Some(asked) => asked.min(self.max_delay),
            None if failed == 1 => self.delay.mul_f64(part()),
            None => self.delay,
        }
    }
}

/// A random number of at least 0 and less than 1.
fn part() -> f64 {
    // A hasher's keys are random, and no two are the same.
    let bits = RandomState::new().hash_one(()) as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::{RetryPolicy, part};
    use std::time::Duration;

    #[test]
    fn parts_spread_over_the_whole_range_and_stay_below_one() {
        let parts: Vec<f64> = (0..1000).map(|_| part()).collect();
        assert!(parts.iter().all(|part| (0.0..1.0).contains(part)));
        for tenth in 0..10 {
            let range = f64::from(tenth) / 10.0..f64::from(tenth + 1) / 10.0;
            assert!(parts.iter().any(|part| range.contains(part)), "{range:?}");
        }
    }

    #[test]
    fn only_the_first_own_pause_is_shortened() {
        let policy = RetryPolicy::default();
        assert!(policy.pause(1, None) < policy.delay);
        assert_eq!(policy.pause(2, None), policy.delay);
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        assert_eq!(policy.pause(1, Some(second)), second);
        assert_eq!(policy.pause(5, Some(hour)), policy.max_delay);
    }
}
