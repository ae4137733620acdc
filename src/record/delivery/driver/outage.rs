//! Whether the store is there, and the reports about that.

use std::time::Duration;

use crate::record::event::Timestamp;
use crate::record::stats::SinkFailure;

use super::{Driver, SILENCE};

impl Driver {
    /// Ends a round of answers: sets when the next probe is due if the store is unavailable.
    pub(super) fn end_round(&mut self) {
        if let Some((rounds, wait)) = self.breaker.end_round() {
            let until = self.moment_after(self.retry.pause(rounds, wait));
            self.breaker.wait(until);
            if let Some(failure) = &self.tally.last_failure {
                self.alerts.unavailable(&self.clock, &self.name, failure);
            }
        }
    }

    /// Decides whether the store is there, and reports when that changes. If the recording is done,
    /// no event waits for the store any more.
    pub(super) fn judge_store(&mut self, is_done: bool) {
        let silent_since = self.silent_since();
        let known = self.tally.unavailable_since;
        let since = match self.breaker.since().into_iter().chain(silent_since).min() {
            Some(since) if !is_done => Some(known.map_or(since, |known| known.min(since))),
            _ => None,
        };
        self.tally.unavailable_since = since;
        match (known, since) {
            (None, Some(since)) => {
                if self.breaker.since().is_none() {
                    let text = format!("no answer from the sink for {} s", SILENCE.as_secs());
                    let failure = SinkFailure { text, since, attempts: 1 };
                    self.alerts.unavailable(&self.clock, &self.name, &failure);
                    self.tally.last_failure = Some(failure);
                }
                if let Some(failure) = &self.tally.last_failure {
                    self.tally.panics += u64::from(self.alerts.begin(&self.name, since, &failure.text));
                }
            }
            // At the end of the recording the store may still be unavailable.
            (Some(since), None) if !is_done => {
                self.tally.panics += u64::from(self.alerts.end(&self.name, since));
            }
            _ => {}
        }
    }

    /// Returns since when the sink has not answered, if that is longer than a sink that works
    /// needs.
    fn silent_since(&self) -> Option<Timestamp> {
        let (at, since) = self.writers.longest_call()?;
        self.has_lasted(at, SILENCE).then_some(since)
    }

    /// Returns when the sink will have been silent for too long. Returns `None` if no call runs, or
    /// if the sink has been silent for too long already.
    pub(super) fn silence_begins(&self) -> Option<Duration> {
        let (at, _) = self.writers.longest_call()?;
        let is_awaited = !self.clock.is_fake() && !self.has_lasted(at, SILENCE);
        is_awaited.then(|| at.saturating_add(SILENCE))
    }

    /// Returns whether a call of the sink that began at a time takes at least that long. A call
    /// takes real time, so a fake clock says nothing about it.
    pub(super) fn has_lasted(&self, since: Duration, time: Duration) -> bool {
        !self.clock.is_fake() && self.has_passed(since.saturating_add(time))
    }
}
