//! The policy that determines when a recording retries failed writes.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::record::sink::SinkError;
use crate::serde_object::object_only;

/// A function that decides whether another attempt is worthwhile after an error that a sink reports
/// as temporary.
pub(super) type RetryIf = Box<dyn FnMut(&SinkError) -> bool + Send>;

/// A policy that determines how often, and when, a recording retries a failed write.
///
/// The defaults are client-go's: 12 attempts, 10 seconds apart. The first pause is shortened at
/// random, so that many programs do not all retry at the same time. A recording retries after an
/// error that the sink reports as temporary ([`SinkErrorKind`](crate::sink::SinkErrorKind)), unless
/// [`retry_if`](crate::record::RecordingBuilder::retry_if) returns `false`.
///
/// An event that is waiting for a retry delays only later events with the same key. These later
/// events are counted during the wait, and share the waiting event's attempts. The next attempt
/// writes the newest count. With [`WriteOrder::Bus`](crate::sink::WriteOrder::Bus), an event that
/// is waiting for a retry delays all events that follow it.
///
/// If the sink reports that the store itself is unavailable (`SinkErrorKind::Unavailable`), the
/// recording stops writing. After each pause, the recording tries to write one event as a probe,
/// until the store responds. If possible, each probe is for a different key. The retry policy
/// determines the pauses. If a probe gets no response, it does not count as an attempt for its
/// event. Until the store responds, events wait in the queue, up to the queue's capacity. With a
/// [`delay`](Self::delay) of zero, the recording retries without a pause. If an event is not to be
/// retried, because [`attempts`](Self::attempts) is 1 or because of
/// [`retry_if`](crate::record::RecordingBuilder::retry_if), the event does not make other events
/// wait.
///
/// # Examples
///
/// ```
/// use eventcast::RetryPolicy;
/// use std::time::Duration;
///
/// let policy = RetryPolicy::default().attempts(3).delay(Duration::from_millis(250)).factor(2);
/// // In a configuration file, the keys are the setters' names.
/// let read: RetryPolicy = serde_json::from_str(r#"{"attempts": 3, "delay": "250ms", "factor": 2}"#)?;
/// assert_eq!(read, policy);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "a policy does nothing until a recording has it"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RetryPolicy {
    pub(super) attempts: u32,
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) delay: Duration,
    pub(super) factor: u32,
    pub(super) jitter: Jitter,
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) max_delay: Duration,
}

/// The fields that `serde` reads for [`RetryPolicy`].
#[derive(Deserialize)]
#[serde(
    remote = "RetryPolicy",
    default = "RetryPolicy::default",
    deny_unknown_fields,
    expecting = "a retry policy, as an object"
)]
struct RetryPolicyObject {
    attempts: u32,
    #[serde(deserialize_with = "crate::duration::deserialize")]
    delay: Duration,
    factor: u32,
    jitter: Jitter,
    #[serde(deserialize_with = "crate::duration::deserialize")]
    max_delay: Duration,
}

/// Selects the pauses that are shortened to a random fraction, so that many programs do not all
/// retry at the same time.
///
/// # Examples
///
/// ```
/// use eventcast::record::Jitter;
/// use eventcast::RetryPolicy;
///
/// assert_eq!(RetryPolicy::default(), RetryPolicy::default().jitter(Jitter::First));
/// let read: RetryPolicy = serde_json::from_str(r#"{"jitter": "never"}"#)?;
/// assert_eq!(read, RetryPolicy::default().jitter(Jitter::Never));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Jitter {
    /// The pause before the second attempt is shortened, as in client-go, unless the sink requested
    /// that pause.
    #[default]
    First,
    /// All pauses are shortened, except pauses that a sink requested.
    All,
    /// No pause is shortened.
    Never,
}

object_only!(RetryPolicy, RetryPolicyObject);

impl Default for RetryPolicy {
    fn default() -> Self {
        // `attempts` and `delay` are client-go's `maxTriesPerEvent` and `defaultSleepDuration`.
        // client-go has no counterpart to `max_delay`.
        let (delay, max_delay) = (Duration::from_secs(10), Duration::from_secs(60));
        Self { attempts: 12, delay, factor: 1, jitter: Jitter::First, max_delay }
    }
}

impl RetryPolicy {
    /// Sets the total number of attempts for an event. The number must be at least 1, and defaults
    /// to 12. If a probe of an unavailable store gets no response, it does not count as an attempt.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets the pause before the second attempt. Zero means no pause. Defaults to 10 s.
    pub fn delay(mut self, pause: Duration) -> Self {
        self.delay = pause;
        self
    }

    /// Sets the factor by which each pause is multiplied to give the next pause. The factor must be
    /// at least 1, and defaults to 1, which makes all pauses equal.
    pub fn factor(mut self, factor: u32) -> Self {
        self.factor = factor;
        self
    }

    /// Sets which pauses are shortened at random. Defaults to [`Jitter::First`].
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.jitter = jitter;
        self
    }

    /// Sets the upper limit for pauses that the factor increases or a sink requests. A longer
    /// [`delay`](Self::delay) is not shortened. Defaults to 1 min.
    pub fn max_delay(mut self, pause: Duration) -> Self {
        self.max_delay = pause;
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        BuildError::require(self.attempts > 0, "attempts", 0, "1 or more")?;
        BuildError::require(self.factor > 0, "factor", 0, "1 or more")
    }

    /// Returns the pause after the given number of failed attempts. `asked` is the pause that the
    /// sink requested.
    pub(super) fn pause(&self, failed: u32, asked: Option<Duration>) -> Duration {
        if let Some(asked) = asked {
            return asked.min(self.max_delay);
        }
        let grown = self.delay.saturating_mul(self.factor.saturating_pow(failed.saturating_sub(1)));
        let pause = grown.min(self.max_delay.max(self.delay));
        let is_shortened = match self.jitter {
            Jitter::First => failed == 1,
            Jitter::All => true,
            Jitter::Never => false,
        };
        if is_shortened { pause.mul_f64(part()) } else { pause }
    }
}

/// Returns a random number from 0 up to, but not including, 1.
fn part() -> f64 {
    // A hasher's keys are random, and no two hashers have the same keys.
    let bits = RandomState::new().hash_one(()) as u32;
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::{Jitter, RetryPolicy, part};
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

    #[test]
    fn pauses_grow_up_to_the_limit() {
        let seconds = Duration::from_secs;
        let policy = RetryPolicy::default().factor(2).jitter(Jitter::Never);
        let pauses: Vec<Duration> = (1..=5).map(|failed| policy.pause(failed, None)).collect();
        assert_eq!(pauses, [10, 20, 40, 60, 60].map(seconds));
        assert_eq!(policy.pause(u32::MAX, None), seconds(60));
        let policy = policy.delay(seconds(90));
        assert_eq!(policy.pause(1, None), seconds(90), "what is asked for is not cut");
        let policy = policy.jitter(Jitter::All);
        assert!((1..100).any(|failed| policy.pause(failed, None) < seconds(45)));
        assert_eq!(policy.pause(3, Some(seconds(7))), seconds(7));
    }
}
