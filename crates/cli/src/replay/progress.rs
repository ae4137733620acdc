//! The progress of a replay, which consists of the number of replayed events, the total number of
//! events, and the remaining time.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::support::duration::rough;
use crate::support::number::grouped;
use crate::support::progress::Progress;

/// Runs with fewer events than this are too short for progress to be shown.
const LONG: usize = 20_000;

/// Counts the replayed events and shows the count in a progress line.
#[derive(Debug)]
pub(crate) struct Replayed {
    line: Progress,
    begin: Instant,
    events: Cell<usize>,
    all: usize,
}

impl Replayed {
    pub(crate) fn new(all: usize) -> Self {
        let line = if all < LONG { Progress::hidden() } else { Progress::new() };
        Self { line, begin: Instant::now(), events: Cell::new(0), all }
    }

    /// Adds to the number of replayed events.
    pub(crate) fn add(&self, events: usize) {
        self.events.set(self.events.get() + events);
        self.line.show(|| text(self.events.get(), self.all, self.begin.elapsed()));
    }

    /// Removes the progress line.
    pub(crate) fn clear(&self) {
        self.line.clear();
    }
}

fn text(events: usize, all: usize, passed: Duration) -> String {
    let left = passed.as_millis() * all.saturating_sub(events) as u128 / events.max(1) as u128;
    let seconds = u64::try_from(left.div_ceil(1000)).unwrap_or(u64::MAX);
    let [events, all] = [events, all].map(|number| grouped(number as u64));
    format!("{events} of {all} events, {} left", rough(seconds))
}

#[cfg(test)]
mod tests {
    use super::text;
    use std::time::Duration;

    #[test]
    fn the_rest_takes_as_long_for_each_event() {
        let text = |events, all, seconds| text(events, all, Duration::from_secs(seconds));
        assert_eq!(text(10_240, 1_024_000, 1), "10,240 of 1,024,000 events, 1m39s left");
        assert_eq!(text(1_024_000, 1_024_000, 100), "1,024,000 of 1,024,000 events, 0s left");
        assert_eq!(text(0, 20_000, 1), "0 of 20,000 events, 5h33m left");
    }
}
