//! The last stage of a correlator: a budget for each source and object, so that no single one can
//! crowd out the rest.
//!
//! Each key has a token bucket, which is full at first. Every event takes one token. If the bucket
//! has none, the event is skipped, but counted. The arithmetic is that of Go's `x/time/rate` in the
//! same order of operations, so that decisions on the edge come out alike.

use std::time::Duration;

use super::options::SpamKeyFn;
use super::stage_options::SpamFilter;
use crate::record::event::{Event, EventType, Text, Timestamp};

/// The reason of a summary.
const SUPPRESSED: &str = "EventsSuppressed";

pub(super) struct BucketRules {
    exempts_warnings: bool,
    summarizes: bool,
    burst: f64,
    /// The number of tokens per second.
    rate: f64,
    key: Option<SpamKeyFn>,
}

pub(super) struct Bucket {
    tokens: f64,
    last: Timestamp,
    /// The number of events that were skipped since one passed.
    skipped: u64,
}

impl BucketRules {
    pub(super) fn new(options: SpamFilter, key: Option<SpamKeyFn>) -> Self {
        Self {
            exempts_warnings: options.exempt_warnings,
            summarizes: options.summaries,
            burst: f64::from(options.burst),
            // The value is widened, not converted by its digits. 1/300 is 0.0033333334140479565, as
            // in Go.
            rate: f64::from(options.qps),
            key,
        }
    }

    pub(super) fn has_custom_key(&self) -> bool {
        self.key.is_some()
    }

    /// Returns the budget's key. Returns `None` if the user gave no function for it.
    pub(super) fn custom_key(&self, event: &Event) -> Option<Text> {
        self.key.as_ref().map(|key| key(event))
    }

    pub(super) fn full(&self, now: Timestamp) -> Bucket {
        Bucket { tokens: self.burst, last: now, skipped: 0 }
    }

    pub(super) fn exempts(&self, event: &Event) -> bool {
        self.exempts_warnings && event.event_type() == Some(EventType::Warning)
    }

    /// Takes budget for one more event. Returns `None` if there is none left, and counts the event
    /// as skipped. Otherwise returns how many events were skipped before this one, or 0 if skipped
    /// events are not to be summarized.
    pub(super) fn take(&self, bucket: &mut Bucket, now: Timestamp) -> Option<u64> {
        // The bucket gains nothing if the clock went backwards.
        let gained = go_seconds(now.duration_since(bucket.last)) * self.rate;
        let tokens = (bucket.tokens + gained).min(self.burst) - 1.0;
        // A wait of less than a nanosecond counts as none.
        let accepted = tokens >= 0.0 || -tokens / self.rate * 1e9 < 1.0;
        // Only an accepted event moves the time, even backwards.
        if accepted {
            let skipped = if self.summarizes { bucket.skipped } else { 0 };
            *bucket = Bucket { tokens, last: now, skipped: 0 };
            Some(skipped)
        } else {
            bucket.skipped += 1;
            None
        }
    }

    /// Returns the event that reports `skipped` skipped events before this one, without a name.
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

/// Returns the seconds of a duration, as Go's `Duration.Seconds` does.
#[allow(clippy::cast_precision_loss, reason = "whole seconds between two dates are far below 2^53")]
fn go_seconds(duration: Duration) -> f64 {
    duration.as_secs() as f64 + f64::from(duration.subsec_nanos()) / 1e9
}
