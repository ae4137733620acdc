//! A correlator's last stage, which limits how many events about an object a source can record, so
//! that no single source and object can crowd out the others. By default, each combination of
//! source, object and type has its own budget.
//!
//! Each budget is a token bucket, which is initially full. Every event takes one token. If the
//! bucket is empty, the event is skipped but still counted. The arithmetic is the same as in Go's
//! `x/time/rate`, including the order of operations, so that borderline decisions are the same.

use std::time::Duration;

use super::options::SpamKeyFn;
use super::stage_options::SpamFilter;
use crate::record::event::{Event, EventType, Text, Timestamp};

pub(super) struct BucketRules {
    exempts_warnings: bool,
    burst: f64,
    /// The number of tokens per second.
    rate: f64,
    key: Option<SpamKeyFn>,
}

pub(super) struct Bucket {
    tokens: f64,
    last: Timestamp,
}

impl BucketRules {
    pub(super) fn new(options: SpamFilter, key: Option<SpamKeyFn>) -> Self {
        Self {
            exempts_warnings: options.exempt_warnings,
            burst: f64::from(options.burst),
            // The `f32` value itself is widened, not its decimal representation, so 1/300 becomes
            // 0.0033333334140479565, as in Go.
            rate: f64::from(options.qps),
            key,
        }
    }

    pub(super) fn has_custom_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the budget's user-supplied key, or `None` if the user has not set a key function.
    pub(super) fn custom_key(&self, event: &Event) -> Option<Text> {
        self.key.as_ref().map(|key| key(event))
    }

    pub(super) fn full(&self, now: Timestamp) -> Bucket {
        Bucket { tokens: self.burst, last: now }
    }

    pub(super) fn exempts(&self, event: &Event) -> bool {
        self.exempts_warnings && event.event_type() == Some(EventType::Warning)
    }

    /// Takes one token for an event. Returns whether the event is within the budget.
    pub(super) fn take(&self, bucket: &mut Bucket, now: Timestamp) -> bool {
        // The bucket does not gain any tokens if the clock went backwards.
        let gained = go_seconds(now.duration_since(bucket.last)) * self.rate;
        let tokens = (bucket.tokens + gained).min(self.burst) - 1.0;
        // A wait of less than a nanosecond counts as no wait.
        let accepted = tokens >= 0.0 || -tokens / self.rate * 1e9 < 1.0;
        // Only an accepted event updates the bucket's time. The time is updated even if the clock
        // went backwards.
        if accepted {
            *bucket = Bucket { tokens, last: now };
        }
        accepted
    }
}

/// Returns the seconds of a duration, like Go's `Duration.Seconds`.
#[allow(clippy::cast_precision_loss, reason = "whole seconds between two dates are far below 2^53")]
fn go_seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 + f64::from(duration.subsec_nanos()) / 1e9
}
