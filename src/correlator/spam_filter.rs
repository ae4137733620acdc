//! The last stage: a budget for each source and object, so that one of them cannot drown the rest.
//!
//! A token bucket for each key, full at first. Every event takes one token; where there is none it is skipped, but
//! counted. The arithmetic is that of Go's `x/time/rate` in its order of operations, so that decisions on the edge come
//! out alike.

use std::time::Duration;

use super::options::{SpamFilter, SpamKeyFn};
use crate::event::{Event, Text, Timestamp};

pub(super) struct Filter {
    burst: f64,
    /// Tokens a second.
    rate: f64,
    key: Option<SpamKeyFn>,
}

pub(super) struct Bucket {
    tokens: f64,
    last: Timestamp,
}

impl Filter {
    pub(super) fn new(options: SpamFilter, key: Option<SpamKeyFn>) -> Self {
        Self {
            burst: f64::from(options.burst),
            // Widened, not converted by its digits: 1/300 is 0.0033333334140479565 here as it is there.
            rate: f64::from(options.qps),
            key,
        }
    }

    pub(super) fn has_custom_key(&self) -> bool {
        self.key.is_some()
    }

    /// The budget's key, if the user has a function for it.
    pub(super) fn custom_key(&self, event: &Event) -> Option<Text> {
        self.key.as_ref().map(|key| key(event))
    }

    pub(super) fn full(&self, now: Timestamp) -> Bucket {
        Bucket { tokens: self.burst, last: now }
    }

    /// Whether there is still budget for one more event; if so it is used.
    pub(super) fn take(&self, bucket: &mut Bucket, now: Timestamp) -> bool {
        // Nothing where the clock went backwards.
        let gained = go_seconds(now.duration_since(bucket.last)) * self.rate;
        let tokens = (bucket.tokens + gained).min(self.burst) - 1.0;
        // A wait of less than a nanosecond is none.
        let accepted = tokens >= 0.0 || -tokens / self.rate * 1e9 < 1.0;
        // Only what was granted moves the time, also backwards.
        if accepted {
            *bucket = Bucket { tokens, last: now };
        }
        accepted
    }
}

/// Go's `Duration.Seconds`.
#[allow(clippy::cast_precision_loss, reason = "whole seconds between two dates are far below 2^53")]
fn go_seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 + f64::from(duration.subsec_nanos()) / 1e9
}
