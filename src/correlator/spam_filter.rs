//! The last stage: a budget for each source and object, so that one of them cannot drown the rest.
//!
//! A token bucket for each key, full at first. Every event takes one token; where there is none it is skipped, after
//! it has been counted. The arithmetic is that of Go's `x/time/rate` in its order of operations, so that decisions on the
//! edge come out alike.

use std::time::Duration;

use super::key::KeyRef;
use super::lru::LruCache;
use super::options::{SpamFilter, SpamKeyFn};
use crate::event::{Event, Timestamp};

pub(super) struct Filter {
    buckets: LruCache<Bucket>,
    burst: f64,
    /// Tokens a second.
    rate: f64,
    key: Option<SpamKeyFn>,
}

struct Bucket {
    tokens: f64,
    last: Timestamp,
}

impl Filter {
    pub(super) fn new(options: SpamFilter, entries: usize, key: Option<SpamKeyFn>) -> Self {
        Self {
            buckets: LruCache::new(entries),
            burst: f64::from(options.burst),
            // Widened, not converted by its digits: 1/300 is 0.0033333334140479565 here as it is there.
            rate: f64::from(options.qps),
            key,
        }
    }

    /// Whether there is still budget for this event; if so it is used.
    pub(super) fn accepts(&self, event: &Event, now: Timestamp) -> bool {
        match &self.key {
            None => self.take(&KeyRef::Spam(event), now),
            Some(key) => self.take(&KeyRef::Custom(&key(event)), now),
        }
    }

    fn take(&self, key: &KeyRef<'_>, now: Timestamp) -> bool {
        let make = || Bucket { tokens: self.burst, last: now };
        self.buckets.with(key, make, |_, bucket| {
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
        })
    }

    pub(super) fn evicted(&self) -> u64 {
        self.buckets.evicted()
    }
}

/// Go's `Duration.Seconds`.
#[allow(clippy::cast_precision_loss, reason = "whole seconds between two dates are far below 2^53")]
fn go_seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 + f64::from(duration.subsec_nanos()) / 1e9
}
