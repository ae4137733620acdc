//! The pauses between attempts.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::options::RetryOptions;

/// The pauses between attempts at one operation. Each pause is twice as long as the previous pause,
/// up to a limit. Each pause is also randomly shortened by up to a quarter, so that many clients do
/// not retry at the same time.
pub(crate) struct Backoff {
    next: Duration,
    max: Duration,
    random: RandomState,
    count: u64,
}

impl Backoff {
    pub(crate) fn new(options: &RetryOptions) -> Self {
        Self { next: options.min, max: options.max, random: RandomState::new(), count: 0 }
    }

    /// Makes every later pause as long as the limit.
    pub(crate) fn be_longest(&mut self) {
        self.next = self.max;
    }

    pub(crate) fn next(&mut self) -> Duration {
        let pause = self.next.min(self.max);
        self.next = pause.saturating_mul(2);
        self.count += 1;
        let part = u32::try_from(self.random.hash_one(self.count) % 256).unwrap_or(0);
        pause.saturating_sub(pause / 1024 * part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit() {
        let mut options = RetryOptions::default();
        (options.min, options.max) = (Duration::from_millis(100), Duration::from_millis(350));
        let mut backoff = Backoff::new(&options);
        for full in [100, 200, 350, 350] {
            let pause = backoff.next().as_millis();
            assert!((full * 3 / 4 - 1..=full).contains(&pause), "{pause} of {full}");
        }
        backoff = Backoff::new(&options);
        backoff.be_longest();
        assert!(backoff.next() > Duration::from_millis(250));
    }
}
