//! The last stage: a budget for each source and object, so that one of them cannot drown the rest.
//!
//! A token bucket for each key, full at first. Every event takes one token; where there is none it is skipped, but
//! counted. The arithmetic is that of Go's `x/time/rate` in its order of operations, so that decisions on the edge come
//! out alike.

use std::time::Duration;

use super::options::{SpamFilter, SpamKeyFn};
use crate::record::event::{Event, EventType, Text, Timestamp};

/// The reason of a summary.
const SUPPRESSED: &str = "EventsSuppressed";

pub(super) struct BucketRules {
    exempts_warnings: bool,
    summarizes: bool,
    burst: f64,
    /// Tokens a second.
    rate: f64,
    key: Option<SpamKeyFn>,
}

pub(super) struct Bucket {
    tokens: f64,
    last: Timestamp,
    /// Events since one passed.
    skipped: u64,
}

impl BucketRules {
    pub(super) fn new(options: SpamFilter, key: Option<SpamKeyFn>) -> Self {
        Self {
            exempts_warnings: options.exempt_warnings,
            summarizes: options.summaries,
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
        Bucket { tokens: self.burst, last: now, skipped: 0 }
    }

    pub(super) fn exempts(&self, event: &Event) -> bool {
        self.exempts_warnings && event.event_type() == Some(EventType::Warning)
    }

    /// Whether there is still budget for one more event; if so it is used, and the answer is how many were skipped
    /// before it, if they are to be summed up.
    pub(super) fn take(&self, bucket: &mut Bucket, now: Timestamp) -> Option<u64> {
        // Nothing where the clock went backwards.
        let gained = go_seconds(now.duration_since(bucket.last)) * self.rate;
        let tokens = (bucket.tokens + gained).min(self.burst) - 1.0;
        // A wait of less than a nanosecond is none.
        let accepted = tokens >= 0.0 || -tokens / self.rate * 1e9 < 1.0;
        // Only what was granted moves the time, also backwards.
        if accepted {
            let skipped = if self.summarizes { bucket.skipped } else { 0 };
            *bucket = Bucket { tokens, last: now, skipped: 0 };
            Some(skipped)
        } else {
            bucket.skipped += 1;
            None
        }
    }

    /// What tells of `skipped` events before this one, without a name.
    pub(super) fn summary(event: &Event, skipped: u64, now: Timestamp) -> Event {
        let mut summary = Event::default();
        summary.metadata.namespace = event.metadata.namespace.clone();
        summary.involved_object = event.involved_object.clone();
        summary.source = event.source.clone();
        summary.type_ = event.type_.clone();
        summary.reporting_controller = event.reporting_controller.clone();
        summary.reporting_instance = event.reporting_instance.clone();
        summary.reason = SUPPRESSED.into();
        let plural = if skipped == 1 { "" } else { "s" };
        summary.message = format_args!("{skipped} event{plural} suppressed").into();
        summary.first_timestamp = Some(now);
        summary.last_timestamp = Some(now);
        summary.count = 1;
        summary
    }
}

/// Go's `Duration.Seconds`.
#[allow(clippy::cast_precision_loss, reason = "whole seconds between two dates are far below 2^53")]
fn go_seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 + f64::from(duration.subsec_nanos()) / 1e9
}
